"""Strangers who confirm what others say, on a real Redis: found out meanwhile, or in league with them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from secrets import token_hex

import pytest
import trio

from gcs.core import trust
from gcs.core.trust import NEW, Look, Trust
from gcs.core.urls import key
from gcs.helper import lender
from gcs.helper.papers import ANSWER, BUNDLE, VERSION, Answer, Bundle, Page
from gcs.simulate.web import Web
from gcs.simulate.webserver import serve
from tests import servers
from tests.crawling import configured
from tests.lending import ME, Scene, scene
from tests.test_malice import gone

pytestmark = pytest.mark.uncounted
WEB = Web(3, hosts=20, pages=600, plain=True, slowness=0.0)
UNSEEN = 2
"""Answers with a lie in them that nobody has looked at."""


class Stranger:
    """A helper whose every word the test decides about."""

    def __init__(self, made: Scene, name: str) -> None:
        self.made, self.name = made, name

    async def next(self) -> Bundle:
        """Take a bundle."""
        _, _, data = await self.made.desk(self.name).urls.in_(BUNDLE, str, bytes)
        assert isinstance(data, bytes)
        return Bundle.opened(data, self.made.badge(self.name).bundles_key)

    async def answer(
        self, bundle: Bundle, lies: Iterable[str] = (), *, pages_at_most: int | None = None
    ) -> None:
        """Say what there is, but of some URLs that they are gone."""
        worker, badge = self.made.worker(self.name), self.made.badge(self.name)
        pages: list[Page] = []
        for number, path in enumerate(bundle.paths[:pages_at_most]):
            outcome = await self.made.transport.fetch(bundle.origin, path)
            page = worker._told(bundle, number, outcome)  # type: ignore[arg-type] # it answers
            lie = f"{bundle.origin}{path}" in lies
            pages.append(gone(page) if lie else page)
        sealed = Answer(VERSION, 0, True, pages).sealed(badge.key, ME, bundle.id, self.name)
        await self.made.desk(self.name).summaries.out(ANSWER, ME, bundle.id, self.name, sealed)


def known(made: Scene, name: str) -> None:
    """Somebody has been right often enough."""
    for _ in range(NEW):
        made.lender.scrutiny.trust.passed(made.record(name), 0)


def logged(place: Path) -> list[tuple[str, str]]:
    """The URLs of the crawl's log, in order, each with its line."""
    rows = (place / "store" / "crawl.log").read_text().splitlines()
    return [(row.split()[3], row) for row in rows]


async def sooner_or_later(true: Callable[[], bool]) -> None:
    """Wait for what needs many pages."""
    with trio.fail_after(60):
        while not true():  # noqa: ASYNC110 - nothing tells
            await trio.sleep(0.05)


@asynccontextmanager
async def crawl(
    place: Path, node: servers.Node, patch: pytest.MonkeyPatch, *helpers: str
) -> AsyncIterator[tuple[Scene, trio.Nursery]]:
    """A gatherer that cannot fetch a slow web soon, and helpers of an open site; it goes on until left."""
    async with serve(WEB, place, latency_s=0.05) as served:
        patch.setattr(lender, "EXPECTED_S", 20.0)  # no loan ends because the machine is busy
        few = {"concurrency": 1, "per_host": 1}
        config = configured(served.hosts, fetch=few, helpers={"bundle": 4}, crawl={"name": token_hex(4)})
        async with scene(config, place / "store", site="world:open", redis=node.url) as made:
            made.invite(*helpers)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(made.run, served.web.seeds)
                yield made, nursery
                nursery.cancel_scope.cancel()


async def until_present(made: Scene, name: str) -> None:
    """Wait until it is known that somebody is there."""
    desk = made.site.desk(name)
    await sooner_or_later(lambda: bool(made.lender.present.get(desk)))


@pytest.mark.parametrize("liar", ["known", "new"])
async def test_who_is_found_lying_meanwhile_neither_confirms_nor_is_confirmed(
    tmp_path: Path, redis_node: servers.Node, monkeypatch: pytest.MonkeyPatch, liar: str
) -> None:
    """One of two is found out while the second has the bundle: what they agree on is fetched here."""
    monkeypatch.setattr(trust, "AUDITED", 0.0)
    async with crawl(tmp_path, redis_node, monkeypatch, "new", "known") as (made, nursery):
        known(made, "known")
        new, second = Stranger(made, "new"), Stranger(made, "known")
        nursery.start_soon(made.go_on_saying, "known", 0)
        nursery.start_soon(made.go_on_saying, "new", 1)
        await until_present(made, "known")
        with trio.fail_after(60):
            bundle = await new.next()
            while len(bundle.paths) < 2:
                await new.answer(bundle)
                bundle = await new.next()
            await new.answer(bundle)
            same = await second.next()
            assert (same.origin, same.paths) == (bundle.origin, bundle.paths)
            made.lender.scrutiny.lied(made.record(liar))
            await second.answer(same)
        urls = {f"{bundle.origin}{path}" for path in bundle.paths}
        await sooner_or_later(lambda: urls <= dict(logged(tmp_path)).keys())
        assert [row for url, row in logged(tmp_path) if url in urls and "helper:" in row] == []
        assert not made.lender.scrutiny.trust.record(made.record("known")).vouched.keys


def looking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the first answers that are confirmed one page is looked at, of later ones every page."""
    looks = 0

    def to_look_at(_: Trust, pages: Sequence[int], disputed: Iterable[int], __: Random) -> Look:
        nonlocal looks
        looks += 1
        is_audit = looks > UNSEEN
        return Look(frozenset(pages if is_audit else {pages[0], *disputed}), is_audit)

    monkeypatch.setattr(Trust, "to_look_at", to_look_at)


class Pair:
    """Two helpers: what one says, who is new, the other confirms, who is known."""

    def __init__(self, made: Scene, new: str, second: str) -> None:
        self.first, self.second = Stranger(made, new), Stranger(made, second)
        known(made, second)
        self.new, self.known = (
            made.lender.scrutiny.trust.record(made.record(each)) for each in (new, second)
        )
        self.lies: list[str] = []

    async def agree(self, *, lie: bool, pages_at_most: int | None = None) -> None:
        """Answer one bundle; about its last page both lie, if they do; until that is decided."""
        while len((bundle := await self.first.next()).paths) == 1:
            await self.first.answer(bundle)
        said, looked = len(self.known.vouched.keys), self.new.consistent
        if lie:
            self.lies.append(f"{bundle.origin}{bundle.paths[-1]}")
        await self.first.answer(bundle, self.lies)
        await self.second.answer(await self.second.next(), self.lies, pages_at_most=pages_at_most)
        await sooner_or_later(
            lambda: (
                len(self.known.vouched.keys) != said or self.known.wrong > 0 or self.new.consistent != looked
            )
        )


@asynccontextmanager
async def paired(
    place: Path, node: servers.Node, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[Scene, Pair]]:
    """Two helpers that are there."""
    looking(monkeypatch)
    async with crawl(place, node, monkeypatch, "bad", "one") as (made, nursery):
        pair = Pair(made, "bad", "one")
        nursery.start_soon(made.go_on_saying, "one", 0)
        nursery.start_soon(made.go_on_saying, "bad", 1)
        await until_present(made, "one")
        yield made, pair


async def test_two_in_league_are_both_found_out(
    tmp_path: Path, redis_node: servers.Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lies that a known helper confirms count where nobody looks; the first audit undoes them all."""
    async with paired(tmp_path, redis_node, monkeypatch) as (made, pair):
        for _ in range(UNSEEN):
            await pair.agree(lie=True)
        believed = {key(url) for url in pair.lies}
        assert believed <= set(pair.known.vouched.keys)
        await pair.agree(lie=True)
        assert (pair.new.wrong, pair.known.wrong) == (1, 1)
        assert not pair.known.vouched.keys
        await sooner_or_later(lambda: believed <= set(made.again))


@pytest.mark.parametrize("pages_at_most", [None, 1])
async def test_an_audit_covers_what_was_confirmed_before(
    tmp_path: Path, redis_node: servers.Node, monkeypatch: pytest.MonkeyPatch, pages_at_most: int | None
) -> None:
    """But not if who confirms leaves out pages, so that others have to be looked at anyhow."""
    async with paired(tmp_path, redis_node, monkeypatch) as (_, pair):
        for _ in range(UNSEEN):
            await pair.agree(lie=False)
        rests = list(pair.known.vouched.keys)
        assert rests
        await pair.agree(lie=False, pages_at_most=pages_at_most)
        assert pair.known.vouched.keys == ([] if pages_at_most is None else rests)
        assert (pair.new.wrong, pair.known.wrong) == (0, 0)
