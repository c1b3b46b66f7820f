"""What a gatherer reports to a leader, as bytes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgpack

from gcs.core.placement import Sites
from gcs.core.rounds import Report
from gcs.core.tree import Expansion
from gcs.core.urls import AFTER, PATH
from gcs.store.records import HostCounts

Range = tuple[str, str | None]


@dataclass(frozen=True, slots=True)
class Account:
    """A report, what its gatherer has rows of, and which charter it heads for."""

    report: Report
    holds: Sequence[Range]
    heading: int
    """The epoch of the newest charter that it follows, or may follow soon."""
    came_back: Sequence[str] = ()
    """Those of the lost of whom something has come here since they were."""

    def to_bytes(self) -> bytes:
        """As it is sent."""
        report = self.report
        packed: bytes = msgpack.packb(
            {
                "gatherer": report.gatherer,
                "expansion": report.expansion,
                "paces": dict(report.paces),
                "crossing": report.crossing,
                "delays": dict(report.delays),
                "together": list(report.together),
                "cap": report.cap,
                "holds": list(self.holds),
                "heading": self.heading,
                "came_back": list(self.came_back),
            }
        )
        return packed

    @classmethod
    def from_bytes(cls, data: bytes) -> Account:
        """What `to_bytes` gave."""
        said: dict[str, Any] = msgpack.unpackb(data, use_list=False)
        holds = [(start, end) for start, end in said.pop("holds")]
        heading, came_back = said.pop("heading", 0), said.pop("came_back", ())  # new since earlier versions
        return cls(Report(**said), holds, heading, came_back)


def levels(expansion: bytes, hosts: Iterable[HostCounts]) -> bytes:
    """An expansion in which it stands how much is queued and done in each superpage.

    What is known of a host that lies in several superpages is shared out by their visits.
    """
    tree = Expansion.from_bytes(expansion)
    tree.clear_levels()
    starts = [start for start, _ in tree.boundaries()]
    for host in hosts:
        if not host.queued and not host.done:
            continue
        pages = _superpages(tree, starts, host.host)
        weights = [tree.visits[page] + 1 for page in pages]
        whole = sum(weights)
        for page, weight in zip(pages, weights, strict=True):
            tree.queued[page] += host.queued * weight / whole
            tree.done[page] += host.done * weight / whole
    return tree.to_bytes()


def _superpages(tree: Expansion, starts: Sequence[str], host: str) -> list[int]:
    """The superpages in which a host lies."""
    pages = {tree.locate_index(host + PATH): None}
    boundaries = tree.boundaries()
    for at in range(bisect_left(starts, host + PATH), bisect_left(starts, host + AFTER)):
        pages[boundaries[at][1]] = None
    return list(pages)


def by_site(hosts: Iterable[tuple[str, float, float]], sites: Sites) -> dict[str, tuple[float, float]]:
    """Pages and seconds by site, from those by host."""
    found: dict[str, list[float]] = {}
    for host, pages, seconds in hosts:
        seen = found.setdefault(sites.of(host + PATH), [0.0, 0.0])
        seen[0] += pages
        seen[1] += seconds
    return {site: (pages, seconds) for site, (pages, seconds) in found.items()}
