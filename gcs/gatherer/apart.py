"""Pages that are read apart: what is neither HTML nor text goes to the workshop, and comes back read.

Meanwhile they count as unread, so no more pages come than can be read. The workshop is set up with the first
of them: a crawl of HTML has none.

The same files lie on many sites. One that was read under the same name, with the same content type and below
the same top-level domain, and neither links to anything nor contains anything, is not read again. One that
was refused is read a second time, since memory may have been short by chance; and a feed always, since
what is found of a damaged one depends on where it lies.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import trio

from gcs.config import Summary
from gcs.fetch.outcome import Response
from gcs.gatherer.job import Visit
from gcs.gatherer.visit import Visitor
from gcs.summary.members import Read
from gcs.summary.names import name_of
from gcs.summary.pipeline import top_level
from gcs.summary.recognise import FEEDS
from gcs.summary.records import Document
from gcs.world import World

if TYPE_CHECKING:
    from gcs.summary.workshop import Workshop

REMEMBERED: Final = 256
"""Bodies of which it is remembered what they say."""


class _Body(NamedTuple):
    """All that a document without links depends on, if nothing went wrong."""

    digest: bytes
    content_type: str
    name: str
    domain: str


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
        self._known: OrderedDict[_Body, Document] = OrderedDict()
        self._refused: OrderedDict[_Body, Document] = OrderedDict()
        """Those that were refused once."""
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
            visit.document, visit.members = await self._read(workshop, visit.job.url, response)
            visit.was_apart = True
            self.count -= 1
            self._came(visit)

    async def _read(self, workshop: Workshop, url: str, response: Response) -> Read:
        """What a body says, by the workshop's word or as it is remembered."""
        body, content_type = self._visitor.body(response), response.headers.get("content-type", "")
        asked = _Body(hashlib.sha256(body).digest(), content_type, name_of(url), top_level(url))
        if asked in self._known:
            self._known.move_to_end(asked)
            # Many may be remembered one after the other, and others have to have their turn.
            found = Read(self._known[asked])
            await trio.lowlevel.checkpoint()
            return found
        lost = workshop.lost
        read = await workshop.read(body, url=url, content_type=content_type, level=self._settings.level)
        # What a plug-in says may depend on the whole URL, and a process may be lost by chance.
        if not self._visitor.has_plugins and workshop.lost == lost and _is_lasting(read):
            self._remember(asked, read.document)
        return read

    def _remember(self, asked: _Body, document: Document) -> None:
        is_sure = not document.refused or self._refused.pop(asked, None) == document
        table = self._known if is_sure else self._refused
        table[asked] = document
        if len(table) > REMEMBERED:
            table.popitem(last=False)


def _is_lasting(read: Read) -> bool:
    """Whether what was read depends on nothing but what `_Body` has."""
    return not (read.members or read.document.hrefs) and read.document.format not in FEEDS
