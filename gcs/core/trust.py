"""Whom to believe: helpers that nobody knows earn trust by answers that others confirm. (As BOINC does it.)

A helper is *new* until so many of its answers in a row were consistent; all that it says is checked before it
counts. After that an answer is checked with a probability that falls as consistent ones go on, to one in two,
and one that is not checked counts at once. One wrong answer makes it new again, and everything that it said
since it was last found consistent has to be fetched again. One that is wrong again and again is not asked any
more.

Who is known confirms what new ones say. Two that know each other could agree on anything, so of what they
agree on one page is looked at in any case, and now and then all of it, unforeseeably: an *audit*. What rests
on the word of one that confirmed it is fetched again if that one is found wrong, unless it was audited since.

Pages change between two fetches, so an account that differs from our own need not be wrong. Then the page is
fetched a second time here: what our two accounts have in common must be so in the helper's too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from random import Random
from typing import Any, Final, NamedTuple

NEW: Final = 10
"""Consistent answers after which a helper is not new any more."""
LEAST: Final = 0.5
"""An answer is checked with at least this probability."""
SAMPLE: Final = 2
"""Pages that a check of a known helper's answer looks at."""
AUDITED: Final = 0.25
"""Of the answers that a known helper confirms, the share of which every page is looked at."""
BARRED_AFTER: Final = 3
"""Wrong answers after which a helper is not asked any more."""
FORGIVEN_AFTER: Final = 200
"""After so many consistent answers in a row one wrong answer is forgotten."""
SIMILAR: Final = 0.7
"""Of the links of two accounts with different bodies, the share that has to be in both."""
ALIKE: Final = 0.5
"""Of the words of their titles and excerpts, the share that has to be in both."""
STRIKES: Final = 3
"""So many bodies that nobody else has seen are one wrong answer, unless others bring as many."""
USUAL: Final = 0.05
"""Of the answers that are checked, a share whose pages may just have changed."""
_REMEMBERED: Final = 40


class Verdict(Enum):
    """What our own account of a page says about somebody else's."""

    AGREES = auto()
    DIFFERS = auto()
    """The page stands still, and looked much the same, but had another body: it may have changed once."""
    WRONG = auto()
    VOID = auto()
    """Nothing can be said."""
    OPEN = auto()
    """It has to be fetched once more."""


class Telling(NamedTuple):
    """What somebody tells of a page, as far as it must agree with what others tell."""

    status: int
    location: str
    """Where a redirect leads."""
    digest: bytes
    links: frozenset[str] | None
    """None for what is not a page."""
    asked: tuple[object, ...] = ()
    """What it is, what it asks of crawlers, and where its links are counted from."""
    whole: bytes = b""
    """Everything that was read of it, which equal bodies have in common."""
    title: frozenset[str] = frozenset()
    text: frozenset[str] = frozenset()
    """The words of its title and its excerpt."""


def judge(told: Telling, first: Telling, second: Telling | None = None) -> Verdict:
    """What our one or two accounts of a page say about what somebody told."""
    if told in (first, second):
        return Verdict.AGREES
    if second is None:
        return Verdict.OPEN
    for said, one, other in (
        (told.status, first.status, second.status),
        (told.location, first.location, second.location),
        (told.links is None, first.links is None, second.links is None),
        (told.asked, first.asked, second.asked),
    ):
        if one != other:
            return Verdict.VOID
        if said != one:
            return Verdict.WRONG
    if told.digest in (first.digest, second.digest):
        return Verdict.WRONG  # the same body does not say two things
    if first.digest == second.digest:
        return Verdict.DIFFERS if _are_alike(told, first) else Verdict.WRONG
    if not (first.links or first.title or first.text):
        return Verdict.VOID
    if _are_alike(told, first) or _are_alike(told, second):
        return Verdict.AGREES
    return Verdict.WRONG if _are_alike(first, second) else Verdict.VOID


def _are_alike(one: Telling, other: Telling) -> bool:
    """Whether two accounts with different bodies can be of one page."""
    return (
        _have_in_common(one.links or frozenset(), other.links or frozenset(), SIMILAR)
        and _have_in_common(one.title, other.title, ALIKE)
        and _have_in_common(one.text, other.text, ALIKE)
    )


def _have_in_common(one: frozenset[str], other: frozenset[str], share: float) -> bool:
    return len(one & other) >= share * len(one | other)


class Look(NamedTuple):
    """What is to be looked at of an answer that somebody was to confirm."""

    pages: frozenset[int]
    is_audit: bool
    """Whether that was drawn to be all of it: nobody can bring that about."""


@dataclass(slots=True)
class Claims:
    """Keys of what somebody said, in the order in which that counted, as far as no check has covered it."""

    keys: list[str] = field(default_factory=list)
    covered: int = 0
    """Keys that stood there before."""

    @property
    def mark(self) -> int:
        """A place in all of it: what was said until now is before it."""
        return self.covered + len(self.keys)

    def cover(self, mark: int) -> None:
        """A check covers what was said before a mark."""
        said_before = max(0, mark - self.covered)
        del self.keys[:said_before]
        self.covered += said_before

    def withdraw(self) -> list[str]:
        """Nothing of it counts any more."""
        keys = self.keys
        self.keys, self.covered = [], self.mark
        return keys


@dataclass(slots=True)
class Record:
    """What is known of one helper."""

    consistent: int = 0
    """Answers in a row that were found consistent."""
    wrong: int = 0
    """Answers that were not, since ever."""
    checked: int = 0
    """Of late: answers that were checked."""
    differing: int = 0
    """Those of them with a body that nobody else has seen."""
    unchecked: Claims = field(default_factory=Claims)
    """What it said since it was last found consistent."""
    vouched: Claims = field(default_factory=Claims)
    """What counts because it confirmed it, since it was last audited."""

    def count(self, *, differs: bool) -> None:
        """One more was checked."""
        if self.checked >= _REMEMBERED:
            self.checked, self.differing = self.checked // 2, self.differing // 2
        self.checked += 1
        self.differing += differs

    def withdraw(self) -> list[str]:
        """Nothing counts any more that rests on its word."""
        return self.unchecked.withdraw() + self.vouched.withdraw()

    def state(self) -> list[Any]:
        """All of it, as plain values."""
        counts = self.consistent, self.wrong, self.checked, self.differing
        return [*counts, self.unchecked.keys, self.vouched.keys]

    @classmethod
    def restored(cls, state: Sequence[Any]) -> Record:
        """What `state` gave."""
        return cls(*state[:4], *(Claims(list(keys)) for keys in state[4:]))


class Trust:
    """The records of all helpers that have to earn it, and what has to be fetched again."""

    def __init__(self, records: Mapping[str, Record] | None = None, again: Iterable[str] = ()) -> None:
        self._records = dict(records or {})
        self.again = dict.fromkeys(again)
        """Keys of what somebody said who was wrong later, in the order of their time."""

    def record(self, helper: str) -> Record:
        """That of one helper."""
        return self._records.setdefault(helper, Record())

    def helpers(self) -> list[str]:
        """All that have a record."""
        return list(self._records)

    def is_new(self, helper: str) -> bool:
        """Whether all that it says is checked before it counts."""
        return self.record(helper).consistent < NEW

    def may_confirm(self, helper: str) -> bool:
        """Whether it is known, and what it says of what others said counts."""
        return not self.is_new(helper) and not self.is_barred(helper)

    def is_barred(self, helper: str) -> bool:
        """Whether it is not asked any more."""
        return self.record(helper).wrong >= BARRED_AFTER

    def barred(self) -> list[str]:
        """The names of all that are not asked any more."""
        return sorted(name_of(each) for each in self._records if self.is_barred(each))

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

    def to_look_at(self, pages: Sequence[int], disputed: Iterable[int], random: Random) -> Look:
        """Which pages of an answer that another one was to confirm have to be looked at."""
        if random.random() < AUDITED:
            return Look(frozenset(pages), is_audit=True)
        return Look(frozenset({random.choice(pages), *disputed}), is_audit=False)

    def accepted(self, helper: str, keys: Iterable[str]) -> None:
        """What it said of these counts, unchecked."""
        self.record(helper).unchecked.keys += keys

    def mark(self, helper: str) -> int:
        """A place in all that it says: what it has said until now is before it."""
        return self.record(helper).unchecked.mark

    def passed(self, helper: str, mark: int) -> None:
        """An answer that was given at a mark was found consistent."""
        record = self.record(helper)
        record.count(differs=False)
        record.consistent += 1
        record.unchecked.cover(mark)
        if record.consistent % FORGIVEN_AFTER == 0:
            record.wrong = max(0, record.wrong - 1)

    def vouched(self, helper: str, keys: Iterable[str]) -> None:
        """What another one said of these counts because this one has confirmed it."""
        self.record(helper).vouched.keys += keys

    def vouched_mark(self, helper: str) -> int:
        """A place in all that it confirms."""
        return self.record(helper).vouched.mark

    def audited(self, helper: str, mark: int) -> None:
        """Every page of what it confirmed at a mark was as it said."""
        self.record(helper).vouched.cover(mark)

    def differed(self, helper: str) -> bool:
        """An answer has a body that nobody else has seen; whether that has been so too often."""
        record = self.record(helper)
        record.count(differs=True)
        others = [each for name, each in self._records.items() if name != helper]
        checked, differing = sum(each.checked for each in others), sum(each.differing for each in others)
        usual = max(USUAL, differing / checked if checked else 0.0)
        return record.differing >= STRIKES and record.differing > STRIKES * usual * record.checked

    def failed(self, helper: str) -> int:
        """An answer was wrong; how many pages have to be fetched again."""
        record = self.record(helper)
        again = record.withdraw()
        record.consistent = record.checked = record.differing = 0
        record.wrong += 1
        self.again.update(dict.fromkeys(again))
        return len(again)

    def forget(self, helper: str) -> None:
        """It is not invited any more; what rests on its word has to be fetched again."""
        self.again.update(dict.fromkeys(self._records.pop(helper).withdraw()))

    def doubt(self, keys: Iterable[str]) -> None:
        """Somebody else has found out that these have to be fetched again."""
        self.again.update(dict.fromkeys(keys))

    @property
    def is_owed(self) -> bool:
        """Whether something rests on the word of somebody, and no check has covered it since."""
        return any(each.unchecked.keys or each.vouched.keys for each in self._records.values())

    def queued(self, keys: Iterable[str]) -> None:
        """These are being fetched again."""
        for key in keys:
            self.again.pop(key, None)

    def counts(self) -> dict[str, tuple[int, int]]:
        """Answers in a row that were consistent, and those that were wrong, of each helper."""
        return {name_of(who): (each.consistent, each.wrong) for who, each in self._records.items()}

    def state(self) -> list[Any]:
        """All of it, as plain values."""
        return [{name: each.state() for name, each in self._records.items()}, list(self.again)]

    @classmethod
    def restored(cls, state: Sequence[Any]) -> Trust:
        """What `state` gave."""
        records, again = state
        return cls({name: Record.restored(each) for name, each in records.items()}, again)


def name_of(record: str) -> str:
    """The name of a helper, which its record has before the mark of its key."""
    return record.partition(" ")[0]
