"""One gatherer, put together from its parts: what it works with is given to it, as is what it runs on."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Final

import structlog
import trio

from gcs.board import Board
from gcs.config import Config
from gcs.core.traps import Novelty
from gcs.core.tree import Expansion
from gcs.core.urls import key
from gcs.fetch.fetching import Fetching
from gcs.fetch.outcome import Origin, Outcome, Response
from gcs.gatherer.admission import Admission
from gcs.gatherer.crawl import EXPANSION, NOVELTY, Crawl, Ending
from gcs.gatherer.exchange import Exchange
from gcs.gatherer.handover import HandOver
from gcs.gatherer.horizon import LENT
from gcs.gatherer.membership import Membership
from gcs.gatherer.mending import mend
from gcs.gatherer.node import Node
from gcs.gatherer.orders import Orders
from gcs.gatherer.probing import Probes
from gcs.gatherer.proximity import META, Proximity, delay_to
from gcs.gatherer.seeds import targets_of
from gcs.gatherer.telling import Telling
from gcs.gatherer.turns import Company, Turns
from gcs.gatherer.visit import Visitor
from gcs.helper.books import SiteBooks
from gcs.helper.desks import AMONG_GATHERERS, OpenDesk, of_gatherer
from gcs.helper.lender import AMONG_GATHERERS_S, LONGEST_S, TRUST, Lender
from gcs.helper.sites import Site
from gcs.helper.worker import Badge, Worker
from gcs.index.service import CATCH_UP_S
from gcs.index.upkeep import upkeep
from gcs.leader.leader import Leader
from gcs.leader.ranker import Ranker
from gcs.store.records import Batch, host_of
from gcs.store.store import Store
from gcs.summary import plugins
from gcs.summary.plugins import Plugins
from gcs.world import REAL, World
from tuplespace import TupleSpaceError

_TRIED_AT_ONCE: Final = 2
_LAST_WORD_S: Final = 1.0
"""In the end, who watches is told what was found; it is not waited for any longer."""


class Gatherer:
    """All parts of one gatherer; `run` once."""

    def __init__(
        self,
        config: Config,
        store: Store,
        transport: Fetching,
        board: Board,
        open_desk: OpenDesk,
        *,
        asks: Fetching | None = None,
        readers: Plugins | None = None,
        world: World = REAL,
    ) -> None:
        """`readers` are those that are installed, unless some are given; `asks` asks other sources too.

        What other gatherers want tried is asked for by the transport alone: it is for web pages only.
        """
        asks = asks or transport
        novelty, expansion = store.get_meta(NOVELTY), store.get_meta(EXPANSION)
        self.node = node = Node(config, store, traffic=board.traffic, world=world)
        config = node.config  # operators may have ruled otherwise than what was read
        admission = Admission(
            config,
            year=datetime.fromtimestamp(world.now(), UTC).year,
            novelty=Novelty.from_bytes(novelty) if novelty else None,
            rulings=lambda: node.rulings,
        )
        readers = plugins.load(structlog.get_logger()) if readers is None else readers
        visitor = Visitor(config, targets_of(config), admission, readers, counts_links=True)
        seen = Expansion.from_bytes(expansion) if expansion else Expansion()
        me, company = f"{node.id} {node.incarnation}", Company(node)
        lent_s = LONGEST_S if config.helpers.sites else sum(AMONG_GATHERERS_S)
        turns = Turns(
            *(board.turns, config.fetch, me, company.is_shared),
            clock=node.clock,
            planned_s=company.planned_s,
            have_met=self._have_met,
            had_life=node.charter is not None or store.get_meta(LENT) is not None,
            lent_s=lent_s,
        )
        permits = turns if config.fetch.delay_s else None
        self.crawl = node.crawl = crawl = Crawl(
            config, store, asks, visitor, seen, territory=node, permits=permits, world=world
        )
        turns.attach(crawl.bench, crawl.wake)
        node.check_expansion()
        self.exchange = exchange = Exchange(node, board)
        meet = turns.meet if permits is not None else None
        self.membership = membership = Membership(node, board, exchange, self._report, meet)
        near = _proximity(node, board, asks, membership)
        probes = Probes(node)
        membership.further_reasons.append(probes.reason)
        self.lender = crawl.loans.lending = Lender(
            crawl,
            lambda: node.config,
            node.id,
            open_desk,
            SiteBooks([Site.of(each) for each in config.helpers.sites], lambda: node.rulings),
            epoch=node.epoch_of_rulings,
            barred=node.is_barred,
            members=lambda: len(membership.alive()),
            again=partial(mend, node, board),
            leaves=node.gives_all_away,
            trust=store.get_meta(TRUST) or b"",
            probing=probes,
            world=world,
        )
        node.barred, node.doubt = self.lender.shunned, self.lender.doubt
        self.leader = Leader(node, board, membership, exchange, delays=near.delays if near else dict)
        self._telling = Telling(node, board, membership, self.lender.scrutiny.trust)
        orders = Orders(node, board, exchange, self.leader, visitor)
        self._nursery: trio.Nursery | None = None
        self._tasks = [
            membership.run,
            membership.keep_awake,
            membership.follow,
            membership.conclude,
            membership.end_calls,
            membership.remind,
            exchange.send,
            exchange.receive,
            exchange.forget,
            HandOver(node, exchange).run,
            self.leader.run,
            orders.take_seeds,
            orders.obey,
            turns.run,
            self._telling.run,
            self.lender.run,
            _prober(node, transport, readers, open_desk).run,
        ]
        if near is not None:
            self._tasks.append(near.run)
        if config.rank.every_s is not None:
            self._tasks.append(Ranker(node, board, config.rank.every_s).run)
        self._upkeep = upkeep(config, store)
        if self._upkeep is not None:
            self._tasks.append(self._upkeep.run)

    def _have_met(self, start: int, lease_s: float) -> bool:
        return self.membership.have_met(start, lease_s)

    def _report(self, token: int) -> None:
        """A leader wants a report."""
        assert self._nursery is not None
        self._nursery.start_soon(self.leader.answer, token)

    async def run(self) -> Ending:
        """Gather until the crawl is finished, this gatherer has left it, or it is told to stop."""
        endings: list[Ending] = []
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            for task in self._tasks:
                nursery.start_soon(task)
            endings.append(await self.crawl.run())
            with trio.move_on_after(_LAST_WORD_S), suppress(TupleSpaceError):
                await self._telling.tell()
            if self._upkeep is not None:
                await self._upkeep.caught_up(CATCH_UP_S)
            nursery.cancel_scope.cancel()
        return endings[0]


def _proximity(node: Node, board: Board, transport: Fetching, membership: Membership) -> Proximity | None:
    """What placement by proximity needs, and no other: announced domains, and wishes because of them."""
    if node.config.placement.strategy != "proximity":
        return None
    near = Proximity(
        board.domains,
        node.id,
        alive=lambda: [each.id for each in membership.alive() if each.pulse.standing != "draining"],
        charter=lambda: node.charter,
        measure=partial(delay_to, transport),
        keep=lambda meta: node.crawl.commit(Batch(meta=dict(meta))),
        stored=node.store.metas(META),
        traffic=board.traffic,
        again_after_s=node.config.placement.measure_again_s,
        clock=node.clock,
    )
    node.crawl.on_hosts = near.noticed
    membership.further_reasons.append(near.reason)
    return near


def _prober(node: Node, transport: Fetching, readers: Plugins, open_desk: OpenDesk) -> Worker:
    """Tries pages of other gatherers, and notes how long they take here."""

    def tried(origin: Origin, outcome: Outcome) -> None:
        if isinstance(outcome, Response):
            node.crawl.paces.took(host_of(key(f"{origin}/")), outcome.total_s)

    return Worker(
        transport,
        open_desk(of_gatherer(node.id)).urls,
        lambda bundle: open_desk(of_gatherer(bundle.gatherer)).summaries,
        Badge(node.id, AMONG_GATHERERS, AMONG_GATHERERS),
        slots=_TRIED_AT_ONCE,
        lease_s=AMONG_GATHERERS_S[1],
        plugins=readers,
        on_page=tried,
        follows=False,
        world=node.world,
    )
