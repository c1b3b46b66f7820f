"""Placement by superpages, with rates that are learned. (003, sections 4.5 and 5.)

A replan cuts superpages from what was visited, asks what each gatherer takes for each of them, and shares
them out so that all finish together (Partition I). What a page takes is learned per site (`paces`), from
fetches and from some probes, without which a gatherer never learns that it is the nearest.

A site that differs from its superpage is *singled out* and becomes a superpage of its own (`units`), but
there are never more than `singles` of these beyond the superpages of the creation.

Probes go where they may pay: a pace that might be true is drawn for every pair, and a gatherer for which it
is smaller than for the owner is tried. So there are many while little is known, and few when all is. They are
at most the share `probing` of all pages, those with the most to gain first.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

import numpy as np

from gcs.core import partition, superpages
from gcs.core.partition import prices
from gcs.core.placement.interface import Probe, named
from gcs.core.placement.learned import NONE, Learned
from gcs.core.placement.paces import IntArray, Paces
from gcs.core.placement.units import Known, Units, single_out
from gcs.core.plan import Domain, Plan, Sites, compiled, rendezvous
from gcs.core.tree import Expansion

VISITED_WORK: Final = 0.01
"""The part of a visited page that counts as work left: it may have links that lead on."""
_GROWTH: Final = 1.05
"""Superpages are cut anew when there are so many times as many visits as when they were cut."""
_PRICE_ROUNDS: Final = 60
_MOVING: Final = 0.1
"""To hand a superpage over takes this share of what it takes to crawl it."""


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
        self.expansion = Expansion() if expansion is None else expansion
        self._learned = Learned(gatherers, memory=memory, surprise=surprise)
        self._sites = Sites(domain)
        self._rng = rng
        self._delta, self._probing, self._singles, self._worth = delta, probing, singles, worth
        self._cut_at = 0.0
        self._plan: Plan | None = None
        self._base: Plan | None = None
        """The plan without the sites that are singled out."""
        self._work = np.zeros(0)
        self._probes: list[Probe] = []
        self._prices = np.ones(len(gatherers))

    @property
    def paces(self) -> Paces:
        """What is known of how long a page takes."""
        return self._learned.paces

    def owner(self, key: str) -> str:
        """By the plan; before there is one, sites are dealt by a hash."""
        return self._plan.owner(key) if self._plan else rendezvous(self._sites.of(key), self._gatherers)

    def observe(self, key: str, gatherer: str, seconds: float, *, pages: int = 1) -> None:
        """Note what a gatherer took for pages of this key's site, its own or not; a stranger is ignored."""
        self._learned.observe(self._sites.of(key), gatherer, seconds, pages)

    def probes(self) -> Sequence[Probe]:
        """Where, by what is known, another gatherer may be faster than the owner."""
        return self._probes

    def replan(self, gatherers: Sequence[str] | None = None) -> Plan:
        """Learn, cut, share out; and choose what to probe until the next time."""
        if gatherers is not None and tuple(gatherers) != self._gatherers:
            self._learned.regroup(named(gatherers))
            self._prices = np.ones(len(gatherers))
        learned = self._learned
        learned.learn()
        self._cut()
        expansion = self.expansion
        page = np.array([expansion.locate_index(site) for site in learned.names], dtype=np.int64)
        inside = [learned.around(superpage.prefix, self._sites) for superpage in expansion.superpages]
        belief = learned.paces.belief(page)
        known = Known(page, np.array(inside, dtype=np.int64), learned.weight, belief.pace)
        units = single_out(self._work, known, self._prices, self._singles)
        self._plan = self._planned(units, self._shared_out(units))
        index = {gatherer: number for number, gatherer in enumerate(self._gatherers)}
        owner = np.array([index[self._plan.owner(site)] for site in learned.names], dtype=np.int64)
        most = int(self._probing * learned.weight.sum())
        self._probes = learned.probes(belief, owner, self._prices, self._rng, most=most)
        return self._plan

    @property
    def _gatherers(self) -> tuple[str, ...]:
        return self._learned.gatherers

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

    def _shared_out(self, units: Units) -> IntArray:
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

    def _current(self, units: Units) -> IntArray:
        """Who owns each unit today; NONE where that has left, or before the first plan."""
        if self._plan is None or self._base is None:
            return np.full(len(units.weights), NONE, dtype=np.int64)
        index = {gatherer: number for number, gatherer in enumerate(self._gatherers)}
        owners = [self._base.owner(superpage.start) for superpage in self.expansion.superpages]
        owners += [self._plan.owner(self._learned.names[site]) for site in units.singled]
        return np.array([index.get(owner, NONE) for owner in owners], dtype=np.int64)

    def _planned(self, units: Units, owners: IntArray) -> Plan:
        names = self._gatherers
        self._base = Plan.of((start, names[owners[number]]) for start, number in self.expansion.boundaries())
        of_singles = owners[len(self.expansion.superpages) :]
        sites = [self._learned.names[site] for site in units.singled]
        singled = {site: names[o] for site, o in zip(sites, of_singles, strict=True)}
        return compiled(singled, self._base)
