"""The gatherer's side of profiles: has each of its summaries matched, and puts up what is to be delivered.

How far it has come is kept in the store, after the matches are in the space: who is killed in between writes
some of them again, with the same numbers. Without profiles nothing is done but to look whether there are any.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import msgpack
import structlog
import trio

from gcs import child
from gcs.child import Child, ChildDied
from gcs.index.feed import journalled
from gcs.index.records import Position
from gcs.profiles.book import Book
from gcs.profiles.records import Match
from gcs.store.errors import DiskFull
from gcs.store.records import SUMMARIES, Batch
from gcs.store.store import Store
from tuplespace import TupleSpaceError

MATCHED: Final = "matched"
"""The name under which a store keeps how far its summaries were matched."""
LOOK_EVERY_S: Final = 0.5
_VERSION_EVERY_S: Final = 2.0
_PAUSE_S: Final = 5.0


class Matches:
    """Follows the summaries of one gatherer."""

    def __init__(self, store: Store, book: Book) -> None:
        self._store, self._book = store, book
        self._log = structlog.get_logger()
        self._position: Position | None = None
        """How far it has come; None while there are no profiles."""
        self._moved = trio.Event()
        self._version = 0
        self._looked_at = -_VERSION_EVERY_S

    async def run(self) -> None:
        """Match, again and again; never ends by itself."""
        while True:
            try:
                await self._until_some()
                async with child.started(
                    "gcs.profiles.worker", str(self._store.directory.absolute())
                ) as worker:
                    await self._follow(worker)
            except (ChildDied, TupleSpaceError, DiskFull, OSError) as error:
                self._log.warning("profiles cannot be matched; trying again", why=str(error))
                await trio.sleep(_PAUSE_S)

    async def _until_some(self) -> None:
        """Wait until there are profiles."""
        while not (await self._book.version() and await self._book.profiles()):
            if self._store.get_meta(MATCHED):
                await self._keep(b"")
            await trio.sleep(_VERSION_EVERY_S)

    async def _follow(self, worker: Child) -> None:
        """Match what comes, until there are no profiles any more."""
        self._version, self._looked_at = 0, -_VERSION_EVERY_S
        if not await self._known(worker):
            return
        at = await self._begun(worker)
        self._at(at)
        while await self._known(worker):
            packed = await trio.to_thread.run_sync(partial(journalled, self._store, at.entry))
            if packed:
                at = await self._heard(at, await worker.ask("rows", at.entry, packed))
            elif packed is None:
                at = await self._heard(at, await worker.ask("files", self._store.journal(SUMMARIES).head))
            else:
                await trio.sleep(LOOK_EVERY_S)
        self._position = None

    async def _begun(self, worker: Child) -> Position:
        """Where to go on: from the first page on, since those from before all profiles are passed over."""
        kept = self._store.get_meta(MATCHED)
        position, _ = await worker.ask("begin", *(msgpack.unpackb(kept) if kept else Position()))
        return Position(*position)

    async def _keep(self, position: bytes) -> None:
        await trio.to_thread.run_sync(self._store.commit, Batch(meta={MATCHED: position}))

    async def _known(self, worker: Child) -> bool:
        """Let the worker know the profiles as they are now, every so often; False if there are none."""
        if trio.current_time() < self._looked_at + _VERSION_EVERY_S:
            return True
        self._looked_at = trio.current_time()
        version = await self._book.version()
        if version == self._version:
            return True
        profiles = await self._book.profiles()
        await worker.ask("profiles", [(each.name, each.query, each.added) for each in profiles.values()])
        self._version = version
        return bool(profiles)

    async def _heard(self, before: Position, answer: Sequence[Any]) -> Position:
        """Put up what was found, and then keep how far that was."""
        position, found = Position(*answer[0]), answer[1]
        matches = [
            (name, Match(gatherer=self._store.identity, number=number, **dict(zip(_TOLD, told, strict=True))))
            for number, names, told in found
            for name in names
        ]
        if matches:
            await self._book.found(matches)
        if position != before:
            await self._keep(msgpack.packb(position))
        self._at(position)
        return position

    def _at(self, position: Position) -> None:
        self._position = position
        self._moved.set()
        self._moved = trio.Event()

    async def caught_up(self) -> None:
        """Wait until all that is committed now is matched, if there are profiles."""
        wanted = self._store.journal(SUMMARIES).tail
        while self._position is not None and self._position.entry < wanted:
            await self._moved.wait()


_TOLD: Final = ("url", "title", "text", "language", "media_type", "fetched_us")
