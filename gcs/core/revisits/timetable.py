"""From what is known of a page to when it is due, within a budget of visits.

The budget is the same for all policies: on average, a page is visited once in `every_s`. What they differ
in is who gets more of it.

    uniform    every page the same
    anansi     P_old = C · T · (I + O) of 004 grows with T; a page is due when it has reached a level
    adaptive   a page is due when a visit can be expected to be worth its price, see `freshness`

A page has a *grade*: a whole number, eight to a doubling of its interval. All intervals are multiplied by
one *level*, which is set such that the visits of all pages come to the budget: for that a timetable counts
how many pages there are of each grade. No interval is below `least_s` nor above `most_s`. (The level of
anansi is that of P_old. That of adaptive is the root of the price: what a visit is worth grows with the
square of the interval, as long as a change is not likely, so pages keep their grades when the price
changes, nearly.)

No page has a date. It stands in the line of its grade, by its last visit, and the first of a line is due
when the interval of the grade is over. So when the level changes with what is learnt, all intervals do, and
nothing has to be entered anew. Of several that are due, the one comes first whose interval was over the
most times. Who was told a date, since a visit failed or a sitemap says that there is news, stands in a line
of its own.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal

from gcs.core.revisits.freshness import worth
from gcs.core.revisits.rates import EVEN, LOG_RATES
from gcs.core.revisits.standing import APPOINTED, Standing

Policy = Literal["uniform", "anansi", "adaptive"]
POLICIES: Final[tuple[Policy, ...]] = ("uniform", "anansi", "adaptive")
GRADES: Final = 255
_PER_OCTAVE: Final = 8
_REPRICED: Final = 64
"""The level is worked out anew when one page in so many has changed its grade."""
_NOTICED: Final = 64
"""And when visits that are made otherwise have changed by one in so many of the budget."""
_HALVINGS: Final = 50
_LOWEST, _HIGHEST = 1e-12, 1e12
_SCALE: Final[list[float]] = [2.0 ** (grade / _PER_OCTAVE) for grade in range(GRADES)]

_FIRST_S: Final = 60.0
_STEPS: Final = 180
_INTERVALS: Final[list[float]] = [_FIRST_S * 2.0 ** (step / _PER_OCTAVE) for step in range(_STEPS)]
_WORTH: Final[list[list[float]]] = [
    [worth(math.exp(log), interval_s) for log in LOG_RATES] for interval_s in _INTERVALS
]
"""By interval and level of rates: what a visit is worth."""


class Timetable(ABC):
    """The intervals of all pages, by their grades."""

    is_paced = False
    """Whether no more visits are begun than the budget has room for, though more pages are due: where the
    level goes by what is learnt."""

    def __init__(self, every_s: float, least_s: float, most_s: float) -> None:
        if not 0 < least_s <= every_s <= most_s:
            raise ValueError(f"intervals from {least_s} s to {most_s} s cannot be {every_s} s on average")
        self.every_s, self.least_s, self.most_s = every_s, least_s, most_s
        self._counts: Counter[int] = Counter()
        self._changes = 0
        self._level: float | None = None
        self._others_per_s = 0.0
        self._intervals: list[float] = []
        """Those of all grades at the level."""

    @abstractmethod
    def grade(self, rates: Sequence[float], weight: float) -> int:
        """The grade of a page: by level, how likely it changes at a rate; and C · (I + O)."""

    def enter(self, grade: int) -> None:
        """There is a page more of a grade."""
        self._counts[grade] += 1
        self._changes += 1

    def leave(self, grade: int) -> None:
        """There is a page less of a grade."""
        if self._counts[grade]:
            self._counts[grade] -= 1
            self._changes += 1

    def leave_room(self, visits_per_s: float) -> None:
        """So many visits are made otherwise, and come out of the same budget."""
        if abs(visits_per_s - self._others_per_s) * _NOTICED > self.pages / self.every_s:
            self._others_per_s = visits_per_s
            self._level = None

    @property
    def pages(self) -> int:
        """How many pages are in it."""
        return self._counts.total()

    def interval(self, grade: int) -> float:
        """After how many seconds a page of a grade is visited again."""
        self.level()
        return self._intervals[grade]

    def usual(self, grade: int) -> float:
        """The same, also while every page is visited once."""
        return self.interval(grade)

    def due_at(self, standing: Standing) -> float:
        """When a page is due."""
        return standing.since + self.interval(standing.grade)

    def first(self, heads: Mapping[int, float], now: float) -> int | None:
        """The line to serve next, by since when the first of each stands there; None if none is due."""
        self.level()
        chosen, most, intervals = None, 1.0, self._intervals
        for grade, since in heads.items():
            if grade == APPOINTED:
                if since <= now:
                    return grade
                continue
            times = (now - since) / intervals[grade]
            if times >= most:
                chosen, most = grade, times
        return chosen

    def next_at(self, heads: Mapping[int, float]) -> float:
        """When the next page is due; infinite if there is none."""
        return min((self.due_at(Standing(*head)) for head in heads.items()), default=math.inf)

    def level(self) -> float:
        """What makes the visits of all pages come to the budget."""
        if self._level is None or self._changes * _REPRICED > self.pages:
            self._level = self._balanced() if self.pages else self._at_first()
            self._intervals = [self.interval_at(grade, self._level) for grade in range(GRADES)] + [0.0]
            self._changes = 0
        return self._level

    def _at_first(self) -> float:
        """The level while nothing is known of any page."""
        return self.every_s

    def _balanced(self) -> float:
        counts = [(_SCALE[grade], n) for grade, n in self._counts.items() if n]
        least_s, most_s = self.least_s, self.most_s
        budget = max(self.pages / self.every_s - self._others_per_s, self.pages / self.most_s)
        low, high = _LOWEST, _HIGHEST
        for _ in range(_HALVINGS):
            middle = math.sqrt(low * high)
            visits = 0.0
            for scale, n in counts:  # as `interval_at`, which would take most of the time here
                visits += n / min(max(middle * scale, least_s), most_s)
            low, high = (middle, high) if visits > budget else (low, middle)
        return high

    def interval_at(self, grade: int, level: float) -> float:
        """After how many seconds a page of a grade would be visited again at a level."""
        return min(max(level * _SCALE[grade], self.least_s), self.most_s)

    def counts(self) -> list[Any]:
        """How many pages there are of each grade, for storing."""
        return [(grade, count) for grade, count in self._counts.items() if count]

    def restore(self, counts: Iterable[Any]) -> None:
        """Begin with what `counts` gave."""
        self._counts = Counter({int(grade): int(count) for grade, count in counts})
        self._level = None


class Uniform(Timetable):
    """Every page as often as any other."""

    def grade(self, rates: Sequence[float], weight: float) -> int:
        """There is one grade."""
        return 0


class Anansi(Timetable):
    """When P_old, with C not below its floor, has reached a level."""

    is_paced = True

    def grade(self, rates: Sequence[float], weight: float) -> int:
        """The larger C · (I + O), the sooner."""
        return _grade(_HEAVIEST / max(weight, 1e-9))


class Adaptive(Timetable):
    """When a visit can be expected to be worth its price."""

    is_paced = True

    def grade(self, rates: Sequence[float], weight: float) -> int:
        """By the interval after which it is, at the price of now."""
        level = self.level()
        return _grade(_interval_for(rates, level * level) / level)

    def _at_first(self) -> float:
        at = bisect_left(_INTERVALS, self.every_s)
        return math.sqrt(_expected(EVEN, min(at, _STEPS - 1)))


class Once(Timetable):
    """Every page that was visited before a time is due, once; the grades are those of another timetable."""

    def __init__(self, usual: Timetable, started: float) -> None:
        super().__init__(usual.every_s, usual.least_s, usual.most_s)
        self._usual, self._started = usual, started

    def grade(self, rates: Sequence[float], weight: float) -> int:
        """As usual."""
        return self._usual.grade(rates, weight)

    def enter(self, grade: int) -> None:
        """As usual."""
        self._usual.enter(grade)

    def leave(self, grade: int) -> None:
        """As usual."""
        self._usual.leave(grade)

    @property
    def pages(self) -> int:
        """As usual."""
        return self._usual.pages

    def leave_room(self, visits_per_s: float) -> None:
        """As usual."""
        self._usual.leave_room(visits_per_s)

    def interval(self, grade: int) -> float:
        """None: who was visited since then stands behind all others, and is not due."""
        return 0.0

    def usual(self, grade: int) -> float:
        """As usual."""
        return self._usual.interval(grade)

    def first(self, heads: Mapping[int, float], now: float) -> int | None:
        """Who was visited the longest ago."""
        due = {grade: since for grade, since in heads.items() if since < self._started}
        return min(due, key=due.__getitem__) if due else None

    def next_at(self, heads: Mapping[int, float]) -> float:
        """Now, or never."""
        return min((since for since in heads.values() if since < self._started), default=math.inf)

    def counts(self) -> list[Any]:
        """As usual."""
        return self._usual.counts()

    def restore(self, counts: Iterable[Any]) -> None:
        """As usual."""
        self._usual.restore(counts)


_HEAVIEST: Final = 1e6
"""C · (I + O) from which on all are as often visited as they can be."""
_KINDS: Final[dict[Policy, type[Timetable]]] = {"uniform": Uniform, "anansi": Anansi, "adaptive": Adaptive}


def timetable(policy: Policy, every_s: float, least_s: float, most_s: float) -> Timetable:
    """The timetable of a policy; raises ValueError if the bounds leave no room for the average."""
    return _KINDS[policy](every_s, least_s, most_s)


def _grade(number: float) -> int:
    return min(max(0, round(_PER_OCTAVE * math.log2(number))), GRADES - 1)


def _expected(rates: Sequence[float], step: int) -> float:
    """What a visit after an interval can be expected to be worth."""
    return sum(map(float.__mul__, rates, _WORTH[step]))


def _interval_for(rates: Sequence[float], price: float) -> float:
    """The interval after which a visit is worth its price; the longest where it never is."""
    low, high = 0, _STEPS - 1
    if _expected(rates, high) < price:
        return _INTERVALS[high]
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if _expected(rates, middle) < price else (low, middle)
    return _INTERVALS[low]
