"""A client of FTP servers on trio: as much of it as reading needs. (RFC 959, 2228, 2428, 3659, 4217.)

What is transferred comes over a connection of its own, which is always made to the address that the server
itself has: where a server says that it is elsewhere, nobody is asked there. Passwords are sent only over TLS,
and then all else comes over it too.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

import trio

from gcs.sources.lines import PIECE, Lines, ServerError, secured

_MOST_LINES: Final = 1_000
_MOST_BYTES: Final = 1 << 20
"""Of one reply, both."""
_FIRST_PORT: Final = 1_024
"""Below it are services that speak something else."""
_EXTENDED = re.compile(rb"\((.)\1\1(\d{1,5})\1\)")
_PASSIVE = re.compile(rb"(?:\d{1,3},){4}(\d{1,3}),(\d{1,3})")
_PATIENCE_S: Final = 3.0
"""With an address, while there are others."""
_ANONYMOUS: Final = ("anonymous", "gcs@")


class Reply(NamedTuple):
    """What a server says: a code, and the lines with it."""

    code: int
    lines: Sequence[bytes]

    @property
    def is_unknown(self) -> bool:
        """Whether it does not know the command, or not so."""
        return self.code in (500, 501, 502, 504)


class Received(NamedTuple):
    """What was transferred, and how the server began, or refused at last."""

    reply: Reply
    body: bytes = b""
    is_cut: bool = False
    """Whether there was more than was wanted; then nothing else can be asked on the connection."""


class Connection(Lines):
    """One connection to a server."""

    _address, _host = "", ""
    _context: ssl.SSLContext | None = None
    _knows_extended = True

    @classmethod
    async def open(
        cls,
        addresses: Sequence[str],
        host: str,
        port: int,
        *,
        login: tuple[str, str] | None,
        context: Callable[[], ssl.SSLContext],
    ) -> Connection:
        """Connect to the first address that answers, and log in; raises OSError, ssl.SSLError, ServerError.

        With a login TLS is begun before it, which `context` is for.
        """
        address, stream = await _first(addresses, port)
        try:
            made = cls(stream)
            greeting = await made.reply()
            if greeting.code != 220:
                raise ServerError(f"it refuses: {greeting.code}")
            if login is not None:
                made = await made._secured(context(), host)
            made._address, made._host = address, host
            await made._log_in(*(login or _ANONYMOUS))
            await made._wanted(b"TYPE I", 200)
        except BaseException:
            await trio.aclose_forcefully(stream)
            raise
        return made

    async def _secured(self, context: ssl.SSLContext, host: str) -> Connection:
        if (await self.ask(b"AUTH TLS")).code != 234:
            raise ServerError("it knows no AUTH TLS, and a password is not sent in the clear")
        made = await self.begin_tls(context, host)
        await made._wanted(b"PBSZ 0", 200)
        await made._wanted(b"PROT P", 200)
        made._context = context
        return made

    async def _log_in(self, user: str, password: str) -> None:
        reply = await self.ask(f"USER {user}".encode())
        if reply.code == 331:
            reply = await self.ask(f"PASS {password}".encode())
        if reply.code not in (230, 202):
            raise ServerError(f"it does not accept the login: {reply.code}")

    async def _wanted(self, command: bytes, code: int) -> None:
        if (reply := await self.ask(command)).code != code:
            raise ServerError(f"it does not accept {command.decode()}: {reply.code}")

    async def ask(self, command: bytes) -> Reply:
        """Send a command, and take the reply."""
        await self.say(command)
        return await self.reply()

    async def reply(self) -> Reply:
        """The next reply, of one line or several."""
        lines = [await self.line()]
        code = lines[0][:3]
        if not (len(code) == 3 and code.isdigit() and lines[0][3:4] in (b"", b" ", b"-")):
            raise ServerError("what it says is not FTP")
        size_bytes = len(lines[0])
        while lines[0][3:4] == b"-" and not (len(lines) > 1 and lines[-1].startswith(code + b" ")):
            lines.append(await self.line())
            size_bytes += len(lines[-1])
            if len(lines) > _MOST_LINES or size_bytes > _MOST_BYTES:
                raise ServerError("a reply without end")
        return Reply(int(code), lines)

    async def receive(self, command: bytes, *, most_bytes: int) -> Received:
        """What a command has the server transfer, of which at most so many bytes are wanted."""
        stream: trio.abc.Stream = await trio.open_tcp_stream(self._address, await self._data_port())
        body = bytearray()
        try:
            reply = await self.ask(command)
            if reply.code >= 400:
                return Received(reply)
            if reply.code not in (125, 150):
                raise ServerError(f"it transfers nothing: {reply.code}")
            if self._context is not None:
                assert isinstance(self.stream, trio.SSLStream)
                session: ssl.SSLSession | None = self.stream.session
                stream = await secured(stream, self._context, self._host, session=session)
            while len(body) <= most_bytes and (some := await stream.receive_some(PIECE)):
                body += some
        finally:
            await trio.aclose_forcefully(stream)
        if len(body) > most_bytes:
            return Received(reply, bytes(body[:most_bytes]), is_cut=True)
        ended = await self.reply()
        if ended.code >= 400:
            return Received(ended)
        if ended.code not in (226, 250):
            raise ServerError(f"it did not transfer all: {ended.code}")
        return Received(reply, bytes(body))

    async def _data_port(self) -> int:
        """The port for the next transfer; whatever address is said with it is not asked."""
        port = 0
        if self._knows_extended:
            reply = await self.ask(b"EPSV")
            self._knows_extended = reply.code == 229
            if self._knows_extended and (found := _EXTENDED.search(reply.lines[-1])):
                port = int(found[2])
        if not self._knows_extended and ":" not in self._address:
            reply = await self.ask(b"PASV")
            if reply.code == 227 and (found := _PASSIVE.search(reply.lines[-1])):
                port = int(found[1]) * 256 + int(found[2])
        if not _FIRST_PORT <= port < 65536:
            raise ServerError("it opens no port for transfers")
        return port


async def _first(addresses: Sequence[str], port: int) -> tuple[str, trio.SocketStream]:
    """The first of some addresses that answers; raises OSError if none does."""
    for address in addresses[:-1]:
        with suppress(OSError), trio.move_on_after(_PATIENCE_S):
            return address, await trio.open_tcp_stream(address, port)
    return addresses[-1], await trio.open_tcp_stream(addresses[-1], port)
