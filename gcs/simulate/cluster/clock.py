"""A clock that jumps to the next moment at which something happens, and waiting that costs little on it.

What trio does for a time-out, a cancel scope and an exception that ends it, is most of the work of a cluster
in which nothing happens. Here a task that waits stands in a list of the clock, which wakes it when it jumps
there. That is all that differs: it waits for as long, and can be cancelled meanwhile.

A third of trio's own work for each step of a task is for what there is none of in a simulation: sockets,
instruments, other threads. So its loop is replaced too, by one that gives the same tasks their steps in the
same order.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from heapq import heappop, heappush
from operator import attrgetter
from types import coroutine
from typing import Any, Final
from unittest.mock import patch

import trio
from outcome import Error, Value
from trio._core import _run
from trio._core._traps import CancelShieldedCheckpoint, WaitTaskRescheduled
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
        self._runnable: deque[Any]
        """Tasks that can go on."""

    def start_clock(self) -> None:
        """Time stands still until somebody waits."""
        self._runnable = _trio.GLOBAL_RUN_CONTEXT.runner.runq

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
            task: Any = heappop(waiting)[2].end()
            if task is not None:
                # As `trio.lowlevel.reschedule`, which would pack up that nothing is said.
                task._next_send_fn, task._abort_func = task.coro.send, None
                self._runnable.append(task)
        return 0.0

    @coroutine
    def _wait(self, deadline: float, event: trio.Event | None) -> Generator[Any, Any, None]:
        if deadline <= self._now or (event is not None and event.is_set()):
            yield from trio.lowlevel.checkpoint().__await__()  # noqa: ASYNC105 - this is how a generator awaits
            return
        task = trio.lowlevel.current_task()
        entry = _Waiting(task, event)
        heappush(self._waiting, (deadline, next(self._numbers), entry))
        if event is not None:
            event._tasks.add(task)
        told = yield WaitTaskRescheduled(entry.abort)
        if told is not None:  # it was not the clock that woke it
            entry.end()
            try:
                told.unwrap()
            finally:
                del told  # or an error, which has this frame, would be kept by it

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
        """Have everybody live by this clock."""
        with (
            patch.object(trio, "sleep", self.sleep),
            patch.object(trio, "sleep_until", self.sleep_until),
            patch.object(trio, "current_time", self.current_time),
            patch.object(_trio, "unrolled_run", _steps),
        ):
            yield


_trio: Any = _run
_age: Final = attrgetter("_counter")


def _steps(
    runner: Any, main: Callable[..., Awaitable[object]], args: tuple[Any, ...], *_: Any
) -> Generator[float, Any, None]:
    """Trio's loop, for a run on a jumping clock: until no task is left, give steps to those that can go on.

    It yields, as trio's own does, only to ask what has come from outside. That can only be a callback that is
    left over for trio itself, or nothing for ever, when a run is stuck.
    """
    clock, deadlines, queue, runnable = runner.clock, runner.deadlines, runner.entry_queue, runner.runq
    context, order = _trio.GLOBAL_RUN_CONTEXT, _trio._r
    try:
        clock.start_clock()
        runner.init_task = runner.spawn_impl(runner.init, (main, args), None, "<init>", system_task=True)
        while runner.tasks:
            wait_s = 0.0 if runnable else clock.deadline_to_sleep_time(deadlines.next_deadline())
            if wait_s or queue.size():
                runner.io_manager.process_events((yield min(wait_s, _trio._MAX_TIMEOUT)))
            deadlines.expire(clock.current_time())
            batch = list(runnable)
            runnable.clear()
            if len(batch) > 1:
                batch.sort(key=_age)
                order.shuffle(batch)
            while batch:
                context.task = batch.pop()
                _step(runner, context.task)
                del context.task
    finally:
        runner.close()
        context.__dict__.clear()
        if runner.ki_pending:
            runner.main_task_outcome = Error(KeyboardInterrupt())


def _step(runner: Any, task: Any) -> None:
    """Let a task go on until it waits again, or ends."""
    go_on, told = task._next_send_fn, task._next_send
    task._next_send_fn = task._next_send = None
    try:
        waits = task.context.run(go_on, told)
    except StopIteration as ended:
        outcome: Any = Value(ended.value)
    except BaseException as error:  # noqa: BLE001 - whatever it is, it belongs to the nursery
        outcome = Error(error)
    else:
        task._schedule_points += 1
        if waits is CancelShieldedCheckpoint:
            runner.reschedule(task)
            return
        assert type(waits) is WaitTaskRescheduled
        task._cancel_points += 1
        task._abort_func = waits.abort_func
        if runner.ki_pending and task is runner.main_task:
            task._attempt_delivery_of_pending_ki()
        if task._cancel_status.effectively_cancelled:
            task._attempt_delivery_of_any_pending_cancel()
        return
    runner.task_exited(task, outcome)
    del outcome  # likewise
