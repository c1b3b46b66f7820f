"""Making connections: from an origin to a connection that is ready for requests.

DNS, then the guard, then the socket to the very address that was judged, then the proxy's tunnel and TLS as
the origin needs them. Invariant: no socket is opened towards an address that the guard has not let through
for this connection; a proxy, which is the user's choice, is the one exception. Behind a proxy names are not
looked up here, so only what is written as an address can be judged.
"""

from __future__ import annotations

import base64
import math
import socket
import ssl
import time
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import unquote, urlsplit

import trio

from gcs import config
from gcs.errors import ConfigError
from gcs.fetch.addresses import Guard, literal
from gcs.fetch.connection import Buffers, Connection, TlsFailed, open_socket
from gcs.fetch.names import Names, read_hosts
from gcs.fetch.outcome import Failure, Origin, Reason
from gcs.fetch.throttled import Throttle, ThrottledConnection

_MAX_ADDRESSES: Final = 6
_MAX_SESSIONS: Final = 4096


@dataclass(frozen=True, slots=True)
class Proxy:
    """The user's proxy, and the header line that it wants to see, if any."""

    host: str
    port: int
    authorization: bytes

    @classmethod
    def read(cls, url: str) -> Proxy | None:
        """What `fetch.proxy` means; raises ConfigError."""
        if not url:
            return None
        parts = urlsplit(url)
        try:
            host, port = parts.hostname, parts.port or 80
        except ValueError:
            host, port = None, 0
        if not host:
            raise ConfigError('fetch.proxy must be an address such as "http://proxy:3128".')
        line = b""
        if parts.username is not None:
            account = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
            line = b"Proxy-Authorization: Basic " + base64.b64encode(account) + b"\r\n"
        return cls(host, port, line)


class Connector:
    """Makes connections, and remembers for each origin the TLS session that the next one can resume."""

    def __init__(
        self,
        settings: config.Fetch,
        *,
        names: Names | None,
        tls: ssl.SSLContext | None,
        throttle: Throttle | None = None,
    ) -> None:
        """Read the files that the settings name; raises ConfigError for what cannot be used."""
        self._settings = settings
        self._names = names or Names(
            hosts=read_hosts(settings.hosts),
            lifetime_s=settings.dns_lifetime_s,
            concurrency=settings.dns_concurrency,
        )
        self._guard = Guard(settings.allow)
        self._buffers = Buffers.make()
        self._sessions: OrderedDict[Origin, ssl.SSLSession] = OrderedDict()
        self._tls = tls
        self._throttle = throttle
        if settings.tls_ca is not None:
            self._context()
        self.proxy = Proxy.read(settings.proxy)
        self.under_way = self.made = self.resumed = 0

    async def addresses(self, host: str) -> tuple[str, ...] | Failure:
        """The addresses of a host that may be asked; () where a proxy looks names up."""
        if self.proxy is not None:
            refused = self.refusal(host)
            return Failure(Reason.ADDRESS, refused) if refused else ()
        found = await self._lookup(host, self._settings.connect_timeout_s)
        return found if isinstance(found, Failure) else self._permitted(found)

    def refusal(self, host: str) -> str:
        """ "", or why a host that is written as an address must not be asked through the proxy."""
        name = host.rstrip(".").lower()
        address = "127.0.0.1" if name == "localhost" or name.endswith(".localhost") else literal(host)
        return self._guard.refusal(address) if address else ""

    async def connect(self, origin: Origin, deadline: float) -> Connection | Failure:
        """A new connection, within the time for connecting and before the deadline."""
        started, begun = time.time(), time.monotonic()
        self.under_way += 1
        try:
            outcome = await self._connect(origin, begun, deadline)
        finally:
            self.under_way -= 1
        if isinstance(outcome, Failure):
            return replace(outcome, started=started, total_s=time.monotonic() - begun)
        outcome.connect_s = time.monotonic() - begun
        self.made += 1
        return outcome

    async def delay(self, origin: Origin) -> float | Failure:
        """The seconds that a connection takes, to be ready for requests; it is closed without one.

        Looking up the name is not part of it, and no session is resumed: all who measure take the same steps.
        Through a proxy it is the tunnel that takes the time, so there is one for http too.
        """
        within_s = self._settings.connect_timeout_s
        addresses = await self._where(origin, within_s)
        if isinstance(addresses, Failure):
            return addresses
        begun = time.monotonic()
        self.under_way += 1
        try:
            with trio.move_on_after(within_s):
                made = await self._connected(origin, addresses, begun + within_s, probe=True)
                if isinstance(made, Failure):
                    return made
                made.close()
                return time.monotonic() - begun
        finally:
            self.under_way -= 1
        return Failure(Reason.CONNECT, "The connection was not made in time.", addresses[-1])

    def learn(self, origin: Origin, connection: Connection) -> None:
        """Keep the session of a connection on which an answer has come: tickets come along with it."""
        self.resumed += connection.resumed
        session = connection.session
        if session is not None:
            self._sessions[origin] = session
            self._sessions.move_to_end(origin)
            if len(self._sessions) > _MAX_SESSIONS:
                self._sessions.popitem(last=False)

    async def _connect(self, origin: Origin, begun: float, deadline: float) -> Connection | Failure:
        last = min(deadline, begun + self._settings.connect_timeout_s)
        addresses = await self._where(origin, last - begun)
        if isinstance(addresses, Failure):
            return addresses
        reason = Reason.TIMEOUT if last == deadline else Reason.CONNECT
        if self.proxy is not None:
            reason = Reason.PROXY
        with trio.move_on_after(max(0.0, last - time.monotonic())):
            return await self._connected(origin, addresses, last)
        return Failure(reason, "The connection was not made in time.", addresses[-1])

    async def _where(self, origin: Origin, within_s: float) -> tuple[str, ...] | Failure:
        if self.proxy is None:
            found = await self._lookup(origin.host, within_s)
            return found if isinstance(found, Failure) else self._permitted(found)
        found = await self._lookup(self.proxy.host, within_s)
        if isinstance(found, Failure):
            return Failure(Reason.PROXY, f"The proxy was not found. {found.detail}")
        return found

    async def _lookup(self, host: str, within_s: float) -> tuple[str, ...] | Failure:
        found = self._names.known(host)
        if found is not None:
            return found
        with trio.move_on_after(max(0.0, within_s)):
            return await self._names.lookup(host)
        return Failure(Reason.DNS, f"{host} was not found in time.")

    def _permitted(self, found: tuple[str, ...]) -> tuple[str, ...] | Failure:
        refusals = {address: self._guard.refusal(address) for address in found[:_MAX_ADDRESSES]}
        permitted = tuple(address for address, why in refusals.items() if not why)
        if permitted:
            return permitted
        address, why = next(iter(refusals.items()))
        return Failure(Reason.ADDRESS, why, address)

    async def _connected(
        self, origin: Origin, addresses: tuple[str, ...], last: float, *, probe: bool = False
    ) -> Connection | Failure:
        port = origin.port if self.proxy is None else self.proxy.port
        connection = await self._first_that_answers(addresses, port, last)
        if isinstance(connection, Failure):
            return connection
        ready = False
        try:
            failure = await self._prepare(connection, origin, probe=probe)
            ready = failure is None
        finally:
            if not ready:
                connection.close()
        return failure or connection

    async def _first_that_answers(
        self, addresses: tuple[str, ...], port: int, last: float
    ) -> Connection | Failure:
        """Try one address after the other; all but the last have only their share of the time."""
        reason = Reason.CONNECT if self.proxy is None else Reason.PROXY
        failure = Failure(reason, "No connection could be made.")
        for at, address in enumerate(addresses):
            left = len(addresses) - at
            share_s = (last - time.monotonic()) / left if left > 1 else math.inf
            failure = Failure(reason, "The connection was not made in time.", address)
            with trio.move_on_after(max(0.0, share_s)):
                try:
                    sock = await open_socket(address, port)
                except OSError as error:
                    failure = Failure(reason, f"No connection could be made: {error.strerror}.", address)
                else:
                    return self._over(sock, address)
        return failure

    def _over(self, sock: socket.socket, address: str) -> Connection:
        header = self._settings.max_header_bytes
        if self._throttle is None:
            return Connection(sock, address, buffers=self._buffers, max_header_bytes=header)
        return ThrottledConnection(
            sock, address, buffers=self._buffers, max_header_bytes=header, throttle=self._throttle
        )

    async def _prepare(self, connection: Connection, origin: Origin, *, probe: bool) -> Failure | None:
        """Tunnel and TLS, for https; the tunnel for http too if this is a probe."""
        is_secure = origin.scheme == "https"
        if self.proxy is not None and (is_secure or probe):
            host = f"[{origin.host}]" if ":" in origin.host else origin.host
            where = f"{host}:{origin.port}"
            ask = f"CONNECT {where} HTTP/1.1\r\nHost: {where}\r\n".encode("ascii")
            failure = await connection.tunnel(ask + self.proxy.authorization + b"\r\n")
            if failure is not None:
                return failure
        if not is_secure:
            return None
        session = None if probe else self._sessions.get(origin)
        try:
            await connection.secure(self._context(), origin.host, session)
        except TlsFailed as error:
            self._sessions.pop(origin, None)
            return Failure(Reason.TLS, str(error), connection.address)
        return None

    def _context(self) -> ssl.SSLContext:
        """The system's authorities are read when first needed: it takes tens of milliseconds."""
        if self._tls is None:
            try:
                self._tls = ssl.create_default_context(cafile=self._settings.tls_ca)
            except OSError as error:
                message = f"{self._settings.tls_ca}: fetch.tls_ca cannot be used: {error.strerror}."
                raise ConfigError(message) from error
            self._tls.set_alpn_protocols(["http/1.1"])
        return self._tls
