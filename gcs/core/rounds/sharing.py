"""The superpage strategy: cut superpages shared out so that all finish together. (003, sections 4.5 and 5.)

What is shared out are *groups*: superpages, but all that lie inside one host are one group unless hosts may
be split; and then sites that are singled out of them. What lies in the ranges of pinned gatherers is not
shared out, but counted as theirs.

Partition I comes first. Where links that cross would then take more than 5% of the largest T, or where it is
asked for, Partition II follows. That one shares out whole groups, for links are not counted by site.
"""

from __future__ import annotations

import bisect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from gcs.core import partition
from gcs.core.partition import prices
from gcs.core.partition.problem import summed
from gcs.core.placement import Plan, Probe, Sites
from gcs.core.placement.learned import NONE
from gcs.core.placement.paces import FloatArray, IntArray
from gcs.core.placement.plan import compiled, end_of
from gcs.core.placement.units import Known, Units, single_out
from gcs.core.rounds.foresight import Foreseen, bound_of, point_paces
from gcs.core.rounds.ground import Ground
from gcs.core.rounds.knowledge import Knowledge
from gcs.core.rounds.records import Terms
from gcs.core.rounds.sides import NOBODY, Sides, cut_hosts, uncut
from gcs.core.tree import Expansion

SINGLES: Final = 2_000
"""Sites that are singled out at most: each makes the plan two pieces longer."""
PROBES: Final = 2_000
PROBING: Final = 0.1
"""Probes are at most this share of the pages of the last round."""
LITTLE: Final = 20
"""With fewer URLs than this in all queues nothing is worth being moved."""
_DEAR: Final = 0.05
"""Crossing links matter when they take more than this share of the largest T."""
_MOVING: Final = 0.1
"""To hand everything over takes this share of what it takes to crawl it."""
_PRICE_ROUNDS: Final = 60
_TRACE: Final = 1e-9
"""What a place without any weight counts when holders are compared."""


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """The flat list of groups: `number[i]` has the keys from `starts[i]` up to the next start."""

    starts: Sequence[str]
    number: Sequence[int]
    sites: IntArray
    """The site that each group is part of, or NONE."""

    def of(self, key: str) -> int:
        """The group of a key."""
        return self.number[bisect.bisect_right(self.starts, key) - 1]

    def __len__(self) -> int:
        return len(self.sites)


def grouped(expansion: Expansion, knowledge: Knowledge, sites: Sites, *, split_hosts: bool) -> Groups:
    """Superpages, those inside one host together unless hosts may be split."""
    pieces = expansion.boundaries()
    prefixes = [superpage.prefix for superpage in expansion.superpages]
    if not split_hosts:
        hosts = {h: len(prefixes) + n for n, h in enumerate(cut_hosts(start for start, _ in pieces))}
        pieces = uncut(pieces, hosts, expansion.locate_index)
        prefixes += hosts
    used = sorted({number for _, number in pieces})
    again = {number: place for place, number in enumerate(used)}
    starts, numbers = zip(*pieces, strict=True)
    learned = knowledge.learned
    inside = [learned.number(sites.of(prefixes[n])) if prefixes[n] else NONE for n in used]
    parts = [
        s if s != NONE and learned.names[s] <= prefixes[n] < end_of(learned.names[s]) else NONE
        for n, s in zip(used, inside, strict=True)
    ]
    return Groups(starts, [again[n] for n in numbers], np.array(parts, dtype=np.int64))


class Sharing:
    """One round's decision; holds what several of its steps look at."""

    def __init__(self, terms: Terms, knowledge: Knowledge, sides: Sides, sites: Sites) -> None:
        self._terms, self._knowledge, self._sides = terms, knowledge, sides
        expansion, learned = knowledge.expansion, knowledge.learned
        self._groups = grouped(expansion, knowledge, sites, split_hosts=terms.split_hosts)
        self._ground = Ground(expansion)
        self._holder = self._ground.owners(sides.holdings)
        self._group_of = np.array([self._groups.of(key) for key in self._ground.keys], dtype=np.int64)
        self._site_of = np.array([learned.number(sites.of(k)) if k else NONE for k in self._ground.keys])
        self._held_fast = np.array([holder in sides.pinned for holder in self._holder], dtype=bool)
        site_group = np.array([self._groups.of(site) for site in learned.names], dtype=np.int64)
        self.belief = learned.paces.belief(site_group)
        self._columns = [learned.gatherers.index(gatherer) for gatherer in sides.free]
        # What is fetched from sites of the pinned says nothing about what the others share.
        fast = np.array([sides.holdings.owner(site) in sides.pinned for site in learned.names], dtype=bool)
        self._known = Known(
            site_group,
            self._groups.sites,
            np.where(fast, 0.0, learned.weight),
            self.belief.pace[:, self._columns],
            learned.paces.tried[:, self._columns],
        )
        self._work = self._of_groups(knowledge.work)
        self._rows = self._of_groups(knowledge.rows)
        self._caps: Sequence[float] = [np.inf] * len(sides.free)

    def shared(self, caps: Mapping[str, float]) -> tuple[Plan, Foreseen]:
        """Share out by Partition I, or by II where crossing links matter; new prices are kept.

        The plan is one for the free gatherers: what the pinned hold is still to be put back.
        """
        self._caps = [caps.get(gatherer, np.inf) for gatherer in self._sides.free]
        before = np.array([self._knowledge.prices.get(gatherer, 1.0) for gatherer in self._sides.free])
        units = single_out(self._work, self._known, before, SINGLES)
        costs = units.weights[:, np.newaxis] * units.paces
        found = prices.find(costs, rounds=_PRICE_ROUNDS)
        # What is singled out depends on prices, and the next prices on that: a mean keeps them from swinging.
        after = np.sqrt(before * found.each * len(before))
        self._knowledge.prices = dict(zip(self._sides.free, after.tolist(), strict=True))
        owner = self._first(units, found)
        method, times = "I", _times(owner, costs)
        links = self._links()
        if links is not None and self._matter(links, owner[: len(self._groups)], times):
            method = "II"
            units = single_out(self._work, self._known, before, 0)
            owner, times = self._second(units, links)
        fixed = self._fixed()
        named = {**dict(zip(self._sides.free, times.tolist(), strict=True)), **fixed}
        bound = max([bound_of(units.weights, units.paces), *fixed.values()])
        return self._planned(units, owner), Foreseen(named, bound, method)

    def probes(self, plan: Plan, rng: np.random.Generator) -> list[Probe]:
        """What is worth being tried elsewhere, but not by who is leaving."""
        learned, sides = self._knowledge.learned, self._sides
        index = {gatherer: number for number, gatherer in enumerate(learned.gatherers)}
        owner = np.array([index[plan.owner(site)] for site in learned.names], dtype=np.int64)
        each = np.array([self._knowledge.prices.get(gatherer, 1.0) for gatherer in learned.gatherers])
        each[[index[gatherer] for gatherer in sides.leaving]] = np.inf
        most = min(PROBES, int(PROBING * learned.weight.sum()))
        return learned.probes(self.belief, owner, each, rng, most=most)

    def _of_groups(self, amounts: FloatArray) -> FloatArray:
        """What each group has of an amount per superpage, without what the pinned hold."""
        free = ~self._held_fast
        return summed(self._group_of[free], self._ground.spread(amounts)[free], len(self._groups))

    def _fixed(self) -> dict[str, float]:
        """T of the pinned."""
        work = self._ground.spread(self._knowledge.work)
        paces = point_paces(self._site_of, self._group_of, self._known.group, self.belief, len(self._groups))
        gatherers = self._knowledge.learned.gatherers
        seconds = {g: work * paces[:, gatherers.index(g)] for g in self._sides.pinned}
        return {g: float(each[[h == g for h in self._holder]].sum()) for g, each in seconds.items()}

    def _current(self, units: Units) -> IntArray:
        """Who holds most of each unit, by weight and else by ranges; NONE where that is nobody who stays."""
        free = {gatherer: number for number, gatherer in enumerate(self._sides.free)}
        others, count = len(free), len(self._groups)
        unit = self._group_of.copy()
        single = np.full(len(self._knowledge.learned), NONE)
        single[units.singled] = count + np.arange(len(units.singled))
        of_site = (
            np.where(self._site_of != NONE, single[self._site_of], NONE) if len(single) else unit * 0 - 1
        )
        unit = np.where(of_site != NONE, of_site, unit)
        holdings, names = self._sides.holdings, self._knowledge.learned.names
        places = [*zip(self._groups.number, map(holdings.owner, self._groups.starts), strict=True)]
        places += [(count + n, holdings.owner(names[site])) for n, site in enumerate(units.singled)]
        weight = self._ground.spread(np.array(self._knowledge.expansion.visits)) + _TRACE
        votes = np.zeros((len(units.weights), others + 1))
        for number, holder, part in zip(unit.tolist(), self._holder, weight.tolist(), strict=True):
            if holder != NOBODY and holder not in self._sides.pinned:
                votes[number, free.get(holder, others)] += part
        for number, holder in places:
            if holder != NOBODY and holder not in self._sides.pinned:
                votes[number, free.get(holder, others)] += _TRACE
        most = votes.argmax(axis=1)
        return np.where((votes.max(axis=1) > 0) & (most < others), most, NONE)

    def _sizes(self, units: Units) -> FloatArray:
        """Rows of each unit: a site that is singled out takes its part of its group's along."""
        count = len(self._groups)
        per_work = np.divide(self._rows, self._work, out=np.zeros(count), where=self._work > 0)
        singled = units.weights[count:] * per_work[units.whole]
        gone = np.bincount(units.whole, singled, count)
        return np.concatenate([np.maximum(self._rows - gone, 0.0), singled])

    def _first(self, units: Units, found: prices.Prices) -> IntArray:
        """Partition I: today's owners, as long as no others would finish much sooner."""
        current, sizes = self._current(units), self._sizes(units)
        costs = units.weights[:, np.newaxis] * units.paces
        if (current != NONE).all():
            fits = (np.bincount(current, sizes, len(self._caps)) <= np.array(self._caps) * (1 + 1e-9)).all()
            enough = (1 + self._terms.worth) * found.bound
            if fits and _times(current, costs).max() <= enough:
                return current
        terms = self._moving(current, sizes, float(costs.sum(axis=0).mean()))
        shared = partition.assign(units.weights, 1 / units.paces.T, terms=terms, worth=self._terms.worth)
        return self._worthwhile(current, shared.owner.astype(np.int64))

    def _second(self, units: Units, links: _Links) -> tuple[IntArray, FloatArray]:
        """Partition II, and its T."""
        current, sizes = self._current(units), self._sizes(units)
        # Links to what the pinned hold cross whoever has the other end.
        crossing = links.to_pinned[:, np.newaxis] / links.rates
        costs = units.weights[:, np.newaxis] * units.paces + crossing
        weighted = np.where(units.weights > 0, units.weights, 1.0)
        weights = np.where(costs.max(axis=1) > 0, weighted, 0.0)
        rates = (weighted[:, np.newaxis] / np.maximum(costs, _TRACE * weighted[:, np.newaxis])).T
        terms = self._moving(current, sizes, float(costs.sum(axis=0).mean()))
        shared = partition.assign(
            weights, rates, links=links.between, comm_rates=links.rates, terms=terms, worth=self._terms.worth
        )
        owner = self._worthwhile(current, shared.owner.astype(np.int64))
        told = partition.evaluate(owner, weights, rates, links=links.between, comm_rates=links.rates)
        return owner, told.times

    def _moving(self, current: IntArray, sizes: FloatArray, seconds: float) -> partition.Terms:
        cost = _MOVING * seconds / max(float(sizes.sum()), 1.0)
        return partition.Terms(current=current, move_cost=cost, sizes=sizes, caps=self._caps)

    def _worthwhile(self, current: IntArray, owner: IntArray) -> IntArray:
        """What is decided, unless there is too little work for anything to be moved."""
        little = self._knowledge.queued.sum() < LITTLE
        return np.where(little & (current != NONE), current, owner)

    def _links(self) -> _Links | None:
        """Links as the work that is left will bring them; None where they, or what they cost, are unknown."""
        expansion = self._knowledge.expansion
        measured = [expansion.communication[gatherer].per_second for gatherer in self._sides.free]
        known = [rate for rate in measured if rate]
        if self._terms.method == "I" or not known or not expansion.links:
            return None
        rates = np.array([rate or sum(known) / len(known) for rate in measured])
        pairs = np.array([(a, b, n) for (a, b), n in expansion.links.items()])
        fetched = self._knowledge.done.sum() or sum(expansion.visits)
        counts = pairs[:, 2] * self._knowledge.work.sum() / max(fetched, 1.0)
        place = self._places()
        ends = place[pairs[:, :2].astype(np.int64)]
        free = (ends != NONE).all(axis=1)
        to_pinned = np.zeros(len(self._groups))
        for mine, other in ((0, 1), (1, 0)):
            crossing = (ends[:, mine] != NONE) & (ends[:, other] == NONE)
            to_pinned += np.bincount(ends[crossing, mine], counts[crossing], len(self._groups))
        between = np.column_stack([ends[free], counts[free]])
        return _Links(between, to_pinned, rates)

    def _places(self) -> IntArray:
        """The group in which most of each superpage lies, or NONE where the pinned hold that."""
        pages, count = self._ground.superpages, len(self._groups)
        target = np.where(self._held_fast, count, self._group_of)
        parts = np.bincount(self._ground.page * (count + 1) + target, self._ground.part, pages * (count + 1))
        most = parts.reshape(pages, count + 1).argmax(axis=1)
        return np.where(most == count, NONE, most)

    def _matter(self, links: _Links, owner: IntArray, times: FloatArray) -> bool:
        if self._terms.method == "II":
            return True
        ends = owner[links.between[:, :2].astype(np.int64)]
        crossing = ends[:, 0] != ends[:, 1]
        border = np.bincount(owner, links.to_pinned, len(links.rates))
        for end in ends[crossing].T:
            border += np.bincount(end, links.between[crossing, 2], len(links.rates))
        return bool((border / links.rates).max() > _DEAR * times.max())

    def _planned(self, units: Units, owner: IntArray) -> Plan:
        free, names = self._sides.free, self._knowledge.learned.names
        count = len(self._groups)
        base = Plan.of(
            (start, free[owner[number]])
            for start, number in zip(self._groups.starts, self._groups.number, strict=True)
        )
        singled = {names[s]: free[o] for s, o in zip(units.singled, owner[count:], strict=True)}
        return compiled(singled, base)


@dataclass(frozen=True, slots=True, eq=False)
class _Links:
    """Links between groups, and of each to what the pinned hold; and how many a second each handles."""

    between: FloatArray
    to_pinned: FloatArray
    rates: FloatArray


def _times(owner: IntArray, costs: FloatArray) -> FloatArray:
    return summed(owner, costs[np.arange(len(costs)), owner], costs.shape[1])
