"""What is risky to read is read in processes that may hang, crash and grow, and nobody else notices."""

from __future__ import annotations

import gzip
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest
import trio

from gcs.config import Config, Summary
from gcs.core.urls import key
from gcs.fetch.answer import parse_headers
from gcs.fetch.outcome import Elsewhere, Response
from gcs.gatherer.admission import Admission
from gcs.gatherer.apart import Apart
from gcs.gatherer.job import Job, Visit
from gcs.gatherer.links import Targets
from gcs.gatherer.seeds import cleaning
from gcs.gatherer.visit import Visitor
from gcs.store.records import Queued, State
from gcs.summary.limits import Limits
from gcs.summary.members import Read
from gcs.summary.plugins import NONE, Part, Plugins
from gcs.summary.records import Document
from gcs.summary.workshop import Workshop
from gcs.world import REAL, World
from tests import corpus
from tests.installed import install

PLUGIN = """
import os, signal, time
def hang(part): time.sleep(3600)
def spin(part):
    while True: pass
def crash(part): os.kill(os.getpid(), signal.SIGSEGV)
def leave(part): os._exit(3)
def die(part): os.kill(os.getpid(), signal.SIGRTMIN + 1)
def lie(part):
    from gcs.summary import Document
    return Document(title="x" * 1_000)
def invent(part):
    from gcs.summary import Document
    from gcs.summary.records import Detail
    return Document(details=(Detail("x", number=float("nan")),))
def name(part):
    from gcs.summary import Document
    from gcs.summary.records import Detail
    return Document(details=(Detail("x" * 1_000, "x"),))
def draw(part):
    from gcs.summary import Document
    return Document(thumbnail="javascript:alert(1)")
def mislead(part):
    import sys
    from gcs.summary import Document
    from gcs.summary.members import Member, Read
    own, member = sys.modules["__main__"], Member(ADDRESS, ADDRESS, 1, "", 0, Document())
    packed = own.packed
    own.packed = lambda found, lasts: packed(Read(Document(), [member]), lasts=lasts)
    return Document()
ADDRESS = "http://other.test/a!/b"
"""
FUNCTIONS = ("hang", "spin", "crash", "leave", "die", "lie", "invent", "name", "draw", "mislead")


@pytest.fixture
def harmful(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plug-ins that do harm, each for a format of its own, installed for new processes."""
    points = {f"text/x-{name}": f"harmful:{name}" for name in FUNCTIONS}
    install(tmp_path, "harmful", PLUGIN, {"gcs.summarisers": points})
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))


def _workshop(*, timeout_s: float = 60.0, memory_bytes: int = 1 << 30) -> Workshop:
    return Workshop(Limits(), processes=1, timeout_s=timeout_s, memory_bytes=memory_bytes)


def _children() -> list[int]:
    """The readers that are children of this process."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parent = int((place / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == os.getpid() and b"gcs.summary.reading" in (place / "cmdline").read_bytes():
                found.append(int(place.name))
    return found


async def _read(workshop: Workshop, kind: str) -> Read:
    return await workshop.read(b"bees", url="http://host.test/a", content_type=kind)


def test_a_process_is_used_again() -> None:
    """One process reads one body after the other, members and all, and ends with its workshop."""

    async def main() -> None:
        workshop = _workshop()
        try:
            for ending in ("zip", "pdf", "mp3", "parquet", "7z"):
                body = corpus.files()[ending]
                found = await workshop.read(body, url=f"http://host.test/bees.{ending}")
                assert (found.document.format, found.document.refused) == (corpus.NAMES[ending], "")
                assert [each.links for each in found.members][-1:] == ([1] if found.members else [])
            assert (workshop.started, workshop.lost, len(_children())) == (1, 0, 1)
        finally:
            await workshop.aclose()
        assert not _children()

    trio.run(main)


@pytest.mark.usefixtures("harmful")
def test_harm() -> None:
    """A reader that crashes, ends or lies costs its own body; the next one is read."""
    reasons = {
        "crash": "its reader crashed (SIGSEGV)",
        "leave": "its reader crashed",
        "die": f"its reader crashed (signal {signal.SIGRTMIN + 1})",
        "lie": "its reader said more than there can be",
        "invent": "its reader said more than there can be",
        "name": "its reader said more than there can be",
        "draw": "its reader said nonsense",
        "mislead": "its reader spoke of something else",
    }

    async def main() -> None:
        workshop = _workshop()
        try:
            for name, why in reasons.items():
                found = await _read(workshop, f"text/x-{name}")
                assert (found.document.refused, found.document.format) == (why, f"text/x-{name}")
                good = await workshop.read(corpus.HTML, url="http://host.test/", content_type="text/html")
                assert good.document.title == corpus.TITLE
            assert workshop.lost == len(reasons)
        finally:
            await workshop.aclose()

    trio.run(main)


def test_memory() -> None:
    """A body that takes more memory than there may be is refused, and the next is read by another process."""

    async def main() -> None:
        workshop = _workshop(memory_bytes=256 << 20)
        try:
            body = b"[" + b"[]," * 3_000_000 + b"[]]"
            found = await workshop.read(body, url="http://host.test/a.json")
            assert found.document.refused == "reading it takes more than 256MiB of memory"
            assert found.document.format == "application/json"
            good = await workshop.read(corpus.HTML, url="http://host.test/", content_type="text/html")
            assert good.document.title == corpus.TITLE
            assert (workshop.lost, workshop.started) == (1, 2)
        finally:
            await workshop.aclose()

    trio.run(main)


@pytest.mark.usefixtures("harmful")
@pytest.mark.parametrize(
    ("name", "why"),
    [("hang", "reading it takes longer than 3s"), ("spin", "reading it takes longer than 3s")],
)
def test_hanging(name: str, why: str) -> None:
    """A reader that hangs, or computes for ever, is killed, and the event loop goes on meanwhile."""

    async def main() -> None:
        workshop = _workshop(timeout_s=3.0)
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await trio.sleep(0.05)
                ticks += 1

        async with trio.open_nursery() as nursery:
            nursery.start_soon(tick)
            found = await _read(workshop, f"text/x-{name}")
            nursery.cancel_scope.cancel()
        assert (found.document.refused, workshop.lost) == (why, 1)
        assert ticks > 5
        assert not _children()
        await workshop.aclose()

    trio.run(main)


def test_nothing_is_fetched() -> None:
    """What refers to something on the network or on this disk is read without it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        place = f"http://127.0.0.1:{server.getsockname()[1]}/x"
        entities = f"<!ENTITY a SYSTEM 'file:///etc/passwd'><!ENTITY b SYSTEM '{place}'>"
        entities += f"<!ENTITY % p SYSTEM '{place}'>%p;"
        kind = f"<?xml version='1.0'?><!DOCTYPE x SYSTEM '{place}' [{entities}]>"
        page = f"{kind}<x><p><t>honey &a;&b;</t></p><text>honey &a;&b;</text></x>"
        template = f"<x><Relationship TargetMode='External' Type='x/attachedTemplate' Target='{place}'/></x>"
        bodies = {
            "a.xml": page.encode(),
            "a.svg": page.replace("x>", "svg>").encode(),
            "a.rss": f"{kind}<rss><channel><title>honey &a;&b;</title></channel></rss>".encode(),
            "a.docx": corpus.zipped(
                {
                    "[Content_Types].xml": b"",
                    "word/document.xml": page.encode(),
                    "word/_rels/settings.xml.rels": template.encode(),
                }
            ),
            "a.odt": corpus.zipped(
                {"mimetype": b"application/vnd.oasis.opendocument.text", "content.xml": page.encode()},
                method=0,
            ),
            "a.yaml": f"!!python/object/apply:urllib.request.urlopen ['honey and {place}']".encode(),
            "a.mp4": f"#EXTM3U\n#EXTINF:1\n# honey and\n{place}\n".encode(),
        }

        async def main() -> None:
            workshop = _workshop()
            try:
                for name, body in bodies.items():
                    document = (await workshop.read(body, url=f"http://host.test/{name}")).document
                    assert document.refused == ""
                    assert "honey" in document.title + document.excerpt
                    assert "root:" not in document.title + document.excerpt
            finally:
                await workshop.aclose()

        trio.run(main)
        with pytest.raises(BlockingIOError):
            server.accept()


def test_cancelling() -> None:
    """Who gives up waiting leaves no process behind."""

    async def main() -> None:
        workshop = _workshop()
        with trio.move_on_after(0.05):
            await workshop.read(corpus.files()["pdf"], url="http://host.test/a.pdf")
        await workshop.aclose()
        assert not _children()

    trio.run(main)


def _came(url: str, content_type: str, body: bytes) -> Visit:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\n\r\n".encode()
    response = Response(
        200, head, parse_headers(head), body, body, "", b"", "", 1.0, 0.0, 0.0, 0.1, reused=True
    )
    job = Job.of(Queued(key(url), 1, "link", 0, 0.0, "", 1))
    return Visit(job, response, 1.0, State.DONE, 200, is_page=True)


class _Counting(Workshop):
    """A real one that keeps count of what it was given."""

    def __init__(self) -> None:
        super().__init__(Limits(), processes=1, timeout_s=20.0, memory_bytes=1 << 30)
        self.given: list[str] = []

    async def read(self, body: bytes, *, url: str, content_type: str = "", level: str = "full") -> Read:
        self.given.append(url)
        return await super().read(body, url=url, content_type=content_type, level=level)


class _WithIt(World):
    def __init__(self, workshop: Workshop) -> None:
        super().__init__()
        self._workshop = workshop

    def workshop(self, settings: Summary) -> Workshop:
        return self._workshop


def _documents(
    visits: list[Visit],
    plugins: Plugins = NONE,
    *,
    beside: Callable[[], Awaitable[None]] = trio.sleep_forever,
    came: Callable[[], None] = lambda: None,
) -> tuple[list[Document | None], list[str]]:
    """What is said of visits that are read one after the other, and which of them the workshop was given.

    `beside` runs meanwhile, and `came` is called with each.
    """
    config, workshop, read, all_read = Config(), _Counting(), list[Visit](), trio.Event()
    visitor = Visitor(config, Targets(cleaning(config)), Admission(config, year=2026), plugins)

    def note(visit: Visit) -> None:
        came()
        read.append(visit)
        if len(read) == len(visits):
            all_read.set()

    async def main() -> None:
        apart = Apart(config.summary, _WithIt(workshop), visitor, came=note, is_checked=lambda _: False)
        assert apart.without_those_of(visits) == []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(beside)
            nursery.start_soon(apart.run)
            await all_read.wait()
            nursery.cancel_scope.cancel()

    trio.run(main)
    assert read == visits
    return [visit.document for visit in visits], workshop.given


def test_the_same_file_again() -> None:
    """A file that lies on several sites is read once, if it has the same name and type and leads nowhere."""
    picture, linked = corpus.picture("PNG"), corpus.files()["svg"]
    urls = ["http://a.test/x/p.png", "http://b.test/p.png", "http://b.test/other.png"]
    visits = [_came(url, "image/png", picture) for url in urls]
    visits.append(_came("http://c.test/p.png", "image/x-png", picture))
    visits += [_came(f"http://{host}.test/a.svg", "image/svg+xml", linked) for host in "de"]
    documents, given = _documents(visits)
    assert given == [urls[0], urls[2], *(visit.job.url for visit in visits[3:])]
    assert documents[0] == documents[1]
    assert documents[0] is not None
    assert documents[0].thumbnail
    assert documents[4] is not None
    assert documents[4].hrefs


def test_the_same_damaged_file_again() -> None:
    """What was refused is read a second time, since that may have been by chance, and then no more."""
    urls = [f"http://{host}.test/bees.pdf" for host in "abcd"]
    documents, given = _documents([_came(url, "application/pdf", b"%PDF-1.4\n" + bytes(999)) for url in urls])
    assert given == urls[:2]
    assert documents[0] is not None
    assert documents[0].refused
    assert documents == [documents[0]] * 4


def test_the_same_damaged_feed_again() -> None:
    """Of a feed that is damaged other things may be found elsewhere, so that it is read there again."""
    damaged = b"<rss><channel><title>A & B</title><item><link>a.html</link></item></channel></rss>"
    urls = ["ftp://a.test/feed.rss", "http://a.test/feed.rss", "http://b.test/feed.rss"]
    documents, given = _documents([_came(url, "application/rss+xml", damaged) for url in urls])
    assert given == urls
    assert [document is not None and bool(document.refused) for document in documents] == [True] * 3
    assert documents[1] is not None
    assert documents[1].hrefs


def test_the_same_file_many_times() -> None:
    """However many files are remembered one after the other, others have their turn in between."""
    turns, seen = 0, list[int]()

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await trio.lowlevel.checkpoint()

    visits = [_came(f"http://{host}.test/p.png", "image/png", corpus.picture("PNG")) for host in "abcdef"]
    _, given = _documents(visits, beside=others, came=lambda: seen.append(turns))
    assert len(given) == 1
    # Who is first of two that have their turns is left to chance.
    assert len(set(seen)) >= len(visits) / 2


def test_the_same_file_again_with_a_plug_in() -> None:
    """Where a plug-in has a say, which may be another one for every URL, every file is read."""

    def own(part: Part) -> Document:
        return Document(title=part.url)

    visits = [_came(f"http://{host}.test/p.png", "image/png", corpus.picture("PNG")) for host in "ab"]
    _, given = _documents(visits, NONE.with_site("http://a.test/", own))
    assert given == [visit.job.url for visit in visits]


def _helped(body: bytes) -> Visit:
    """A visit of a helper, which says what it has got and no more."""
    raw = gzip.compress(body)
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/pdf\r\nContent-Encoding: gzip\r\n\r\n"
    response = Response(
        status=200,
        head=head,
        headers=parse_headers(head),
        body=b"",
        raw=raw,
        truncated="",
        request=b"",
        address="",
        started=1.0,
        connect_s=0.0,
        first_byte_s=0.0,
        total_s=0.1,
        reused=True,
        elsewhere=Elsewhere(len(raw), len(body), b"x" * 20),
    )
    job = Job.of(Queued(key("http://host.test/a.pdf"), 1, "link", 0, 0.0, "", 1))
    visit = Visit(job, response, 1.0, State.DONE, 200, is_page=True)
    visit.document, visit.helper = Document(format="application/pdf"), "one"
    return visit


def test_what_a_helper_has_got() -> None:
    """What a helper has fetched and not read is read here, from the body that it sent; pages are not."""
    config = Config()
    visitor = Visitor(config, Targets(cleaning(config)), Admission(config, year=2026))

    async def main() -> None:
        visit, page, came = _helped(corpus.pdf()), _helped(b""), trio.Event()
        page.document = Document(format="text/html")
        apart = Apart(config.summary, REAL, visitor, came=lambda _: came.set(), is_checked=lambda _: False)
        assert apart.without_those_of([visit, page]) == [page]
        assert apart.count == 1
        async with trio.open_nursery() as nursery:
            nursery.start_soon(apart.run)
            await came.wait()
            nursery.cancel_scope.cancel()
        assert visit.document is not None
        assert (visit.document.title, visit.brief) == (corpus.TITLE, Document(format="application/pdf"))
        assert (apart.without_those_of([visit]), apart.count, apart.started) == ([visit], 0, 1)
        assert not _children()

    trio.run(main)
