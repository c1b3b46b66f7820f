"""The gatherer as a daemon: joins the crawl that its configuration names, and works until told to stop."""

from __future__ import annotations

import faulthandler
import os
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import trio

import gcs
from gcs import endpoint, memory, spaces
from gcs.board import Board
from gcs.config import Config
from gcs.endpoint import Endpoint
from gcs.errors import ConfigError, ExitCode
from gcs.fetch.fetching import Fetching
from gcs.fetch.transport import Transport
from gcs.gatherer.admission import Admission
from gcs.gatherer.crawl import Ending
from gcs.gatherer.crawl_meters import CrawlMeters
from gcs.gatherer.gatherer import Gatherer
from gcs.gatherer.gatherer_meters import GathererMeters
from gcs.gatherer.revisiting import table_of
from gcs.gatherer.service import Service
from gcs.gatherer.session import require_agent, spare_the_collector
from gcs.helper import desks
from gcs.helper.desks import OpenDesk
from gcs.index.upkeep import is_embedded
from gcs.notify import Notifier
from gcs.process import Process
from gcs.profiles import service as profiling
from gcs.sources.chosen import asking, reach_of, schedule_of
from gcs.store.store import Store


def run(config: Config, directory: Path, read_config: Callable[[], Config]) -> ExitCode:
    """Gather until the crawl is finished, the gatherer is drained, or a signal says so.

    `read_config` reads the configuration again.
    """
    check(config)
    notifier = Notifier.from_environment(os.environ)
    # A watchdog kills with SIGABRT: the log then says where it hung.
    faulthandler.enable(sys.__stderr__ or sys.stderr)
    memory.spare()
    spare_the_collector()
    return trio.run(_run, config, directory, notifier, lambda: check(read_config()))


def check(config: Config) -> Config:
    """The same configuration; raises ConfigError when a gatherer cannot run with it."""
    if not config.redis.url:
        raise ConfigError(
            "redis.url must name the Redis where the gatherers of this crawl meet, such as "
            "-s redis.url=redis://localhost; `gcs crawl -n 3` needs none."
        )
    if not config.fetch.allow and not config.sources.any:
        require_agent(config)
    reach_of(config.sources)
    schedule_of(config)
    Admission(config, year=datetime.now(UTC).year)
    table_of(config.revisit)
    return config


async def _run(
    config: Config, directory: Path, notifier: Notifier, read_config: Callable[[], Config]
) -> ExitCode:
    about = {"software": f"gcs/{gcs.__version__}", "robots": config.fetch.robots}
    if config.fetch.agent:
        about["http-header-user-agent"] = config.fetch.agent
    resume = (directory / "format").exists()
    async with (
        endpoint.opened(config.metrics.listen) as monitored,
        Transport(config.fetch) as transport,
        asking(config, transport) as asks,
        spaces.connect(config, config.redis.url) as client,
        desks.opened(config, client) as open_desk,
    ):
        with Store.open(
            directory,
            config.store,
            resume=resume,
            name=config.crawl.name,
            about=about,
            finely=is_embedded(config),
        ) as store:
            board = Board(client, config)
            given = (board, open_desk, notifier, read_config, monitored)
            return await _gather(config, store, transport, asks, *given)


async def _gather(
    config: Config,
    store: Store,
    transport: Transport,
    asks: Fetching,
    board: Board,
    open_desk: OpenDesk,
    notifier: Notifier,
    read_config: Callable[[], Config],
    monitored: Endpoint,
) -> ExitCode:
    gatherer = Gatherer(config, store, transport, board, open_desk, asks=asks)
    profiles = profiling.Service(config, board.client, store)
    node, membership = gatherer.node, gatherer.membership
    service = Service(node, membership, gatherer.exchange, notifier, read_config)
    process = Process("gatherer", node.name, config.crawl.name, service.trouble)
    meters = CrawlMeters(gatherer.crawl, store, transport)
    measured = GathererMeters(meters, node, membership, gatherer.leader, gatherer.lender, gatherer.exchange)
    endings: list[Ending] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(service.obey, nursery.cancel_scope)
        nursery.start_soon(service.report)
        nursery.start_soon(monitored.serve, process, measured)
        nursery.start_soon(profiles.run)
        endings.append(await gatherer.run())
        await profiles.settle()
        nursery.cancel_scope.cancel()
    service.stopping()
    node.log.info("ended", why=endings[0].value if endings else "stopped at once")
    return ExitCode.OK if endings and endings[0] is Ending.FINISHED else ExitCode.INTERRUPTED
