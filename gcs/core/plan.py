"""The plan: who owns which part of the URL space, whatever decided so.

A plan is one sorted list of (start key, owner). From each start up to the next the keys belong to that owner,
and the first start is the empty string, so every key has exactly one owner, which one bisect finds.
Placements that decide by site or by superpage all end in such a list: moving a site is moving a range.

A *site* here is a registered domain, all its hosts together, or the host itself where there is none (an IP
address, a bare suffix). It is named by its prefix, the part of the key that all its URLs have in common, and
its keys are one range.
"""

from __future__ import annotations

import bisect
import hashlib
import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from gcs.core.urls import AFTER, HOST, SCHEME

Domain = Callable[[str], str]
"""The registered domain of a host name, by the public suffix list; "" where there is none."""

_REMEMBERED: Final = 65536


@dataclass(frozen=True, slots=True)
class Plan:
    """Owners of all keys: `owners[i]` has those from `starts[i]` up to the next start."""

    starts: Sequence[str]
    owners: Sequence[str]

    def __post_init__(self) -> None:
        if len(self.starts) != len(self.owners) or not self.starts or self.starts[0] != "":
            raise ValueError("a plan begins with the empty key and has an owner for every start")
        if any(a >= b for a, b in zip(self.starts, self.starts[1:], strict=False)):
            raise ValueError("the starts of a plan ascend")

    @classmethod
    def of(cls, pieces: Iterable[tuple[str, str]]) -> Plan:
        """A plan from starts and owners in order; neighbours of the same owner become one piece."""
        starts: list[str] = []
        owners: list[str] = []
        for start, owner in pieces:
            if starts and starts[-1] == start:
                starts.pop()
                owners.pop()
            if not owners or owners[-1] != owner:
                starts.append(start)
                owners.append(owner)
        return cls(tuple(starts), tuple(owners))

    def owner(self, key: str) -> str:
        """Who owns a key."""
        return self.owners[bisect.bisect_right(self.starts, key) - 1]

    def ranges(self, gatherer: str) -> list[tuple[str, str | None]]:
        """The ranges of keys [from, to) that one gatherer owns; None is the end of everything."""
        return [(low, high) for low, high, owner in self._pieces() if owner == gatherer]

    def changes(self, later: Plan) -> list[tuple[str, str | None, str, str]]:
        """The ranges [from, to) that another plan gives to someone else, with the old and the new owner."""
        starts = sorted({*self.starts, *later.starts})
        ends: list[str | None] = [*starts[1:], None]
        pieces = (
            (low, high, self.owner(low), later.owner(low)) for low, high in zip(starts, ends, strict=True)
        )
        return [piece for piece in pieces if piece[2] != piece[3]]

    def _pieces(self) -> Iterator[tuple[str, str | None, str]]:
        return zip(self.starts, (*self.starts[1:], None), self.owners, strict=True)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return zip(self.starts, self.owners, strict=True)

    def __len__(self) -> int:
        return len(self.starts)


def end_of(site: str) -> str:
    """The first key after those of a site."""
    return site[: -len(SCHEME)] + HOST if site.endswith(SCHEME) else site + AFTER


def compiled(owners: Mapping[str, str], base: Plan) -> Plan:
    """A plan in which sites have owners of their own; a site inside another one is taken out of it."""
    pieces: list[tuple[str, str]] = []
    enclosing: list[str] = []
    for site in sorted(owners):
        pieces += _ended(enclosing, site, owners, base)
        pieces.append((site, owners[site]))
        enclosing.append(site)
    pieces += _ended(enclosing, None, owners, base)
    return Plan.of(_merged(pieces, base, sorted(owners)))


def _ended(
    enclosing: list[str], upto: str | None, owners: Mapping[str, str], base: Plan
) -> Iterator[tuple[str, str]]:
    """End the sites that do not reach to `upto`: what is around them goes on."""
    while enclosing and (upto is None or end_of(enclosing[-1]) <= upto):
        end = end_of(enclosing.pop())
        yield end, owners[enclosing[-1]] if enclosing else base.owner(end)


def _merged(pieces: Sequence[tuple[str, str]], base: Plan, sites: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The pieces of sites and, outside of all sites, those of the base, in order."""
    ranges = _outermost(sites)
    lows = [low for low, _ in ranges]
    outside = []
    for start, owner in base:
        at = bisect.bisect_right(lows, start) - 1
        if at < 0 or start >= ranges[at][1]:
            outside.append((start, owner))
    return heapq.merge(outside, pieces, key=lambda piece: piece[0])


def _outermost(sites: Sequence[str]) -> list[tuple[str, str]]:
    ranges: list[tuple[str, str]] = []
    for site in sites:
        if not ranges or site >= ranges[-1][1]:
            ranges.append((site, end_of(site)))
    return ranges


def by_site(owners: Mapping[str, str], *, otherwise: str) -> Plan:
    """The plan of an owner per site.

    A site that nobody has heard of lies after some known one and goes to the same owner until the next plan;
    before the first known one, and where there is none, all is `otherwise`'s.
    """
    around = ((low, owners[low]) for low, _ in _outermost(sorted(owners)))
    return compiled(owners, Plan.of([("", otherwise), *around]))


class Sites:
    """Which site a key belongs to."""

    def __init__(self, domain: Domain) -> None:
        self.domain = domain
        # The hosts of a crawl repeat with every link; the suffix list is slow.
        self._prefix = lru_cache(maxsize=_REMEMBERED)(self._prefix_of)

    def of(self, key: str) -> str:
        """The prefix that all keys of this key's site have in common."""
        end = key.find(SCHEME)
        return self._prefix(key if end < 0 else key[:end])

    def _prefix_of(self, host: str) -> str:
        labels = host[1:].split(HOST)
        if labels[0].isdigit() or labels[0].startswith("["):
            return host + SCHEME
        rooted = labels[0] == ""  # by a dot at the end of the name, which a registered domain is without
        registered = self.domain(".".join(reversed(labels[rooted:])))
        count = registered.count(".") + 1 + rooted if registered else 0
        # A bare suffix is a host like any other, but what is registered below it is not part of it.
        return HOST + HOST.join(labels[:count]) if count else host + SCHEME


def rendezvous(site: str, gatherers: Iterable[str]) -> str:
    """One of the gatherers, by chance that depends on nothing but the names.

    The highest of the hashes of site and gatherer wins. So when one joins or leaves, exactly the sites that
    it wins or had won change their owner, and each gatherer has an equal share on average.
    """
    return max(gatherers, key=lambda gatherer: (_hash(site, gatherer), gatherer))


def _hash(site: str, gatherer: str) -> bytes:
    return hashlib.blake2b(f"{gatherer}\0{site}".encode(), digest_size=8).digest()
