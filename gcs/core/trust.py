"""Whom to believe: helpers that nobody knows earn trust by answers that others confirm. (As BOINC does it.)

A helper is *new* until so many of its answers in a row were consistent; all that it says is checked before it
counts. After that an answer is checked with a probability that falls as consistent ones go on, never to zero,
and one that is not checked counts at once. One wrong answer makes it new again, and everything that it said
since it was last found consistent has to be fetched again. One that is wrong again and again is not asked any
more.

Pages change between two fetches, so two accounts of one page need not be equal. They agree when they have the
same status, lead to the same place, and name the same links; where the bodies differ, most of the links.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, NamedTuple

NEW: Final = 10
"""Consistent answers after which a helper is not new any more."""
LEAST: Final = 0.05
"""An answer is checked with at least this probability."""
SAMPLE: Final = 3
"""Pages that a check of a known helper's answer looks at."""
BARRED_AFTER: Final = 3
"""Wrong answers after which a helper is not asked any more."""
FORGIVEN_AFTER: Final = 200
"""After so many consistent answers in a row one wrong answer is forgotten."""
SIMILAR: Final = 0.7
"""Of the links of two accounts with different bodies, the share that has to be in both."""


class Telling(NamedTuple):
    """What somebody tells of a page, as far as it must agree with what others tell."""

    status: int
    location: str
    """Where a redirect leads."""
    digest: bytes
    links: frozenset[str] | None
    """None for what is not a page."""
    asked: tuple[object, ...] = ()
    """What the page asks of crawlers, and where its links are counted from."""
    whole: bytes = b""
    """Everything that was read of it, which equal bodies have in common."""


def agree(one: Telling, other: Telling) -> bool:
    """Whether both can have seen the same page."""
    if (one.status, one.location, one.asked) != (other.status, other.location, other.asked):
        return False
    if one.links is None or other.links is None:
        return one.links is other.links
    if one.digest == other.digest:
        return one.links == other.links and one.whole == other.whole
    union = one.links | other.links
    return not union or len(one.links & other.links) >= SIMILAR * len(union)


@dataclass(slots=True)
class Record:
    """What is known of one helper."""

    consistent: int = 0
    """Answers in a row that were found consistent."""
    wrong: int = 0
    """Answers that were not, since ever."""
    unchecked: list[str] = field(default_factory=list)
    """Keys of what it said since it was last found consistent."""


class Trust:
    """The records of all helpers that have to earn it."""

    def __init__(self, records: Mapping[str, Record] | None = None) -> None:
        self._records = dict(records or {})

    def record(self, helper: str) -> Record:
        """That of one helper."""
        return self._records.setdefault(helper, Record())

    def is_new(self, helper: str) -> bool:
        """Whether all that it says is checked before it counts."""
        return self.record(helper).consistent < NEW

    def is_barred(self, helper: str) -> bool:
        """Whether it is not asked any more."""
        return self.record(helper).wrong >= BARRED_AFTER

    def barred(self) -> list[str]:
        """All that are not asked any more, by name."""
        return sorted(name for name in self._records if self.is_barred(name))

    def probability(self, helper: str) -> float:
        """With which an answer is checked."""
        consistent = self.record(helper).consistent
        return 1.0 if consistent < NEW else max(LEAST, NEW / (consistent + 1))

    def to_check(self, helper: str, pages: Sequence[int], random: Random) -> list[int]:
        """Which pages of an answer have to be checked; none if it counts as it is."""
        if self.is_new(helper):
            return list(pages)
        if random.random() >= self.probability(helper):
            return []
        return sorted(random.sample(list(pages), min(SAMPLE, len(pages))))

    def accepted(self, helper: str, keys: Iterable[str]) -> None:
        """What it said of these counts, unchecked."""
        self.record(helper).unchecked += keys

    def passed(self, helper: str) -> None:
        """An answer was found consistent."""
        record = self.record(helper)
        record.consistent += 1
        record.unchecked.clear()
        if record.consistent % FORGIVEN_AFTER == 0:
            record.wrong = max(0, record.wrong - 1)

    def failed(self, helper: str) -> list[str]:
        """An answer was wrong; says what has to be fetched again."""
        record = self.record(helper)
        again, record.unchecked = record.unchecked, []
        record.consistent = 0
        record.wrong += 1
        return again

    def counts(self) -> dict[str, tuple[int, int]]:
        """Answers in a row that were consistent, and those that were wrong, of each helper."""
        return {name: (each.consistent, each.wrong) for name, each in self._records.items()}

    def state(self) -> dict[str, Any]:
        """All of it, as plain values."""
        return {name: [each.consistent, each.wrong, each.unchecked] for name, each in self._records.items()}

    @classmethod
    def restored(cls, state: Mapping[str, Any]) -> Trust:
        """What `state` gave."""
        return cls({name: Record(good, wrong, list(keys)) for name, (good, wrong, keys) in state.items()})
