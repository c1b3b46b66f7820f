"""Keeps the timetable of a crawl in order while it runs: pages are adopted, counted, graded and hinted at.

All of it reads much, which is done in a thread, decides about some pages at a time, which is done at once,
and has that written with the next batch. Whatever is written is a revision: of a page that was visited
meanwhile the visit counts.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Final
from zlib import crc32

import structlog
import trio

from gcs.core.revisits.memory import Memory
from gcs.core.revisits.standing import APPOINTED, Standing
from gcs.gatherer.adopting import AT_ONCE, Stranger, Strangers, adopted
from gcs.gatherer.returning import ADOPTED
from gcs.gatherer.revisiting import GRADED, Revisiting
from gcs.store.records import Batch, Committed, Remembered, Revised
from gcs.store.store import Store
from gcs.world import World

COUNT_EVERY_S: Final = 60.0
CAME: Final = "revisits-came:"
"""Before a range that has come from another gatherer, perhaps with pages of which nothing is remembered."""
SAMPLED: Final = 500
"""Pages by which the lengths of intervals are found when all are graded anew."""
HINTS: Final = 100_000
"""Hints that wait; of more nothing is kept, since they are given again."""
_Range = tuple[str, str | None]


def came(ranges: Iterable[_Range]) -> dict[str, bytes]:
    """Marks that pages of some ranges have come, to be kept with the last of them: until they are adopted."""
    return {CAME + start + (f"\0{end}" if end is not None else ""): b"yes" for start, end in ranges}


def _range_of(mark: str) -> _Range:
    start, separator, end = mark.partition("\0")
    return start, end if separator else None


class Upkeep:
    """The tasks beside the visits of one crawl."""

    def __init__(
        self,
        revisiting: Revisiting,
        store: Store,
        commit: Callable[[Batch], Awaitable[Committed]],
        world: World,
    ) -> None:
        """`commit` has something written."""
        self._revisiting, self._store, self._commit, self._world = revisiting, store, commit, world
        self._strangers = Strangers(store)
        self._hints: deque[tuple[str, float]] = deque()
        self._is_new = store.get_meta(ADOPTED) is None
        self._moved: list[_Range] = []
        """Ranges that may have got pages, beside those that are marked on disk."""
        self._is_to_count, self._count_at = True, -math.inf
        self._has_called = False
        """Whether pages with a date ahead were called up for the round."""
        self._busy = True
        self._wake = trio.Event()

    @property
    def is_settled(self) -> bool:
        """Whether all that is known of pages is in the timetable."""
        return not (self._busy or self._wake.is_set())

    def hint(self, hints: Sequence[tuple[str, float]]) -> None:
        """Somebody says when pages changed."""
        if hints:
            self._hints.extend(hints[: HINTS - len(self._hints)])
            self._wake.set()

    def moved(self, ranges: Sequence[_Range]) -> None:
        """Pages of some ranges have changed hands, perhaps to come here."""
        self._moved = [*self._moved, *ranges] if len(self._moved) < AT_ONCE else [("", None)]
        self._is_to_count = True
        self._wake.set()

    def call_up(self) -> None:
        """The round was begun sooner: some may have been told a date since then."""
        self._has_called = False
        self.changed()

    def changed(self) -> None:
        """The policy has changed, or pages are to be visited again that were not."""
        self._count_soon()
        self._busy = True
        self._wake.set()

    async def run(self) -> None:
        """Do what there is to do, and wait for more."""
        while True:
            if self._revisiting.settings.is_on:
                await self._order()
                await self._count()
            self._busy = False
            await self._world.until(self._wake, COUNT_EVERY_S)
            if self._wake.is_set():
                self._busy, self._wake = True, trio.Event()

    async def _order(self) -> None:
        """Let all that is known of pages be in the timetable."""
        if self._is_new:
            # What was fetched before anybody thought of coming back is on disk then.
            await self._commit(Batch())
            await self._adopt(self._strangers.everywhere(), {ADOPTED: b"yes"})
            self._is_new = False
        if self._revisiting.settings.once and not self._has_called:
            self._has_called = True
            await self._commit(Batch(meta=self._revisiting.meta()))
            await self._revise(self._told_dates())
            self._revisiting.may_begin = True
        while self._store.get_meta(GRADED) != self._revisiting.grading.encode():
            await self._grade()
        while places := self._unadopted():
            self._moved = []
            for start, end in places:
                await self._adopt(self._strangers.within(start, end), {})
            if marks := {name: b"" for place, name in places.items() if name}:
                await self._commit(Batch(meta=marks))
        while self._hints:
            await self._heed()

    def _count_soon(self) -> None:
        self._is_to_count, self._count_at = True, -math.inf

    def _unadopted(self) -> dict[_Range, str]:
        """Ranges that may have pages of which nothing is remembered, with their marks if they have one."""
        marked = {_range_of(name): f"{CAME}{name}" for name, _ in self._store.metas(CAME)}
        return dict.fromkeys(self._moved, "") | marked

    async def _count(self) -> None:
        """Count how many pages there are of each grade, when some may have changed hands, now and then."""
        if self._is_to_count and trio.current_time() >= self._count_at:
            self._is_to_count, self._count_at = False, trio.current_time() + COUNT_EVERY_S
            counts = await self._world.offload(self._store.grades)
            self._revisiting.courses.timetable.restore(counts.items())

    async def _adopt(self, strangers: Iterator[list[Stranger]], meta: dict[str, bytes]) -> None:
        """Remember pages of which nothing is remembered."""
        before = self._store.visits
        while (some := await self._world.offload(partial(next, strangers, None))) is not None:
            if some:
                await self._commit(Batch(revised=adopted(self._revisiting, some)))
        if meta:
            await self._commit(Batch(meta=meta))
        if (count := self._store.visits - before) > 0:
            structlog.get_logger().info("pages will be visited again", pages=count)

    async def _grade(self) -> None:
        """Let all pages stand in their lines as the policy wants it."""
        revisiting, policy = self._revisiting, self._revisiting.grading
        # Until all are, they stand as two policies want it: whoever is interrupted begins anew.
        revisiting.graded = ""
        await self._commit(Batch(meta={GRADED: b""}))
        revisiting.price(await self._world.offload(self._sample))
        pages = self._store.memories()
        while some := await self._world.offload(lambda: list(islice(pages, AT_ONCE))):
            if revisiting.grading != policy:
                return  # by another one since, which is seen next
            if revised := revisiting.regraded(some):
                await self._commit(Batch(revised=revised))
        await self._commit(Batch(meta={GRADED: policy.encode()}))
        revisiting.graded = policy
        self._count_soon()

    def _sample(self) -> list[tuple[str, Remembered]]:
        """Some pages from everywhere; it reads all, and may do so in a thread."""
        every = max(1, self._store.visits // SAMPLED)
        chosen = (each for each in self._store.memories() if crc32(each[0].encode()) % every == 0)
        return list(islice(chosen, 2 * SAMPLED))

    def _told_dates(self) -> Iterator[list[Revised]]:
        """Let no page be left out of a round that was told a date before it, and was not asked for in it."""
        started, keys = self._revisiting.started, self._store.appointed(self._revisiting.started)
        while some := list(islice(keys, AT_ONCE)):
            revised = []
            for key, known in zip(some, self._store.all_remembered(some), strict=True):
                was = None if known is None else Memory.from_bytes(known.memory)
                if known is not None and was is not None and was.asked_at < started:
                    due = Standing(APPOINTED, was.visited_at)
                    after = Remembered(replace(was, standing=due).to_bytes(), due)
                    revised.append(Revised(key, known.memory, after))
            yield revised

    async def _revise(self, revisions: Iterator[list[Revised]]) -> None:
        while (some := await self._world.offload(partial(next, revisions, None))) is not None:
            if some:
                await self._commit(Batch(revised=some))

    async def _heed(self) -> None:
        """Have pages visited soon of which somebody says that they have changed."""
        some = list(islice(self._hints, AT_ONCE))
        keys = [key for key, _ in some]
        known = await self._world.offload(lambda: self._store.all_remembered(keys))
        if revised := self._revisiting.hinted(some, known):
            await self._commit(Batch(revised=revised))
        for _ in some:
            self._hints.popleft()
