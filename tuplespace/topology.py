"""From an address to the servers behind it: one server, a Sentinel group's master, or a cluster.

    redis://[user:password@]host[:port][/db]      rediss:// with TLS      unix://[:password@]/path
    redis+sentinel://[user:password@]host:port,host:port/service[/db]
    redis+cluster://[user:password@]host:port,host:port

`rediss+sentinel` and `rediss+cluster` use TLS. Options of the connection, such as
`ssl_ca_certs=/path`, follow a question mark. Everything here may block: it runs in threads.
"""

from __future__ import annotations

import re
import socket
import threading
import urllib.parse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Protocol, cast

import redis
import redis.exceptions as remote_errors
from redis.connection import ConnectionPool, parse_url
from redis.crc import key_slot
from redis.sentinel import Sentinel, SentinelConnectionPool

from tuplespace.errors import AddressError

_SOCKET_TIMEOUT_S: Final = 5.0
_DEFAULT_PORTS: Final = {"redis": 6379, "sentinel": 26379, "cluster": 6379}


class Connection(Protocol):
    """What we need of the client library's connections."""

    @property
    def is_connected(self) -> bool: ...
    def connect(self) -> None: ...
    def disconnect(self) -> None: ...
    def send_command(self, *args: str | bytes, check_health: bool = True) -> None: ...
    def send_packed_command(self, command: list[bytes], check_health: bool = True) -> None: ...  # noqa: FBT001, FBT002
    def can_read(self, timeout: float = 0) -> bool: ...
    def read_response(self) -> Any: ...
    def _get_socket(self) -> socket.socket | None: ...


@dataclass(frozen=True)
class Link:
    """A server, or whatever stands for one: how to connect to it and what to call it."""

    label: str
    dial: Callable[[], Connection]


class Topology(Protocol):
    """Which server has which key."""

    def link(self, key: bytes) -> Link:
        """Where a key is, as far as is known."""

    def moved(self, key: bytes, host: str, port: int) -> Link:
        """A server said that a key is elsewhere."""

    def at(self, host: str, port: int) -> Link:
        """A server by its address, for one request only."""

    def owners(self) -> set[Link] | None:
        """The servers that have any key at all; None when there is only one to ask."""

    def refresh(self) -> None:
        """Find out anew; blocks."""


@dataclass(frozen=True)
class _One:
    """One server, or one name under which Sentinel finds the present master."""

    only: Link

    def link(self, key: bytes) -> Link:
        return self.only

    def moved(self, key: bytes, host: str, port: int) -> Link:
        return self.only

    def at(self, host: str, port: int) -> Link:
        return self.only

    def owners(self) -> set[Link] | None:
        return None

    def refresh(self) -> None:
        return None


class _Cluster:
    """The slots of a cluster and who has them, asked of any server that answers."""

    def __init__(self, hosts: list[tuple[str, int]], options: dict[str, Any]) -> None:
        self._options = options
        self._lock = threading.Lock()
        self._links: dict[tuple[str, int], Link] = {}
        self._known = list(hosts)
        self._slots: dict[int, tuple[str, int]] = {}

    def link(self, key: bytes) -> Link:
        with self._lock:
            return self._link_to(self._slots.get(key_slot(key), self._known[0]))

    def moved(self, key: bytes, host: str, port: int) -> Link:
        with self._lock:
            self._slots[key_slot(key)] = (host, port)
            return self._link_to((host, port))

    def at(self, host: str, port: int) -> Link:
        with self._lock:
            return self._link_to((host, port))

    def owners(self) -> set[Link] | None:
        with self._lock:
            return {self._link_to(address) for address in self._slots.values()}

    def refresh(self) -> None:
        failure: Exception | None = None
        for address in list(self._known):
            try:
                slots = self._ask(*address)
            except remote_errors.RedisError as error:
                failure = error
                continue
            with self._lock:
                self._slots = slots
                self._known = list(dict.fromkeys([*slots.values(), *self._known]))
            return
        assert failure is not None
        raise failure

    def _ask(self, host: str, port: int) -> dict[int, tuple[str, int]]:
        """One server's view; a server that knows of no slots is no help."""
        connection = self._connection(host, port)
        try:
            connection.connect()
            connection.send_command("CLUSTER", "SLOTS")
            ranges: Any = connection.read_response()
        finally:
            connection.disconnect()
        slots = {
            slot: (master[0].decode() or host, int(master[1]))
            for first, last, master, *_ in ranges
            for slot in range(first, last + 1)
        }
        if not slots:
            raise remote_errors.ClusterDownError(f"{host}:{port} serves no part of a cluster")
        return slots

    def _link_to(self, address: tuple[str, int]) -> Link:
        if address not in self._links:
            self._links[address] = Link(f"{address[0]}:{address[1]}", lambda: self._connection(*address))
        return self._links[address]

    def _connection(self, host: str, port: int) -> Connection:
        options = {**self._options, "host": host, "port": port}
        connection: Connection = options.pop("connection_class")(**options)
        return connection


def resolve(url: str, extra: Mapping[str, str | None] = MappingProxyType({})) -> Topology:
    """The topology behind an address; raises AddressError for one that cannot be read.

    `extra` are options of the connection that are not in the address; None is none.
    """
    given = {name: value for name, value in extra.items() if value is not None}
    try:
        parts = urllib.parse.urlsplit(url)
    except ValueError as error:
        raise AddressError(f"cannot read the address {masked(url)!r}: {error}") from None
    transport, _, kind = parts.scheme.partition("+")
    if transport not in ("redis", "rediss", "unix") or kind not in ("", "sentinel", "cluster"):
        raise AddressError(
            f"cannot read the address {masked(url)!r}: use redis://, rediss:// or unix://, "
            "redis+sentinel:// or redis+cluster://"
        )
    if transport != "rediss" and any(name.startswith("ssl_") for name in given):
        raise AddressError(f"certificates are given, but {masked(url)!r} is not a rediss:// address")
    try:
        if not kind:
            pool = ConnectionPool(**_options(url, given))
            found: Topology = _One(Link(masked(url), cast(Callable[[], Connection], pool.make_connection)))
        else:
            hosts = _hosts(parts.netloc, _DEFAULT_PORTS[kind])
            found = (_sentinel if kind == "sentinel" else _cluster)(parts, transport, hosts, given)
        found.link(b"").dial()  # which finds out whether the options make sense; it does not connect
        return found
    except (TypeError, ValueError, remote_errors.RedisError) as error:
        raise AddressError(f"cannot read the address {masked(url)!r}: {error}") from None


def masked(url: str) -> str:
    """An address fit for a message: its password, if it has one, is not shown."""
    shown = re.sub(r"(://[^/?#:@]*:)[^/?#]*@", r"\1***@", url, count=1)
    return re.sub(r"(password=)[^&]*", r"\1***", shown)


def _options(url: str, extra: Mapping[str, str]) -> dict[str, Any]:
    return {
        "socket_timeout": _SOCKET_TIMEOUT_S,
        "socket_connect_timeout": _SOCKET_TIMEOUT_S,
        **parse_url(url),
        **extra,
        "protocol": 2,
        "driver_info": None,
    }


def _hosts(netloc: str, default_port: int) -> list[tuple[str, int]]:
    hosts = []
    for address in netloc.rpartition("@")[2].split(","):
        one = urllib.parse.urlsplit(f"//{address}")
        if not one.hostname:
            raise ValueError("a host is missing")
        hosts.append((one.hostname, one.port or default_port))
    return hosts


def _sentinel(
    parts: urllib.parse.SplitResult,
    transport: str,
    hosts: list[tuple[str, int]],
    extra: Mapping[str, str],
) -> Topology:
    service, _, database = parts.path.strip("/").partition("/")
    if not service:
        raise ValueError("a Sentinel address ends with the service's name, /mymaster")
    options = _options(_single(parts, transport, hosts[0], database), extra)
    secure = transport == "rediss"
    for name in ("host", "port", "connection_class"):
        options.pop(name, None)
    own = {k: options.pop(k) for k in list(options) if k.startswith("sentinel_")}
    watchers = {k: v for k, v in options.items() if k.startswith(("socket_", "ssl_")) or k == "protocol"}
    watchers |= {k.removeprefix("sentinel_"): v for k, v in own.items()}
    sentinel = Sentinel(hosts, sentinel_kwargs={**watchers, "ssl": secure, "driver_info": None})
    pool = SentinelConnectionPool(service, sentinel, ssl=secure, **options)
    return _One(Link(f"{service} (by Sentinel)", cast(Callable[[], Connection], pool.make_connection)))


def _cluster(
    parts: urllib.parse.SplitResult,
    transport: str,
    hosts: list[tuple[str, int]],
    extra: Mapping[str, str],
) -> Topology:
    options = _options(_single(parts, transport, hosts[0], ""), extra)
    for name in ("host", "port"):
        options.pop(name, None)
    options.setdefault("connection_class", redis.Connection)
    return _Cluster(hosts, options)


def _single(parts: urllib.parse.SplitResult, transport: str, host: tuple[str, int], database: str) -> str:
    """The address of the first host alone, for its options."""
    credentials, at, _ = parts.netloc.rpartition("@")
    name = f"[{host[0]}]" if ":" in host[0] else host[0]
    return parts._replace(
        scheme=transport, netloc=f"{credentials}{at}{name}:{host[1]}", path=f"/{database}"
    ).geturl()
