"""The guard: which addresses and ports may be asked.

Invariant: no connection is made to an address that `Guard.refusal` was not asked about just before, with that
very address. Names are not judged, only what they lead to, so it does not matter how often a name changes its
mind. The deny table holds what is not public by IANA's registries; `allow` (fetch.allow) opens networks of
it. An IPv6 address that carries an IPv4 address is judged by both: allowing a tunnel does not allow what lies
behind it.

Ports that browsers refuse, and those of some databases, are refused wherever they are, also in networks that
are allowed: nobody serves pages there, and a line of HTTP can be a command to what does.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, TypeAlias

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network

_DENIED: Final[Sequence[tuple[str, str]]] = (
    ("0.0.0.0/32", "unspecified"),
    ("0.0.0.0/8", "of this network"),
    ("10.0.0.0/8", "private"),
    ("100.64.0.0/10", "shared by carriers (CGNAT)"),
    ("127.0.0.0/8", "loopback"),
    ("169.254.0.0/16", "link-local"),
    ("172.16.0.0/12", "private"),
    ("192.0.0.0/24", "reserved for protocols"),
    ("192.0.2.0/24", "for documentation"),
    ("192.31.196.0/24", "reserved (AS112)"),
    ("192.52.193.0/24", "reserved (AMT)"),
    ("192.88.99.0/24", "a 6to4 relay"),
    ("192.168.0.0/16", "private"),
    ("192.175.48.0/24", "reserved (AS112)"),
    ("198.18.0.0/15", "for benchmarks"),
    ("198.51.100.0/24", "for documentation"),
    ("203.0.113.0/24", "for documentation"),
    ("224.0.0.0/4", "multicast"),
    ("255.255.255.255/32", "broadcast"),
    ("240.0.0.0/4", "reserved"),
    ("::/128", "unspecified"),
    ("::1/128", "loopback"),
    ("::/96", "IPv4-compatible"),
    ("::ffff:0:0:0/96", "IPv4-translated"),
    ("64:ff9b::/96", "NAT64"),
    ("64:ff9b:1::/48", "local NAT64"),
    ("100::/64", "for discarding"),
    ("100:0:0:1::/64", "a dummy prefix"),
    ("2001::/32", "Teredo"),
    ("2001:db8::/32", "for documentation"),
    ("2001::/23", "reserved for protocols"),
    ("2002::/16", "6to4"),
    ("3fff::/20", "for documentation"),
    ("5f00::/16", "for segment routing"),
    ("fc00::/7", "unique-local"),
    ("fe80::/10", "link-local"),
    ("fec0::/10", "site-local"),
    ("ff00::/8", "multicast"),
)
_TABLE: Final = tuple((ip_network(network), kind) for network, kind in _DENIED)
_GLOBAL_UNICAST: Final = IPv6Network("2000::/3")
_NAT64: Final = IPv6Network("64:ff9b::/96")
_LOCAL_NAT64: Final = IPv6Network("64:ff9b:1::/48")
_COMPATIBLE: Final = (IPv6Network("::/96"), IPv6Network("::ffff:0:0:0/96"))

REFUSED_PORTS: Final = frozenset(
    {
        # What browsers refuse (the Fetch standard, "bad port").
        *(0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102),
        *(103, 104, 109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465),
        *(512, 513, 514, 515, 526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995),
        *(1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669),
        *(6679, 6697, 10080),
        # Redis with its cluster bus and Sentinel, memcached, MySQL, PostgreSQL, MongoDB.
        *(6379, 16379, 26379, 11211, 3306, 5432, 27017),
    }
)


class Guard:
    """Judges addresses; `allow` are the networks that may be asked although they are not public."""

    def __init__(self, allow: Sequence[Network] = ()) -> None:
        """Find out, too, whether this machine's own addresses can be told by binding to them."""
        self._allow = tuple(allow)
        self._judged = lru_cache(maxsize=65536)(self._judge)
        self._can_bind_any = {
            socket.AF_INET: _can_bind(socket.AF_INET, "192.0.2.1"),
            socket.AF_INET6: _can_bind(socket.AF_INET6, "2001:db8::1"),
        }

    def refusal(self, address: str) -> str:
        """ "" if the address may be asked, else a sentence that says why not."""
        allowed, why = self._judged(address)
        if allowed:
            return ""
        if not why and self._is_own(address):
            why = "this machine's own"
        return f"The address {address} is {why}, and fetch.allow does not let it through." if why else ""

    def _judge(self, text: str) -> tuple[bool, str]:
        """Whether the address is let through expressly, and if not, what speaks against it or ""."""
        try:
            address = ip_address(text)
        except ValueError:
            return False, "not an IP address"
        if isinstance(address, IPv6Address):
            if address.scope_id is not None:
                return False, "bound to an interface"
            if address.ipv4_mapped is not None:
                return self._judge(str(address.ipv4_mapped))
        allowed = any(address.version == each.version and address in each for each in self._allow)
        if not allowed and (why := _denied(address)):
            return False, why
        for inner in _carried(address):
            _, why = self._judge(str(inner))
            if why:
                return False, f"{_denied(address) or 'a tunnel'} to {inner}, which is {why}"
        return allowed, ""

    def _is_own(self, address: str) -> bool:
        """Whether the address is one of this machine's interfaces, as they are now."""
        family = family_of(address)
        if self._can_bind_any[family]:
            return _source_towards(family, address) == address
        return _can_bind(family, address)


def family_of(address: str) -> socket.AddressFamily:
    """The family of an address in text."""
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def literal(host: str) -> str | None:
    """The address that a host is written as, in its usual form (IPv4-mapped: as IPv4); None for names."""
    if not host or (":" not in host and not host[-1].isdigit()):
        return None
    try:
        address = ip_address(host)
    except ValueError:
        return _loose_ipv4(host)
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(address)


def _loose_ipv4(host: str) -> str | None:
    """The forms of IPv4 that the C library takes for an address too, such as 127.1."""
    try:
        return socket.inet_ntoa(socket.inet_aton(host))
    except (OSError, ValueError):
        return None


def _denied(address: Address) -> str:
    for network, kind in _TABLE:
        if network.version == address.version and address in network:
            return kind
    if isinstance(address, IPv6Address) and address not in _GLOBAL_UNICAST:
        return "not global unicast"
    return ""


def _carried(address: Address) -> Iterator[IPv4Address]:
    """The IPv4 addresses to which a packet for this IPv6 address would go on."""
    if not isinstance(address, IPv6Address):
        return
    number = int(address)
    if address in _NAT64 or (number > 1 and any(address in each for each in _COMPATIBLE)):
        yield IPv4Address(number & 0xFFFFFFFF)
    elif address in _LOCAL_NAT64:
        # RFC 6052 puts the address around bits 64 to 71; networks that use a /96 of it, at the end.
        yield IPv4Address((number >> 64 & 0xFFFF) << 16 | number >> 40 & 0xFFFF)
        yield IPv4Address(number & 0xFFFFFFFF)
    elif address.sixtofour is not None:
        yield address.sixtofour
    elif address.teredo is not None:
        yield from address.teredo


def _can_bind(family: socket.AddressFamily, address: str) -> bool:
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((address, 0))
    except OSError:
        return False
    return True


def _source_towards(family: socket.AddressFamily, address: str) -> str:
    """The address from which this machine would speak to another: the same if it is its own."""
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((address, 9))
            return str(probe.getsockname()[0])
    except OSError:
        return ""
