"""A gatherer among others: who it is, which charter it follows, and what it holds.

Everything that others may rely on is on disk before it is said: holdings and charter change in one commit
with the rows that the change is about. One change at a time: adopting a charter, the arrival of a range and
its departure would otherwise overwrite each other.
"""

from __future__ import annotations

import bisect
import math
import socket
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import msgpack
import structlog
import trio

from gcs.config import Config
from gcs.core.holdings import Charter, Extent, Holdings, Range, Standing, overlap
from gcs.core.origins import Origin, Origins
from gcs.core.reasons import main_reason
from gcs.core.rulings import Rulings
from gcs.core.silence import Silence
from gcs.core.tree import Expansion
from gcs.core.urls import part
from gcs.gatherer.reload import Ruled, ruled
from gcs.gatherer.statistics import Figures
from gcs.store.records import Batch, Found, Passed
from gcs.store.store import Store
from gcs.traffic import Traffic
from gcs.world import REAL, World

if TYPE_CHECKING:
    from gcs.gatherer.crawl import Crawl

CHARTER: Final = "charter"
HOLDINGS: Final = "holdings"
RESEND: Final = "resend"
ORIGINS: Final = "origins"
REFETCH: Final = "refetch"
ARRIVED: Final = "arrived"
UNWITNESSED: Final = "unwitnessed"
RULINGS: Final = "rulings"
DRAINING: Final = "draining"
HEARD: Final = "heard"
LOST_BY: Final = "lost-by"
_KEEP_HEARD_S: Final = 10.0
_JOINED_WITHIN_S: Final = 30.0
"""Who is there, and in no plan for longer, is not waited for."""
_AFTER_NOTHING_S: Final = 3.0
"""How long to rest after a plan that moved nothing; twice as long after each that follows."""
_SHARE_ON_THE_WAY: Final = 0.25
"""Of the fetches that could begin, those that do while ranges change hands."""
EVERYTHING: Final[Range] = ("", None)


@dataclass(slots=True)
class Received:
    """What came from others: what to write, ranges that are whole by it, and whose pages they have."""

    batch: Batch = field(default_factory=Batch)
    ends: list[tuple[str, Range]] = field(default_factory=list)
    """By sender."""
    origins: list[Origin] = field(default_factory=list)
    whole: list[Origin] = field(default_factory=list)
    """Ranges of which the sender says that it has sent all."""
    doubted: list[str] = field(default_factory=list)
    """Keys of pages that somebody was wrong about."""
    rows: list[Range] = field(default_factory=list)
    """From the first to the last key of rows that came together."""

    def add(self, other: Received) -> None:
        """Take in more."""
        self.batch.add(other.batch)
        self.rows += other.rows
        self.ends += other.ends
        self.origins += other.origins
        self.whole += other.whole
        self.doubted += other.doubted


def name_of(config: Config) -> str:
    """What a gatherer with this configuration is called."""
    return config.member.name or socket.gethostname()


class Node:
    """What the tasks of one gatherer share; the territory of its crawl."""

    def __init__(
        self,
        config: Config,
        store: Store,
        *,
        world: World = REAL,
        traffic: Traffic | None = None,
    ) -> None:
        """`traffic` is what coordination has cost, as whoever writes and reads tuples counts it."""
        self.store, self.world, self.clock = store, world, world.now
        self.given = config
        """The configuration as it was read."""
        self._crawl: Crawl | None = None
        self.traffic = traffic or Traffic()
        self.id = store.identity
        self.name = name_of(config)
        self.incarnation = world.token(4)
        self.started = self.clock()
        self.log = structlog.get_logger().bind(gatherer=self.name)
        self._changing = trio.Lock()
        stored = store.get_meta(CHARTER)
        self.charter = Charter.from_bytes(stored) if stored else None
        held = store.get_meta(HOLDINGS)
        self.holdings = Holdings.from_bytes(held) if held else Holdings()
        self.on_disk = (self.epoch, self.holdings)
        """The epoch and the holdings that a restart would find: all that others are told."""
        self._in_hand: list[int] = []
        """Epochs of charters that may be followed soon."""
        resend = store.get_meta(RESEND)
        self.resend: list[Range] = [(a, b) for a, b in msgpack.unpackb(resend)] if resend else []
        origins, refetch = store.get_meta(ORIGINS), store.get_meta(REFETCH)
        self.origins = Origins.from_bytes(origins) if origins else Origins()
        self.refetch = Origins.from_bytes(refetch) if refetch else Origins()
        """Ranges that came from those whose disks are lost: their pages are to be fetched again."""
        arrived = store.get_meta(ARRIVED)
        self._arrived = Origins.from_bytes(arrived) if arrived else Origins()
        """Ranges that are held, and came whole from somebody, who may send them once more after a crash."""
        lost_by = self.charter.destroyed.get(self.id, 0) if self.charter else 0
        self.lost_by = max(lost_by, int(store.get_meta(LOST_BY) or 0))
        """The epoch of the last charter by which this gatherer was lost."""
        self.late: list[Range] = []
        """Where rows came into ranges that are leaving: what of these was sent before is not all."""
        self._coming_late: list[Range] = []
        """Where they are being written."""
        self._unwitnessed = bool(store.get_meta(UNWITNESSED))
        self.rulings = Rulings.from_bytes(store.get_meta(RULINGS) or b"")
        self._ruled = Ruled(config)
        self._apply()
        self.draining = store.get_meta(DRAINING) is not None
        self.adopted_at = trio.current_time()
        heard = store.get_meta(HEARD)
        silent_s = max(0.0, self.clock() - float(heard)) if heard else 0.0
        self._silence = Silence(trio.current_time(), silent_s)
        """Also over a restart."""
        self._heard_kept_at = -math.inf
        self.joining: frozenset[str] = frozenset()
        """Ids of gatherers that are there, and that no charter which they know has as a member."""
        self.gone: frozenset[str] = frozenset()
        """Ids of gatherers that are gone for good, and take nothing more."""
        self.finished = self.has_told_the_end = False
        self.has_left = False
        self.is_to_testify = False
        """Whether others are to be told of all that was passed on here, before this gatherer leaves."""
        self._testified = -1
        self.taking_in = 0
        """Seeds and orders that are on their way from Redis to the disk."""
        self.plans: Counter[str] = Counter()
        """Plans adopted by this process, by reason."""
        self.rankings: Counter[str] = Counter()
        """Rankings for which this process was elected: those that were delivered, and those that failed."""
        self.barred: Callable[[], Sequence[str]] = list
        """The helpers that are not believed any more here."""
        self.doubt: Callable[[Iterable[str]], None] = lambda _: None
        """Have pages fetched again, here or elsewhere; it is kept with the next batch."""
        self.changed = trio.Event()
        """Set, and replaced, whenever charter or holdings have changed."""

    @property
    def crawl(self) -> Crawl:
        """The crawl whose territory this is."""
        assert self._crawl is not None
        return self._crawl

    @crawl.setter
    def crawl(self, crawl: Crawl) -> None:
        self._crawl = crawl
        crawl.bench.set_host_delays(self.rulings.delays)

    @property
    def config(self) -> Config:
        """What is in force: the configuration as it was read, with what operators have set."""
        return self._ruled.config

    def reconfigure(self, given: Config) -> None:
        """Another configuration was read, which differs only in what can be changed now."""
        self.given = given
        self._apply()

    def _apply(self) -> None:
        """Let be in force what was read and what is ruled."""
        before, self._ruled = self._ruled, ruled(self.given, self.rulings.settings, self.name)
        if self._crawl is not None and self.config.fetch != before.config.fetch:
            self._crawl.set_delays(self.config.fetch)
        if self._crawl is not None and self.config.revisit != before.config.revisit:
            self._crawl.set_revisits(self.config.revisit)
        if self._crawl is not None:
            self._crawl.bench.set_host_delays(self.rulings.delays)
        if self._ruled.origins and self.config != before.config:
            self.log.info("operators have set", settings=" ".join(sorted(self._ruled.origins)))
        for name, why in self._ruled.ignored.items():
            if name not in before.ignored:
                self.log.warning("a setting is ignored", setting=name, why=why)

    def check_expansion(self) -> None:
        """Count in the expansion of the charter, also when the one on disk is from before it."""
        if self.charter is not None:
            fresh = Expansion.from_bytes(self.charter.expansion)
            if fresh.boundaries() != self.crawl.expansion.boundaries():
                self.crawl.count_anew(fresh)

    @property
    def epoch(self) -> int:
        """That of the charter; 0 before the first."""
        return self.charter.epoch if self.charter else 0

    # The territory

    def route(self, found: Sequence[Found]) -> tuple[list[Found], list[Passed]]:
        """Of URLs that were found, those that are ours, and the others with their owners."""
        return self.sorted_out(found, always=False)

    def sorted_out(self, found: Sequence[Found], *, always: bool) -> tuple[list[Found], list[Passed]]:
        """The same; `always` for what has to go on even if it was passed on before."""
        if self.charter is None:
            return list(found), []
        owner, me = self.charter.owners.owner, self.id
        own: list[Found] = []
        passed: list[Passed] = []
        for each in found:
            to = owner(each.key)
            if to == me:
                own.append(each)
            else:
                passed.append(Passed(to, each, always))
        return own, passed

    @property
    def outbox_is_full(self) -> bool:
        """Whether so much waits for others that no more fetches are to be begun."""
        return self.store.waiting_bytes > self.config.exchange.outbox_bytes

    def witnesses(self, found: Sequence[Found]) -> list[tuple[str, Found]]:
        """URLs with another gatherer than their owner, which is to know of them, should the owner be lost.

        Those for which there is no other are left out.
        """
        if self.charter is None:
            return []
        others = sorted(each for each in self.charter.members if each != self.id)
        owner = self.charter.owners.owner
        told = []
        for each in found:
            of = owner(each.key)
            if others and others != [of]:
                told.append((others[bisect.bisect_right(others, of) % len(others)], each))
        return told

    def extent(self, host: str) -> Extent:
        """How much of a host may be fetched here now."""
        held = self.holdings.extent(host)
        free = self.rulings.extent(host, self.clock())
        if free is Extent.ALL or held is Extent.NONE:
            return held
        return free if held is Extent.ALL else min(held, free, key=[Extent.NONE, Extent.SOME].index)

    def may_fetch(self, key: str) -> bool:
        """Whether a URL may be fetched here now."""
        if self.rulings.resting and self.rulings.rests(key, self.clock()):
            return False
        return self.holdings.may_fetch(key)

    def is_barred(self, key: str) -> bool:
        """Whether operators have ruled that a URL is not to be fetched at all."""
        return self.rulings.is_barred(key)

    def may_begin(self) -> bool:
        """Not without a charter, when paused, when others take nothing, or when it is forgotten soon."""
        if self.charter is None or self.outbox_is_full or self.rulings.is_paused(self.name):
            return False
        return self._silence.is_short(trio.current_time(), self.config.member.forget_after_s)

    def share(self) -> float:
        """A quarter while ranges change hands: the sooner that is over, the better for all."""
        return 1.0 if self.holdings.is_settled else _SHARE_ON_THE_WAY

    def epoch_of_rulings(self) -> int:
        """The epoch of what operators have ruled; 0 for nothing."""
        return self.rulings.epoch

    def is_over(self) -> bool:
        """When all gatherers are known to have finished and this one is to end then, or when it has left."""
        ends = self.finished and self.has_told_the_end and self.leaves_when_finished
        return self.has_left or ends

    @property
    def is_going(self) -> bool:
        """Whether it believes the end, and ends, whatever comes now."""
        return self.crawl.has_finished and not self.has_left

    @property
    def leaves_when_finished(self) -> bool:
        """Whether it ends with the crawl; with a standing policy of visits that has only caught up."""
        return self.config.member.leave_when_finished and not self.config.revisit.is_standing

    # Quiet

    def is_quiet(self) -> bool:
        """Whether nothing is queued, under way, leaving, coming, or waiting for others."""
        return (
            self.charter is not None
            and not self.store.counts().queued
            and self.crawl.is_idle
            and self.crawl.has_caught_up
            and not self.taking_in
            and not self.resend
            and not any(self.refetch)
            and not self.is_to_tell_of_seeds
            and self.holdings.is_settled
            and self.on_disk == (self.epoch, self.holdings)
            and not any(box.next > box.first for box in self.store.outboxes().values())
        )

    def facts(self) -> Figures:
        """The statistics that are published with every heartbeat."""
        counts, tally, boxes = self.store.counts(), self.crawl.tally, self.store.outboxes().values()
        pages, seconds = self.crawl.paces.total
        rate = pages / seconds if seconds > 0 else 0.0
        return {
            "pages": tally.pages,
            "bytes": tally.size_bytes,
            "failed": sum(tally.reasons.values()),
            "queued": counts.queued,
            "done": counts.done,
            "dropped": counts.dropped,
            "passed": counts.passed,
            "under_way": self.crawl.busy,
            "lent": self.crawl.loans.lent,
            "helped": tally.helped,
            "visited_again": tally.visits.total(),
            "changed": tally.visits["changed"],
            "round_at": self.crawl.round_at,
            "returns": self.config.revisit.is_standing,
            "next_visit_at": None if math.isinf(at := self.crawl.next_visit_at) else round(at, 3),
            "outbox": sum(box.entries for box in boxes),
            "outbox_bytes": sum(box.bytes for box in boxes),
            "outbox_is_full": self.outbox_is_full,
            "waits_for_room": self.crawl.writer.waits_for_room,
            "unanswered_s": round(self.crawl.unanswered_s, 1),
            "rest_s": None if math.isinf(rest_s := self.crawl.rest_s) else round(rest_s, 1),
            "resting": self.crawl.bench.statistics().resting,
            "barred": list(self.barred()),
            "ignored": dict(self._ruled.ignored),
            "rate": round(rate, 3),
            "remaining_s": round(counts.queued / rate, 3) if rate > 0 else 0.0,
            "moved": self.store.ledger().moved_out,
            "held": len(self.holdings.pieces(Standing.HELD)),
            "overhead_percent": round(self.traffic.overhead_percent(self.crawl.fetched_bytes), 3),
        }

    def has_cooled(self) -> bool:
        """Whether the last plan is long enough ago; one that moved nothing needs no long rest."""
        if self.charter is None:
            return True
        cooldown_s = self.config.rebalance.cooldown_s
        if fruitless := self.charter.fruitless:
            cooldown_s = min(cooldown_s, _AFTER_NOTHING_S * 2.0 ** (fruitless - 1))
        return trio.current_time() - self.adopted_at >= cooldown_s

    # Changes

    @contextmanager
    def deciding(self, epoch: int) -> Iterator[None]:
        """While a charter is made or read that may be followed then, even if Redis has lost it by then."""
        self._in_hand.append(epoch)
        try:
            yield
        finally:
            self._in_hand.remove(epoch)

    @property
    def heading(self) -> int:
        """The epoch of the newest charter that is followed, or may be soon."""
        return max(self.epoch, *self._in_hand, 0)

    async def adopt(self, charter: Charter) -> None:
        """Follow a charter from now on, if it is newer than the one in force; not when all is over here."""
        async with self._changing:
            if charter.epoch <= self.epoch or self.crawl.has_finished:
                return
            after = self.holdings.adopted(charter, self.id)
            changed = self.holdings.differences(after)
            lost = [*self.resend, *((start, end) for start, end in charter.lost)]
            if self.id in charter.departed:
                lost = [EVERYTHING]  # nobody knows what else was lost while this one was thought to be
            # At once nothing more is fetched of what leaves. Of what came, nothing is written before this is.
            destroyed, now = set(charter.destroyed), self.clock()
            halves = [
                Origin(piece.peer, piece.start, piece.end, now)
                for piece in self.holdings.pieces(Standing.COMING)
                if piece.peer in destroyed
            ]
            # Who knew of our seeds, should we be lost, is gone; or there never was anybody.
            departed = set(charter.departed) - set(self.charter.departed if self.charter else ())
            self._unwitnessed |= bool(departed) or len(charter.members) == 1
            self.charter, self.holdings, self.resend = charter, after, lost
            self.lost_by = max(self.lost_by, charter.destroyed.get(self.id, 0))
            if self.id in charter.members:
                self._silence.counted_on()
            self.finished = False
            self.has_left = False  # unless there is nothing for it here either
            gone = [each for each in self.origins if each.gatherer in destroyed]
            self.origins = Origins(each for each in self.origins if each.gatherer not in destroyed)
            self.refetch = Origins([*self.refetch, *gone, *halves])
            self._arrived = Origins(
                part
                for piece in after.pieces(Standing.HELD)
                for part in self._arrived.within(piece.start, piece.end)
            )
            self.crawl.release(changed)
            meta = {
                ARRIVED: self._arrived.to_bytes(),
                CHARTER: charter.to_bytes(),
                HOLDINGS: after.to_bytes(),
                RESEND: msgpack.packb(lost) if lost else b"",
                ORIGINS: self.origins.to_bytes(),
                REFETCH: self.refetch.to_bytes(),
                LOST_BY: str(self.lost_by).encode(),
                UNWITNESSED: b"yes" if self._unwitnessed else b"",
                **self.crawl.came((each.start, each.end) for each in halves),
            }
            await self.crawl.commit(Batch(meta=meta))
            self.on_disk = (charter.epoch, after)
            self.crawl.count_anew(Expansion.from_bytes(charter.expansion))
            self.adopted_at = trio.current_time()
            self.plans[main_reason(charter.reason)] += 1
            self.log.info(
                "adopted a plan",
                epoch=charter.epoch,
                reason=charter.reason,
                leaving=len(after.pieces(Standing.LEAVING)),
                coming=len(after.pieces(Standing.COMING)),
            )
            self._tell()

    def has_come(self, sender: str, keys: Sequence[str]) -> bool:
        """Whether rows are here already, all of them, and may have changed since; by their keys, in order."""
        return self._arrived.cover(sender, keys[0], keys[-1]) and all(self.store.held(keys))

    async def take_in(self, read: Callable[[], Received | None]) -> Batch | None:
        """Write what was received; ranges that are whole by that are held once it is written.

        It is read here, so that no other charter comes between finding the owners and writing.
        """
        async with self._changing:
            received = read()
            if received is None:
                return None
            batch, ends = received.batch, received.ends
            after, origins, arrived = self.holdings, self.origins, self._arrived
            if received.whole:
                arrived = Origins([*arrived, *received.whole])
                batch.meta[ARRIVED] = arrived.to_bytes()
            if (ends or received.rows) and self.charter is not None:
                if ends or any(after.has(Standing.FOREIGN, each) for each in received.rows):
                    after = after.arrived(ends, self.charter.owners, self.id, rows=received.rows)
                if after != self.holdings:
                    batch.meta[HOLDINGS] = after.to_bytes()
                self._coming_late = [each for each in received.rows if after.has(Standing.LEAVING, each)]
            if ends or received.origins:
                came = [Origin(sender, *place, self.clock()) for sender, place in ends]
                origins = Origins([*origins, *received.origins, *came])
                batch.meta[ORIGINS] = origins.to_bytes()
                batch.meta |= self.crawl.came(place for _, place in ends)
            self.doubt(received.doubted)
            try:
                await self.crawl.commit(batch)
            finally:
                self.late += self._coming_late
                self._coming_late = []
            self.origins, self._arrived = origins, arrived
            if after != self.holdings:
                self._have(after)
            return batch

    async def left(self, pieces: Sequence[tuple[Range, str]]) -> None:
        """Their receivers have all rows of these ranges, but for those that some have come into meanwhile."""
        async with self._changing:
            after = self.holdings.left([each for each in pieces if not self.has_late(each[0])])
            await self.crawl.commit(Batch(meta={HOLDINGS: after.to_bytes()}))
            self._have(after)

    def came_back(self) -> set[str]:
        """Those of the lost of whom something has come since they were."""
        destroyed = self.charter.destroyed if self.charter else {}
        return {each.gatherer for each in self.origins if each.gatherer in destroyed}

    def has_late(self, place: Range) -> bool:
        """Whether rows came into a range that is leaving, of which its receiver may not know."""
        return any(overlap(place, each) for each in (*self.late, *self._coming_late))

    def _have(self, holdings: Holdings) -> None:
        """Holdings that are on disk are in force."""
        changed = self.holdings.differences(holdings)
        self.holdings = holdings
        self.on_disk = (self.epoch, holdings)
        self.crawl.release(changed)
        self._tell()

    async def resent(self, done: Range) -> None:
        """What was passed into a lost range is on its way again."""
        async with self._changing:
            self.resend = [*self.resend]
            self.resend.remove(done)  # once: it may have been lost again meanwhile
            packed = msgpack.packb(self.resend) if self.resend else b""
            await self.crawl.commit(Batch(meta={RESEND: packed}))
            self._tell()

    async def refetched(self, done: Origin) -> None:
        """The pages of a range that came from one whose disk is lost are queued again."""
        async with self._changing:
            self.refetch = Origins(each for each in self.refetch if each != done)
            await self.crawl.commit(Batch(meta={REFETCH: self.refetch.to_bytes()}))
            self._tell()

    @property
    def has_company(self) -> bool:
        """Whether it is alone by the charter though others are there, who should be in the next one soon."""
        is_alone = self.charter is not None and set(self.charter.members) == {self.id}
        return is_alone and bool(self.joining) and trio.current_time() < self.adopted_at + _JOINED_WITHIN_S

    @property
    def is_to_tell_of_seeds(self) -> bool:
        """Whether our seeds may be known here alone, and there is somebody who can be told."""
        return self._unwitnessed and self.charter is not None and len(self.charter.members) > 1

    async def told_of_seeds(self, epoch: int) -> None:
        """Another one knows of each of our seeds, by the charter of an epoch."""
        async with self._changing:
            if self.epoch == epoch:
                self._unwitnessed = False
                await self.crawl.commit(Batch(meta={UNWITNESSED: b""}))
                self._tell()

    async def obey(self, rulings: Rulings) -> None:
        """Let other rulings be in force, if they are newer."""
        async with self._changing:
            if rulings.epoch <= self.rulings.epoch:
                return
            before = self.rulings.resting
            every = before.keys() | rulings.resting.keys()
            touched = [each for each in every if before.get(each) != rulings.resting.get(each)]
            self.rulings = rulings
            self._apply()
            self.crawl.release([part(prefix) for prefix in touched])
            await self.crawl.commit(Batch(meta={RULINGS: rulings.to_bytes()}))
            self.log.info("rulings are in force", epoch=rulings.epoch)
            self._tell()

    def heard(self, at: float, by: float, forgotten_after_s: float, *, is_called: bool) -> None:
        """All that others know was known here at a time, and by another one they were told of us.

        That is, that this gatherer is here, and after how long to forget it.
        """
        self._silence.said(at, by, forgotten_after_s, is_called=is_called)

    async def keep_heard(self) -> None:
        """Keep that time for a restart, now and then."""
        known_at = self._silence.known_at
        if known_at - self._heard_kept_at > _KEEP_HEARD_S:
            self._heard_kept_at = known_at
            at = self.clock() - (trio.current_time() - known_at)
            await self.crawl.commit(Batch(meta={HEARD: f"{at:.0f}".encode()}))

    async def drain(self) -> None:
        """Give everything to others, and leave."""
        self.draining = True
        await self.crawl.commit(Batch(meta={DRAINING: b"yes"}))
        self._tell()

    def gives_all_away(self) -> bool:
        """Whether this gatherer leaves, and nothing is to be its own any more."""
        return self.draining and self.charter is not None and self.id not in self.charter.members

    def has_testified(self) -> bool:
        """Whether others know of all that was passed on here; if not, that is begun."""
        self.is_to_testify = self.store.counts().passed > self._testified
        if self.is_to_testify:
            self._tell()
        return not self.is_to_testify

    def testified(self, passed: int) -> None:
        """Others have been told of so many URLs that were passed on."""
        self._testified, self.is_to_testify = passed, False

    def _tell(self) -> None:
        self.changed.set()
        self.changed = trio.Event()
