"""Moments of a simulated network: they come when two gatherers do something at once, and only then."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from random import Random

import trio

from gcs.simulate.cluster.clock import JumpingClock
from gcs.simulate.cluster.faults import Moment
from gcs.simulate.cluster.network import Doing, Link, Redis
from gcs.simulate.cluster.world import MachineWorld
from tuplespace import Space, Taken

LINE, OTHER = "@127.0.0.1", "@127.0.0.2"
TURN = ("turn", LINE, str)


class Two:
    """Two gatherers and their Redis, in whose space lies the turn of a line."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.redis, self.come, self._nursery = Redis(), list[Doing](), nursery
        self.one, self.other = self._space("one"), self._space("other")
        self.waits = trio.CancelScope()
        self.got: list[Taken] = []

    def _space(self, name: str) -> Space:
        link = Link(name, MachineWorld(Random(name)), self.redis, 4.0)
        return link.connect(self._nursery).space("turns", index={"turn": (1,)})

    async def begin(self, moment: Moment) -> None:
        """Write the turn, keep that, and wait for a moment."""
        await self.one.out("turn", LINE, "unused")
        self.redis.keep()
        self._nursery.start_soon(self._wait_for, moment)
        await trio.sleep(1.0)

    async def _wait_for(self, moment: Moment) -> None:
        self.come.append(await self.redis.moments.wait(moment))

    async def want(self) -> None:
        """Have the other one wait for the turn, and see that it does."""
        self._nursery.start_soon(self._wanted)
        await trio.sleep(0.1)

    async def _wanted(self) -> None:
        with self.waits:
            async with self.other.take(*TURN, lease=60.0) as taken:
                self.got.append(taken)
                await trio.sleep_forever()


@asynccontextmanager
async def two(moment: Moment) -> AsyncIterator[Two]:
    async with trio.open_nursery() as nursery:
        both = Two(nursery)
        await both.begin(moment)
        yield both
        nursery.cancel_scope.cancel()


@contextmanager
def on_a_clock_that_jumps() -> Iterator[JumpingClock]:
    clock = JumpingClock()
    with clock.in_force():
        yield clock


def test_a_rival_is_whoever_wants_a_turn_that_was_just_taken_and_redis_can_forget_that() -> None:
    async def main() -> None:
        async with two(Moment.RIVAL) as both, both.one.take(*TURN, lease=60.0, wait=False) as taken:
            assert taken
            await trio.sleep(0.5)
            assert both.come == []
            await both.want()
            assert [each.by for each in both.come] == ["one"]
            assert both.got == []
            both.redis.keep()  # it does not matter what is kept later
            both.redis.lose(both.come[0].before)
            both.redis.start()
            await trio.sleep(0.1)
            assert [each.lost for each in both.got] == [False]
            await taken.renew()
            assert taken.lost
            taken.give_back()

    with on_a_clock_that_jumps() as clock:
        trio.run(main, clock=clock)


def test_redis_forgets_nothing_of_a_turn_that_it_has_kept() -> None:
    async def main() -> None:
        async with two(Moment.RIVAL) as both, both.one.take(*TURN, lease=60.0, wait=False) as taken:
            await both.want()
            both.redis.keep()
            both.redis.lose()
            both.redis.start()
            await trio.sleep(0.1)
            await taken.renew()
            assert not taken.lost
            assert both.got == []

    with on_a_clock_that_jumps() as clock:
        trio.run(main, clock=clock)


def test_who_wants_a_turn_long_after_it_was_taken_is_no_rival() -> None:
    async def main() -> None:
        async with two(Moment.RIVAL) as both, both.one.take(*TURN, lease=60.0, wait=False):
            await trio.sleep(2.0)
            await both.want()
            assert both.come == []

    with on_a_clock_that_jumps() as clock:
        trio.run(main, clock=clock)


def test_who_wants_a_turn_that_redis_had_on_its_disk_when_it_was_started_is_no_rival() -> None:
    async def main() -> None:
        async with two(Moment.RIVAL) as both, both.one.take(*TURN, lease=60.0, wait=False):
            both.redis.start()
            await both.want()
            assert both.come == []

    with on_a_clock_that_jumps() as clock:
        trio.run(main, clock=clock)


def test_a_loan_is_a_moment_while_another_one_waits_for_a_turn_of_its_host() -> None:
    async def main() -> None:
        async with two(Moment.LOAN) as both, both.one.take(*TURN, lease=60.0, wait=False):
            both.redis.moments.lent([LINE, OTHER], "one")
            await trio.sleep(0.1)
            assert both.come == []
            await both.want()
            both.redis.moments.lent([OTHER], "one")
            await trio.sleep(0.1)
            assert both.come == []
            both.redis.moments.lent([LINE, OTHER], "one")
            await trio.sleep(0.1)
            assert both.come == [Doing("one")]

    with on_a_clock_that_jumps() as clock:
        trio.run(main, clock=clock)


def test_a_loan_is_no_moment_any_more_when_the_other_one_has_given_up() -> None:
    async def main() -> None:
        async with two(Moment.LOAN) as both, both.one.take(*TURN, lease=60.0, wait=False):
            await both.want()
            both.waits.cancel()
            await trio.sleep(0.1)
            both.redis.moments.lent([LINE], "one")
            await trio.sleep(0.1)
            assert both.come == []

    with on_a_clock_that_jumps() as clock:
        trio.run(main, clock=clock)
