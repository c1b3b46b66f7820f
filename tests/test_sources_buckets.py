"""Buckets as a source, against a small server that verifies signatures."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from html import unescape
from pathlib import Path

import pytest

from gcs.core.signing import Credentials, headers, target
from gcs.core.sources import Logins
from gcs.core.urls import Rejected, canonical, key, url
from gcs.fetch.outcome import Failure, Reason, Response
from gcs.fetch.transport import Transport
from gcs.sources import answers
from gcs.sources.answers import Conditions
from gcs.sources.buckets import Buckets
from gcs.sources.chosen import named
from gcs.store.store import Store
from tests.bucketserver import Bucket, serve
from tests.crawling import configured, crawl
from tests.scripted import Peer, settings
from tests.scripted import serve as serve_script

KEY = ("AKIAEXAMPLE", "wJalr/secret+key")
OBJECTS = {
    "a.txt": b"one",
    "docs/": b"",
    "docs/b c+d.txt": b"two",
    "docs/ü/e": b"three",
    "docs-old": b"four",
    "odd//f": b"five",
    "odd/../g": b"six",
}


@asynccontextmanager
async def asking(
    port: int, *, logins: Sequence[str] = (), region: str = "us-east-1", max_body_bytes: int = 1 << 20
) -> AsyncIterator[Buckets]:
    """A source of the buckets of a server on loopback."""
    async with Transport(settings()) as web:
        yield Buckets(
            web,
            Logins(logins),
            endpoint=f"http://127.0.0.1:{port}/",
            region=region,
            max_body_bytes=max_body_bytes,
            now=partial(datetime.now, UTC),
        )


async def ask(source: Buckets, path: str, etag: str = "") -> Response:
    """An answer that is no failure."""
    found = await source.fetch(f"s3://archive{path}", Conditions(etag))
    assert isinstance(found, Response), found
    return found


def hrefs(found: Response) -> list[str]:
    """The links of a page."""
    return [unescape(each) for each in re.findall(r'href="([^"]*)"', found.body.decode())]


@pytest.mark.parametrize("encodes", [True, False])
async def test_odd_names(*, encodes: bool) -> None:
    """Names with a plus, a space or a percent sign are found, also at a server that encodes nothing."""
    objects = {"a+b": b"one", "a b": b"two", "100%41": b"three", "<ü>/c": b"four"}
    with serve("archive", Bucket(objects, encodes=encodes)) as bucket:
        async with asking(bucket.port) as source:
            listed = hrefs(await ask(source, "/"))
            assert listed == ["./100%2541", "./%3C%C3%BC%3E/", "./a%20b", "./a+b"]
            bodies = [(await ask(source, href[1:])).body for href in listed if not href.endswith("/")]
    assert bodies == [b"three", b"two", b"one"]


@pytest.mark.parametrize("key", [None, KEY])
async def test_lists_and_objects(key: tuple[str, str] | None) -> None:
    """A bucket lists what it has up to the next slash, and an object is its bytes, signed or not."""
    with serve("archive", Bucket(OBJECTS, key)) as bucket:
        async with asking(bucket.port, logins=["{}:{}@archive".format(*KEY)] if key else []) as source:
            assert hrefs(await ask(source, "/")) == ["./a.txt", "./docs-old", "./docs/", "./odd/"]
            assert hrefs(await ask(source, "/docs/")) == ["./b%20c+d.txt", "./%C3%BC/"]
            assert hrefs(await ask(source, "/odd/")) == []
            found = await ask(source, "/docs/b%20c+d.txt")
            assert (found.status, found.body) == (200, b"two")
            assert found.headers["last-modified"] == "Sun, 09 Sep 2001 01:46:40 GMT"
            assert (await ask(source, "/docs/%C3%BC/e")).body == b"three"
            again = await ask(source, "/docs/b%20c+d.txt", found.headers["etag"])
            assert (again.status, again.body) == (304, b"")
            assert (await ask(source, "/docs/%C3%BC")).headers["location"] == "s3://archive/docs/%C3%BC/"
            assert (await ask(source, "/none")).status == 404


async def test_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pieces of a long list have every name once, whatever the server gives at a time."""
    monkeypatch.setattr(answers, "PIECE", 10)
    objects = {f"x/{number:03}{'/a' * (number % 3 == 0)}": b"" for number in range(100)}
    with serve("archive", Bucket(objects, most=7)) as bucket:
        async with asking(bucket.port) as source:
            listed, after, pieces = list[str](), "", 0
            while True:
                found = await ask(source, f"/x/{after}")
                pieces += 1
                listed += [href for href in hrefs(found) if href.startswith("./")]
                more = re.findall(r'rel=next href="([^"]*)"', found.body.decode())
                if not more:
                    break
                after = more[0]
    assert listed == [f"./{number:03}{'/' * (number % 3 == 0)}" for number in range(100)]
    assert pieces > 2


async def test_who_may_not() -> None:
    """Without a key, or with a wrong secret, nothing is given; a key is for its bucket alone."""
    with serve("archive", Bucket(OBJECTS, KEY)) as bucket:
        for logins in ([], ["AKIAEXAMPLE:wrong@archive"], ["{}:{}@other".format(*KEY)]):
            async with asking(bucket.port, logins=logins) as source:
                assert (await ask(source, "/")).status == 403
                assert (await ask(source, "/a.txt")).status == 403


async def test_another_region() -> None:
    """A bucket that is elsewhere is no answer, with what to do."""
    with serve("archive", Bucket(OBJECTS, KEY, region="eu-central-1")) as bucket:
        async with asking(bucket.port, logins=["{}:{}@archive".format(*KEY)]) as source:
            found = await source.fetch("s3://archive/", Conditions())
    assert isinstance(found, Failure)
    assert "sources.bucket_region" in found.detail


async def test_long_objects() -> None:
    """Of an object that is too long the beginning is read."""
    with serve("archive", Bucket({"a": b"x" * 5000})) as bucket:
        async with asking(bucket.port, max_body_bytes=1024) as source:
            found = await ask(source, "/a")
    assert (found.body, found.truncated) == (b"x" * 1024, "length")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"<html></html>",
        b"<a>" * 100_000,
        b"<ListBucketResult>" + b"<a>" * 100_000,
        b"<!DOCTYPE a [<!ENTITY b 'c'>]><ListBucketResult>&b;</ListBucketResult>",
        b"\xff",
    ],
)
async def test_what_is_no_list(body: bytes) -> None:
    """A server that gives something else than a list of names is in trouble, and nobody else."""

    async def handler(peer: Peer) -> None:
        while await peer.request():
            await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))

    async with serve_script(handler) as server, asking(server.port) as source:
        found = await source.fetch("s3://archive/", Conditions())
    assert isinstance(found, Failure)
    assert found.reason is Reason.PROTOCOL


@pytest.mark.parametrize("path", ["/", "/a"])
async def test_a_server_that_asks_for_time(path: str) -> None:
    """A server that says after how long it may be asked again is heard."""

    async def handler(peer: Peer) -> None:
        while await peer.request():
            await peer.send(b"HTTP/1.1 503 Slow Down\r\nRetry-After: 120\r\nContent-Length: 0\r\n\r\n")

    async with serve_script(handler) as server, asking(server.port) as source:
        found = await ask(source, path)
    assert (found.status, found.headers["retry-after"]) == (503, "120")


async def test_an_endpoint_that_may_not_be_asked() -> None:
    """The guard of the web holds for endpoints too."""
    with serve("archive", Bucket(OBJECTS)) as bucket:
        async with Transport(settings(allow=())) as web:
            source = Buckets(
                web,
                Logins(),
                endpoint=f"http://127.0.0.1:{bucket.port}/",
                region="us-east-1",
                max_body_bytes=1 << 20,
                now=partial(datetime.now, UTC),
            )
            found = await source.fetch("s3://archive/", Conditions())
    assert isinstance(found, Failure)
    assert found.reason is Reason.ADDRESS
    assert bucket.asked == []


async def test_a_crawl(tmp_path: Path) -> None:
    """A crawl of a bucket reads every object once, and without delays."""
    (tmp_path / "hosts").touch()
    objects = {f"2024/{number % 3}/{number}": f"Object {number}".encode() for number in range(40)}
    with serve("my.archive.7", Bucket({**objects, "2023/x": b"other"}, KEY)) as bucket:
        config = configured(
            tmp_path / "hosts",
            fetch={"delay_s": 30.0},
            sources={
                "buckets": ("s3://my.archive.7/2024/",),
                "bucket_endpoint": f"http://127.0.0.1:{bucket.port}",
                "logins": ("{}:{}@my.archive.7".format(*KEY),),
            },
        )
        await crawl(config, ["s3://my.archive.7/2024/"], tmp_path / "crawl")
    with Store.open(tmp_path / "crawl", config.store, resume=True) as store:
        rows = [store.get(key(f"s3://my.archive.7/{name}")) for name in objects]
        assert all(row is not None and row.status == 200 for row in rows)
        assert store.counts().queued == 0
    read = [path for path in bucket.asked if "?" not in path]
    assert len(read) == len(set(read)) == 40


class TestSignatures:
    """What is signed, and how."""

    SECRET = Credentials("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "us-east-1")

    @pytest.mark.parametrize(
        ("asked", "signature"),
        [
            (
                target(b"/", {"prefix": "J", "max-keys": "2"}),
                "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
            ),
            (
                target(b"/", {"lifecycle": ""}),
                "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
            ),
        ],
    )
    def test_known_ones(self, asked: str, signature: str) -> None:
        """Those that the documentation of the service gives are made."""
        at = datetime(2013, 5, 24, tzinfo=UTC)
        made = headers("examplebucket.s3.amazonaws.com", asked, self.SECRET, at)
        assert made.splitlines()[0].endswith(f"Signature={signature}".encode())

    def test_spelling(self) -> None:
        """All but letters, digits and a few marks are encoded, and names of a query in order."""
        found = target("/b/ü +&'.txt".encode(), {"z": "/ ", "a": b"\xff"})
        assert found == "/b/%C3%BC%20%2B%26%27.txt?a=%FF&z=%2F%20"


class TestNames:
    """URLs of buckets."""

    @pytest.mark.parametrize("name", ["archive", "my.archive.7", "2024", "a-b.c"])
    def test_keys(self, name: str) -> None:
        """A bucket has a key that leads back to it, also if its name ends like an address."""
        seed = canonical(f"S3://{name.upper()}/a/./b//c")
        assert seed == f"s3://{name}/a/b/c"
        assert url(key(seed)) == seed

    @pytest.mark.parametrize(
        "wrong", ["s3:///a", "s3://a/", "s3://-ab/", "s3://ab_c/", "s3://abc:80/", "s3://k:s@abc/"]
    )
    def test_wrong_ones(self, wrong: str) -> None:
        """What can be no bucket, or has a secret in it, is refused."""
        with pytest.raises(Rejected):
            canonical(wrong)

    def test_a_seed_allows_its_bucket(self, tmp_path: Path) -> None:
        """A part of a bucket that is named on the command line may be read, and what is beside it may not."""
        config = configured(tmp_path / "hosts", sources={"buckets": ("s3://abc/x/",)})
        assert named(config, ["s3://abc/x/y"]) == []
        assert named(config, ["s3://abc/z"]) == ["sources.buckets=s3://abc/x/ s3://abc/z"]
