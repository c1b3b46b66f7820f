"""Turns: the permission to ask hosts and addresses that several gatherers may use.

    ("mark", line, maker)                                who made the turn of a line: the oldest mark counts
    ("turn", line, maker, by, free_at, distance_s)       the turn, and how the line was used last
    ("private",)                                         whoever uses this server has ended before it does

A turn is leased. Who has it asks for at most `OPEN_S` or `OPEN_REQUESTS`, waits until nothing is under way,
and puts it back with how it used the line. When somebody dies with it, or ends while a helper may be asking
there, it comes back as it was when the lease ends. While Redis is out of reach leases cannot be renewed:
nothing is begun that could be sent after them. When Redis is started again it may have forgotten leases, with
its last second, on which others rely. So nobody uses a turn but who has put it back there since, until all
gatherers have said that they have met the server since its start, and rely on no lease that it does not know;
or, if one says nothing, until all such leases have ended.

A turn is made by whoever first finds no mark: mark and turn in one step. When two do so at once both look for
the oldest mark afterwards, which is the same for both, and nobody ever takes the turn of another maker.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, NamedTuple

import structlog
import trio

from gcs.config import Fetch
from gcs.core import turns as rules
from gcs.core.politeness import Workbench
from gcs.core.turns import NOBODY, LastUse
from gcs.gatherer.node import Node
from tuplespace import Space, Taken, Tenure, TupleSpaceError

SPARE_S: Final = 5.0
"""A lease is longer by this than the requests that rely on it."""
LONG_S: Final = 5.0
"""For a pause that is longer a turn is not held."""
SOUGHT_AT_ONCE: Final = 5_000
_LOOK_EVERY_S: Final = 0.25
_WAIT_S: Final = 60.0
_PAUSE_S: Final = 1.0
_DOUBT_S: Final = 2.0
"""How often it is looked whether a turn can be used that somebody may rely on."""
_MARKS: Final = 100_000
_DELIVERIES: Final = 65_535
PRIVATE: Final = ("private",)
"""Stands in the space of turns of a server that nobody outlives."""


async def say_private(space: Space) -> None:
    """Note in the space of turns that nobody outlives its server, so that it need not be feared to forget."""
    if await space.rdp(*PRIVATE) is None:
        await space.out(*PRIVATE)


class _Pause(NamedTuple):
    """How long a line has to rest by what one has learned of it."""

    free_at: float
    distance_s: float
    until: float
    """When that is over."""


class Company:
    """Whether lines are shared, by the charter and the holdings of a gatherer."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._together = False

    def is_shared(self, line: str) -> bool:
        """Whether others may use a line. Who was once not alone cannot know when the others have stopped."""
        charter = self._node.charter
        if not self._together and charter is not None:
            self._together = len(charter.members) > 1 or bool(charter.departed)
        return self._together and rules.is_shared(line, self._node.holdings)

    def planned_s(self) -> float:
        """How long ago the first plan was made that is known of, by clocks that may differ."""
        charter = self._node.charter
        history = charter.history if charter is not None else ()
        return self._node.clock() - history[0].at if history else math.inf


class Turns:
    """Takes turns for the workbench of one gatherer, and puts them back."""

    def __init__(
        self,
        space: Space,
        fetch: Fetch,
        me: str,
        is_shared: Callable[[str], bool],
        *,
        clock: Callable[[], float],
        planned_s: Callable[[], float],
        have_met: Callable[[int, float], bool] = lambda *_: False,
        had_life: bool = True,
        lent_s: float = 0.0,
    ) -> None:
        """`me` differs from one start of a gatherer to the next: what was known before is forgotten.

        `planned_s` is how long ago there was the first plan. `have_met` says whether all gatherers have met
        the server since a start of it, for leases of some length. One that `had_life` may have lent hosts
        before it was started.

        A host may be lent for `lent_s`, and others must not have its turn before that is over, even if this
        gatherer dies. A lease is renewed when a third of it has passed.
        """
        self._space, self._me, self._clock, self._planned_s = space, me, clock, planned_s
        self._have_met, self._had_life = have_met, had_life
        self.is_shared = is_shared
        self._reach_s = fetch.connect_timeout_s + SPARE_S
        """A request may be sent so long after it was begun."""
        self._lease_s = 2 * self._reach_s + 1.5 * lent_s
        self._wanted: deque[str] = deque()
        self._asked = trio.Event()
        self._is_private = False
        """Whether the server cannot have forgotten anything that counts."""
        self._tenure, self._met_at = Tenure(), -math.inf
        """That of the server when it was last met, and when that was."""
        self._began = math.inf
        self._said: dict[str, _Pause] = {}
        """By line: how long it has to rest, as far as others would not let it rest anyway."""
        self._untold: dict[str, _Pause] = {}
        """Those of which the server may not know."""
        self._returned: dict[str, float] = {}
        """By line: when its turn was put back, for which the server had to know that it was here."""
        self._held: dict[str, tuple[Taken, trio.Event]] = {}
        self._holding = trio.Event()
        """Set while there are some."""
        self._makers: dict[str, str] = {}
        self._sought: set[str] = set()
        self._limit = trio.CapacityLimiter(SOUGHT_AT_ONCE)
        self._bench: Workbench | None = None
        self._wake: Callable[[], None] = lambda: None
        self._log = structlog.get_logger()
        self._told = False

    def attach(self, bench: Workbench, wake: Callable[[], None]) -> None:
        """Open the lines of a workbench, and say so."""
        self._bench, self._wake = bench, wake

    # The workbench says

    def want(self, line: str) -> None:
        """Somebody waits for a line."""
        self._wanted.append(line)
        self._asked.set()

    def spent(self, line: str) -> None:
        """A line is not needed any more."""
        held = self._held.get(line)
        if held is not None:
            held[1].set()

    # Tasks

    async def run(self) -> None:
        """Take the turns that are wanted, again and again."""
        self._began = trio.current_time()
        await self._greet()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._look_after)
            while True:
                await self._asked.wait()
                self._asked = trio.Event()
                while self._wanted:
                    line = self._wanted.popleft()
                    if line not in self._sought:
                        self._sought.add(line)
                        await self._limit.acquire_on_behalf_of(line)
                        nursery.start_soon(self._seek, line)

    async def meet(self) -> int:
        """Meet the server: its start, if no lease is relied on here that it does not know of, else 0."""
        before, self._tenure = self._tenure, await self._space.tenure()
        self._met_at, met = trio.current_time(), self._tenure.start
        if met != before.start:
            self._untold |= self._said
        await self._space.renew(each for each, _ in list(self._held.values()) if each.tenure.start != met)
        now = self._clock()
        for line, (taken, _) in list(self._held.items()):
            if taken.lost:
                self.bench.retire(line, now)
        for line in list(self._untold):
            await self._tell(line)
        # What was lent in a life before may be under way for as long as a lease lasts.
        is_over = not self._had_life or trio.current_time() >= self._began + self._lease_s
        is_known = all(taken.tenure.start == met and not taken.lost for taken, _ in self._held.values())
        is_clear = not self._untold and (
            self._tenure.seconds >= self._lease_s or not self.bench.is_used_unopened
        )
        return met if is_over and is_known and is_clear else 0

    async def _tell(self, line: str) -> None:
        """Say how long a line has to rest, unless that is over."""
        pause = self._untold[line]
        if pause.until > self._clock():
            maker = await self._marked(line)
            if maker is None:
                await self._make(line, pause.free_at, pause.distance_s)
            elif not await self._is_told(line, maker, pause):
                return  # somebody has it, and puts it back
        self._untold.pop(line, None)

    async def _is_told(self, line: str, maker: str, pause: _Pause) -> bool:
        async with self._take("turn", line, maker, str, float, float, wait=False) as taken:
            if taken:
                _, _, _, _, free_at, distance_s = taken.tuple
                said = (max(pause.free_at, free_at), max(pause.distance_s, distance_s))
                await taken.commit(out=[("turn", line, maker, NOBODY, *said)])
            return bool(taken)

    async def _make(self, line: str, free_at: float, distance_s: float) -> None:
        """Make the turn of a line that has none, and its mark."""
        unused = ("turn", line, self._me, NOBODY, free_at, distance_s)
        await self._space.out_many([("mark", line, self._me), unused])

    async def _greet(self) -> None:
        """Reach the server, and see whether it may forget who has what."""
        while True:
            try:
                self._is_private = await self._space.rdp(*PRIVATE) is not None
            except TupleSpaceError:
                await trio.sleep(_PAUSE_S)
            else:
                return

    async def _look_after(self) -> None:
        """Let lines be used for as long as their leases are sure, and not for longer than is right."""
        while True:
            await self._holding.wait()
            await trio.sleep(_LOOK_EVERY_S)
            now = self._clock()
            for line, (taken, _) in list(self._held.items()):
                self.bench.assure(line, self._sure_until(taken))
                if self.bench.is_overdue(line, now):
                    self.bench.retire(line, now)
            if not self._held:
                self._holding = trio.Event()

    @property
    def bench(self) -> Workbench:
        """The workbench whose lines are opened."""
        assert self._bench is not None
        return self._bench

    def _sure_until(self, taken: Taken) -> float:
        """The last time, by the workbench's clock, to begin a request that is sent within the lease."""
        return self._clock() + taken.sure_until - trio.current_time() - self._reach_s

    async def _seek(self, line: str) -> None:
        """Have a turn, and again, for as long as it is wanted."""
        try:
            while self.bench.is_wanted(line):
                try:
                    await self._have(line, await self._maker(line))
                    self._told = False
                except TupleSpaceError as error:
                    await self._pause(line, error)
                self.bench.offer(line, self._clock())
        finally:
            self._sought.discard(line)
            self._limit.release_on_behalf_of(line)

    async def _pause(self, line: str, error: TupleSpaceError) -> None:
        if not self._told:
            self._log.warning("no turn", why=str(error))
        self._told = True
        self._makers.pop(line, None)
        await trio.sleep(_PAUSE_S)

    async def _have(self, line: str, maker: str) -> None:
        """Have a turn, unless that takes too long: then its mark is looked for again."""
        since_s = trio.current_time() - self._met_at
        if self._doubtful_s(line, replace(self._tenure, seconds=self._tenure.seconds + since_s)):
            self.bench.postpone(line, self._clock() + _DOUBT_S, self._clock())
            return
        template = ("turn", line, maker, str, float, float)
        async with self._take(*template, wait=False) as taken:
            if taken:
                is_known = taken.tenure.start == self._tenure.start
                if is_known or await self._is_renewed(taken):
                    await self._use(line, taken)
                return
        with trio.move_on_after(_WAIT_S) as patience:
            async with self._take(*template, wait=True) as taken:
                patience.deadline = float("inf")
                if await self._is_renewed(taken):
                    await self._use(line, taken)
                return
        self._makers.pop(line, None)

    async def _is_renewed(self, taken: Taken) -> bool:
        """Renew a lease that may be from before a start that was met meanwhile; let it go if it is lost."""
        while True:
            met = self._tenure
            await taken.renew()
            if self._tenure is met or taken.tenure.start == self._tenure.start:
                break
        if taken.lost:
            taken.give_back()
        return not taken.lost

    def _take(self, *template: Any, wait: bool) -> Any:
        return self._space.take(*template, lease=self._lease_s, wait=wait, max_deliveries=_DELIVERIES)

    async def _use(self, line: str, taken: Taken) -> None:
        """Let the workbench use a turn, and put it back."""
        now = self._clock()
        _, _, maker, *said = taken.tuple
        last = LastUse(*said)  # type: ignore[arg-type] # the template says so
        again = taken.deliveries[0] > 1
        rest_s = rules.rest_s(last, self._me, now, again=again, delay_s=self.bench.delay_s)
        unused = ("turn", line, maker, *(last._replace(by=NOBODY) if again else last))
        doubtful_s = self._doubtful_s(line, taken.tenure)
        if doubtful_s or rest_s > LONG_S + max(last.distance_s, self.bench.delay_s):
            self.bench.postpone(line, now + max(rest_s, min(doubtful_s, _DOUBT_S)), now)
            await taken.commit(out=[unused])
            return
        self._held[line] = taken, (spent := trio.Event())
        self._holding.set()
        try:
            if not self.bench.open(line, now, rest_s=rest_s, sure_until=self._sure_until(taken)):
                await taken.commit(out=[unused])
                return
            self._wake()
            await spent.wait()
        except trio.Cancelled:
            if self.bench.is_under_way(line):
                taken.leave()  # a helper may still be asking, for whoever ends here
            raise
        finally:
            del self._held[line]
            free_at, distance_s = self.bench.shut(line, self._clock())
        if len(self._returned) >= _MARKS:
            self._returned.clear()
        returned_at = trio.current_time()
        self._note_pause(line, free_at, distance_s)
        try:
            await taken.commit(out=[("turn", line, maker, self._me, free_at, distance_s)])
        except TupleSpaceError:
            if line in self._said:
                self._untold[line] = self._said[line]
            raise
        self._returned[line] = returned_at

    def _note_pause(self, line: str, free_at: float, distance_s: float) -> None:
        """Keep in mind how long a line has to rest, if that is longer than whoever takes it lets it rest."""
        now = self._clock()
        self._said.pop(line, None)
        if max(free_at - now, distance_s) <= self.bench.delay_s:
            return
        if len(self._said) >= _MARKS:
            self._said = {each: pause for each, pause in self._said.items() if pause.until > now}
        if len(self._said) < _MARKS:
            self._said[line] = _Pause(free_at, distance_s, max(free_at, now + distance_s))

    def _doubtful_s(self, line: str, tenure: Tenure) -> float:
        """For how long a turn must not be used, unless all gatherers meet the server before."""
        started_at = trio.current_time() - tenure.seconds
        if self._is_private or self._returned.get(line, -math.inf) > started_at:
            return 0.0
        doubtful_s = rules.doubtful_s(
            tenure.seconds, self._planned_s(), self._lease_s, from_nothing=tenure.from_nothing
        )
        return 0.0 if doubtful_s and self._have_met(tenure.start, self._lease_s) else doubtful_s

    async def _maker(self, line: str) -> str:
        """Who made the turn of a line; it is made if nobody did."""
        maker = self._makers.get(line)
        if maker is not None:
            return maker
        if len(self._makers) >= _MARKS:
            self._makers.clear()
        maker = await self._marked(line)
        if maker is None:
            await self._make(line, 0.0, self.bench.delay_s)
            maker = await self._marked(line) or self._me
            if maker != self._me:
                await self._space.inp("turn", line, self._me, str, float, float)
                await self._space.inp("mark", line, self._me)
        self._makers[line] = maker
        return maker

    async def _marked(self, line: str) -> str | None:
        found = await self._space.rdp("mark", line, str)
        return None if found is None else str(found[2])
