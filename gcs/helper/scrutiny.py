"""Scrutiny: what a helper of an open site says is held back until somebody else has confirmed it.

Of a new helper every page is asked for a second time, by another one that is known if there is one, and by
this gatherer where they disagree or there is none; and where they agree some are, which nobody can foresee.
Of one that is known a few pages are, from time to time. Nobody is blamed for what only another helper says: a
dispute is decided by fetching the page here, twice if it may have changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final, NamedTuple

import msgspec
import structlog
import trio

from gcs.core.traps import Fingerprint, fingerprint
from gcs.core.trust import Telling, Trust, Verdict, judge, name_of
from gcs.fetch.outcome import Response
from gcs.gatherer.crawl import Crawl
from gcs.gatherer.job import Loan, Visit
from gcs.helper.papers import Page
from gcs.summary.records import Document

_TURNS: Final = 5
"""A page that is to be checked is fetched within so many turns of its host."""
_FAILING, _TOO_MANY = 500, 429
PATIENCE_S: Final = 60.0
"""So long something is held back at most; then it is queued again, and nobody is blamed."""
_SAID: Final = ("content-type", "content-language", "x-robots-tag", "refresh", "link")
"""Headers that say what a page is, or what it wants."""


class Told(NamedTuple):
    """A page as a helper tells of it."""

    page: Page
    response: Response

    @property
    def telling(self) -> Telling:
        """What must agree of it."""
        return _telling(self.response, self.page.read, self.page.fingerprint)

    @property
    def is_useful(self) -> bool:
        """Whether it says something about the page, and not only about the moment."""
        return not _is_passing(self.response)


@dataclass(eq=False, slots=True)
class Case:
    """An answer that is held back."""

    helper: str
    loan: Loan
    told: Mapping[int, Told]
    open: set[int]
    """Pages that are still to be confirmed."""
    since: float
    mark: int
    """What the helper had said before this."""
    second: str = ""
    """Who was asked a second time, if that was a helper."""
    second_mark: int = 0
    """What that one had confirmed before this."""
    is_audited: bool = False
    """Whether all that it says is looked at, and it has something to say of every page."""
    others: dict[int, Told] = field(default_factory=dict)
    """What that one says of pages that are fetched here too."""
    seen: dict[int, Telling] = field(default_factory=dict)
    """What this gatherer saw of pages that it has to fetch once more."""
    verdicts: set[Verdict] = field(default_factory=set)
    second_verdicts: set[Verdict] = field(default_factory=set)
    is_out: bool = False
    """Whether another helper has it now."""
    is_lost: bool = False
    """Whether its helper was found wrong, or was revoked, while another one had it."""

    @property
    def weight(self) -> int:
        """About how many bytes it takes."""
        return sum(each.page.weight for each in (*self.told.values(), *self.others.values()))


Replicate = Callable[[Case, Sequence[int]], bool]


class Scrutiny:
    """All cases of one gatherer."""

    def __init__(
        self,
        crawl: Crawl,
        trust: Trust,
        *,
        replicate: Replicate,
        may_fetch: Callable[[str], bool],
        random: Random,
    ) -> None:
        """`replicate` asks another helper, if there is one; `may_fetch` says what may be fetched here."""
        self._crawl, self.trust, self.replicate, self._may_fetch = crawl, trust, replicate, may_fetch
        self._random = random
        self._cases: dict[Case, None] = {}
        self._by_key: dict[str, tuple[Case, int]] = {}
        self._log = structlog.get_logger()

    def keeps(self, key: str) -> bool:
        """Whether a page is to be fetched here, because somebody's word is to be checked."""
        return key in self._by_key

    @property
    def has_cases(self) -> bool:
        """Whether something is not decided yet."""
        return bool(self._cases)

    @property
    def weight(self) -> int:
        """About how many bytes are held back."""
        return sum(case.weight for case in self._cases)

    def held(self, helper: str) -> int:
        """How many answers of a helper are held back."""
        return sum(case.helper == helper for case in self._cases)

    def complete(self, helper: str, loan: Loan, told: Mapping[int, Told]) -> None:
        """A helper has said all that it will of a loan."""
        for number, each in told.items():
            if number in loan.jobs and not each.is_useful:
                self._crawl.loans.rest(loan, number, each.response)
        told = {number: each for number, each in told.items() if each.is_useful and number in loan.jobs}
        loan.took_s = max((each.response.total_s for each in told.values()), default=0.0)
        self._crawl.loans.put_back(loan, [number for number in loan.jobs if number not in told])
        check = self.trust.to_check(helper, list(told), self._random) if told else []
        case = Case(helper, loan, told, set(check), trio.current_time(), self.trust.mark(helper))
        if not check:
            self.trust.accepted(helper, [job.queued.key for job in loan.jobs.values()])
            self._accept(case)
            self._crawl.loans.ended(loan)
            return
        self._cases[case] = None
        case.is_out = len(check) > 1 and self.trust.is_new(helper) and self.replicate(case, check)
        if case.is_out:
            return
        self._crawl.loans.let_go(loan)
        self._ask_here(case, check)

    def confirmed(self, case: Case, second: str, told: Mapping[int, Told]) -> None:
        """Another helper has been asked for the same, and says this; it counts if that one still is known.

        What both say is fetched here too in part, or as a whole: who has agreed to a lie has lied.
        """
        self._crawl.loans.let_go(case.loan)
        case.is_out = False
        if case.is_lost:
            self.drop(case)
        if case not in self._cases:
            return
        told = {number: each for number, each in told.items() if each.is_useful}
        if told and self.trust.may_confirm(second):
            case.second, case.second_mark = second, self.trust.vouched_mark(second)
            agreed = {n for n, each in told.items() if case.told[n].telling == each.telling}
            look = self.trust.to_look_at(sorted(case.open), case.open - agreed, self._random)
            case.is_audited = look.is_audit and told.keys() == case.open
            case.open = set(look.pages)
            case.others = {number: told[number] for number in case.open & told.keys()}
        self._ask_here(case, sorted(case.open & case.loan.jobs.keys()))

    def judged(self, visit: Visit) -> bool:
        """This gatherer has asked for a page itself; whether it has to do so once more, before that counts.

        What it got no real answer to proves nothing.
        """
        key = visit.job.queued.key
        case, number = self._by_key.get(key, (None, 0))
        if case is None:
            return False
        if isinstance(visit.outcome, Response) and not _is_passing(visit.outcome):
            mark = fingerprint(visit.outcome.body, visit.job.path)
            now, before = _telling(visit.outcome, visit.brief or visit.document, mark), case.seen.get(number)
            first, second = (now, None) if before is None else (before, now)
            verdicts = [judge(case.told[number].telling, first, second)]
            if number in case.others:
                verdicts.append(judge(case.others[number].telling, first, second))
            if Verdict.OPEN in verdicts:
                case.seen[number] = now
                case.since = trio.current_time()
                return True
            case.verdicts.add(verdicts[0])
            case.second_verdicts.update(verdicts[1:])
        else:
            case.verdicts.add(Verdict.VOID)
        del self._by_key[key]
        case.open.discard(number)
        self._see(case)
        return False

    def lied(self, helper: str) -> None:
        """A helper has written what cannot be."""
        self._blame(helper)

    def dismiss(self, helper: str) -> None:
        """A helper is not invited any more: nothing of it counts that was not confirmed."""
        self.trust.forget(helper)
        self._drop_cases(helper)

    def sweep(self, now: float) -> None:
        """Give up what could not be confirmed for too long, or is not this gatherer's to fetch any more."""
        ends = self._crawl.is_ending
        for case in list(self._cases):
            late = now - case.since > max(PATIENCE_S, _TURNS * case.loan.delay_s)
            if not case.is_out and (ends or late or self._has_left(case)):
                self.drop(case)

    def drop(self, case: Case) -> None:
        """Close a case undecided: what it holds is queued again."""
        if case in self._cases:
            self._close(case)
            self._crawl.loans.put_back(case.loan, list(case.loan.jobs))

    def _has_left(self, case: Case) -> bool:
        """Whether something of a case is not this gatherer's to fetch any more."""
        asked = (key for key, (each, _) in self._by_key.items() if each is case)
        held = (job.queued.key for job in case.loan.jobs.values())
        return not all(map(self._may_fetch, (*asked, *held)))

    def _ask_here(self, case: Case, numbers: Iterable[int]) -> None:
        """Have pages fetched by this gatherer, whose own account stands then."""
        for number in numbers:
            job = case.loan.jobs[number]
            self._by_key[job.queued.key] = (case, number)
            self._crawl.loans.put_back(case.loan, [number])

    def _see(self, case: Case) -> None:
        """Decide a case in which nothing is open, or which is lost already."""
        wrong = Verdict.WRONG in case.verdicts
        if case not in self._cases or (case.open and not wrong):
            return
        if Verdict.WRONG in case.second_verdicts:
            self._blame(case.second)
        if wrong or (Verdict.DIFFERS in case.verdicts and self.trust.differed(case.helper)):
            self._blame(case.helper)
        elif case in self._cases and case.verdicts <= {Verdict.AGREES}:
            self._close(case)
            self.trust.passed(case.helper, case.mark)
            self._confirm(case)
            self._accept(case)
        self.drop(case)

    def _confirm(self, case: Case) -> None:
        """Note what rests on the word of who has confirmed a case, or what an audit of it covers."""
        if case.is_audited and case.second_verdicts == {Verdict.AGREES}:
            self.trust.audited(case.second, case.second_mark)
        if case.second and case.loan.jobs:
            self.trust.vouched(case.second, [job.queued.key for job in case.loan.jobs.values()])

    def _close(self, case: Case) -> None:
        self._cases.pop(case, None)
        for key in [key for key, (each, _) in self._by_key.items() if each is case]:
            del self._by_key[key]

    def _blame(self, helper: str) -> None:
        """A helper was wrong; what is held back of it, and what only it has confirmed, does not count."""
        again = self.trust.failed(helper)
        self._log.warning("a helper was wrong", helper=helper, again=again)
        self._drop_cases(helper)

    def _drop_cases(self, helper: str) -> None:
        for case in [each for each in self._cases if helper in (each.helper, each.second)]:
            if case.is_out:
                case.is_lost = True  # what is lent is nobody else's until it is back
            else:
                self.drop(case)

    def _accept(self, case: Case) -> None:
        """Take what was said of the pages that were not fetched here."""
        name = name_of(case.helper)
        for number in list(case.loan.jobs):
            page, response = case.told[number]
            self._crawl.loans.returned(case.loan, number, response, page.read, page.fingerprint, name)


def _is_passing(response: Response) -> bool:
    """Whether an answer says more about the moment than about the page: others may get another one."""
    return response.status >= _FAILING or response.status == _TOO_MANY


def _telling(response: Response, document: Document | None, mark: Fingerprint) -> Telling:
    headers = response.headers
    asked: tuple[object, ...] = tuple(headers.get(name, "") for name in _SAID)
    location = headers.get("location", "")
    if document is None:
        return Telling(response.status, location, response.digest(), None, asked)
    asked += (document.base, document.canonical, document.noindex, document.nofollow)
    return Telling(
        response.status,
        location,
        response.digest(),
        frozenset(document.hrefs),
        asked,
        msgspec.msgpack.encode((tuple(document), tuple(mark))),
        frozenset(document.title.split()),
        frozenset(document.excerpt.split()),
    )
