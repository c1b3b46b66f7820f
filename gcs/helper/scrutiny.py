"""Scrutiny: what a helper of an open site says is held back until somebody else has confirmed it.

Of a new helper every page is asked for a second time, by another helper if there is one, and by this gatherer
where they disagree or there is none. Of one that is known a few pages are, from time to time. Nobody is
blamed for what only another helper says: a dispute is decided by fetching the page here.
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
from gcs.core.trust import Telling, Trust, agree
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


class Told(NamedTuple):
    """A page as a helper tells of it."""

    page: Page
    response: Response

    @property
    def telling(self) -> Telling:
        """What must agree of it."""
        return _telling(self.response, self.page.read, self.page.fingerprint)


@dataclass(eq=False, slots=True)
class Case:
    """An answer that is held back."""

    helper: str
    loan: Loan
    told: Mapping[int, Told]
    open: set[int]
    """Pages that are still to be confirmed."""
    since: float
    second: str = ""
    """Who was asked a second time, if that was a helper."""
    others: dict[int, Told] = field(default_factory=dict)
    """What that one says, where it disagrees."""
    is_wrong: bool = False
    second_is_wrong: bool = False
    is_out: bool = False
    """Whether another helper has it now."""
    is_void: bool = False
    """Whether nothing can be said about it."""


Replicate = Callable[[Case, Sequence[int]], bool]


class Scrutiny:
    """All cases of one gatherer."""

    def __init__(
        self,
        crawl: Crawl,
        trust: Trust,
        *,
        replicate: Replicate,
        again: Callable[[Sequence[str]], None],
        random: Random,
    ) -> None:
        """`replicate` asks another helper, if there is one; `again` has pages fetched again that count."""
        self._crawl, self.trust, self.replicate, self._again = crawl, trust, replicate, again
        self._random = random
        self._cases: dict[Case, None] = {}
        self._by_key: dict[str, tuple[Case, int]] = {}
        self._log = structlog.get_logger()

    def keeps(self, key: str) -> bool:
        """Whether a page is to be fetched here, because somebody's word is to be checked."""
        return key in self._by_key

    def complete(self, helper: str, loan: Loan, told: Mapping[int, Told]) -> None:
        """A helper has said all that it will of a loan."""
        told = {number: each for number, each in told.items() if not _is_passing(each.response)}
        loan.took_s = max((each.response.total_s for each in told.values()), default=0.0)
        self._crawl.loans.put_back(loan, [number for number in loan.jobs if number not in told])
        check = self.trust.to_check(helper, list(told), self._random) if told else []
        case = Case(helper, loan, told, set(check), trio.current_time())
        if not check:
            self.trust.accepted(helper, [job.queued.key for job in loan.jobs.values()])
            self._accept(case)
            self._crawl.loans.ended(loan)
            return
        self._cases[case] = None
        # One page is fetched here in any case: two that know each other could agree on anything.
        own = self._random.choice(check)
        others = [number for number in check if number != own]
        case.is_out = bool(others) and self.trust.is_new(helper) and self.replicate(case, others)
        if case.is_out:
            return
        self._crawl.loans.let_go(loan)
        self._ask_here(case, check)

    def confirmed(self, case: Case, second: str, told: Mapping[int, Told]) -> None:
        """Another helper has been asked for the same, and says this."""
        self._crawl.loans.let_go(case.loan)
        case.is_out = False
        if case not in self._cases:
            return
        case.second = second
        for number in list(case.open):
            if number not in told or _is_passing(told[number].response):
                continue
            if agree(case.told[number].telling, told[number].telling):
                case.open.discard(number)
            else:
                case.others[number] = told[number]
        self._ask_here(case, sorted(case.open))
        self._see(case)

    def judged(self, visit: Visit) -> None:
        """This gatherer has asked for a page itself; what it got no real answer to proves nothing."""
        found = self._by_key.pop(visit.job.queued.key, None)
        if found is None:
            return
        case, number = found
        if isinstance(visit.outcome, Response) and not _is_passing(visit.outcome):
            mark = fingerprint(visit.outcome.body, visit.job.path)
            seen = _telling(visit.outcome, visit.document, mark)
            case.is_wrong |= not agree(seen, case.told[number].telling)
            other = case.others.get(number)
            case.second_is_wrong |= other is not None and not agree(seen, other.telling)
        else:
            case.is_void = True
        case.open.discard(number)
        self._see(case)

    def lied(self, helper: str) -> None:
        """A helper has written what cannot be."""
        self._credit(helper, wrong=True)

    def sweep(self, now: float) -> None:
        """Give up what could not be confirmed for too long, or is not this gatherer's to fetch any more."""
        ends = self._crawl.is_ending
        late = [
            case
            for case in self._cases
            if not case.is_out and (ends or now - case.since > self._patience_s(case) or self._has_left(case))
        ]
        for case in late:
            self._close(case)
            self._crawl.loans.put_back(case.loan, list(case.loan.jobs))

    @staticmethod
    def _patience_s(case: Case) -> float:
        return max(PATIENCE_S, _TURNS * case.loan.delay_s)

    def _has_left(self, case: Case) -> bool:
        """Whether something of a case is not this gatherer's to fetch any more."""
        asked = (key for key, (each, _) in self._by_key.items() if each is case)
        held = (job.queued.key for job in case.loan.jobs.values())
        return not all(map(self._crawl.may_fetch, (*asked, *held)))

    def _ask_here(self, case: Case, numbers: Iterable[int]) -> None:
        """Have pages fetched by this gatherer, whose own account stands then."""
        for number in numbers:
            job = case.loan.jobs[number]
            self._by_key[job.queued.key] = (case, number)
            self._crawl.loans.put_back(case.loan, [number])

    def _see(self, case: Case) -> None:
        """Decide a case in which nothing is open, or which is lost already."""
        if case not in self._cases or (case.open and not case.is_wrong):
            return
        self._close(case)
        if case.is_void and not case.is_wrong:
            self._crawl.loans.put_back(case.loan, list(case.loan.jobs))
            return
        if case.second:
            self._credit(case.second, wrong=case.second_is_wrong)
        self._credit(case.helper, wrong=case.is_wrong)
        if case.is_wrong:
            self._crawl.loans.put_back(case.loan, list(case.loan.jobs))
        else:
            self._accept(case)

    def _close(self, case: Case) -> None:
        self._cases.pop(case, None)
        for key in [key for key, (each, _) in self._by_key.items() if each is case]:
            del self._by_key[key]

    def _credit(self, helper: str, *, wrong: bool) -> None:
        if not wrong:
            self.trust.passed(helper)
            return
        again = self.trust.failed(helper)
        self._log.warning("a helper was wrong", helper=helper, again=len(again))
        if again:
            self._again(again)

    def _accept(self, case: Case) -> None:
        """Take what was said of the pages that were not fetched here."""
        for number in list(case.loan.jobs):
            page, response = case.told[number]
            self._crawl.loans.returned(case.loan, number, response, page.read, page.fingerprint, case.helper)


def _is_passing(response: Response) -> bool:
    """Whether an answer says more about the moment than about the page: others may get another one."""
    return response.status >= _FAILING or response.status == _TOO_MANY


def _telling(response: Response, document: Document | None, mark: Fingerprint) -> Telling:
    headers = response.headers
    asked: tuple[object, ...] = (headers.get("x-robots-tag", ""),)
    links, whole = None, b""
    if document is not None:
        links = frozenset(document.hrefs)
        asked += (document.base, document.canonical, document.noindex, document.nofollow)
        whole = msgspec.msgpack.encode((tuple(document), tuple(mark)))
    return Telling(response.status, headers.get("location", ""), response.digest(), links, asked, whole)
