"""Network proximity: who is nearest to a domain that was just discovered. (002, section 3.1.)

    ("announce", site, origin, announcer)   a gatherer has accepted its first URL of a domain
    ("delay", site, gatherer, seconds)      what a connection takes from there; infinite if there is none
    ("domain", site, owner, origin, seconds, version)
                                            what was decided, what the owner has measured, and what number of
                                            decision that is

Of several announcers the oldest tuple counts. It decides when all living members have answered, or after
`DECIDE_WITHIN_S`: for the smallest delay, and for itself if that is as small. If it is gone, the member with
the smallest id decides instead. Should two have decided, the older decision counts.

Delays are measured again: by who joins later, for all that was decided before, and by everyone when they are
old. Who then finds itself clearly nearer than the owner was takes the domain over, by one atomic swap; an
owner for which its delay has changed clearly says so in the same way, and others compare theirs with it.

What is decided here does not change who fetches: that is done by plans alone, with their hand-over, for a
domain that changed its owner by word could be fetched by two. The delays go into the next report, and a
decision for another than the plan's owner is a reason for a new plan.

Watching the space is what makes it fast, looking at it from time to time what makes it sure. All work and
memory has limits: domains that are open, measured in a second, and known. Every gatherer keeps the decisions
on its disk, and puts up again what Redis has lost.
"""

from __future__ import annotations

import math
import statistics
import time
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any, Final, NamedTuple

import msgpack
import structlog
import trio

from gcs.core.holdings import Charter
from gcs.core.placement import Sites, is_clearly_nearer, nearest
from gcs.core.urls import PATH, url
from gcs.domains import registered_domain
from gcs.fetch.fetching import Fetching
from gcs.fetch.outcome import Failure, Origin
from gcs.traffic import Traffic
from tuplespace import Space, Tuple, TupleSpaceError

REASON: Final = "proximity"
META: Final = "domain "
MOST: Final = 50_000
"""Domains that are known, as many as a plan keeps; further ones go with the ranges of the plan."""
OPEN: Final = 50
"""Domains of all announcers that are undecided at most, so that they can be measured in time."""
DECIDE_WITHIN_S: Final = 10.0
PER_SECOND: Final = 10.0
"""Domains that are measured in a second at most."""
TRIES: Final = 3
"""Connections that are made to a domain; the median counts."""
LOOK_EVERY_S: Final = 5.0
_MEASURE_WITHIN_S: Final = 5.0
_AT_ONCE: Final = 32
_UNMEASURED: Final = 1_000
LOOK_OVER_EVERY_S: Final = 600.0
_LOOK_FOR_OLD_EVERY_S: Final = 1.0
_TTL_S: Final = 60.0
_TICK_S: Final = 0.25
_PAUSE_S: Final = 1.0
_PLANS: Final = 2
"""A decision is a reason for so many plans at most: without the answers of all, the second one follows it."""

_TEMPLATES: Final = {
    "announce": ("announce", str, str, str),
    "delay": ("delay", str, str, float),
    "domain": ("domain", str, str, str, float, int),
}


@dataclass(slots=True)
class _Open:
    """A domain that was announced and is not decided."""

    origin: str
    announcer: str
    since: float
    answers: dict[str, float] = field(default_factory=dict)


class Decision(NamedTuple):
    """Who has a domain; as it is written, after the domain."""

    owner: str
    origin: str
    """What is measured of it."""
    seconds: float
    """What the owner has measured."""
    version: int = 0
    """Of two decisions the one with the larger counts, and then the older."""


class Proximity:
    """The part of one gatherer that announces, measures, decides and remembers."""

    def __init__(
        self,
        space: Space,
        me: str,
        *,
        alive: Callable[[], Collection[str]],
        charter: Callable[[], Charter | None],
        measure: Callable[[Origin], Awaitable[float]],
        keep: Callable[[Mapping[str, bytes]], Awaitable[object]],
        stored: Iterable[tuple[str, bytes]] = (),
        traffic: Traffic | None = None,
        again_after_s: float = math.inf,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`alive` are the members who may own something; `keep` writes named values, which `stored` were.

        What is older than `again_after_s` is measured again.
        """
        self._space, self._me, self._alive, self._charter = space, me, alive, charter
        self._measure, self._keep = measure, keep
        self._traffic = traffic or Traffic()
        self._sites = Sites(registered_domain)
        self._log = structlog.get_logger()
        self._again_after_s, self._clock = again_after_s, clock
        self.table: dict[str, Decision] = {}
        """By domain: what was decided."""
        self._delays: dict[str, float] = {}
        """By domain: what was measured here."""
        self._measured_at: dict[str, float] = {}
        self._old: list[tuple[float, str]] = []
        """A heap: when a domain is to be measured again. What has been since is further below."""
        for site, packed in stored:
            decision, delay, at = msgpack.unpackb(packed)
            self.table[site] = Decision(*decision)
            if delay is not None:
                self._delays[site], self._measured_at[site] = delay, at
            self._measure_later(site)
        self._known = dict.fromkeys(self.table)
        self._waiting: deque[tuple[str, str]] = deque()
        """Domains to be announced, with their origins."""
        self._open: dict[str, _Open] = {}
        self._unmeasured: dict[str, str] = {}
        self._asked = trio.Event()
        self._unwritten: set[str] = set()
        self._doubtful: dict[str, None] = {}
        """Decisions that are to be compared with what was measured here."""
        self._missed: set[str] = set()
        """Decisions that Redis did not have when it was last looked at."""
        self._unplanned = dict.fromkeys(self.table, _PLANS)
        """By domain: how many plans a decision may still be a reason for."""
        self._reported: set[str] = set()
        self._epoch = 0

    # What others in this process say and ask

    def noticed(self, hosts: Iterable[str]) -> None:
        """URLs of these hosts were accepted; called with every commit."""
        for host in hosts:
            site = self._sites.of(host)
            if site in self._known or len(self._known) >= MOST:
                continue
            self._known[site] = None
            self._waiting.append((site, url(host + PATH)[:-1]))

    def delays(self) -> dict[str, float]:
        """Everything that was measured here; what is decided by now is in the next plan."""
        self._reported = set(self._unplanned)
        return dict(self._delays)

    def reason(self) -> str:
        """Why there should be a new plan; "" if there is nothing to be changed by it."""
        charter = self._charter()
        if charter is None:
            return ""
        if charter.epoch != self._epoch:
            self._epoch = charter.epoch
            for site in self._reported & self._unplanned.keys():
                self._unplanned[site] -= 1
            self._reported = set()
        for site in list(self._unplanned):
            owner = self.table[site].owner
            is_done = charter.owners.owner(site) == owner or owner in charter.departed
            if is_done or self._unplanned[site] <= 0:
                del self._unplanned[site]
        is_due = any(self.table[site].owner in charter.members for site in self._unplanned)
        return REASON if is_due else ""

    # Tasks

    async def run(self) -> None:
        """Take part, until cancelled."""
        async with trio.open_nursery() as nursery:
            for tag in _TEMPLATES:
                nursery.start_soon(self._listen, tag)
            nursery.start_soon(self._measure_all)
            nursery.start_soon(self._write)
            await self._attend()

    async def _attend(self) -> None:
        """Announce, decide, and look at the space."""
        look_at, look_over_at, told = 0.0, 0.0, False
        while True:
            try:
                if trio.current_time() >= look_at:
                    over = trio.current_time() >= look_over_at
                    await self._look(everything=over)
                    look_at = trio.current_time() + LOOK_EVERY_S
                    look_over_at = trio.current_time() + LOOK_OVER_EVERY_S if over else look_over_at
                await self._announce()
                await self._decide_what_is_due()
                await self._compare()
                told = False
            except TupleSpaceError as error:
                if not told:
                    self._log.warning("no word about domains", why=str(error))
                told = True
                await trio.sleep(_PAUSE_S)
            await trio.sleep(_TICK_S)

    async def _listen(self, tag: str) -> None:
        """Hear of what is written, as soon as it is."""
        while True:
            try:
                async with self._space.watch(*_TEMPLATES[tag]) as watch:
                    async for event in watch:
                        if event.kind == "out":
                            self._hear(*event.fields)
            except TupleSpaceError:
                await trio.sleep(_PAUSE_S)

    def _hear(self, *fields: Any) -> None:
        """Take notice of a tuple."""
        self._traffic.read(*fields)
        match fields:
            case "announce", site, origin, announcer:
                self._announced(site, origin, announcer)
            case "delay", site, gatherer, seconds:
                if site in self._open:
                    self._open[site].answers.setdefault(gatherer, seconds)
            case "domain", site, *decision:
                self._told(site, Decision(*decision))

    async def _out(self, *fields: Any, ttl: float | None = None) -> None:
        await self._space.out(*fields, ttl=ttl)
        self._traffic.wrote(*fields)

    # Announcing

    async def _announce(self) -> None:
        """Tell the others of domains, while not too many are undecided."""
        while self._waiting and self._may_announce():
            site, origin = self._waiting[0]
            if site not in self.table and site not in self._open:
                await self._out("announce", site, origin, self._me, ttl=_TTL_S)
                self._announced(site, origin, self._me)
            self._waiting.popleft()

    def _may_announce(self) -> bool:
        share = max(1, OPEN // max(1, len(self._alive())))
        return sum(each.announcer == self._me for each in self._open.values()) < share

    def _announced(self, site: str, origin: str, announcer: str) -> None:
        if site in self.table or site in self._open or len(self._open) >= _UNMEASURED:
            return
        self._known[site] = None
        self._open[site] = _Open(origin, announcer, trio.current_time())
        if site in self._delays:
            self._open[site].answers[self._me] = self._delays[site]
        self._unmeasured[site] = origin
        self._asked.set()

    # Measuring

    async def _measure_all(self) -> None:
        """Measure what was announced, so many a second."""
        limit = trio.CapacityLimiter(_AT_ONCE)
        async with trio.open_nursery() as nursery:
            while True:
                with trio.move_on_after(_LOOK_FOR_OLD_EVERY_S):
                    await self._asked.wait()
                self._asked = trio.Event()
                while (chosen := self._next_to_measure()) is not None:
                    site, origin = chosen
                    await limit.acquire_on_behalf_of(site)
                    nursery.start_soon(self._measured, site, origin, limit)
                    await trio.sleep(1 / PER_SECOND)

    def _next_to_measure(self) -> tuple[str, str] | None:
        """A domain that is open, else the one that was not measured for the longest, if it is due."""
        while self._unmeasured:
            site = next(iter(self._unmeasured))
            origin = self._unmeasured.pop(site)
            if site in self._open:
                return site, origin
        if self._me not in self._alive():
            return None
        while self._old and self._old[0][0] <= self._clock():
            due, site = heappop(self._old)
            if site in self.table and due == self._due_at(site):
                return site, self.table[site].origin
        return None

    def _due_at(self, site: str) -> float:
        return self._measured_at.get(site, -math.inf) + self._again_after_s if site in self._delays else 0.0

    def _measure_later(self, site: str) -> None:
        due = self._due_at(site)
        if due < math.inf:
            heappush(self._old, (due, site))

    async def _measured(self, site: str, origin: str, limit: trio.CapacityLimiter) -> None:
        """Measure a domain, and say what it takes."""
        try:
            if site not in self._open or site not in self._delays:
                try:
                    whom = Origin.split(f"{origin}/")[0]
                except (KeyError, ValueError):
                    return  # no origin at all
                self._delays[site] = await self._measure(whom)
                self._measured_at[site] = self._clock()
                self._measure_later(site)
            if site in self._open:
                self._open[site].answers[self._me] = self._delays[site]
                await self._out("delay", site, self._me, self._delays[site], ttl=_TTL_S)
            elif site in self.table:
                self._unwritten.add(site)
                self._doubtful[site] = None
        except TupleSpaceError as error:
            self._log.info("cannot tell a delay", why=str(error))
        finally:
            limit.release_on_behalf_of(site)

    # Deciding

    async def _decide_what_is_due(self) -> None:
        """Decide where all have answered, or the time is up; forget what nobody decided."""
        alive, now = set(self._alive()), trio.current_time()
        if self._me not in alive:
            return
        for site, opened in list(self._open.items()):
            waited_s = now - opened.since
            if self._decider(opened, alive) == self._me:
                if opened.answers.keys() >= alive or waited_s >= DECIDE_WITHIN_S:
                    await self._decide(site, opened, alive)
            elif waited_s >= _TTL_S:
                self._open.pop(site, None)

    @staticmethod
    def _decider(opened: _Open, alive: set[str]) -> str:
        return opened.announcer if opened.announcer in alive else min(alive)

    async def _decide(self, site: str, opened: _Open, alive: set[str]) -> None:
        """Decide about a domain, unless another has, or should; of two decisions the older counts."""
        told = await self._space.rdp(*_about(site))
        if told is None:
            first = await self._space.rdp("announce", site, str, str)
            if first is not None:
                opened.announcer = str(first[3])
            if self._decider(opened, alive) != self._me:
                return
            told = await self._decided(site, opened, alive)
        self._told(site, Decision(*told[2:]), is_oldest=True)  # type: ignore[arg-type] # by the template
        while await self._space.inp("announce", site, str, str) is not None:
            pass
        while await self._space.inp("delay", site, str, float) is not None:
            pass

    async def _decided(self, site: str, opened: _Open, alive: set[str]) -> Tuple:
        """Write a decision; gives the oldest there is."""
        async for _, _, gatherer, seconds in self._space.scan("delay", site, str, float):
            assert isinstance(seconds, float)
            opened.answers.setdefault(str(gatherer), seconds)
        answers = {each: delay for each, delay in opened.answers.items() if each in alive}
        owner = nearest({self._me: math.inf, **answers}, self._me)
        written = ("domain", site, *Decision(owner, opened.origin, answers.get(owner, math.inf)))
        await self._out(*written)
        told = await self._space.rdp(*_about(site)) or written
        if told[2] != owner:
            await self._space.inp(*_about(site, owner, 0))
        return told

    def _told(self, site: str, decision: Decision, *, is_oldest: bool = False) -> None:
        """Remember who has a domain, unless that was decided anew since, or this may not be the oldest."""
        self._open.pop(site, None)
        self._known[site] = None
        before = self.table.get(site)
        if before is not None and (before == decision or before.version >= decision.version + is_oldest):
            return
        self.table[site] = decision
        self._unwritten.add(site)
        if before is None or before.owner != decision.owner:
            self._unplanned[site] = _PLANS
        if before is None and site not in self._delays:
            self._measure_later(site)
        elif before is not None:
            self._doubtful[site] = None

    async def _compare(self) -> None:
        """Take over domains that are clearly nearer from here; of our own, say how far they are by now."""
        while self._doubtful and self._me in self._alive():
            site = next(iter(self._doubtful))
            decision, delay = self.table[site], self._delays.get(site)
            if delay is not None and self._contradicts(decision, delay):
                new = decision._replace(owner=self._me, seconds=delay, version=decision.version + 1)
                was = _about(site, decision.owner, decision.version)
                if await self._space.swap(was, ("domain", site, *new)) is not None:
                    self._traffic.wrote("domain", site, *new)
                    self._told(site, new)
            self._doubtful.pop(site, None)

    def _contradicts(self, decision: Decision, delay: float) -> bool:
        if is_clearly_nearer(delay, decision.seconds):
            return True
        return decision.owner == self._me and is_clearly_nearer(decision.seconds, delay)

    # Remembering

    async def _write(self) -> None:
        """Bring decisions to disk, some at a time."""
        while True:
            await trio.sleep(_PAUSE_S)
            if self._unwritten:
                sites, self._unwritten = self._unwritten, set()
                rows = {
                    META + site: [self.table[site], self._delays.get(site), self._measured_at.get(site)]
                    for site in sites
                }
                await self._keep({name: msgpack.packb(row) for name, row in rows.items()})

    async def _look(self, *, everything: bool) -> None:
        """See what was missed, and put up again what Redis has lost."""
        async for announced in self._space.scan(*_TEMPLATES["announce"]):
            self._hear(*announced)
        if not everything and await self._space.count(*_TEMPLATES["domain"]) == len(self.table):
            self._missed = set()
            return
        seen: dict[str, Decision] = {}
        twice: list[tuple[str, Decision]] = []
        async for decided in self._space.scan(*_TEMPLATES["domain"]):
            self._traffic.read(*decided)
            site, decision = str(decided[1]), Decision(*decided[2:])  # type: ignore[arg-type] # by template
            known = seen.get(site)
            if known is None or decision.version > known.version:
                seen[site] = decision
            if known is not None:
                twice.append((site, known if seen[site] is decision else decision))
        missing = self.table.keys() - seen.keys()
        for site, decision in seen.items():
            self._told(site, decision, is_oldest=True)
            if self.table[site].version > decision.version:
                missing.add(site)
                twice.append((site, decision))
        await self._repair(missing, twice)

    async def _repair(self, missing: set[str], twice: Iterable[tuple[str, Decision]]) -> None:
        """The first of the members does it at once, the others what they still miss the next time."""
        is_first = self._me == min(self._alive(), default=self._me)
        for site in sorted(missing if is_first else missing & self._missed):
            await self._out("domain", site, *self.table[site])
        self._missed = missing
        if is_first:
            for site, decision in twice:
                await self._space.inp(*_about(site, decision.owner, decision.version))


def _about(site: str, owner: Any = str, version: Any = int) -> tuple[Any, ...]:
    """The template of decisions about a domain."""
    return ("domain", site, owner, str, float, version)


async def delay_to(transport: Fetching, origin: Origin) -> float:
    """The median of the seconds that connections to an origin take; infinite if there are none.

    It is in whole milliseconds: what differs by less is equally far, and stays where it is.
    """
    took: list[float] = []
    with trio.move_on_after(_MEASURE_WITHIN_S):
        for _ in range(TRIES):
            delay = await transport.delay(origin)
            if isinstance(delay, Failure):
                break
            took.append(delay)
    return round(statistics.median(took), 3) if took else math.inf
