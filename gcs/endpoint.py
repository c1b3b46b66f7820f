"""The endpoint for monitoring: a small HTTP server that says what is measured, and whether all is well.

    GET /metrics    what is measured, for Prometheus
    GET /healthz    200 while it is well, else 503, with a sentence

It answers one request on each connection and closes it. How long a request may be and take, and how many are
answered at once, is bounded: nobody who reaches the endpoint can hold up the crawl.
"""

from __future__ import annotations

import errno
import os
import re
import socket
import stat
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from pathlib import Path
from typing import Final

import structlog
import trio

from gcs.errors import ConfigError
from gcs.metrics import MEDIA_TYPE, exposition
from gcs.process import METERS, Process

MAX_REQUEST_BYTES: Final = 8 << 10
WITHIN_S: Final = 5.0
AT_ONCE: Final = 8
_UNIX: Final = "unix:"
_PLAIN: Final = "text/plain; charset=utf-8"
_END: Final = b"\r\n\r\n"
_REQUEST: Final = re.compile(rb"([A-Z]+) ([!-~]+) HTTP/1\.[01]\r\n")
_Answer = tuple[HTTPStatus, str, str]
Measures = Callable[[], Awaitable[str]]


def numbered(listen: str, number: int) -> str:
    """Where the endpoint of one of several processes is, numbered from 0: ports, or paths, that follow."""
    if not listen or not number:
        return listen
    if listen.startswith(_UNIX):
        return f"{listen}.{number}"
    host, _, port = listen.rpartition(":")
    return f"{host}:{int(port) + number if int(port) else 0}"


class Endpoint:
    """Sockets that wait for whoever asks; none if no endpoint is wanted."""

    def __init__(self, listeners: list[trio.SocketListener]) -> None:
        self._listeners = listeners
        self._answering = 0

    async def serve(self, process: Process, measures: Measures) -> None:
        """Answer until cancelled; `measures` says what else this process measures."""
        if not self._listeners:
            return

        async def answer(stream: trio.SocketStream) -> None:
            await self._answer(stream, process, measures)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(process.watch_loop)
            nursery.start_soon(trio.serve_listeners, answer, self._listeners)

    async def _answer(self, stream: trio.SocketStream, process: Process, measures: Measures) -> None:
        if self._answering >= AT_ONCE:
            await stream.aclose()
            return
        self._answering += 1
        try:
            with suppress(trio.BrokenResourceError), trio.move_on_after(WITHIN_S):
                request = await _read(stream)
                if request:
                    await stream.send_all(await _answered(request, process, measures))
            await stream.aclose()
        finally:
            self._answering -= 1


async def _read(stream: trio.SocketStream) -> bytes:
    """The head of a request, as much of it as may be; b"" if nobody asks anything."""
    head = b""
    while _END not in head and len(head) <= MAX_REQUEST_BYTES:
        more = await stream.receive_some(MAX_REQUEST_BYTES)
        if not more:
            break
        head += more
    return head


async def _answered(head: bytes, process: Process, measures: Measures) -> bytes:
    request = _REQUEST.match(head)
    method, path = (request[1], request[2].partition(b"?")[0]) if request else (b"", b"")
    if len(head) > MAX_REQUEST_BYTES:
        answer = _refusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
    elif _END not in head or not request:
        answer = _refusal(HTTPStatus.BAD_REQUEST)
    elif method not in (b"GET", b"HEAD"):
        answer = _refusal(HTTPStatus.NOT_FOUND)
    else:
        answer = await _page(path, process, measures)
    status, media_type, text = answer
    body = text.encode()
    lines = (
        f"HTTP/1.1 {status.value} {status.phrase}",
        f"Content-Type: {media_type}",
        f"Content-Length: {len(body)}",
        "Connection: close",
    )
    return "\r\n".join(lines).encode() + _END + (b"" if method == b"HEAD" else body)


async def _page(path: bytes, process: Process, measures: Measures) -> _Answer:
    if path == b"/metrics":
        return HTTPStatus.OK, MEDIA_TYPE, exposition(METERS, process) + await measures()
    if path == b"/healthz":
        trouble = process.trouble()
        status = HTTPStatus.SERVICE_UNAVAILABLE if trouble else HTTPStatus.OK
        return status, _PLAIN, f"{trouble}.\n" if trouble else "All is well.\n"
    return _refusal(HTTPStatus.NOT_FOUND)


def _refusal(status: HTTPStatus) -> _Answer:
    return status, _PLAIN, f"{status.phrase}. There are /metrics and /healthz.\n"


@asynccontextmanager
async def opened(listen: str) -> AsyncIterator[Endpoint]:
    """The endpoint that `metrics.listen` names; raises ConfigError if it cannot be there."""
    advice = "-s metrics.listen=127.0.0.1:PORT, or none with -s metrics.listen="
    async with listening(listen, "metrics.listen", advice) as listeners:
        for listener in listeners:
            structlog.get_logger().info("metrics", at=shown(listener))
        yield Endpoint(listeners)


@asynccontextmanager
async def listening(listen: str, setting: str, advice: str) -> AsyncIterator[list[trio.SocketListener]]:
    """Sockets at the place that a setting names; raises ConfigError, with advice, if they cannot be there."""
    listeners: list[trio.SocketListener] = []
    try:
        if listen.startswith(_UNIX):
            listeners = [_at_path(Path(listen.removeprefix(_UNIX)))]
        elif listen:
            host, _, port = listen.rpartition(":")
            listeners = await trio.open_tcp_listeners(int(port), host=host.strip("[]"))
    except OSError as error:
        why = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
        raise ConfigError(
            f"{setting}: nothing can listen at {listen}: {why}; choose another place with {advice}."
        ) from error
    try:
        yield listeners
    finally:
        for listener in listeners:
            await listener.aclose()
        if listen.startswith(_UNIX):
            _remove(Path(listen.removeprefix(_UNIX)))


def shown(listener: trio.SocketListener) -> str:
    """Where a socket listens, as a URL if it is one."""
    name = listener.socket.getsockname()
    if isinstance(name, str):
        return f"{_UNIX}{name}"
    host, port, *_ = name
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)


def _at_path(path: Path) -> trio.SocketListener:
    """A socket at a path; one that a dead process has left behind is replaced."""
    if path.exists() and stat.S_ISSOCK(path.stat().st_mode):
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(os.fspath(path))
            except ConnectionRefusedError:
                path.unlink()
            else:
                raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
    sock = socket.socket(socket.AF_UNIX)
    try:
        sock.settimeout(0)
        sock.bind(os.fspath(path))
        sock.listen(AT_ONCE)
        return trio.SocketListener(trio.socket.from_stdlib_socket(sock))
    except BaseException:
        sock.close()
        raise
