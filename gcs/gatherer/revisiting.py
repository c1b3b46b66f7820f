"""Visits to pages that were fetched before: which are due, and what is remembered of each until the next one.

The decisions are those of `gcs.core.revisits`; here they meet the store, the answers of servers, and time.
What is learnt of all pages together is kept with the crawl's statistics, now and then: what a crash forgets
is some visits' worth of experience, and no visit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final
from zlib import crc32

from gcs.config import Revisit
from gcs.core.dates import moment
from gcs.core.revisits import likeness, memory
from gcs.core.revisits.course import Courses, Seen
from gcs.core.revisits.hints import Hints
from gcs.core.revisits.memory import Look, Memory
from gcs.core.revisits.pace import Pace
from gcs.core.revisits.standing import APPOINTED, Standing
from gcs.core.revisits.timetable import Once, Policy, Timetable, timetable
from gcs.core.sources import NO_SCHEDULE, Schedule
from gcs.core.urls import PATH
from gcs.core.urls import url as url_of
from gcs.errors import ConfigError
from gcs.fetch.outcome import REDIRECTS, Response
from gcs.gatherer.job import Visit
from gcs.store.records import Again, Remembered, Revised, State, host_of
from gcs.store.store import Store

REVISITS: Final = "revisits"
ROUND: Final = "revisits-since"
"""When it was begun to visit every page once more, until that is done."""
GRADED: Final = "revisits-graded"
"""By what pages stand in their lines: the policy, and the schedule of sources if there is one."""
ELSEWHERE: Final = -1.0
"""The date of the record of a page whose body may be in none of its own: it is kept at the next visit."""
_DAY_S: Final = 86_400.0
_EARLY: Final = 2_000
"""Pages that were due too soon, until others wait."""
_POLICIES: Final[dict[str, Policy]] = {"uniform": "uniform", "anansi": "anansi"}


class Revisiting:
    """What a crawl knows of visits."""

    def __init__(
        self,
        settings: Revisit,
        store: Store,
        *,
        superpage: Callable[[str], str],
        clock: Callable[[], float],
        is_alone: bool = True,
        remember: Callable[[str, Remembered], None] = lambda *_: None,
        schedule: Schedule = NO_SCHEDULE,
    ) -> None:
        """`superpage` gives where that of a key begins, `remember` has something written soon.

        Raises ConfigError for bounds that leave no room.
        """
        self._store, self._superpage, self._clock, self._remember = store, superpage, clock, remember
        self.settings, self._schedule, self._is_alone = settings, schedule, is_alone
        self._early: set[str] = set()
        """Pages that were due too soon, until that is on disk."""
        self.may_begin = not settings.once
        """Whether it is on disk when the round began, if there is one: before, nothing is visited in it."""
        begun = store.get_meta(ROUND)
        self.started = float(begun) if begun else clock()
        if begun and is_alone and self._is_through():
            self.started = clock()  # there was no room to write that it had ended
        """When this process, or the round that it goes on with, was begun."""
        self.graded = (store.get_meta(GRADED) or b"").decode()
        """By what all pages stand in their lines, as `grading` says it; "" while they are graded anew."""
        table, stored = self._table(), store.get_meta(REVISITS)
        self.courses = Courses.from_bytes(table, stored) if stored else Courses(table)
        if not self.is_graded:
            self.courses.timetable = table = self._table()  # how many there were of other grades says nothing
        self._begin(table)

    def _begin(self, table: Timetable) -> None:
        """Visits are made by a timetable from now on."""
        now = self._clock()
        self._hints = Hints(table, now)
        self._pace = Pace(table, self._store.visits_begun, now) if table.is_paced else None

    def _table(self) -> Timetable:
        table = table_of(self.settings)
        return Once(table, self.started) if self.settings.once else table

    def _is_through(self) -> bool:
        """Whether all was visited in the round that was begun; of several gatherers none knows that alone."""
        ahead = self._store.next_visit_at(Once(table_of(self.settings), self.started))
        return math.isinf(ahead) and not self._store.counts().queued

    def began_before(self, at: float) -> bool:
        """The round was begun at a time; whether that was sooner than is known here."""
        if not self.settings.once or at >= self.started:
            return False
        self.started = at
        self.change(self.settings)
        return True

    def change(self, settings: Revisit) -> None:
        """Decide by other settings from now on; raises ConfigError for bounds that leave no room."""
        graded_by, counts = self.grading, self.courses.timetable.counts()
        self.settings = settings
        table = self._table()
        if self.grading == graded_by:
            table.restore(counts)
        self.courses.timetable = table
        self._begin(table)

    @property
    def grading(self) -> str:
        """What the grades and dates of pages go by; in a round nobody has a date before its visit."""
        mark = "" if self.settings.once else self._schedule.mark
        return f"{policy_of(self.settings)} {mark}".rstrip()

    @property
    def is_graded(self) -> bool:
        """Whether all pages stand in their lines as the policy wants it."""
        return self.graded == self.grading

    @property
    def is_endless(self) -> bool:
        """Whether there is always another visit to come."""
        return self.settings.is_standing

    def due(
        self, now: float, count: int, has_room: Callable[[str], bool], may_fetch: Callable[[str], bool]
    ) -> list[Again]:
        """Pages that are to be visited now, if they may be, of hosts that have room for each."""
        if not (self.settings.is_on and self.may_begin) or len(self._early) >= _EARLY:
            return []
        self._hints.pass_time(now)
        found = self._store.visits_due(
            self.courses.timetable,
            now=now,
            count=count,
            paced=None if self._pace is None else self._pace.room(self._store.visits_begun, now),
            is_wanted=has_room,
            is_allowed=may_fetch,
        )
        return found if self.settings.once else [each for each in found if not self._is_early(each, now)]

    def _is_early(self, again: Again, now: float) -> bool:
        """Whether a page seems to be due, but is not; then it stands where it should from now on."""
        key, was = again.queued.key, Memory.from_bytes(again.memory)
        if not self.is_graded:
            was = self._graded(key, was)
        if was.standing is None:
            return False
        later = self.courses.rather(was.course, was.standing, was.visited_at, now, spread=_spread(key))
        if later is None and now < self.courses.timetable.due_at(was.standing):
            later = was.standing  # it was due by another policy
        if later is None:
            return False
        self._early.add(key)
        self._remember(key, Remembered(replace(was, standing=later).to_bytes(), later))
        return True

    def written(self, keys: Iterable[str]) -> None:
        """What is remembered of these is on disk: those that seemed to be due stand where they should."""
        early = self._early.intersection(keys)
        self._early -= early
        self._store.put_back_visits(sorted(early))

    def is_wanted(self, key: str) -> bool:
        """Whether a page that was due is still to be visited."""
        return self._store.awaits_visit(key)

    def next_at(self) -> float:
        """When the next visit is due; infinite if there is none."""
        if not self.settings.is_on:
            return math.inf
        table = self.courses.timetable
        if self._pace is None:
            return self._store.next_visit_at(table)
        paced_from = self._pace.next_at(self._store.visits_begun, self._clock())
        return self._store.next_visit_at(table, paced_from=paced_from)

    def meta(self) -> dict[str, bytes]:
        """What was learnt, to be kept."""
        begun = f"{self.started}".encode() if self.settings.once else b""
        return {REVISITS: self.courses.to_bytes(), ROUND: begun}

    def ended(self) -> dict[str, bytes]:
        """The same when all pages were visited once more."""
        return self.meta() | {ROUND: b""}

    @property
    def must_end(self) -> bool:
        """Whether it has to be on disk that a round has ended, or the next one would take it for its own.

        One gatherer alone sees by its pages that it had; of several none can.
        """
        return self.settings.once and not self._is_alone

    def groups(self, key: str) -> tuple[str, str, str]:
        """The groups that a page is in, each within the one before: all, and its superpage and host."""
        host, superpage = host_of(key) + PATH, self._superpage(key)
        return ("", host, superpage) if superpage.startswith(host) else ("", superpage, host)

    # What came of a visit

    def first(self, visit: Visit) -> Remembered | None:
        """What is remembered of a page that was visited for the first time; None if there is none."""
        outcome, key = visit.outcome, visit.job.queued.key
        if visit.state is not State.DONE or not isinstance(outcome, Response) or outcome.status >= 400:
            return None
        look = _look(visit, outcome)
        degree = self._degree(key, look.out_degree)
        begun = self.courses.begin(self.groups(key), degree, visit.at, spread=_spread(key))
        standing = self._scheduled(visit.job.url, visit.at, begun.standing)
        return _remembered(memory.first(look, begun.course, standing, degree), kept=visit.keep)

    def _scheduled(self, url: str, at: float, standing: Standing | None) -> Standing | None:
        """Where a page stands that was found at a time: if its source has a schedule, by that."""
        every_s = self._schedule.every(url) if self._schedule and standing is not None else None
        return standing if every_s is None else Standing(APPOINTED, at + every_s)

    def _scheduled_late(self, key: str, at: float, standing: Standing | None) -> Standing | None:
        """The same for a page that was found before there was a schedule; a round has to come to it first."""
        is_none = not self._schedule or self.settings.once
        return standing if is_none else self._scheduled(url_of(key), at, standing)

    def adopted(self, key: str, look: Look, links: int, kept_at: float) -> Remembered:
        """What is remembered of a page that was fetched before anybody thought of coming back."""
        degree = self._degree(key, links)
        begun = self.courses.begin(self.groups(key), degree, look.at)
        standing = self._scheduled_late(key, look.at, begun.standing)
        found = replace(memory.first(look, begun.course, standing, degree), kept_at=kept_at)
        return Remembered(found.to_bytes(), found.standing)

    def price(self, sample: Sequence[tuple[str, Remembered]]) -> None:
        """Let intervals be as long as some pages make them that are to be graded anew."""
        known = [(key, Memory.from_bytes(each.memory)) for key, each in sample]
        self.courses.price([(was.course, self.groups(key), was.degree) for key, was in known])

    def regraded(self, some: Sequence[tuple[str, Remembered]]) -> list[Revised]:
        """What is to be remembered of pages that may have stood in their lines by another policy."""
        revised = []
        for key, known in some:
            after = self._graded(key, Memory.from_bytes(known.memory))
            if after.standing is not None:
                self.courses.timetable.enter(after.course.grade)
            if (packed := after.to_bytes()) != known.memory:
                revised.append(Revised(key, known.memory, Remembered(packed, after.standing)))
        return revised

    def _graded(self, key: str, was: Memory) -> Memory:
        """A page in its line by the policy of now; who was told a date stays with it."""
        course = was.course._replace(grade=self.courses.grade(was.course, self.groups(key), was.degree))
        standing = was.standing
        if standing is not None and standing.grade != APPOINTED:
            standing = self._scheduled_late(key, was.visited_at, Standing(course.grade, standing.since))
        return replace(was, course=course, standing=standing)

    def again(self, visit: Visit, before: Memory) -> Remembered:
        """What is remembered of a page that was visited again; its visit says from now on what it found."""
        key, outcome = visit.job.queued.key, visit.outcome
        look, found, change = Look(visit.at), Seen.FAILED, 0.0
        if isinstance(outcome, Response) and visit.state is State.DONE:
            look = _look(visit, outcome)
            # Where a redirect leads need not be in its body.
            is_same = visit.is_same and (
                not before.links or outcome.status < 300 or before.links == look.links
            )
            found, change = memory.seen(before, outcome.status, look, same_bytes=is_same)
        visit.seen, visit.change = found, change
        degree = self._degree(key, look.out_degree or max(0, round(before.degree) - 1))
        after = self.courses.visited(
            before.course,
            self.groups(key),
            found,
            max(1.0, look.at - before.visited_at),
            visit.at,
            degree=degree,
            change=change,
            changed_ago_s=_changed_ago(look),
        )
        was_there = found not in (Seen.FAILED, Seen.MISSING)
        standing = after.standing
        if was_there:
            standing = self._scheduled(visit.job.url, visit.at, standing)
        then = memory.after(before, found, look, after.course, standing)
        if visit.is_kept_at_last:
            then = replace(then, kept_at=look.at)
        is_new = found in (Seen.CHANGED, Seen.TOUCHED)
        return _remembered(replace(then, degree=degree), kept=visit.keep or not is_new)

    def _degree(self, key: str, out_degree: int) -> float:
        """I + O: what the last ranking says, or one link to it."""
        (ranked,) = self._store.priorities([key])
        return max(1.0, ranked.old) if ranked is not None else 1.0 + out_degree

    def hinted(self, hints: Sequence[tuple[str, float]], known: Sequence[Remembered | None]) -> list[Revised]:
        """Somebody says that pages changed, each at a time: visit those soon for which that is after the last
        visit, and for which there is something left of the budget. `known` is what is remembered of them.

        What is to change later than today says nothing: it would be after every visit.
        """
        now, table = self._clock(), self.courses.timetable
        revised = []
        for (key, changed_at), remembered in zip(hints, known, strict=True):
            if changed_at > now + _DAY_S or remembered is None or remembered.standing is None:
                continue
            was = Memory.from_bytes(remembered.memory)
            soon = Standing(APPOINTED, max(now, was.asked_at + self.settings.least_s))
            is_news = changed_at > was.visited_at and table.due_at(remembered.standing) > soon.since
            if is_news and self._hints.allow(now):
                after = Remembered(replace(was, standing=soon).to_bytes(), soon)
                revised.append(Revised(key, remembered.memory, after))
        return revised


def _spread(key: str) -> float:
    """Which part of its first interval a page waits for: another one for every page."""
    return (crc32(key.encode()) + 1) / (1 << 32)


def _look(visit: Visit, response: Response) -> Look:
    """What an answer says of a page."""
    headers, is_read = response.headers, visit.document is not None
    urls = [target.url for target in visit.targets if target is not None]
    if leads_to := headers.get("location") if response.status in REDIRECTS else None:
        urls, is_read = [leads_to], True
    return Look(
        response.started,
        headers.get("etag", ""),
        headers.get("last-modified", ""),
        likeness.words_of(response.body) if is_read else 0,
        likeness.links_of(urls) if is_read else b"",
        len(urls),
    )


def _changed_ago(look: Look) -> float | None:
    """How long before the visit the page says that it changed."""
    changed_at = moment(look.modified)
    return None if changed_at is None else look.at - changed_at


def _remembered(found: Memory, *, kept: bool) -> Remembered:
    """As the store has it; of a page whose body was not kept there is no record to refer to."""
    found = found if kept else replace(found, kept_at=0.0)
    return Remembered(found.to_bytes(), found.standing)


def policy_of(settings: Revisit) -> Policy:
    """What pages are graded by; the usual if every page is visited once more."""
    return _POLICIES.get(settings.policy, "adaptive")


def table_of(settings: Revisit) -> Timetable:
    """The timetable of some settings; raises ConfigError for bounds that leave no room."""
    try:
        return timetable(policy_of(settings), settings.every_s, settings.least_s, settings.most_s)
    except ValueError as error:
        raise ConfigError(f"revisit.every: {error}") from error
