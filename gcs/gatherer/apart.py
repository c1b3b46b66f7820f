"""Pages that are read apart: what is neither HTML nor text goes to the workshop, and comes back read.

Meanwhile they count as unread, so no more pages come than can be read. The workshop is set up with the first
of them: a crawl of HTML has none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import trio

from gcs.config import Summary
from gcs.fetch.outcome import Response
from gcs.gatherer.job import Visit
from gcs.gatherer.visit import Visitor
from gcs.world import World

if TYPE_CHECKING:
    from gcs.summary.workshop import Workshop


class Apart:
    """Visits that wait for the workshop, or are in it."""

    def __init__(
        self,
        settings: Summary,
        world: World,
        visitor: Visitor,
        *,
        came: Callable[[Visit], None],
        is_checked: Callable[[str], bool],
    ) -> None:
        """`came` is told of a visit that was read; `is_checked`: somebody has spoken of a key before."""
        self._settings, self._world, self._visitor = settings, world, visitor
        self._came, self._is_checked = came, is_checked
        self._waiting: list[Visit] = []
        self._lot = trio.lowlevel.ParkingLot()
        self._workshop: Workshop | None = None
        self.count = 0
        """Visits that have not come back yet."""
        # Who wants nothing but the links of pages has no use for what else there is.
        self.is_open = world.has_processes and settings.readers > 0 and settings.level == "full"

    @property
    def started(self) -> int:
        """Processes that were started for it."""
        return self._workshop.started if self._workshop is not None else 0

    @property
    def lost(self) -> int:
        """Those of them that hung, crashed, or ran out of memory."""
        return self._workshop.lost if self._workshop is not None else 0

    def without_those_of(self, visits: Sequence[Visit]) -> list[Visit]:
        """Those of some visits that are read in place; the others are taken in."""
        here: list[Visit] = []
        apart: list[Visit] = []
        for visit in visits:
            (apart if self._visitor.is_apart(visit) else here).append(visit)
        if apart:
            self.count += len(apart)
            self._waiting += apart
            self._lot.unpark(count=len(apart))
        return here

    async def run(self) -> None:
        """Have visits read, as many at a time as there are processes."""
        while not self._waiting:
            await self._lot.park()
        workshop = self._workshop = self._world.workshop(self._settings)
        try:
            async with trio.open_nursery() as nursery:
                for _ in range(workshop.processes):
                    nursery.start_soon(self._serve, workshop)
        finally:
            with trio.CancelScope(shield=True):
                await workshop.aclose()

    async def _serve(self, workshop: Workshop) -> None:
        while True:
            if not self._waiting:
                await self._lot.park()
                continue
            visit = self._waiting.pop(0)
            response = visit.outcome
            assert isinstance(response, Response)
            if visit.document is not None or self._is_checked(visit.job.queued.key):
                visit.brief = self._visitor.brief(visit)
            visit.document, visit.members = await workshop.read(
                self._visitor.body(response),
                url=visit.job.url,
                content_type=response.headers.get("content-type", ""),
                level=self._settings.level,
            )
            visit.was_apart = True
            self.count -= 1
            self._came(visit)
