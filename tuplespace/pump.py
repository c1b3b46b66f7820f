"""A thread that carries calls to one server.

Calls queue up while a round trip is under way and go out together as the next one, so that the
number of round trips, not of calls, decides the speed. The thread only sends, receives and
reconnects: a caller's patience is counted in trio, and cancelling a caller never touches a socket.

The life of a call: queued, then sent, then answered. A queued call can still be withdrawn. A sent
one cannot: if its connection breaks it goes out again, marked as a repetition so that the server
does it once, unless its caller has left.
"""

from __future__ import annotations

import enum
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import redis.exceptions as remote_errors
import trio

from tuplespace import library
from tuplespace.topology import Connection
from tuplespace.wire import command

MAX_CALLS: Final = 128
MAX_BYTES: Final = 256 << 10
_BACKOFF_S: Final = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
_LOAD: Final = command(b"FUNCTION", b"LOAD", b"REPLACE", library.SOURCE.encode())
_ASKING: Final = command(b"ASKING")

CONNECTION_LOST: Final = (remote_errors.ConnectionError, remote_errors.TimeoutError, OSError)
_REFUSED_LOGIN: Final = (remote_errors.AuthenticationError, remote_errors.AuthorizationError)
# The server said no for now and did nothing: wait a little and ask again.
_LATER: Final = (
    remote_errors.TryAgainError,
    remote_errors.ClusterDownError,
    remote_errors.MasterDownError,
)


class State(enum.Enum):
    """Where a call is in its life."""

    QUEUED = enum.auto()
    SENT = enum.auto()
    LEFT = enum.auto()


@dataclass(eq=False, slots=True)
class Call:
    """One request and, later, its answer: a reply, or an exception that the server gave.

    `task` waits for it, or nobody does; `answered` is called in trio when it is final. `key` says which
    server has it; `flag_at` is where the data say that it is sent for the first time.
    """

    data: bytes
    flag_at: int | None = None
    started: float = 0.0
    patience_s: float | None = None
    task: trio.lowlevel.Task | None = None
    asking: bool = False
    key: bytes = b""
    answered: Callable[[], None] | None = None
    state: State = State.QUEUED
    sent: bool = False
    reply: Any = None

    def repeat(self) -> None:
        """Mark as a repetition: the server may have done it already."""
        if self.flag_at is not None:
            self.data = self.data[: self.flag_at] + b"R" + self.data[self.flag_at + 1 :]


class Detour(Exception):
    """The answer of a call that a retired pump did not carry out: ask whoever owns the space now."""


@dataclass
class Counters:
    """What a pump has done; read by statistics()."""

    calls: int = 0
    retries: int = 0
    reconnects: int = 0


@dataclass(eq=False)
class Pump:
    """Carries calls to one server over one connection, in order.

    `deliver` gets the answered calls, `trouble` the reason whenever the connection cannot be had;
    both run in the thread and must only hand over to trio.
    """

    dial: Callable[[], Connection]
    deliver: Callable[[list[Call]], None]
    trouble: Callable[[str | None], None]
    counters: Counters = field(default_factory=Counters)
    _queue: queue.SimpleQueue[Call | None] = field(default_factory=queue.SimpleQueue)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _again: list[Call] = field(default_factory=list)
    _stopping: threading.Event = field(default_factory=threading.Event)
    _retired: bool = False
    _failures: int = 0
    _thread: threading.Thread | None = None

    def submit(self, call: Call) -> None:
        """Queue a call; its answer comes through `deliver`."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="tuplespace-pump", daemon=True)
            self._thread.start()
        self._queue.put(call)

    def withdraw(self, call: Call) -> bool:
        """The caller leaves: True when the call will never be sent, False when it may have been done."""
        with self._lock:
            call.state = State.LEFT
            return not call.sent

    def stop(self) -> None:
        """Send what is queued, then end; returns at once, `join` waits."""
        self._stopping.set()
        self._queue.put(None)

    def retire(self) -> None:
        """Return everything not yet answered as a Detour, and end."""
        self._retired = True
        self.stop()

    def join(self, timeout_s: float) -> None:
        """Wait for the thread's end."""
        if self._thread is not None:
            self._thread.join(timeout_s)

    def _run(self) -> None:
        connection = self.dial()
        while (waiting := self._gather()) is not None:
            if not self._connected(connection, waiting):
                continue
            batch = self._claim(waiting)
            if batch:
                self._trip(connection, batch)
            if self._again:
                self._pause()
        connection.disconnect()

    def _gather(self) -> list[Call] | None:
        """The calls of the next trip, repetitions first and in their order; None to end."""
        if self._retired:
            self._hand_back()
            return None
        batch, self._again = self._again, []
        size = sum(len(c.data) for c in batch)
        if not batch:
            if self._stopping.is_set() and self._queue.empty():
                return None
            if (call := self._queue.get()) is not None:
                batch.append(call)
                size += len(call.data)
        while len(batch) < MAX_CALLS and size < MAX_BYTES:
            try:
                call = self._queue.get_nowait()
            except queue.Empty:
                break
            if call is not None:
                batch.append(call)
                size += len(call.data)
        return batch

    def _claim(self, waiting: list[Call]) -> list[Call]:
        """From here on these count as sent; those whose callers have left are dropped."""
        with self._lock:
            batch = [c for c in waiting if c.state is not State.LEFT]
            for call in batch:
                call.state, call.sent = State.SENT, True
        return batch

    def _connected(self, connection: Connection, waiting: list[Call]) -> bool:
        """Connect if need be, before anything is called sent; on failure the calls wait for another try."""
        if not waiting or connection.is_connected:
            return True
        try:
            connection.connect()
        except _REFUSED_LOGIN as error:
            connection.disconnect()
            for call in waiting:
                call.reply = error
            self.deliver(waiting)
            return False
        except CONNECTION_LOST as error:
            connection.disconnect()
            self._fail(str(error))
            self._keep_or_drop(waiting, str(error))
            self._pause()
            return False
        self.counters.reconnects += 1
        return True

    def _hand_back(self) -> None:
        calls, self._again = self._again, []
        while not self._queue.empty():
            if (call := self._queue.get()) is not None:
                calls.append(call)
        for call in calls:
            call.reply = Detour()
        self.deliver(calls)

    def _trip(self, connection: Connection, batch: list[Call]) -> None:
        """Send a batch and hand over the answers; what has none goes into `_again`."""
        answered = 0
        try:
            connection.send_packed_command(
                [b"".join([_ASKING + c.data if c.asking else c.data for c in batch])], check_health=False
            )
            for call in batch:
                if call.asking:
                    connection.read_response()
                call.reply = _read(connection)
                answered += 1
        except CONNECTION_LOST as error:
            connection.disconnect()
            self._fail(str(error))
            for call in batch[answered:]:
                call.repeat()
            self.counters.retries += len(batch) - answered
            self._keep_or_drop(batch[answered:], str(error))
        else:
            if self._failures:
                self._failures = 0
                self.trouble(None)
        self._hand_over(connection, batch[:answered])

    def _fail(self, reason: str) -> None:
        self._failures += 1
        self.trouble(reason)

    def _keep_or_drop(self, calls: list[Call], reason: str) -> None:
        """Keep calls for the next try, or, when there will be none, answer that the server is away."""
        if not self._stopping.is_set() or self._retired:
            self._again = calls
            return
        for call in calls:
            call.reply = remote_errors.ConnectionError(reason)
        self.deliver(calls)

    def _hand_over(self, connection: Connection, answered: list[Call]) -> None:
        """Deliver the answers, and keep back those to be asked again because the server did nothing."""
        later = [c for c in answered if isinstance(c.reply, _LATER)]
        missing = [c for c in answered if _lacks_function(c.reply)]
        demoted = [c for c in answered if isinstance(c.reply, remote_errors.ReadOnlyError)]
        self.counters.calls += len(answered) - len(later) - len(missing) - len(demoted)
        if demoted:
            connection.disconnect()
        if missing:
            failure = self._load(connection)
            if failure is not None:
                for call in missing:
                    call.reply = failure
                missing = []
        again = set(map(id, later + missing + demoted))
        if again:
            self._again += [c for c in answered if id(c) in again]
            if later or demoted:
                self._failures += 1
        done = [c for c in answered if id(c) not in again]
        if done:
            self.deliver(done)

    def _load(self, connection: Connection) -> Exception | None:
        """Bring our functions to a server that has none; what the server says against it, if it does."""
        try:
            connection.send_packed_command([_LOAD], check_health=False)
            reply = _read(connection)
        except CONNECTION_LOST:
            connection.disconnect()
            return None
        return reply if isinstance(reply, Exception) else None

    def _pause(self) -> None:
        if self._failures:
            self._stopping.wait(_BACKOFF_S[min(self._failures, len(_BACKOFF_S)) - 1])


def _read(connection: Connection) -> Any:
    """The next reply; an error that the server gave is a value here."""
    try:
        return connection.read_response()
    except remote_errors.ResponseError as error:
        return error


def _lacks_function(reply: object) -> bool:
    return isinstance(reply, remote_errors.ResponseError) and "Function not found" in str(reply)
