"""Sends what many tasks ask at the same time as one request.

A request costs the server and the client tens of microseconds, whatever is in it. When more than a few
tasks ask at once, those who come while requests are under way are gathered, and go together as the next
one. Somebody alone pays nothing for this: the first to come ask for themselves.

The life of a caller: gathered, then carried, then answered. Who leaves while gathered was never there; who
leaves while carried is marked, and whoever hands out the answers decides what becomes of theirs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

import outcome
import trio

from tuplespace.errors import ClientClosed

DIRECT: Final = 2
"""Requests under way at once before others are gathered."""


@dataclass(eq=False, slots=True)
class Caller:
    """A task that waits for its part of an answer."""

    request: Any
    task: trio.lowlevel.Task
    left: bool = False

    def answer(self, result: outcome.Outcome[Any]) -> None:
        """Wake the task, unless it has left."""
        if not self.left:
            self.left = True
            trio.lowlevel.reschedule(self.task, result)


@dataclass(eq=False)
class Combiner:
    """Requests that can be carried together.

    `alone` does one request and returns its answer; `together` does those of several callers, and answers
    every one of them.
    """

    spawn: Callable[[Callable[[], Awaitable[object]]], None]
    alone: Callable[[Any], Awaitable[Any]]
    together: Callable[[list[Caller]], Awaitable[None]]
    at_most: Callable[[deque[Caller]], int]
    _gathered: deque[Caller] = field(default_factory=deque)
    _under_way: int = 0

    @property
    def idle(self) -> bool:
        """Whether nothing is under way."""
        return self._under_way == 0

    async def ask(self, request: Any) -> Any:
        """The answer to one request, however it is carried."""
        if self._under_way < DIRECT:
            self._under_way += 1
            try:
                return await self.alone(request)
            finally:
                self._next()
        caller = Caller(request, trio.lowlevel.current_task())
        self._gathered.append(caller)

        def leave(_: object) -> trio.lowlevel.Abort:
            caller.left = True
            return trio.lowlevel.Abort.SUCCEEDED

        return await trio.lowlevel.wait_task_rescheduled(leave)

    def _next(self) -> None:
        """One request is over: carry what was gathered meanwhile, if anything."""
        if not self._gathered:
            self._under_way -= 1
            return
        try:
            self.spawn(self._carry)
        except ClientClosed:
            self._under_way -= 1
            self._dismiss([])

    async def _carry(self) -> None:
        present: list[Caller] = []
        try:
            while self._gathered:
                count = self.at_most(self._gathered)
                callers = [self._gathered.popleft() for _ in range(count)]
                if present := [c for c in callers if not c.left]:
                    await self.together(present)
        except trio.Cancelled:
            self._dismiss(present)
            raise
        finally:
            self._under_way -= 1

    def _dismiss(self, carried: list[Caller]) -> None:
        """The client is closed: nobody will carry these any more."""
        for caller in [*carried, *self._gathered]:
            caller.answer(outcome.Error(ClientClosed("this client is closed")))
        self._gathered.clear()
