"""The hosts of the synthetic web: their names, addresses and sizes, and what is peculiar about each.

A few hosts are large and many are small (Zipf). Peculiarities are dealt out by counting hosts from the last,
which is the smallest, so that slow hosts and odd ones are small, and even a web of a dozen has most kinds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from gcs.simulate.languages import CHARSETS, HOMES, draws

CHILDREN: Final = 3
"""The first page of a host leads to those of so many others, so that all hosts are found."""
_LEAST_PAGES = 3


class Robots(StrEnum):
    """What a host answers to /robots.txt."""

    PLAIN = "plain"
    CLOSED = "closed"  # everything is forbidden
    BROKEN = "broken"  # 503, so everything is forbidden
    NONE = "none"  # 404, so nothing is forbidden
    MOVED = "moved"  # a redirect within the host
    FAR = "far"  # a redirect to another host
    RICH = "rich"  # several groups, wildcards, a BOM and comments


class Framing(StrEnum):
    """How a host says where an answer's body ends."""

    LENGTH = "length"
    CHUNKED = "chunked"
    CLOSE = "close"


class Trap(StrEnum):
    """An endless part of a host, and the path at which it begins."""

    NONE = ""
    CALENDAR = "/calendar/"
    GROWTH = "/grow/"
    SESSIONS = "/shop/"


class Sitemap(StrEnum):
    """What a host's robots.txt says about sitemaps."""

    NONE = ""
    PLAIN = "/sitemap.xml"
    INDEX = "/sitemap-index.xml"


_ROBOTS = {
    1: Robots.CLOSED,
    2: Robots.BROKEN,
    3: Robots.NONE,
    4: Robots.MOVED,
    5: Robots.FAR,
    6: Robots.RICH,
    10: Robots.RICH,
}
_TRAPS = {2: Trap.CALENDAR, 5: Trap.GROWTH, 8: Trap.SESSIONS}
_SITEMAPS = {0: Sitemap.PLAIN, 2: Sitemap.INDEX}
_FRAMINGS = {1: Framing.CHUNKED, 4: Framing.CLOSE}


@dataclass(frozen=True, slots=True)
class Host:
    """One host; `size` counts the ordinary pages, `extras` each kind of URL beside them."""

    index: int
    name: str
    address: str
    scheme: str
    size: int
    first: int
    language: str
    gzip: bool
    robots: Robots = Robots.PLAIN
    crawl_delay_s: float | None = None
    delay_s: float = 0.0
    framing: Framing = Framing.LENGTH
    requests_per_connection: int | None = None
    sitemap: Sitemap = Sitemap.NONE
    trap: Trap = Trap.NONE
    failing: bool = False
    busy: bool = False

    @property
    def extras(self) -> int:
        """How many redirects, missing pages, files and so on the host has, of each kind."""
        return 2 + self.size // 25

    def allows(self, target: str) -> bool:
        """Whether the host's robots.txt lets a crawler ask for this that no group of it names."""
        if target == "/robots.txt" or self.robots is Robots.NONE:
            return True
        if self.robots in {Robots.CLOSED, Robots.BROKEN}:
            return False
        if self.robots is Robots.RICH:
            if target.startswith("/private/open/"):
                return True
            if target.endswith(".secret"):
                return False
        return not target.startswith("/private/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """What the hosts of a web are made from."""

    seed: int
    hosts: int
    pages: int
    https: float
    gzip: float
    hosts_per_address: int
    plain: bool
    slowness: float
    abroad: bool = False

    def made(self) -> Iterator[Host]:
        """The hosts, largest first."""
        first = 0
        for index, size in enumerate(self._sizes()):
            yield self._host(index, size, first)
            first += size

    def _sizes(self) -> list[int]:
        shares = [1 / (rank + 2) for rank in range(self.hosts)]
        spare = max(0, self.pages - _LEAST_PAGES * self.hosts)
        sizes = [_LEAST_PAGES + int(spare * share / sum(shares)) for share in shares]
        sizes[0] += max(0, self.pages - sum(sizes))
        return sizes

    def _host(self, index: int, size: int, first: int) -> Host:
        place = index // self.hosts_per_address + 1
        tongue, compressed, *_ = draws(f"{self.seed}/host/{index}", 2)
        languages = tuple(CHARSETS)
        is_https = draws(f"{self.seed}/tls/{place}", 1)[0] < self.https * 2**32
        language = languages[tongue % len(languages)]
        home = HOMES.get(language, language) if self.abroad else "test"
        host = Host(
            index=index,
            name=f"h{index:03d}.{home}",
            address=f"127.{1 + (place >> 16)}.{place >> 8 & 255}.{place & 255}",
            # Names at one address share its listener, so the address decides.
            scheme="https" if is_https else "http",
            size=size,
            first=first,
            language=language,
            gzip=compressed < self.gzip * 2**32,
        )
        return host if self.plain else self._peculiar(host)

    def _peculiar(self, host: Host) -> Host:
        rank = self.hosts - 1 - host.index
        is_leaf = CHILDREN * host.index + 1 >= self.hosts
        robots = _ROBOTS.get(rank % 12, Robots.PLAIN)
        if robots in {Robots.CLOSED, Robots.BROKEN} and not is_leaf:
            robots = Robots.PLAIN  # it would hide the hosts below it
        has_rules = robots in {Robots.PLAIN, Robots.RICH}
        in_tail = self.slowness > 0 and rank < self.hosts // 2
        return replace(
            host,
            robots=robots,
            crawl_delay_s=0.5 * self.slowness if in_tail and has_rules and rank % 15 == 7 else None,
            delay_s=0.1 * self.slowness * (1 + rank % 3) if in_tail and rank % 15 == 9 else 0.0,
            framing=_FRAMINGS.get(rank % 7, Framing.LENGTH),
            requests_per_connection=5 if rank % 7 == 6 else None,
            sitemap=_SITEMAPS.get(rank % 5, Sitemap.NONE),
            trap=_TRAPS.get(rank % 11, Trap.NONE),
            failing=rank % 10 == 3,
            busy=rank % 8 == 5,
        )
