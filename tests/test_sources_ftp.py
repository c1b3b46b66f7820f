"""FTP servers as a source, against a real one on loopback; and servers that mean harm."""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Sequence
from html import unescape
from pathlib import Path

import pytest
import trio
import trustme

from gcs.core.listings import Listed, from_facts, from_ls, moment
from gcs.core.sources import Logins
from gcs.core.urls import key
from gcs.fetch.addresses import Guard
from gcs.fetch.outcome import Failure, Outcome, Reason, Response
from gcs.sources import answers
from gcs.sources.answers import Conditions
from gcs.sources.chosen import named
from gcs.sources.ftp import Received, Reply
from gcs.sources.ftpservers import FtpServers, _entries
from gcs.store.store import Store
from tests.crawling import configured, crawl, gcs
from tests.filetree import plant
from tests.ftpserver import serve
from tests.saying import saying

LONG_AGO = (1_000_000_000, 1_000_000_000)
OLD = ("MLSD", "MLST", "EPSV", "EPRT")


async def loopback(host: str) -> Sequence[str] | Failure:
    """The address of a host, that of this machine."""
    return [host]


def client(
    authority: trustme.CA | None = None, *, logins: Sequence[str] = (), max_body_bytes: int = 1 << 20
) -> FtpServers:
    """A source that trusts an authority."""

    def context() -> ssl.SSLContext:
        made = ssl.create_default_context()
        if authority is not None:
            authority.configure_trust(made)
        return made

    return FtpServers(
        loopback, Logins(logins), context=context, max_body_bytes=max_body_bytes, connect_timeout_s=30
    )


async def ask(asking: FtpServers, url: str, etag: str = "") -> Response:
    """An answer that is no failure."""
    found = await asking.fetch(url, Conditions(etag))
    assert isinstance(found, Response), found
    return found


def hrefs(found: Response) -> list[str]:
    """The links of a page."""
    return [unescape(each) for each in re.findall(r'href="([^"]*)"', found.body.decode())]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A directory with files of long ago."""
    made = tmp_path / "pub"
    (made / "docs").mkdir(parents=True)
    (made / "a b.txt").write_bytes(b"one\ntwo\r\n")
    (made / "ünicode").write_bytes(b"three")
    (made / "docs" / "c").write_bytes(b"x" * 5000)
    os.utime(made / "a b.txt", LONG_AGO)
    return made


@pytest.mark.parametrize("without", [(), OLD, ("MLSD", "MLST", "SIZE", "MDTM")])
async def test_directories_and_files(root: Path, without: Sequence[str]) -> None:
    """A directory lists its entries and a file is its bytes, also at servers that know old commands only."""
    with serve(root, without=without) as served:
        asking, at = client(), f"ftp://127.0.0.1:{served.port}"
        assert hrefs(await ask(asking, f"{at}/")) == ["./a%20b.txt", "./docs/", "./%C3%BCnicode"]
        found = await ask(asking, f"{at}/a%20b.txt")
        assert (found.status, found.body) == (200, b"one\ntwo\r\n")
        assert found.headers.get("last-modified") == (
            "Sun, 09 Sep 2001 01:46:40 GMT" if "MDTM" not in without else None
        )
        assert (await ask(asking, f"{at}/docs")).headers["location"] == f"{at}/docs/"
        assert hrefs(await ask(asking, f"{at}/docs/")) == ["./c"]
        for path in ("/none", "/none/", "/a%20b.txt/", "/docs/c/d", "/a%0D%0ADELE%20c"):
            assert (await ask(asking, at + path)).status == 404
        await asking.aclose()
    assert (served.connections, served.most_at_once) == (1, 1)
    assert not any(line.startswith("DELE") for line in served.asked)


async def test_nothing_that_was_read_is_read_again(root: Path) -> None:
    """A file with the same time and size is not modified; one that has just changed has no validator."""
    with serve(root) as served:
        asking, at = client(), f"ftp://127.0.0.1:{served.port}"
        etag = (await ask(asking, f"{at}/a%20b.txt")).headers["etag"]
        assert (await ask(asking, f"{at}/a%20b.txt", etag)).status == 304
        (root / "a b.txt").write_bytes(b"other")
        found = await ask(asking, f"{at}/a%20b.txt", etag)
        assert (found.status, found.headers.get("etag")) == (200, None)
        await asking.aclose()


async def test_pieces(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pieces of a long directory have all of its entries, and are read from one listing."""
    monkeypatch.setattr(answers, "PIECE", 10)
    for number in range(100):
        (root / "docs" / f"{number:03}").touch()
    with serve(root) as served:
        asking, at = client(), f"ftp://127.0.0.1:{served.port}/docs/"
        names, after, pieces = [], "", 0
        while True:
            found = await ask(asking, at + after)
            pieces += 1
            names += [href for href in hrefs(found) if href.startswith("./")]
            more = re.findall(r'rel=next href="([^"]*)"', found.body.decode())
            if not more:
                break
            after = more[0]
        await asking.aclose()
    assert names == [*(f"./{number:03}" for number in range(100)), "./c"]
    assert pieces > 2
    assert served.asked.count("MLSD") == 1


@pytest.mark.parametrize("without", [(), ("MLSD",)])
async def test_loops_of_links_end(root: Path, without: Sequence[str]) -> None:
    """Symbolic links lead to where they lead, and a loop of them is not gone round."""
    (root / "docs" / "up").symlink_to("..")
    (root / "docs" / "self").symlink_to(".")
    with serve(root, without=without) as served:
        asking, at = client(), f"ftp://127.0.0.1:{served.port}"
        seen, left = set[str](), [f"{at}/"]
        while left:
            url = left.pop()
            if url in seen or len(seen) > 100:
                continue
            seen.add(url)
            left += [url + href[2:] for href in hrefs(await ask(asking, url)) if href.endswith("/")]
        await asking.aclose()
    assert len(seen) < 20


async def test_long_files(root: Path) -> None:
    """Of a file that is too long the beginning is read, and then another connection is used."""
    with serve(root) as served:
        asking, at = client(max_body_bytes=1000), f"ftp://127.0.0.1:{served.port}"
        for _ in range(2):
            found = await ask(asking, f"{at}/docs/c")
            assert (found.body, found.truncated) == (b"x" * 1000, "length")
        await asking.aclose()
    assert served.connections == 2


async def test_long_listings(root: Path) -> None:
    """Of a listing that is too long the first lines are read, and none of them by half."""
    for number in range(100):
        (root / "docs" / f"{number:03}-{'x' * 40}").touch()
    with serve(root) as served:
        for most in range(4000, 4120, 20):
            asking = client(max_body_bytes=most)
            found = await ask(asking, f"ftp://127.0.0.1:{served.port}/docs/")
            await asking.aclose()
            assert found.truncated == "length"
            assert {len(href) for href in hrefs(found)} - {len("./c")} == {len(f"./000-{'x' * 40}")}


def test_lines_that_are_no_entries() -> None:
    """A line that is longer than any name is not read."""
    found = Received(Reply(226, ()), b"type=file; a\r\ntype=file; " + b"b" * 20_000 + b"\r\ntype=dir; c\r\n")
    assert _entries(found, b"/", from_facts).names == [b"a", b"c/"]


async def test_an_idle_connection_that_was_closed(root: Path) -> None:
    """When the server has hung up meanwhile, it is connected to again."""
    with serve(root, hangs_up_after=7) as served:
        asking, at = client(), f"ftp://127.0.0.1:{served.port}"
        for _ in range(4):
            assert (await ask(asking, f"{at}/a%20b.txt")).status == 200
        await asking.aclose()


async def test_transfers_come_from_the_server_itself(root: Path) -> None:
    """A server that names another address for transfers is not followed there."""
    with serve(root, without=OLD, elsewhere="192.0.2.1") as served:
        asking = client()
        found = await ask(asking, f"ftp://127.0.0.1:{served.port}/a%20b.txt")
        assert found.body == b"one\ntwo\r\n"
        await asking.aclose()


class TestLogins:
    """Passwords, and TLS."""

    async def test_over_tls(self, root: Path, tmp_path: Path) -> None:
        """With a login everything is asked over TLS; a wrong one is no answer, and is not said."""
        authority = trustme.CA()
        issued = authority.issue_cert("127.0.0.1")
        issued.private_key_and_cert_chain_pem.write_to_path(tmp_path / "pem")
        with serve(root, login=("ann", "secret"), certificate=tmp_path / "pem") as served:
            url = f"ftp://127.0.0.1:{served.port}/docs/"
            asking = client(authority, logins=[f"ann:secret@127.0.0.1:{served.port}"])
            assert hrefs(await ask(asking, url)) == ["./c"]
            assert (await ask(asking, f"{url}c")).body == b"x" * 5000
            await asking.aclose()
            assert served.asked.index("AUTH TLS") < served.asked.index("USER ann")
            assert "PROT P" in served.asked
            for logins in ([], ["ann:wrong@127.0.0.1"]):
                found = await client(authority, logins=logins).fetch(url, Conditions())
                assert isinstance(found, Failure)
                assert "login" in found.detail
                assert "wrong" not in found.detail
            stranger = await client(logins=["ann:secret@127.0.0.1"]).fetch(url, Conditions())
            assert isinstance(stranger, Failure)
            assert stranger.reason is Reason.TLS

    async def test_never_in_the_clear(self, root: Path) -> None:
        """To a server without TLS no password is sent: it is not asked at all."""
        with serve(root, login=("ann", "secret")) as served:
            asking = client(logins=["ann:secret@127.0.0.1"])
            found = await asking.fetch(f"ftp://127.0.0.1:{served.port}/", Conditions())
        assert isinstance(found, Failure)
        assert "TLS" in found.detail
        assert not any(line.startswith(("USER", "PASS")) for line in served.asked)


async def test_addresses(root: Path) -> None:
    """No address is asked that the guard refuses, and nobody at all where a proxy has to be asked."""

    async def guarded(host: str) -> Sequence[str] | Failure:
        refused = Guard().refusal(host)
        return Failure(Reason.ADDRESS, refused) if refused else [host]

    async def behind_proxy(_: str) -> Sequence[str] | Failure:
        return ()

    with serve(root) as served:
        for addresses, reason in ((guarded, Reason.ADDRESS), (behind_proxy, Reason.PROXY)):
            asking = FtpServers(
                addresses,
                Logins(),
                context=ssl.create_default_context,
                max_body_bytes=1 << 20,
                connect_timeout_s=30,
            )
            found = await asking.fetch(f"ftp://127.0.0.1:{served.port}/", Conditions())
            assert isinstance(found, Failure)
            assert found.reason is reason
    assert served.connections == 0


async def test_a_crawl(root: Path, tmp_path: Path) -> None:
    """A crawl of a server reads every file below a seed once, over one connection and without delays."""
    (tmp_path / "hosts").touch()
    (root / "other").mkdir()
    urls = plant(root / "docs" / "many", 30)
    with serve(root) as served:
        seed = f"ftp://127.0.0.1:{served.port}/docs/"
        config = configured(tmp_path / "hosts", fetch={"delay_s": 30.0}, sources={"ftp": (seed,)})
        await crawl(config, [seed], tmp_path / "crawl")
    with Store.open(tmp_path / "crawl", config.store, resume=True) as store:
        for url in urls:
            row = store.get(key(seed + url.removeprefix(f"file://{root}/docs/")))
            assert row is not None
            assert row.status == 200
        assert store.counts().queued == 0
    read = [line for line in served.asked if line.startswith("RETR")]
    assert len(read) == len(set(read)) == 31
    assert served.most_at_once == 1


def test_goes_on(root: Path, tmp_path: Path) -> None:
    """A crawl of a server that was interrupted remembers what was allowed, and ends complete."""
    plant(root, 60)
    with serve(root) as served:
        seed, place = f"ftp://127.0.0.1:{served.port}/", tmp_path / "crawl"
        first = gcs("crawl", seed, "--into", str(place), "--max-pages", "30")
        assert first.returncode == 5, first.stderr
        again = gcs("crawl", "--resume", "--into", str(place))
        assert again.returncode == 0, again.stderr
    read = [line for line in served.asked if line.startswith("RETR")]
    assert len(read) == len(set(read)) == 63


def test_a_seed_allows_its_server(tmp_path: Path) -> None:
    """A directory that is named on the command line may be read, and what is beside it may not."""
    config = configured(tmp_path / "hosts", sources={"ftp": ("ftp://a.example/pub",)})
    assert named(config, ["ftp://a.example/pub/x"]) == []
    assert named(config, ["FTP://b.example:21/"]) == ["sources.ftp=ftp://a.example/pub ftp://b.example/"]


class TestListings:
    """What servers say of their files."""

    @pytest.mark.parametrize(
        ("line", "listed"),
        [
            (b"type=file;size=12;modify=20010909014640; a b", Listed(b"a b", False, 12, 1e9)),
            (b"Type=dir;Unique=5U;Modify=20010909014640.123; d", Listed(b"d", True, None, 1e9, b"", b"5U")),
            (b"type=OS.unix=slink:/pub/x;size=1; l", Listed(b"l", False, 1, None, b"/pub/x")),
            (b"type=cdir; .", None),
            (b"type=pdir; ..", None),
            (b"type=OS.unix=chr-1/2; tty", None),
            (b"nonsense", None),
            (b"", None),
        ],
    )
    def test_facts(self, line: bytes, listed: Listed | None) -> None:
        """Facts are read as RFC 3659 has them."""
        assert from_facts(line) == listed

    @pytest.mark.parametrize(
        ("line", "listed"),
        [
            (b"-rw-r--r--   1 ann      users        1234 Jan  2 03:04 a  b", Listed(b"a  b")),
            (b"drwxr-xr-x+  2 ann 4096 Jan 12  2024 d", Listed(b"d", True)),
            (b"lrwxrwxrwx   1 0 0 4 Feb 29 23:59 l -> ../x y", Listed(b"l", leads_to=b"../x y")),
            (b"crw-rw-rw-   1 root root 1, 3 Jan 1 00:00 null", None),
            (b"total 12", None),
            (b"", None),
        ],
    )
    def test_ls(self, line: bytes, listed: Listed | None) -> None:
        """Lines are read as `ls -l` writes them."""
        assert from_ls(line) == listed

    def test_times(self) -> None:
        """What is no time is none."""
        assert moment(b"20010909014640") == 1e9
        assert [moment(text) for text in (b"", b"20011309014640", b"2001", b"x" * 14)] == [None] * 4


class TestHostile:
    """Servers that do not keep to the protocol."""

    async def ask(self, *said: bytes, path: str = "/a", **settings: object) -> Outcome:
        """What comes of asking a server that says these things, one after each command."""
        async with saying(said) as port:
            asking = client(**settings)  # type: ignore[arg-type]
            found = await asking.fetch(f"ftp://127.0.0.1:{port}{path}", Conditions())
            await asking.aclose()
        return found

    @pytest.mark.parametrize(
        "said",
        [
            [b"421 too many connections\r\n"],
            [b"SSH-2.0-OpenSSH\r\n"],
            [b"220 " + b"x" * 100_000],
            [b"220-hello\r\n" + b"and so on\r\n" * 2000],
            [b"220 hello\r\n", b"230 in\r\n", b"500 what?\r\n"],
            [b"220 hello\r\n", b"230 in\r\n", b"200 ok\r\n", b"550 no\r\n", b"229 (|||25|)\r\n"],
            [b"220 hello\r\n", b"230 in\r\n", b"200 ok\r\n", b"550 no\r\n", b"500 no\r\n", b"227 (1,2)\r\n"],
            [b"220 hello\r\n", b"230 in\r\n", b"200 ok\r\n"],
        ],
    )
    async def test_what_is_no_answer(self, said: list[bytes]) -> None:
        """A refusal, another protocol, lines and replies without end and ports of other services are none."""
        found = await self.ask(*said)
        assert isinstance(found, Failure)
        assert found.reason is Reason.CONNECT

    @pytest.mark.parametrize(("code", "status"), [(226, 200), (451, 500), (550, 404)])
    async def test_how_a_transfer_ends(self, code: int, status: int) -> None:
        """What a server refuses in the middle of a file is not taken for the file, nor against the server."""

        async def transfer(stream: trio.SocketStream) -> None:
            async with stream:
                await stream.send_all(b"one")

        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = listener.socket.getsockname()[1]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.serve_listeners, transfer, [listener])
            found = await self.ask(
                *(b"220 hello\r\n", b"230 in\r\n", b"200 ok\r\n", b"550 no\r\n", b"229 (|||%d|)\r\n" % port),
                *(b"150 look\r\n%d so\r\n" % code, b"550 no directory\r\n"),
            )
            nursery.cancel_scope.cancel()
        assert isinstance(found, Response), found
        assert (found.status, found.body) == (status, b"one" if status == 200 else b"")

    async def test_a_reply_of_long_lines(self) -> None:
        """A reply of many long lines is not read to its end."""
        found = await self.ask(b"220-hello\r\n" + (b"x" * 60_000 + b"\r\n") * 30 + b"220 hello\r\n")
        assert isinstance(found, Failure)
        assert "without end" in found.detail

    @pytest.mark.parametrize(("code", "status"), [(450, 500), (451, 500), (501, 404), (550, 404), (532, 403)])
    async def test_what_is_about_one_directory(self, code: int, status: int) -> None:
        """A server that refuses one thing answers, and is not taken for one that cannot be asked."""
        found = await self.ask(
            *(b"220 hello\r\n", b"230 in\r\n", b"200 ok\r\n", b"%d no\r\n" % code), path="/docs/"
        )
        assert isinstance(found, Response), found
        assert found.status == status

    async def test_words_before_tls(self) -> None:
        """What somebody says before TLS has begun is not taken for what the server says in it."""
        found = await self.ask(b"220 hello\r\n", b"234 go on\r\n200 ok\r\n", logins=["ann:secret@127.0.0.1"])
        assert isinstance(found, Failure)
        assert "TLS" in found.detail
