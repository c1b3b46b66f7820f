"""A connection that sends and receives no faster than somebody lets it, also in the middle of a page.

The usual connection knows nothing of this and pays nothing for it. What is not taken in stays with the
system, whose buffer is kept small here, so that the server has to wait too.
"""

from __future__ import annotations

import math
import socket
import time
from contextlib import suppress
from typing import Final, Protocol

import trio
from trio.lowlevel import wait_readable, wait_writable

from gcs.fetch.connection import Buffers, Connection
from gcs.fetch.outcome import Reason

_WINDOW_BYTES: Final = 32 << 10


class Throttle(Protocol):
    """Who says how much may go."""

    async def turn(self) -> int:
        """Wait until some bytes may go, and say how many; `use` them before the next await."""

    def use(self, size_bytes: int) -> None:
        """So many went."""


class ThrottledConnection(Connection):
    """A connection whose bytes all go through a throttle, those of TLS and of a proxy's tunnel included."""

    __slots__ = ("_throttle",)

    def __init__(
        self,
        sock: socket.socket,
        address: str,
        *,
        buffers: Buffers,
        max_header_bytes: int,
        throttle: Throttle,
    ) -> None:
        """Take over a connected, non-blocking socket."""
        super().__init__(sock, address, buffers=buffers, max_header_bytes=max_header_bytes)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _WINDOW_BYTES)
        self._throttle = throttle

    def is_slow(self, now: float, min_rate_bytes: int, window_s: float) -> bool:
        """Never: how fast an answer comes is not the server's doing here. The total time is a limit still."""
        return False

    async def _send_raw(self, data: bytes) -> None:
        sent = 0
        while sent < len(data):
            await wait_writable(self._sock)
            most = await self._turn()
            with suppress(BlockingIOError):
                size = self._sock.send(data[sent : sent + most])
                self._throttle.use(size)
                sent += size

    async def _receive_raw(self, buffer: bytearray) -> int:
        while True:
            await wait_readable(self._sock)
            most = await self._turn()
            try:
                size = self._sock.recv_into(buffer, min(most, len(buffer)))
            except BlockingIOError:
                continue
            self._throttle.use(size)
            return size

    async def _turn(self) -> int:
        # The watch wakes only who waits for the socket. While a connection is made there is no deadline here.
        left_s = self.deadline - time.monotonic() if self.deadline else math.inf
        most = 0
        with trio.move_on_after(max(0.0, left_s)):
            most = await self._throttle.turn()
        if not most:
            self.late = Reason.TIMEOUT
        if self.late is not None:
            raise trio.ClosedResourceError
        return most
