"""A clock that jumps to the next moment at which something happens, and waiting that costs little on it.

What trio does for a time-out, a cancel scope and an exception that ends it, is most of the work of a cluster
in which nothing happens. Here a task that waits stands in a list of the clock, which wakes it when it jumps
there. That is all that differs: it waits for as long, and can be cancelled meanwhile.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from heapq import heappop, heappush
from typing import Any, Final
from unittest.mock import patch

import trio
from trio._core import _run
from trio.lowlevel import Abort, Task


class _Waiting:
    """A task, and for what it waits."""

    __slots__ = ("event", "task")

    def __init__(self, task: Task, event: trio.Event | None) -> None:
        self.task: Task | None = task
        self.event = event

    def end(self) -> Task | None:
        """It waits no more; the task, unless that was so before."""
        task, self.task = self.task, None
        if task is not None and self.event is not None:
            self.event._tasks.discard(task)
        return task

    def abort(self, _: Any) -> Abort:
        """It is cancelled."""
        self.end()
        return Abort.SUCCEEDED


class JumpingClock(trio.abc.Clock):
    """The time of a run, which begins at 0."""

    def __init__(self) -> None:
        self._now = 0.0
        self._waiting: list[tuple[float, int, _Waiting]] = []
        """Until when, the number, by which those of one moment come in turn, and who."""
        self._numbers = itertools.count()

    def start_clock(self) -> None:
        """Nothing is needed: time stands still until somebody waits."""

    def current_time(self) -> float:
        """Seconds since the beginning."""
        return self._now

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """Nothing is left to do at this time, says trio by asking: jump to the next."""
        waiting = self._waiting
        while waiting and waiting[0][2].task is None:
            heappop(waiting)
        next_at = min(deadline, waiting[0][0]) if waiting else deadline
        if next_at == math.inf:
            return math.inf
        if next_at > self._now:
            self._now = next_at
        while waiting and waiting[0][0] <= self._now:
            task = heappop(waiting)[2].end()
            if task is not None:
                trio.lowlevel.reschedule(task)
        return 0.0

    async def _wait(self, deadline: float, event: trio.Event | None) -> None:
        if deadline <= self._now or (event is not None and event.is_set()):
            await trio.lowlevel.checkpoint()
            return
        task = trio.lowlevel.current_task()
        entry = _Waiting(task, event)
        heappush(self._waiting, (deadline, next(self._numbers), entry))
        if event is not None:
            event._tasks.add(task)
        await trio.lowlevel.wait_task_rescheduled(entry.abort)
        entry.end()

    # These are no coroutines but give one: each that waits for another one costs something when it goes on.

    def sleep_until(self, deadline: float) -> Coroutine[Any, Any, None]:
        """As `trio.sleep_until`."""
        return self._wait(deadline, None)

    def sleep(self, seconds: float) -> Coroutine[Any, Any, None]:
        """As `trio.sleep`."""
        return self._wait(self._now + seconds, None)

    def until(self, event: trio.Event, seconds: float) -> Coroutine[Any, Any, None]:
        """As `World.until`."""
        return self._wait(self._now + seconds, event)

    @contextmanager
    def in_force(self) -> Iterator[None]:
        """Have everybody live by this clock, and nobody ask the kernel whether something has come."""
        with (
            patch.object(trio, "sleep", self.sleep),
            patch.object(trio, "sleep_until", self.sleep_until),
            patch.object(trio, "current_time", self.current_time),
            patch.object(_trio.TheIOManager, "get_events", _events),
        ):
            yield


_trio: Any = _run
_ask_the_kernel: Final = _trio.TheIOManager.get_events


def _events(manager: Any, timeout_s: float) -> Any:
    """What has come from outside: that can only be a callback that is left over for trio itself."""
    if timeout_s or _trio.GLOBAL_RUN_CONTEXT.runner.entry_queue.size():
        return _ask_the_kernel(manager, timeout_s)
    return ()
