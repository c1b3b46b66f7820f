"""The warden: whether a helper may work now, on a clock that jumps."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest
import trio
import trio.testing

from gcs.core.consent import Idle, Network, Surroundings, Terms
from gcs.helper import warden as warden_module
from gcs.helper.portal import AGAIN_S, FAILURES
from gcs.helper.warden import Warden

pytestmark = pytest.mark.virtual_time

NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
MIB = 1 << 20


class World:
    """What a warden sees, which a test changes."""

    def __init__(self, terms: Terms) -> None:
        """An idle desktop on a clear network."""
        self.idle_s = 3600.0
        self.network = Network.CLEAR
        self.mark = ("home",)
        self.memory = 100 * MIB
        self.checks = 0
        self.look_s = self.check_s = 0.0
        self.warden = Warden(
            terms,
            self.look,
            self.check,
            mark=lambda: self.mark,
            memory=lambda: self.memory,
            clock=trio.current_time,
        )

    async def look(self) -> Surroundings:
        """As the warden wants it."""
        idle = Idle(self.idle_s, "X11")
        await trio.sleep(self.look_s)
        return Surroundings(local_time=NOON, idle=idle, on_battery=False)

    async def check(self) -> Network:
        """The same of the canary."""
        self.checks += 1
        found = self.network
        await trio.sleep(self.check_s)
        return found


@asynccontextmanager
async def watched(terms: Terms) -> AsyncIterator[tuple[World, Warden]]:
    """A world, and a warden that looks at it."""
    world = World(terms)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.warden.run)
        yield world, world.warden
        nursery.cancel_scope.cancel()


async def test_nothing_before_the_first_look() -> None:
    """Before it has looked around, and at the canary, nothing is done."""
    world = World(Terms())
    assert not world.warden.may_work
    assert world.warden.sentence == "It has just begun to look around."
    async with watched(Terms()) as (world, warden):
        world.look_s = world.check_s = 1.0
        await trio.sleep(0.5)
        assert not warden.may_work
        await trio.sleep(1.0)
        assert (warden.may_work, warden.sentence) == (False, "The way to the web is being checked.")
        await warden.wait_until_may_work()
        assert warden.sentence == "It may work at any time."


async def test_somebody_comes_back() -> None:
    """Who works is stopped soon after somebody touches the desktop, and goes on when it is idle again."""
    async with watched(Terms(idle_s=600)) as (world, warden):
        await warden.wait_until_may_work()
        assert warden.sentence == "It may work: the desktop is idle for 60 min by X11."
        world.idle_s = 0.0
        begun = trio.current_time()
        await warden.wait_until_must_stop()
        assert trio.current_time() - begun <= 5.0
        assert warden.sentence == "Somebody is at the desktop: idle for 0 s by X11, of the 10 min asked for."
        world.idle_s = 600.0
        await warden.wait_until_may_work()
        assert trio.current_time() - begun <= 70.0
        assert world.checks == 1


async def test_pause_is_immediate() -> None:
    """A pause counts at once, also in the middle of a look, and wakes who works; only a resume ends it."""
    async with watched(Terms()) as (world, warden):
        await warden.wait_until_may_work()
        world.look_s = 10.0
        await trio.sleep(8)
        stopped = trio.Event()

        async def works() -> None:
            await warden.wait_until_must_stop()
            stopped.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(works)
            await trio.testing.wait_all_tasks_blocked()
            assert not stopped.is_set()
            begun = trio.current_time()
            warden.pause()
            assert (warden.may_work, warden.sentence) == (False, "The owner has paused it.")
            await stopped.wait()
            assert trio.current_time() == begun
        await warden.wait_until_must_stop()
        world.look_s = 0.0
        await trio.sleep(100)
        assert not warden.may_work
        warden.resume()
        begun = trio.current_time()
        await warden.wait_until_may_work()
        assert trio.current_time() == begun


async def test_resume_looks_anew() -> None:
    """A resume does not rely on what was seen before it: a look that began earlier does not count."""
    async with watched(Terms(idle_s=600)) as (world, warden):
        await warden.wait_until_may_work()
        warden.pause()
        world.look_s = 10.0
        await trio.sleep(8)
        world.idle_s = 0.0
        warden.resume()
        assert (warden.may_work, warden.sentence) == (False, "It looks around.")
        with trio.move_on_after(50) as scope:
            await warden.wait_until_may_work()
        assert scope.cancelled_caught


async def test_a_pause_that_is_over_at_once() -> None:
    """Who works is woken by a pause even if it is over at once, and who wants to begin is not misled."""
    async with watched(Terms()) as (_, warden):
        await warden.wait_until_may_work()
        woken = trio.Event()

        async def works() -> None:
            await warden.wait_until_must_stop()
            woken.set()

        async def begins() -> None:
            await warden.wait_until_may_work()
            assert warden.may_work

        async with trio.open_nursery() as nursery:
            nursery.start_soon(works)
            await trio.testing.wait_all_tasks_blocked()
            warden.pause()
            nursery.start_soon(begins)
            warden.resume()
        assert woken.is_set()


async def test_another_network() -> None:
    """On another network nothing is done until the canary was found there."""
    async with watched(Terms()) as (world, warden):
        await warden.wait_until_may_work()
        world.mark, world.network, world.check_s = ("café",), Network.CAPTIVE, 1.0
        begun = trio.current_time()
        await warden.wait_until_must_stop()
        assert trio.current_time() - begun <= 5.0
        await trio.sleep(2.0)
        assert warden.sentence.startswith("Something else than the web answers")
        world.network = Network.CLEAR
        await warden.wait_until_may_work()
        assert trio.current_time() - begun <= 2 * AGAIN_S + 10
        assert world.checks <= 4


async def test_failures_in_a_row() -> None:
    """After several failures in a row the canary is looked at, before anything more is fetched."""
    async with watched(Terms()) as (world, warden):
        await warden.wait_until_may_work()
        for _ in range(FAILURES - 1):
            warden.failed()
        warden.succeeded()
        for _ in range(FAILURES - 1):
            warden.failed()
        assert warden.sentence == "It may work at any time."
        world.network = Network.OFFLINE
        warden.failed()
        assert (warden.may_work, warden.sentence) == (False, "The way to the web is being checked.")
        await trio.sleep(1.0)
        assert (world.checks, warden.sentence) == (2, "There is no way to the web.")
        world.network = Network.CLEAR
        await warden.wait_until_may_work()


async def test_nobody_asks_the_canary_for_nothing() -> None:
    """While somebody is at the desktop, or it is paused, the canary is left alone."""
    async with watched(Terms(idle_s=600)) as (world, warden):
        world.idle_s = 0.0
        await trio.sleep(50)
        assert world.checks == 0
        warden.pause()
        world.idle_s = 1000.0
        await trio.sleep(65)
        assert world.checks == 0


async def test_vouching() -> None:
    """What was fetched counts only if the canary is found after it, on the same network as before."""
    async with watched(Terms()) as (world, warden):
        await warden.wait_until_may_work()
        assert await warden.vouch()
        world.mark = ("café",)
        assert not await warden.vouch()
        assert await warden.vouch()
        world.network = Network.CAPTIVE
        assert not await warden.vouch()
        assert not warden.may_work


async def test_one_look_for_all() -> None:
    """All who ask before a look at the canary begins share it, and looks are some seconds apart."""
    async with watched(Terms()) as (world, warden):
        await warden.wait_until_may_work()
        before, world.check_s, said = world.checks, 0.2, list[bool]()
        begun = trio.current_time()

        async def asks(after_s: float) -> None:
            await trio.sleep(after_s)
            said.append(await warden.vouch())

        async with trio.open_nursery() as nursery:
            for number in range(32):
                nursery.start_soon(asks, 0.1 * (number % 2))
        assert said == [True] * 32
        assert world.checks - before == 2
        assert trio.current_time() - begun == pytest.approx(warden_module.VOUCH_EVERY_S + 0.2)


async def test_who_looks_for_others_may_leave() -> None:
    """When who looks at the canary for all has to stop, another one looks."""
    async with watched(Terms()) as (world, warden):
        await warden.wait_until_may_work()
        world.check_s, said = 1.0, list[bool]()

        async def asks() -> None:
            said.append(await warden.vouch())

        async with trio.open_nursery() as nursery:
            with trio.move_on_after(0.5):
                nursery.start_soon(asks)
                await warden.vouch()
        assert said == [True]


async def test_a_server_that_refuses_it() -> None:
    """A helper that the crawl's server refuses works on nothing, and says why."""
    async with watched(Terms()) as (_, warden):
        await warden.wait_until_may_work()
        warden.refused(True)
        await warden.wait_until_must_stop()
        assert (warden.may_work, warden.sentence) == (False, "The crawl's server refuses this invitation.")
        warden.refused(False)
        await warden.wait_until_may_work()


async def test_memory() -> None:
    """With little memory left no work is begun; what is under way goes on, until there is too little."""
    async with watched(Terms(max_memory_bytes=200 * MIB)) as (world, warden):
        await warden.wait_until_may_work()
        world.memory = 170 * MIB
        await trio.sleep(6)
        assert (warden.may_work, warden.sentence) == (False, "Nearly all of the memory agreed to is in use.")
        await warden.wait_until_may_not_work()
        with trio.move_on_after(10) as scope:
            await warden.wait_until_must_stop()
        assert scope.cancelled_caught
        world.memory = 100 * MIB
        await warden.wait_until_may_work()
        world.memory = 201 * MIB
        await warden.wait_until_must_leave()
        await warden.wait_until_must_stop()
        assert warden.sentence == "It needs more memory than agreed to, and ends."


async def test_memory_that_does_not_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory that stays nearly full is a reason to end too: nothing would free it."""
    monkeypatch.setattr(warden_module, "MEMORY_PATIENCE_S", 60.0)
    async with watched(Terms(max_memory_bytes=200 * MIB)) as (world, warden):
        await warden.wait_until_may_work()
        world.memory = 170 * MIB
        begun = trio.current_time()
        await warden.wait_until_must_leave()
        assert 60 <= trio.current_time() - begun <= 70
