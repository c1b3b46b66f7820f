"""Pages that are visited again, over HTTP: what is transferred, reported and kept."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from email.utils import formatdate
from functools import partial
from pathlib import Path
from typing import Any
from zlib import crc32

import pyarrow.parquet as pq
import pytest
import trio
from warcio.archiveiterator import ArchiveIterator

from gcs.config import Store as StoreSettings
from gcs.core.failures import GIVEN_UP_FROM
from gcs.core.revisits.memory import Memory
from gcs.core.urls import key
from gcs.fetch.outcome import Origin
from gcs.fetch.transport import Transport
from gcs.gatherer.crawl import TALLY, Ending, Limits
from gcs.gatherer.inquiries import ROBOTS
from gcs.gatherer.revisiting import ROUND, Revisiting
from gcs.gatherer.tally import Tally
from gcs.simulate.web import Web
from gcs.simulate.webserver import Served, serve
from gcs.store.directory import Room
from gcs.store.errors import no_room
from gcs.store.records import Batch
from gcs.store.store import Store
from gcs.store.view import View
from tests.crawling import configured, crawl, gcs_here

ONCE = {"once": True}
GONE, MOVED = "it is not there", "it is elsewhere"


@dataclass(frozen=True, slots=True)
class Run:
    """What a crawl came to."""

    visits: Counter[str]
    """Visits to known pages, by what they found, in this run and those before."""
    bytes_in: int


async def run(served: Served, directory: Path, **sections: dict[str, Any]) -> Run:
    """Crawl the web that is served, into a directory that may have a crawl in it already."""
    config = configured(served.hosts, **sections)
    transport = Transport(config.fetch)
    assert await crawl(config, served.web.seeds, directory, transport=transport) is Ending.FINISHED
    with View(directory) as view:
        tally = Tally.from_bytes(view.get_meta(TALLY) or b"")
    return Run(tally.visits, transport.statistics().bytes_in)


def texts(served: Served, directory: Path) -> list[tuple[str, str]]:
    """Hosts and targets of pages that were fetched."""
    rows = pq.read_table(directory / "summaries", columns=["url", "status", "media_type"]).to_pylist()
    urls = sorted({row["url"] for row in rows if row["status"] == 200 and row["media_type"] == "text/html"})
    return [(host.name, target) for host, target in map(served.web.split, urls) if host]  # type: ignore[misc]


def records(directory: Path, kind: str) -> list[Any]:
    """The headers of all records of a kind, in order."""
    found = []
    for path in sorted((directory / "warc").iterdir()):
        with path.open("rb") as stream:
            for record in ArchiveIterator(stream):
                record.content_stream().read()
                if record.rec_type == kind:
                    found.append(record.rec_headers)
    return found


async def test_a_web_that_does_not_change(tmp_path: Path) -> None:
    """A second crawl transfers a twentieth of the first at most, and reports no change."""
    async with serve(Web(5, 4, 120, plain=True), tmp_path, etags=True) as served:
        directory = tmp_path / "crawl"
        first = await run(served, directory)
        again = await run(served, directory, revisit=ONCE)
        third = await run(served, directory, revisit=ONCE)
    assert not first.visits
    assert set(again.visits) == {"unchanged"}
    assert again.bytes_in < first.bytes_in / 20
    assert third.visits["unchanged"] == 2 * again.visits["unchanged"]
    with View(directory) as view:
        counts = view.counts()
    assert again.visits["unchanged"] > 0.5 * counts.done
    rows = pq.read_table(directory / "summaries", columns=["unchanged", "change"]).to_pylist()
    assert {row["change"] for row in rows if row["unchanged"]} == {0.0}
    assert sum(row["unchanged"] for row in rows) > 200


async def test_pages_that_change(tmp_path: Path) -> None:
    """Exactly the pages that have changed are reported so; other scripts are no change, one is missing."""
    async with serve(Web(5, 2, 60, plain=True, gzip=0.0), tmp_path, etags=True) as served:
        directory = tmp_path / "crawl"
        remembering = {"policy": "uniform", "once": True}
        await run(served, directory, revisit=remembering)
        pages, chance = texts(served, directory), random.Random(1)
        *changed, touched, gone = pages[5:50:5]
        for number, page in enumerate(changed):
            words = " ".join(f"news{number}{chance.randrange(10**6)}" for _ in range(900))
            served.edits[page] = f"<p>{words}</p>".encode()
        served.edits[touched] = b"<script>shown = 7</script>"
        served.edits[gone] = None
        after = await run(served, directory, revisit=remembering)
    assert after.visits["changed"] == len(changed)
    assert after.visits["touched"] == 1
    assert after.visits["missing"] == 1
    log = (directory / "crawl.log").read_text()
    said = {line.split()[3] for line in log.splitlines() if line.endswith("revisit:changed")}
    assert said == {served.web.url(*page) for page in changed}
    with View(directory) as view:
        kept = view.remembered(key(served.web.url(*gone)))
    assert kept is not None
    assert Memory.from_bytes(kept.memory).course.missing == 1


async def test_revisit_records(tmp_path: Path) -> None:
    """An unchanged page is a revisit record that names the record with its body, however that was known."""
    async with serve(Web(5, 2, 40, plain=True, gzip=0.0), tmp_path, etags=True) as served:
        directory = tmp_path / "crawl"
        await run(served, directory)
        await run(served, directory, revisit=ONCE)
        served.has_etags = False
        await run(served, directory, revisit=ONCE)
    bodies = {
        (each["WARC-Target-URI"], each["WARC-Date"]): each["WARC-Payload-Digest"]
        for each in records(directory, "response")
    }
    found = records(directory, "revisit")
    profiles = Counter(each["WARC-Profile"].rpartition("/")[2] for each in found)
    assert profiles["server-not-modified"] >= 40
    assert profiles["identical-payload-digest"] >= 40
    for each in found:
        original = each["WARC-Refers-To-Target-URI"], each["WARC-Refers-To-Date"]
        assert original in bodies
        if each["WARC-Profile"].endswith("identical-payload-digest"):
            assert each["WARC-Payload-Digest"] == bodies[original]


async def test_books_stay_balanced(tmp_path: Path) -> None:
    """However often pages are visited, each is done once, and nothing is queued."""
    async with serve(Web(5, 3, 60, plain=True), tmp_path, etags=True) as served:
        directory = tmp_path / "crawl"
        await run(served, directory, revisit={"policy": "adaptive", "once": True})
        with View(directory) as view:
            before = view.counts()
        await run(served, directory, revisit=ONCE)
        with View(directory) as view:
            assert view.counts() == before
    told = gcs_here("why", served.web.seeds[0], "--into", str(directory), "--json", hosts=served.hosts)
    said = json.loads(told.stdout)["revisit"]
    assert said["visits"] == 2
    assert said["changes"] == 0
    assert "gcs crawl --revisit" in said["because"]


async def test_a_pass_that_is_interrupted(tmp_path: Path) -> None:
    """A pass goes on where it was interrupted: in the end every page was visited once more, and no more."""
    async with serve(Web(5, 2, 30, plain=True), tmp_path, etags=True) as served:
        directory = tmp_path / "crawl"
        await run(served, directory)
        config = configured(served.hosts, revisit=ONCE)
        assert await crawl(config, [], directory, limits=Limits(pages=10)) is Ending.PAGES
        rest = await run(served, directory, revisit=ONCE)
        again = await run(served, directory, revisit=ONCE)
    assert again.visits["unchanged"] == 2 * rest.visits["unchanged"]


async def test_a_crawl_that_goes_on(tmp_path: Path) -> None:
    """With a policy a crawl does not end by itself, and visits pages again when they are due."""
    async with serve(Web(5, 2, 12, plain=True), tmp_path, etags=True) as served:
        revisit = {"policy": "anansi", "every_s": 0.5, "least_s": 0.1, "most_s": 1.0}
        config = configured(served.hosts, revisit=revisit)
        ending = await crawl(config, served.web.seeds, tmp_path / "crawl", limits=Limits(pages=80))
    assert ending is Ending.PAGES
    with View(tmp_path / "crawl") as view:
        tally = Tally.from_bytes(view.get_meta(TALLY) or b"")
    assert tally.visits["unchanged"] > 20
    told = gcs_here(
        "why",
        *(served.web.seeds[0], "--into", str(tmp_path / "crawl"), "--json"),
        *("-s", "revisit.policy=anansi"),
        hosts=served.hosts,
    )
    said = json.loads(told.stdout)["revisit"]
    assert said["next_visit"] > said["last_visit"]
    assert "P_old" in said["because"]
    assert said["changes_every"].startswith("about ")


async def test_a_feed_says_what_has_changed(tmp_path: Path) -> None:
    """A page of which a feed says that it changed after the last visit is due at once, others wait."""
    later, before = (formatdate(time.time() + days * 86_400) for days in (1, -1))
    feed = (
        "<rss><channel>"
        f"<item><link>http://a.test/new</link><pubDate>{later}</pubDate></item>"
        f"<item><link>http://a.test/old</link><pubDate>{before}</pubDate></item></channel></rss>"
    )
    revisit = {"policy": "uniform", "every_s": 86_400.0, "least_s": 0.1}
    config = configured(tmp_path / "hosts", revisit=revisit)
    (tmp_path / "hosts").write_text("127.0.0.1 a.test\n")
    pages = {
        "/": ("text/html", '<a href="/new">n</a> <a href="/old">o</a> <a href="/feed">f</a>'),
        "/feed": ("application/rss+xml", feed),
    }
    asked: Counter[str] = Counter()
    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = listeners[0].socket.getsockname()[1]
        pages["/feed"] = pages["/feed"][0], feed.replace("a.test", f"a.test:{port}")
        nursery.start_soon(trio.serve_listeners, partial(answer, pages, asked), listeners)
        ending = await crawl(config, [f"http://a.test:{port}/"], tmp_path / "crawl", limits=Limits(pages=5))
        nursery.cancel_scope.cancel()
    assert ending is Ending.PAGES
    assert (asked["/new"], asked["/old"]) == (2, 1)


@pytest.mark.parametrize("knows_rules", [False, True])
async def test_a_host_that_has_died(tmp_path: Path, knows_rules: bool) -> None:
    """It is given up after as many failures as any other; the rest of its pages is not asked for."""
    (tmp_path / "hosts").write_text("127.0.0.1 a.test\n")
    directory, count = tmp_path / "crawl", 60
    pages = {"/": ("text/html", " ".join(f'<a href="/{number}">n</a>' for number in range(count)))}
    asked: Counter[str] = Counter()

    async def hang_up(stream: trio.SocketStream) -> None:
        asked["dead"] += 1
        await stream.aclose()

    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = listeners[0].socket.getsockname()[1]
        scope = await nursery.start(serve_until_cancelled, partial(answer, pages, asked), listeners[0])
        seed = f"http://a.test:{port}/"
        await crawl(configured(tmp_path / "hosts"), [seed], directory)
        scope.cancel()
        if not knows_rules:
            with Store.open(directory, StoreSettings(keep_free_bytes=0), resume=True) as store:
                store.commit(Batch(meta={f"{ROBOTS}{Origin.split(seed)[0]}": b""}))
        dead = await trio.open_tcp_listeners(port, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, hang_up, dead)
        again = configured(tmp_path / "hosts", fetch={"max_wait_s": 0.05}, revisit=ONCE)
        assert await crawl(again, [], directory) is Ending.FINISHED
        nursery.cancel_scope.cancel()
    assert GIVEN_UP_FROM <= asked["dead"] <= 2 * GIVEN_UP_FROM < count
    with View(directory) as view:
        assert Tally.from_bytes(view.get_meta(TALLY) or b"").visits == {"failed": count + 1}
        assert view.counts().done == count + 1


Pages = dict[str, tuple[str, str]]
"""What a small host has: media types and bodies, by target."""


@asynccontextmanager
async def small_host(tmp_path: Path, pages: Pages, asked: Counter[str] | None = None) -> AsyncIterator[str]:
    """Serve a host with some pages, which may change, and count what it is asked for; gives its address."""
    (tmp_path / "hosts").write_text("127.0.0.1 a.test\n")
    asked = Counter() if asked is None else asked
    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, partial(answer, pages, asked), listeners)
        yield f"http://a.test:{listeners[0].socket.getsockname()[1]}"
        nursery.cancel_scope.cancel()


async def test_a_pass_whose_end_was_not_written(tmp_path: Path) -> None:
    """A pass that visited all pages is over, though it could not say so; the next visits all once more."""
    async with serve(Web(5, 2, 12, plain=True), tmp_path, etags=True) as served:
        directory = tmp_path / "crawl"
        await run(served, directory)
        began = time.time()
        first = await run(served, directory, revisit=ONCE)
        with Store.open(directory, StoreSettings(keep_free_bytes=0), resume=True) as store:
            assert store.get_meta(ROUND) is None
            store.commit(Batch(meta={ROUND: f"{began}".encode()}))
        second = await run(served, directory, revisit=ONCE)
    assert second.visits["unchanged"] == 2 * first.visits["unchanged"]


async def test_a_pass_that_ends_when_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That it has ended is written into what is kept free."""
    pages = {"/": ("text/html", "here I am")}
    async with small_host(tmp_path, pages) as base:
        await crawl(configured(tmp_path / "hosts"), [f"{base}/"], tmp_path / "crawl")
        full = threading.Event()

        def check(room: Room, now: float) -> None:
            if full.is_set():
                raise no_room(tmp_path)

        def ended(revisiting: Revisiting) -> dict[str, bytes]:
            full.set()
            return revisiting.meta() | {ROUND: b""}

        monkeypatch.setattr(Room, "check", check)
        monkeypatch.setattr(Revisiting, "ended", ended)
        await crawl(configured(tmp_path / "hosts", revisit=ONCE), [], tmp_path / "crawl")
    assert full.is_set()
    with View(tmp_path / "crawl") as view:
        assert view.get_meta(ROUND) is None


async def test_a_pass_that_is_interrupted_and_finds_nothing(tmp_path: Path) -> None:
    """However often a pass is interrupted, pages that were missing in it are asked for once in it."""
    directory, names = tmp_path / "crawl", [f"/{number}" for number in range(12)]
    pages = {"/": ("text/html", " ".join(f'<a href="{name}">x</a>' for name in names))}
    asked: Counter[str] = Counter()
    again = configured(tmp_path / "hosts", revisit=ONCE)
    async with small_host(tmp_path, pages, asked) as base:
        await crawl(configured(tmp_path / "hosts"), [f"{base}/"], directory)
        pages |= dict.fromkeys(names, ("text/html", GONE))
        for _ in range(3):
            assert await crawl(again, [], directory, limits=Limits(pages=3)) is Ending.PAGES
        assert await crawl(again, [], directory) is Ending.FINISHED
        assert {name: asked[name] for name in names} == dict.fromkeys(names, 2)
        for _ in range(3):
            assert await crawl(again, [], directory) is Ending.FINISHED
    with View(directory) as view:
        known = [view.remembered(key(f"{base}{name}")) for name in names]
    assert {Memory.from_bytes(each.memory).course.missing for each in known if each is not None} == {1}
    assert {name: asked[name] for name in names} == dict.fromkeys(names, 5)


async def test_a_page_that_comes_back(tmp_path: Path) -> None:
    """A page that was missing for a while is there again afterwards, though it is as it was before."""
    directory, there = tmp_path / "crawl", ("text/html", "here I am")
    pages = {"/": there}
    async with small_host(tmp_path, pages) as base:
        await crawl(configured(tmp_path / "hosts"), [f"{base}/"], directory)
        statuses = []
        for page in (("text/html", GONE), there, there):
            pages["/"] = page
            await crawl(configured(tmp_path / "hosts", revisit=ONCE), [], directory)
            with View(directory) as view:
                row = view.get(key(f"{base}/"))
            assert row is not None
            statuses.append(row.status)
    assert statuses == [404, 200, 200]


async def test_pages_that_were_kept_as_references(tmp_path: Path) -> None:
    """A page that was kept as a reference to another is kept whole once it is visited again."""
    directory, body = tmp_path / "crawl", f"<p>{'the same again ' * 60}</p>"
    links = " ".join(f'<a href="/{name}">x</a>' for name in ("one", "two"))
    pages = {"/": ("text/html", links), "/one": ("text/html", body), "/two": ("text/html", body)}
    async with small_host(tmp_path, pages) as base:
        await crawl(configured(tmp_path / "hosts"), [f"{base}/"], directory)
        assert len(records(directory, "revisit")) == 1
        await crawl(configured(tmp_path / "hosts", revisit=ONCE), [], directory)
        await crawl(configured(tmp_path / "hosts", revisit=ONCE), [], directory)
    bodies = {(each["WARC-Target-URI"], each["WARC-Date"]) for each in records(directory, "response")}
    assert {f"{base}/one", f"{base}/two"} <= {url for url, _ in bodies}
    first, *later = records(directory, "revisit")
    named = {(each["WARC-Refers-To-Target-URI"], each["WARC-Refers-To-Date"]) for each in later}
    assert named <= bodies
    assert {url.removeprefix(base) for url, _ in named} == {"/", "/one", "/two"}
    of = first["WARC-Target-URI"]
    assert [each["WARC-Refers-To-Target-URI"] for each in later if each["WARC-Target-URI"] == of] == [of]


async def test_what_has_no_summary(tmp_path: Path) -> None:
    """What was not kept has no row when it is found as it was; a page that goes has one, once."""
    directory = tmp_path / "crawl"
    links = " ".join(f'<a href="{target}">x</a>' for target in ("/hidden", "/moved", "/goes"))
    pages = {
        "/": ("text/html", links),
        "/hidden": ("text/html", '<meta name="robots" content="noindex">secret'),
        "/moved": ("text/html", MOVED),
        "/robots.txt": ("text/plain", ""),
    }
    async with small_host(tmp_path, pages) as base:
        pages["/robots.txt"] = ("text/plain", f"Sitemap: {base}/map.xml\n")
        pages["/map.xml"] = ("application/xml", f"<urlset><url><loc>{base}/goes</loc></url></urlset>")
        await crawl(configured(tmp_path / "hosts"), [f"{base}/"], directory)
        for body in ("nothing to see", GONE, GONE):
            pages["/goes"] = ("text/html", body)
            await crawl(configured(tmp_path / "hosts", revisit=ONCE), [], directory)
    with Store.open(directory, StoreSettings(keep_free_bytes=0), resume=True) as store:
        store.flush_segments(everything=True)
    rows = pq.read_table(directory / "summaries", columns=["url", "status"]).to_pylist()
    statuses: dict[str, list[int]] = {}
    for row in rows:
        statuses.setdefault(row["url"].removeprefix(base), []).append(row["status"])
    assert statuses == {"/": [200, 304, 304, 304], "/goes": [200, 304, 404]}


async def test_twins(tmp_path: Path) -> None:
    """Every revisit record names a record with a body, also of pages that have the same one."""
    directory, twin = tmp_path / "crawl", ("text/html", "word " * 300)
    pages = {"/": ("text/html", "nothing yet"), "/a": twin, "/b": twin}
    async with small_host(tmp_path, pages) as base:
        await crawl(configured(tmp_path / "hosts"), [f"{base}/"], directory)
        pages["/"] = ("text/html", '<a href="/a">a</a> <a href="/b">b</a>')
        for _ in range(2):
            await crawl(configured(tmp_path / "hosts", revisit=ONCE), [], directory)
    bodies = {(each["WARC-Target-URI"], each["WARC-Date"]) for each in records(directory, "response")}
    found = records(directory, "revisit")
    assert {each["WARC-Target-URI"] for each in found} == {f"{base}{target}" for target in ("/", "/a", "/b")}
    for each in found:
        assert (each["WARC-Refers-To-Target-URI"], each["WARC-Refers-To-Date"]) in bodies


async def serve_until_cancelled(
    handler: Callable[[trio.SocketStream], Awaitable[None]],
    listener: trio.SocketListener,
    task_status: trio.TaskStatus[trio.CancelScope],
) -> None:
    """Serve, until the scope that is handed back is cancelled."""
    with trio.CancelScope() as scope:
        task_status.started(scope)
        await trio.serve_listeners(handler, [listener])


async def answer(pages: dict[str, tuple[str, str]], asked: Counter[str], stream: trio.SocketStream) -> None:
    """Answer requests for some pages, unless they are the same; all others have nothing to say."""
    buffer = b""
    async for received in stream:
        buffer += received
        while b"\r\n\r\n" in buffer:
            head, _, buffer = buffer.partition(b"\r\n\r\n")
            target = head.split(b" ")[1].decode()
            asked[target] += 1
            if target == "/feed":
                await trio.sleep(1)  # by then what was fetched before is known
            kind, body = pages.get(target, ("text/html", "nothing to see"))
            etag = f'"{crc32(body.encode())}"'
            status = "404 Not Found" if target not in pages and target == "/robots.txt" else "200 OK"
            status = {GONE: "404 Not Found", MOVED: "301 Moved\r\nLocation: /"}.get(body, status)
            if status == "200 OK" and etag.encode() in head:
                status, body = "304 Not Modified", ""
            said = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nETag: {etag}\r\n"
            await stream.send_all(f"{said}Content-Length: {len(body)}\r\n\r\n{body}".encode())
