"""A client of news servers on trio: as much of NNTP as reading needs. (RFC 3977, 4642, 4643.)

A connection does one thing at a time. Whoever is cancelled in the middle of an answer, or meets something
that is not NNTP, has to drop it: what comes next on it would be taken for another answer.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import Final, NamedTuple

import trio

from gcs.sources.lines import Lines, ServerError, secured

_LISTS: Final = frozenset({215, 220, 224})
"""Codes that lines follow, of those that are asked for: groups, an article, an overview."""


class Reply(NamedTuple):
    """What a server says: a code, the rest of the line, and the lines of a list."""

    code: int
    text: str
    body: bytes = b""
    is_cut: bool = False
    """Whether there was more than was wanted; then nothing else can be asked on the connection."""


class Connection(Lines):
    """One connection to a server."""

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
        """Connect and say who we are; raises OSError, ssl.SSLError or ServerError.

        With `tls` the connection begins with it. A password is sent only over TLS, which `context` is for.
        """
        stream: trio.abc.Stream = await trio.open_tcp_stream(host, port)
        try:
            if tls is not None:
                stream = await secured(stream, tls(), host)
            made = cls(stream)
            await made._greeted()
            if login is not None:
                if tls is None:
                    made = await made._secured(context(), host)
                await made._log_in(*login)
            await made.ask("MODE READER")  # who need not be told so refuses
        except BaseException:
            await trio.aclose_forcefully(stream)
            raise
        return made

    async def _greeted(self) -> None:
        greeting = _reply(await self.line())
        if greeting.code not in (200, 201):
            raise ServerError(f"it refuses: {greeting.text}")

    async def _secured(self, context: ssl.SSLContext, host: str) -> Connection:
        if (await self.ask("STARTTLS")).code != 382:
            raise ServerError("it knows no STARTTLS, and a password is not sent in the clear")
        return await self.begin_tls(context, host)

    async def _log_in(self, user: str, password: str) -> None:
        reply = await self.ask(f"AUTHINFO USER {user}")
        if reply.code == 381:
            reply = await self.ask(f"AUTHINFO PASS {password}")
        if reply.code != 281:
            raise ServerError("it does not accept the login")

    async def ask(self, command: str, *, most_bytes: int = 1 << 20) -> Reply:
        """Send a command, and take the answer, of whose list at most so many bytes are wanted."""
        await self.say(command.encode())
        reply = _reply(await self.line())
        if reply.code not in _LISTS:
            return reply
        lines: list[bytes] = []
        size = 0
        while (line := await self.line()) != b".":
            size += len(line) + 2
            if size > most_bytes:
                return reply._replace(body=b"\r\n".join([*lines, b""]), is_cut=True)
            lines.append(line[1:] if line.startswith(b".") else line)
        return reply._replace(body=b"\r\n".join([*lines, b""]))


def _reply(line: bytes) -> Reply:
    code, _, text = line.decode("utf-8", "replace").partition(" ")
    if not (len(code) == 3 and code.isascii() and code.isdigit()):
        raise ServerError("what it says is not NNTP")
    return Reply(int(code), text)
