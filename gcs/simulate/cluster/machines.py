"""Machines that live and die: gatherers on their disks, and helpers that have none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, Final

import trio

from gcs.board import Board
from gcs.config import Config
from gcs.core.holdings import Charter
from gcs.core.trust import Record
from gcs.fetch.outcome import Response
from gcs.gatherer.book import book_of
from gcs.gatherer.crawl import Ending
from gcs.gatherer.gatherer import Gatherer
from gcs.gatherer.job import Loan, Visit
from gcs.gatherer.lending import Wish
from gcs.gatherer.revisiting import ROUND
from gcs.helper.desks import Desk, Presence, gatherer_of
from gcs.helper.scrutiny import Case
from gcs.helper.worker import Badge, Worker
from gcs.simulate.cluster.disk import Disk
from gcs.simulate.cluster.fetching import Server, SimulatedFetching
from gcs.simulate.cluster.lies import Lies
from gcs.simulate.cluster.network import Link, Redis
from gcs.simulate.cluster.reading import READERS
from gcs.simulate.cluster.world import Dead, MachineWorld
from gcs.store.database import META, VISITS
from gcs.store.errors import StoreError
from gcs.store.moving import unpack
from gcs.store.records import Batch, Committed, State
from gcs.store.store import Store
from tuplespace import TupleSpaceError

DRIFT: Final = 1e-3
"""A machine's clock is too fast or too slow by this share at most."""
OFFSET_S: Final = 2.0
"""And wrong by so much, from the beginning."""
_SAY_EVERY_S: Final = 5.0
_SETTLED: Final = frozenset({State.DONE, State.DROPPED})


class Machine:
    """One machine, and how often it was started."""

    def __init__(self, name: str, random: Random, redis: Redis, server: Server, config: Config) -> None:
        self.name, self._random, self._redis, self._server = name, random, redis, server
        self._config = config
        self._offset_s, self._drift = random.uniform(-OFFSET_S, OFFSET_S), random.uniform(-DRIFT, DRIFT)
        self.world = self._new_world()
        self.link = Link(name, self.world, redis, config.redis.timeout_s)
        self.starts = 0
        self.is_running = False
        self.over = trio.Event()
        """Set when a life has ended."""
        self._scope: trio.CancelScope | None = None

    def _new_world(self) -> MachineWorld:
        chance = Random(self._random.getrandbits(64))
        return MachineWorld(chance, offset_s=self._offset_s, drift=self._drift)

    def kill(self) -> None:
        """End it at once: nothing that it would still do reaches anything."""
        self.world.is_alive = False
        self.world.go_on()
        if self._scope is not None:
            self._scope.cancel()

    @contextmanager
    def _living(self) -> Iterator[trio.CancelScope]:
        """One life; what a dead machine raises while it falls over is nobody's concern."""
        before, offload_s, lag_s = self.link, self.world.offload_s, self.world.lag_s
        self.world = self._new_world()
        self.world.offload_s, self.world.lag_s = offload_s, lag_s
        self.link = Link(self.name, self.world, self._redis, self._config.redis.timeout_s)
        self.link.is_cut, self.link.lossy, self.link.way_s = before.is_cut, before.lossy, before.way_s
        self.starts += 1
        self.is_running, self.over = True, trio.Event()
        try:
            with trio.CancelScope() as scope:
                self._scope = scope
                yield scope
        except BaseException as error:
            rest = (
                error.split((Dead, trio.Cancelled, StoreError))[1]
                if isinstance(error, BaseExceptionGroup)
                else error
            )
            if self.world.is_alive or (rest is not None and not isinstance(rest, Dead | StoreError)):
                raise
        finally:
            self.is_running = False
            self._scope = None
            self.over.set()

    async def run(self) -> None:
        """One life."""
        raise NotImplementedError


class GathererMachine(Machine):
    """One on which a gatherer runs."""

    def __init__(
        self,
        name: str,
        random: Random,
        redis: Redis,
        server: Server,
        config: Config,
        place: Path,
        excuses: Counter[str],
        given: Counter[str],
        lies: Lies,
        known: Mapping[str, bytes],
        adopted: Callable[[GathererMachine, Charter], None],
    ) -> None:
        """`excuses` counts, by key, why pages may be asked for again; `known` is on its disk from before.

        `given` counts those that are excused by nothing but that they changed hands in a round. `adopted` is
        told of each charter that it is about to follow.
        """
        super().__init__(name, random, redis, server, config)
        self._place, self._excuses, self._given = place, excuses, given
        self._lies, self._known, self._adopted = lies, known, adopted
        self.disk = Disk()
        self.ending: Ending | None = None
        self.gatherer: Gatherer | None = None
        self.is_lost = False
        self.is_awaited = False
        """Whether it was told to stop, and will be started again."""

    def configure(self, config: Config) -> None:
        """Have other settings from the next life on."""
        self._config = config

    @property
    def has_left(self) -> bool:
        """Whether it was drained."""
        return self.gatherer is not None and self.gatherer.node.has_left

    @property
    def identity(self) -> str:
        """The id of its store; "" before the first life."""
        return self.gatherer.node.id if self.gatherer is not None else ""

    def kill(self) -> None:
        """End it at once; what was under way may be fetched again."""
        if self.gatherer is not None and self.is_running:
            self._excuses.update(self.gatherer.crawl.under_way)
            if self._has_gone_round(self.gatherer):
                # It has nothing more to do but to end, and begins another round when it is started again.
                self._excuses.update(name.decode() for name in self.disk.tables[VISITS])
        self._lies.crashed(self.name)
        self.disk.crash()
        super().kill()

    def _has_gone_round(self, gatherer: Gatherer) -> bool:
        """Whether it is on disk that a round has ended: before the first visit it is there when it began."""
        revisiting = gatherer.crawl.revisiting
        if revisiting is None or not revisiting.settings.once or not revisiting.may_begin:
            return False
        return ROUND.encode() not in self.disk.tables[META]

    async def lose(self) -> None:
        """Lose it for good, with its disk; what it knew the outcome of may be fetched again."""
        if self.is_running and not self.world.is_alive:
            await self.over.wait()  # it was killed at this very moment
        if self.starts and not self.is_lost:
            self._excuse_outcomes()
        self.kill()
        self.is_lost = True
        self.disk = Disk()

    def has_gone(self, epoch: int) -> bool:
        """Whether it has ended by itself, and has not followed the plan of an epoch."""
        is_over = not self.is_running and self.ending is Ending.FINISHED
        return is_over and self.gatherer is not None and self.gatherer.node.epoch < epoch

    def is_fetched_again(self) -> None:
        """Others take it for lost: all that it knows the outcome of, or will, may be fetched again."""
        self._excuse_outcomes()
        if self.is_running and self.gatherer is not None:
            self._excuses.update(self.gatherer.crawl.under_way)

    def _excuse_outcomes(self) -> None:
        with self.opened() as store:
            self._excuses.update(key for key, row in store.scan("", None) if row.state in _SETTLED)

    @contextmanager
    def opened(self) -> Iterator[Store]:
        """Its store, to look into, also while nobody else has it open."""
        if self.is_running and self.gatherer is not None:
            yield self.gatherer.node.store
            return
        settings = self._config.store
        with Store.open(
            self._place, settings, resume=True, database=self.disk.open, world=self.world
        ) as store:
            yield store

    def _watch(self, gatherer: Gatherer) -> None:
        """Count what is asked for again because it was lent in vain or is checked, or was lost elsewhere."""
        crawl, scrutiny = gatherer.crawl, gatherer.lender.scrutiny
        put_back, commit, replicate = crawl.loans.put_back, crawl.commit, scrutiny.replicate
        judged = scrutiny.judged

        def noted_put_back(loan: Loan, numbers: Iterable[int]) -> None:
            again = list(numbers)
            self._excuses.update(loan.jobs[number].queued.key for number in again)
            put_back(loan, again)

        async def noted_commit(batch: Batch) -> Committed:
            self._excuses.update(batch.again)
            if crawl.revisiting is not None and crawl.revisiting.settings.once:
                # Who begins with a round later visits what it is given once more.
                moved = [key for rows in batch.moved for key in unpack(rows).keys]
                self._excuses.update(moved)
                self._given.update(moved)
            return await commit(batch)

        def noted_replicate(case: Case, numbers: Sequence[int]) -> bool:
            is_asked = replicate(case, numbers)
            if is_asked:
                self._excuses.update(case.loan.jobs[number].queued.key for number in numbers)
            return is_asked

        def noted_judged(visit: Visit) -> bool:
            is_open = judged(visit)
            if is_open:
                self._excuses.update([visit.job.queued.key])
            return is_open

        node: Any = gatherer.node
        adopt = node.adopt

        async def noted_adopt(charter: Charter) -> None:
            self._adopted(self, charter)
            await adopt(charter)

        node.adopt = noted_adopt
        loans: Any = crawl.loans
        watched: Any = crawl
        checking: Any = scrutiny
        loans.put_back, watched.commit = noted_put_back, noted_commit
        checking.replicate, checking.judged = noted_replicate, noted_judged
        self._watch_lies(gatherer)
        self._watch_loans(gatherer)

    def _watch_lies(self, gatherer: Gatherer) -> None:
        """Note what it believes of what liars say, and when it knows better."""
        lies, loans, trust = self._lies, gatherer.crawl.loans, gatherer.lender.scrutiny.trust
        returned, failed, forget = loans.returned, trust.failed, trust.forget

        def noted_returned(loan: Loan, number: int, response: Response, *rest: Any) -> None:
            lies.took(self.name, loan.jobs[number].queued.key, response.digest())
            returned(loan, number, response, *rest)

        def noted_failed(helper: str) -> int:
            lies.doubted(_rests_on(trust.record(helper)))
            return failed(helper)

        def noted_forget(helper: str) -> None:
            lies.doubted(_rests_on(trust.record(helper)))
            forget(helper)

        lending: Any = loans
        trusting: Any = trust
        lending.returned = noted_returned
        trusting.failed, trusting.forget = noted_failed, noted_forget

    def _watch_loans(self, gatherer: Gatherer) -> None:
        """Say of which lines the hosts are that it lends to helpers."""
        lend, moments = gatherer.lender.lend, self._redis.moments

        def noted_lend(loan: Loan, wish: Wish) -> None:
            if not gatherer_of(wish.to):
                moments.lent(loan.turn.lines, self.name)
            lend(loan, wish)

        lender: Any = gatherer.lender
        lender.lend = noted_lend

    async def run(self) -> None:
        """One life of a gatherer, until it ends or is killed."""
        config = replace(self._config, member=replace(self._config.member, name=self.name))
        self.ending = None
        with self._living():
            async with trio.open_nursery() as nursery:
                client = self.link.connect(nursery)
                desks: dict[str, Desk] = {}

                def open_desk(name: str) -> Desk:
                    if name not in desks:
                        desks[name] = Desk(client, config, name)
                    return desks[name]

                resume = (self._place / "format").exists()
                store = Store.open(
                    self._place, config.store, resume=resume, database=self.disk.open, world=self.world
                )
                try:
                    if not resume and self._known:
                        store.commit(Batch(meta=dict(self._known)))
                    fetching = SimulatedFetching(self._server, self.world, self.name)
                    board = Board(client, config, self.world)
                    self.gatherer = Gatherer(
                        config, store, fetching, board, open_desk, readers=READERS, world=self.world
                    )
                    self._watch(self.gatherer)
                    self.ending = await self.gatherer.run()
                finally:
                    if not self.world.is_alive:
                        self.disk.crash()
                    with suppress(StoreError):
                        store.close()
                nursery.cancel_scope.cancel()

    def book(self) -> tuple[str, dict[str, Any]]:
        """The ledger that is on its disk: its id, and the account."""
        with self.opened() as store:
            return store.identity, book_of(store)


def _rests_on(helper: Record) -> list[str]:
    """What counts by the word of a helper alone."""
    return [*helper.unchecked.keys, *helper.vouched.keys]


class HelperMachine(Machine):
    """One that helps, and keeps nothing."""

    def __init__(
        self,
        name: str,
        random: Random,
        redis: Redis,
        server: Server,
        config: Config,
        badge: Badge,
        desk: str,
        slots: int,
    ) -> None:
        """`slots` is how many bundles it serves at a time."""
        super().__init__(name, random, redis, server, config)
        self.badge, self._desk, self._slots = badge, desk, slots
        self.lies = False

    async def run(self) -> None:
        """One life of a helper, until it is killed."""
        with self._living():
            async with trio.open_nursery() as nursery:
                client = self.link.connect(nursery)
                desk = Desk(client, self._config, self._desk)
                fetching = SimulatedFetching(self._server, self.world, self.name, lies=lambda: self.lies)
                worker = Worker(
                    fetching,
                    desk.urls,
                    lambda _: desk.summaries,
                    self.badge,
                    slots=self._slots,
                    plugins=READERS,
                    world=self.world,
                )
                nursery.start_soon(self._say, desk)
                await worker.run()

    async def _say(self, desk: Desk) -> None:
        while True:
            with suppress(TupleSpaceError):
                await desk.say(Presence(self.name, self._slots))
            await trio.sleep(_SAY_EVERY_S)
