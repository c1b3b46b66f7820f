"""Lets faults happen to the machines of a run, and ends them again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import trio

from gcs.gatherer.crawl import Ending
from gcs.simulate.cluster.faults import (
    DOER,
    LIARS,
    LONGEST_S,
    OF_HOSTS,
    SHARE_AT_MOST,
    Fault,
    Kind,
    Moment,
)
from gcs.simulate.cluster.machines import GathererMachine, Machine
from gcs.simulate.cluster.network import WAY_S, Kept
from gcs.simulate.cluster.world import OFFLOAD_S

if TYPE_CHECKING:
    from gcs.simulate.cluster.trial import Trial

LOST_SHARE = 0.4
"""Of the requests of a network that loses some."""
LONG_WAY_S = 1.5
SLOW_S = 3.0
"""What waits for a disk that is slow takes no longer."""
LAG_S = 3.5
"""An answer comes later by this at most, and still before anybody gives up waiting for it."""
_SYNCED_S = 0.5
"""A Redis that dies at a moment wrote to its disk so often, and has not since."""
_ORDERED_WITHIN_S = 60.0
_LOOKS, _LOOK_EVERY_S = 30, 0.1


class Disasters:
    """What goes wrong in one run."""

    def __init__(self, trial: Trial) -> None:
        self._trial = trial

    async def happen(self, fault: Fault) -> None:
        """Let a fault happen at its time."""
        await trio.sleep(fault.at_s)
        trial = self._trial
        kept: Kept | None = None
        if fault.moment is not None:
            fault, kept = await self._at_its_moment(fault, fault.moment)
        trial.trace.note("fault", kind=fault.kind, who=fault.who, for_s=round(fault.for_s, 2))
        trial.witness.disturbed()
        if fault.kind in OF_HOSTS:
            await self._fail(fault)
        elif fault.kind in (Kind.REDIS, Kind.FORGET):
            await self._lose_redis(fault, kept)
        elif fault.kind is Kind.JOIN:
            trial.join()
        elif fault.kind is Kind.HELPER:
            await self._restart(trial.helpers[fault.who], fault.for_s)
        elif fault.kind is Kind.STALL:
            await self._pause(trial.helpers[fault.who], fault.for_s)
        elif fault.kind in LIARS:
            trial.helpers[fault.who].lies = True
        elif fault.kind is Kind.SHARE:
            # Where pages are visited all the time, more would be due than one address allows.
            count = 1 if trial.habit.is_standing else 1 + int(fault.for_s) % SHARE_AT_MOST
            trial.server.share(fault.who, count, beside_its_own=fault.for_s > LONGEST_S / 2)
        elif fault.who < len(trial.gatherers):  # who has not joined yet is spared
            await self._strike(trial.gatherers[fault.who], fault)
        trial.witness.disturbed()

    async def _at_its_moment(self, fault: Fault, moment: Moment) -> tuple[Fault, Kept | None]:
        """Wait until a moment has come; what happens then, and to whom, and what Redis has kept.

        One that forgets has kept nothing of the last second, or of less; or nothing since a turn was taken
        that has a rival.
        """
        redis = self._trial.redis
        async with trio.open_nursery() as nursery:
            if fault.kind is Kind.FORGET:
                nursery.start_soon(self._keep)
            doing = await redis.moments.wait(moment)
            nursery.cancel_scope.cancel()
        await trio.sleep(min(fault.after_s, _SYNCED_S) if fault.kind is Kind.FORGET else fault.after_s)
        if fault.who != DOER:
            return fault, doing.before
        names = [each.name for each in self._trial.gatherers]
        return replace(fault, who=names.index(doing.by)), doing.before

    async def _keep(self) -> None:
        while True:
            self._trial.redis.keep()
            await trio.sleep(_SYNCED_S)

    async def _strike(self, gatherer: GathererMachine, fault: Fault) -> None:
        """What goes wrong with a gatherer."""
        for_s = fault.for_s
        match fault.kind:
            case Kind.KILL | Kind.STOP | Kind.LOSE | Kind.DRAIN:
                await self._end(gatherer, fault)
            case Kind.PAUSE:
                await self._pause(gatherer, for_s)
            case Kind.CUT:
                await self._cut([gatherer], for_s)
            case Kind.SPLIT:
                await self._cut(self._trial.gatherers[fault.who % 2 :: 2], for_s)
            case Kind.LOSSY:
                gatherer.link.lossy = LOST_SHARE
                await trio.sleep(for_s)
                gatherer.link.lossy = 0.0
            case Kind.DELAY:
                gatherer.link.way_s = LONG_WAY_S
                await trio.sleep(for_s)
                gatherer.link.way_s = WAY_S
            case Kind.FULL:
                gatherer.disk.is_full = True
                await trio.sleep(for_s)
                gatherer.disk.is_full = False
            case Kind.SLOW:
                await self._slow_down(gatherer, for_s)
            case Kind.LAG:
                await self._lag([gatherer, *self._trial.helpers], for_s)

    async def _end(self, gatherer: GathererMachine, fault: Fault) -> None:
        """A gatherer ends, for a while or for good."""
        match fault.kind:
            case Kind.KILL:
                await self._restart(gatherer, fault.for_s)
            case Kind.STOP:
                await self._stop(gatherer, fault.for_s)
            case Kind.LOSE:
                await gatherer.lose()
            case Kind.DRAIN if gatherer.gatherer is not None:
                board, to = self._trial.board, gatherer.identity
                await board.order(to, "drain", "drain", {}, within_s=_ORDERED_WITHIN_S)
                # It may take the order when the end was declared, which then has to be proven again.
                await board.answers("drain", [to], _ORDERED_WITHIN_S)

    async def _fail(self, fault: Fault) -> None:
        server = self._trial.server
        host = server.web.hosts[fault.who].name
        server.fail(host, fault.kind)
        await trio.sleep(fault.for_s)
        del server.failing[host]

    async def _cut(self, machines: list[GathererMachine], for_s: float) -> None:
        for machine in machines:
            machine.link.is_cut = True
        await trio.sleep(for_s)
        for machine in machines:
            machine.link.is_cut = False

    async def _pause(self, machine: Machine, for_s: float) -> None:
        if not machine.is_running:
            return
        world = machine.world
        world.stop()
        await trio.sleep(for_s)
        world.go_on()

    async def _lag(self, machines: Sequence[Machine], for_s: float) -> None:
        for machine in machines:
            machine.world.lag_s = LAG_S
        await trio.sleep(for_s)
        for machine in machines:
            machine.world.lag_s = 0.0

    async def _slow_down(self, gatherer: GathererMachine, for_s: float) -> None:
        """Let its disk be slow; one that is slow for long is killed, while something waits for the disk."""
        gatherer.world.offload_s = SLOW_S
        await trio.sleep(for_s)
        if for_s > LONGEST_S / 2:
            await self._restart(gatherer, for_s / 4)
        gatherer.world.offload_s = OFFLOAD_S

    async def _restart(self, machine: Machine, after_s: float) -> None:
        if not machine.is_running or not machine.world.is_alive:  # at this very moment another one kills it
            return
        machine.kill()
        await machine.over.wait()
        await trio.sleep(after_s)
        if isinstance(machine, GathererMachine) and machine.is_lost:
            return
        self._trial.start(machine)

    async def _stop(self, gatherer: GathererMachine, after_s: float) -> None:
        """What an operator does, unless it ends by itself just then, or whoever kills it starts it again."""
        if not gatherer.is_running or gatherer.is_awaited or gatherer.gatherer is None:
            return
        gatherer.gatherer.crawl.stop()
        gatherer.is_awaited = True
        await gatherer.over.wait()
        if gatherer.ending is Ending.INTERRUPTED and gatherer.world.is_alive:
            await trio.sleep(after_s)
            if not gatherer.is_lost:
                self._trial.start(gatherer)
        gatherer.is_awaited = False

    async def _lose_redis(self, fault: Fault, kept: Kept | None) -> None:
        redis = self._trial.redis
        if fault.kind is Kind.FORGET and fault.moment is None:
            await self._until_offered()
            redis.keep()
            await trio.sleep(1.0)
        redis.is_there = False
        if fault.kind is Kind.FORGET:
            redis.lose(kept)
        await trio.sleep(fault.for_s)
        redis.start()

    async def _until_offered(self) -> None:
        """Wait until something lies there for helpers, but not for long: who takes it then is forgotten."""
        for _ in range(_LOOKS):
            if self._trial.redis.is_offering:
                return
            await trio.sleep(_LOOK_EVERY_S)
