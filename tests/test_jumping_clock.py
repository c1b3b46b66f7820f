"""The clock of simulations: it is always the right time, and nobody really waits."""

from __future__ import annotations

import time

import pytest
import trio

from gcs.simulate.cluster.clock import JumpingClock


def run(clock: JumpingClock, main: object) -> None:
    """Run something by a clock."""
    with clock.in_force():
        trio.run(main, clock=clock)  # type: ignore[arg-type] # an async function without arguments


def test_who_sleeps_wakes_in_the_order_of_time_and_no_time_passes() -> None:
    woken: list[tuple[float, str]] = []

    async def sleeper(name: str, seconds: float) -> None:
        await trio.sleep(seconds)
        await trio.sleep_until(100.0)
        await trio.sleep_until(50.0)
        await trio.sleep(seconds)
        woken.append((trio.current_time(), name))

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sleeper, "late", 3600.0)
            nursery.start_soon(sleeper, "early", 1.5)

    began = time.monotonic()
    run(JumpingClock(), main)
    assert woken == [(101.5, "early"), (7200.0, "late")]
    assert time.monotonic() - began < 5.0


def test_who_sleeps_can_be_cancelled() -> None:
    async def main() -> None:
        with trio.move_on_after(2.0) as scope:
            await trio.sleep(10.0)
        assert scope.cancelled_caught
        assert trio.current_time() == 2.0
        await trio.sleep(20.0)
        assert trio.current_time() == 22.0

    run(JumpingClock(), main)


@pytest.mark.parametrize(("set_at_s", "woken_at_s"), [(1.0, 1.0), (5.0, 5.0), (9.0, 5.0)])
def test_an_event_is_waited_for_and_not_for_longer(set_at_s: float, woken_at_s: float) -> None:
    clock, event = JumpingClock(), trio.Event()
    woken: list[float] = []

    async def waiter() -> None:
        await clock.until(event, 5.0)
        woken.append(trio.current_time())
        await clock.until(event, 10.0)
        woken.append(trio.current_time())

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(waiter)
            await trio.sleep(set_at_s)
            event.set()

    run(clock, main)
    assert woken == [woken_at_s, max(set_at_s, woken_at_s)]


def test_who_waits_for_an_event_can_be_cancelled() -> None:
    clock = JumpingClock()

    async def main() -> None:
        event = trio.Event()
        with trio.move_on_after(1.0):
            await clock.until(event, 5.0)
        event.set()
        assert trio.current_time() == 1.0
        await trio.sleep(10.0)
        assert trio.current_time() == 11.0

    run(clock, main)
