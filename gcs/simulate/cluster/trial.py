"""One run: a cluster, a web, and what goes wrong, all from one seed; and whether every promise was kept.

The promises:

- every page that can be reached and may be fetched is fetched (`coverage`), and none that may not;
- a page is fetched twice only for a reason: it was under way when its gatherer was killed or lent when its
  time ran out, or its gatherer was lost for good, with what it had;
- no host is asked sooner after its last request than its delay, by whomever; but for a request of a machine
  that stood still in between;
- the ledgers of all gatherers that are left balance;
- plans only get newer, at every gatherer, and each says of every URL who owns it;
- the end is announced, and only when nothing is left to do: that is what coverage means at that moment.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import traceback
from collections import deque
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final

import structlog
import trio
from trio._core import _run

from gcs.board import Board
from gcs.config import Config, load
from gcs.core.rulings import Invited
from gcs.helper.papers import KEY_BYTES
from gcs.helper.worker import Badge
from gcs.operate.ledger import add_up
from gcs.simulate.cluster.clock import JumpingClock
from gcs.simulate.cluster.faults import Fault, Kind
from gcs.simulate.cluster.fetching import Server, web_of
from gcs.simulate.cluster.machines import DRIFT, GathererMachine, HelperMachine, Machine
from gcs.simulate.cluster.network import Redis
from gcs.simulate.cluster.world import MachineWorld
from gcs.simulate.verdict import judge
from tuplespace.memory import MemoryBackend
from tuplespace.space import Spaces

LIMIT_S: Final = float(os.environ.get("GCS_SIMULATION_LIMIT_S", "400"))
"""A run that has not ended by itself after so long never will."""
TRACED: Final = 400
_WEBS: Final = 4
_SITE: Final = "office"
_SITE_KEY: Final = bytes(KEY_BYTES)
_SETTINGS: Final = (
    "fetch.concurrency=3",
    "fetch.timeout=5s",
    "fetch.connect_timeout=2s",
    "fetch.allow=127.0.0.0/8",
    "fetch.max_wait=2s",
    "fetch.delay_factor=1",
    "store.pages=none",
    "store.keep_free=0B",
    "summary.level=links",
    "member.heartbeat=2s",
    "member.forget_after=25s",
    "member.leave_when_finished=true",
    "exchange.again_after=3s",
    "rebalance.deadline=4s",
    "redis.timeout=4s",
    f"helpers.sites={_SITE}",
    "helpers.bundle=4",
    "log.level=info",
)


@dataclass(frozen=True, slots=True)
class Plot:
    """All that a run depends on."""

    seed: int
    gatherers: int
    helpers: int
    pages: int
    faults: Sequence[Fault]


@dataclass(slots=True)
class Outcome:
    """What came of a run."""

    violations: list[str]
    simulated_s: float
    requests: int
    trace: list[str]
    digest: int
    """Equal for equal runs."""


class Trace:
    """The last things that happened, and a sum of all."""

    def __init__(self, place: Path) -> None:
        self._place = f"{place}/"
        self.lines: deque[str] = deque(maxlen=TRACED)
        self.digest = 0
        self.epochs: dict[tuple[str, int], list[int]] = {}
        self.errors: list[str] = []

    def note(self, what: str, **facts: object) -> None:
        """Something happened."""
        shown = " ".join(f"{name}={value}" for name, value in facts.items())
        line = f"{trio.current_time():8.3f} {what} {shown}".replace(self._place, "")
        self.digest = hash((self.digest, line))
        self.lines.append(line)

    def log(self, _: Any, method: str, said: MutableMapping[str, Any]) -> Mapping[str, Any]:
        """What a daemon writes to its log, as a processor of structlog."""
        event = str(said.pop("event"))
        problem = said.pop("exc_info", None)
        if problem or method in ("error", "exception", "critical"):
            self.errors.append(f"{event}: {said}")
        self.note(f"{method}: {event}", **said)
        raise structlog.DropEvent


@contextmanager
def _logged(trace: Trace) -> Iterator[None]:
    before = structlog.get_config()
    structlog.configure(processors=[trace.log], cache_logger_on_first_use=False)
    try:
        yield
    finally:
        structlog.configure(**before)


def run(plot: Plot) -> Outcome:
    """Run a plot to its end, and judge it."""
    _be_deterministic(plot.seed)
    place = Path(tempfile.mkdtemp(prefix="gcs-cluster-", dir=_fast_place()))
    trial = Trial(plot, place)
    try:
        clock = JumpingClock()
        with _logged(trial.trace), clock.in_force():
            trio.run(trial.run, clock=clock)
        return trial.outcome()
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _fast_place() -> str | None:
    memory = Path("/dev/shm")  # noqa: S108 - a directory of our own is made in it
    return str(memory) if memory.is_dir() else None


def _be_deterministic(seed: int) -> None:
    """Have trio's scheduler decide by the seed; it shuffles on purpose otherwise."""
    scheduler: Any = _run
    scheduler._ALLOW_DETERMINISTIC_SCHEDULING = True
    scheduler._r = Random(seed)


class Trial:
    """A run that is under way."""

    def __init__(self, plot: Plot, place: Path) -> None:
        self.plot, self._place = plot, place
        self._random = Random(plot.seed)
        self.trace = Trace(place)
        self.redis = Redis()
        self.server = Server(web_of(plot.seed % _WEBS, 8, plot.pages))
        self.delay_s = self._random.choice([0.0, 0.3])
        self.config = self._configured()
        self.gatherers = [self._gatherer(number) for number in range(plot.gatherers)]
        self.helpers = [self._helper(number) for number in range(plot.helpers)]
        self.has_ended = False
        self.simulated_s = 0.0
        self.replaced = 0
        """Pages that may be fetched again because a loan ran out."""
        self._pauses: list[tuple[str, float, float]] = []
        self._nursery: trio.Nursery | None = None
        self._board: Board | None = None
        self._returning: dict[str, int] = {}

    def _configured(self) -> Config:
        cooldown_s = self._random.choice([5, 20])
        settings = [*_SETTINGS, f"fetch.delay={self.delay_s}s", f"rebalance.cooldown={cooldown_s}s"]
        return load(overrides=settings, environ={}, system_file=Path("/nonexistent")).config

    def _gatherer(self, number: int) -> GathererMachine:
        chance = Random(self._random.getrandbits(64))
        name = f"g{number}"
        return GathererMachine(name, chance, self.redis, self.server, self.config, self._place / name)

    def _helper(self, number: int) -> HelperMachine:
        chance = Random(self._random.getrandbits(64))
        badge = Badge(f"h{number}", bytes([number + 1]) * KEY_BYTES, _SITE_KEY)
        return HelperMachine(badge.name, chance, self.redis, self.server, self.config, badge, _SITE)

    # The run

    async def run(self) -> None:
        """From the first seed to the end, or to where it is clear that there is none."""
        with trio.move_on_after(LIMIT_S):
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                operator = Spaces(lambda name: MemoryBackend(self.redis.server, name, nursery))
                self._board = board = Board(operator, self.config, MachineWorld(Random(self.plot.seed)))
                for helper in self.helpers:
                    invited = Invited(_SITE, helper.badge.key)
                    await board.rule(partial(_invite, name=helper.name, invited=invited))
                await board.seed(self.server.web.seeds)
                for machine in (*self.gatherers, *self.helpers):
                    nursery.start_soon(self._live, machine)
                for fault in self.plot.faults:
                    nursery.start_soon(self._happen, fault)
                await self._until_the_end()
                self.has_ended = True
                nursery.cancel_scope.cancel()
        self.simulated_s = trio.current_time()

    async def _until_the_end(self) -> None:
        while True:
            await trio.sleep(0.5)
            left = [each for each in self.gatherers if not each.is_lost]
            busy = [each for each in left if each.is_running or each.ending is None]
            if not busy:
                return

    async def _live(self, machine: Machine) -> None:
        self.trace.note("starts", machine=machine.name)
        try:
            await machine.run()
        except Exception as error:  # noqa: BLE001 - whatever it is, the run goes on to show what follows
            told = "".join(traceback.format_exception(error)[-6:])
            self.trace.errors.append(f"{machine.name} fell over: {told}")
        self.trace.note("ended", machine=machine.name)

    async def _happen(self, fault: Fault) -> None:
        await trio.sleep(fault.at_s)
        self.trace.note("fault", kind=fault.kind, who=fault.who, for_s=round(fault.for_s, 2))
        assert self._nursery is not None
        if fault.kind is Kind.HELPER:
            await self._restart(self.helpers[fault.who], fault.for_s)
            return
        if fault.kind is Kind.JOIN:
            machine = self._gatherer(len(self.gatherers))
            self.gatherers.append(machine)
            self._nursery.start_soon(self._live, machine)
            return
        gatherer = self.gatherers[fault.who]
        if fault.kind in (Kind.REDIS, Kind.FORGET):
            await self._lose_redis(fault)
        elif fault.kind is Kind.KILL:
            await self._restart(gatherer, fault.for_s)
        elif fault.kind is Kind.LOSE:
            gatherer.lose()
        elif fault.kind is Kind.PAUSE and gatherer.is_running:
            world, began = gatherer.world, trio.current_time()
            world.stop()
            await trio.sleep(fault.for_s)
            world.go_on()
            self._pauses.append((gatherer.name, began, trio.current_time()))
        elif fault.kind is Kind.CUT:
            gatherer.link.is_cut = True
            await trio.sleep(fault.for_s)
            gatherer.link.is_cut = False
        elif fault.kind is Kind.LOSSY:
            gatherer.link.lossy = 0.3
            await trio.sleep(fault.for_s)
            gatherer.link.lossy = 0.0
        elif fault.kind is Kind.FULL:
            disk = gatherer.disk
            disk.is_full = True
            await trio.sleep(fault.for_s)
            disk.is_full = False
        elif fault.kind is Kind.DRAIN and gatherer.gatherer is not None:
            assert self._board is not None
            await self._board.order(gatherer.gatherer.node.id, "drain", "drain", {}, within_s=60.0)

    async def _restart(self, machine: Machine, after_s: float) -> None:
        if not machine.is_running:
            return
        machine.kill()
        await machine.over.wait()
        await trio.sleep(after_s)
        if isinstance(machine, GathererMachine) and machine.is_lost:
            return
        assert self._nursery is not None
        self._nursery.start_soon(self._live, machine)

    async def _lose_redis(self, fault: Fault) -> None:
        if fault.kind is Kind.FORGET:
            self.redis.keep()
            await trio.sleep(1.0)
        self.redis.is_there = False
        if fault.kind is Kind.FORGET:
            self.redis.lose()
        await trio.sleep(fault.for_s)
        self.redis.is_there = True

    # The judgement

    def outcome(self) -> Outcome:
        """What came of it."""
        return Outcome(
            violations=self._violations(),
            simulated_s=self.simulated_s,
            requests=len(self.server.log),
            trace=list(self.trace.lines),
            digest=self.trace.digest,
        )

    def _violations(self) -> list[str]:
        found = [f"an error was logged: {each}" for each in self.trace.errors[:3]]
        if not self.has_ended:
            standing = {each.name: str(each.ending) for each in self.gatherers}
            return [*found, f"it did not end within {LIMIT_S:.0f} s: {standing}"]
        verdict = judge(self.server.log, self.server.web, sitemaps=False)
        if verdict.coverage < 1.0:
            found.append(
                f"coverage {verdict.coverage:.4f}: {len(verdict.missing)} pages are missing, "
                f"such as {sorted(verdict.missing)[:2]}"
            )
        if verdict.forbidden:
            found.append(f"forbidden pages were fetched: {sorted(verdict.forbidden)[:2]}")
        excused = self._excused()
        if verdict.duplicates > excused:
            found.append(f"{verdict.duplicates} pages were fetched twice, and only {excused} are excused")
        found += self._hurried()
        found += self._unbalanced()
        return found

    def _excused(self) -> int:
        """How many pages may have been fetched twice."""
        excused = sum(each.under_way_at_kills + each.done_at_loss for each in self.gatherers)
        if any(each.is_lost for each in self.gatherers):
            # What it had handed over is fetched again too, and what others had passed to it.
            excused += self.plot.pages
        lent = sum(
            each.gatherer.lender.account.unanswered for each in self.gatherers if each.gatherer is not None
        )
        return excused + lent + 4 * len(self._pauses)

    def _hurried(self) -> list[str]:
        """Requests that came too soon after another one of the same host."""
        if not self.delay_s:
            return []
        # By a clock that is too fast a delay is over too early.
        least_s = self.delay_s * (1 - 2 * DRIFT)
        last: dict[str, float] = {}
        found = []
        for request in sorted(self.server.log, key=lambda each: each.start):
            before = last.get(request.host)
            last[request.host] = request.start
            if before is None or request.start - before >= least_s:
                continue
            if not self._stood_still(request.agent, before, request.start):
                found.append(
                    f"{request.host} was asked {request.start - before:.3f} s after the last time, at "
                    f"{request.start:.3f} by {request.agent}"
                )
        return found[:3]

    def _stood_still(self, machine: str, since: float, until: float) -> bool:
        """Whether a machine has stood still shortly before, so that it could not know better."""
        return any(
            name == machine and end >= since - 30.0 and began <= until for name, began, end in self._pauses
        )

    def _unbalanced(self) -> list[str]:
        books = {}
        for machine in self.gatherers:
            if not machine.is_lost and machine.starts:
                identity, book = machine.book()
                books[identity] = book | {"reasons": {}}
        if any(each.is_lost for each in self.gatherers):
            return []
        audit = add_up(books)
        return [] if audit.is_balanced else [f"the ledgers do not balance: {audit}"]


def _invite(now: Any, epoch: int, *, name: str, invited: Invited) -> Any:
    return now.invite(name, invited, _SITE_KEY, epoch)
