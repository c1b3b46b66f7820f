"""The superpage strategy: groups shared out so that all finish together. (003, sections 4.5 and 5.)

What is shared out are groups of superpages (`groups`), and sites that are singled out of them. What lies in
the ranges of pinned gatherers is not shared out, but counted as theirs.

Partition I comes first. Where links that cross would then take more than 5% of the largest T, or where it is
asked for, Partition II follows. That one shares out whole groups, for links are not counted by site.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from gcs.core import partition
from gcs.core.partition import prices
from gcs.core.partition.problem import summed
from gcs.core.placement import Plan, Probe, Sites
from gcs.core.placement.learned import NONE
from gcs.core.placement.paces import FloatArray, IntArray
from gcs.core.placement.units import Known, Units, single_out
from gcs.core.plan import compiled
from gcs.core.rounds.foresight import Foreseen, bound_of, point_paces
from gcs.core.rounds.ground import Ground
from gcs.core.rounds.groups import grouped
from gcs.core.rounds.knowledge import Knowledge
from gcs.core.rounds.links import Links, links_between
from gcs.core.rounds.records import Terms
from gcs.core.rounds.sides import NOBODY, Sides

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


class Sharing:
    """One round's decision; holds what several of its steps look at."""

    def __init__(
        self, terms: Terms, knowledge: Knowledge, sides: Sides, sites: Sites, caps: Mapping[str, float]
    ) -> None:
        learned, ground = knowledge.learned, Ground(knowledge.expansion)
        self._terms, self._knowledge, self._sides, self._ground = terms, knowledge, sides, ground
        self._caps = np.array([caps.get(gatherer, np.inf) for gatherer in sides.free])
        self._groups = grouped(knowledge.expansion, learned, sites, split_hosts=terms.split_hosts)
        self._group = np.array([self._groups.of(key) for key in ground.keys], dtype=np.int64)
        self._site = np.array([learned.number(sites.of(key)) if key else NONE for key in ground.keys])
        self._holder = ground.owners(sides.holdings)
        self._fixed = np.array([holder in sides.pinned for holder in self._holder], dtype=bool)
        self._work, self._rows = self._left(knowledge.work), self._left(knowledge.rows)
        group = np.array([self._groups.of(site) for site in learned.names], dtype=np.int64)
        self._belief = learned.paces.belief(group)
        columns = [learned.gatherers.index(gatherer) for gatherer in sides.free]
        already = set(knowledge.own or ()) if knowledge.strategy == "superpage" else ()
        # What is fetched from sites of the pinned says nothing about what the others share.
        fixed = np.array([sides.holdings.owner(site) in sides.pinned for site in learned.names], dtype=bool)
        self._known = Known(
            group,
            self._groups.inside,
            np.where(fixed, 0.0, learned.weight),
            self._belief.pace[:, columns],
            learned.paces.tried[:, columns],
            np.array([site in already for site in learned.names], dtype=bool),
        )

    def shared(self) -> tuple[Plan, Foreseen]:
        """Share out by Partition I, or by II where crossing links matter; new prices are kept.

        The plan is one for the free gatherers: what the pinned hold is still to be put back.
        """
        free, groups = self._sides.free, len(self._groups)
        before = np.array([self._knowledge.prices.get(gatherer, 1.0) for gatherer in free])
        units = single_out(self._work, self._known, before, SINGLES)
        found = prices.find(_costs(units), rounds=_PRICE_ROUNDS)
        # What is singled out depends on prices, and the next prices on that: a mean keeps them from swinging.
        after = np.sqrt(before * found.each * len(free))
        self._knowledge.prices = dict(zip(free, after.tolist(), strict=True))
        method, owner = "I", self._first(units, found)
        times = _times(owner, _costs(units))
        links = links_between(self._knowledge, self._sides, self._group_of_page(), groups)
        if links is not None and self._matter(links.cost(owner[:groups]), times):
            method, units = "II", single_out(self._work, self._known, before, 0)
            owner = self._second(units, links)
            times = _times(owner, _costs(units)) + links.cost(owner)
        self._knowledge.strategy = "superpage"
        self._knowledge.own = [self._knowledge.learned.names[site] for site in units.singled]
        foreseen = {**dict(zip(free, times.tolist(), strict=True)), **self._fixed_times()}
        least = [foreseen[gatherer] for gatherer in self._sides.pinned]
        bound = max([bound_of(units.weights, units.paces), *least])
        return self._planned(units, owner), Foreseen(foreseen, bound, method)

    def probes(self, plan: Plan, rng: np.random.Generator) -> list[Probe]:
        """What is worth being tried elsewhere, but not by who is leaving."""
        learned = self._knowledge.learned
        index = {gatherer: number for number, gatherer in enumerate(learned.gatherers)}
        owner = np.array([index[plan.owner(site)] for site in learned.names], dtype=np.int64)
        each = np.array([self._knowledge.prices.get(gatherer, 1.0) for gatherer in learned.gatherers])
        each[[index[gatherer] for gatherer in self._sides.leaving]] = np.inf
        most = min(PROBES, int(PROBING * learned.weight.sum()))
        return learned.probes(self._belief, owner, each, rng, most=most)

    # What is to be shared out

    def _left(self, amounts: FloatArray) -> FloatArray:
        """What each group has of an amount per superpage, without what the pinned hold."""
        free = ~self._fixed
        return summed(self._group[free], self._ground.spread(amounts)[free], len(self._groups))

    def _fixed_times(self) -> dict[str, float]:
        """T of the pinned."""
        paces = point_paces(self._site, self._group, self._known.group, self._belief, len(self._groups))
        seconds = self._ground.spread(self._knowledge.work)[:, np.newaxis] * paces
        column, times = self._knowledge.learned.gatherers.index, dict.fromkeys(self._sides.pinned, 0.0)
        for point in np.flatnonzero(self._fixed).tolist():
            holder = self._holder[point]
            times[holder] += float(seconds[point, column(holder)])
        return times

    def _sizes(self, units: Units) -> FloatArray:
        """Rows of each unit: a site that is singled out takes its part of its group's along."""
        count = len(self._groups)
        per_work = np.divide(self._rows, self._work, out=np.zeros(count), where=self._work > 0)
        singled = units.weights[count:] * per_work[units.whole]
        gone = summed(units.whole, singled, count)
        return np.concatenate([np.maximum(self._rows - gone, 0.0), singled])

    def _current(self, units: Units) -> IntArray:
        """Who holds most of each unit, by weight and else by ranges; NONE where that is nobody who stays."""
        holdings, names = self._sides.holdings, self._knowledge.learned.names
        singles = len(self._groups) + np.arange(len(units.singled))
        single = np.full(len(names) + 1, NONE)  # the last one is for points without a site
        single[units.singled] = singles
        unit = np.where(single[self._site] != NONE, single[self._site], self._group)
        weight = self._ground.spread(self._knowledge.expansion.visits) + _TRACE
        votes = [*zip(unit.tolist(), self._holder, weight.tolist(), strict=True)]
        pieces = zip(self._groups.number, self._groups.starts, strict=True)
        votes += [(number, holdings.owner(start), _TRACE) for number, start in pieces]
        starts = [names[site] for site in units.singled]
        votes += [(n, holdings.owner(start), _TRACE) for n, start in zip(singles, starts, strict=True)]
        free = {gatherer: number for number, gatherer in enumerate(self._sides.free)}
        others, passed_over = len(free), {NOBODY, *self._sides.pinned}
        counted = np.zeros((len(units.weights), others + 1))
        for number, holder, part in votes:
            if holder not in passed_over:
                counted[number, free.get(holder, others)] += part
        most = counted.argmax(axis=1)
        return np.where((counted.max(axis=1) > 0) & (most < others), most, NONE)

    # Who gets it

    def _first(self, units: Units, found: prices.Prices) -> IntArray:
        """Partition I: today's owners, as long as no others would finish much sooner."""
        current, sizes = self._current(units), self._sizes(units)
        if (current != NONE).all():
            fits = (summed(current, sizes, len(self._caps)) <= self._caps).all()
            if fits and _times(current, _costs(units)).max() <= (1 + self._terms.worth) * found.bound:
                return current
        shared = partition.assign(
            units.weights,
            1 / units.paces.T,
            terms=self._moving(current, sizes, _costs(units)),
            worth=self._terms.worth,
        )
        return self._worthwhile(current, shared.owner)

    def _second(self, units: Units, links: Links) -> IntArray:
        """Partition II; links to what the pinned hold cross whoever has the other end."""
        costs = _costs(units) + links.to_pinned[:, np.newaxis] / links.rates
        weights = costs.min(axis=1)
        rates = np.divide(weights[:, np.newaxis], costs, out=np.ones_like(costs), where=costs > 0)
        current = self._current(units)
        shared = partition.assign(
            weights,
            rates.T,
            links=links.between,
            comm_rates=links.rates,
            terms=self._moving(current, self._sizes(units), costs),
            worth=self._terms.worth,
        )
        return self._worthwhile(current, shared.owner)

    def _matter(self, crossing: FloatArray, times: FloatArray) -> bool:
        """Whether it is to be Partition II."""
        dear = bool(crossing.max() > _DEAR * times.max())
        return dear if self._terms.method == "auto" else self._terms.method == "II"

    def _moving(self, current: IntArray, sizes: FloatArray, costs: FloatArray) -> partition.Terms:
        seconds = _MOVING * float(costs.sum(axis=0).mean()) / max(float(sizes.sum()), 1.0)
        return partition.Terms(current=current, move_cost=seconds, sizes=sizes, caps=self._caps)

    def _worthwhile(self, current: IntArray, owner: IntArray) -> IntArray:
        """What is decided, unless there is too little work for anything to be moved."""
        stays = (current != NONE) & bool(self._knowledge.queued.sum() < LITTLE)
        return np.where(stays, current, owner).astype(np.int64)

    def _group_of_page(self) -> IntArray:
        """The group in which most of each superpage lies, or NONE where the pinned hold that."""
        pages, count = self._ground.superpages, len(self._groups) + 1
        place = np.where(self._fixed, 0, self._group + 1)
        parts = summed(self._ground.page * count + place, self._ground.part, pages * count)
        most: IntArray = parts.reshape(pages, count).argmax(axis=1) - 1
        return most

    def _planned(self, units: Units, owner: IntArray) -> Plan:
        free, names = self._sides.free, self._knowledge.learned.names
        pieces = zip(self._groups.starts, self._groups.number, strict=True)
        base = Plan.of((start, free[owner[number]]) for start, number in pieces)
        singled = zip(units.singled, owner[len(self._groups) :], strict=True)
        return compiled({names[site]: free[number] for site, number in singled}, base)


def _costs(units: Units) -> FloatArray:
    costs: FloatArray = units.weights[:, np.newaxis] * units.paces
    return costs


def _times(owner: IntArray, costs: FloatArray) -> FloatArray:
    return summed(owner, costs[np.arange(len(costs)), owner], costs.shape[1])
