"""A small news server on loopback: what RFC 3977 says of reading, with AUTHINFO and STARTTLS."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import trio

Groups = dict[str, dict[int, bytes]]
"""The articles of each group, by number, with CRLF at the ends of their lines."""

OVERVIEW = ("Subject:", "From:", "Date:", "Message-ID:", "References:", ":bytes", ":lines")


def article(number: int, group: str, *, subject: str = "", text: str = "Some words.") -> bytes:
    """A message."""
    lines = [
        f"From: Ann <ann{number}@example.org>",
        f"Newsgroups: {group}",
        f"Subject: {subject or f'Article {number}'}",
        "Date: Tue, 03 Feb 2009 10:00:00 +0000",
        f"Message-ID: <{number}.{group}@example.org>",
        "",
        *text.split("\n"),
        "",
    ]
    return "\r\n".join(lines).encode()


@dataclass
class NewsServer:
    """What it has, and what it was asked."""

    groups: Groups
    login: tuple[str, str] | None = None
    context: ssl.SSLContext | None = None
    is_secure: bool = False
    """Whether connections begin with TLS."""
    old: bool = False
    """Whether it knows XOVER only."""
    port: int = 0
    asked: list[str] = field(default_factory=list)
    at_once: int = 0
    most_at_once: int = 0
    hangs_up_after: int | None = None
    """How many commands it answers on a connection."""
    holds: str = ""
    """A command that it answers only when it is let."""
    held: trio.Event = field(default_factory=trio.Event)
    let: trio.Event = field(default_factory=trio.Event)

    async def handle(self, stream: trio.abc.Stream) -> None:
        """Serve one connection."""
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            if self.is_secure:
                assert self.context is not None
                stream = trio.SSLStream(stream, self.context, server_side=True)
            await _Session(self, stream).run()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        finally:
            self.at_once -= 1
            await trio.aclose_forcefully(stream)


class _Session:
    """One client."""

    def __init__(self, server: NewsServer, stream: trio.abc.Stream) -> None:
        self.server, self.stream = server, stream
        self.received = bytearray()
        self.user, self.is_known = "", server.login is None
        self.group = ""

    async def run(self) -> None:
        """Greet, and answer until the client has gone."""
        await self._say("200 ready, posting prohibited")
        count = 0
        while (line := await self._line()) is not None:
            self.server.asked.append(line)
            count += 1
            word, _, rest = line.partition(" ")
            if word.upper() == "QUIT":
                await self._say("205 bye")
                return
            if line == self.server.holds:
                self.server.held.set()
                await self.server.let.wait()
            await self._answer(word.upper(), rest)
            if count == self.server.hangs_up_after:
                return

    async def _line(self) -> str | None:
        while b"\r\n" not in self.received:
            data = await self.stream.receive_some(4096)
            if not data:
                return None
            self.received += data
        line, _, rest = bytes(self.received).partition(b"\r\n")
        self.received = bytearray(rest)
        return line.decode()

    async def _say(self, *lines: str) -> None:
        await self.stream.send_all("".join(f"{line}\r\n" for line in lines).encode())

    async def _list(self, first: str, body: bytes) -> None:
        """A reply with lines, those with a dot in front doubled."""
        stuffed = b"".join(
            (b"." if line.startswith(b".") else b"") + line for line in body.splitlines(keepends=True)
        )
        await self.stream.send_all(first.encode() + b"\r\n" + stuffed + b".\r\n")

    async def _answer(self, word: str, rest: str) -> None:
        server = self.server
        if word == "CAPABILITIES":
            await self._list("101 I can", b"VERSION 2\r\nREADER\r\nOVER\r\nLIST ACTIVE\r\nSTARTTLS\r\n")
        elif word == "MODE":
            await self._say("201 posting prohibited")
        elif word == "STARTTLS" and server.context is not None:
            await self._say("382 go on")
            self.stream = trio.SSLStream(self.stream, server.context, server_side=True)
        elif word == "AUTHINFO":
            await self._authenticate(*rest.split(" ", 1))
        elif not self.is_known:
            await self._say("480 who are you?")
        elif word == "LIST" and rest.upper() == "OVERVIEW.FMT":
            await self._list("215 order", "".join(f"{name}\r\n" for name in OVERVIEW).encode())
        elif word == "LIST":
            lines = [
                f"{name} {max(found, default=0)} {min(found, default=1)} n\r\n" for name, found in self._all()
            ]
            await self._list("215 groups", "".join(lines).encode())
        elif word == "GROUP":
            await self._select(rest)
        elif word == "XOVER" or (word == "OVER" and not server.old):
            await self._overview(rest)
        elif word in ("STAT", "ARTICLE"):
            await self._article(word, rest)
        else:
            await self._say("500 what?")

    def _all(self) -> list[tuple[str, dict[int, bytes]]]:
        return sorted(self.server.groups.items())

    async def _authenticate(self, what: str, value: str) -> None:
        if what.upper() == "USER":
            self.user = value
            await self._say("381 and the password?")
            return
        self.is_known = (self.user, value) == self.server.login
        await self._say("281 welcome" if self.is_known else "481 no")

    async def _select(self, name: str) -> None:
        found = self.server.groups.get(name)
        if found is None:
            await self._say("411 no such group")
            return
        self.group = name
        await self._say(f"211 {len(found)} {min(found, default=1)} {max(found, default=0)} {name}")

    async def _overview(self, asked: str) -> None:
        first, _, last = asked.partition("-")
        found = [
            number for number in sorted(self.server.groups[self.group]) if int(first) <= number <= int(last)
        ]
        if not found:
            await self._say("423 no articles there")
            return
        lines = [self._line_of(number) for number in found]
        await self._list("224 overview", "".join(lines).encode())

    def _line_of(self, number: int) -> str:
        message = self.server.groups[self.group][number].decode()
        head = dict(line.split(": ", 1) for line in message.partition("\r\n\r\n")[0].split("\r\n"))
        kept = "\t".join(head[name] for name in ("Subject", "From", "Date", "Message-ID"))
        return f"{number}\t{kept}\t\t{len(message)}\t1\r\n"

    async def _article(self, word: str, number: str) -> None:
        found = self.server.groups.get(self.group, {}).get(int(number))
        if found is None:
            await self._say("423 no such number")
            return
        identity = found.partition(b"Message-ID: ")[2].partition(b"\r\n")[0].decode()
        if word == "STAT":
            await self._say(f"223 {number} {identity}")
        else:
            await self._list(f"220 {number} {identity}", found)


@asynccontextmanager
async def serve(server: NewsServer) -> AsyncIterator[NewsServer]:
    """Serve on loopback, until the block ends."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    server.port = listener.socket.getsockname()[1]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, server.handle, [listener])
        yield server
        nursery.cancel_scope.cancel()
