"""The one writer of a crawl: what comes together is committed ten times a second, or when it is much.

Who fills batches faster than they are written has to wait for `room`. When the disk is full everything waits,
and goes on when there is room. Others in this process have their parts written with the next batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Final

import structlog
import trio

from gcs.core.vitals import Sign
from gcs.gatherer.territory import Territory
from gcs.metrics import seconds
from gcs.store.errors import DiskFull
from gcs.store.records import Batch, Committed, Finished, Found, Remembered
from gcs.store.store import Store
from gcs.world import World

BATCH: Final = 128
HEAVY: Final = 8_000
"""URLs that others add to a batch at most, unless one part has more: nothing is taken off the queue while a
batch is decided about."""
COMMIT_EVERY_S: Final = 0.1
FULL_DISK_PAUSE_S: Final = 5.0
FLUSH_EVERY_S: Final = 1.0
IDLE_S: Final = 1.0
"""Who has nothing to write says so often that it is well."""


class _Part:
    """What somebody else wants to have written with the next batch."""

    __slots__ = ("batch", "committed", "written")

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.written = trio.Event()
        self.committed: Committed | None = None


class Writer:
    """Fills batches and commits them, one at a time."""

    def __init__(
        self,
        store: Store,
        territory: Territory,
        world: World,
        *,
        files_every_s: float,
        meta: Callable[[], dict[str, bytes]],
        committed: Callable[[Batch, Committed], None],
    ) -> None:
        """`meta` gives the named values to be kept with a batch; `committed` is told when it is on disk.

        No row is in no file for longer than `files_every_s`, and what it takes to write one.
        """
        self._store, self._territory, self._world = store, territory, world
        self._files_every_s = files_every_s
        self._meta, self._committed = meta, committed
        self._log = structlog.get_logger()
        self._finished: list[Finished] = []
        self._found: list[Found] = []
        self._remembered: list[tuple[str, Remembered]] = []
        self._parts: list[_Part] = []
        self._writing = False
        self._begun, self._filled = trio.Event(), trio.Event()
        self.room = trio.Event()
        """Set while more may come."""
        self.room.set()
        self.sign = Sign()
        """It answers here."""
        self.waits_for_room = False
        self.commit_times = seconds()
        """How long commits took, the waiting for room on the disk included."""

    @property
    def is_idle(self) -> bool:
        """Whether nothing is being written, and nothing waits for it."""
        return not (self._has_some() or self._writing)

    def _has_some(self) -> bool:
        return bool(self._finished or self._found or self._remembered or self._parts)

    def finished(self, made: Finished, found: Iterable[Found]) -> None:
        """Have the outcome of a URL written, and what it has led to."""
        self._finished.append(made)
        self.found(found)

    def remember(self, key: str, remembered: Remembered) -> None:
        """Have it remembered until a page is visited again, with the batch that is being filled."""
        self._remembered.append((key, remembered))
        self._begun.set()

    def found(self, found: Iterable[Found]) -> None:
        """Have URLs queued."""
        self._found.extend(found)
        self._begun.set()
        if len(self._finished) >= BATCH:
            self._filled.set()
            if self._writing and self.room.is_set():
                self.room = trio.Event()

    async def commit(self, batch: Batch) -> Committed:
        """Have something written with the next batch, and wait until it is."""
        part = _Part(batch)
        self._parts.append(part)
        self._begun.set()
        self._filled.set()
        await part.written.wait()
        assert part.committed is not None
        return part.committed

    async def run(self) -> None:
        """Commit what has come together, again and again."""
        while True:
            await self._world.until(self._begun, IDLE_S)
            self.sign.answered(trio.current_time())
            if not self._begun.is_set():
                continue
            await self._world.until(self._filled, COMMIT_EVERY_S)
            self._begun, self._filled = trio.Event(), trio.Event()
            if self._has_some():
                await self._commit()

    async def flush(self) -> None:
        """Turn rows into Parquet files beside the commits: when there are enough, and all now and then."""
        due_at = trio.current_time() + self._files_every_s
        while True:
            await trio.sleep(FLUSH_EVERY_S)
            is_time = trio.current_time() >= due_at
            if is_time or self._store.segments_due():
                # What finds no room is tried again, and the writer says that everything waits.
                with suppress(DiskFull):
                    await self._world.offload(partial(self._store.flush_segments, everything=is_time))
                    if is_time:
                        due_at = trio.current_time() + self._files_every_s

    async def _commit(self) -> None:
        finished, found, remembered = self._finished, self._found, self._remembered
        self._finished, self._found, self._remembered, self._writing = [], [], [], True
        self.room.set()
        parts = self._some_parts()
        own, passed = self._territory.route(found)
        batch = Batch(finished, own, passed=passed, remembered=remembered, meta=self._meta())
        for part in parts:
            batch.add(part.batch)
        began = trio.current_time()
        committed = await self._written(batch)
        self.commit_times.observe(trio.current_time() - began)
        self._committed(batch, committed)
        self._writing = False
        for part in parts:
            part.committed = committed
            part.written.set()

    def _some_parts(self) -> list[_Part]:
        """Parts for the next batch: at least one, and no more than can be decided about in a moment."""
        chosen, weight = 0, 0
        for part in self._parts:
            weight += part.batch.weight
            if chosen and weight > HEAVY:
                break
            chosen += 1
        parts, self._parts = self._parts[:chosen], self._parts[chosen:]
        if self._parts:
            self._begun.set()
            self._filled.set()
        return parts

    async def _written(self, batch: Batch) -> Committed:
        """Commit, and again while the disk is full."""
        while True:
            try:
                committed = await self._world.offload(partial(self._store.commit, batch))
            except DiskFull as full:
                if not self.waits_for_room:
                    self._log.warning("waiting", why=str(full))
                    self.waits_for_room = True
                self.sign.answered(trio.current_time(), rest_s=FULL_DISK_PAUSE_S)
                await trio.sleep(FULL_DISK_PAUSE_S)
            else:
                self.waits_for_room = False
                return committed
