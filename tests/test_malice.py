"""A malicious helper of an open site, on a real Redis with a user of its own: how far it gets."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgpack
import pytest
import redis
import trio

from gcs.config import Config
from gcs.core.trust import NEW
from gcs.gatherer import loans
from gcs.gatherer.crawl import Ending
from gcs.helper import intake
from gcs.helper.desks import _SUMMARIES, HELPER, Desk
from gcs.helper.papers import ANSWER, BUNDLE, VERSION, Answer, Bundle, Page
from gcs.simulate.web import Web, judge
from gcs.simulate.webserver import serve
from tests import forging, servers
from tests.crawling import configured
from tests.lending import ME, Scene, scene, soon

pytestmark = pytest.mark.uncounted
JOBS = 20
"""Bundles within which a malicious helper is out of trust."""
WARM = 12
"""Answers that a turncoat gives honestly."""


def changed(page: Page, **changes: object) -> Page:
    """The same page, but for some fields."""
    return Page(**{name: getattr(page, name) for name in page.__struct_fields__} | changes)


def gone(page: Page) -> Page:
    """A page that is said not to be there."""
    return changed(page, status=404, head=b"HTTP/1.1 404 Gone\r\n\r\n", document=None)


class Malicious:
    """A helper that fetches as it should, and then says what it likes."""

    def __init__(self, made: Scene, connection: redis.Redis, honest: int = 0) -> None:
        self.made, self.connection, self.honest = made, connection, honest
        self.jobs = 0
        """Bundles that it took."""
        self.trusted = 0
        """Those of them that it lied about before that was found out."""
        self.lies: set[str] = set()
        """URLs that it lied about."""
        self.earlier: list[bytes] = []

    async def run(self) -> None:
        """Lie until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.made.go_on_saying, "bad")
            await self.work()

    async def work(self) -> None:
        """Take bundles, and answer them."""
        badge, desk = self.made.badge("bad"), self.made.desk("bad")
        while True:
            _, _, data = await desk.urls.in_(BUNDLE, str, bytes)
            assert isinstance(data, bytes)
            self.jobs += 1
            self.trusted += self.jobs > self.honest and not self.is_out
            bundle = Bundle.opened(data, badge.bundles_key)
            if self.jobs > self.honest:
                await self.lie(desk, bundle)
            else:
                await self.answer(desk, bundle, await self.fetched(bundle))

    @property
    def is_out(self) -> bool:
        """Whether it was found out: it is new again, or not asked for now."""
        trust, clerk = self.made.lender.scrutiny.trust, self.made.lender._clerks[self.made.site.desk("bad")]
        return trust.record(self.made.record("bad")).wrong > 0 or not clerk._is_asked()

    async def fetched(self, bundle: Bundle) -> list[Page]:
        """What an honest one would say."""
        worker = self.made.worker("bad")
        pages = []
        for number, path in enumerate(bundle.paths):
            outcome = await self.made.transport.fetch(bundle.origin, path)
            pages.append(worker._told(bundle, number, outcome))  # type: ignore[arg-type] # it answers
        return pages

    async def answer(self, desk: Desk, bundle: Bundle, pages: Sequence[Page]) -> None:
        """Answer with these pages."""
        sealed = Answer(VERSION, 0, True, list(pages)).sealed(
            self.made.badge("bad").key, ME, bundle.id, "bad"
        )
        self.earlier.append(sealed)
        await desk.summaries.out(ANSWER, ME, bundle.id, "bad", sealed)

    async def lie(self, desk: Desk, bundle: Bundle) -> None:
        """Answer with something else."""
        true = await self.fetched(bundle)
        pages = [self.forged(page) for page in true]
        # Of some pages there is nothing that it could lie about.
        told = zip(bundle.paths, true, pages, strict=True)
        self.lies |= {f"{bundle.origin}{path}" for path, page, forged in told if forged is not page}
        await self.answer(desk, bundle, pages)

    def forged(self, page: Page) -> Page:
        """What it says instead of a page: an answer with some truth in it may pass a check."""
        raise NotImplementedError

    def write(self, desk: Desk, fields: tuple[str | bytes, ...], payload: bytes) -> None:
        """Write bytes under the head of a tuple, past the client."""
        forging.write(self.connection, desk.summaries.name, _SUMMARIES, fields, payload)


class ForgesLinks(Malicious):
    def forged(self, page: Page) -> Page:
        if page.document is None:
            return gone(page)
        return changed(page, document=page.document._replace(hrefs=["/forged/"], texts=[], rels="", kinds=""))


class ForgesStatus(Malicious):
    def forged(self, page: Page) -> Page:
        return gone(page)


class ForgesBodies(Malicious):
    """Keeps status, headers and links, and claims another body: pages change, after all."""

    def forged(self, page: Page) -> Page:
        if page.document is None:
            return gone(page)
        raw = b"<title>FORGED</title>"
        document = page.document._replace(title="FORGED", excerpt="FORGED")
        digest = hashlib.sha1(raw, usedforsecurity=False).digest()
        return changed(page, raw=raw, raw_bytes=len(raw), digest=digest, document=document)


class ForgesBodiesOnly(Malicious):
    """Keeps all that was read of a page, too."""

    def forged(self, page: Page) -> Page:
        if page.raw is None:
            return page
        raw = page.raw + b"<!-- FORGED -->"
        digest = hashlib.sha1(raw, usedforsecurity=False).digest()
        return changed(page, raw=raw, raw_bytes=len(raw), digest=digest)


class IsBusy(Malicious):
    def forged(self, page: Page) -> Page:
        head = b"HTTP/1.1 503 No\r\nRetry-After: 86400\r\n\r\n"
        return changed(page, status=503, head=head, document=None)


class Replays(Malicious):
    """Sends what it has sent before, and answers what others were asked."""

    async def lie(self, desk: Desk, bundle: Bundle) -> None:
        for earlier in self.earlier[-3:]:
            await desk.summaries.out(ANSWER, ME, bundle.id, "bad", earlier)
        for id_ in list(self.made.lender._out):
            sealed = Answer(VERSION, 0, True, []).sealed(self.made.badge("bad").key, ME, id_, "one")
            await desk.summaries.out(ANSWER, ME, id_, "one", sealed)
        self.earlier.append(Answer(VERSION, 0, True, []).sealed(b"x" * 32, ME, bundle.id, "bad"))


class SendsGigabytes(Malicious):
    async def lie(self, desk: Desk, bundle: Bundle) -> None:
        fields = (ANSWER, ME, bundle.id, "bad", b"")
        huge = msgpack.packb([*fields[:4], bytes(16 << 20)])
        for _ in range(4):
            await trio.to_thread.run_sync(self.write, desk, fields, huge)


class SendsJunk(Malicious):
    async def lie(self, desk: Desk, bundle: Bundle) -> None:
        fields = (ANSWER, ME, bundle.id, "bad", b"")
        for junk in (b"\xc1", b"", msgpack.packb([*fields[:4], 7]), msgpack.packb({"a": 1}), b"\x91" * 999):
            self.write(desk, fields, junk)
            self.write(desk, (HELPER, "bad", b""), junk)
            self.write(desk, (HELPER, "one", b""), junk)


KINDS: Sequence[Callable[..., Malicious]] = (
    ForgesLinks,
    ForgesStatus,
    ForgesBodies,
    ForgesBodiesOnly,
    IsBusy,
    Replays,
    SendsGigabytes,
    SendsJunk,
)


@asynccontextmanager
async def crawl(config: Config, place: Path, node: servers.Node) -> AsyncIterator[tuple[Scene, redis.Redis]]:
    """A gatherer with two helpers of an open site, and a connection of one of them."""
    async with scene(config, place / "store", site="world:open", redis=node.url) as made:
        made.invite("bad", "one")
        for _ in range(NEW):
            made.lender.scrutiny.trust.passed(made.record("one"), 0)
        desk = made.desk("bad")
        with forging.user(node, desk.urls.name, desk.summaries.name) as connection:
            yield made, connection


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("honest", [0, WARM])
async def test_it_is_out_within_twenty_jobs(
    tmp_path: Path,
    redis_node: servers.Node,
    monkeypatch: pytest.MonkeyPatch,
    kind: Callable[..., Malicious],
    honest: int,
) -> None:
    """Nothing counts of who is new, the lies of a turncoat are fetched again, and others go on."""
    soon(monkeypatch, offered_s=1.0, slack_s=2.0)
    monkeypatch.setattr(loans, "MOST_REST_S", 1.0)
    web = Web(3, hosts=20, pages=500, plain=True, slowness=0.0)
    async with serve(web, tmp_path, latency_s=0.01) as served:
        config = configured(
            served.hosts,
            fetch={"concurrency": 1, "per_host": 1},
            helpers={"bundle": 4},
            crawl={"name": f"{kind.__name__}-{honest}"},
        )
        async with crawl(config, tmp_path, redis_node) as (made, connection):
            bad = kind(made, connection, honest)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(made.help, "one")
                nursery.start_soon(bad.run)
                assert await made.run(served.web.seeds) is Ending.FINISHED
                nursery.cancel_scope.cancel()
            trust = made.lender.scrutiny.trust
            assert bad.is_out
            assert 0 < bad.trusted <= JOBS
            assert trust.record(made.record("one")).wrong == 0
            assert made.crawl.tally.helped > 20
            rows = (tmp_path / "store" / "crawl.log").read_text().splitlines()
        served.flush()
        seen = judge(served.log, served.web)
    assert seen.missing == frozenset()
    # A turncoat's links count until it is found out; what they lead to is fetched, and says what it is.
    assert honest or not any("forged" in row for row in rows)
    last = {row.split()[3]: row for row in rows}
    assert not [url for url in bad.lies if "helper:bad" in last.get(url, "")]


async def test_what_is_held_back_is_bounded(
    tmp_path: Path, redis_node: servers.Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answers that there is no room for are refused, nobody is blamed, and their pages are fetched anyhow."""
    monkeypatch.setattr(intake, "HELD_BYTES", 60_000)
    web = Web(3, hosts=20, pages=300, plain=True, slowness=0.0)
    async with serve(web, tmp_path, latency_s=0.01) as served:
        config = configured(
            served.hosts,
            fetch={"concurrency": 1, "per_host": 1},
            helpers={"bundle": 8},
            crawl={"name": "bounded"},
        )
        async with crawl(config, tmp_path, redis_node) as (made, _):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(made.help, "one")
                nursery.start_soon(made.help, "bad")
                assert await made.run(served.web.seeds) is Ending.FINISHED
                nursery.cancel_scope.cancel()
            trust = made.lender.scrutiny.trust
            refused = made.lender.account.refused.keys()
            assert {"room"} <= refused <= {"room", "unknown"}
            assert all(made.lender._clerks[f"world/{name}"]._is_asked() for name in ("one", "bad"))
            assert all(trust.record(made.record(name)).wrong == 0 for name in ("one", "bad"))
        served.flush()
        seen = judge(served.log, served.web)
    assert seen.missing == frozenset()
