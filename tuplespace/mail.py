"""A thread that listens to one server: hand-overs, and what watchers want to hear.

One subscription connection serves all spaces on a server. What comes through it is a hint: a
message lost with the connection is repeated by the next tick, so nothing depends on it but speed.
Only this thread touches the connection (TLS connections cannot be read and written by two); others
leave their wishes and wake it through a pipe.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NoReturn

import redis.exceptions as remote_errors

from tuplespace.pump import CONNECTION_LOST
from tuplespace.topology import Connection

_PING_S: Final = 5.0
_SILENCE_S: Final = 15.0
_RETRY_S: Final = 0.2


@dataclass(eq=False)
class Mail:
    """Subscriptions to one server.

    Runs in its thread, and must only hand over to trio: `heard(channel, data)` for a message,
    `ready(channel)` when a subscription is in force (again), `refused(channel, reason, denied)` when the
    server will not have it, for instance because the space lives elsewhere now.
    """

    dial: Callable[[], Connection]
    heard: Callable[[bytes, bytes], None]
    ready: Callable[[bytes], None]
    refused: Callable[[bytes, str, bool], None]
    _wanted: dict[bytes, None] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _pipe: tuple[int, int] | None = None
    _thread: threading.Thread | None = None
    _stopped: bool = False

    def subscribe(self, channel: bytes) -> None:
        """Ask for a channel's messages; `ready` follows, also when it was subscribed to before."""
        with self._lock:
            self._wanted.pop(channel, None)
            self._wanted[channel] = None
        if self._thread is None:
            self._pipe = os.pipe()
            os.set_blocking(self._pipe[0], False)
            self._thread = threading.Thread(target=self._run, name="tuplespace-mail", daemon=True)
            self._thread.start()
        self._wake()

    def unsubscribe(self, channel: bytes) -> None:
        """Forget a channel, from the next connection on."""
        with self._lock:
            self._wanted.pop(channel, None)

    def stop(self) -> None:
        """End the thread; returns at once, `join` waits."""
        self._stopped = True
        self._wake()

    def join(self, timeout_s: float) -> None:
        """Wait for the thread's end."""
        if self._thread is not None:
            self._thread.join(timeout_s)

    def _wake(self) -> None:
        with self._lock, contextlib.suppress(OSError):
            if self._pipe is not None:
                os.write(self._pipe[1], b"!")

    def _run(self) -> None:
        connection = self.dial()
        assert self._pipe is not None
        try:
            while not self._stopped:
                try:
                    connection.connect()
                    self._listen(connection)
                except CONNECTION_LOST:
                    self._sleep(_RETRY_S)
                finally:
                    connection.disconnect()
        finally:
            with self._lock:
                pipe, self._pipe = self._pipe, None
                for end in pipe:
                    os.close(end)

    def _listen(self, connection: Connection) -> None:
        """Subscribe to all that is wanted, then pass on what is heard until stopped."""
        subscribed: set[bytes] = set()
        unconfirmed: list[bytes] = []
        heard_at = time.monotonic()
        while not self._stopped:
            with self._lock:
                missing = [c for c in self._wanted if c not in subscribed]
            for channel in missing:
                connection.send_command("SSUBSCRIBE", channel)
                subscribed.add(channel)
                unconfirmed.append(channel)
            if not connection.can_read(timeout=0):
                self._sleep(_PING_S, connection)
            if connection.can_read(timeout=0):
                heard_at = time.monotonic()
                self._pass_on(connection, unconfirmed)
            elif time.monotonic() - heard_at > _SILENCE_S:
                raise remote_errors.ConnectionError("no answer on the subscription")
            elif time.monotonic() - heard_at > _PING_S:
                connection.send_command("PING", check_health=False)

    def _pass_on(self, connection: Connection, unconfirmed: list[bytes]) -> None:
        while connection.can_read(timeout=0):
            try:
                message = connection.read_response()
            except remote_errors.ResponseError as error:
                if not unconfirmed:
                    continue  # it answers a PING
                denied = isinstance(error, remote_errors.NoPermissionError)
                self._refuse(unconfirmed[0], str(error), denied=denied)
            match message:
                case [b"smessage", channel, data]:
                    self.heard(channel, data)
                case [b"ssubscribe", channel, _]:
                    unconfirmed.remove(channel)
                    self.ready(channel)
                case [b"sunsubscribe", channel, _]:
                    self._refuse(channel, "the space has moved", denied=False)
                case _:
                    pass

    def _refuse(self, channel: bytes, reason: str, *, denied: bool) -> NoReturn:
        """Say that a channel is not to be had here, and start over without it."""
        self.unsubscribe(channel)
        self.refused(channel, reason, denied)
        raise remote_errors.ConnectionError(reason)

    def _sleep(self, timeout_s: float, connection: Connection | None = None) -> None:
        """Wait for the pipe, the connection, or the time to pass."""
        assert self._pipe is not None
        poll = select.poll()
        poll.register(self._pipe[0], select.POLLIN)
        socket = None if connection is None else connection._get_socket()
        if socket is not None:
            poll.register(socket, select.POLLIN)
        poll.poll(timeout_s * 1000)
        with contextlib.suppress(BlockingIOError):
            os.read(self._pipe[0], 4096)
