"""A server that says what a test tells it to, byte for byte, on loopback."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import ip_network
from typing import Any

import trio

from gcs import config
from gcs.fetch.outcome import Origin
from gcs.fetch.transport import Transport

LOOPBACK = (ip_network("127.0.0.0/8"), ip_network("::1/128"))


def settings(**changed: Any) -> config.Fetch:
    """Settings that let loopback through."""
    return config.Fetch(**{"allow": LOOPBACK, **changed})


@dataclass
class Peer:
    """The server's end of one connection."""

    stream: trio.abc.Stream
    tcp: trio.SocketStream
    server: Server
    number: int
    _received: bytearray = field(default_factory=bytearray)

    async def request(self) -> bytes:
        """The next request up to its empty line; "" once the client has closed."""
        while (end := self._received.find(b"\r\n\r\n")) < 0:
            data = await self.stream.receive_some(65536)
            if not data:
                return b""
            self._received += data
        head = bytes(self._received[: end + 4])
        del self._received[: end + 4]
        self.server.requests.append(head)
        return head

    async def body(self, size: int) -> bytes:
        """The next bytes."""
        while len(self._received) < size:
            self._received += await self.stream.receive_some(65536)
        body = bytes(self._received[:size])
        del self._received[:size]
        return body

    async def send(self, *pieces: bytes) -> None:
        """Send each piece by itself."""
        for piece in pieces:
            await self.stream.send_all(piece)

    def reset(self) -> None:
        """Close with a reset, not an end."""
        self.tcp.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.tcp.socket.close()


Script = Callable[[Peer], Awaitable[None]]


@dataclass
class Server:
    """Where the server is, and what it was asked."""

    origin: Origin
    requests: list[bytes] = field(default_factory=list)
    connections: int = 0

    @property
    def port(self) -> int:
        """The port it listens on."""
        return self.origin.port


def replies(*answers: bytes, close: bool = False) -> Script:
    """Answer each request of a connection with the next of the answers, the last one again and again."""

    async def script(peer: Peer) -> None:
        at = 0
        while await peer.request():
            await peer.send(answers[min(at, len(answers) - 1)])
            at += 1
            if close:
                return

    return script


def ok(body: bytes = b"hello", *lines: bytes) -> bytes:
    """A plain answer with its length."""
    head = b"".join(line + b"\r\n" for line in lines)
    return b"HTTP/1.1 200 OK\r\n%bContent-Length: %d\r\n\r\n%b" % (head, len(body), body)


@asynccontextmanager
async def serve(
    script: Script, *, tls: ssl.SSLContext | None = None, address: str = "127.0.0.1", host: str | None = None
) -> AsyncIterator[Server]:
    """Run the script for every connection, until the test is done."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = trio.socket.socket(family)
    await listener.bind((address, 0))
    listener.listen(128)
    port = listener.getsockname()[1]
    server = Server(Origin("https" if tls else "http", host or address, port))

    async def handle(tcp: trio.SocketStream) -> None:
        number = server.connections
        server.connections += 1
        stream: trio.abc.Stream = trio.SSLStream(tcp, tls, server_side=True) if tls else tcp
        # What a client does to a server is the client's affair here.
        with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError, ssl.SSLError, OSError):
            async with tcp:
                await script(Peer(stream, tcp, server, number))
                if tls:
                    await stream.aclose()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, handle, [trio.SocketListener(listener)])
        yield server
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def asked(
    script: Script, *, tls: ssl.SSLContext | None = None, **changed: Any
) -> AsyncIterator[tuple[Server, Transport]]:
    """A server, and a transport that may ask it."""
    async with serve(script) as server, Transport(settings(**changed), tls=tls) as transport:
        yield server, transport
