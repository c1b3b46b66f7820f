"""The gatherer as a daemon: joins the crawl that its configuration names, and works until told to stop."""

from __future__ import annotations

import faulthandler
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

import structlog
import trio

import gcs
from gcs import spaces
from gcs.board import FINISHED, Board
from gcs.config import Config
from gcs.core.traps import Novelty
from gcs.core.tree import Expansion
from gcs.core.urls import key
from gcs.errors import ConfigError, ExitCode
from gcs.fetch.outcome import Origin, Outcome, Response
from gcs.fetch.transport import Transport
from gcs.gatherer.admission import Admission
from gcs.gatherer.crawl import EXPANSION, NOVELTY, Crawl, Ending
from gcs.gatherer.exchange import Exchange
from gcs.gatherer.handover import HandOver
from gcs.gatherer.links import Targets
from gcs.gatherer.membership import Membership
from gcs.gatherer.node import Node
from gcs.gatherer.orders import Orders
from gcs.gatherer.probing import Probes
from gcs.gatherer.proximity import META, Proximity, delay_to
from gcs.gatherer.seeds import cleaning
from gcs.gatherer.service import Service
from gcs.gatherer.session import require_agent, spare_memory, spare_the_collector
from gcs.gatherer.turns import Company, Turns
from gcs.gatherer.visit import Visitor
from gcs.helper import desks
from gcs.helper.books import Site, SiteBooks
from gcs.helper.desks import AMONG_GATHERERS, OpenDesk, of_gatherer
from gcs.helper.lender import AMONG_GATHERERS_S, LONGEST_S, TRUST, Lender
from gcs.helper.worker import Badge, Worker
from gcs.leader.leader import Leader
from gcs.notify import Notifier
from gcs.store.records import Batch, host_of
from gcs.store.store import Store
from gcs.summary import plugins
from gcs.summary.plugins import Plugins
from tuplespace import TupleSpaceError

_TRIED_AT_ONCE: Final = 2


def run(config: Config, directory: Path, read_config: Callable[[], Config]) -> ExitCode:
    """Gather until the crawl is finished, the gatherer is drained, or a signal says so.

    `read_config` reads the configuration again.
    """
    check(config)
    notifier = Notifier.from_environment(os.environ)
    # A watchdog kills with SIGABRT: the log then says where it hung.
    faulthandler.enable(sys.__stderr__ or sys.stderr)
    spare_memory()
    spare_the_collector()
    return trio.run(_run, config, directory, notifier, lambda: check(read_config()))


def check(config: Config) -> Config:
    """The same configuration; raises ConfigError when a gatherer cannot run with it."""
    if not config.redis.url:
        raise ConfigError(
            "redis.url must name the Redis where the gatherers of this crawl meet, such as "
            "-s redis.url=redis://localhost; `gcs crawl -n 3` needs none."
        )
    if not config.fetch.allow:
        require_agent(config)
    Admission(config, year=datetime.now(UTC).year)
    return config


async def _run(
    config: Config, directory: Path, notifier: Notifier, read_config: Callable[[], Config]
) -> ExitCode:
    about = {"software": f"gcs/{gcs.__version__}", "robots": config.fetch.robots}
    if config.fetch.agent:
        about["http-header-user-agent"] = config.fetch.agent
    resume = (directory / "format").exists()
    async with (
        Transport(config.fetch) as transport,
        spaces.connect(config, config.redis.url) as client,
        desks.opened(config, client) as open_desk,
    ):
        with Store.open(directory, config.store, resume=resume, name=config.crawl.name, about=about) as store:
            board = Board(client, config)
            return await _gather(config, store, transport, board, open_desk, notifier, read_config)


async def _gather(
    config: Config,
    store: Store,
    transport: Transport,
    board: Board,
    open_desk: OpenDesk,
    notifier: Notifier,
    read_config: Callable[[], Config],
) -> ExitCode:
    novelty, expansion = store.get_meta(NOVELTY), store.get_meta(EXPANSION)
    node = Node(config, store, traffic=board.traffic)
    config = node.config
    admission = Admission(
        config,
        year=datetime.now(UTC).year,
        novelty=Novelty.from_bytes(novelty) if novelty else None,
        rulings=lambda: node.rulings,
    )
    readers = plugins.load(structlog.get_logger())
    visitor = Visitor(config, Targets(cleaning(config)), admission, readers)
    seen = Expansion.from_bytes(expansion) if expansion else Expansion()
    me, company = f"{node.id} {node.incarnation}", Company(node)
    lent_s = LONGEST_S if config.helpers.sites else sum(AMONG_GATHERERS_S)
    turns = Turns(board.turns, config.fetch, me, company.is_shared, clock=node.clock, lent_s=lent_s)
    permits = turns if config.fetch.delay_s else None
    crawl = node.crawl = Crawl(config, store, transport, visitor, seen, territory=node, permits=permits)
    turns.attach(crawl.bench, crawl.wake)
    node.check_expansion()
    exchange = Exchange(node, board)
    hand_over = HandOver(node, exchange)
    endings: list[Ending] = []
    async with trio.open_nursery() as nursery:
        membership = Membership(node, board, exchange, lambda token: nursery.start_soon(leader.answer, token))
        near = _proximity(node, board, transport, membership)
        probes = Probes(node)
        membership.further_reasons.append(probes.reason)
        crawl.lending = lender = Lender(
            crawl,
            config,
            node.id,
            open_desk,
            SiteBooks([Site.of(each) for each in config.helpers.sites], lambda: node.rulings),
            epoch=node.epoch_of_rulings,
            members=lambda: len(membership.alive()),
            again=partial(_again, node, board),
            trust=store.get_meta(TRUST) or b"",
            probing=probes,
        )
        node.barred = lender.scrutiny.trust.barred
        prober = _prober(node, transport, readers, open_desk)
        leader = Leader(node, board, membership, exchange, delays=near.delays if near else dict)
        orders = Orders(node, board, exchange, leader, visitor)
        service = Service(node, membership, exchange, notifier, read_config)
        nursery.start_soon(service.obey, nursery.cancel_scope)
        nursery.start_soon(service.report)
        for task in (
            membership.run,
            membership.keep_awake,
            membership.follow,
            membership.conclude,
            exchange.send,
            exchange.receive,
            exchange.forget,
            hand_over.run,
            leader.run,
            orders.take_seeds,
            orders.obey,
            turns.run,
            lender.run,
            prober.run,
        ):
            nursery.start_soon(task)
        if near is not None:
            nursery.start_soon(near.run)
        endings.append(await crawl.run())
        nursery.cancel_scope.cancel()
    service.stopping()
    node.log.info("ended", why=endings[0].value if endings else "stopped at once")
    return ExitCode.OK if endings and endings[0] is Ending.FINISHED else ExitCode.INTERRUPTED


def _proximity(node: Node, board: Board, transport: Transport, membership: Membership) -> Proximity | None:
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
    )
    node.crawl.on_hosts = near.noticed
    membership.further_reasons.append(near.reason)
    return near


async def _again(node: Node, board: Board, keys: Sequence[str]) -> None:
    """Fetch pages again that a helper was wrong about, as far as they are still ours."""
    await node.crawl.commit(Batch(again=[each for each in keys if node.holdings.may_fetch(each)]))
    with suppress(TupleSpaceError):
        await board.take_down(FINISHED)


def _prober(node: Node, transport: Transport, readers: Plugins, open_desk: OpenDesk) -> Worker:
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
    )
