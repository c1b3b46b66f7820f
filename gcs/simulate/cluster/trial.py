"""One run: a cluster, a web, and what goes wrong, all from one seed; and whether every promise was kept.

The promises are those of docs/reliability.md: `witness` sees to those that hold at every moment, `promises`
to those that are seen at the end. That the end comes at all is one too.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final

import trio
from trio._core import _run

from gcs.board import Board
from gcs.config import Config, load
from gcs.core.rulings import Invited
from gcs.helper.papers import KEY_BYTES
from gcs.helper.sites import Site
from gcs.helper.worker import Badge
from gcs.simulate.cluster import promises
from gcs.simulate.cluster.clock import JumpingClock
from gcs.simulate.cluster.disasters import Disasters
from gcs.simulate.cluster.faults import Fault
from gcs.simulate.cluster.fetching import Server, web_of
from gcs.simulate.cluster.machines import GathererMachine, HelperMachine, Machine
from gcs.simulate.cluster.network import Redis
from gcs.simulate.cluster.trace import Trace
from gcs.simulate.cluster.witness import Witness
from gcs.simulate.cluster.world import MachineWorld
from tuplespace.memory import MemoryBackend
from tuplespace.space import Spaces

LIMIT_S: Final = float(os.environ.get("GCS_SIMULATION_LIMIT_S", "400"))
"""A run that has not ended by itself after so long never will."""
_WEBS: Final = 4
_SITE: Final = "office"
_SITE_KEY: Final = bytes(KEY_BYTES)
_LOOK_EVERY_S: Final = 0.5
_SETTINGS: Final = (
    # The endless parts of hosts end sooner than it takes to see that they are traps.
    "crawl.scope=-regex:/grow/././.",
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


def run(plot: Plot) -> Outcome:
    """Run a plot to its end, and judge it."""
    _be_deterministic(plot.seed)
    place = Path(tempfile.mkdtemp(prefix="gcs-cluster-", dir=_fast_place()))
    trial, clock = Trial(plot, place), JumpingClock()
    try:
        with trial.trace.in_force(), clock.in_force():
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
        self._random = random = Random(plot.seed)
        self.trace = Trace(place)
        self.redis = Redis()
        self.server = Server(web_of(plot.seed % _WEBS, plot.pages, plain=random.random() < 0.5))
        self.delay_s = random.choice([0.0, 0.3])
        self.is_open = random.random() < 0.5
        """Whether helpers are strangers, who are checked."""
        self._site = Site(_SITE, self.is_open, "")
        self.config = self._configured()
        self._excuses: Counter[str] = Counter()
        self.gatherers = [self._gatherer(number) for number in range(plot.gatherers)]
        self.helpers = [self._helper(number) for number in range(plot.helpers)]
        self.witness = Witness(self.config, self.redis, self.gatherers)
        self.trace.listeners = {"finished": self.witness.declared, "adopted a plan": self.witness.adopted}
        self._disasters = Disasters(self)
        self.has_ended = False
        self.simulated_s = 0.0
        self._nursery: trio.Nursery | None = None
        self._board: Board | None = None

    def _configured(self) -> Config:
        random = self._random
        chosen = {
            "fetch.delay": f"{self.delay_s}s",
            "rebalance.cooldown": f"{random.choice([5, 20])}s",
            "exchange.batch": random.choice(["1KiB", "64KiB"]),
            "exchange.in_redis": random.choice(["2KiB", "2MiB"]),
            "helpers.sites": f"{_SITE}:open" if self.is_open else _SITE,
        }
        settings = [*_SETTINGS, *(f"{name}={value}" for name, value in chosen.items())]
        return load(overrides=settings, environ={}, system_file=Path("/nonexistent")).config

    def _gatherer(self, number: int) -> GathererMachine:
        chance = Random(self._random.getrandbits(64))
        name = f"g{number}"
        place = self._place / name
        return GathererMachine(name, chance, self.redis, self.server, self.config, place, self._excuses)

    def _helper(self, number: int) -> HelperMachine:
        chance = Random(self._random.getrandbits(64))
        name, key = f"h{number}", bytes([number + 1]) * KEY_BYTES
        badge = Badge(name, key, key if self.is_open else _SITE_KEY)
        desk = self._site.desk(name)
        return HelperMachine(name, chance, self.redis, self.server, self.config, badge, desk)

    @property
    def board(self) -> Board:
        """The board, as an operator sees it."""
        assert self._board is not None
        return self._board

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
                for fault in self.plot.faults:
                    nursery.start_soon(self._disasters.happen, fault)
                # Who lies does so from the beginning.
                await trio.lowlevel.checkpoint()
                for machine in (*self.gatherers, *self.helpers):
                    self.start(machine)
                await self._until_the_end()
                self.has_ended = True
                nursery.cancel_scope.cancel()
        self.simulated_s = trio.current_time()

    async def _until_the_end(self) -> None:
        while True:
            await trio.sleep(_LOOK_EVERY_S)
            self.witness.look()
            left = [each for each in self.gatherers if not each.is_lost]
            busy = [each for each in left if each.is_running or each.ending is None]
            if not busy:
                return

    def start(self, machine: Machine) -> None:
        """Let a machine live."""
        assert self._nursery is not None
        self.witness.disturbed()
        self._nursery.start_soon(self._live, machine)

    def join(self) -> None:
        """Let one more gatherer live."""
        self.gatherers.append(self._gatherer(len(self.gatherers)))
        self.start(self.gatherers[-1])

    async def _live(self, machine: Machine) -> None:
        self.trace.note("starts", machine=machine.name)
        try:
            await machine.run()
        except Exception as error:  # noqa: BLE001 - whatever it is, the run goes on to show what follows
            told = "".join(traceback.format_exception(error)[-6:])
            self.trace.errors.append(f"{machine.name} fell over: {told}")
        self.trace.note("ended", machine=machine.name)

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
        found += self.witness.found[:3] + self.redis.stale[:3]
        if not self.has_ended:
            standing = {each.name: str(each.ending) for each in self.gatherers}
            return [*found, f"it did not end within {LIMIT_S:.0f} s: {standing}"]
        pauses = self._disasters.pauses
        return found + promises.broken(self.server, self.gatherers, self._excuses, self.delay_s, pauses)


def _invite(now: Any, epoch: int, *, name: str, invited: Invited) -> Any:
    return now.invite(name, invited, _SITE_KEY, epoch)
