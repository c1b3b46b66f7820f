"""A thread that carries calls to one server.

Calls queue up while round trips are under way and go out together as the next one, so that the
number of round trips, not of calls, decides the speed. The thread only sends, receives and
reconnects: a caller's patience is counted in trio, and cancelling a caller never touches a socket.

The life of a call: queued, then sent, then answered. A queued call can still be withdrawn. A sent
one cannot: if its connection breaks it goes out again, marked as a repetition so that the server
does it once, unless its caller has left.
"""

from __future__ import annotations

import enum
import itertools
import queue
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import redis.exceptions as remote_errors
import trio

from tuplespace import library
from tuplespace.topology import Connection
from tuplespace.wire import command

MAX_CALLS: Final = 64
MAX_BYTES: Final = 256 << 10
TRIPS: Final = 2
"""Batches under way at once: while the server works on one, its callers work on the other's answers."""
_BACKOFF_S: Final = (0.02, 0.05, 0.1, 0.2, 0.4)
_LOAD: Final = command(b"FUNCTION", b"LOAD", b"REPLACE", library.SOURCE.encode())
_ASKING: Final = command(b"ASKING")

# Whatever goes wrong with a connection, what follows on it cannot be trusted. (What a server says against
# one request is a ResponseError, and a value, see `_read`.)
CONNECTION_LOST: Final = (remote_errors.RedisError, OSError)
# The server has done nothing, and will not before somebody else asks.
REFUSED_LOGIN: Final = (remote_errors.AuthenticationError, remote_errors.AuthorizationError)
# The server said no for now and did nothing: wait a little and ask again.
_LATER: Final = (
    remote_errors.TryAgainError,
    remote_errors.ClusterDownError,
    remote_errors.MasterDownError,
    remote_errors.ReadOnlyError,
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
    repeated: bool = False
    reply: Any = None

    def repeat(self) -> None:
        """Mark as a repetition: the server may have done it already."""
        self.repeated = True
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
    _under_way: deque[list[Call]] = field(default_factory=deque)
    _amiss: list[Exception] = field(default_factory=list)
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
        try:
            self._carry(self.dial())
        except Exception as error:  # noqa: BLE001 - nobody else would tell the callers
            calls = [*itertools.chain.from_iterable(self._under_way), *self._again]
            while not self._queue.empty():
                if (call := self._queue.get()) is not None:
                    calls.append(call)
            for call in calls:
                call.reply = error
            self.deliver(calls)
            self._thread = None  # the next call begins anew

    def _carry(self, connection: Connection) -> None:
        while (waiting := self._gather(connection)) is not None:
            if waiting and self._connected(connection, waiting):
                self._send(connection, self._claim(waiting))
            if self._under_way and (not waiting or len(self._under_way) == TRIPS):
                self._receive(connection)
            if self._again and not self._under_way:
                self._pause()
        connection.disconnect()

    def _gather(self, connection: Connection) -> list[Call] | None:
        """The calls of the next trip, repetitions first and in their order; None to end.

        Waits for some only when nothing is under way; gives none before what is amiss is mended.
        """
        if self._amiss or self._retired:
            if self._under_way:
                return []
            if self._retired:
                self._hand_back()
                return None
            self._mend(connection)
        batch, self._again = self._again, []
        size = sum(len(c.data) for c in batch)
        if not batch and not self._under_way:
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
        except REFUSED_LOGIN as error:
            connection.disconnect()
            self._refuse(waiting, error)
            return False
        except CONNECTION_LOST as error:
            connection.disconnect()
            self._fail(str(error))
            self._keep_or_drop(waiting, str(error))
            self._pause()
            return False
        self.counters.reconnects += 1
        return True

    def _refuse(self, calls: list[Call], error: Exception) -> None:
        """The server knows no such user: it does nothing of what is asked in this name."""
        for call in calls:
            call.reply = error
        self.deliver(calls)

    def _hand_back(self) -> None:
        calls, self._again = self._again, []
        while not self._queue.empty():
            if (call := self._queue.get()) is not None:
                calls.append(call)
        for call in calls:
            call.reply = Detour()
        self.deliver(calls)

    def _send(self, connection: Connection, batch: list[Call]) -> None:
        """Send a batch; its answers are read when the next one is on its way, so that nobody idles."""
        if not batch:
            return
        self._under_way.append(batch)
        try:
            connection.send_packed_command(
                [b"".join([_ASKING + c.data if c.asking else c.data for c in batch])], check_health=False
            )
        except CONNECTION_LOST as error:
            self._broken(connection, str(error))

    def _receive(self, connection: Connection) -> None:
        """Read the answers to the oldest batch under way and hand them over."""
        batch = self._under_way[0]
        answered = 0
        try:
            for call in batch:
                if call.asking:
                    _read(connection)
                call.reply = _read(connection)
                answered += 1
        except REFUSED_LOGIN as error:
            connection.disconnect()
            self._under_way.popleft()
            self._refuse([*batch[answered:], *itertools.chain.from_iterable(self._under_way)], error)
            self._under_way.clear()
        except CONNECTION_LOST as error:
            self._under_way[0] = batch[answered:]
            self._broken(connection, str(error))
        else:
            self._under_way.popleft()
            if self._failures:
                self._failures = 0
                self.trouble(None)
        self._hand_over(batch[:answered])

    def _broken(self, connection: Connection, reason: str) -> None:
        """The connection is gone: what has no answer may or may not have been done, and is asked again."""
        connection.disconnect()
        unanswered = [call for batch in self._under_way for call in batch]
        self._under_way.clear()
        self._fail(reason)
        for call in unanswered:
            call.repeat()
        self.counters.retries += len(unanswered)
        self._keep_or_drop(unanswered, reason)

    def _fail(self, reason: str) -> None:
        self._failures += 1
        self.trouble(reason)

    def _keep_or_drop(self, calls: list[Call], reason: str) -> None:
        """Keep calls for the next try, or, when there will be none, answer that the server is away."""
        calls = [c for c in calls if c.state is not State.LEFT]
        if not self._stopping.is_set() or self._retired:
            self._again = calls + self._again
            return
        for call in calls:
            call.reply = remote_errors.ConnectionError(reason)
        self.deliver(calls)

    def _hand_over(self, answered: list[Call]) -> None:
        """Deliver the answers, and keep back those to be asked again because the server did nothing."""
        final = self._stopping.is_set() and not self._retired
        again = [] if final else [c for c in answered if _did_nothing(c.reply)]
        self.counters.calls += len(answered) - len(again)
        if again:
            self._again += again
            self._amiss += [c.reply for c in again]
            answered = [c for c in answered if not _did_nothing(c.reply)]
        if answered:
            self.deliver(answered)

    def _mend(self, connection: Connection) -> None:
        """Do something about what the server complained of: bring our functions, find the master, wait."""
        amiss, self._amiss = self._amiss, []
        if any(isinstance(reply, remote_errors.ReadOnlyError) for reply in amiss):
            connection.disconnect()
        if any(_lacks_function(reply) for reply in amiss) and connection.is_connected:
            failure = self._load(connection)
            if failure is not None:
                refused = [c for c in self._again if _lacks_function(c.reply)]
                self._again = [c for c in self._again if not _lacks_function(c.reply)]
                for call in refused:
                    call.reply = failure
                self.deliver(refused)
        elif self._again:
            self._fail(str(amiss[0]))
            self._pause()

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


def _did_nothing(reply: object) -> bool:
    """Whether the server only said that it cannot do it now, or not yet."""
    busy = isinstance(reply, remote_errors.ResponseError) and str(reply).startswith("BUSY ")
    return busy or isinstance(reply, _LATER) or _lacks_function(reply)


def _lacks_function(reply: object) -> bool:
    return isinstance(reply, remote_errors.ResponseError) and "Function not found" in str(reply)
