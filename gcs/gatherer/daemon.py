"""The gatherer as a daemon: joins the crawl that its configuration names, and works until told to stop."""

from __future__ import annotations

import signal
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import structlog
import trio

import gcs
from gcs import spaces
from gcs.board import Board
from gcs.config import Config
from gcs.core.traps import Novelty
from gcs.core.tree import Expansion
from gcs.errors import ConfigError, ExitCode
from gcs.fetch.transport import Transport
from gcs.gatherer.admission import Admission
from gcs.gatherer.crawl import EXPANSION, NOVELTY, Crawl, Ending
from gcs.gatherer.exchange import Exchange
from gcs.gatherer.handover import HandOver
from gcs.gatherer.links import Targets
from gcs.gatherer.membership import Membership
from gcs.gatherer.node import Node
from gcs.gatherer.orders import Orders
from gcs.gatherer.proximity import META, Proximity, delay_to
from gcs.gatherer.seeds import cleaning
from gcs.gatherer.session import require_agent, spare_memory, spare_the_collector
from gcs.gatherer.turns import Company, Turns
from gcs.gatherer.visit import Visitor
from gcs.leader.leader import Leader
from gcs.store.records import Batch
from gcs.store.store import Store
from gcs.summary import plugins


def run(config: Config, directory: Path) -> ExitCode:
    """Gather until the crawl is finished, the gatherer is drained, or a signal says so."""
    if not config.redis.url:
        raise ConfigError(
            "redis.url must name the Redis where the gatherers of this crawl meet, such as "
            "-s redis.url=redis://localhost; `gcs crawl -n 3` needs none."
        )
    if not config.fetch.allow:
        require_agent(config)
    Admission(config, year=datetime.now(UTC).year)
    spare_memory()
    spare_the_collector()
    return trio.run(_run, config, directory)


async def _run(config: Config, directory: Path) -> ExitCode:
    about = {"software": f"gcs/{gcs.__version__}", "robots": config.fetch.robots}
    if config.fetch.agent:
        about["http-header-user-agent"] = config.fetch.agent
    resume = (directory / "format").exists()
    async with Transport(config.fetch) as transport, spaces.connect(config, config.redis.url) as client:
        with Store.open(directory, config.store, resume=resume, name=config.crawl.name, about=about) as store:
            return await _gather(config, store, transport, Board(client, config))


async def _gather(config: Config, store: Store, transport: Transport, board: Board) -> ExitCode:
    novelty, expansion = store.get_meta(NOVELTY), store.get_meta(EXPANSION)
    node = Node(config, store, traffic=board.traffic)
    admission = Admission(
        config,
        year=datetime.now(UTC).year,
        novelty=Novelty.from_bytes(novelty) if novelty else None,
        rulings=lambda: node.rulings,
    )
    visitor = Visitor(config, Targets(cleaning(config)), admission, plugins.load(structlog.get_logger()))
    seen = Expansion.from_bytes(expansion) if expansion else Expansion()
    me, company = f"{node.id} {node.incarnation}", Company(node)
    turns = Turns(board.turns, config.fetch, me, company.is_shared, clock=node.clock)
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
        leader = Leader(node, board, membership, exchange, delays=near.delays if near else dict)
        orders = Orders(node, board, exchange, leader, visitor)
        nursery.start_soon(_obey_signals, crawl, nursery.cancel_scope)
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
        ):
            nursery.start_soon(task)
        if near is not None:
            nursery.start_soon(near.run)
        endings.append(await crawl.run())
        nursery.cancel_scope.cancel()
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
        again_after_s=node.config.placement.measure_again_s,
        clock=node.clock,
    )
    node.crawl.on_hosts = near.noticed
    membership.further_reason = near.reason
    return near


async def _obey_signals(crawl: Crawl, scope: trio.CancelScope) -> None:
    """The first SIGTERM or SIGINT ends what is under way, the second stops at once."""
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for _ in signals:
            if crawl.interrupted:
                scope.cancel()
                return
            crawl.stop()
