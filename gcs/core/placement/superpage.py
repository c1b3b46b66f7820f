"""Placement by superpages, with rates that are learned. (003, sections 4.5 and 5.)

A replan cuts superpages from what was visited, asks what each gatherer takes for each of them, and shares
them out so that all finish together (Partition I). What a page takes is learned per site (`paces`), from
fetches and from some probes, without which a gatherer never learns that it is the nearest.

Physical locality is poorly achieved where the sites of one superpage have different nearest gatherers (the
paper's fourth reason to repartition). Such a site is *singled out*: it becomes a superpage of its own, as by
a singleton expansion. So there are few superpages where neighbours are alike, and as many as sites where they
have nothing in common, but never more than `singles` beyond those of the creation.

Probes go where they may pay: a pace that might be true is drawn for every pair, and a gatherer for which it
is smaller than for the owner is tried. So there are many while little is known, and few when all is. They are
at most the share `probing` of all pages, those with the most to gain first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

import numpy as np

from gcs.core import partition, superpages
from gcs.core.partition import prices
from gcs.core.placement.interface import Probe, named
from gcs.core.placement.paces import Belief, FloatArray, IntArray, Paces
from gcs.core.placement.plan import Domain, Plan, Sites, compiled, end_of, rendezvous
from gcs.core.tree import Expansion

NONE: Final = -1
VISITED_WORK: Final = 0.01
"""The part of a visited page that counts as work left: it may have links that lead on."""
_GROWTH: Final = 1.05
"""Superpages are cut anew when there are so many times as many visits as when they were cut."""
_GAIN: Final = 0.1
"""A site that would gain less than this share of its time is not singled out, and not probed for."""
_LEAST_PACE: Final = 1e-6
"""Seconds a page: less is a clock that stood still."""
_PRICE_ROUNDS: Final = 60
_MOVING: Final = 0.1
"""To hand a superpage over takes this share of what it takes to crawl it."""


@dataclass(frozen=True, slots=True, eq=False)
class _Units:
    """What is shared out: superpages first, then sites that are singled out, which their superpages lack."""

    weights: FloatArray
    paces: FloatArray
    singled: IntArray
    whole: IntArray
    """The superpage in which each singled-out site lies."""


class SuperpagePlacement:
    """The owner of a superpage is the gatherer with which all are expected to finish first."""

    def __init__(
        self,
        gatherers: Sequence[str],
        *,
        domain: Domain,
        rng: np.random.Generator,
        expansion: Expansion | None = None,
        delta: float = superpages.DELTA,
        probing: float = 0.1,
        singles: int = 10_000,
        worth: float = 0.01,
        memory: float = 100.0,
        surprise: float = 7.0,
    ) -> None:
        """Begin with this expansion, in which the caller goes on counting visits.

        Before every replan the caller says what is queued, there too; a replan puts the levels back to zero.
        """
        self._gatherers = named(gatherers)
        self.expansion = Expansion() if expansion is None else expansion
        self.paces = Paces(len(gatherers), memory=memory, surprise=surprise)
        self._sites = Sites(domain)
        self._rng = rng
        self._delta, self._probing, self._singles, self._worth = delta, probing, singles, worth
        self._cut_at = 0.0
        self._plan: Plan | None = None
        self._base: Plan | None = None
        """The plan without the sites that are singled out."""
        self._names: list[str] = []
        self._number: dict[str, int] = {}
        self._weight = np.zeros(0)
        self._work = np.zeros(0)
        self._round: dict[tuple[int, int], list[float]] = {}
        self._probes: list[Probe] = []
        self._prices = np.ones(len(gatherers))

    def owner(self, key: str) -> str:
        """By the plan; before there is one, sites are dealt by a hash."""
        return self._plan.owner(key) if self._plan else rendezvous(self._sites.of(key), self._gatherers)

    def observe(self, key: str, gatherer: str, seconds: float, *, pages: int = 1) -> None:
        """Note what a gatherer took for pages of this key's site, its own or not; a stranger is ignored."""
        if gatherer not in self._gatherers or pages <= 0:
            return
        site = self._sites.of(key)
        number = self._number.setdefault(site, len(self._names))
        if number == len(self._names):
            self._names.append(site)
        seen = self._round.setdefault((number, self._gatherers.index(gatherer)), [0.0, 0.0])
        seen[0] += pages
        seen[1] += max(seconds, _LEAST_PACE * pages)

    def probes(self) -> Sequence[Probe]:
        """Where, by what is known, another gatherer may be faster than the owner."""
        return self._probes

    def replan(self, gatherers: Sequence[str] | None = None) -> Plan:
        """Learn, cut, share out; and choose what to probe until the next time."""
        if gatherers is not None and tuple(gatherers) != self._gatherers:
            self._regroup(named(gatherers))
        self._learn()
        self._cut()
        page, inside = self._pages()
        belief = self.paces.belief(page)
        units = self._units(belief, page, inside)
        owners = self._shared_out(units)
        self._plan = self._planned(units, owners)
        self._probes = self._chosen(belief)
        return self._plan

    def _regroup(self, gatherers: tuple[str, ...]) -> None:
        before = {gatherer: number for number, gatherer in enumerate(self._gatherers)}
        columns = [before.get(gatherer, NONE) for gatherer in gatherers]
        self.paces.regroup(np.array(columns, dtype=np.int64))
        self._prices = np.ones(len(gatherers))
        heirs = {old: new for new, old in enumerate(columns) if old != NONE}
        self._round = {(s, heirs[g]): seen for (s, g), seen in self._round.items() if g in heirs}
        self._gatherers = gatherers

    def _learn(self) -> None:
        """Close the round: its paces are learned, its pages are the weights of the sites."""
        self.paces.grow(len(self._names))
        pairs = np.array(list(self._round), dtype=np.int64).reshape(-1, 2)
        seen = np.array(list(self._round.values())).reshape(-1, 2)
        self.paces.learn(pairs[:, 0], pairs[:, 1], seen[:, 1] / seen[:, 0])
        pages = np.bincount(pairs[:, 0], seen[:, 0], len(self._names))
        before = np.pad(self._weight, (0, len(pages) - len(self._weight)))
        self._weight = np.where(pages > 0, pages, before)
        self._round.clear()

    def _cut(self) -> None:
        """Make new superpages where there is much that is new, and take the work that is left out of both."""
        queued: Sequence[float] = self.expansion.queued
        if self.expansion.total() >= self._cut_at:
            random = Random(int(self._rng.integers(2**62)))
            made = superpages.create(self.expansion, len(self._gatherers), self._delta, random=random)
            self.expansion, queued = made.expansion, made.queued
            self._cut_at = max(1.0, _GROWTH * self.expansion.total())
        self._work = np.array(queued) + VISITED_WORK * np.array(self.expansion.visits)
        self.expansion.clear_levels()

    def _pages(self) -> tuple[IntArray, IntArray]:
        """The superpage of each site, and the site of each superpage that is part of one, or NONE."""
        page = np.array([self.expansion.locate_index(site) for site in self._names], dtype=np.int64)
        inside = np.full(len(self.expansion.superpages), NONE, dtype=np.int64)
        for number, superpage in enumerate(self.expansion.superpages):
            if superpage.prefix:
                site = self._number.get(self._sites.of(superpage.prefix), NONE)
                if site != NONE and self._names[site] <= superpage.prefix < end_of(self._names[site]):
                    inside[number] = site
        return page, inside

    def _units(self, belief: Belief, page: IntArray, inside: IntArray) -> _Units:
        """Superpages with their weights and paces, and what is singled out of them."""
        weights, pace = self._work, belief.pace
        count = len(weights)
        # Sites share the weight of their superpage by the pages that were fetched of them.
        fetched = np.bincount(page, self._weight, count)
        scale = np.divide(weights, fetched, out=np.zeros(count), where=fetched > 0)
        weight = self._weight * scale[page]
        whole = inside[page] == NONE
        single = self._singled_out(weight * whole, pace, page, count)
        left = np.where(np.isin(np.arange(len(page)), single), 0.0, weight)
        paces = _averaged(left, pace, page, count)
        paces[inside != NONE] = pace[inside[inside != NONE]]
        gone = np.bincount(page[single], weight[single], count)
        return _Units(
            np.concatenate([np.maximum(weights - gone, 0.0), weight[single]]),
            np.concatenate([paces, pace[single]]),
            single,
            page[single],
        )

    def _singled_out(self, weight: FloatArray, pace: FloatArray, page: IntArray, count: int) -> IntArray:
        """The sites that would gain most by another owner than the one that is best for their superpage.

        Best is who takes the fewest seconds, and who takes the cheapest ones: seconds of a gatherer that is
        wanted by all are dear. Either is a reason.
        """
        fewest = _gain(weight, pace, page, count)
        cheapest = _gain(weight, pace * self._prices, page, count)
        gain = np.maximum(fewest, cheapest)
        worthwhile = np.flatnonzero(gain > 0)
        return worthwhile[np.argsort(-gain[worthwhile], kind="stable")][: self._singles]

    def _shared_out(self, units: _Units) -> IntArray:
        """An owner for each unit; those of today, as long as no others would finish much sooner."""
        costs = units.weights[:, np.newaxis] * units.paces
        found = prices.find(costs, rounds=_PRICE_ROUNDS)
        # What is singled out depends on prices, and the next prices on that: a mean keeps them from swinging.
        self._prices = np.sqrt(self._prices * found.each * len(self._gatherers))
        current = self._current(units)
        if (current != NONE).all():
            times = np.bincount(current, costs[np.arange(len(costs)), current], len(self._gatherers))
            if times.max() <= (1 + self._worth) * found.bound:
                return current
        moving = _MOVING * float((units.weights @ units.paces).mean()) / max(float(units.weights.sum()), 1e-9)
        terms = partition.Terms(current=current, move_cost=moving)
        shared = partition.assign(units.weights, 1 / units.paces.T, terms=terms, worth=self._worth)
        return shared.owner.astype(np.int64)

    def _current(self, units: _Units) -> IntArray:
        """Who owns each unit today; NONE where that has left, or before the first plan."""
        if self._plan is None or self._base is None:
            return np.full(len(units.weights), NONE, dtype=np.int64)
        index = {gatherer: number for number, gatherer in enumerate(self._gatherers)}
        owners = [self._base.owner(superpage.start) for superpage in self.expansion.superpages]
        owners += [self._plan.owner(self._names[site]) for site in units.singled]
        return np.array([index.get(owner, NONE) for owner in owners], dtype=np.int64)

    def _planned(self, units: _Units, owners: IntArray) -> Plan:
        names = self._gatherers
        self._base = Plan.of((start, names[owners[number]]) for start, number in self.expansion.boundaries())
        of_singles = owners[len(self.expansion.superpages) :]
        singled = {self._names[s]: names[o] for s, o in zip(units.singled, of_singles, strict=True)}
        return compiled(singled, self._base)

    def _chosen(self, belief: Belief) -> list[Probe]:
        """The probes with the most to gain, by paces that might be true, within the budget."""
        assert self._plan is not None
        index = {gatherer: number for number, gatherer in enumerate(self._gatherers)}
        owner = np.array([index[self._plan.owner(site)] for site in self._names], dtype=np.int64)
        drawn = belief.drawn(self._rng) * self._prices
        there = drawn[np.arange(len(owner)), owner][:, np.newaxis]
        saved = np.where(drawn < (1 - _GAIN) * there, there - drawn, 0.0)
        gain = (self._weight[:, np.newaxis] * saved).ravel()
        order = np.argsort(-gain, kind="stable")[: int(self._probing * self._weight.sum())]
        chosen = order[gain[order] > 0]
        sites, gatherers = np.divmod(chosen, len(self._gatherers))
        return [Probe(self._names[s], self._gatherers[g]) for s, g in zip(sites, gatherers, strict=True)]


def _averaged(weight: FloatArray, pace: FloatArray, page: IntArray, count: int) -> FloatArray:
    """The pace of each superpage for each gatherer: that of its sites, by weight, or that of all sites."""
    total = np.zeros((count, pace.shape[1]))
    np.add.at(total, page, weight[:, np.newaxis] * pace)
    weights = np.bincount(page, weight, count)[:, np.newaxis]
    overall = pace.mean(axis=0) if len(pace) else np.ones(pace.shape[1])
    return np.where(weights > 0, total / np.where(weights > 0, weights, 1.0), overall)


def _gain(weight: FloatArray, cost: FloatArray, page: IntArray, count: int) -> FloatArray:
    """What each site would save with its own best gatherer; 0 if that is little."""
    best = _averaged(weight, cost, page, count).argmin(axis=1)
    there, least = cost[np.arange(len(page)), best[page]], cost.min(axis=1, initial=np.inf)
    return np.where(there - least > _GAIN * there, weight * (there - least), 0.0)
