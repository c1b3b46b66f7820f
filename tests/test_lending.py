"""Lending: what others fetch for a gatherer, over real HTTP; and what they cannot do to it."""

from __future__ import annotations

import math
import zlib
from collections import Counter
from pathlib import Path

import msgpack
import pytest
import trio

from gcs.core.trust import NEW
from gcs.gatherer.crawl import Ending
from gcs.helper import clerk, papers
from gcs.helper.desks import HELPER
from gcs.helper.papers import ANSWER, BUNDLE, VERSION, Answer, Bundle, Page
from gcs.simulate.web import Web, judge
from gcs.simulate.webserver import serve
from tests.crawling import configured
from tests.lending import ME, Scene, scene, soon
from tuplespace import SpaceFull

FEW = {"concurrency": 2, "per_host": 1}


async def test_helpers_fetch_what_the_gatherer_cannot_soon(tmp_path: Path) -> None:
    web = Web(3, hosts=20, pages=300, plain=True, slowness=0.0)
    async with serve(web, tmp_path, latency_s=0.01) as served:
        config = configured(served.hosts, fetch=FEW)
        async with scene(config, tmp_path / "store") as made, trio.open_nursery() as nursery:
            made.invite("one", "two")
            nursery.start_soon(made.help, "one")
            nursery.start_soon(made.help, "two")
            assert await made.run(served.web.seeds) is Ending.FINISHED
            nursery.cancel_scope.cancel()
            assert made.crawl.tally.helped > 100
            assert made.lender.account.returned == made.crawl.tally.helped
            assert not made.lender.account.refused
        served.flush()
        seen = judge(served.log, served.web)
        unanswered = made.lender.account.unanswered  # some, if the machine is busy
    assert (seen.missing, seen.forbidden) == (frozenset(), {})
    assert sum(seen.repeated.values()) <= unanswered
    lines = (tmp_path / "store" / "crawl.log").read_text()
    assert "helper:one" in lines
    assert "helper:two" in lines


@pytest.mark.alone
@pytest.mark.parametrize("site", ["office", "world:open"])
async def test_lent_hosts_keep_their_distance(site: str, tmp_path: Path) -> None:
    """Whoever asks, and however often: a host, and an address that several share, is asked as it may be."""
    web = Web(4, hosts=12, pages=100, plain=True, slowness=0.0, hosts_per_address=2)
    async with serve(web, tmp_path, latency_s=0.03) as served:
        config = configured(served.hosts, fetch={"concurrency": 1, "delay_s": 0.05, "delay_factor": 0.0})
        async with scene(config, tmp_path / "store", site=site) as made, trio.open_nursery() as nursery:
            made.invite("one", "two")
            for _ in range(NEW):
                made.lender.scrutiny.trust.passed(made.record("one"), 0)
            nursery.start_soon(made.help, "one")
            nursery.start_soon(made.help, "two")
            with trio.move_on_after(20):
                await made.run(served.web.seeds)
            nursery.cancel_scope.cancel()
            assert made.lender.account.returned > 10
        served.flush()
        seen = judge(served.log, served.web)
    assert min((*seen.closest_s.values(), *seen.closest_at_address_s.values())) > 0.05 - 0.001
    assert max(seen.most_at_once_at_address.values()) == 1


async def test_who_vanishes_is_not_waited_for_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A helper takes bundles and never answers; all is fetched all the same, once its time is over."""
    soon(monkeypatch)
    web = Web(3, hosts=10, pages=100, plain=True, slowness=0.0)
    async with serve(web, tmp_path, latency_s=0.005) as served:
        config = configured(served.hosts, fetch=FEW)
        async with scene(config, tmp_path / "store") as made, trio.open_nursery() as nursery:
            made.invite("ghost")
            taken: list[object] = []
            where: set[str] = set()

            async def haunt() -> None:
                await made.say("ghost")
                while True:
                    taken.append(await made.desk().urls.in_(BUNDLE, str, bytes))
                    where.update(made.crawl.loans.lent_to(key) for key in made.crawl.under_way)

            nursery.start_soon(haunt)
            assert await made.run(served.web.seeds) is Ending.FINISHED
            nursery.cancel_scope.cancel()
            assert taken
            assert made.desk().name in where
            assert made.lender.account.unanswered
            assert made.crawl.loans.lent == 0
        served.flush()
        seen = judge(served.log, served.web)
    assert (seen.missing, seen.repeated) == (frozenset(), {})


async def test_a_full_space_holds_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    web = Web(3, hosts=10, pages=100, plain=True, slowness=0.0)
    async with serve(web, tmp_path, latency_s=0.005) as served:
        config = configured(served.hosts, fetch=FEW)
        async with scene(config, tmp_path / "store") as made:
            made.invite("one")
            await made.say("one")
            desk = made.desk()
            refusals = []

            async def full(*_: object, **__: object) -> None:
                refusals.append(1)
                raise SpaceFull("no room")

            monkeypatch.setattr(type(desk.urls), "out", full)
            assert await made.run(served.web.seeds) is Ending.FINISHED
            assert refusals
        served.flush()
        seen = judge(served.log, served.web)
    assert (seen.missing, seen.repeated) == (frozenset(), {})


async def test_a_failure_that_a_helper_reports_is_tried_here(tmp_path: Path) -> None:
    """Its own network may have failed: what it could not fetch is not given up."""
    web = Web(3, hosts=10, pages=100, plain=True, slowness=0.0)
    async with serve(web, tmp_path, latency_s=0.005) as served:
        config = configured(served.hosts, fetch=FEW)
        async with scene(config, tmp_path / "store") as made, trio.open_nursery() as nursery:
            made.invite("offline")

            async def fail() -> None:
                badge, desk = made.badge("offline"), made.desk()
                while True:
                    _, id_, data = await desk.urls.in_(BUNDLE, str, bytes)
                    assert isinstance(data, bytes)
                    bundle = Bundle.opened(data, badge.bundles_key)
                    answer = Answer(VERSION, 0, True, [Page(0, failure="dns")])
                    sealed = answer.sealed(badge.key, ME, bundle.id, badge.name)
                    await desk.summaries.out(ANSWER, ME, str(id_), badge.name, sealed)

            await made.say("offline")
            nursery.start_soon(fail)
            assert await made.run(served.web.seeds) is Ending.FINISHED
            nursery.cancel_scope.cancel()
            assert made.crawl.tally.helped == 0
            assert made.lender.account.lent > 0
        served.flush()
        seen = judge(served.log, served.web)
    assert (seen.missing, seen.repeated) == (frozenset(), {})


@pytest.mark.uncounted
async def test_strangers_are_confirmed(tmp_path: Path) -> None:
    """Honest helpers of an open site earn trust, and then are asked once for most pages."""
    web = Web(3, hosts=20, pages=600, plain=True, slowness=0.0)
    async with serve(web, tmp_path, latency_s=0.01) as served:
        config = configured(served.hosts, fetch=FEW, helpers={"bundle": 4})
        async with scene(config, tmp_path / "store", site="world:open") as made:
            async with trio.open_nursery() as nursery:
                made.invite("one", "two")
                nursery.start_soon(made.help, "one")
                nursery.start_soon(made.help, "two")
                assert await made.run(served.web.seeds) is Ending.FINISHED
                nursery.cancel_scope.cancel()
            trust = made.lender.scrutiny.trust
            assert not trust.is_new(made.record("one"))
            assert not trust.is_new(made.record("two"))
            assert trust.record(made.record("one")).wrong == trust.record(made.record("two")).wrong == 0
            assert made.again == []
            assert made.crawl.tally.helped > 2 * NEW  # how many more is a matter of speed
        served.flush()
        seen = judge(served.log, served.web)
    assert seen.missing == frozenset()


class Liar:
    """Fetches as it should, and then says something else, from some answer on."""

    def __init__(self, made: Scene, name: str, honest: int = 0) -> None:
        self.made, self.name, self.honest, self.answers = made, name, honest, 0

    async def run(self) -> None:
        """Lie until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.made.go_on_saying, self.name)
            await self.answer()

    async def answer(self) -> None:
        """Answer whatever comes."""
        badge, desk = self.made.badge(self.name), self.made.desk(self.name)
        while True:
            _, _, data = await desk.urls.in_(BUNDLE, str, bytes)
            assert isinstance(data, bytes)
            bundle = Bundle.opened(data, badge.bundles_key)
            self.answers += 1
            pages = []
            for number, path in enumerate(bundle.paths):
                outcome = await self.made.transport.fetch(bundle.origin, path)
                worker = self.made.worker(self.name)
                page = worker._told(bundle, number, outcome)  # type: ignore[arg-type] # it answers
                pages.append(self.forged(page) if self.answers > self.honest else page)
            sealed = Answer(VERSION, 0, True, pages).sealed(badge.key, ME, bundle.id, badge.name)
            await desk.summaries.out(ANSWER, ME, bundle.id, badge.name, sealed)

    def forged(self, page: Page) -> Page:
        """With a link that is not there; or gone, every second time."""
        if page.document is None:
            return page
        if self.answers % 2:
            head = b"HTTP/1.1 404 Gone\r\n\r\n"
            return self.changed(page, status=404, head=head, document=None)
        document = page.document._replace(hrefs=["http://h001.test:1/forged/"], texts=[], rels="")
        return self.changed(page, document=document)

    @staticmethod
    def changed(page: Page, **changes: object) -> Page:
        """The same page, but for some fields."""
        return Page(**{name: getattr(page, name) for name in page.__struct_fields__} | changes)


@pytest.mark.uncounted
@pytest.mark.parametrize("honest", [0, 12])
async def test_liars_are_found_out(tmp_path: Path, honest: int) -> None:
    """Nothing of a stranger counts unchecked, and who was honest before loses all trust at the first lie."""
    web = Web(3, hosts=20, pages=800, plain=True, slowness=0.0)
    async with serve(web, tmp_path, latency_s=0.005) as served:
        config = configured(served.hosts, fetch=FEW, helpers={"bundle": 3})
        async with scene(config, tmp_path / "store", site="world:open") as made:
            made.invite("liar", "one")
            liar = Liar(made, "liar", honest)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(liar.run)
                nursery.start_soon(made.help, "one")
                assert await made.run(served.web.seeds) is Ending.FINISHED
                nursery.cancel_scope.cancel()
            trust = made.lender.scrutiny.trust
            assert trust.record(made.record("liar")).wrong >= 1
            assert trust.record(made.record("one")).wrong == 0
            assert liar.answers <= honest + 40
        served.flush()
        seen = judge(served.log, served.web)
        log = (tmp_path / "store" / "crawl.log").read_text()
    assert seen.missing == frozenset()
    if not honest:
        assert "helper:liar" not in log
        assert "/forged/" not in log


async def test_what_cannot_be_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forged, foreign, repeated, oversized and senseless answers harm nobody, and are counted."""
    soon(monkeypatch, slack_s=3.0)
    monkeypatch.setattr(clerk, "_PENANCE_S", 0.001)
    web = Web(3, hosts=20, pages=300, plain=True, slowness=0.0)
    async with serve(web, tmp_path, latency_s=0.01) as served:
        config = configured(served.hosts, fetch=FEW, helpers={"bundle": 2})
        async with scene(config, tmp_path / "store", site="world:open") as made:
            made.invite("bad", "one")
            said = Counter[str]()

            async def attack() -> None:
                badge, desk = made.badge("bad"), made.desk("bad")
                for junk in ([math.inf, 1, "x"], [1, math.nan, "x"], [-1, 1, "x"], [1 << 40, 1, "x"], "x", 7):
                    await desk.summaries.out(HELPER, "bad", msgpack.packb(junk))
                    await desk.summaries.out(HELPER, "one", b"\xc1")
                bomb = b"\0" * (papers.PART_BYTES * 100)
                last = Answer(VERSION, 0, True, [])
                while True:
                    await made.say("bad")
                    said["rounds"] += 1
                    _, id_, data = await desk.urls.in_(BUNDLE, str, bytes)
                    assert isinstance(data, bytes)
                    await desk.summaries.out(ANSWER, ME, str(id_), "one", b"x")
                    for what in (
                        b"",
                        b"junk",
                        bytes(1 << 19),
                        last.sealed(b"another key", ME, str(id_), "bad"),
                        last.sealed(badge.key, ME, "another bundle", "bad"),
                        papers._sealed(badge.key, (ANSWER, ME, str(id_), "bad"), b"junk"),
                        papers._sealed(badge.key, (ANSWER, ME, str(id_), "bad"), zlib.compress(bomb)),
                    ):
                        await desk.summaries.out(ANSWER, ME, str(id_), "bad", what)
                    await desk.summaries.out(ANSWER, ME, "nobody's", "bad", b"x")

            async with trio.open_nursery() as nursery:
                nursery.start_soon(attack)
                nursery.start_soon(made.help, "one")
                assert await made.run(served.web.seeds) is Ending.FINISHED
                nursery.cancel_scope.cancel()
            trust = made.lender.scrutiny.trust
            assert trust.is_barred(made.record("bad"))
            assert trust.record(made.record("one")).wrong == 0
            assert {"seal", "form", "size", "unknown", "stranger"} <= made.lender.account.refused.keys()
            assert made.lender.account.returned > 10
        served.flush()
        seen = judge(served.log, served.web)
    assert seen.missing == frozenset()
    assert "helper:bad" not in (tmp_path / "store" / "crawl.log").read_text()
