"""The gatherer's side of an index: gives the process that fills it what the store has committed.

Nothing of it is on the way of a page: rows are taken from the store after they are committed, by a task that
waits for a thread or for the other process. What the index has is known by the index alone, so whichever of
the two is killed, they go on where it is; a process that dies is started again.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

import structlog
import trio

from gcs import child
from gcs.child import Child, ChildDied
from gcs.index import FORGOTTEN
from gcs.index.feed import forgotten, journalled
from gcs.index.records import Position
from gcs.store.records import SUMMARIES
from gcs.store.store import Store

LOOK_EVERY_S: Final = 0.5
CATCH_UP_S: Final = 10.0
"""So long the end of a crawl waits for its index; what is missing then comes with the next start."""
_PAUSE_S: Final = 5.0


class Indexing:
    """Keeps the index of a store up to date, while it runs."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._log = structlog.get_logger()
        self.position = Position()
        """What has come into the index, as far as is known."""
        self._moved = trio.Event()
        self._told: bytes | None = None
        """What was forgotten, as the worker knows it."""
        self._has_room = True

    @property
    def behind(self) -> int:
        """Commits of the store that are not in the index yet."""
        return max(0, self._store.journal(SUMMARIES).tail - self.position.entry)

    async def run(self) -> None:
        """Fill the index, again and again; never ends by itself."""
        while True:
            try:
                async with child.started("gcs.index.worker", str(self._store.directory.absolute())) as worker:
                    await self._feed(worker)
            except (ChildDied, OSError) as error:
                self._log.warning("the index cannot be filled; trying again", why=str(error))
                await trio.sleep(_PAUSE_S)

    async def caught_up(self, within_s: float) -> bool:
        """Wait until what is committed now can be found, and no more; False if that takes too long."""
        wanted, gone = self._store.journal(SUMMARIES).tail, self._store.get_meta(FORGOTTEN)
        with trio.move_on_after(within_s):
            while self.position.entry < wanted or self._told != gone:
                await self._moved.wait()
            return True
        return False

    def _at(self, position: Sequence[int]) -> None:
        self.position = Position(*position)
        self._moved.set()
        self._moved = trio.Event()

    async def _feed(self, worker: Child) -> None:
        self._told = None
        self._at(await worker.ask("at"))
        while True:
            stored = self._store.get_meta(FORGOTTEN)
            if stored != self._told:
                position = await worker.ask("forget", [*map(tuple, forgotten(stored))])
                self._told = stored
                self._at(position)
            if not await trio.to_thread.run_sync(self._found_room):
                await trio.sleep(LOOK_EVERY_S)
                continue
            at = self.position.entry
            packed = await trio.to_thread.run_sync(partial(journalled, self._store, at))
            if packed:
                self._at(await worker.ask("rows", at, packed))
            elif packed is None:
                self._at(await worker.ask("files", self._store.journal(SUMMARIES).head))
            else:
                await trio.sleep(LOOK_EVERY_S)

    def _found_room(self) -> bool:
        """Whether the disk has room; what is kept free is for the crawl, which waits as well without it."""
        has_room = self._store.has_room()
        if has_room != self._has_room:
            self._has_room = has_room
            said = "there is room again for the index" if has_room else "the disk is full; the index waits"
            self._log.warning(said)
        return has_room
