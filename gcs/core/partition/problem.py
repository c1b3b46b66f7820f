"""The partition problem as arrays that fit together, and what a partition is worth.

A `Problem` is checked when it is built, so nothing behind it has to look again: every superpage has at
least one gatherer with a finite cost. Costs are seconds, one row per superpage and one column per gatherer,
and infinite where a gatherer may not own a superpage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.intp]
BoolArray = npt.NDArray[np.bool_]

NOBODY: Final = -1
"""The owner of a superpage that no gatherer holds."""


def summed(places: IntArray, values: FloatArray, length: int) -> FloatArray:
    """The sum of the values of each place; unlike numpy's own, of floats also where there is none."""
    return np.bincount(places, values, length).astype(float, copy=False)


@dataclass(frozen=True, slots=True)
class Terms:
    """What a partition has to respect beside weights and rates. Nothing, unless said.

    `allowed` has a row per gatherer and a column per superpage, like the rates: where it is false, that
    gatherer may not own that superpage. `current` is today's owner of each superpage, or -1. What changes
    hands costs its new owner `move_cost` seconds per unit of size. `sizes` is what superpages take on disk,
    by default their weights, and `caps` what each gatherer has room for (infinity, NaN or None: no limit).
    """

    allowed: npt.ArrayLike | None = None
    current: npt.ArrayLike | None = None
    move_cost: float = 0.0
    sizes: npt.ArrayLike | None = None
    caps: npt.ArrayLike | Sequence[float | None] | None = None


FREE: Final = Terms()


@dataclass(frozen=True, slots=True, eq=False)
class Partition:
    """An owner for every superpage, and what follows from it.

    `times` is T per gatherer in seconds, with the time that taking over what moves costs it. `moved` is the
    size of what changes hands, `cut_links` counts the links between superpages of different owners, and
    `over_cap` is the size for which there was no room: 0 unless caps could not be kept.
    """

    owner: IntArray
    times: FloatArray
    makespan: float
    moved: float
    cut_links: float
    over_cap: float

    @property
    def rank(self) -> tuple[float, float, float]:
        """The smaller, the better: first keep the caps, then finish early, then be even."""
        return self.over_cap, self.makespan, float(np.square(self.times).sum())


@dataclass(frozen=True, slots=True, eq=False)
class Links:
    """Links between different superpages, both directions together: row j is other[start[j]:start[j+1]]."""

    start: IntArray
    other: IntArray
    count: FloatArray
    comm_rates: FloatArray

    @property
    def source(self) -> IntArray:
        """The row of every entry."""
        return np.repeat(np.arange(len(self.start) - 1), np.diff(self.start))

    def of(self, superpage: int) -> tuple[IntArray, FloatArray]:
        """The superpages that one is linked with, and how often."""
        row = slice(self.start[superpage], self.start[superpage + 1])
        return self.other[row], self.count[row]

    def between(self, one: int, two: int) -> float:
        """How many links there are between two superpages."""
        others, counts = self.of(one)
        at = int(np.searchsorted(others, two))
        return float(counts[at]) if at < len(others) and others[at] == two else 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """Weights, costs, sizes and limits of m superpages and k gatherers."""

    weights: FloatArray
    costs: FloatArray
    sizes: FloatArray
    caps: FloatArray
    current: IntArray
    links: Links | None = None

    @property
    def gatherers(self) -> int:
        """How many gatherers there are, k."""
        return len(self.caps)

    @property
    def superpages(self) -> int:
        """How many superpages there are, m."""
        return len(self.weights)

    @property
    def capped(self) -> bool:
        """Whether any gatherer has a limit."""
        return bool(np.isfinite(self.caps).any())

    @property
    def longest_alone(self) -> float:
        """Some gatherer has to do the superpage that takes longest even where it takes least."""
        return float(self.costs.min(axis=1).max(initial=0.0))

    def times(self, owner: IntArray) -> FloatArray:
        """T per gatherer."""
        work = summed(owner, self.costs[np.arange(self.superpages), owner], self.gatherers)
        if self.links is None:
            return work
        ends = owner[self.links.source]
        crossing = ends != owner[self.links.other]
        border = summed(ends[crossing], self.links.count[crossing], self.gatherers)
        return work + border / self.links.comm_rates

    def used(self, owner: IntArray) -> FloatArray:
        """The size of what each gatherer owns."""
        return summed(owner, self.sizes, self.gatherers)

    def partition(self, owner: IntArray) -> Partition:
        """What an assignment is worth."""
        owner = owner.copy()
        times = self.times(owner)
        owner.setflags(write=False)
        times.setflags(write=False)
        over = np.maximum(self.used(owner) - self.caps, 0.0)
        moves = (self.current != NOBODY) & (self.current != owner)
        return Partition(
            owner=owner,
            times=times,
            makespan=float(times.max()),
            moved=float(self.sizes[moves].sum()),
            cut_links=_cut(self.links, owner),
            # A sum of sizes that was meant to fill a cap exactly may exceed it by a rounding error.
            over_cap=float(over[over > 1e-9 * np.abs(self.caps)].sum()),
        )


def _cut(links: Links | None, owner: IntArray) -> float:
    if links is None:
        return 0.0
    return float(links.count[owner[links.source] != owner[links.other]].sum()) / 2


def problem(
    weights: npt.ArrayLike,
    rates: npt.ArrayLike,
    terms: Terms,
    links: npt.ArrayLike | None = None,
    comm_rates: npt.ArrayLike | None = None,
) -> Problem:
    """The problem that these arguments state; raises ValueError where they do not fit together."""
    w = _vector("weights", weights)
    m = len(w)
    r = np.asarray(rates, float)
    if r.ndim != 2 or r.shape[1] != m or not r.shape[0]:
        raise ValueError(f"rates have a row per gatherer and a column per superpage ({m}), not {r.shape}")
    sizes = w if terms.sizes is None else _vector("sizes", terms.sizes, m)
    current = _owners(terms.current, m)
    return Problem(
        weights=w,
        costs=_costs(w, r, terms, sizes, current),
        sizes=sizes,
        caps=_caps(terms.caps, r.shape[0]),
        current=current,
        links=_links(links, comm_rates, m, r.shape[0]),
    )


def _vector(name: str, given: npt.ArrayLike, length: int | None = None) -> FloatArray:
    values = np.asarray(given, float)
    if values.ndim != 1 or (length is not None and len(values) != length):
        raise ValueError(f"{name} are one number per superpage, not an array of the shape {values.shape}")
    if not (np.isfinite(values) & (values >= 0)).all():
        raise ValueError(f"{name} are finite and not negative")
    return values


def _owners(given: npt.ArrayLike | None, m: int) -> IntArray:
    if given is None:
        return np.full(m, NOBODY, np.intp)
    current = np.asarray(given)
    if current.shape != (m,) or (m and current.dtype.kind not in "iu"):
        raise ValueError(f"current is the number of a gatherer, or -1, for each of {m} superpages")
    return current.astype(np.intp)


def _costs(w: FloatArray, r: FloatArray, terms: Terms, sizes: FloatArray, current: IntArray) -> FloatArray:
    k, m = r.shape
    if np.isinf(r).any() or (r < 0).any():
        raise ValueError("rates are finite and not negative; 0 or NaN where a gatherer cannot own it")
    possible = r > 0
    if terms.allowed is not None:
        allowed = np.asarray(terms.allowed, bool)
        if allowed.shape != r.shape:
            raise ValueError(f"allowed has the shape of the rates, {r.shape}, not {allowed.shape}")
        possible &= allowed
    costs = np.full((m, k), np.inf)
    with np.errstate(over="ignore"):
        np.divide(w[:, np.newaxis], r.T, out=costs, where=possible.T)
    nowhere = np.flatnonzero(np.isinf(costs.min(axis=1)))
    if len(nowhere):
        raise ValueError(f"no gatherer may own superpage {nowhere[0]} ({len(nowhere)} such); allow it to one")
    if not (terms.move_cost >= 0 and np.isfinite(terms.move_cost)):
        raise ValueError(f"a move costs a finite number of seconds per unit of size, not {terms.move_cost}")
    if (current < NOBODY).any() or (current >= k).any():
        raise ValueError(f"a current owner is one of {k} gatherers, or -1")
    if terms.move_cost:
        held = np.flatnonzero(current != NOBODY)
        staying = costs[held, current[held]]
        costs[held] += terms.move_cost * sizes[held, np.newaxis]
        costs[held, current[held]] = staying
    return costs


def _caps(given: npt.ArrayLike | Sequence[float | None] | None, k: int) -> FloatArray:
    if given is None:
        return np.full(k, np.inf)
    caps = np.array(given, float)
    if caps.shape != (k,) or (caps < 0).any():
        raise ValueError(f"caps are one number per gatherer ({k}), not negative")
    caps[np.isnan(caps)] = np.inf
    return caps


def _links(given: npt.ArrayLike | None, comm_rates: npt.ArrayLike | None, m: int, k: int) -> Links | None:
    if (given is None) != (comm_rates is None):
        raise ValueError("links and communication rates are given together, or neither")
    if given is None or comm_rates is None:
        return None
    rates = np.asarray(comm_rates, float)
    if rates.shape != (k,) or not (rates > 0).all():
        raise ValueError(f"communication rates are one positive number per gatherer ({k})")
    ends, counts = _link_rows(given, m)
    pairs = np.concatenate([ends[:, 0] * m + ends[:, 1], ends[:, 1] * m + ends[:, 0]])
    distinct, inverse = np.unique(pairs, return_inverse=True)
    total = summed(inverse, np.concatenate([counts, counts]), len(distinct))
    start = np.searchsorted(distinct, np.arange(m + 1) * m)
    return Links(start.astype(np.intp), distinct % max(m, 1), total, rates)


def _link_rows(given: npt.ArrayLike, m: int) -> tuple[IntArray, FloatArray]:
    """Both ends and the count of all links that lead from one superpage into another."""
    rows = np.asarray(given, float)
    if not rows.size:
        return np.empty((0, 2), np.intp), np.empty(0)
    if rows.ndim != 2 or rows.shape[1] != 3:
        raise ValueError(f"links are rows of from, to and count, not an array of the shape {rows.shape}")
    counts = rows[:, 2]
    known = (rows[:, :2] >= 0) & (rows[:, :2] < m)
    if not known.all() or not (np.isfinite(counts) & (counts >= 0)).all():
        raise ValueError(f"links are rows of two of {m} superpages and a count that is not negative")
    ends = rows[:, :2].astype(np.intp)
    crossing = ends[:, 0] != ends[:, 1]
    return ends[crossing], counts[crossing]
