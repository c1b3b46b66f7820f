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
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import structlog
import trio

from gcs.config import Config, Fetch, Revisit
from gcs.core.failures import Cause
from gcs.core.moderation import Moderation
from gcs.core.politeness import Manner, Permits, Turn, Workbench
from gcs.core.robots import Standing
from gcs.core.traps import Novelty
from gcs.core.tree import Expansion
from gcs.core.vitals import Sign
from gcs.fetch.fetching import Fetching
from gcs.fetch.outcome import Failure, Response
from gcs.fetch.robots import Inquiry, RobotsCache
from gcs.gatherer.apart import Apart
from gcs.gatherer.archive import Keeper
from gcs.gatherer.census import Census
from gcs.gatherer.estimates import Estimates
from gcs.gatherer.findings import Findings
from gcs.gatherer.frontier import ROUSE_S, Frontier, Site
from gcs.gatherer.horizon import LENT, Horizon
from gcs.gatherer.inquiries import Inquiries
from gcs.gatherer.job import Visit
from gcs.gatherer.lending import Lending
from gcs.gatherer.loans import Loans
from gcs.gatherer.paces import Paces
from gcs.gatherer.returning import ADOPTED, Returning
from gcs.gatherer.tally import Tally
from gcs.gatherer.territory import ALONE, Territory
from gcs.gatherer.under_way import UnderWay
from gcs.gatherer.visit import Visitor
from gcs.gatherer.writer import COMMIT_EVERY_S, FULL_DISK_PAUSE_S, Writer
from gcs.sources.chosen import schedule_of
from gcs.store.errors import DiskFull
from gcs.store.records import Batch, Committed, Found, State, host_of
from gcs.store.store import Store
from gcs.world import REAL, World

if TYPE_CHECKING:
    from gcs.gatherer.revisiting import Revisiting
    from gcs.gatherer.upkeep import Upkeep

READ_AT_ONCE: Final = 32
UNREAD: Final = 64
SINCE: Final = 100_000
"""URLs that are remembered from a report to the next plan; more are not counted again."""
LINKS_COUNTED: Final = 16
"""Of so many pages the links of one are counted, so many times."""
LENDERS: Final = 4
"""Turns that are prepared for others at once."""
MODERATE_EVERY_S: Final = 0.005
READY_S: Final = (0.001, 0.016)
"""How soon to look again when hosts may be asked and nobody asks them; ever later, since all are busy."""
REST_S: Final = 1.0
"""How long not to look when nothing is to be done, unless something comes."""
LOCATORS: Final = 32
RANKED: Final = 200
"""URLs of a host by which it is judged what is much there."""
STATISTICS_EVERY_S: Final = 60.0
TALLY: Final = "tally"
NOVELTY: Final = "novelty"
FINDINGS: Final = "findings"
EXPANSION: Final = "expansion"


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
        self._random, self._territory = world.random, territory
        self._keeper = Keeper(config)
        self.expansion = expansion
        stored = store.get_meta(TALLY)
        self.tally = Tally.from_bytes(stored) if stored else Tally()
        found = store.get_meta(FINDINGS)
        self.findings = Findings.from_bytes(found) if found else Findings()
        self._before, self._bytes_before = self.tally.pages, self.tally.size_bytes
        self.paces = Paces()
        self.census = Census(self._random, every=0 if territory is ALONE else LINKS_COUNTED)
        self._bench = Workbench(
            fetch.per_host,
            fetch.per_address,
            fetch.delay_s,
            fetch.delay_factor,
            fetch.max_delay_s,
            permits=permits,
        )
        self.revisiting: Revisiting | None = None
        self.upkeep: Upkeep | None = None
        self._comes_back = trio.Event()
        """Set once pages are visited again."""
        self.frontier = Frontier(store, self._bench, territory=territory, rouse_s=ROUSE_S, world=world)
        visitor.admission.estimates = self.estimates = Estimates(
            self._in_degree, self._mean_in_degree, is_ranked=store.has_priorities
        )
        self.writer = Writer(
            store,
            territory,
            world,
            files_every_s=config.store.segment_every_s,
            meta=self._meta,
            committed=self._committed,
        )
        self.set_revisits(config.revisit)
        self.under_way = UnderWay(
            store,
            self.frontier,
            visitor,
            self._add,
            budget=config.crawl.max_pages_per_host,
            epoch=territory.epoch_of_rulings,
            clock=world.now,
        )
        self.inquiries = Inquiries(
            fetch,
            store,
            RobotsCache(transport, transport.agent, clock=world.now, max_wait_s=fetch.max_wait_s),
            self._bench,
            self.frontier,
            self.under_way,
            visitor,
            judged=self._add,
            found=self.writer.found,
            aside=self.findings.aside,
            clock=world.now,
        )
        self.loans = Loans(
            self._bench,
            self.frontier,
            self.inquiries,
            self.under_way,
            visitor,
            self.paces,
            self._horizon(fetch),
            came=self._came,
            wake=self.wake,
            clock=world.now,
        )
        self._unread: list[Visit] = []
        self.apart = Apart(config.summary, world, visitor, came=self._came, is_checked=self._is_checked)
        self.on_hosts: Callable[[Iterable[str]], None] | None = None
        """Told the hosts of URLs whenever some were accepted."""
        self.activity = 0
        """Grows with whatever is done here."""
        self.signs = {"scheduler": Sign(), "store": self.writer.sign}
        """What keeps time and what writes answer here."""
        self._since: list[str] | None = None
        self._moderation = Moderation(world.now())
        self._busy = 0
        self._interrupted = False
        self._locating = 0
        self._statistics_at = 0.0
        self._committed_at = 0.0
        self._answered_at = self._clock()
        self._ending: Ending | None = None
        self._work, self._hosts = trio.lowlevel.ParkingLot(), trio.lowlevel.ParkingLot()
        self._spare = trio.lowlevel.ParkingLot()
        self._pages, self._was_read = trio.lowlevel.ParkingLot(), trio.lowlevel.ParkingLot()
        self._over = trio.Event()
        self._stirred = trio.Event()
        """Set when there may be something to do that was not there when it was last looked."""

    @property
    def returning(self) -> Returning | None:
        """The pages that are due again."""
        return self.frontier.returning

    def set_revisits(self, settings: Revisit) -> None:
        """Visit pages again, or not, by these settings from now on; raises ConfigError."""
        returning = self.frontier.returning
        if self.revisiting is not None and self.upkeep is not None and returning is not None:
            before = self.revisiting.settings
            self.revisiting.change(settings)
            returning.share.alpha, returning.per_host = settings.alpha, settings.per_host
            if settings.policy != before.policy:
                self.frontier.put_back_old()
                self.upkeep.changed()
            return
        if not settings.is_on:
            return
        # Not for a snapshot: it takes time and memory.
        from gcs.gatherer.revisiting import Revisiting
        from gcs.gatherer.upkeep import Upkeep

        self.revisiting = Revisiting(
            settings,
            self._store,
            is_alone=self._territory is ALONE,
            superpage=lambda key: self.expansion.locate(key).start,
            clock=self._clock,
            remember=self.writer.remember,
            schedule=schedule_of(self._config),
        )
        self.upkeep = Upkeep(self.revisiting, self._store, self.commit, self._world)
        self.frontier.returning = Returning(self.revisiting)
        self._keeper.may_refer = False
        self._visitor.expect_visits()
        self._comes_back.set()

    def _horizon(self, fetch: Fetch) -> Horizon:
        lends = bool(self._config.helpers.sites and fetch.delay_s)
        return Horizon(self._store.get_meta(LENT), self._clock(), counts=lends)

    def _in_degree(self, key: str) -> float | None:
        (ranked,) = self._store.priorities([key])
        return None if ranked is None else ranked.new

    def _mean_in_degree(self, host: str) -> float | None:
        return self._store.mean_priority(host, RANKED)

    # From outside

    def seed(self, founds: Sequence[Found], meta: Mapping[str, bytes] = MappingProxyType({})) -> Committed:
        """Queue seeds, before the crawl runs, and keep named values beside them."""
        committed = self._store.commit(Batch(found=list(founds), meta=dict(meta)))
        self._accepted(committed)
        return committed

    async def commit(self, batch: Batch) -> Committed:
        """Have something written with the next batch, and wait until it is."""
        return await self.writer.commit(batch)

    def _accepted(self, committed: Committed) -> None:
        """Count the URLs that are new, and wake their hosts."""
        keys = [each.key for each in committed.new]
        self.expansion.visit_many(keys, self._random)
        if self._since is not None and len(self._since) < SINCE:
            self._since += keys
        hosts = dict.fromkeys(map(host_of, keys))
        if self.on_hosts is not None:
            self.on_hosts(hosts)
        self.frontier.wake(hosts | dict.fromkeys(committed.hosts), self._clock())
        self.stir()

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
        if self.upkeep is not None:
            self.upkeep.moved(ranges)
        self.frontier.release(ranges)
        self._locate_more()
        self.stir()

    def came(self, ranges: Iterable[tuple[str, str | None]]) -> dict[str, bytes]:
        """What is to be kept with the last rows of ranges that have come from others."""
        if self.upkeep is None:
            return {}
        from gcs.gatherer.upkeep import came

        return came(ranges)

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

    @property
    def novelty(self) -> Novelty:
        """What was seen of pages, and where they repeat each other."""
        return self._visitor.admission.novelty

    def forget_targets(self) -> None:
        """Ask the store again about every URL that is named."""
        self._visitor.forget_targets()

    @property
    def is_idle(self) -> bool:
        """Whether nothing is under way and nothing waits to be written."""
        return (
            self.loans.is_settled
            and not (self._busy or self._unread or self.apart.count)
            and self.writer.is_idle
        )

    def stop(self, ending: Ending = Ending.INTERRUPTED) -> None:
        """Ask for nothing more; the crawl ends when what is under way has ended."""
        self._interrupted = self._interrupted or ending is Ending.INTERRUPTED
        if self._ending is None:
            self._ending = ending
        self.stir()

    def stir(self) -> None:
        """Have it looked soon whether there is something to do, or all is over."""
        self._stirred.set()

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
        self._committed_at, fetch = trio.current_time(), self._config.fetch
        if (quiet_s := self.loans.horizon.quiet_until - self._clock()) > 0:
            why = "helpers may still ask for what was lent to them before this start"
            structlog.get_logger().info("waiting", why=why, seconds=round(quiet_s))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._read)
            nursery.start_soon(self.writer.run)
            nursery.start_soon(self.writer.flush)
            nursery.start_soon(self._keep_time)
            nursery.start_soon(self._keep_up)
            for _ in range(min(LOCATORS, fetch.concurrency)):
                nursery.start_soon(self._locate)
            if self.apart.is_open:
                nursery.start_soon(self.apart.run)
            for number in range(fetch.concurrency):
                nursery.start_soon(self._fetch, number)
            if self.loans.lending is not None:
                for number in range(fetch.concurrency, fetch.concurrency + LENDERS):
                    nursery.start_soon(self._lend, self.loans.lending, number)
            await self._over.wait()
            nursery.cancel_scope.cancel()
        self.frontier.give_back()
        last = self._statistics() | self.inquiries.changed() | self.loans.meta()
        last |= {} if self.loans.are_left else self.loans.horizon.ended()
        waits = False
        if self.revisiting is not None and self._ending is Ending.FINISHED:
            last |= self.revisiting.ended()
            waits = self.revisiting.must_end
        is_written = await self._write_last(last, waits=waits)
        assert self._ending is not None
        return self._ending if is_written or not waits else Ending.INTERRUPTED

    async def _write_last(self, last: Mapping[str, bytes], *, waits: bool) -> bool:
        """Write what is known at the end; without room it is lost, unless one `waits` until interrupted."""
        while True:
            try:
                await self._world.offload(partial(self._store.commit, Batch(meta=dict(last)), is_last=True))
                self.writer.waits_for_room = False
                return True
            except DiskFull as full:
                if not waits or self.interrupted:
                    return False
                if not self.writer.waits_for_room:
                    structlog.get_logger().warning("waiting", why=str(full))
                self.writer.waits_for_room = True
            for sign in self.signs.values():
                sign.answered(trio.current_time(), rest_s=FULL_DISK_PAUSE_S)
            await trio.sleep(FULL_DISK_PAUSE_S)

    # Workers

    async def _fetch(self, number: int) -> None:
        """Take a turn, use it, and again; wait when there is none."""
        while True:
            if not self.writer.room.is_set():
                await self.writer.room.wait()
            now = self._clock()
            taken = self.frontier.take(now) if self._may_begin(now) else None
            if self.returning is not None:
                self._locate_more()  # hosts may have been called that were forgotten
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
        next_at = self._bench.next_at()
        if (next_at is not None and next_at <= now) or self.frontier.old:
            self._work.unpark()
            if self._spare and self._is_stretched():
                self._spare.unpark()

    def _may_begin(self, now: float) -> bool:
        unread = len(self._unread) + self.apart.count
        return (
            self._ending is None
            and unread < UNREAD
            and self.pages + unread + self._busy + self.loans.lent < self._limits.pages
            and now >= self.loans.horizon.quiet_until
            and self._territory.may_begin()
            and self._moderation.may_begin(now)
        )

    async def _use(self, turn: Turn, site: Site, number: int, *, spare: bool = False) -> None:
        """Ask a host, in its turn, for its rules if they are not known, else for its next page.

        What others wait for goes before that. A turn that is `spare` is for others, if any can have it.
        """
        now = self._clock()
        if site.errands:
            await self._ask_rules(turn, site, self.frontier.errands(site))
            return
        if site.given_up:
            self.under_way.drop_some(site, now)
            self._bench.give_back(turn, now)
            await trio.lowlevel.checkpoint()
            return
        rules = self.inquiries.known(site, now)
        if rules is None and self._visitor.admission.bars(site.host):
            self.under_way.drop_unwanted(site, now)
            self._bench.give_back(turn, now)
            await trio.lowlevel.checkpoint()
            return
        if rules is None:
            inquiry = self.inquiries.begin(site)
            if inquiry is not None:
                await self._ask_rules(turn, site, [inquiry])
                return
            self._bench.give_back(turn, now)
            self.frontier.hold(site)
            await trio.lowlevel.checkpoint()
            return
        if rules.standing is Standing.UNREACHABLE:
            self._bench.give_back(turn, now)
            self.inquiries.set_aside(site, rules.until, now)
            await trio.lowlevel.checkpoint()
            return
        if self.loans.offer(turn, site, rules, now, spare=spare):
            await trio.lowlevel.checkpoint()
            return
        job = self.under_way.next_allowed(site, rules, now)
        if job is None:
            self._bench.give_back(turn, now)
            await trio.lowlevel.checkpoint()
            return
        outcome = await self._transport.fetch(
            job.origin,
            job.path,
            headers=job.conditions(),
            on_sent=partial(self._bench.sent, turn),
        )
        now = self._clock()
        visit = self._visitor.visited(job, outcome, self._bench.failures(job.host), now)
        visit.worker = number
        took_s = outcome.total_s
        self.paces.took(site.host, took_s)
        if self.loans.lending is not None and visit.is_page:
            self.loans.lending.took(site.host, took_s)
        self._bench.done(turn, now, response_s=took_s, failed=visit.host_failed, pause_s=visit.pause_s)
        if visit.pause_s and not visit.host_given_up:
            self.inquiries.set_aside(site, now + visit.pause_s, now)
        self._came(visit)
        if visit.host_given_up:
            self.under_way.give_up(site.host, Cause.HOST, now)

    def _came(self, visit: Visit) -> None:
        """An outcome is there: a page is to be read, all else is decided about."""
        if isinstance(visit.outcome, Response) and not visit.host_failed:
            self.frontier.given_up.answered(visit.job.host)
        if visit.is_page:
            self._unread.append(visit)
            self._pages.unpark()
        else:
            self._add(visit)

    # Lending

    def _is_checked(self, key: str) -> bool:
        """Whether somebody's word about a page is to be compared with what is found here."""
        return self.loans.lending is not None and self.loans.lending.keeps(key)

    def _is_stretched(self) -> bool:
        """Whether there is more to fetch than can be fetched here soon."""
        all_busy = (
            self._busy >= self._config.fetch.concurrency or len(self._unread) + self.apart.count >= UNREAD
        )
        return (
            all_busy
            and self.writer.room.is_set()
            and self._ending is None
            and self.pages + self._busy + self.loans.lent < self._limits.pages
            and self._territory.may_begin()
        )

    @property
    def is_ending(self) -> bool:
        """Whether nothing more is asked for."""
        return self._ending is not None

    @property
    def has_finished(self) -> bool:
        """Whether it ends since all is done, and nothing can make it go on."""
        return self._ending is Ending.FINISHED

    def may_fetch(self, key: str) -> bool:
        """Whether a URL may be fetched here now."""
        return self._territory.may_fetch(key)

    async def can_read(self) -> None:
        """Wait until more pages may come from others: when some of those that have come were read."""
        while len(self._unread) + self.apart.count >= 2 * UNREAD:
            await self._was_read.park()
        await self.writer.room.wait()

    def now(self) -> float:
        """The time by the clock of this crawl."""
        return self._clock()

    async def _lend(self, lending: Lending, number: int) -> None:
        """Take turns beyond what can be fetched here, for as long as others want some."""
        while True:
            now = self._clock()
            taken = self.frontier.take(now) if lending.has_room() and self._is_stretched() else None
            if taken is None:
                await self._spare.park()
                continue
            self._wake_another(now)
            self._busy += 1
            try:
                await self._use(*taken, number, spare=True)
            finally:
                self._busy -= 1

    async def _ask_rules(self, turn: Turn, site: Site, inquiries: Sequence[Inquiry]) -> None:
        await self.inquiries.ask(turn, site, inquiries)
        self._locate_more()

    # Reading

    async def _read(self) -> None:
        """Read what has come while others were fetching or waiting."""
        while True:
            if not self._unread:
                await self._pages.park()
            if not self.writer.room.is_set():
                await self.writer.room.wait()
            visits, self._unread = self._unread[:READ_AT_ONCE], self._unread[READ_AT_ONCE:]
            if self.apart.is_open:
                visits = self.apart.without_those_of(visits)
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

    async def _keep_up(self) -> None:
        """Keep the timetable in order, as soon as there is one."""
        await self._comes_back.wait()
        assert self.upkeep is not None
        await self.upkeep.run()

    # Hosts

    async def _locate(self) -> None:
        """Find the addresses of hosts that are new; what has none fails when it is asked for."""
        while True:
            site = self.frontier.unlocated()
            if site is None:
                await self._hosts.park()
                continue
            self._locating += 1
            found = () if site.is_source else await self._transport.addresses(site.origin.host)
            self._locating -= 1
            self.frontier.located(site, () if isinstance(found, Failure) else found, self._clock())
            self._work.unpark()

    def _locate_more(self) -> None:
        """Wake as many of those who find addresses as there are hosts for them."""
        if self._hosts and self.frontier.to_locate:
            self._hosts.unpark(count=self.frontier.to_locate)

    async def _keep_time(self) -> None:
        """Wake a worker when a host's rest is over, hosts when a retry is due; see when it is all over."""
        began = self._clock()
        soon_s = READY_S[0]
        while True:
            now = self._clock()
            self._stirred = trio.Event()
            if now - began >= self._limits.seconds:
                self.stop(Ending.TIME)
            self.frontier.wake_due(now)
            if self.frontier.given_up and self.writer.room.is_set() and self._may_begin(now):
                self.under_way.fail_some(now)
            self.inquiries.drop_errands(now, counts=self._territory.may_begin())
            self._locate_more()
            next_at = self._bench.next_at()
            self._wake_another(now)
            if self._is_over():
                self._over.set()
            if self._moderation.is_in_force:
                next_at = now + MODERATE_EVERY_S
            soon_s = min(2 * soon_s, READY_S[1]) if next_at is not None and next_at <= now else READY_S[0]
            wait_s = COMMIT_EVERY_S if next_at is None else min(max(next_at - now, soon_s), COMMIT_EVERY_S)
            if wait_s == COMMIT_EVERY_S and self.is_idle and not self._locating:
                wait_s = max(wait_s, min((next_at or math.inf) - now, self._next_due() - now, REST_S))
                self.signs["scheduler"].answered(trio.current_time(), rest_s=wait_s)
                await self._world.until(self._stirred, wait_s)
                continue
            self.signs["scheduler"].answered(trio.current_time())
            due = trio.current_time() + wait_s
            await trio.sleep_until(due)
            self._moderation.look(self._clock(), trio.current_time() - due, self._territory.share())

    def _next_due(self) -> float:
        """When there is something to do again though nothing comes, at the earliest; infinite for never."""
        if self.frontier.is_looking:
            return self._clock()
        return min(self._store.next_due, self.frontier.next_return, self.next_visit_at)

    def _is_over(self) -> bool:
        """Whether nothing is left to do, or after a stop nothing is under way."""
        if not self.is_idle:
            return False
        done = not self._locating and not self._store.counts().queued and self._ends_its_visits()
        if self._ending is None and done and self._territory.is_over():
            self._ending = Ending.FINISHED
        return self._ending is not None

    def _ends_its_visits(self) -> bool:
        """Whether no page is to be visited again, now or ever: with a policy, when there is none left."""
        if self.revisiting is not None and self.revisiting.is_endless:
            return not self._store.visits
        return self.has_caught_up

    # Writing

    def _add(self, visit: Visit) -> None:
        # Made at once: a page that is kept until the commit takes memory, and a thread of its own the GIL.
        if self.loans.lending is not None and not visit.helper and self.loans.lending.judged(visit):
            self.writer.found(visit.found)  # the next time they are known already
            self.under_way.put_back(visit.job)
            return
        if self.revisiting is not None:
            self._remember(visit, self.revisiting)
        self.writer.finished(self._keeper.finished(visit), visit.found)
        self._count(visit)
        if self.pages >= self._limits.pages:
            self.stop(Ending.PAGES)

    def _remember(self, visit: Visit, revisiting: Revisiting) -> None:
        """Have what is needed for the next visit written with this one."""
        memory, key = visit.job.memory, visit.job.queued.key
        remembered = revisiting.first(visit) if memory is None else revisiting.again(visit, memory)
        if remembered is not None:
            self.writer.remember(key, remembered)
        if memory is not None:
            visit.state = State.DONE  # whatever came of it, it was visited before
            assert visit.seen is not None
            self.tally.visited_again(visit.seen)
        if self.upkeep is not None:
            self.upkeep.hint(visit.hints)

    @property
    def has_caught_up(self) -> bool:
        """Whether no page is to be visited again now, and none is under way."""
        if self.revisiting is None or self.upkeep is None or not self.revisiting.settings.is_on:
            return True
        return self.upkeep.is_settled and self.next_visit_at > self._clock()

    @property
    def round_at(self) -> float | None:
        """When it was begun to visit every page once more; None if that is not done."""
        is_round = self.revisiting is not None and self.revisiting.settings.once
        return self.revisiting.started if self.revisiting is not None and is_round else None

    def round_began(self, at: float) -> None:
        """Others have begun with the round at a time: what was visited since then was visited in it."""
        if self.revisiting is not None and self.upkeep is not None and self.revisiting.began_before(at):
            self.upkeep.call_up()

    @property
    def next_visit_at(self) -> float:
        """When the next page is due again; one that waits for its host is due now. Infinite if none is."""
        if self.revisiting is None or not self.revisiting.settings.is_on:
            return math.inf
        return self._clock() if self.frontier.has_old else self.revisiting.next_at()

    def _meta(self) -> dict[str, bytes]:
        """The named values that are kept with a batch."""
        meta = {TALLY: self.tally.to_bytes()} | self.inquiries.changed() | self.loans.meta()
        meta |= self.loans.horizon.changed(self._clock())
        if self._ending is not None or trio.current_time() > self._statistics_at:
            meta |= self._statistics()
            self._statistics_at = trio.current_time() + STATISTICS_EVERY_S
        return meta

    def _statistics(self) -> dict[str, bytes]:
        """What is kept now and then, and in the end, since it is large."""
        learnt = self.revisiting.meta() if self.revisiting is not None else {ADOPTED: b""}
        return {
            NOVELTY: self.novelty.to_bytes(),
            FINDINGS: self.findings.to_bytes(),
            EXPANSION: self.expansion.to_bytes(),
            **learnt,
        }

    def _committed(self, batch: Batch, committed: Committed) -> None:
        """A batch is on disk: what was found in it may be fetched."""
        self.activity += batch.is_work
        self.loans.horizon.written(batch.meta)
        self.under_way.settled(each.key for each in batch.finished)
        if self.revisiting is not None:
            self.revisiting.written(key for key, _ in batch.remembered)
        self.paces.passed(trio.current_time() - self._committed_at)
        self._committed_at = trio.current_time()
        self._accepted(committed)
        if committed.ranked:
            self.estimates.ranked(committed.ranked)
        counts = self._store.counts()
        self.tally.grown(counts.done + counts.dropped, counts.accepted)
        self._locate_more()
        self._work.unpark()

    def _count(self, visit: Visit) -> None:
        outcome, document = visit.outcome, visit.document
        if self._territory is not ALONE:  # nobody can watch one that is alone
            self.findings.saw(visit)
        if isinstance(outcome, Response):
            self._answered_at = self._clock()
            kind = document.format if document else outcome.headers.get("content-type", "").partition(";")[0]
            language = document.language if document else ""
            name = visit.job.origin.netloc or visit.job.origin.scheme
            self.tally.helped += bool(visit.helper)
            self.tally.answered(name, visit.status, kind, language, outcome.raw_bytes)
        if visit.reason:
            self.tally.failed(visit.reason)
