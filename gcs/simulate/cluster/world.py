"""Time, chance and threads of one simulated machine."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, Final, TypeVar

import trio

from gcs.simulate.cluster.clock import JumpingClock
from gcs.world import World

T = TypeVar("T")
BEGAN: Final = 1_700_000_000.0
"""The Unix time at which every simulation begins."""
OFFLOAD_S: Final = 0.004


class Dead(Exception):
    """The machine on which this runs has been killed."""


class MachineWorld(World):
    """What one machine sees. Its clock may be wrong; what it offloads takes a while, before or after."""

    has_processes = False

    def __init__(self, random: Random, *, offset_s: float = 0.0, drift: float = 0.0) -> None:
        self.random = random
        self._offset_s, self._rate = offset_s, 1.0 + drift
        self.is_alive = True
        self.offload_s = OFFLOAD_S
        """How long at most it takes to have something done beside everything else, such as by the disk."""
        self.lag_s = 0.0
        """How much later at most answers of the web come."""
        self._running = trio.Event()
        self._running.set()
        self._stops = 0

    def now(self) -> float:
        """Unix time by this machine's clock."""
        return BEGAN + self._offset_s + trio.current_time() * self._rate

    def timer(self) -> float:
        """Time goes on only while somebody waits: what is computed takes none."""
        return trio.current_time()

    def awake(self) -> float:
        """The same: a machine that sleeps finds that time has passed."""
        return trio.current_time()

    def token(self, count: int) -> str:
        """By the machine's chance."""
        return self.random.randbytes(count).hex()

    async def offload(self, work: Callable[[], T]) -> T:
        """A crash may come before it is done, or after that and before anybody knows."""
        before = self.random.random() < 0.5
        if before:
            await self.wait(self.random.random() * self.offload_s)
        done = work()
        if not before:
            await self.wait(self.random.random() * self.offload_s)
        return done

    def until(self, event: trio.Event, seconds: float) -> Coroutine[Any, Any, None]:
        """Wait for an event, by the clock that jumps."""
        clock = trio.lowlevel.current_clock()
        assert isinstance(clock, JumpingClock)
        return clock.until(event, seconds)

    async def wait(self, seconds: float) -> None:
        """Let time pass; a machine that stands still comes back from it later."""
        await trio.sleep(seconds)
        if not self.is_free:
            await self.gate()

    @property
    def is_free(self) -> bool:
        """Whether the machine runs, so that nobody has to wait at the gate."""
        return self.is_alive and self._running.is_set()

    async def gate(self) -> None:
        """Go on only while the machine runs."""
        while self.is_alive and not self._running.is_set():
            await self._running.wait()
        if not self.is_alive:
            raise Dead

    def stop(self) -> None:
        """Stand still."""
        if self._running.is_set():
            self._running = trio.Event()
        self._stops += 1

    def go_on(self) -> None:
        """Run again, if nobody else wants it to stand still."""
        self._stops = max(0, self._stops - 1)
        if not self._stops or not self.is_alive:
            self._running.set()
