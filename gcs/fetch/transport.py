"""The transport: from an origin and a target to an outcome, over connections that are kept and shared.

It owns the connections and three limits: requests under way in all (`fetch.concurrency`) and per origin
(`fetch.per_host`), and open connections, of which idle ones are closed after `fetch.idle_timeout`, or when
there are too many, the longest unused first. Invariants:

- every request under way holds one place of its site and one of all, and gives both back however it ends;
- every open connection is either active (one request on it) or idle (in its home's and the common table);
- a connection leads to an address that the guard was asked about when it was made.

All work per request is O(1) in the number of sites and connections. Time limits cost nothing per request: one
task, the watch, looks over the active connections a few times a second, and aborts those that are late or
slow. Only what comes before the first use of a connection (waiting, DNS, connecting, TLS) has a cancel scope.
"""

from __future__ import annotations

import re
import resource
import ssl
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Final

import trio

import gcs
from gcs import config
from gcs.fetch import decoding
from gcs.fetch.addresses import REFUSED_PORTS
from gcs.fetch.connection import Connection, Limits
from gcs.fetch.connector import Connector
from gcs.fetch.names import Names
from gcs.fetch.outcome import Failure, Origin, Outcome, Reason, Response
from gcs.fetch.throttled import Throttle

SLOW_WINDOW_S: Final = 10.0

_SWEEP_S: Final = 0.25
_IDLE_PER_ACTIVE: Final = 4
_TARGET = re.compile(r"/[!-~]*").fullmatch
_HOST = re.compile(r"[A-Za-z0-9_.-]{1,255}|[0-9A-Fa-f:.]{2,45}").fullmatch
_HEADERS = re.compile(rb"(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t\x20-\x7e\x80-\xff]*\r\n)*").fullmatch
_OURS = re.compile(
    rb"(?:^|\n)(?:host|connection|content-length|transfer-encoding|te|upgrade|expect|proxy-[a-z]+):",
    re.IGNORECASE,
).search


@dataclass(frozen=True, slots=True)
class TransportStatistics:
    """What a transport holds now, and what it has done so far."""

    open: int
    active: int
    idle: int
    sites: int
    made: int
    reused: int
    retried: int
    evicted: int
    resumed: int
    bytes_in: int
    bytes_out: int


class _Site:
    """An origin in use: what is sent to it, its places, and its idle connections, the last used last."""

    __slots__ = ("after", "before", "idle", "origin", "places", "shared")

    def __init__(self, origin: Origin, per_host: int, before: bytes, after: bytes) -> None:
        self.origin = origin
        self.places = trio.Semaphore(per_host, max_value=per_host)
        self.before = before
        self.after = after
        self.idle: dict[Connection, None] = {}
        self.shared: _Site | None = None

    @property
    def home(self) -> _Site:
        """Where its connections are kept: plain ones through a proxy are not bound to an origin."""
        return self.shared or self


class Transport:
    """Asks for pages; an async context manager, outside of which nothing can be asked."""

    def __init__(
        self,
        settings: config.Fetch,
        *,
        names: Names | None = None,
        tls: ssl.SSLContext | None = None,
        slow_window_s: float = SLOW_WINDOW_S,
        throttle: Throttle | None = None,
    ) -> None:
        """`tls` replaces the settings' authorities; raises ConfigError for what cannot be used.

        With a throttle, all connections together send and receive no faster than it lets them.
        """
        self._settings = settings
        self.agent = settings.agent or f"gcs/{gcs.__version__}"
        self._connector = Connector(settings, names=names, tls=tls, throttle=throttle)
        self._is_behind_proxy = self._connector.proxy is not None
        self._slow_window_s = slow_window_s
        self._places = trio.Semaphore(settings.concurrency, max_value=settings.concurrency)
        self._sites: dict[Origin, _Site] = {}
        self._through_proxy = _Site(Origin("http", "", 0), 1, b"", b"")
        self._active: set[Connection] = set()
        self._idle: OrderedDict[Connection, None] = OrderedDict()
        self._max_idle = _most_idle(settings.concurrency)
        self._nurseries = trio.open_nursery()
        self._nursery: trio.Nursery | None = None
        self._wake = trio.Event()
        self._reused = self._retried = self._evicted = self._bytes_in = self._bytes_out = 0
        self._keeps = settings.idle_timeout_s > 0
        self._lines = self._header_lines()

    async def __aenter__(self) -> Transport:
        """Start the watch."""
        self._nursery = await self._nurseries.__aenter__()
        self._nursery.start_soon(self._watch)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        """Stop the watch and close what is open; requests still under way are cut off."""
        nursery, self._nursery = self._nursery, None
        assert nursery is not None
        nursery.cancel_scope.cancel()
        for connection in list(self._idle):
            self._evict(connection)
        for connection in self._active:
            connection.abort(Reason.TIMEOUT)
        # Only a cancellation concerns the nursery; the caller's own errors shall not come out in a group.
        if isinstance(error, trio.Cancelled) or (
            isinstance(error, BaseExceptionGroup) and error.subgroup(trio.Cancelled) is not None
        ):
            return await self._nurseries.__aexit__(kind, error, trace)
        await self._nurseries.__aexit__(None, None, None)
        return None

    async def fetch(
        self,
        origin: Origin,
        target: str,
        *,
        headers: bytes = b"",
        timeout_s: float | None = None,
        max_body_bytes: int | None = None,
        on_sent: Callable[[float], None] | None = None,
    ) -> Outcome:
        """GET a target; `headers` are further header lines, each ending in CRLF.

        `on_sent` is told the Unix time at which the request was sent, each time that it was.
        """
        if _TARGET(target) is None or (headers and not _may_send(headers)):
            return _unfit(target, headers)
        site = self._sites.get(origin) or self._site(origin)
        if isinstance(site, Failure):
            return site
        request = b"".join(
            (b"GET ", site.before, target.encode("ascii"), site.after, self._lines, headers, b"\r\n")
        )
        return await self._ask(site, request, timeout_s, max_body_bytes, on_sent=on_sent)

    async def request(
        self,
        method: str,
        origin: Origin,
        target: str,
        *,
        headers: bytes,
        body: bytes = b"",
        timeout_s: float | None = None,
        max_body_bytes: int | None = None,
    ) -> Outcome:
        """Any method, with these header lines and no others but those that frame the message."""
        if not re.fullmatch(r"[A-Z]{1,20}", method) or method == "CONNECT":
            return Failure(Reason.REQUEST, f"The method {method[:40]!r} cannot be sent.")
        if _TARGET(target) is None or not _may_send(headers):
            return _unfit(target, headers)
        site = self._sites.get(origin) or self._site(origin)
        if isinstance(site, Failure):
            return site
        length = b"Content-Length: %d\r\n" % len(body) if body or method in _WITH_BODY else b""
        parts = (
            method.encode(),
            b" ",
            site.before,
            target.encode(),
            site.after,
            headers,
            length,
            b"\r\n",
            body,
        )
        return await self._ask(
            site,
            b"".join(parts),
            timeout_s,
            max_body_bytes,
            bodiless=method == "HEAD",
            repeatable=method in _REPEATABLE,
        )

    async def addresses(self, host: str) -> Sequence[str] | Failure:
        """The addresses of a host that may be asked; () where a proxy looks names up."""
        return await self._connector.addresses(host)

    async def delay(self, origin: Origin) -> float | Failure:
        """The seconds that it takes to connect to an origin, of which nothing is asked."""
        site = self._sites.get(origin) or self._site(origin)
        if isinstance(site, Failure):
            return site
        self._forget_unused(site)
        return await self._connector.delay(origin)

    def statistics(self) -> TransportStatistics:
        """What is held now, and what was done."""
        return TransportStatistics(
            open=len(self._active) + len(self._idle) + self._connector.under_way,
            active=len(self._active),
            idle=len(self._idle),
            sites=len(self._sites),
            made=self._connector.made,
            reused=self._reused,
            retried=self._retried,
            evicted=self._evicted,
            resumed=self._connector.resumed,
            bytes_in=self._bytes_in,
            bytes_out=self._bytes_out,
        )

    def _header_lines(self) -> bytes:
        accept = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
        lines = f"User-Agent: {self.agent}\r\nAccept: {accept}\r\nAccept-Encoding: {decoding.ACCEPTED}\r\n"
        return lines.encode("ascii")

    def _site(self, origin: Origin) -> _Site | Failure:
        """A new entry for an origin, unless it must not be asked."""
        if origin.scheme not in ("http", "https"):
            return Failure(Reason.REQUEST, f"The scheme {origin.scheme[:40]!r} is not http or https.")
        if not _HOST(origin.host):
            return Failure(Reason.REQUEST, f"{origin.host[:80]!r} is not the name of a host.")
        if origin.port in REFUSED_PORTS or not 0 < origin.port < 65536:
            return Failure(Reason.PORT, f"Port {origin.port} is not for web servers.")
        host = f" HTTP/1.1\r\nHost: {origin.netloc}\r\nConnection: keep-alive\r\n".encode("ascii")
        proxy = self._connector.proxy
        if proxy is not None and (refused := self._connector.refusal(origin.host)):
            return Failure(Reason.ADDRESS, refused)
        if proxy is None or origin.scheme == "https":
            site = _Site(origin, self._settings.per_host, b"", host)
        else:
            whole = str(origin).encode("ascii")
            site = _Site(origin, self._settings.per_host, whole, host + proxy.authorization)
            site.shared = self._through_proxy
        self._sites[origin] = site
        return site

    async def _ask(
        self,
        site: _Site,
        request: bytes,
        timeout_s: float | None,
        max_body_bytes: int | None,
        *,
        bodiless: bool = False,
        repeatable: bool = True,
        on_sent: Callable[[float], None] | None = None,
    ) -> Outcome:
        """Take a place, then a connection, and exchange; both are given back whatever happens."""
        if self._nursery is None:
            raise RuntimeError("A transport is used inside `async with` only.")
        settings = self._settings
        limits = Limits(
            time.monotonic() + (settings.timeout_s if timeout_s is None else timeout_s),
            settings.max_body_bytes if max_body_bytes is None else max_body_bytes,
            settings.max_ratio,
            on_sent,
        )
        if not await self._take_places(site, limits.deadline):
            return Failure(Reason.TIMEOUT, "No place was free in time: too many requests are under way.")
        try:
            connection = self._take_idle(site.home)
            if connection is not None:
                outcome = await self._exchange(connection, site, request, limits, bodiless=bodiless)
                if not (repeatable and connection.is_stale(outcome)):
                    return outcome
                self._retried += 1
            made = await self._connector.connect(site.origin, limits.deadline)
            if isinstance(made, Failure):
                return made
            return await self._exchange(made, site, request, limits, bodiless=bodiless)
        finally:
            self._places.release()
            site.places.release()
            self._forget_unused(site)

    async def _take_places(self, site: _Site, deadline: float) -> bool:
        """One of the site, then one of all; False if none came free in time."""
        try:
            site.places.acquire_nowait()
        except trio.WouldBlock:
            if not await _acquire(site.places, deadline):
                return False
        try:
            self._places.acquire_nowait()
        except trio.WouldBlock:
            taken = False
            try:
                taken = await _acquire(self._places, deadline)
            finally:
                if not taken:
                    site.places.release()
                    self._forget_unused(site)
            return taken
        return True

    def _forget_unused(self, site: _Site) -> None:
        if not site.idle and site.places.value == site.places.max_value:
            self._sites.pop(site.origin, None)

    async def _exchange(
        self, connection: Connection, site: _Site, request: bytes, limits: Limits, *, bodiless: bool
    ) -> Outcome:
        """One exchange under the watch; afterwards the connection is idle or closed."""
        self._active.add(connection)
        if not self._wake.is_set():
            self._wake.set()
        try:
            outcome = await connection.exchange(request, limits, bodiless=bodiless)
            self._bytes_in += connection.received
            self._bytes_out += len(request)
        finally:
            self._active.discard(connection)
            if connection.reusable and self._keeps and self._nursery is not None:
                self._keep(connection, site.home)
            else:
                connection.close()
        if connection.uses == 1 and site.origin.scheme == "https":
            self._connector.learn(site.origin, connection)
        if self._is_behind_proxy and isinstance(outcome, Response) and outcome.status == 407:
            return Failure(Reason.PROXY, "The proxy wants another user name or password.", connection.address)
        return outcome

    def _take_idle(self, home: _Site) -> Connection | None:
        """The last used of the idle connections on which nothing has come meanwhile."""
        while home.idle:
            connection, _ = home.idle.popitem()
            del self._idle[connection]
            if connection.is_quiet():
                self._reused += 1
                return connection
            connection.close()
        return None

    def _keep(self, connection: Connection, home: _Site) -> None:
        connection.home = home
        connection.idle_since = time.monotonic()
        home.idle[connection] = self._idle[connection] = None
        if len(self._idle) > self._max_idle:
            self._evict(next(iter(self._idle)))

    def _evict(self, connection: Connection) -> None:
        del self._idle[connection]
        home = connection.home
        assert isinstance(home, _Site)
        del home.idle[connection]
        connection.close()
        self._evicted += 1
        self._forget_unused(home)

    async def _watch(self) -> None:
        """Abort what is late or slow, close what was idle for too long; sleep while there is nothing."""
        rate, idle_s = self._settings.min_rate_bytes, self._settings.idle_timeout_s
        while True:
            if not self._active and not self._idle:
                self._wake = trio.Event()
                await self._wake.wait()
            await trio.sleep(_SWEEP_S)
            now = time.monotonic()
            for connection in self._active:
                if now >= connection.deadline:
                    connection.abort(Reason.TIMEOUT)
                elif rate and connection.is_slow(now, rate, self._slow_window_s):
                    connection.abort(Reason.SLOW)
            while self._idle:
                oldest = next(iter(self._idle))
                if now - oldest.idle_since < idle_s:
                    break
                self._evict(oldest)


_WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})
_REPEATABLE: Final = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE", "TRACE"})


async def _acquire(places: trio.Semaphore, deadline: float) -> bool:
    with trio.move_on_after(max(0.0, deadline - time.monotonic())) as scope:
        await places.acquire()
    return not scope.cancelled_caught


def _most_idle(concurrency: int) -> int:
    """How many idle connections are kept: several per request under way, but not all files one may open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(1, min(_IDLE_PER_ACTIVE * concurrency, (soft - concurrency) // 2))


def _may_send(headers: bytes) -> bool:
    return _HEADERS(headers) is not None and _OURS(headers) is None


def _unfit(target: str, headers: bytes) -> Failure:
    if _TARGET(target) is None:
        return Failure(Reason.REQUEST, f"The target {target[:80]!r} has characters that cannot be sent.")
    return Failure(Reason.REQUEST, f"The headers {headers[:80]!r} cannot be sent.")
