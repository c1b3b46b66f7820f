"""What is known of sites: how many pages were fetched of each, and what a page takes each gatherer.

Sites and gatherers have numbers here, those of their places in `names` and `gatherers`. Observations add up
in a round, and `learn` closes it. The tables are dense, sites by gatherers, so `keep` bounds them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from gcs.core.placement.interface import Probe, named
from gcs.core.placement.paces import Belief, FloatArray, IntArray, Paces
from gcs.core.plan import Sites, end_of

NONE: Final = -1
GAIN: Final = 0.1
"""A site that would gain less than this share of its time is not singled out, and not probed for."""
_LEAST_PACE: Final = 1e-6
"""Seconds a page: less is a clock that stood still."""


class Learned:
    """Sites with their weights and paces."""

    def __init__(self, gatherers: Sequence[str], *, memory: float = 100.0, surprise: float = 7.0) -> None:
        self.gatherers = named(gatherers)
        self.names: list[str] = []
        self.weight = np.zeros(0)
        """Pages of each site in the last round in which there were any."""
        self.paces = Paces(len(gatherers), memory=memory, surprise=surprise)
        self._number: dict[str, int] = {}
        self._round: dict[tuple[int, int], list[float]] = {}

    def __len__(self) -> int:
        return len(self.names)

    def number(self, site: str) -> int:
        """The number of a site, or NONE."""
        return self._number.get(site, NONE)

    def know(self, site: str) -> int:
        """The number of a site, which is known from now on."""
        number = self._number.setdefault(site, len(self.names))
        if number == len(self.names):
            self.names.append(site)
        return number

    def around(self, prefix: str, sites: Sites) -> int:
        """The number of the known site of which all keys with a prefix are, or NONE."""
        name = sites.of(prefix) if prefix else ""
        return self.number(name) if name and name <= prefix < end_of(name) else NONE

    def observe(self, site: str, gatherer: str, seconds: float, pages: float) -> None:
        """Note what a gatherer took for pages of a site; a stranger is ignored."""
        if gatherer not in self.gatherers or pages <= 0:
            return
        seen = self._round.setdefault((self.know(site), self.gatherers.index(gatherer)), [0.0, 0.0])
        seen[0] += pages
        seen[1] += max(seconds, _LEAST_PACE * pages)

    def regroup(self, gatherers: Sequence[str]) -> None:
        """Other gatherers: who stays keeps what is known of its paces."""
        before = {gatherer: number for number, gatherer in enumerate(self.gatherers)}
        self.gatherers = named(gatherers)
        columns = [before.get(gatherer, NONE) for gatherer in gatherers]
        self.paces.regroup(np.array(columns, dtype=np.int64))
        heirs = {old: new for new, old in enumerate(columns) if old != NONE}
        self._round = {(s, heirs[g]): seen for (s, g), seen in self._round.items() if g in heirs}

    def learn(self) -> None:
        """Close the round: its paces are learned, its pages are the weights of the sites."""
        self.paces.grow(len(self.names))
        pairs = np.array(list(self._round), dtype=np.int64).reshape(-1, 2)
        seen = np.array(list(self._round.values())).reshape(-1, 2)
        self.paces.learn(pairs[:, 0], pairs[:, 1], seen[:, 1] / seen[:, 0])
        pages = np.bincount(pairs[:, 0], seen[:, 0], len(self.names))
        before = np.pad(self.weight, (0, len(pages) - len(self.weight)))
        self.weight = np.where(pages > 0, pages, before)
        self._round.clear()

    def keep(self, most: int) -> None:
        """Forget the sites with the least weight beyond so many; between rounds only."""
        if len(self.names) <= most:
            return
        kept = np.sort(np.argsort(-self.weight, kind="stable")[:most])
        self.names = [self.names[number] for number in kept]
        self._number = {site: number for number, site in enumerate(self.names)}
        self.weight = self.weight[kept]
        self.paces.keep(kept)

    def probes(
        self, belief: Belief, owner: IntArray, prices: FloatArray, rng: np.random.Generator, *, most: int
    ) -> list[Probe]:
        """The probes with the most to gain, by paces that might be true."""
        drawn = belief.drawn(rng) * prices
        there = drawn[np.arange(len(owner)), owner][:, np.newaxis]
        saved = np.where(drawn < (1 - GAIN) * there, there - drawn, 0.0)
        gain = (self.weight[:, np.newaxis] * saved).ravel()
        order = np.argsort(-gain, kind="stable")[:most]
        chosen = order[gain[order] > 0]
        sites, gatherers = np.divmod(chosen, len(self.gatherers))
        return [Probe(self.names[s], self.gatherers[g]) for s, g in zip(sites, gatherers, strict=True)]

    def state(self) -> dict[str, Any]:
        """All of it, between rounds, as plain values."""
        return {
            "gatherers": self.gatherers,
            "names": self.names,
            "weight": self.weight.tobytes(),
            "paces": self.paces.state(),
        }

    @classmethod
    def restored(cls, state: Mapping[str, Any]) -> Learned:
        """What `state` was taken of; raises ValueError for parts that do not fit together."""
        made = cls(state["gatherers"])
        for name in state["names"]:
            made.know(name)
        made.weight = np.frombuffer(state["weight"])
        made.paces = Paces.restored(len(made.gatherers), state["paces"])
        if not len(made.names) == len(state["names"]) == len(made.weight) == len(made.paces):
            raise ValueError("as many names, weights and paces as there are sites")
        return made
