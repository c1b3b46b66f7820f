"""A clock that jumps to the next moment at which something happens, and waiting that costs little on it.

What trio does for a time-out, a cancel scope and an exception that ends it, is most of the work of a cluster
in which nothing happens. Here a task that waits stands in a list of the clock, which wakes it when it jumps
there. That is all that differs: it waits for as long, and can be cancelled meanwhile.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import trio
from trio.lowlevel import Abort, Task


class _Waiting:
    """A task, until when it waits, and for what."""

    __slots__ = ("deadline", "event", "number", "task")

    def __init__(self, deadline: float, number: int, task: Task, event: trio.Event | None) -> None:
        self.deadline, self.number = deadline, number
        self.task: Task | None = task
        self.event = event

    def __lt__(self, other: _Waiting) -> bool:
        return (self.deadline, self.number) < (other.deadline, other.number)

    def end(self) -> Task | None:
        """It waits no more; the task, unless that was so before."""
        task, self.task = self.task, None
        if task is not None and self.event is not None:
            self.event._tasks.discard(task)
        return task


class JumpingClock(trio.abc.Clock):
    """The time of a run, which begins at 0."""

    def __init__(self) -> None:
        self._now = 0.0
        self._waiting: list[_Waiting] = []
        self._numbers = itertools.count()

    def start_clock(self) -> None:
        """Nothing is needed: time stands still until somebody waits."""

    def current_time(self) -> float:
        """Seconds since the beginning."""
        return self._now

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """Nothing is left to do at this time, says trio by asking: jump to the next."""
        waiting = self._waiting
        while waiting and waiting[0].task is None:
            heapq.heappop(waiting)
        next_at = min(deadline, waiting[0].deadline) if waiting else deadline
        if next_at == math.inf:
            return math.inf
        if next_at > self._now:
            self._now = next_at
        while waiting and waiting[0].deadline <= self._now:
            task = heapq.heappop(waiting).end()
            if task is not None:
                trio.lowlevel.reschedule(task)
        return 0.0

    async def _wait(self, deadline: float, event: trio.Event | None) -> None:
        task = trio.lowlevel.current_task()
        entry = _Waiting(deadline, next(self._numbers), task, event)
        heapq.heappush(self._waiting, entry)
        if event is not None:
            event._tasks.add(task)

        def abort(_: Any) -> Abort:
            entry.end()
            return Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)
        entry.end()

    async def sleep_until(self, deadline: float) -> None:
        """As `trio.sleep_until`."""
        if deadline <= self._now:
            await trio.lowlevel.checkpoint()
        else:
            await self._wait(deadline, None)

    async def sleep(self, seconds: float) -> None:
        """As `trio.sleep`."""
        await self.sleep_until(self._now + seconds)

    async def until(self, event: trio.Event, seconds: float) -> None:
        """As `World.until`."""
        if event.is_set() or seconds <= 0:
            await trio.lowlevel.checkpoint()
        else:
            await self._wait(self._now + seconds, event)

    @contextmanager
    def in_force(self) -> Iterator[None]:
        """Have everybody sleep by this clock."""
        with patch.object(trio, "sleep", self.sleep), patch.object(trio, "sleep_until", self.sleep_until):
            yield
