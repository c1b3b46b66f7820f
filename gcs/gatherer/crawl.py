"""The crawl: workers that fetch what the frontier gives them, and a writer that makes it last.

Workers take turns of hosts and fetch. The reader reads the pages that have come, several at a time, and puts
what came of them into the batch that is being filled. The writer commits a batch ten times a second, or when
it is full, in a thread; only then are the URLs that were found given to the frontier, so whatever is fetched
is queued on disk. When pages come faster than they are read, or batches are filled faster than they are
written, workers wait. When the disk is full, everything waits, and goes on when there is room.

The end: nothing is under way, nothing waits to be written, and the store's queue is empty. With others, whose
`Territory` says so, that is only quiet, and the end is when all are.

Others in this process, such as those that exchange URLs with other gatherers, have their parts written with
the next batch (`commit`): there is one writer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from types import MappingProxyType
from typing import Final

import structlog
import trio

from gcs.config import Config, Fetch
from gcs.core import robots
from gcs.core.failures import Cause
from gcs.core.moderation import Moderation
from gcs.core.politeness import Manner, Permits, Turn, Workbench
from gcs.core.robots import Rules, Standing
from gcs.core.traps import Fingerprint
from gcs.core.tree import Expansion
from gcs.core.urls import key
from gcs.core.vitals import Sign
from gcs.fetch.fetching import Fetching
from gcs.fetch.outcome import Failure, Origin, Response
from gcs.fetch.robots import Inquiry, RobotsCache
from gcs.gatherer.archive import Keeper
from gcs.gatherer.census import Census
from gcs.gatherer.findings import Findings
from gcs.gatherer.frontier import Frontier, Site
from gcs.gatherer.job import Job, Loan, Visit
from gcs.gatherer.lending import Lending
from gcs.gatherer.paces import Paces
from gcs.gatherer.tally import Tally
from gcs.gatherer.territory import ALONE, Territory
from gcs.gatherer.visit import Visitor
from gcs.metrics import seconds
from gcs.store.errors import DiskFull
from gcs.store.records import Batch, Committed, Finished, Found, Queued, State, host_of
from gcs.store.store import Store
from gcs.summary.records import Document
from gcs.world import REAL, World

BATCH: Final = 64
READ_AT_ONCE: Final = 32
UNREAD: Final = 64
HEAVY: Final = 8_000
"""URLs that others add to a batch at most, unless one part has more: nothing is taken off the queue while a
batch is decided about."""
SINCE: Final = 100_000
"""URLs that are remembered from a report to the next plan; more are not counted again."""
LINKS_COUNTED: Final = 16
"""Of so many pages the links of one are counted, so many times."""
LENDERS: Final = 4
"""Turns that are prepared for others at once."""
KEPT: Final = frozenset({"sitemap-file"})
"""What is not lent: it is no page."""
COMMIT_EVERY_S: Final = 0.1
MODERATE_EVERY_S: Final = 0.005
FULL_DISK_PAUSE_S: Final = 5.0
FLUSH_EVERY_S: Final = 1.0
LOCATORS: Final = 32
ERRAND_S: Final = 60.0
"""So long the rules of a host are waited for that another one has."""
STATISTICS_EVERY_S: Final = 60.0
TALLY: Final = "tally"
NOVELTY: Final = "novelty"
FINDINGS: Final = "findings"
EXPANSION: Final = "expansion"
ROBOTS: Final = "robots "


class Ending(StrEnum):
    """Why a crawl stopped."""

    FINISHED = "finished"
    PAGES = "the limit of pages was reached"
    TIME = "the limit of time was reached"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class Limits:
    """When to stop before the end."""

    pages: float = math.inf
    seconds: float = math.inf


class _Part:
    """What somebody else wants to have written with the next batch."""

    __slots__ = ("batch", "committed", "written")

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.written = trio.Event()
        self.committed: Committed | None = None


class Crawl:
    """One gatherer at work; `run` once."""

    def __init__(
        self,
        config: Config,
        store: Store,
        transport: Fetching,
        visitor: Visitor,
        expansion: Expansion,
        *,
        limits: Limits | None = None,
        territory: Territory = ALONE,
        permits: Permits | None = None,
        world: World = REAL,
    ) -> None:
        fetch = config.fetch
        self._config, self._store, self._transport, self._visitor = config, store, transport, visitor
        self._limits, self._world, self._clock = limits or Limits(), world, world.now
        self._random = world.random
        self._log = structlog.get_logger()
        self._keeper = Keeper(config, epoch=territory.epoch_of_rulings)
        self._bench = Workbench(
            fetch.per_host,
            fetch.per_address,
            fetch.delay_s,
            fetch.delay_factor,
            fetch.max_delay_s,
            permits=permits,
        )
        self._territory = territory
        self._frontier = Frontier(store, self._bench, territory=territory)
        self._robots = RobotsCache(transport, transport.agent, clock=world.now, max_wait_s=fetch.max_wait_s)
        self._errands: dict[Inquiry, float] = {}
        """Those that wait, and since when, in this order."""
        self._budget = config.crawl.max_pages_per_host or math.inf
        self._anything = robots.everything_allowed() if fetch.robots == "ignore" else None
        self.expansion = expansion
        stored = store.get_meta(TALLY)
        self.tally = Tally.from_bytes(stored) if stored else Tally()
        found = store.get_meta(FINDINGS)
        self.findings = Findings.from_bytes(found) if found else Findings()
        self._before, self._bytes_before = self.tally.pages, self.tally.size_bytes
        self._unread: list[Visit] = []
        self._finished: list[Finished] = []
        self._found: list[Found] = []
        self._parts: list[_Part] = []
        self.paces = Paces()
        self.census = Census(self._random, every=0 if territory is ALONE else LINKS_COUNTED)
        self.on_hosts: Callable[[Iterable[str]], None] | None = None
        """Told the hosts of URLs whenever some were accepted."""
        self.activity = 0
        """Grows with whatever is done here."""
        self.signs = {"scheduler": Sign(), "store": Sign()}
        """What keeps time and what writes answer here."""
        self.waits_for_room = False
        self._under_way: set[str] = set()
        """Keys of jobs whose outcome is not on disk yet."""
        self._since: list[str] | None = None
        self._moderation = Moderation(world.now())
        self.lending: Lending | None = None
        """Who has others fetch for this gatherer, to be set before it runs."""
        self._lent = 0
        self._busy = 0
        self._writing = False
        self._interrupted = False
        self._locating = 0
        self._statistics_at = 0.0
        self._committed_at = 0.0
        self.commit_times = seconds()
        """How long commits took, the waiting for room on the disk included."""
        self._answered_at = self._clock()
        self._ending: Ending | None = None
        self._work, self._hosts = trio.lowlevel.ParkingLot(), trio.lowlevel.ParkingLot()
        self._spare = trio.lowlevel.ParkingLot()
        self._pages, self._was_read = trio.lowlevel.ParkingLot(), trio.lowlevel.ParkingLot()
        self._filled, self._room, self._over = trio.Event(), trio.Event(), trio.Event()
        self._room.set()

    # From outside

    def seed(self, founds: Sequence[Found], meta: Mapping[str, bytes] = MappingProxyType({})) -> Committed:
        """Queue seeds, before the crawl runs, and keep named values beside them."""
        committed = self._store.commit(Batch(found=list(founds), meta=dict(meta)))
        self._accepted(committed)
        return committed

    async def commit(self, batch: Batch) -> Committed:
        """Have something written with the next batch, and wait until it is."""
        part = _Part(batch)
        self._parts.append(part)
        self._filled.set()
        await part.written.wait()
        assert part.committed is not None
        return part.committed

    def _accepted(self, committed: Committed) -> None:
        """Count the URLs that are new, and wake their hosts."""
        keys = [each.key for each in committed.new]
        self.expansion.visit_many(keys, self._random)
        if self._since is not None and len(self._since) < SINCE:
            self._since += keys
        hosts = dict.fromkeys(map(host_of, keys))
        if self.on_hosts is not None:
            self.on_hosts(hosts)
        self._frontier.wake(hosts | dict.fromkeys(committed.hosts), self._clock())

    def reported(self) -> None:
        """What was seen until now was reported; what comes from now on is counted again after a new plan."""
        self._since = []

    def count_anew(self, expansion: Expansion) -> None:
        """Count in another expansion from now on, which begins with what has come since the last report."""
        expansion.visit_many(self._since or [], self._random)
        self._since = None
        self.expansion = expansion
        self.paces.clear()
        self.census.clear()

    def release(self, ranges: Sequence[tuple[str, str | None]]) -> None:
        """What may be fetched of some ranges [start, end) has changed."""
        self._bench.review(self._clock())
        self._frontier.release(ranges)
        self._hosts.unpark(count=LOCATORS)

    @property
    def bench(self) -> Workbench:
        """Which hosts may be asked."""
        return self._bench

    def set_delays(self, fetch: Fetch) -> None:
        """Let hosts rest as these settings say, from the next request on."""
        self._bench.set_delays(fetch.delay_s, fetch.delay_factor, fetch.max_delay_s)

    def wake(self) -> None:
        """A host may be asked that could not be before."""
        self._work.unpark()

    def recall(self, manners: Iterable[Manner]) -> None:
        """Treat hosts as those did who asked them before."""
        for manner in manners:
            self._bench.recall(manner, self._clock())

    def forget_targets(self) -> None:
        """Ask the store again about every URL that is named."""
        self._visitor.forget_targets()

    @property
    def is_idle(self) -> bool:
        """Whether nothing is under way and nothing waits to be written."""
        under_way = self._busy or self._lent or self._unread or self._finished or self._found or self._parts
        return not under_way and not self._writing

    def stop(self, ending: Ending = Ending.INTERRUPTED) -> None:
        """Ask for nothing more; the crawl ends when what is under way has ended."""
        self._interrupted = self._interrupted or ending is Ending.INTERRUPTED
        if self._ending is None:
            self._ending = ending

    @property
    def interrupted(self) -> bool:
        """Whether somebody asked it to stop."""
        return self._interrupted

    @property
    def pages(self) -> int:
        """Answers that this run got."""
        return self.tally.pages - self._before

    @property
    def fetched_bytes(self) -> int:
        """The bytes of their bodies, as they were sent."""
        return self.tally.size_bytes - self._bytes_before

    @property
    def busy(self) -> int:
        """Requests under way."""
        return self._busy

    @property
    def unanswered_s(self) -> float:
        """How long ago the last answer came, of a host or of somebody who asked it for us."""
        return max(0.0, self._clock() - self._answered_at)

    @property
    def rest_s(self) -> float:
        """How long it is until something may be asked for; infinite when nothing waits."""
        next_at = self._bench.next_at()
        return max(0.0, min(self._store.next_due, math.inf if next_at is None else next_at) - self._clock())

    @property
    def keep_free_bytes(self) -> int:
        """The room on the disk without which it waits."""
        return self._config.store.keep_free_bytes

    @property
    def commit_age_s(self) -> float:
        """How long ago the last commit, or the beginning, was."""
        return trio.current_time() - self._committed_at

    async def run(self) -> Ending:
        """Crawl to the end, or to a limit."""
        self._committed_at = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._read)
            nursery.start_soon(self._write)
            nursery.start_soon(self._flush)
            nursery.start_soon(self._keep_time)
            for _ in range(min(LOCATORS, self._config.fetch.concurrency)):
                nursery.start_soon(self._locate)
            for number in range(self._config.fetch.concurrency):
                nursery.start_soon(self._fetch, number)
            if self.lending is not None:
                for number in range(LENDERS):
                    nursery.start_soon(self._lend, self.lending, self._config.fetch.concurrency + number)
            await self._over.wait()
            nursery.cancel_scope.cancel()
        self._frontier.give_back()
        assert self._ending is not None
        return self._ending

    # Workers

    async def _fetch(self, number: int) -> None:
        """Take a turn, use it, and again; wait when there is none."""
        while True:
            if not self._room.is_set():
                await self._room.wait()
            now = self._clock()
            taken = self._frontier.take(now) if self._may_begin(now) else None
            if taken is None:
                await self._work.park()
                continue
            self._moderation.began()
            self._wake_another(now)
            self._busy += 1
            try:
                await self._use(*taken, number)
            finally:
                self._busy -= 1

    def _wake_another(self, now: float) -> None:
        """Whoever finds work wakes the next, if there is more; when all are busy, who lends it to others."""
        if not self._work and not self._spare:
            return
        if (next_at := self._bench.next_at()) is not None and next_at <= now:
            self._work.unpark()
            if self._spare and self._is_stretched():
                self._spare.unpark()

    def _may_begin(self, now: float) -> bool:
        unread = len(self._unread)
        return (
            self._ending is None
            and unread < UNREAD
            and self.pages + unread + self._busy + self._lent < self._limits.pages
            and self._territory.may_begin()
            and self._moderation.may_begin(now)
        )

    async def _use(self, turn: Turn, site: Site, number: int, *, spare: bool = False) -> None:
        """Ask a host, in its turn, for its rules if they are not known, else for its next page.

        What others wait for goes before that. A turn that is `spare` is for others, if any can have it.
        """
        now = self._clock()
        if site.errands:
            await self._ask_rules(turn, site, self._frontier.errands(site))
            return
        if site.given_up:
            self._drop_some(site, now)
            self._bench.give_back(turn, now)
            await trio.lowlevel.checkpoint()
            return
        rules = self._anything or self._known_rules(site, now)
        if rules is None:
            inquiry = self._robots.begin(site.origin)
            if inquiry is not None:
                await self._ask_rules(turn, site, [inquiry])
                return
            self._bench.give_back(turn, now)
            self._frontier.hold(site)
            await trio.lowlevel.checkpoint()
            return
        if rules.standing is Standing.UNREACHABLE:
            self._bench.give_back(turn, now)
            self._set_aside(site, rules.until, now)
            await trio.lowlevel.checkpoint()
            return
        if self._lent_out(turn, site, rules, now, spare=spare):
            await trio.lowlevel.checkpoint()
            return
        job = self._next_allowed(site, rules, now)
        if job is None:
            self._bench.give_back(turn, now)
            await trio.lowlevel.checkpoint()
            return
        outcome = await self._transport.fetch(job.origin, job.path, on_sent=partial(self._bench.sent, turn))
        now = self._clock()
        visit = self._visitor.visited(job, outcome, self._bench.failures(job.host), now)
        visit.worker = number
        took_s = outcome.total_s
        self.paces.took(site.host, took_s)
        if self.lending is not None and visit.is_page:
            self.lending.took(site.host, took_s)
        self._bench.done(turn, now, response_s=took_s, failed=visit.host_failed, pause_s=visit.pause_s)
        if visit.pause_s and not visit.host_given_up:
            self._set_aside(site, now + visit.pause_s, now)
        self._came(visit)
        if visit.host_given_up:
            self._give_up(site.host, Cause.HOST, now)

    def _came(self, visit: Visit) -> None:
        """An outcome is there: a page is to be read, all else is decided about."""
        if visit.is_page:
            self._unread.append(visit)
            self._pages.unpark()
        else:
            self._add(visit)

    # Lending

    def _is_stretched(self) -> bool:
        """Whether there is more to fetch than can be fetched here soon."""
        all_busy = self._busy >= self._config.fetch.concurrency or len(self._unread) >= UNREAD
        return (
            all_busy
            and self._room.is_set()
            and self._ending is None
            and self.pages + self._busy + self._lent < self._limits.pages
            and self._territory.may_begin()
        )

    @property
    def is_ending(self) -> bool:
        """Whether nothing more is asked for."""
        return self._ending is not None

    def may_fetch(self, key: str) -> bool:
        """Whether a URL may be fetched here now."""
        return self._territory.may_fetch(key)

    async def can_read(self) -> None:
        """Wait until more pages may come from others: when some of those that have come were read."""
        while len(self._unread) >= 2 * UNREAD:
            await self._was_read.park()
        await self._room.wait()

    def now(self) -> float:
        """The time by the clock of this crawl."""
        return self._clock()

    @property
    def lent(self) -> int:
        """URLs that others are fetching."""
        return self._lent

    async def _lend(self, lending: Lending, number: int) -> None:
        """Take turns beyond what can be fetched here, for as long as others want some."""
        while True:
            now = self._clock()
            taken = self._frontier.take(now) if lending.has_room() and self._is_stretched() else None
            if taken is None:
                await self._spare.park()
                continue
            self._wake_another(now)
            self._busy += 1
            try:
                await self._use(*taken, number, spare=True)
            finally:
                self._busy -= 1

    def _lent_out(self, turn: Turn, site: Site, rules: Rules, now: float, *, spare: bool) -> bool:
        """Whether a turn is lent to somebody."""
        if self.lending is None:
            return False
        delay_s, sure_until = self._bench.bounds(turn)
        wish = self.lending.wish(site.host, now, delay_s, spare=spare)
        if wish is None or now + wish.longest_s > sure_until:
            return False
        jobs: list[Job] = []
        while len(jobs) < wish.most and site.window and not self._is_kept(site.window[0]):
            job = self._next_allowed(site, rules, now)
            if job is None:
                break
            if self._is_kept(job.queued):  # those before it were not allowed
                self._put_back(job)
                break
            jobs.append(job)
        if not jobs:
            return False
        self._lent += len(jobs)
        self.lending.lend(Loan(turn, jobs, delay_s), wish)
        return True

    def _is_kept(self, queued: Queued) -> bool:
        """Whether a URL is not to be lent."""
        return queued.via in KEPT or (self.lending is not None and self.lending.keeps(queued.key))

    def _put_back(self, job: Job) -> None:
        """Queue a URL again of which nothing has come."""
        key = job.queued.key
        self._under_way.discard(key)
        if not self._frontier.put_first(job):
            self._store.give_back([key])
            self._frontier.wake([job.host], self._clock())

    def put_back(self, loan: Loan, numbers: Iterable[int]) -> None:
        """Queue URLs of a loan again."""
        for number in numbers:
            self._put_back(loan.jobs.pop(number))
            self._lent -= 1
        self._work.unpark()

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
        self._lent -= 1
        visit = self._visitor.visited(job, response, self._bench.failures(job.host), now)
        visit.helper, visit.document, visit.fingerprint = helper, document, fingerprint
        loan.took_s = response.total_s
        loan.pause_s = max(loan.pause_s, visit.pause_s)
        loan.failed = visit.host_failed
        if helper:
            self.paces.took(job.host, response.total_s)
        self._came(visit)
        if visit.host_given_up:
            self._give_up(job.host, Cause.HOST, now)

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
            self._set_aside(site, now + loan.pause_s, now)
        self._work.unpark()

    def _next_job(self, site: Site, now: float) -> Job | None:
        job = self._frontier.next_job(site, now)
        if job is not None:
            self._under_way.add(job.queued.key)
        return job

    def under_way(self) -> list[str]:
        """The keys of URLs that were taken off the queue, and whose outcome is not on disk yet; in order."""
        return sorted(self._under_way)

    def is_under_way(self, key: str) -> bool:
        """Whether a URL was taken off the queue, and its outcome is not on disk yet."""
        return key in self._under_way

    def lent_to(self, key: str) -> str:
        """Who fetches a URL in our place now; "" for nobody."""
        return self.lending.lent_to(key) if self.lending is not None else ""

    def aside_until(self, host: str) -> float:
        """When a host comes back that may not be asked for long; 0.0 for all others."""
        return self._frontier.aside_until(host)

    def rules_of(self, origin: Origin) -> Rules | None:
        """The robots rules of a host, also those that an earlier run was told; None if none hold now."""
        if self._anything is not None:
            return self._anything
        rules = self._robots.known(origin, self._clock())
        if rules is None and (stored := self._store.get_meta(f"{ROBOTS}{origin}")) is not None:
            self._robots.restore([(origin, stored)])
            rules = self._robots.known(origin, self._clock())
        return rules

    def _next_allowed(self, site: Site, rules: Rules, now: float) -> Job | None:
        """The next URL of a host that nothing forbids by now; those before it are dropped, some at a time."""
        for _ in range(BATCH):
            job = self._next_job(site, now)
            if job is None:
                return None
            if site.pages >= self._budget:
                refused: Visit | None = self._visitor.lost(job, Cause.BUDGET, now)
            elif not rules.allowed(job.path):
                refused = self._visitor.forbidden(job, now)
            else:
                refused = self._visitor.unwanted(job, now)
            if refused is None:
                site.pages += 1
                return job
            self._add(refused)
        return None

    def _known_rules(self, site: Site, now: float) -> Rules | None:
        """The rules of a host if they still hold; those that an earlier run was told are in the store."""
        if site.rules_sought:
            return self._robots.known(site.origin, now)
        site.rules_sought = True
        rules = self.rules_of(site.origin)
        if rules is not None:
            # A host that slept may have been forgotten, with its delay.
            self._bench.set_crawl_delay(site.host, rules.crawl_delay_s)
        return rules

    async def _ask_rules(self, turn: Turn, site: Site, inquiries: Sequence[Inquiry]) -> None:
        """Ask a host for its robots.txt, or for what stands for that of others; one answer is for all."""
        for inquiry in inquiries:
            self._errands.pop(inquiry, None)
        began = self._clock()
        outcome = await self._robots.fetch(inquiries[0], on_sent=partial(self._bench.sent, turn))
        now = self._clock()
        told = [
            (inquiry, self._robots.heed(inquiry, outcome), self._bench.failures(_host(inquiry.origin)))
            for inquiry in inquiries
        ]
        lost = any(rules is not None and rules.standing is Standing.UNREACHABLE for _, rules, _ in told)
        self._bench.done(turn, now, response_s=now - began, failed=lost)
        self._frontier.settle(site, now)
        for inquiry, rules, failed_before in told:
            if rules is not None:
                self._have_rules(inquiry, rules, failed_before, now)
            elif self._frontier.send(inquiry, _host(inquiry.asked), now):
                self._errands[inquiry] = now
            else:
                self._have_rules(inquiry, self._robots.give_up(inquiry), failed_before, now)
        self._hosts.unpark()

    def _have_rules(self, inquiry: Inquiry, rules: Rules, failed_before: int, now: float) -> None:
        """Go on with a host whose rules are known; without an answer a URL fails instead of being asked."""
        if self._config.fetch.sitemaps:
            self._note(self._visitor.sitemaps(inquiry.origin, rules.sitemaps))
        site = self._frontier.site(_host(inquiry.origin))
        if site is None:
            return
        self._bench.set_crawl_delay(site.host, rules.crawl_delay_s)
        job = self._next_job(site, now) if rules.standing is Standing.UNREACHABLE else None
        if job is not None:
            failure = self._robots.failure(site.origin)
            cause = Cause.ROBOTS_UNREACHABLE if failure is None else failure.reason.value
            visit = self._visitor.unanswered(job, cause, max(failed_before, rules.failures - 1), now)
            self._add(visit)
            if visit.state is State.DROPPED:
                self._give_up(site.host, cause, now)
            else:
                self._set_aside(site, rules.until, now)
        self._frontier.resume(site, now)

    def _set_aside(self, site: Site, until: float, now: float) -> None:
        """Ask a host for nothing before a time; nor what others wait for, if that is long."""
        self.findings.aside(site.origin.netloc, until)
        for errand in self._frontier.set_aside(site, until, now):
            self._cannot_ask(errand, now)

    def _cannot_ask(self, errand: Inquiry, now: float) -> None:
        """The rules of a host cannot be asked for where they are: it is asked again later."""
        del self._errands[errand]
        failed_before = self._bench.failures(_host(errand.origin))
        self._have_rules(errand, self._robots.give_up(errand), failed_before, now)

    def _drop_errands(self, now: float) -> None:
        """Wait for nobody's rules for too long."""
        while self._errands:
            errand, since = next(iter(self._errands.items()))
            if now - since < ERRAND_S:
                return
            self._frontier.drop(errand, _host(errand.asked), now)
            self._cannot_ask(errand, now)

    def _give_up(self, host: str, cause: str, now: float) -> None:
        """Drop all that is queued for a host: some now, the rest in its following turns."""
        site = self._frontier.site(host)
        if site is not None:
            site.given_up = cause
            self._drop_some(site, now)

    def _drop_some(self, site: Site, now: float) -> None:
        for _ in range(BATCH):
            job = self._next_job(site, now)
            if job is None:
                return
            self._add(self._visitor.lost(job, site.given_up, now))

    # Reading

    async def _read(self) -> None:
        """Read what has come while others were fetching or waiting."""
        while True:
            if not self._unread:
                await self._pages.park()
            if not self._room.is_set():
                await self._room.wait()
            visits, self._unread = self._unread[:READ_AT_ONCE], self._unread[READ_AT_ONCE:]
            began = self._world.timer()
            self._visitor.read(visits)
            share_s = (self._world.timer() - began) / max(1, len(visits))
            for visit in visits:
                self.paces.took(visit.job.host, share_s, pages=0)
                self.census.saw(visit, self.expansion)
                self._add(visit)
            self._was_read.unpark_all()
            self._work.unpark()
            await trio.lowlevel.checkpoint()

    # Hosts

    async def _locate(self) -> None:
        """Find the addresses of hosts that are new; what has none fails when it is asked for."""
        while True:
            site = self._frontier.unlocated()
            if site is None:
                await self._hosts.park()
                continue
            self._locating += 1
            found = await self._transport.addresses(site.origin.host)
            self._locating -= 1
            self._frontier.located(site, () if isinstance(found, Failure) else found, self._clock())
            self._work.unpark()

    async def _keep_time(self) -> None:
        """Wake a worker when a host's rest is over, hosts when a retry is due; see when it is all over."""
        began = self._clock()
        while True:
            now = self._clock()
            self.signs["scheduler"].answered(trio.current_time())
            if now - began >= self._limits.seconds:
                self.stop(Ending.TIME)
            self._frontier.wake_due(now)
            self._drop_errands(now)
            self._hosts.unpark(count=LOCATORS)
            next_at = self._bench.next_at()
            self._wake_another(now)
            if self._is_over():
                self._over.set()
            if self._moderation.is_in_force:
                next_at = now + MODERATE_EVERY_S
            wait_s = COMMIT_EVERY_S if next_at is None else min(max(next_at - now, 0.001), COMMIT_EVERY_S)
            due = trio.current_time() + wait_s
            await trio.sleep_until(due)
            self._moderation.look(self._clock(), trio.current_time() - due, self._territory.share())

    def _is_over(self) -> bool:
        """Whether nothing is left to do, or after a stop nothing is under way."""
        if not self.is_idle:
            return False
        done = not self._locating and not self._store.counts().queued
        if self._ending is None and done and self._territory.is_over():
            self._ending = Ending.FINISHED
        return self._ending is not None

    # Writing

    def _add(self, visit: Visit) -> None:
        # Made at once: a page that is kept until the commit takes memory, and a thread of its own the GIL.
        if self.lending is not None and not visit.helper:
            self.lending.judged(visit)
        self._finished.append(self._keeper.finished(visit))
        self._count(visit)
        self._note(visit.found)
        if self.pages >= self._limits.pages:
            self.stop(Ending.PAGES)

    def _note(self, found: Iterable[Found]) -> None:
        self._found.extend(found)
        if len(self._finished) >= BATCH:
            self._filled.set()
            if self._writing and self._room.is_set():
                self._room = trio.Event()

    async def _write(self) -> None:
        """Commit what has come together, ten times a second or when it is much."""
        while True:
            with trio.move_on_after(COMMIT_EVERY_S):
                await self._filled.wait()
            self._filled = trio.Event()
            self.signs["store"].answered(trio.current_time())
            if self._finished or self._found or self._parts:
                await self._commit()

    async def _flush(self) -> None:
        """Turn rows that have come together into Parquet files, beside the commits."""
        while True:
            await trio.sleep(FLUSH_EVERY_S)
            if self._store.segments_due():
                # What finds no room is tried again, and the writer says that everything waits.
                with suppress(DiskFull):
                    await self._world.offload(self._store.flush_segments)

    async def _commit(self) -> None:
        finished, found = self._finished, self._found
        self._finished, self._found, self._writing = [], [], True
        self._room.set()
        meta = {TALLY: self.tally.to_bytes()}
        meta |= {f"{ROBOTS}{origin}": stored for origin, stored in self._robots.changed()}
        if self._ending is not None or trio.current_time() > self._statistics_at:
            meta[NOVELTY] = self._visitor.admission.novelty.to_bytes()
            meta[FINDINGS] = self.findings.to_bytes()
            meta[EXPANSION] = self.expansion.to_bytes()
            self._statistics_at = trio.current_time() + STATISTICS_EVERY_S
        parts = self._some_parts()
        own, passed = self._territory.route(found)
        batch = Batch(finished, own, passed=passed, meta=meta)
        for part in parts:
            batch.add(part.batch)
        began = trio.current_time()
        committed = await self._written(batch)
        self.commit_times.observe(trio.current_time() - began)
        self.activity += batch.is_work
        self._under_way.difference_update(each.key for each in finished)
        self.paces.passed(trio.current_time() - self._committed_at)
        self._committed_at = trio.current_time()
        self._accepted(committed)
        self._writing = False
        for part in parts:
            part.committed = committed
            part.written.set()
        counts = self._store.counts()
        self.tally.grown(counts.done + counts.dropped, counts.accepted)
        self._hosts.unpark(count=LOCATORS)
        self._work.unpark()

    def _some_parts(self) -> list[_Part]:
        """Parts for the next batch: at least one, and no more than can be decided about in a moment."""
        chosen, weight = 0, 0
        for part in self._parts:
            weight += part.batch.weight
            if chosen and weight > HEAVY:
                break
            chosen += 1
        parts, self._parts = self._parts[:chosen], self._parts[chosen:]
        if self._parts:
            self._filled.set()
        return parts

    async def _written(self, batch: Batch) -> Committed:
        """Commit, and again while the disk is full."""
        while True:
            try:
                committed = await self._world.offload(partial(self._store.commit, batch))
            except DiskFull as full:
                if not self.waits_for_room:
                    self._log.warning("waiting", why=str(full))
                    self.waits_for_room = True
                self.signs["store"].answered(trio.current_time(), rest_s=FULL_DISK_PAUSE_S)
                await trio.sleep(FULL_DISK_PAUSE_S)
            else:
                self.waits_for_room = False
                return committed

    def _count(self, visit: Visit) -> None:
        outcome, document = visit.outcome, visit.document
        self.findings.saw(visit)
        if isinstance(outcome, Response):
            self._answered_at = self._clock()
            kind = document.format if document else outcome.headers.get("content-type", "").partition(";")[0]
            language = document.language if document else ""
            name = visit.job.origin.netloc
            self.tally.helped += bool(visit.helper)
            self.tally.answered(name, visit.status, kind, language, outcome.raw_bytes)
        if visit.reason:
            self.tally.failed(visit.reason)


def _host(origin: Origin) -> str:
    """The host of an origin, as keys have it."""
    return host_of(key(f"{origin}/"))
