"""Loans: URLs that others fetch in this gatherer's place, from the turn that is lent to its end.

A loan holds its host's turn. What comes of its URLs goes on as if it had been fetched here; what does not
come back is queued again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from gcs.core.failures import Cause
from gcs.core.politeness import Turn, Workbench
from gcs.core.robots import Rules
from gcs.core.traps import Fingerprint
from gcs.fetch.outcome import Response
from gcs.gatherer.frontier import Frontier, Site
from gcs.gatherer.horizon import Horizon
from gcs.gatherer.inquiries import Inquiries
from gcs.gatherer.job import Job, Loan, Visit
from gcs.gatherer.lending import Lending, Wish
from gcs.gatherer.paces import Paces
from gcs.gatherer.under_way import UnderWay
from gcs.gatherer.visit import Visitor
from gcs.store.records import Queued
from gcs.summary.records import Document

KEPT: Final = frozenset({"sitemap-file"})
"""What is not lent: it is no page."""
MOST_REST_S: Final = 60.0
"""A host does not rest for longer because of what one says who has to be checked."""


class Loans:
    """What is lent, and what comes of it."""

    def __init__(
        self,
        bench: Workbench,
        frontier: Frontier,
        inquiries: Inquiries,
        under_way: UnderWay,
        visitor: Visitor,
        paces: Paces,
        horizon: Horizon,
        *,
        came: Callable[[Visit], None],
        wake: Callable[[], None],
        clock: Callable[[], float],
    ) -> None:
        """`came` is told of outcomes; `wake` is called when a host may be asked that could not be before."""
        self._bench, self._frontier, self._inquiries, self._under_way = bench, frontier, inquiries, under_way
        self._visitor, self._paces = visitor, paces
        self.horizon = horizon
        self._came, self._wake, self._clock = came, wake, clock
        self.lending: Lending | None = None
        """Who has others fetch, to be set before the crawl runs."""
        self.lent = 0
        """URLs that others are fetching."""
        self.are_left = False
        """Whether somebody may still be asking when this process has ended."""

    def lent_to(self, key: str) -> str:
        """Who fetches a URL in our place now; "" for nobody."""
        return self.lending.lent_to(key) if self.lending is not None else ""

    def offer(self, turn: Turn, site: Site, rules: Rules, now: float, *, spare: bool) -> bool:
        """Lend a turn to somebody; False if it is not lent. `spare`: it is not needed for a fetch here."""
        if self.lending is None or site.is_source:
            return False
        delay_s, _ = self._bench.bounds(turn)
        wish = self.lending.wish(site.host, now, delay_s, spare=spare)
        if wish is None or not self.may_last(turn, now + wish.longest_s):
            return False
        jobs = self._wished(wish, site, rules, now)
        if not jobs:
            return False
        self.lent += len(jobs)
        self.lending.lend(Loan(turn, jobs, delay_s), wish)
        return True

    def may_last(self, turn: Turn, until: float) -> bool:
        """Whether a turn may be lent until then: nobody else asks there meanwhile, whatever happens here."""
        return until <= self._bench.bounds(turn)[1] and self.horizon.covers(until)

    def _wished(self, wish: Wish, site: Site, rules: Rules, now: float) -> list[Job]:
        """The next URLs of a host, up to the first that is kept."""
        jobs: list[Job] = []
        while len(jobs) < wish.most and site.window and not self._is_kept(site.window[0]):
            job = self._under_way.next_allowed(site, rules, now, only_new=True)
            if job is None:
                break
            if self._is_kept(job.queued):  # those before it were not allowed
                self._under_way.put_back(job)
                break
            jobs.append(job)
        return jobs

    def _is_kept(self, queued: Queued) -> bool:
        """Whether a URL is not to be lent."""
        return queued.via in KEPT or (self.lending is not None and self.lending.keeps(queued.key))

    def put_back(self, loan: Loan, numbers: Iterable[int]) -> None:
        """Queue URLs of a loan again."""
        for number in numbers:
            self._under_way.put_back(loan.jobs.pop(number))
            self.lent -= 1
        self._wake()

    def returned(
        self,
        loan: Loan,
        number: int,
        response: Response,
        document: Document | None,
        fingerprint: Fingerprint,
        helper: str,
    ) -> None:
        """Somebody has fetched a URL that was lent, and read it if it is a page.

        Its time counts here, but for that of another gatherer, which counts it itself.
        """
        now = self._clock()
        job = loan.jobs.pop(number)
        self.lent -= 1
        visit = self._visitor.visited(job, response, self._bench.failures(job.host), now)
        visit.helper, visit.document, visit.fingerprint = helper, document, fingerprint
        loan.took_s = response.total_s
        loan.pause_s = max(loan.pause_s, visit.pause_s)
        loan.failed = visit.host_failed
        if helper:
            self._paces.took(job.host, response.total_s)
        self._came(visit)
        if visit.host_given_up:
            self._under_way.give_up(job.host, Cause.HOST, now)

    def rest(self, loan: Loan, number: int, response: Response) -> None:
        """Somebody was told to come again later: the host rests, but not for long on such a word."""
        job = loan.jobs[number]
        visit = self._visitor.visited(job, response, self._bench.failures(job.host), self._clock())
        loan.pause_s = max(loan.pause_s, min(visit.pause_s, MOST_REST_S))

    def abandoned(self, loan: Loan) -> None:
        """Queue all of a loan again, and keep its host's turn: somebody may still be asking there.

        For whoever starts this gatherer again the horizon stays on disk.
        """
        self.put_back(loan, list(loan.jobs))
        self.are_left = True

    @property
    def is_settled(self) -> bool:
        """Whether nothing is lent, and nothing that was said has to be queued again."""
        return not self.lent and (self.lending is None or self.lending.is_settled)

    def meta(self) -> dict[str, bytes]:
        """What is to be kept with a batch."""
        return self.lending.meta() if self.lending is not None else {}

    def ended(self, loan: Loan) -> None:
        """A loan is over: what did not come back is queued again, and the host may be asked."""
        self.put_back(loan, list(loan.jobs))
        self.let_go(loan)

    def let_go(self, loan: Loan) -> None:
        """The host of a loan may be asked again."""
        now, host = self._clock(), loan.turn.host
        self._bench.done(loan.turn, now, response_s=loan.took_s, failed=loan.failed, pause_s=loan.pause_s)
        site = self._frontier.site(host)
        if site is not None and loan.pause_s:
            self._inquiries.set_aside(site, now + loan.pause_s, now)
        self._wake()
