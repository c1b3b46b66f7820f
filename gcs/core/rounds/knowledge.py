"""What passes from one leader to the next: merged statistics, and what the strategy keeps for itself.

The common part is the same for every strategy, so that one can be exchanged for another between rounds. Its
levels are those of the last round. They count, in the next one, for what is held by those who do not report.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import Any, Final

import msgpack
import numpy as np

from gcs.core import superpages
from gcs.core.placement import Plan
from gcs.core.placement.learned import Learned
from gcs.core.placement.paces import FloatArray
from gcs.core.placement.superpage import VISITED_WORK
from gcs.core.rounds.ground import Ground
from gcs.core.rounds.records import Report
from gcs.core.rounds.sides import NOBODY
from gcs.core.tree import Expansion
from gcs.core.urls import HOST

VERSION: Final = 1
MOST_SITES: Final = 50_000
_GROWTH: Final = 1.05
"""Superpages are cut anew when there are so many times as many visits as when they were cut."""


class Knowledge:
    """Statistics of everything that was reported so far."""

    def __init__(self, gatherers: Sequence[str], expansion: Expansion) -> None:
        self.expansion = expansion
        self.learned = Learned(gatherers)
        self.queued: FloatArray = np.zeros(len(expansion.superpages))
        self.done: FloatArray = np.zeros(len(expansion.superpages))
        self.prices: Mapping[str, float] = {}
        self.strategy = ""
        self.own: Any = None
        """What the strategy keeps for itself, as plain values."""
        self._cut_at = 0.0
        self._cut_for = 0

    @property
    def work(self) -> FloatArray:
        """What is left to do in each superpage: its queue, and a little for pages that may lead on."""
        return self.queued + VISITED_WORK * np.array(self.expansion.visits)

    @property
    def rows(self) -> FloatArray:
        """The known URLs of each superpage, which are what moves when it changes hands."""
        return self.queued + self.done

    def take_in(self, reports: Sequence[Report], gatherers: Sequence[str], holdings: Plan) -> None:
        """Merge a round's reports, those in another expansion without their counts."""
        counted = _counted(reports, self.expansion)
        self.expansion.merge(counted.values())
        heard = {NOBODY, *counted}
        silent = Ground(self.expansion).share(lambda key: holdings.owner(key) not in heard)
        self.queued = np.array(self.expansion.queued) + silent * self.queued
        self.done = np.array(self.expansion.done) + silent * self.done
        self.expansion.clear_levels()
        if tuple(gatherers) != self.learned.gatherers:
            self.learned.regroup(gatherers)
        for report in reports:
            if _finite(*report.crossing):
                self.expansion.communication[report.gatherer].add(*report.crossing)
            for site, (pages, seconds) in sorted(report.paces.items()):
                if site.startswith(HOST) and _finite(pages, seconds):
                    self.learned.observe(site, report.gatherer, seconds, pages)
        for table in (self.expansion.rates, self.expansion.communication):
            for gone in table.keys() - {*gatherers}:
                del table[gone]

    def learn(self, sites: Iterable[str]) -> None:
        """Close the round; these sites are known too."""
        for site in sites:
            self.learned.know(site)
        self.learned.learn()
        self.learned.keep(MOST_SITES)

    def cut(self, gatherers: int, delta: float, random: Random) -> None:
        """Make new superpages where there is much that is new, or for another number of gatherers."""
        total = self.expansion.total()
        if not total or (total < self._cut_at and gatherers == self._cut_for):
            return
        self.expansion.queued, self.expansion.done = self.queued.tolist(), self.done.tolist()
        made = superpages.create(self.expansion, gatherers, delta, random=random)
        self.expansion = made.expansion
        self.queued, self.done = np.array(made.queued), np.array(made.done)
        self._cut_at, self._cut_for = max(1.0, _GROWTH * total), gatherers

    def to_bytes(self) -> bytes:
        """Everything, compactly, with a version."""
        state = {
            "version": VERSION,
            "expansion": self.expansion.to_bytes(),
            "learned": self.learned.state(),
            "queued": self.queued.tobytes(),
            "done": self.done.tobytes(),
            "prices": self.prices,
            "cut": (self._cut_at, self._cut_for),
            "strategy": self.strategy,
            "own": self.own,
        }
        packed: bytes = msgpack.packb(state)
        return zlib.compress(packed, 1)

    @classmethod
    def from_bytes(cls, data: bytes) -> Knowledge:
        """What `to_bytes` gave; raises ValueError for anything else or another version."""
        try:
            state: Any = msgpack.unpackb(zlib.decompress(data), use_list=False, strict_map_key=False)
            version = state["version"]
        except (zlib.error, ValueError, TypeError, KeyError, msgpack.exceptions.UnpackException):
            raise ValueError("these are not the bytes of a leader's state") from None
        if version != VERSION:
            raise ValueError(f"a leader's state of version {version}; this program reads version {VERSION}")
        try:
            return cls._restored(state)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError):
            raise ValueError("these are the bytes of a damaged leader's state") from None

    @classmethod
    def _restored(cls, state: Mapping[str, Any]) -> Knowledge:
        made = cls(state["learned"]["gatherers"], Expansion.from_bytes(state["expansion"]))
        made.learned = Learned.restored(state["learned"])
        made.queued, made.done = (np.frombuffer(state[level]).copy() for level in ("queued", "done"))
        if not len(made.queued) == len(made.done) == len(made.expansion.superpages):
            raise ValueError("levels for each superpage")
        made.prices = dict(state["prices"])
        made._cut_at, made._cut_for = state["cut"]
        made.strategy, made.own = state["strategy"], state["own"]
        return made


def restored(state: bytes | None, reports: Sequence[Report], gatherers: Sequence[str]) -> Knowledge:
    """The last leader's knowledge; without it, nothing, in the expansion in which most gatherers count."""
    if state is not None:
        return Knowledge.from_bytes(state)
    counted = [found for report in reports if (found := _read(report.expansion)) is not None]
    votes: dict[tuple[tuple[str, int], ...], list[Expansion]] = {}
    for expansion in counted:
        votes.setdefault(tuple(expansion.boundaries()), []).append(expansion)
    ranked = sorted(
        votes.items(), key=lambda item: (-len(item[1]), -sum(e.total() for e in item[1]), item[0])
    )
    return Knowledge(gatherers, ranked[0][1][0].fresh() if ranked else Expansion())


def _counted(reports: Sequence[Report], into: Expansion) -> dict[str, Expansion]:
    """What was counted in this expansion, by gatherer."""
    boundaries = into.boundaries()
    found = {report.gatherer: _read(report.expansion) for report in reports}
    return {who: seen for who, seen in found.items() if seen is not None and seen.boundaries() == boundaries}


def _finite(amount: float, seconds: float) -> bool:
    """Whether these can be counted; one that is not a number would never be forgotten."""
    return math.isfinite(amount) and math.isfinite(seconds)


def _read(data: bytes) -> Expansion | None:
    try:
        return Expansion.from_bytes(data)
    except ValueError:
        return None
