"""Connections on which both sides speak in lines, as NNTP and FTP do."""

from __future__ import annotations

import ssl
from typing import Final, Self

import trio

PIECE: Final = 64 << 10
_LONGEST_LINE: Final = 64 << 10


class ServerError(Exception):
    """A server that does not answer as it should; the message says how."""


class Lines:
    """One connection; whoever is cancelled in the middle of an answer has to drop it."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        self._received = bytearray()

    async def say(self, command: bytes) -> None:
        """Send a line; raises ServerError for what would be more than one."""
        if min(command, default=0) < 0x20 or 0x7F in command:
            raise ServerError("a command with control characters")
        await self.stream.send_all(command + b"\r\n")

    async def line(self) -> bytes:
        """The next line, without its end; raises ServerError if there is none."""
        searched = 0
        while (end := self._received.find(b"\n", searched)) < 0:
            searched = len(self._received)
            if searched > _LONGEST_LINE:
                raise ServerError("a line without end")
            data = await self.stream.receive_some(PIECE)
            if not data:
                raise ServerError("it closed the connection")
            self._received += data
        line = bytes(self._received[:end]).removesuffix(b"\r")
        del self._received[: end + 1]
        return line

    async def begin_tls(self, context: ssl.SSLContext, host: str) -> Self:
        """The same connection within TLS from now on; raises ssl.SSLError or ServerError."""
        if self._received:
            raise ServerError("it said something between STARTTLS and TLS")
        return type(self)(await secured(self.stream, context, host))

    async def aclose(self) -> None:
        """Close it, without a word."""
        await trio.aclose_forcefully(self.stream)


async def secured(
    stream: trio.abc.Stream, context: ssl.SSLContext, host: str, *, session: ssl.SSLSession | None = None
) -> trio.SSLStream[trio.abc.Stream]:
    """A stream within TLS, by the session of another connection if there is one."""
    made = trio.SSLStream(stream, context, server_hostname=host, https_compatible=True)
    if session is not None:
        made.session = session
    await made.do_handshake()
    return made
