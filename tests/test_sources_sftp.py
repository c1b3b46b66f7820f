"""SSH servers as a source, against one of paramiko's on loopback."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator, Sequence
from html import unescape
from pathlib import Path

import paramiko
import pytest
import trio
from paramiko import SFTPServer
from paramiko.sftp import CMD_ATTRS

from gcs.core.sources import Logins
from gcs.core.urls import key
from gcs.errors import ConfigError
from gcs.fetch.addresses import Guard
from gcs.fetch.outcome import Failure, Reason, Response
from gcs.sources import answers
from gcs.sources.answers import Conditions
from gcs.sources.sftp import SftpServers
from gcs.store.store import Store
from tests.crawling import configured, crawl
from tests.filetree import plant
from tests.sshserver import Served, serve

LONG_AGO = (1_000_000_000, 1_000_000_000)


async def loopback(host: str) -> Sequence[str] | Failure:
    """The address of a host, that of this machine."""
    return [host]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """A server of some files."""
    root = tmp_path / "root"
    (root / "docs").mkdir(parents=True)
    (root / "a b.txt").write_bytes(b"one")
    (root / "docs" / "c").write_bytes(b"x" * 100_000)
    (root / "docs" / "up").symlink_to("..")
    os.mkfifo(root / "pipe")
    os.utime(root / "a b.txt", LONG_AGO)
    with serve(Served(root, ("ann", "secret"))) as made:
        (tmp_path / "known_hosts").write_text(made.known_hosts)
        yield made


def client(
    served: Served, *, password: str = "", ssh_key: Path | None = None, max_body_bytes: int = 1 << 20
) -> SftpServers:
    """A source that knows the server."""
    return SftpServers(
        loopback,
        Logins([f"ann:{password or served.login[1]}@127.0.0.1"]),
        known_hosts=served.root.parent / "known_hosts",
        key=ssh_key,
        max_body_bytes=max_body_bytes,
        timeout_s=30.0,
    )


async def ask(asking: SftpServers, served: Served, path: str, etag: str = "") -> Response:
    """An answer that is no failure."""
    found = await asking.fetch(f"sftp://127.0.0.1:{served.port}{path}", Conditions(etag))
    assert isinstance(found, Response), found
    return found


def hrefs(found: Response) -> list[str]:
    """The links of a page."""
    return [unescape(each) for each in re.findall(r'href="([^"]*)"', found.body.decode())]


async def test_directories_and_files(served: Served) -> None:
    """A directory lists its entries and a file is its bytes; links are redirects to where they lead."""
    asking, at = client(served), f"sftp://127.0.0.1:{served.port}"
    assert hrefs(await ask(asking, served, "/")) == ["./a%20b.txt", "./docs/", "./pipe"]
    found = await ask(asking, served, "/a%20b.txt")
    assert (found.status, found.body) == (200, b"one")
    assert found.headers["last-modified"] == "Sun, 09 Sep 2001 01:46:40 GMT"
    assert (await ask(asking, served, "/a%20b.txt", found.headers["etag"])).status == 304
    assert (await ask(asking, served, "/docs/c")).body == b"x" * 100_000
    assert (await ask(asking, served, "/docs")).headers["location"] == f"{at}/docs/"
    assert (await ask(asking, served, "/docs/up")).headers["location"] == f"{at}/"
    assert (await ask(asking, served, "/docs/up/docs/c")).headers["location"] == f"{at}/docs/c"
    assert (await ask(asking, served, "/pipe")).status == 403
    for path in ("/none", "/none/", "/a%20b.txt/", "/none/x"):
        assert (await ask(asking, served, path)).status == 404
    asking.close()
    assert served.connections == 1
    assert "open /pipe" not in served.asked


async def test_pieces(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pieces of a long directory have all of its entries, and are read from one listing."""
    monkeypatch.setattr(answers, "PIECE", 10)
    (served.root / "many").mkdir()
    for number in range(100):
        (served.root / "many" / f"{number:03}").touch()
    asking = client(served)
    listed, after = list[str](), ""
    while True:
        found = await ask(asking, served, f"/many/{after}")
        listed += [href for href in hrefs(found) if href.startswith("./")]
        more = re.findall(r'rel=next href="([^"]*)"', found.body.decode())
        if not more:
            break
        after = more[0]
    asking.close()
    assert listed == [f"./{number:03}" for number in range(100)]
    assert served.asked == ["list /many"]


async def test_long_files(served: Served) -> None:
    """Of a file that is too long the beginning is read, over the same connection."""
    asking = client(served, max_body_bytes=50_000)
    for _ in range(2):
        found = await ask(asking, served, "/docs/c")
        assert (len(found.body), found.truncated) == (50_000, "length")
    asking.close()
    assert served.connections == 1


async def test_a_server_that_stalls(served: Served) -> None:
    """A question that is given up ends its thread, and the next one is asked over another connection."""
    asking = client(served)
    served.stalls = stalled = threading.Event()
    with trio.move_on_after(1):
        await ask(asking, served, "/docs/c")
    served.stalls = None
    with trio.fail_after(10):
        assert (await ask(asking, served, "/docs/c")).status == 200
        asking.close()
        while any(  # noqa: ASYNC110 - threads set no events of ours
            each.name.startswith("answer from") for each in threading.enumerate()
        ):
            await trio.sleep(0.01)
    stalled.set()
    assert served.connections == 2


async def test_an_error_of_the_disk(served: Served) -> None:
    """What a server fails to read is its own failure, and nothing that the connection is given up for."""
    served.broken = "/c"
    asking = client(served)
    for _ in range(2):
        assert (await ask(asking, served, "/docs/c")).status == 500
    assert (await ask(asking, served, "/a%20b.txt")).status == 200
    asking.close()
    assert served.connections == 1


async def test_names_that_cannot_be_read(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory with a name that is not UTF-8 is a failure of its own, and its answers are not read on."""

    def listed(*_: object) -> None:
        b"\xff".decode()

    monkeypatch.setattr(paramiko.SFTPClient, "listdir_iter", listed)
    asking = client(served)
    assert (await ask(asking, served, "/docs/")).status == 500
    assert (await ask(asking, served, "/a%20b.txt")).status == 200
    asking.close()
    assert served.connections == 2


async def test_garbage(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that answers in another way than SFTP has it cannot be asked."""

    def attributes(server: SFTPServer, number: int, *_: object) -> None:
        server._response(number, CMD_ATTRS, 0)  # type: ignore[attr-defined]

    monkeypatch.setattr(SFTPServer, "_send_handle_response", attributes)
    asking = client(served)
    found = await asking.fetch(f"sftp://127.0.0.1:{served.port}/docs/", Conditions())
    asking.close()
    assert isinstance(found, Failure), found


class TestWhoIsWho:
    """Keys of servers, and logins."""

    async def refused(self, asking: SftpServers, served: Served) -> Failure:
        """Why there is no answer."""
        found = await asking.fetch(f"sftp://127.0.0.1:{served.port}/", Conditions())
        asking.close()
        assert isinstance(found, Failure), found
        return found

    async def test_a_stranger(self, served: Served) -> None:
        """A server whose key is not known, or is another one, is told no password."""
        for line in ("", Served(served.root, ("", ""), port=served.port).known_hosts):
            (served.root.parent / "known_hosts").write_text(line)
            assert (await self.refused(client(served), served)).reason is Reason.CONNECT
        assert served.passwords == []

    async def test_a_wrong_password(self, served: Served) -> None:
        """A login that a server does not accept is no answer, and is not said."""
        found = await self.refused(client(served, password="wrong"), served)
        assert "wrong" not in found.detail

    async def test_no_login(self, served: Served) -> None:
        """Without a login nobody is asked."""
        asking = client(served)
        asking._logins = Logins()
        assert "sources.logins" in (await self.refused(asking, served)).detail
        assert served.connections == 0

    async def test_a_key(self, served: Served, tmp_path: Path) -> None:
        """With a key of ours the password opens that, and is not sent."""
        made = paramiko.ECDSAKey.generate()
        made.write_private_key_file(str(tmp_path / "key"), password="secret")
        served.trusted = made
        asking = client(served, ssh_key=tmp_path / "key")
        assert (await ask(asking, served, "/")).status == 200
        asking.close()
        assert served.passwords == []

    async def test_addresses(self, served: Served) -> None:
        """No address is asked that the guard refuses, and nobody at all where a proxy has to be asked."""

        async def guarded(host: str) -> Sequence[str] | Failure:
            refused = Guard().refusal(host)
            return Failure(Reason.ADDRESS, refused) if refused else [host]

        async def behind_proxy(_: str) -> Sequence[str] | Failure:
            return ()

        for addresses, reason in ((guarded, Reason.ADDRESS), (behind_proxy, Reason.PROXY)):
            asking = client(served)
            asking._addresses = addresses
            assert (await self.refused(asking, served)).reason is reason
        assert served.connections == 0

    def test_settings(self, tmp_path: Path) -> None:
        """Without a file of known hosts, or a key that was named, nothing is begun."""
        (tmp_path / "bad").write_text("host.example ssh-ed25519 A\n")
        (tmp_path / "binary").write_bytes(b"\xff\x00")
        (tmp_path / "good").touch()
        for known_hosts, ssh_key, setting in (
            (None, None, "known_hosts"),
            (tmp_path / "none", None, "known_hosts"),
            (tmp_path / "bad", None, "known_hosts"),
            (tmp_path / "binary", None, "known_hosts"),
            (tmp_path / "good", tmp_path / "none", "ssh_key"),
        ):
            with pytest.raises(ConfigError, match=rf"sources\.{setting}"):
                SftpServers(
                    loopback,
                    Logins(),
                    known_hosts=known_hosts,
                    key=ssh_key,
                    max_body_bytes=1,
                    timeout_s=1.0,
                )


async def test_a_crawl(served: Served, tmp_path: Path) -> None:
    """A crawl of a server reads every file below a seed once, over one connection and without delays."""
    (tmp_path / "hosts").touch()
    plant(served.root / "docs", 30)
    seed = f"sftp://127.0.0.1:{served.port}/docs/"
    config = configured(
        tmp_path / "hosts",
        fetch={"delay_s": 30.0},
        sources={
            "sftp": (seed,),
            "known_hosts": tmp_path / "known_hosts",
            "logins": (f"ann:secret@127.0.0.1:{served.port}",),
        },
    )
    await crawl(config, [seed], tmp_path / "crawl")
    with Store.open(tmp_path / "crawl", config.store, resume=True) as store:
        row = store.get(key(f"{seed}flat/0.txt"))
        assert row is not None
        assert row.status == 200
        assert store.counts().queued == 0
    read = [each for each in served.asked if each.startswith("open")]
    assert len(read) == len(set(read)) == 31
    assert served.connections == 1
