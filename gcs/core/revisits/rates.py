"""How often a page changes, from few visits: what they say, with what its neighbours show.

A visit after an interval says one thing: the page has changed since the last one, or it has not. That is
kept in a byte. If the page itself says when it changed, its visit is two: a change until then, none since.

Rates are estimated on a grid, each level twice the one before. Every group of pages (all, a superpage, a
host) has an estimated *population*: how many of its pages change at which level. A page's rate is judged by
its visits with the population of its group as what is to be expected: for a page that was never visited
again that is all that there is, and with every visit it counts less. A small group borrows from the larger
one that it is in. (Empirical Bayes; the populations are what the EM algorithm would make of them, one visit
at a time.)
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Final

LEVELS: Final = 20
SLOWEST: Final = 1 / (5 * 365 * 86_400.0)
"""Changes per second."""
REMEMBERED: Final = 16
"""Visits of a page that count."""
BORROWED: Final = 4.0
"""What the larger group counts for in a smaller one, in pages."""
GROUPS: Final = 20_000
_FIRST_S: Final = 60.0
_PER_OCTAVE: Final = 6
_LAST_CODE: Final = 127
_IMPOSSIBLE: Final = -40.0

LOG_RATES: Final = tuple(math.log(SLOWEST) + level * math.log(2) for level in range(LEVELS))
EVEN: Final = (1 / LEVELS,) * LEVELS


def observed(interval_s: float, *, changed: bool, changed_ago_s: float | None = None) -> bytes:
    """What a visit says; `changed_ago_s` is how long ago the last change was, if the page says so itself."""
    if changed and changed_ago_s is not None and 0 < changed_ago_s < interval_s:
        return bytes((_code(interval_s - changed_ago_s) | 1, _code(changed_ago_s)))
    return bytes((_code(interval_s) | changed,))


def remembered(history: bytes, more: bytes) -> bytes:
    """The visits that count, the latest last."""
    return (history + more)[-REMEMBERED:]


def _code(interval_s: float) -> int:
    steps = round(_PER_OCTAVE * math.log2(max(interval_s, _FIRST_S) / _FIRST_S))
    return min(steps, _LAST_CODE) << 1


def _likelihoods(code: int) -> tuple[float, ...]:
    """By level: the logarithm of how likely it is to see what a byte says."""
    interval_s = _FIRST_S * 2.0 ** ((code >> 1) / _PER_OCTAVE)
    expected = [math.exp(log) * interval_s for log in LOG_RATES]
    if code & 1:
        return tuple(max(_IMPOSSIBLE, math.log(-math.expm1(-each))) for each in expected)
    return tuple(max(_IMPOSSIBLE, -each) for each in expected)


_TABLE: Final = tuple(_likelihoods(code) for code in range(256))


def judged(history: bytes, prior: Sequence[float]) -> list[float]:
    """By level: how likely a page with these visits changes at it."""
    if not history:
        return list(prior)
    logs = [sum(column) for column in zip(*[_TABLE[code] for code in history], strict=True)]
    top = max(logs)
    weights = [each * math.exp(log - top) for each, log in zip(prior, logs, strict=True)]
    total = sum(weights)
    return [each / total for each in weights]


def typical(levels: Sequence[float]) -> float:
    """One rate for several that are likely: their geometric mean."""
    return math.exp(sum(share * log for share, log in zip(levels, LOG_RATES, strict=True)))


class Populations:
    """What is known of groups of pages; those that had no visit for longest are forgotten."""

    def __init__(self, *, room: int = GROUPS) -> None:
        self._room = room
        self._groups: OrderedDict[str, list[float]] = OrderedDict()

    def expected(self, groups: Sequence[str]) -> list[float]:
        """By level: the share of pages that change at it, in the last of some groups that are nested."""
        shares: Sequence[float] = EVEN
        for name in groups:
            counts = self._groups.get(name)
            if counts is None:
                continue
            total = sum(counts) + BORROWED
            shares = [(count + BORROWED * share) / total for count, share in zip(counts, shares, strict=True)]
        return list(shares)

    def rates(self, groups: Sequence[str], history: bytes) -> list[float]:
        """By level: how likely a page with a history changes at it."""
        return judged(history, self.expected(groups))

    def learn(self, groups: Sequence[str], history: bytes, more: bytes) -> list[float]:
        """A page was visited again, which says more than its history; its rates, as they are known now."""
        prior = self.expected(groups)
        after = judged(remembered(history, more), prior)
        # A page counts once, however often it is visited: what it counted for before is taken away.
        before = judged(history, prior) if history else None
        for name in groups:
            counts = self._groups.get(name)
            if counts is None:
                counts = self._groups[name] = [0.0] * LEVELS
                if len(self._groups) > self._room:
                    self._groups.popitem(last=False)
            else:
                self._groups.move_to_end(name)
            for level, share in enumerate(after):
                less = before[level] if before is not None else 0.0
                counts[level] = max(0.0, counts[level] + share - less)
        return after

    def to_state(self) -> list[Any]:
        """All of it, for storing."""
        return [self._room, [(name, counts) for name, counts in self._groups.items()]]

    @classmethod
    def from_state(cls, state: Sequence[Any]) -> Populations:
        """What `to_state` gave; raises ValueError for anything else."""
        room, groups = state
        found = cls(room=int(room))
        for name, counts in groups:
            if len(counts) != LEVELS:
                raise ValueError("a population has other levels")
            found._groups[str(name)] = [float(each) for each in counts]
        return found
