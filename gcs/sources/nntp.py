"""A client of news servers on trio: as much of NNTP as reading needs. (RFC 3977, 4642, 4643.)

A connection does one thing at a time. Whoever is cancelled in the middle of an answer, or meets something
that is not NNTP, has to drop it: what comes next on it would be taken for another answer.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import Final, NamedTuple

import trio

_LONGEST_LINE: Final = 64 << 10
_PIECE: Final = 64 << 10
_LISTS: Final = frozenset({215, 220, 224})
"""Codes that lines follow, of those that are asked for: groups, an article, an overview."""


class NewsError(Exception):
    """A server that does not answer as it should; the message says how."""


class Reply(NamedTuple):
    """What a server says: a code, the rest of the line, and the lines of a list."""

    code: int
    text: str
    body: bytes = b""
    is_cut: bool = False
    """Whether there was more than was wanted; then nothing else can be asked on the connection."""


class Connection:
    """One connection to a server."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self._received = bytearray()

    @classmethod
    async def open(
        cls,
        host: str,
        port: int,
        *,
        tls: Callable[[], ssl.SSLContext] | None,
        login: tuple[str, str] | None,
        context: Callable[[], ssl.SSLContext],
    ) -> Connection:
        """Connect and say who we are; raises OSError, ssl.SSLError or NewsError.

        With `tls` the connection begins with it. A password is sent only over TLS, which `context` is for.
        """
        stream: trio.abc.Stream = await trio.open_tcp_stream(host, port)
        try:
            if tls is not None:
                stream = await _secured(stream, tls(), host)
            made = cls(stream)
            await made._greeted()
            if login is not None:
                if tls is None:
                    made = await made._begin_tls(context(), host)
                await made._log_in(*login)
            await made.ask("MODE READER")  # who need not be told so refuses
        except BaseException:
            await trio.aclose_forcefully(stream)
            raise
        return made

    async def _greeted(self) -> None:
        greeting = _reply(await self._line())
        if greeting.code not in (200, 201):
            raise NewsError(f"it refuses: {greeting.text}")

    async def _begin_tls(self, context: ssl.SSLContext, host: str) -> Connection:
        if (await self.ask("STARTTLS")).code != 382:
            raise NewsError("it knows no STARTTLS, and a password is not sent in the clear")
        if self._received:
            raise NewsError("it said something between STARTTLS and TLS")
        return Connection(await _secured(self._stream, context, host))

    async def _log_in(self, user: str, password: str) -> None:
        reply = await self.ask(f"AUTHINFO USER {user}")
        if reply.code == 381:
            reply = await self.ask(f"AUTHINFO PASS {password}")
        if reply.code != 281:
            raise NewsError("it does not accept the login")

    async def ask(self, command: str, *, most_bytes: int = 1 << 20) -> Reply:
        """Send a command, and take the answer, of whose list at most so many bytes are wanted."""
        if not command.isprintable():
            raise NewsError("a command with control characters")
        await self._stream.send_all(f"{command}\r\n".encode())
        reply = _reply(await self._line())
        if reply.code not in _LISTS:
            return reply
        lines: list[bytes] = []
        size = 0
        while (line := await self._line()) != b".":
            size += len(line) + 2
            if size > most_bytes:
                return reply._replace(body=b"\r\n".join([*lines, b""]), is_cut=True)
            lines.append(line[1:] if line.startswith(b".") else line)
        return reply._replace(body=b"\r\n".join([*lines, b""]))

    async def _line(self) -> bytes:
        searched = 0
        while (end := self._received.find(b"\n", searched)) < 0:
            searched = len(self._received)
            if searched > _LONGEST_LINE:
                raise NewsError("a line without end")
            data = await self._stream.receive_some(_PIECE)
            if not data:
                raise NewsError("it closed the connection")
            self._received += data
        line = bytes(self._received[:end]).removesuffix(b"\r")
        del self._received[: end + 1]
        return line

    async def aclose(self) -> None:
        """Close it, without a word."""
        await trio.aclose_forcefully(self._stream)


async def _secured(
    stream: trio.abc.Stream, context: ssl.SSLContext, host: str
) -> trio.SSLStream[trio.abc.Stream]:
    secured = trio.SSLStream(stream, context, server_hostname=host, https_compatible=True)
    await secured.do_handshake()
    return secured


def _reply(line: bytes) -> Reply:
    code, _, text = line.decode("utf-8", "replace").partition(" ")
    if not (len(code) == 3 and code.isascii() and code.isdigit()):
        raise NewsError("what it says is not NNTP")
    return Reply(int(code), text)
