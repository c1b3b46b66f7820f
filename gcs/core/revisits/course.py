"""The course of a page: how its visits went, and when the next one is.

`Courses` is what decides. It owns what was learnt of all pages together, the populations and the timetable,
and is told of every visit. The same code decides in a gatherer and in a simulation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple

import msgpack

from gcs.core.ranking import CHANGE_FLOOR
from gcs.core.revisits.rates import Populations, observed, remembered, typical
from gcs.core.revisits.standing import APPOINTED, Standing
from gcs.core.revisits.timetable import Timetable

GONE_AFTER: Final = 3
"""Visits in a row that found nothing, after which a page is gone."""
AGAIN_S: Final = 3600.0
"""How soon a visit is repeated that failed; twice as long after each that follows."""
MISSING_S: Final = 86_400.0
"""How soon a page is looked for again that was not there."""
_VERSION: Final = 1
_PRICED: Final = 4


class Seen(StrEnum):
    """What a visit has found."""

    CHANGED = "changed"
    TOUCHED = "touched"
    """Other bytes, but the same page: an advertisement, a date, a counter."""
    UNCHANGED = "unchanged"
    MISSING = "missing"
    """The host says that there is no such page."""
    FAILED = "failed"
    """Nothing is known of the page: the host did not answer, or is in trouble."""


class Course(NamedTuple):
    """What is known of a page that is visited again and again."""

    history: bytes = b""
    """Its visits, as `gcs.core.revisits.rates` has them."""
    change: float = 1.0
    """C of the last two visits: the share of links that only one of them found."""
    grade: int = 0
    missing: int = 0
    """Visits in a row that found nothing there; what comes sooner than it is looked for counts as one."""
    failed: int = 0
    """Visits in a row that failed."""
    missing_at: float = 0.0
    """When the first of them that count found nothing there; 0 if the last one found it."""

    @property
    def is_gone(self) -> bool:
        """Whether it is not visited any more."""
        return self.missing >= GONE_AFTER


class Next(NamedTuple):
    """A course after a visit, and where it stands in the timetable; None if there is no next visit."""

    course: Course
    standing: Standing | None


class Courses:
    """Decides about visits by what was learnt from all of them."""

    def __init__(self, timetable: Timetable, populations: Populations | None = None) -> None:
        self.timetable = timetable
        self.populations = populations or Populations()

    def begin(self, groups: Sequence[str], degree: float, at: float, *, spread: float = 1.0) -> Next:
        """A page was visited for the first time; it has I + O links.

        Pages that are found together are not all due together: the first interval counts only for the part
        `spread` of it, which differs from page to page, but none is due sooner than any may be.
        """
        rates = self.populations.rates(groups, b"")
        grade = self.timetable.grade(rates, degree)
        self.timetable.enter(grade)
        return Next(Course(grade=grade), Standing(grade, at - self._skipped_s(grade, spread)))

    def _skipped_s(self, grade: int, spread: float) -> float:
        """How much of a first interval is left out, as intervals are now."""
        return (1 - spread) * max(0.0, self.timetable.interval(grade) - self.timetable.least_s)

    def rather(
        self, course: Course, standing: Standing, visited_at: float, now: float, *, spread: float
    ) -> Standing | None:
        """Where a page has to stand that seems to be due, but is not; None if it is.

        All intervals may have become shorter since a part of its first one was left out, or it has come to
        where they are: then that part was too much.
        """
        if not course.history and standing.grade == course.grade:
            later = Standing(course.grade, visited_at - self._skipped_s(course.grade, spread))
        else:
            later = Standing(APPOINTED, visited_at + self.timetable.least_s)
        return later if now < self.timetable.due_at(later) else None

    def visited(
        self,
        course: Course,
        groups: Sequence[str],
        seen: Seen,
        interval_s: float,
        at: float,
        *,
        degree: float,
        change: float = 0.0,
        changed_ago_s: float | None = None,
    ) -> Next:
        """A page was visited again, so long after the last time."""
        if seen is Seen.FAILED:
            return self._failed(course, at)
        if seen is Seen.MISSING:
            return self._missing(course, at)
        more = observed(interval_s, changed=seen is Seen.CHANGED, changed_ago_s=changed_ago_s)
        rates = self.populations.learn(groups, course.history, more)
        grade = self.timetable.grade(rates, max(change, CHANGE_FLOOR) * degree)
        self.timetable.leave(course.grade)
        self.timetable.enter(grade)
        after = Course(remembered(course.history, more), change, grade)
        return Next(after, Standing(grade, at))

    def rate(self, course: Course, groups: Sequence[str]) -> float:
        """How often a page changes, in changes per second, as far as is known."""
        return typical(self.populations.rates(groups, course.history))

    def grade(self, course: Course, groups: Sequence[str], degree: float) -> int:
        """The grade of a page, if it stood in its line by another policy until now."""
        rates = self.populations.rates(groups, course.history)
        # Of a page that was visited once nothing has changed yet.
        change = course.change if course.history else 1.0
        return self.timetable.grade(rates, max(change, CHANGE_FLOOR) * degree)

    def price(self, sample: Sequence[tuple[Course, Sequence[str], float]]) -> None:
        """Let the level be what some pages make it, each with its groups and degree, as they would be graded.

        What a page is graded as depends on the level, if only a little: so that is done some times.
        """
        for _ in range(_PRICED):
            counts = Counter(self.grade(*each) for each in sample)
            self.timetable.restore(counts.items())

    def _failed(self, course: Course, at: float) -> Next:
        after = course._replace(failed=course.failed + 1)
        return Next(after, self._appointed(at, self._wait(course, AGAIN_S * 2.0 ** min(course.failed, 20))))

    def _missing(self, course: Course, at: float) -> Next:
        wait_s = self._wait(course, MISSING_S)
        since = course.missing_at if course.missing else at
        # Whoever asks again and again within an hour is told the same, and learns nothing by it.
        missing = min(course.missing + 1, 1 + max(0, int((at - since) / wait_s)))
        after = course._replace(missing=max(course.missing, missing), failed=0, missing_at=since)
        if after.is_gone:
            self.timetable.leave(course.grade)
            return Next(after, None)
        return Next(after, self._appointed(at, wait_s))

    def _wait(self, course: Course, wait_s: float) -> float:
        """Not sooner than a page may be visited, nor longer than it would wait anyway."""
        return min(max(wait_s, self.timetable.least_s), self.timetable.usual(course.grade))

    @staticmethod
    def _appointed(at: float, wait_s: float) -> Standing:
        return Standing(APPOINTED, at + wait_s)

    def to_bytes(self) -> bytes:
        """What was learnt, for storing."""
        packed: bytes = msgpack.packb([_VERSION, self.timetable.counts(), self.populations.to_state()])
        return packed

    @classmethod
    def from_bytes(cls, timetable: Timetable, stored: bytes) -> Courses:
        """What `to_bytes` gave, with a timetable that may be of another policy; raises ValueError."""
        version, counts, state = _unpacked(stored)
        if version != _VERSION:
            raise ValueError(f"what was learnt is of version {version}, not {_VERSION}")
        timetable.restore(counts)
        return cls(timetable, Populations.from_state(state))


def _unpacked(stored: bytes) -> Any:
    try:
        return msgpack.unpackb(stored)
    except (ValueError, msgpack.UnpackException) as error:
        raise ValueError(f"this is not what was learnt of visits: {error}") from error
