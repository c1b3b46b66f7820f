"""Whether the web is really there: the canary, and when to look at it.

A captive portal answers every request with its own page until somebody logs in, and a helper would take that
for the pages it was asked to fetch. So the cluster names a canary: a URL, and what is there. The helper may
work only while the canary was found as it should be, on the network that it is on now.

`Doubt` decides purely when to look: at the start, when the network has changed, after several failures in a
row, and from time to time while the canary was not found.
"""

from __future__ import annotations

import hashlib
import socket
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from gcs import config
from gcs.core.consent import Network
from gcs.fetch.outcome import Failure, Origin, Outcome, Reason
from gcs.fetch.transport import Transport

AGAIN_S: Final = 30.0
FAILURES: Final = 5
"""So many failures in a row may be the network's fault."""

_ROUTES: Final = Path("/proc/net/route")
_FAR: Final = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))
"""Addresses that nobody has; nothing is sent there."""
_NOTHING_CAME: Final = frozenset(
    {Reason.DNS, Reason.CONNECT, Reason.TIMEOUT, Reason.SLOW, Reason.DISCONNECTED, Reason.PROXY}
)


@dataclass(frozen=True, slots=True)
class Canary:
    """A URL, and how it must answer: with this status, and a body of which this is the SHA-256."""

    url: str
    sha256: str
    status: int = 200

    @classmethod
    def saying(cls, url: str, text: str) -> Canary:
        """One whose whole body is known."""
        return cls(url, hashlib.sha256(text.encode()).hexdigest())


async def check(transport: Transport, canary: Canary, *, timeout_s: float = 10.0) -> Network:
    """Look at the canary: clear, captive if something else came, offline if nothing did."""
    origin, target = Origin.split(canary.url)
    return judge(canary, await transport.fetch(origin, target, timeout_s=timeout_s))


def judge(canary: Canary, outcome: Outcome) -> Network:
    """What an answer to the question for the canary means.

    A certificate that is not the canary's is a portal's doing, and so is a name that leads to a private
    address.
    """
    if isinstance(outcome, Failure):
        return Network.OFFLINE if outcome.reason in _NOTHING_CAME else Network.CAPTIVE
    is_whole = not outcome.truncated and outcome.status == canary.status
    found = hashlib.sha256(outcome.body).hexdigest()
    return Network.CLEAR if is_whole and found == canary.sha256.lower() else Network.CAPTIVE


def settings(fetch: config.Fetch) -> config.Fetch:
    """Settings for a transport that looks at nothing but the canary: it remembers no name and no connection.

    A portal's answers to DNS would outlast the login otherwise.
    """
    return replace(fetch, dns_lifetime_s=0.0, idle_timeout_s=0.0, concurrency=1, max_body_bytes=64 << 10)


def network_mark(routes: Path = _ROUTES) -> tuple[str, ...]:
    """Something that changes when the machine moves to another network: own addresses, default gateways."""
    found = []
    for family, address in _FAR:
        with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as sock:
            sock.connect((address, 9))
            found.append(str(sock.getsockname()[0]))
    with suppress(OSError):
        for line in routes.read_text(encoding="ascii", errors="replace").splitlines():
            interface, destination, gateway, *_ = [*line.split(), "", "", ""]
            if destination == "00000000":
                found.append(f"{interface} {gateway}")
    return tuple(found)


class Doubt:
    """What is known of the network, and whether that has to be found out again."""

    def __init__(self) -> None:
        """Nothing is known at first."""
        self.network = Network.UNCHECKED
        self._mark: tuple[str, ...] = ()
        self._failures = 0
        self._checked_at = 0.0

    def is_due(self, mark: tuple[str, ...], now: float) -> bool:
        """Whether to look at the canary; what was known of another network is forgotten."""
        if mark != self._mark:
            self._mark, self.network = mark, Network.UNCHECKED
        if self.network is Network.CLEAR:
            return False
        return self.network is Network.UNCHECKED or now - self._checked_at >= AGAIN_S

    def learn(self, network: Network, mark: tuple[str, ...], now: float) -> None:
        """Take in what was found on a network; it says nothing about another one."""
        self._checked_at = now
        if mark == self._mark:
            self.network = network
            self._failures = 0

    def failed(self) -> bool:
        """A page could not be fetched; whether that makes doubt of what seemed clear."""
        self._failures += 1
        if self._failures < FAILURES or self.network is not Network.CLEAR:
            return False
        self._failures, self.network = 0, Network.UNCHECKED
        return True

    def succeeded(self) -> None:
        """A page was fetched."""
        self._failures = 0
