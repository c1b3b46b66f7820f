"""The paper's two greedy algorithms: superpages in order of weight, each to where it hurts least.

Both can start from superpages that already have an owner, and can be told which pairs to prefer (`near`).
"""

from __future__ import annotations

import numpy as np

from gcs.core.partition.problem import NOBODY, BoolArray, FloatArray, IntArray, Links, Problem, summed


def place(given: Problem, *, held: IntArray | None = None, near: BoolArray | None = None) -> IntArray:
    """Partition I: the next superpage to the s with the smallest T_s + w_j/r_sj; returns the owners."""
    state = _State(given, held, near)
    for j in state.waiting:
        state.give(j, state.times + state.row(j))
    return state.owner


def place_with_links(
    given: Problem, *, held: IntArray | None = None, near: BoolArray | None = None
) -> IntArray:
    """Partition II: the next superpage to the s after which the largest of all T is smallest.

    Links count to superpages already placed. Often some other gatherer has the largest T whatever is chosen;
    then the smallest T_s decides, and then the smallest sum of all T.
    """
    assert given.links is not None
    links, state = given.links, _State(given, held, near)
    if held is not None:
        state.times += _border(links, state.owner, given.gatherers) / links.comm_rates
    for j in state.waiting:
        _place_one(state, links, j)
    return state.owner


class _State:
    """Owners, times and sizes while superpages are placed one after the other."""

    def __init__(self, given: Problem, held: IntArray | None, near: BoolArray | None) -> None:
        self.given = given
        self.owner = np.full(given.superpages, NOBODY, np.intp) if held is None else held.copy()
        placed = np.flatnonzero(self.owner != NOBODY)
        owners = self.owner[placed]
        self.times = summed(owners, given.costs[placed, owners], given.gatherers)
        self.used = summed(owners, given.sizes[placed], given.gatherers)
        self.preferred = given.costs if near is None else np.where(near, given.costs, np.inf)
        order = np.argsort(-given.weights, kind="stable")
        self.waiting: list[int] = order[self.owner[order] == NOBODY].tolist()
        self.capped = given.capped

    def row(self, j: int) -> FloatArray:
        """What superpage j costs each gatherer that is preferred for it and has room."""
        row: FloatArray = self.preferred[j]
        if self.capped:
            row = np.where(self.room(j), row, np.inf)
        if not self.capped and self.preferred is self.given.costs:
            return row
        return row if np.isfinite(row).any() else self._second_choice(j)

    def room(self, j: int) -> BoolArray:
        """Which gatherers have room for superpage j."""
        room: BoolArray = self.used + self.given.sizes[j] <= self.given.caps
        return room

    def _second_choice(self, j: int) -> FloatArray:
        """Any gatherer with room; and where there is none, the one that is then least over its cap."""
        row: FloatArray = np.where(self.room(j), self.given.costs[j], np.inf)
        if np.isfinite(row).any():
            return row
        over = np.where(np.isfinite(self.given.costs[j]), self.used - self.given.caps, np.inf)
        return np.where(over == over.min(), self.given.costs[j], np.inf)

    def give(self, j: int, after: FloatArray) -> None:
        """Superpage j to the gatherer with the smallest time afterwards."""
        self.assign(j, int(after.argmin()))
        self.times[self.owner[j]] = after[self.owner[j]]

    def assign(self, j: int, s: int) -> None:
        """Note the owner, and what that takes."""
        self.owner[j] = s
        self.used[s] += self.given.sizes[j]


def _place_one(state: _State, links: Links, j: int) -> None:
    others, counts = links.of(j)
    owners = state.owner[others]
    placed = owners != NOBODY
    linked = summed(owners[placed], counts[placed], len(state.times))
    # Wherever j goes, its links to h cross the border of h, unless it goes to h itself.
    crossed = state.times + linked / links.comm_rates
    own = state.times + state.row(j) + (linked.sum() - linked) / links.comm_rates
    largest = np.full(len(own), crossed.max())
    top = int(crossed.argmax())
    largest[top] = np.delete(crossed, top).max(initial=0.0)
    s = _smallest(np.maximum(largest, own), own, crossed.sum() - crossed + own)
    state.assign(j, s)
    state.times = crossed
    state.times[s] = own[s]


def _smallest(*criteria: FloatArray) -> int:
    """The position of the smallest value; each further criterion decides between those that tie."""
    left = np.arange(len(criteria[0]))
    for values in criteria:
        left = left[values[left] == values[left].min()]
        if len(left) == 1:
            break
    return int(left[0])


def _border(links: Links, owner: IntArray, k: int) -> FloatArray:
    """B per gatherer, of links between superpages that are placed."""
    ends, others = owner[links.source], owner[links.other]
    crossing = (ends != NOBODY) & (others != NOBODY) & (ends != others)
    return summed(ends[crossing], links.count[crossing], k)
