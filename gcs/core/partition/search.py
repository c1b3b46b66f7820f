"""Local improvement: moves and swaps off the gatherer with the largest T (003, section 5.3).

`_Search.marginal` holds, for every superpage and gatherer, by how much T grows when it enters there, which is
also by how much T falls when it leaves. For Partition I these are the costs. With links it is

    M_ij = c_ij + (links of j − 2 · links of j into U_i) / comm rate of i

and when j changes hands only the two gatherers' times change, and only the marginals of j's neighbours.

Every step strictly lowers the larger of the two times that it touches, so the sorted list of times falls
lexicographically, and the search ends.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from gcs.core.partition.prices import Prices
from gcs.core.partition.problem import NOBODY, BoolArray, FloatArray, IntArray, Problem

_GAIN: Final = 1e-6
"""A step has to lower the largest T by at least this share of it."""
_ROUND: Final = 4
_EVEN: Final = 0.9
"""Gatherers this busy, compared with one that cannot be helped, are busy enough."""
_SLACK: Final = 0.01
"""Moves that lose at most this share more than the best one, per second of relief, are as good."""


def descend(
    given: Problem, owner: IntArray, prices: Prices | None, *, enough: float, pace: float
) -> IntArray:
    """Owners from which no step helps, or only little; times of at most `enough` are left alone.

    A round is four steps for each gatherer, or one for four superpages where that is more. One that does not
    lower the largest T by the share `pace` is the last.
    """
    search = _Search(given, owner, prices)
    while search.make_room():
        pass
    steps = max(_ROUND * given.gatherers, given.superpages // _ROUND)
    before = np.inf
    while search.largest < before * (1 - pace):
        before = search.largest
        for _ in range(steps):
            if search.largest <= enough or not search.relieve():
                return search.owner
    return search.owner


class _Search:
    """A partition that changes by one superpage, or two, at a time."""

    def __init__(self, given: Problem, owner: IntArray, prices: Prices | None) -> None:
        self.given = given
        self.owner = owner.copy()
        self.prices = None if prices is None else prices.each
        self.times = given.times(owner)
        self.used = given.used(owner)
        self.room_for = given.caps * (1 + 1e-12)
        self.capped = given.capped
        self.marginal = _marginals(given, owner)
        self.able: BoolArray = np.isfinite(given.costs.min(axis=0, initial=np.inf))
        self.open: BoolArray = self.able.copy()

    def move(self, j: int, to: int) -> None:
        """Give superpage j to another gatherer."""
        source = int(self.owner[j])
        self.times[source] -= self.marginal[j, source]
        self.times[to] += self.marginal[j, to]
        self.used[source] -= self.given.sizes[j]
        self.used[to] += self.given.sizes[j]
        self.owner[j] = to
        links = self.given.links
        if links is not None:
            others, counts = links.of(j)
            self.marginal[others, source] += 2 * counts / links.comm_rates[source]
            self.marginal[others, to] -= 2 * counts / links.comm_rates[to]

    @property
    def largest(self) -> float:
        """The largest T of those gatherers that can be helped."""
        return float(self.times.max(where=self.open, initial=0.0))

    def relieve(self) -> bool:
        """One move, or else one swap, that takes time off the largest T; whether there was one.

        A gatherer may hold one superpage that alone takes longer than all that others have. When it cannot
        be helped while others are far from as busy, it is passed over, and the next one is helped.
        """
        while self.open.any():
            s = int(np.where(self.open, self.times, -np.inf).argmax())
            mine = np.flatnonzero(self.owner == s)
            # Who has given all away may be left with a rounding error.
            if self.times[s] <= 0 or not len(mine):
                return False
            target = self.times[s] * (1 - _GAIN)
            if self._move_off(s, mine, target) or self._swap_off(s, mine, target):
                return True
            if self.times.min(where=self.able, initial=np.inf) > _EVEN * self.times[s]:
                return False
            self.open[s] = False
        return False

    def _move_off(self, s: int, mine: IntArray, target: float) -> bool:
        rows = self.marginal[mine]
        off = rows[:, s]
        larger = np.maximum(self.times + rows, (self.times[s] - off)[:, np.newaxis])
        larger[:, s] = np.inf
        larger[larger > target] = np.inf
        if self.capped:
            larger[~self._fits(mine)] = np.inf
        if self.prices is not None:
            larger = self._cheap(larger, rows, off, s)
        j, to = divmod(int(larger.argmin()), rows.shape[1])
        if not np.isfinite(larger[j, to]):
            return False
        self.move(int(mine[j]), to)
        return True

    def _cheap(self, larger: FloatArray, rows: FloatArray, off: FloatArray, s: int) -> FloatArray:
        """Leave only the moves that lose least, at the prices, per second that they take off s."""
        assert self.prices is not None
        possible = np.isfinite(larger)
        if not possible.any():
            return larger
        # A move that lowers T_s has a positive marginal there, so nothing possible is divided by 0.
        per_second = np.full(rows.shape, np.inf)
        np.divide(rows * self.prices, off[:, np.newaxis], out=per_second, where=possible)
        limit = per_second.min() + _SLACK * self.prices[s]
        kept: FloatArray = np.where(per_second <= limit, larger, np.inf)
        return kept

    def _fits(self, superpages: IntArray) -> BoolArray:
        after = self.used + self.given.sizes[superpages][:, np.newaxis]
        fits: BoolArray = after <= self.room_for
        return fits

    def _swap_off(self, s: int, mine: IntArray, target: float) -> bool:
        """Exchange a superpage of s for one of another gatherer, trying those with the least to do first."""
        for other in np.argsort(self.times, kind="stable").tolist():
            theirs = np.flatnonzero(self.owner == other)
            if other != s and len(theirs) and self._swap_with(s, other, mine, theirs, target):
                return True
        return False

    def _swap_with(self, s: int, other: int, mine: IntArray, theirs: IntArray, target: float) -> bool:
        m = self.marginal
        left = self.times[s] - m[mine, s][:, np.newaxis] + m[theirs, s]
        right = self.times[other] + m[mine, other][:, np.newaxis] - m[theirs, other]
        larger = np.maximum(left, right)
        if self.capped:
            change = self.given.sizes[theirs] - self.given.sizes[mine][:, np.newaxis]
            larger[(self.used[s] + change > self.room_for[s]) & (change > 0)] = np.inf
            larger[(self.used[other] - change > self.room_for[other]) & (change < 0)] = np.inf
        j, back = divmod(int(larger.argmin()), len(theirs))
        one, two = int(mine[j]), int(theirs[back])
        if larger[j, back] + self._link_between(one, two, s, other) > target:
            return False
        self.move(one, other)
        self.move(two, s)
        return True

    def _link_between(self, one: int, two: int, s: int, other: int) -> float:
        """What the marginals overlook when two superpages change places: their own links go on crossing."""
        links = self.given.links
        if links is None:
            return 0.0
        return 2 * links.between(one, two) / float(min(links.comm_rates[s], links.comm_rates[other]))

    def make_room(self) -> bool:
        """One move or swap that takes size off a gatherer over its cap, and puts no other over its own."""
        if not self.capped:
            return False
        over = self.used - self.room_for
        # Beside a cap of 0, what sizes add up to is where rounding errors come from.
        least = 1e-9 * np.maximum(self.given.caps, self.given.sizes.max(initial=0.0))
        full = [i for i in np.argsort(-over, kind="stable").tolist() if over[i] > least[i]]
        return any(self._send_away(i) or self._exchange_for_smaller(i) for i in full)

    def _send_away(self, full: int) -> bool:
        mine = np.flatnonzero((self.owner == full) & (self.given.sizes > 0))
        if not len(mine):
            return False
        after = np.where(self._fits(mine), self.times + self.marginal[mine], np.inf)
        j, to = divmod(int(after.argmin()), after.shape[1])
        if not np.isfinite(after[j, to]):
            return False
        self.move(int(mine[j]), to)
        return True

    def _exchange_for_smaller(self, full: int) -> bool:
        """The swap that takes most size off a gatherer over its cap."""
        possible = np.isfinite(self.given.costs)
        theirs = np.flatnonzero((self.owner != full) & possible[:, full])
        sizes, owners = self.given.sizes[theirs], self.owner[theirs]
        excess = self.used[full] - self.room_for[full]
        best = (1e-9 * excess, NOBODY, NOBODY)
        for j in np.flatnonzero(self.owner == full).tolist():
            relief = self.given.sizes[j] - sizes
            fits = self.used[owners] + relief <= self.room_for[owners]
            useful = np.where(fits & possible[j, owners], np.minimum(relief, excess), 0.0)
            if useful.max(initial=0.0) > best[0]:
                best = float(useful.max()), j, int(theirs[useful.argmax()])
        _, one, two = best
        if one == NOBODY:
            return False
        other = int(self.owner[two])
        self.move(one, other)
        self.move(two, full)
        return True


def _marginals(given: Problem, owner: IntArray) -> FloatArray:
    if given.links is None:
        return given.costs
    links, (m, k) = given.links, given.costs.shape
    into = np.bincount(links.source * k + owner[links.other], links.count, m * k).reshape(m, k)
    marginals: FloatArray = given.costs + (into.sum(axis=1, keepdims=True) - 2 * into) / links.comm_rates
    return marginals
