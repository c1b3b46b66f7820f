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
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final

import msgpack
import trio
from trio._core import _run

from gcs.board import Board
from gcs.config import Config, load
from gcs.core.holdings import Charter
from gcs.core.rulings import Invited, Rulings
from gcs.core.trust import NEW, Record, Trust
from gcs.gatherer.node import RULINGS
from gcs.gatherer.turns import SPARE_S
from gcs.helper.books import record_name
from gcs.helper.lender import TRUST
from gcs.helper.papers import KEY_BYTES
from gcs.helper.sites import Site
from gcs.helper.worker import Badge
from gcs.simulate.cluster import bounds, habits, promises, reading, visits
from gcs.simulate.cluster.clock import JumpingClock
from gcs.simulate.cluster.disasters import Disasters
from gcs.simulate.cluster.faults import FROM_THE_BEGINNING, LIARS, Fault, Kind
from gcs.simulate.cluster.fetching import ANSWER_S, Server, web_of
from gcs.simulate.cluster.lies import Lies
from gcs.simulate.cluster.machines import GathererMachine, HelperMachine, Machine
from gcs.simulate.cluster.network import Redis
from gcs.simulate.cluster.trace import Trace
from gcs.simulate.cluster.visits import Round
from gcs.simulate.cluster.witness import Witness, left_to_do
from gcs.simulate.cluster.world import MachineWorld
from tuplespace.memory import MemoryBackend
from tuplespace.space import Spaces

LIMIT_S: Final = float(os.environ.get("GCS_SIMULATION_LIMIT_S", "400"))
"""A crawl that has not ended by itself after so long never will, nor a round of visits that follows it."""
STANDING_S: Final = 115.0
"""For so long, at least, pages are visited by a policy: until all that may be lost was missed."""
_SETTLED_S: Final = 8.0
"""When nothing new has come for so long after that, nothing does."""
_WEBS: Final = 4
_DELAY_S: Final = 0.2
_SHARED_ANSWER_S: Final = 0.35
"""Pages of one address come one after the other: what is shared would be busy long after all else is done."""
_SITE: Final = "office"
_SITE_KEY: Final = bytes(KEY_BYTES)
_LOOK_EVERY_S: Final = 0.5
_KNOWN: Final = 3 * NEW
"""Answers of a helper that were found consistent, before which gatherers do not rely on it much."""
_SETTINGS: Final = (
    # The endless parts of hosts end sooner than it takes to see that they are traps.
    "crawl.scope=-regex:/grow/././.",
    "fetch.timeout=5s",
    "fetch.connect_timeout=2s",
    "fetch.allow=127.0.0.0/8",
    "fetch.max_wait=2s",
    "fetch.delay_factor=1",
    "store.pages=none",
    "store.keep_free=0B",
    "summary.level=links",
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
        with (
            trial.trace.in_force(),
            clock.in_force(),
            bounds.in_force(trial.sizes),
            reading.in_force(),
        ):
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
    scheduler._r = Random(seed)


class Trial:
    """A run that is under way."""

    def __init__(self, plot: Plot, place: Path) -> None:
        self.plot, self._place = plot, place
        self._random = random = Random(plot.seed)
        self.habit = habits.drawn(Random(f"habits {plot.seed}"))
        self.trace = Trace(place)
        self.redis = Redis()
        web = web_of(plot.seed % _WEBS, plot.pages, plain=random.random() < 0.5)
        self._is_shared = any(each.kind is Kind.SHARE for each in plot.faults)
        answer_s = _SHARED_ANSWER_S if self._is_shared else ANSWER_S
        self.server = Server(web, answer_s=answer_s, changes=self.habit.is_any)
        drawn_s = random.choice([0.0, 0.0, _DELAY_S])
        self.delay_s = _DELAY_S if self._is_shared else drawn_s
        """Without a delay nobody takes turns: what hosts share would not matter."""
        is_open, self._has_liar = random.random() < 0.5, any(each.kind in LIARS for each in plot.faults)
        self.is_open = is_open or self._has_liar
        """Whether helpers are strangers, who are checked."""
        self._site = Site(_SITE, self.is_open, "")
        self._at_once, self._slots = random.choice([(3, 2), (1, 1)])
        """What a gatherer fetches, and a helper serves, at a time: with one there is always more to lend."""
        self.config = self._configured(random)
        self.server.reach_s = self.config.fetch.connect_timeout_s + SPARE_S
        self._round: Round | None = None
        self._busy_at = 0.0
        sizes = random.choice([bounds.USUAL, bounds.SMALL])
        self.sizes = random.choice([sizes, replace(sizes, **bounds.LONG_TURNS)])
        self._excuses: Counter[str] = Counter()
        self._given: Counter[str] = Counter()
        self._counted_on: set[str] = set()
        """Those that plans count on though they had gone before."""
        self._thought_lost: set[tuple[str, int]] = set()
        """Gatherers, each with the epoch of the charter by which it was lost."""
        self._lies = Lies()
        self.gatherers = [self._gatherer(number) for number in range(plot.gatherers)]
        self.helpers = [self._helper(number) for number in range(plot.helpers)]
        self.witness = Witness(self.config, self.sizes, self.redis, self.gatherers, self.trace)
        self.trace.listeners = {
            "finished": self.witness.declared,
            "published a plan": self.witness.published,
            "adopted a plan": self.witness.adopted,
        }
        self._disasters = Disasters(self)
        self.has_ended = False
        self.overdue: list[str] = []
        """Pages that should have been visited long before the end."""
        self.simulated_s = 0.0
        self._nursery: trio.Nursery | None = None
        self._board: Board | None = None

    def _configured(self, random: Random) -> Config:
        chosen = {
            "fetch.concurrency": str(self._at_once),
            "fetch.delay": f"{self.delay_s}s",
            "member.heartbeat": f"{Random(f'heartbeat {self.plot.seed}').choice([1, 1, 2, 3])}s",
            "rebalance.cooldown": f"{random.choice([5, 20])}s",
            "exchange.batch": random.choice(["1KiB", "64KiB"]),
            "exchange.in_redis": random.choice(["2KiB", "2MiB"]),
            "exchange.outbox": random.choice(["1KiB", "64MiB"]),
            "helpers.sites": f"{_SITE}:open" if self.is_open else _SITE,
        }
        settings = [*_SETTINGS, *(f"{name}={value}" for name, value in chosen.items())]
        settings += self.habit.settings()
        return load(overrides=settings, environ={}, system_file=Path("/nonexistent")).config

    def _gatherer(self, number: int) -> GathererMachine:
        chance = Random(self._random.getrandbits(64))
        name = f"g{number}"
        place = self._place / name
        return GathererMachine(
            name,
            chance,
            self.redis,
            self.server,
            self.config,
            place,
            self._excuses,
            self._given,
            self._lies,
            self._known(),
            self._adopted,
        )

    def _adopted(self, adopter: GathererMachine, charter: Charter) -> None:
        """A gatherer is about to follow a charter: see who is thought lost by it, and is not.

        Who lives may still do something until it follows it too. Who believed the end and has gone is thought
        lost if there is something for it. A plan that counts on it is no excuse, nor what comes of that.
        """
        for each in self.gatherers:
            if each.identity in charter.members and each.has_gone(charter.epoch):
                self._counted_on.add(each.identity)
            lost = each.identity, charter.destroyed.get(each.identity, 0)
            if not lost[1] or each.is_lost or lost in self._thought_lost:
                continue
            if each is adopter or not (each.is_running or each.identity in self._counted_on):
                self._thought_lost.add(lost)
                each.is_fetched_again()

    def _known(self) -> dict[str, bytes]:
        """What gatherers have on disk of helpers that they have known for long, and can be deceived by."""
        rulings, records = Rulings(), {}
        for fault in self.plot.faults:
            if fault.kind is Kind.TURNCOAT:
                name, key = _named(fault.who)
                rulings = rulings.invite(name, Invited(_SITE, key), _SITE_KEY, 1)
                records[record_name(name, key)] = Record(consistent=_KNOWN)
        trust: bytes = msgpack.packb(Trust(records).state())
        return {RULINGS: rulings.to_bytes(), TRUST: trust} if records else {}

    def _helper(self, number: int) -> HelperMachine:
        chance = Random(self._random.getrandbits(64))
        name, key = _named(number)
        badge = Badge(name, key, key if self.is_open else _SITE_KEY)
        desk = self._site.desk(name)
        return HelperMachine(name, chance, self.redis, self.server, self.config, badge, desk, self._slots)

    @property
    def board(self) -> Board:
        """The board, as an operator sees it."""
        assert self._board is not None
        return self._board

    # The run

    async def run(self) -> None:
        """From the first seed to the end, or to where it is clear that there is none."""
        with trio.move_on_after(LIMIT_S) as patience:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                operator = Spaces(lambda name: MemoryBackend(self.redis.server, name, nursery))
                self._board = board = Board(operator, self.config, MachineWorld(Random(self.plot.seed)))
                for helper in self.helpers:
                    invited = Invited(_SITE, helper.badge.key)
                    await board.rule(partial(_invite, name=helper.name, invited=invited))
                await board.seed(self.server.web.seeds)
                for fault in self.plot.faults:
                    if not self._is_of_the_round(fault):
                        nursery.start_soon(self._disasters.happen, fault)
                # Who lies does so from the beginning.
                await trio.lowlevel.checkpoint()
                for machine in (*self.gatherers, *self.helpers):
                    self.start(machine)
                await self._until(self._has_settled if self.habit.is_standing else self._have_all_ended)
                if self.habit.has_round:
                    patience.deadline = trio.current_time() + LIMIT_S
                    await self._go_round(nursery)
                self.has_ended = True
                self._stop()
                nursery.cancel_scope.cancel()
        self.simulated_s = trio.current_time()

    async def _until(self, is_over: Callable[[], bool]) -> None:
        while True:
            await trio.sleep(_LOOK_EVERY_S)
            self.witness.look()
            if is_over():
                return

    def _stop(self) -> None:
        """End what goes on for ever; the last answers are not kept then."""
        for machine in self._left():
            if machine.is_running and machine.gatherer is not None:
                self.overdue += visits.idle(self.witness.overdue(machine), self.server)
                self._excuses.update(machine.gatherer.crawl.under_way)

    def _left(self) -> list[GathererMachine]:
        return [each for each in self.gatherers if not each.is_lost]

    def _have_all_ended(self) -> bool:
        return not any(each.is_running or each.is_awaited or each.ending is None for each in self._left())

    def _has_settled(self) -> bool:
        """Whether visits are all that is done, and have been for a while; who has left has ended."""
        now = trio.current_time()
        if any(not each.is_running or left_to_do(each) for each in self._left() if not each.has_left):
            self._busy_at = now
        gone = not any(each.is_running for each in self._left() if each.has_left)
        return gone and now > STANDING_S and now > self._busy_at + _SETTLED_S

    def _is_of_the_round(self, fault: Fault) -> bool:
        """Whether a fault happens in the round, if there is one: some do, whichever others there are."""
        return (
            self.habit.has_round and fault.kind not in FROM_THE_BEGINNING and round(fault.at_s * 1e3) % 2 == 1
        )

    async def _go_round(self, nursery: trio.Nursery) -> None:
        """Begin all once more, to visit every page again."""
        self._round = Round(trio.current_time())
        self._counted_on.clear()
        revisit = replace(self.config.revisit, once=True)
        self.config = replace(self.config, revisit=revisit)
        for machine in self._left():
            with machine.opened() as store:
                self._round.keys.update(key for key, row in store.scan("", None) if visits.is_page(row))
            machine.configure(self.config)
        for fault in self.plot.faults:
            if self._is_of_the_round(fault):
                nursery.start_soon(self._disasters.happen, fault)
        for machine in self._left():
            if not machine.has_left:
                self.start(machine)
        await self._until(self._have_all_ended)

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
            return [*found, f"it did not end within {LIMIT_S:.0f} s, or its round did not: {standing}"]
        habit, excuses, believed = self.habit, self._excuses, self._lies.believed
        if habit.is_any:
            found += visits.broken(
                habit, self.server, self.gatherers, excuses, self._given, believed, self._round
            )
        if self.overdue:
            found.append(f"{len(self.overdue)} pages are long due, such as {self.overdue[:2]}")
        if self._has_liar and not habit.is_standing:
            found += promises.kept_lies(self.gatherers, believed)
        return found + promises.broken(
            self.server,
            self.gatherers,
            excuses,
            believed,
            self.delay_s,
            is_snapshot=not habit.is_any,
            is_standing=habit.is_standing,
        )


def _named(number: int) -> tuple[str, bytes]:
    """Name and key of a helper."""
    return f"h{number}", bytes([number + 1]) * KEY_BYTES


def _invite(now: Any, epoch: int, *, name: str, invited: Invited) -> Any:
    return now.invite(name, invited, _SITE_KEY, epoch)
