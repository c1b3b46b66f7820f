"""How current the copies of pages are, if each page is visited again after some interval.

A page changes at random times, at a rate of its own. Visited every T seconds, its copy is current for the
share F = (1 - e^-x) / x of the time, with x = rate · T. One visit more per second would add

    worth = dF / d(1/T) = (1 - e^-x (1 + x)) / rate

to that. Visits are shared out best when all are worth the same, their *price* (Cho and Garcia-Molina,
Effective Page Refresh Policies for Web Crawlers, 2003; Azar and others, Tractable Near-optimal Policies for
Crawling, 2018). A page for which a visit is never worth the price, since it changes too often, is not
visited at all.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable
from typing import Final

_HALVINGS: Final = 50
_STRAIGHT: Final = 1e-4
"""Below this the functions are taken for their first terms: their differences would be lost in rounding."""
_CERTAIN: Final = 32.0
_STEPS: Final = 4096


def freshness(rate: float, interval_s: float) -> float:
    """The share of the time for which a copy is current."""
    x = rate * interval_s
    if x <= _STRAIGHT:
        return 1 - x / 2
    return 0.0 if math.isinf(x) else -math.expm1(-x) / x


def worth(rate: float, interval_s: float) -> float:
    """What one visit per second more would add to the freshness of a page."""
    return _gain(rate * interval_s) / rate if rate > 0 else 0.0


def interval_for(rate: float, price: float) -> float:
    """The interval at which a visit is worth its price; infinite where it never is.

    That is so too for a page that would change more than thirty times meanwhile.
    """
    wanted = price * rate
    if rate <= 0 or wanted >= 1:
        return math.inf
    if wanted < _GAINS[0]:
        return math.sqrt(2 * wanted) / rate
    if wanted >= _GAINS[-1]:
        return math.inf
    at = bisect_left(_GAINS, wanted)
    if _GAINS[at] == wanted:
        return _AT[at] / rate
    below, above = _GAINS[at - 1], _GAINS[at]
    return (_AT[at - 1] + (wanted - below) / (above - below) * (_AT[at] - _AT[at - 1])) / rate


def _gain(x: float) -> float:
    """1 - e^-x (1 + x)."""
    return x * x / 2 - x**3 / 3 if x < _STRAIGHT else -math.expm1(-x) - x * math.exp(-x)


_AT: Final[list[float]] = [
    _STRAIGHT * (_CERTAIN / _STRAIGHT) ** (step / _STEPS) for step in range(_STEPS + 1)
]
_GAINS: Final[list[float]] = [_gain(x) for x in _AT]
"""A table of `_gain`, to be read backwards: intervals are asked for by the million."""


def price_for(visits_per_s: Callable[[float], float], budget_per_s: float, low: float, high: float) -> float:
    """The price between two at which the visits that are worth it come to a budget.

    The dearer, the fewer are worth it. Where even the lowest price has fewer, it is the lowest.
    """
    if visits_per_s(low) <= budget_per_s:
        return low
    for _ in range(_HALVINGS):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if visits_per_s(middle) > budget_per_s else (low, middle)
    return high


def best_intervals(rates: Iterable[float], visits_per_s: float) -> list[float]:
    """The intervals that make copies the most current, if all rates are known; infinite for some."""
    known = list(rates)
    slowest = min((rate for rate in known if rate > 0), default=1.0)
    # At no price above this is any page worth a visit; the lowest is that of visits without limit.
    highest, distinct = 1 / slowest, _counted(known)

    def wanted(price: float) -> float:
        return sum(count / interval_for(rate, price) for rate, count in distinct.items())

    price = price_for(wanted, visits_per_s, highest * 1e-15, highest)
    by_rate = {rate: interval_for(rate, price) for rate in distinct}
    return [by_rate[rate] for rate in known]


def _counted(rates: Iterable[float]) -> dict[float, int]:
    counts: dict[float, int] = {}
    for rate in rates:
        counts[rate] = counts.get(rate, 0) + 1
    return counts
