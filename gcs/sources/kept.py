"""Servers that are asked one thing at a time, each over the one connection that is kept to it."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import trio

from gcs.fetch.outcome import Failure, Origin, Outcome, Reason
from gcs.sources.lines import Lines, ServerError

C = TypeVar("C", bound=Lines)


class Kept(Generic[C]):
    """The connections that are kept, by origin."""

    def __init__(
        self, what: str, connect: Callable[[Origin], Awaitable[C | Failure]], *, connect_timeout_s: float
    ) -> None:
        """`what` the servers are is for people; `connect` may raise what connecting does, and ServerError."""
        self._what, self._connect, self._connect_timeout_s = what, connect, connect_timeout_s
        self._connections: dict[Origin, C] = {}
        self._locks: dict[Origin, trio.Lock] = {}

    async def ask(self, origin: Origin, question: Callable[[C], Awaitable[Outcome]]) -> Outcome:
        """What comes of a question over the connection to a server, for which others wait meanwhile."""
        async with self._locks.setdefault(origin, trio.Lock()):
            was_open = origin in self._connections
            outcome = await self._asked(origin, question)
            if was_open and isinstance(outcome, Failure):
                # The server may have closed a connection that was idle.
                outcome = await self._asked(origin, question)
            return outcome

    async def _asked(self, origin: Origin, question: Callable[[C], Awaitable[Outcome]]) -> Outcome:
        connection = self._connections.pop(origin, None)
        try:
            if connection is None:
                with trio.fail_after(self._connect_timeout_s):
                    made = await self._connect(origin)
                if isinstance(made, Failure):
                    return made
                connection = made
            outcome = await question(connection)
        except (OSError, ServerError, trio.BrokenResourceError, trio.TooSlowError, ssl.SSLError) as error:
            await _drop(connection)
            is_tls = isinstance(error, ssl.SSLError) or isinstance(error.__cause__, ssl.SSLError)
            why = "it took too long" if isinstance(error, trio.TooSlowError) else str(error)
            sentence = f"The {self._what} cannot be asked: {why or type(error).__name__}."
            return Failure(Reason.TLS if is_tls else Reason.CONNECT, sentence)
        except BaseException:
            await _drop(connection)
            raise
        if isinstance(outcome, Failure) or outcome.truncated:
            await _drop(connection)
        else:
            self._connections[origin] = connection
        return outcome

    async def aclose(self) -> None:
        """Close all connections."""
        while self._connections:
            _, connection = self._connections.popitem()
            await _drop(connection)


async def _drop(connection: Lines | None) -> None:
    if connection is not None:
        with trio.CancelScope(shield=True):
            await connection.aclose()
