"""News servers as a source, over real connections to a small server."""

from __future__ import annotations

import re
import ssl
import warnings
from html import unescape
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import trio
import trustme

from gcs.core.sources import Logins
from gcs.core.urls import key
from gcs.fetch.outcome import Failure, Outcome, Reason, Response
from gcs.sources import news
from gcs.sources.answers import Conditions
from gcs.sources.chosen import named
from gcs.sources.news import News
from gcs.store.store import Store
from tests.crawling import configured, crawl
from tests.newsserver import Groups, NewsServer, article, serve
from tests.saying import saying

DOTTED = "A line.\n.and one with a dot\n..and two\n."


def some(numbers: range, group: str = "comp.misc") -> Groups:
    """A group with these articles."""
    return {group: {number: article(number, group) for number in numbers}}


def client(authority: trustme.CA | None = None, *, login: tuple[str, str] | None = None) -> News:
    """A source that trusts an authority, and has a login for loopback."""

    def context() -> ssl.SSLContext:
        made = ssl.create_default_context()
        if authority is not None:
            authority.configure_trust(made)
        return made

    logins = ["{}:{}@127.0.0.1".format(*login)] if login else []
    return News(Logins(logins), context=context, max_body_bytes=1 << 20, connect_timeout_s=30)


def response(found: Outcome) -> Response:
    """An answer that is no failure."""
    assert isinstance(found, Response), found
    return found


def hrefs(found: Outcome) -> list[str]:
    """The links of a page."""
    return [unescape(each) for each in re.findall(r'href="([^"]*)"', response(found).body.decode())]


def secured() -> tuple[trustme.CA, ssl.SSLContext]:
    """An authority, and what a server on loopback shows."""
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return authority, context


async def test_groups_blocks_and_articles(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server lists its groups, a group its blocks and newest articles, a block its articles."""
    monkeypatch.setattr(news, "BLOCK", 10)
    groups = {**some(range(3, 36)), "alt.empty": {}, "comp.Ünicode": {1: article(1, "x", text=DOTTED)}}
    async with serve(NewsServer(groups)) as server:
        asking, at = client(), f"nntp://127.0.0.1:{server.port}"
        listed = hrefs(await asking.fetch(f"{at}/", Conditions()))
        assert listed == ["./alt.empty/", "./comp.misc/", "./comp.%C3%9Cnicode/"]
        group = await asking.fetch(f"{at}/comp.misc/", Conditions())
        blocks = ["?after=0", "?after=10", "?after=20", "?after=30"]
        assert hrefs(group) == [*blocks, *(f"./{number}" for number in range(31, 36))]
        block = await asking.fetch(f"{at}/comp.misc/?after=0", Conditions())
        assert hrefs(block) == [f"./{number}" for number in range(3, 11)]
        assert hrefs(await asking.fetch(f"{at}/alt.empty/", Conditions())) == []
        found = response(await asking.fetch(f"{at}/comp.%C3%9Cnicode/1", Conditions()))
        assert found.headers["content-type"] == "message/rfc822"
        assert found.body == article(1, "x", text=DOTTED)
        moved = response(await asking.fetch(f"{at}/comp.misc", Conditions()))
        assert moved.headers["location"] == f"{at}/comp.misc/"
        await asking.aclose()
    assert server.most_at_once == 1


async def test_nothing_that_was_read_is_read_again() -> None:
    """An article that is still the same message, and a group without a new one, are not modified."""
    async with serve(NewsServer(some(range(1, 4)))) as server:
        asking, at = client(), f"nntp://127.0.0.1:{server.port}/comp.misc"
        for path in ("/", "/2"):
            etag = response(await asking.fetch(at + path, Conditions())).headers["etag"]
            assert response(await asking.fetch(at + path, Conditions(etag))).status == 304
            server.groups["comp.misc"][3 + len(path)] = article(4, "comp.misc")
            server.groups["comp.misc"][2] = article(20 + len(path), "comp.misc")
            assert response(await asking.fetch(at + path, Conditions(etag))).status == 200
        await asking.aclose()


@pytest.mark.parametrize(
    "path", ["/no.such/", "/no.such/1", "/comp.misc/99", "/comp.misc/x", "/comp.misc/1/2", "/a b/"]
)
async def test_what_is_not_there(path: str) -> None:
    """What a server does not have is not found; nothing that is in a URL becomes a command."""
    async with serve(NewsServer(some(range(1, 4)))) as server:
        asking = client()
        at = f"nntp://127.0.0.1:{server.port}{path.replace(' ', '%20')}"
        assert response(await asking.fetch(at, Conditions())).status == 404
        assert response(await asking.fetch(at + "%0D%0AQUIT", Conditions())).status == 404
        assert "QUIT" not in server.asked
        await asking.aclose()


async def test_an_old_server() -> None:
    """A server that knows XOVER only is asked so."""
    async with serve(NewsServer(some(range(1, 4)), old=True)) as server:
        asking = client()
        found = await asking.fetch(f"nntp://127.0.0.1:{server.port}/comp.misc/", Conditions())
        assert hrefs(found) == ["?after=0", "./1", "./2", "./3"]
        await asking.aclose()


async def test_an_idle_connection_that_was_closed() -> None:
    """When the server has hung up meanwhile, it is connected to again."""
    async with serve(NewsServer(some(range(1, 4)), hangs_up_after=3)) as server:
        asking = client()
        for number in (1, 2, 3):
            at = f"nntp://127.0.0.1:{server.port}/comp.misc/{number}"
            assert response(await asking.fetch(at, Conditions())).status == 200
        await asking.aclose()


class TestLogins:
    """Passwords, and TLS."""

    async def test_over_tls(self) -> None:
        """Over TLS, begun at once or by STARTTLS, a login opens what is closed to others."""
        authority, context = secured()
        for is_secure, scheme in ((True, "nntps"), (False, "nntp")):
            made = NewsServer(
                some(range(1, 4)), login=("ann", "secret"), context=context, is_secure=is_secure
            )
            async with serve(made) as server:
                asking, at = client(authority, login=("ann", "secret")), f"{scheme}://127.0.0.1:{server.port}"
                assert response(await asking.fetch(f"{at}/comp.misc/1", Conditions())).status == 200
                await asking.aclose()
                nobody = client(authority)
                assert response(await nobody.fetch(f"{at}/comp.misc/1", Conditions())).status == 403
                await nobody.aclose()

    async def test_of_one_port(self) -> None:
        """A login with a port is sent to that port only, and before one that has none."""
        authority, context = secured()
        made = NewsServer(some(range(1, 4)), login=("ann", "secret"), context=context, is_secure=True)
        trusting = ssl.create_default_context()
        authority.configure_trust(trusting)
        async with serve(made) as server:
            for place, status in ((f"127.0.0.1:{server.port}", 200), ("127.0.0.1:1", 403)):
                logins = Logins([f"ann:secret@{place}"])
                asking = News(logins, context=lambda: trusting, max_body_bytes=1 << 20, connect_timeout_s=30)
                at = f"nntps://127.0.0.1:{server.port}/comp.misc/1"
                assert response(await asking.fetch(at, Conditions())).status == status
                await asking.aclose()

    async def test_never_in_the_clear(self) -> None:
        """To a server without TLS no password is sent: it is not asked at all."""
        async with serve(NewsServer(some(range(1, 4)), login=("ann", "secret"))) as server:
            asking = client(login=("ann", "secret"))
            found = await asking.fetch(f"nntp://127.0.0.1:{server.port}/comp.misc/1", Conditions())
        assert isinstance(found, Failure)
        assert [line for line in server.asked if "AUTHINFO" in line] == []

    async def test_a_stranger(self) -> None:
        """A server whose certificate nobody vouches for is not asked, nor told a password."""
        _, context = secured()
        made = NewsServer(some(range(1, 4)), login=("ann", "secret"), context=context, is_secure=True)
        async with serve(made) as server:
            asking = client(login=("ann", "secret"))
            found = await asking.fetch(f"nntps://127.0.0.1:{server.port}/", Conditions())
        assert isinstance(found, Failure)
        assert found.reason is Reason.TLS
        assert server.asked == []


async def test_a_server_that_is_not_there() -> None:
    """A server that cannot be reached is no answer at all."""
    found = await client().fetch("nntp://127.0.0.1:1/comp.misc/", Conditions())
    assert isinstance(found, Failure)
    assert found.reason is Reason.CONNECT


async def test_a_crawl(tmp_path: Path) -> None:
    """A crawl of a group reads and summarises every article once, over one connection and without delays."""
    (tmp_path / "hosts").touch()
    async with serve(NewsServer({**some(range(1, 60)), **some(range(5), "alt.other")})) as server:
        seed = f"nntp://127.0.0.1:{server.port}/comp.misc/"
        config = configured(
            tmp_path / "hosts", fetch={"allow": (), "delay_s": 30.0}, sources={"news": (seed,)}
        )
        await crawl(config, [seed], tmp_path / "crawl")
    with Store.open(tmp_path / "crawl", config.store, resume=True) as store:
        rows = [store.get(key(f"{seed}{number}")) for number in range(1, 60)]
        assert all(row is not None and row.status == 200 for row in rows)
        assert store.counts().accepted == 61
    tables = [pq.read_table(part).to_pylist() for part in (tmp_path / "crawl" / "summaries").glob("part-*")]
    titles = {row["title"] for table in tables for row in table}
    assert {f"Article {number}" for number in range(1, 60)} <= titles
    assert sum(line.startswith("ARTICLE ") for line in server.asked) == 59
    assert server.most_at_once == 1


def test_a_seed_allows_its_server(tmp_path: Path) -> None:
    """A group that is named on the command line may be read, and what is beside it may not."""
    (tmp_path / "hosts").touch()
    config = configured(tmp_path / "hosts", sources={"news": ("nntp://a.example/",)})
    assert named(config, ["news://a.example/g", "http://b.example/", "no url"]) == []
    assert named(config, ["nntps://b.example/g/"]) == ["sources.news=nntp://a.example/ nntps://b.example/g/"]


async def test_the_server_is_one() -> None:
    """Python's own client reads from the server of these tests what it has, so it speaks as servers do."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        nntplib = pytest.importorskip("nntplib")

    def read(port: int) -> tuple[list[str], list[int], bytes]:
        with nntplib.NNTP("127.0.0.1", port, readermode=True) as other:
            groups = [each.group for each in other.list()[1]]
            _, _, first, last, _ = other.group("comp.misc")
            numbers = [number for number, _ in other.over((first, last))[1]]
            return groups, numbers, b"\r\n".join([*other.article("2")[1].lines, b""])

    groups = some(range(1, 4))
    groups["comp.misc"][2] = article(2, "comp.misc", text=DOTTED)
    async with serve(NewsServer(groups)) as server:
        found = await trio.to_thread.run_sync(read, server.port)
    assert found == (["comp.misc"], [1, 2, 3], groups["comp.misc"][2])


class TestHostile:
    """Servers that do not keep to the protocol."""

    async def ask(self, *said: bytes, path: str = "/comp.misc/1", **settings: object) -> Outcome:
        """What comes of asking a server that says these things, one after each command."""
        async with saying(said) as port:
            asking = client(**settings)  # type: ignore[arg-type]
            found = await asking.fetch(f"nntp://127.0.0.1:{port}{path}", Conditions())
            await asking.aclose()
        return found

    @pytest.mark.parametrize(
        "said",
        [
            [b"400 too many connections\r\n"],
            [b"SSH-2.0-OpenSSH\r\n"],
            [b"200 " + b"x" * 100_000],
            [b"200 hello\r\n", b"200 ok\r\n", b"211 many low high\r\n"],
            [b"200 hello\r\n", b"200 ok\r\n", b"400 going down\r\n"],
            [b"200 hello\r\n", b"200 ok\r\n"],
        ],
    )
    async def test_what_is_no_answer(self, said: list[bytes]) -> None:
        """A refusal, another protocol, a line without end, nonsense and a lost connection are no answers."""
        found = await self.ask(*said, path="/comp.misc/")
        assert isinstance(found, Failure)
        assert found.reason is Reason.CONNECT

    async def test_words_before_tls(self) -> None:
        """What somebody says before TLS has begun is not taken for what the server says in it."""
        said = [b"200 hello\r\n", b"382 go on\r\n281 welcome\r\n"]
        found = await self.ask(*said, login=("ann", "secret"))
        assert isinstance(found, Failure)
        assert "STARTTLS" in found.detail

    async def test_an_article_without_end(self) -> None:
        """Of an article that is too long the beginning is read, and the connection not used again."""
        endless = b"220 1 <a@b>\r\n" + b"words words words\r\n" * 100_000
        found = response(await self.ask(b"200 hello\r\n", b"200 ok\r\n", b"211 1 1 1 comp.misc\r\n", endless))
        assert (found.status, found.truncated) == (200, "length")
        assert 1_000_000 < len(found.body) <= 1 << 20

    async def test_a_group_without_overview(self) -> None:
        """A server that gives no overview is in trouble; one that says that there is nothing is not."""
        begun = [b"200 hello\r\n", b"200 ok\r\n", b"211 1 1 1 comp.misc\r\n"]
        assert isinstance(await self.ask(*begun, b"403 trouble\r\n", path="/comp.misc/"), Failure)
        assert hrefs(await self.ask(*begun, b"423 none\r\n", path="/comp.misc/")) == ["?after=0"]

    async def test_a_wrong_password(self) -> None:
        """A login that a server does not accept is no answer, and says so."""
        authority, context = secured()
        made = NewsServer(some(range(1, 4)), login=("ann", "secret"), context=context, is_secure=True)
        async with serve(made) as server:
            asking = client(authority, login=("ann", "wrong"))
            found = await asking.fetch(f"nntps://127.0.0.1:{server.port}/", Conditions())
        assert isinstance(found, Failure)
        assert "login" in found.detail
        assert "wrong" not in found.detail

    async def test_given_up_in_the_middle(self) -> None:
        """An answer that is not waited for is not taken for the next one: there is another connection."""
        async with serve(NewsServer(some(range(1, 4)), holds="ARTICLE 2")) as server:
            asking, at = client(), f"nntp://127.0.0.1:{server.port}/comp.misc"
            async with trio.open_nursery() as nursery:
                nursery.start_soon(asking.fetch, f"{at}/2", Conditions())
                await server.held.wait()
                nursery.cancel_scope.cancel()
            server.let.set()
            found = response(await asking.fetch(f"{at}/3", Conditions()))
            assert b"Message-ID: <3." in found.body
            await asking.aclose()
