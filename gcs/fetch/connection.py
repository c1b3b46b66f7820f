"""One connection to a server or proxy: making it, and one request after another on it.

A Connection owns its socket. Its state is decided by the task that uses it; the watch of the transport may
only `abort` it, which wakes that task. Whatever happens to the task, cancellation included, it leaves the
connection either `reusable`, which is set as the very last thing, or to be closed by the caller. Closing
never waits.
"""

from __future__ import annotations

import errno
import os
import socket
import ssl
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import trio
from trio.lowlevel import notify_closing, wait_readable, wait_writable

from gcs.fetch import decoding
from gcs.fetch.addresses import family_of
from gcs.fetch.answer import Answer
from gcs.fetch.outcome import Failure, Outcome, Reason, Response

BUFFER_BYTES: Final = 256 << 10


class TlsFailed(Exception):
    """A secure connection could not be agreed upon; the message is a sentence that says why."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one exchange may take: a deadline by `time.monotonic`, and the sizes; and whom to tell of it."""

    deadline: float
    max_body_bytes: int
    max_ratio: int
    on_sent: Callable[[float], None] | None = None
    """Told the Unix time at which the request was sent."""


@dataclass(slots=True)
class Buffers:
    """Where connections receive: shared by all, since between receiving and taking in nobody waits."""

    plain: bytearray
    cipher: bytearray

    @classmethod
    def make(cls) -> Buffers:
        """Buffers for one transport."""
        return cls(bytearray(BUFFER_BYTES), bytearray(BUFFER_BYTES))


class Connection:
    """An open connection. `exchange` asks one thing at a time; `reusable` says whether it may ask another."""

    __slots__ = (
        "_answer",
        "_buffers",
        "_incoming",
        "_outgoing",
        "_samples",
        "_sock",
        "_tls",
        "address",
        "bytes_in",
        "bytes_out",
        "connect_s",
        "deadline",
        "first_byte",
        "home",
        "idle_since",
        "late",
        "reusable",
        "uses",
    )

    def __init__(
        self,
        sock: socket.socket,
        address: str,
        *,
        buffers: Buffers,
        max_header_bytes: int,
        connect_s: float = 0.0,
    ) -> None:
        """Take over a connected, non-blocking socket."""
        self._sock = sock
        self._buffers = buffers
        self._answer = Answer(max_header_bytes)
        self._tls: ssl.SSLObject | None = None
        self._incoming: ssl.MemoryBIO | None = None
        self._outgoing: ssl.MemoryBIO | None = None
        self._samples: deque[tuple[float, int]] = deque()
        self.address = address
        self.bytes_in = self.bytes_out = self.uses = 0
        self.connect_s = connect_s
        self.deadline = self.first_byte = self.idle_since = 0.0
        self.home: object = None
        """Whose connection this is, for the pool."""
        self.late: Reason | None = None
        self.reusable = False

    @property
    def received(self) -> int:
        """How many bytes of the present answer have come."""
        return self._answer.received

    def is_stale(self, outcome: Outcome) -> bool:
        """Whether the server seems to have closed before it saw the request, so that it can be sent again."""
        return isinstance(outcome, Failure) and not self.late and self.received == 0

    @property
    def session(self) -> ssl.SSLSession | None:
        """What the next connection to the same origin can resume, once an answer has come."""
        session = self._tls.session if self._tls is not None else None
        return session if session is not None and (session.has_ticket or session.id) else None

    @property
    def resumed(self) -> bool:
        """Whether the secure connection was agreed upon by resuming an earlier one."""
        return self._tls is not None and bool(self._tls.session_reused)

    def close(self) -> None:
        """Close at once."""
        self.reusable = False
        self._sock.close()

    def abort(self, reason: Reason) -> None:
        """Wake the task that waits on this connection; it will find the reason."""
        self.late = reason
        notify_closing(self._sock)

    def is_slow(self, now: float, min_rate_bytes: int, window_s: float) -> bool:
        """Whether less than the rate came over a whole window; called in regular intervals.

        It counts from the first byte on: how long a server may think is the total time's concern.
        """
        if not self.first_byte:
            return False
        samples, received = self._samples, self._answer.received
        samples.append((now, received))
        while len(samples) > 1 and samples[1][0] <= now - window_s:
            samples.popleft()
        since, before = samples[0]
        return since <= now - window_s and received - before < min_rate_bytes * (now - since)

    def is_quiet(self) -> bool:
        """Whether nothing came while nothing was asked: no end, and no bytes that nobody asked for."""
        try:
            if self._tls is None:
                self._sock.recv(1, socket.MSG_PEEK)
            else:
                # Tickets for later sessions may come at any time; they are no answer.
                with suppress(ssl.SSLWantReadError):
                    self._tls.read(1)
                    return False
                self._take_cipher(self._sock.recv_into(self._buffers.cipher))
                self._tls.read(1)
        except (BlockingIOError, ssl.SSLWantReadError):
            return True
        except OSError:
            pass
        return False

    async def exchange(self, request: bytes, limits: Limits, *, bodiless: bool = False) -> Outcome:
        """Send a request and take in the answer; `abort` makes it end early."""
        answer = self._answer
        answer.begin(limits.max_body_bytes, bodiless=bodiless)
        self.reusable = False
        self.late = None
        self.first_byte = 0.0
        self.deadline = limits.deadline
        if self._samples:
            self._samples.clear()
        self.uses += 1
        started, begun = time.time(), time.monotonic()
        try:
            await self._send(request)
            if limits.on_sent is not None:
                # Not when sending began: whatever held it up must not bring the next one nearer.
                limits.on_sent(time.time())
            await self._take_in(answer)
        except trio.ClosedResourceError:
            self._cut_short(answer)
        except OSError as error:
            self._broken(answer, error)
        self.bytes_in += answer.received
        self.bytes_out += len(request)
        outcome = self._outcome(request, started, begun, limits)
        reusable = answer.keep_alive and self.late is None
        answer.forget()
        self.reusable = reusable
        return outcome

    async def _take_in(self, answer: Answer) -> None:
        buffer = self._buffers.plain
        receive = self._receive if self._tls is None else self._receive_tls
        size = await receive()
        self.first_byte = time.monotonic()
        while size:
            if answer.feed(buffer, size):
                return
            size = await receive()
        answer.end()

    def _cut_short(self, answer: Answer) -> None:
        """The watch has aborted the exchange: what has come of the body is kept, if only the time ran out."""
        if self.late is Reason.TIMEOUT and answer.status and answer.body:
            answer.truncated = "time"
        elif self.late is Reason.SLOW:
            answer.reason, answer.detail = Reason.SLOW, "The answer came too slowly."
        else:
            answer.reason, answer.detail = Reason.TIMEOUT, "The answer took too long."

    def _broken(self, answer: Answer, error: OSError) -> None:
        answer.end(clean=False)
        if answer.reason is Reason.DISCONNECTED:
            answer.detail = f"The connection broke before the answer was complete: {_what(error)}."

    def _outcome(self, request: bytes, started: float, begun: float, limits: Limits) -> Outcome:
        answer, now = self._answer, time.monotonic()
        connect_s = self.connect_s if self.uses == 1 else 0.0
        total_s = connect_s + now - begun
        if answer.reason is not None:
            return Failure(answer.reason, answer.detail, self.address, started, total_s)
        headers = answer.headers
        raw = body = answer.body
        truncated = answer.truncated
        if raw and ("content-encoding" in headers or "transfer-encoding" in headers):
            decoded = _decoded(raw, headers, limits)
            if isinstance(decoded, decoding.Decoded):
                body, truncated = decoded.body, truncated or decoded.truncated
            elif truncated and decoded.reason is Reason.CODING:
                # So little came that nothing can be made of it, which is not the coding's fault.
                body = b""
            else:
                return Failure(decoded.reason, decoded.detail, self.address, started, total_s)
        return Response(
            answer.status,
            answer.head,
            headers,
            body,
            raw,
            truncated,
            request,
            self.address,
            started,
            connect_s,
            self.first_byte - begun,
            total_s,
            self.uses > 1,
        )

    async def _send(self, data: bytes) -> None:
        if self._tls is not None and self._outgoing is not None:
            self._tls.write(data)
            data = self._outgoing.read()
        await self._send_raw(data)

    async def _send_raw(self, data: bytes) -> None:
        """Send all; usually the socket takes it at once, and nobody waits."""
        sent = 0
        while True:
            with suppress(BlockingIOError):
                sent += self._sock.send(data[sent:] if sent else data)
            if sent >= len(data):
                return
            await wait_writable(self._sock)

    async def _receive(self) -> int:
        return await self._receive_raw(self._buffers.plain)

    async def _receive_raw(self, buffer: bytearray) -> int:
        """Wait first: what was just asked is hardly ever there already, and others get their turn."""
        while True:
            await wait_readable(self._sock)
            try:
                return self._sock.recv_into(buffer)
            except BlockingIOError:
                continue

    async def _receive_tls(self) -> int:
        assert self._tls is not None
        while True:
            try:
                # With a buffer it returns how much it read; typeshed knows only the other form.
                return self._tls.read(BUFFER_BYTES, self._buffers.plain)  # type: ignore[return-value]
            except ssl.SSLWantReadError:
                await self._exchange_cipher()

    async def _exchange_cipher(self) -> None:
        """Send what TLS has to say and take in what comes."""
        assert self._outgoing is not None
        if self._outgoing.pending:
            await self._send_raw(self._outgoing.read())
        self._take_cipher(await self._receive_raw(self._buffers.cipher))

    def _take_cipher(self, size: int) -> None:
        assert self._incoming is not None
        if size:
            self._incoming.write(memoryview(self._buffers.cipher)[:size])
        else:
            self._incoming.write_eof()

    async def secure(self, context: ssl.SSLContext, host: str, session: ssl.SSLSession | None) -> None:
        """Agree upon TLS with a host whose certificate must be valid; raises TlsFailed."""
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        try:
            tls = context.wrap_bio(incoming, outgoing, server_hostname=host.rstrip("."), session=session)
        except ValueError as error:
            raise TlsFailed(f"{host} is not a name that a certificate can have: {error}.") from None
        self._incoming, self._outgoing = incoming, outgoing
        try:
            while True:
                try:
                    tls.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    await self._exchange_cipher()
            if outgoing.pending:
                await self._send_raw(outgoing.read())
        except ssl.SSLCertVerificationError as error:
            raise TlsFailed(f"The certificate is not accepted: {error.verify_message}.") from None
        except OSError as error:
            raise TlsFailed(f"TLS could not be agreed upon: {_what(error)}.") from None
        self._tls = tls

    async def tunnel(self, request: bytes) -> Failure | None:
        """Ask a proxy for a tunnel; None if there is one now."""
        answer = self._answer
        answer.begin(0, bodiless=True)
        try:
            await self._send_raw(request)
            await self._take_in(answer)
        except OSError as error:
            self._broken(answer, error)
        if answer.reason is not None:
            return Failure(Reason.PROXY, f"The proxy gave no tunnel. {answer.detail}", self.address)
        if answer.status >= 300 or not answer.alone:
            line = answer.head.partition(b"\r\n")[0].decode("latin-1")
            return Failure(Reason.PROXY, f"The proxy gave no tunnel: {line[:200]}.", self.address)
        return None


async def open_socket(address: str, port: int) -> socket.socket:
    """A socket that is connected to this very address; raises OSError. Cancelling it leaves nothing open."""
    sock = socket.socket(family_of(address), socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        code = sock.connect_ex((address, port))
        if code == errno.EINPROGRESS:
            await wait_writable(sock)
            code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise OSError(code, os.strerror(code))
    except BaseException:
        sock.close()
        raise
    return sock


def _decoded(raw: bytes, headers: dict[str, str], limits: Limits) -> decoding.Decoded | decoding.Undecodable:
    applied = decoding.codings(headers)
    if not applied:
        return decoding.Decoded(raw, "")
    return decoding.decode(raw, applied, max_bytes=limits.max_body_bytes, max_ratio=limits.max_ratio)


def _what(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return (error.reason or str(error)).replace("_", " ").lower()
    return error.strerror or str(error)
