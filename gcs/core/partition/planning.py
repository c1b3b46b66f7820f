"""The public algorithms, put together from placing, pricing and searching."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from gcs.core.partition import prices as pricing
from gcs.core.partition.greedy import place, place_with_links
from gcs.core.partition.prices import Prices
from gcs.core.partition.problem import FREE, NOBODY, BoolArray, IntArray, Partition, Problem, Terms, problem
from gcs.core.partition.search import descend

_ROUNDS: Final = 150
"""Rounds of price finding at most; 60 are typical, and take a tenth of a second at k = 64, m = 10,000."""
_NEAR: Final = (0.02, 0.1, 0.4)
"""A superpage may go where it is this share dearer than at its cheapest; more where few leave no choice."""
_GOOD: Final = 5e-3
"""A makespan this close to the bound needs no further beginnings."""
_IDLE: Final = 0.5
_SLOW: Final = 1e-3
_FAST: Final = 2e-2
"""What a round of the search has to gain: little where it is all there is, more where all may begin anew."""
_ENOUGH: Final = 1e-3
"""A makespan this close to the bound is not improved any further."""


def greedy(weights: npt.ArrayLike, rates: npt.ArrayLike, *, terms: Terms = FREE) -> Partition:
    """Algorithm Superpage Partition I; the paper prints w_i/r_ij in step 3(a), and w_j/r_ij is meant."""
    given = problem(weights, rates, terms)
    return given.partition(place(given))


def greedy_with_links(
    weights: npt.ArrayLike,
    rates: npt.ArrayLike,
    links: npt.ArrayLike,
    comm_rates: npt.ArrayLike,
    *,
    terms: Terms = FREE,
) -> Partition:
    """Algorithm Superpage Partition II, or what I gives when that is better on II's own objective.

    `links` has rows (from, to, count) of superpages.
    """
    given = problem(weights, rates, terms, links, comm_rates)
    return _better(_placed(given), given.partition(place(given)))


def evaluate(
    owner: npt.ArrayLike,
    weights: npt.ArrayLike,
    rates: npt.ArrayLike,
    *,
    links: npt.ArrayLike | None = None,
    comm_rates: npt.ArrayLike | None = None,
    terms: Terms = FREE,
) -> Partition:
    """What an assignment is worth, whoever made it; raises ValueError for an owner who may not own."""
    return _evaluated(problem(weights, rates, terms, links, comm_rates), np.asarray(owner, np.intp))


def improve(
    start: Partition,
    weights: npt.ArrayLike,
    rates: npt.ArrayLike,
    *,
    links: npt.ArrayLike | None = None,
    comm_rates: npt.ArrayLike | None = None,
    terms: Terms = FREE,
    priced: bool = True,
) -> Partition:
    """Moves and swaps off the largest T, until there is none that helps; never worse than the start.

    Alone they end 7 to 13% above the optimum where rates differ per pair. So, unless `priced` is false, the
    search starts from what prices suggest where that is better, and moves first what loses least by it.
    """
    given = problem(weights, rates, terms, links, comm_rates)
    first = _evaluated(given, start.owner)
    if not priced:
        return _searched(given, first, None)
    return improved(given, first, pricing.find(given.costs, rounds=_ROUNDS, enough=_ENOUGH))


def assign(
    weights: npt.ArrayLike,
    rates: npt.ArrayLike,
    *,
    links: npt.ArrayLike | None = None,
    comm_rates: npt.ArrayLike | None = None,
    terms: Terms = FREE,
    worth: float = 0.05,
) -> Partition:
    """The partition to publish: as balanced as can be found, and moving little when little is gained.

    Where superpages have owners, these are kept, and superpages leave the largest T only until the makespan
    is within the share `worth` of what a new beginning reaches. Where that cannot be, it is the new one. A
    gatherer with less than half of what it would then have, such as one that has just joined, gets its part
    even if the makespan hardly falls by that.
    """
    given = problem(weights, rates, terms, links, comm_rates)
    found = pricing.find(given.costs, rounds=_ROUNDS, enough=_ENOUGH)
    fresh = improved(given, _better(_placed(given), given.partition(place(given))), found)
    kept = _kept(given)
    if kept is None:
        return fresh
    target = fresh.makespan * (1 + worth)
    idle = (kept.times < _IDLE * fresh.times).any()
    enough = found.bound * (1 + _ENOUGH) if idle else target
    settled = given.partition(descend(given, kept.owner, found, enough=enough, pace=_FAST))
    return settled if (settled.over_cap, settled.makespan) <= (fresh.over_cap, target) else fresh


def improved(given: Problem, first: Partition, found: Prices) -> Partition:
    """The best of what prices suggest and of what the search makes of the first partition."""
    best = _by_price(given, found)
    return best if best.rank < first.rank else _better(best, _searched(given, first, found))


def _evaluated(given: Problem, owner: IntArray) -> Partition:
    if owner.shape != given.weights.shape or not ((owner >= 0) & (owner < given.gatherers)).all():
        raise ValueError(
            f"a partition gives each of {given.superpages} superpages to one of {given.gatherers}"
        )
    if not np.isfinite(given.costs[np.arange(given.superpages), owner]).all():
        raise ValueError("the partition gives a superpage to a gatherer that may not own it")
    return given.partition(owner)


def _placed(given: Problem, *, held: IntArray | None = None, near: BoolArray | None = None) -> Partition:
    """What the greedy algorithm gives that fits the problem: II where there are links, else I."""
    algorithm = place if given.links is None else place_with_links
    return given.partition(algorithm(given, held=held, near=near))


def _kept(given: Problem) -> Partition | None:
    """Everything where it is today, as far as it may stay there, and the rest placed greedily."""
    rows = np.arange(given.superpages)
    may_stay = (given.current != NOBODY) & np.isfinite(given.costs[rows, given.current])
    return _placed(given, held=np.where(may_stay, given.current, NOBODY)) if may_stay.any() else None


def _by_price(given: Problem, found: Prices) -> Partition:
    """Superpages only to where they are nearly cheapest, and improved from there."""
    good = (0.0, max(found.bound, given.longest_alone) * (1 + _GOOD))
    tried: list[Partition] = []
    # With links nothing comes near the bound, which knows of none, and one beginning has to do.
    for slack in _NEAR if given.links is None else _NEAR[:1]:
        tried.append(_searched(given, _placed(given, near=found.near(given.costs, slack)), found))
        if tried[-1].rank[:2] <= good:
            break
    return min(tried, key=lambda p: p.rank)


def _searched(given: Problem, start: Partition, found: Prices | None) -> Partition:
    enough = 0.0 if found is None else found.bound * (1 + _ENOUGH)
    return _better(start, given.partition(descend(given, start.owner, found, enough=enough, pace=_SLOW)))


def _better(one: Partition, other: Partition) -> Partition:
    return one if one.rank <= other.rank else other
