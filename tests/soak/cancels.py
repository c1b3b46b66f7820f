"""The third act: takes are cancelled within a millisecond of the matching `out`, and no tuple is lost.

Each round has one tuple and one taker, so there are two right outcomes: the taker was given the tuple, or
it is in the space for the next one, at once. Leases outlast the act, so nothing comes back by itself.
"""

from __future__ import annotations

import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import trio

import tuplespace
from tests.servers import redis_server
from tests.soak import SPACE, Failed
from tests.soak.progress import Progress
from tuplespace import Space, Tuple

CLOSE_S = 0.001
LEASE_S = 3600.0
# What "at once" may take on a busy machine.
BACK_S = 10.0


def cancel_takes(server: str, cancels: int, rng: random.Random, progress: Progress) -> str:
    """Cancel takes around the matching `out`; gives the verdict or raises Failed."""
    with redis_server(server, unix_socket=True) as node:
        got, rounds = trio.run(_cancel_around, node.url, cancels, rng, progress)
    return (
        f"{cancels:,} takes cancelled within 1 ms of the matching out: {got:,} got their tuple all the same, "
        f"the others' were back at once, none was lost ({rounds - cancels:,} rounds took longer)"
    )


async def _cancel_around(url: str, cancels: int, rng: random.Random, progress: Progress) -> tuple[int, int]:
    """Race until that many rounds were close enough; how many of these got their tuple, and all rounds."""
    close = got = rounds = 0
    async with tuplespace.connect(url) as one, tuplespace.connect(url) as other:
        taker = one.space(SPACE, lease=LEASE_S)
        while close < cancels:
            writer = rng.choice([one, other]).space(SPACE, lease=LEASE_S)
            race = Race(writer, taker, rounds, rng)
            await race.run()
            rounds += 1
            if race.gap_s <= CLOSE_S:
                close += 1
                got += race.got
            progress.show(f"cancels: {close:,} of {cancels:,}, {got:,} got it", trio.current_time())
        there = await taker.statistics()
    if there.waiting or there.leases:
        raise Failed(f"{there.waiting:,} left over, {there.leased:,} still leased")
    return got, rounds


@dataclass
class Race:
    """One take, cancelled close to the `out` of the only tuple it could get."""

    writer: Space
    taker: Space
    number: int
    rng: random.Random
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    caught: list[Tuple] = field(default_factory=list)
    got: bool = False
    cancelled: float = 0.0
    asked: float = 0.0
    answered: float = 0.0

    @property
    def gap_s(self) -> float:
        """How far the cancellation was from the beginning of the `out`, or from its end."""
        return min(abs(self.cancelled - self.asked), abs(self.cancelled - self.answered))

    async def run(self) -> None:
        """Run the round; raises Failed when the tuple is gone, or there twice."""
        verb = self.rng.choice([self._in, self._inp, self._take])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._attempt, verb)
            if verb != self._inp and self.rng.random() < 0.7:
                while not (await self.writer.statistics()).takers:
                    pass
            match self.rng.choice(["cancel first", "cancel meanwhile", "cancel afterwards"]):
                case "cancel first":
                    self._cancel()
                    await self._moment()
                    await self._write()
                case "cancel meanwhile":
                    nursery.start_soon(self._write)
                    await self._moment()
                    self._cancel()
                case _:
                    await self._write()
                    await self._moment()
                    self._cancel()
        await self._check()

    async def _attempt(self, verb: Callable[[], Awaitable[Tuple | None]]) -> None:
        with self.scope:
            if (caught := await verb()) is not None:
                self.caught.append(caught)

    async def _in(self) -> Tuple | None:
        return await self.taker.in_("race", int)

    async def _inp(self) -> Tuple | None:
        return await self.taker.inp("race", int)

    async def _take(self) -> Tuple | None:
        async with self.taker.take("race", int, many=self.rng.choice([1, 10])) as taken:
            pass
        return taken.tuple

    async def _write(self) -> None:
        self.asked = time.perf_counter()
        await self.writer.out("race", self.number)
        self.answered = time.perf_counter()

    def _cancel(self) -> None:
        self.cancelled = time.perf_counter()
        self.scope.cancel()

    async def _moment(self) -> None:
        """Let others run for up to a millisecond, which is less than a sleep can be made to last."""
        end = time.perf_counter() + self.rng.uniform(0, CLOSE_S)
        await trio.lowlevel.checkpoint()
        while time.perf_counter() < end:
            await trio.lowlevel.checkpoint()

    async def _check(self) -> None:
        """The tuple is in one place: with the taker, or in the space for the next one."""
        self.got = bool(self.caught)
        if not self.got:
            with trio.move_on_after(BACK_S):
                self.caught.append(await self.writer.in_("race", int))
        if self.caught != [("race", self.number)]:
            raise Failed(f"round {self.number}: {self.caught}, {await self.writer.statistics()}")
