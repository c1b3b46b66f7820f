"""The synthetic web over real HTTP/1.1 on loopback: a listener per address, a hosts file, and a log.

    python -m gcs.simulate.webserver --seed 7 --hosts 100 --pages 2000 --port 8080 --into DIR

writes DIR/hosts (for the setting `fetch.hosts`) and DIR/access.log, then prints one line of JSON with where
everything is, and serves until it is told to end. Every request is logged when it has been answered, see
`gcs.simulate.verdict`. All hosts listen at the same port, since each address is a host's own.
"""

from __future__ import annotations

import argparse
import errno
import json
import math
import resource
import signal
import socket
import ssl
import struct
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from pathlib import Path
from typing import TextIO
from zlib import crc32

import trio
from trio.abc import Stream

from gcs.simulate.verdict import CUT_OFF, Request
from gcs.simulate.web import Answer, Web
from gcs.simulate.webhosts import Framing, Host

_MAX_HEAD_BYTES = 32 << 10
_RECEIVE_BYTES = 16 << 10
_CHUNK_BYTES = 8 << 10
_FLUSH_EVERY_S = 0.1
_BIND_ATTEMPTS = 50
_BACKLOG = 512
# What is received comes with when it arrived, however late it is read: `SO_TIMESTAMPNS` of Linux, socket(7).
_STAMPED = 35
_STAMP = struct.Struct("@qq")
_PHRASES = {status.value: status.phrase.encode() for status in HTTPStatus}


@dataclass(eq=False)
class Served:
    """A web that is being served: the web with its port, and where its hosts file and log are."""

    web: Web
    hosts: Path
    log: Path
    stream: TextIO
    latency_s: float = 0.0
    """What every answer takes, besides what its host takes."""
    dirty: bool = False
    requests: int = 0
    connections: int = 0
    asked: Counter[tuple[str, str]] = field(default_factory=Counter)
    has_etags: bool = False
    """Whether pages have validators, and are not sent to those who have them."""
    edits: dict[tuple[str, str], bytes | None] = field(default_factory=dict)
    """By host and target: what is written at the end of a page; None if it is gone."""

    def edited(self, answer: Answer, host: str, target: str) -> Answer:
        """An answer as it is by now."""
        if (host, target) not in self.edits or answer.status != 200:
            return answer
        more = self.edits[host, target]
        return Answer(410, (), b"") if more is None else replace(answer, body=answer.body + more)

    def validated(self, answer: Answer, matches: str) -> Answer:
        """An answer with its validator, or without its body for one who has it."""
        if not self.has_etags or answer.status != 200:
            return answer
        etag = f'"{crc32(answer.body):08x}"'
        if matches == etag:
            return Answer(304, (("ETag", etag),), b"", answer.delay_s)
        return replace(answer, headers=(*answer.headers, ("ETag", etag)))

    def note(self, request: Request) -> None:
        """Log a request."""
        self.requests += 1
        self.stream.write(request.line())
        self.dirty = True

    def flush(self) -> None:
        """Make the log complete up to now; it happens by itself several times a second."""
        if self.dirty:
            self.dirty = False
            self.stream.flush()


@asynccontextmanager
async def serve(
    web: Web,
    into: Path,
    *,
    port: int = 0,
    tls: ssl.SSLContext | None = None,
    latency_s: float = 0.0,
    etags: bool = False,
) -> AsyncIterator[Served]:
    """Serve a web until the block is left; port 0 takes one that is free at all addresses."""
    if tls is None and any(host.scheme == "https" for host in web.hosts):
        raise ValueError("some hosts of this web are https, so a certificate is needed")
    listeners = await _listeners(web, port)
    try:
        web = web.at(listeners[0][1].socket.getsockname()[1])
        hosts, log = into / "hosts", into / "access.log"
        hosts.write_text(web.hosts_file())
        with log.open("a", encoding="latin-1") as stream:
            served = Served(web, hosts, log, stream, latency_s, has_etags=etags)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_flush_often, served)
                for is_tls, listener in listeners:
                    nursery.start_soon(_accept, served, listener, tls if is_tls else None)
                yield served
                nursery.cancel_scope.cancel()
            served.flush()
    finally:
        for _, listener in listeners:
            listener.socket.close()


async def _listeners(web: Web, port: int) -> list[tuple[bool, trio.SocketListener]]:
    """A listener for each address, with whether it is for TLS, all at the same port."""
    addresses = {host.address: host.scheme == "https" for host in web.hosts}
    attempts = 1 if port else _BIND_ATTEMPTS
    while True:
        made: list[tuple[bool, trio.SocketListener]] = []
        try:
            for address, is_tls in addresses.items():
                at = made[0][1].socket.getsockname()[1] if made else port
                listener = (await trio.open_tcp_listeners(at, host=address, backlog=_BACKLOG))[0]
                listener.socket.setsockopt(socket.SOL_SOCKET, _STAMPED, 1)  # accepted ones inherit it
                made.append((is_tls, listener))
            return made
        except OSError as error:
            for _, listener in made:
                listener.socket.close()
            # A port that was free at the first address may be in use at another.
            attempts -= 1
            if error.errno != errno.EADDRINUSE or not attempts:
                raise


async def _flush_often(served: Served) -> None:
    while True:
        await trio.sleep(_FLUSH_EVERY_S)
        served.flush()


async def _accept(served: Served, listener: trio.SocketListener, tls: ssl.SSLContext | None) -> None:
    async with trio.open_nursery() as nursery:
        while True:
            try:
                stream: Stream = await listener.accept()
            except OSError:  # the client had gone again, or there are too many open files
                await trio.sleep(_FLUSH_EVERY_S)
                continue
            if tls is not None:
                stream = trio.SSLStream(stream, tls, server_side=True, https_compatible=True)
            nursery.start_soon(_converse, served, stream)


async def _converse(served: Served, stream: Stream) -> None:
    """Answer the requests of one connection."""
    served.connections += 1
    try:
        buffer, count, arrived = b"", 0, 0.0
        while True:
            end = buffer.find(b"\r\n\r\n")
            while end < 0:
                received, arrived = await _receive(stream)
                if not received or len(buffer) > _MAX_HEAD_BYTES:
                    return
                buffer += received
                end = buffer.find(b"\r\n\r\n")
            head, buffer = buffer[:end], buffer[end + 4 :]
            count += 1
            if not await _answer(served, stream, _Head.read(head), count, arrived):
                return
    except (OSError, trio.BrokenResourceError, trio.ClosedResourceError):
        return
    finally:
        await trio.aclose_forcefully(stream)


async def _receive(stream: Stream) -> tuple[bytes, float]:
    """Some bytes, and the Unix time at which the last of them arrived; over TLS, at which they were read."""
    if not isinstance(stream, trio.SocketStream):
        return bytes(await stream.receive_some(_RECEIVE_BYTES)), time.time()
    received, notes, _, _ = await stream.socket.recvmsg(_RECEIVE_BYTES, socket.CMSG_SPACE(_STAMP.size))
    for level, kind, note in notes:
        if (level, kind) == (socket.SOL_SOCKET, _STAMPED):
            seconds, nanoseconds = _STAMP.unpack(note)
            return received, seconds + nanoseconds / 1e9
    return received, time.time()


@dataclass(slots=True)
class _Head:
    """The parts of a request that matter here."""

    method: str
    target: str
    host: str
    accept_encoding: str
    agent: str
    matches: str
    keep_alive: bool

    @classmethod
    def read(cls, head: bytes) -> _Head:
        first, _, rest = head.decode("latin-1").partition("\r\n")
        method, _, target = first.partition(" ")
        target, _, version = target.rpartition(" ")
        fields = {}
        for line in rest.split("\r\n"):
            name, _, value = line.partition(":")
            fields[name.lower()] = value.strip()
        host = fields.get("host", "").partition(":")[0].lower()
        connection = fields.get("connection", "").lower()
        keep_alive = connection != "close" and (version != "HTTP/1.0" or connection == "keep-alive")
        return cls(
            method,
            target or "/",
            host or "-",
            fields.get("accept-encoding", ""),
            fields.get("user-agent", "-"),
            fields.get("if-none-match", ""),
            keep_alive,
        )


async def _answer(served: Served, stream: Stream, head: _Head, count: int, start: float) -> bool:
    """Answer one request; whether the connection may be used again."""
    web, is_get = served.web, head.method == "GET"
    host = web.by_name.get(head.host)
    if not is_get and head.method != "HEAD":
        answer = Answer(405, (("Allow", "GET, HEAD"),), b"")
    else:
        answer = web.respond(
            head.host,
            head.target,
            accept_encoding=head.accept_encoding,
            asked=_asked(served, host, head.target),
            now=math.ceil(start),
        )
        answer = served.validated(served.edited(answer, head.host, head.target), head.matches)
    if answer.delay_s or served.latency_s:
        await trio.sleep(answer.delay_s + served.latency_s)
    most = host.requests_per_connection if host else None
    framing = host.framing if host else Framing.LENGTH
    keep = head.keep_alive and framing is not Framing.CLOSE and (most is None or count < most)
    wire = _wire(answer, framing, keep=keep, with_body=is_get)
    taken_s = max(0.0, time.time() - start)
    status = CUT_OFF
    try:
        await stream.send_all(wire)
        status = answer.status
    finally:
        target = head.target.replace(" ", "%20")
        size = len(answer.body) if is_get and status != CUT_OFF else 0
        served.note(Request(start, taken_s, head.host, target, status, size, head.agent))
    return keep


def _asked(served: Served, host: Host | None, target: str) -> int:
    """How often a URL was asked for before, kept for the few whose answer depends on it."""
    if host is None or not host.busy or not target.startswith("/busy/"):
        return 0
    served.asked[host.name, target] += 1
    return served.asked[host.name, target] - 1


def _wire(answer: Answer, framing: Framing, *, keep: bool, with_body: bool) -> bytes:
    body = answer.body if with_body else b""
    lines = [b"HTTP/1.1 %d %b" % (answer.status, _PHRASES[answer.status])]
    lines += [f"{name}: {value}".encode("latin-1") for name, value in answer.headers]
    if framing is Framing.CHUNKED and answer.status != 304:
        lines.append(b"Transfer-Encoding: chunked")
        body = _chunked(body) if with_body else b""
    elif framing is Framing.LENGTH and answer.status != 304:
        lines.append(b"Content-Length: %d" % len(answer.body))
    if not keep:
        lines.append(b"Connection: close")
    lines += [b"", body]
    return b"\r\n".join(lines)


def _chunked(body: bytes) -> bytes:
    pieces = [body[start : start + _CHUNK_BYTES] for start in range(0, len(body), _CHUNK_BYTES)]
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in [*pieces, b""])


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m gcs.simulate.webserver", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--hosts", type=int, default=100)
    parser.add_argument("--pages", type=int, default=2000)
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--into", type=Path, help="where the hosts file and the log go")
    parser.add_argument("--plain", action="store_true", help="no traps, delays or other peculiarities")
    parser.add_argument("--abroad", action="store_true", help="hosts in the domains of many countries")
    parser.add_argument("--slowness", type=float, default=1.0, help="scales all delays")
    parser.add_argument("--latency", type=float, default=0.0, help="what every answer takes, in milliseconds")
    parser.add_argument("--https", type=float, default=0.0, help="the share of hosts that are https")
    parser.add_argument("--gzip", type=float, default=0.5, help="the share of hosts that compress")
    parser.add_argument("--etags", action="store_true", help="pages have validators")
    parser.add_argument("--hosts-per-address", type=int, default=1)
    parser.add_argument("--cert", type=Path, help="the certificate for https, with its chain")
    parser.add_argument("--key", type=Path, help="the key of the certificate")
    return parser.parse_args(argv)


def _allow_many_files() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


async def _run(arguments: argparse.Namespace, web: Web, into: Path) -> None:
    tls = None
    if arguments.cert:
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(arguments.cert, arguments.key)
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        latency_s = arguments.latency / 1000
        async with serve(
            web, into, port=arguments.port, tls=tls, latency_s=latency_s, etags=arguments.etags
        ) as served:
            said = {
                "seeds": served.web.seeds,
                "port": served.web.port,
                "hosts": str(served.hosts),
                "log": str(served.log),
            }
            print(json.dumps(said), flush=True)  # noqa: T201 - who started this waits for the line
            async for _ in signals:
                break


def main(argv: Sequence[str] | None = None) -> None:
    """Serve a web until SIGTERM or SIGINT."""
    arguments = _arguments(argv)
    _allow_many_files()
    web = Web(
        arguments.seed,
        arguments.hosts,
        arguments.pages,
        https=arguments.https,
        gzip=arguments.gzip,
        hosts_per_address=arguments.hosts_per_address,
        plain=arguments.plain,
        slowness=arguments.slowness,
        abroad=arguments.abroad,
    )
    if arguments.into:
        arguments.into.mkdir(parents=True, exist_ok=True)
        trio.run(_run, arguments, web, arguments.into)
        return
    with tempfile.TemporaryDirectory(prefix="gcs-web-") as into:
        trio.run(_run, arguments, web, Path(into))


if __name__ == "__main__":
    main()
