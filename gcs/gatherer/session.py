"""A crawl from the command line: set up from the configuration, watched, drained on Ctrl-C, summed up."""

from __future__ import annotations

import gc
import shlex
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from ipaddress import ip_address
from pathlib import Path

import msgpack
import structlog
import trio

import gcs
from gcs import endpoint, memory
from gcs.config import Config
from gcs.core import vitals
from gcs.core.traps import Novelty
from gcs.core.tree import Expansion
from gcs.errors import ConfigError, ExitCode, UsageError
from gcs.fetch.outcome import Failure, Origin
from gcs.fetch.transport import Transport
from gcs.gatherer.admission import Admission
from gcs.gatherer.console import Console, Screen
from gcs.gatherer.crawl import EXPANSION, NOVELTY, TALLY, Crawl, Ending, Limits
from gcs.gatherer.crawl_meters import CrawlMeters
from gcs.gatherer.parts import Fleet
from gcs.gatherer.seeds import seed_url, targets_of
from gcs.gatherer.tally import Tally
from gcs.gatherer.visit import Visitor
from gcs.index.service import CATCH_UP_S
from gcs.index.upkeep import Upkeep, is_embedded, upkeep
from gcs.process import Process
from gcs.sources.chosen import asking, lack, needs, schedule_of
from gcs.store.errors import StoreError
from gcs.store.records import Counts
from gcs.store.store import Store
from gcs.store.view import View
from gcs.summary import plugins

EXITS = {
    Ending.FINISHED: ExitCode.OK,
    Ending.PAGES: ExitCode.LIMIT,
    Ending.TIME: ExitCode.LIMIT,
    Ending.INTERRUPTED: ExitCode.INTERRUPTED,
}
SETTINGS = "settings"
PRIVATE = "private"
SOURCES = "sources"
_NO_SEEDS = "give at least one URL to begin with, or a file of them with --seeds"
_CONTACT = ("@", "http://", "https://")


@dataclass(frozen=True, slots=True)
class Request:
    """What the command line asks for."""

    seeds: Sequence[str]
    directory: Path
    resume: bool = False
    expansion: Path | None = None
    settings: Sequence[str] = ()
    """What makes this crawl differ from the defaults; a resumed one has it again."""
    limits: Limits = field(default_factory=Limits)
    monitor: bool = False
    """Whether the web page is served meanwhile."""
    stay: bool = False
    """Whether it is served on after the end, until Ctrl-C."""
    revisit: bool = False
    """Whether every page is visited once more."""


def crawl(config: Config, request: Request) -> ExitCode:
    """Crawl, and say how it went; raises GcsError for what cannot be begun."""
    memory.spare()
    spare_the_collector()
    return trio.run(_crawl, config, request)


def spare_the_collector() -> None:
    """Look for cycles less often: a crawl makes many objects and hardly any of those."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


async def _crawl(config: Config, request: Request) -> ExitCode:
    seeds = checked(config, request, begun=(request.directory / "format").exists())
    given = read_expansion(request.expansion) if request.expansion else None
    async with (
        endpoint.opened(config.metrics.listen) as monitored,
        Transport(config.fetch) as transport,
        asking(config, transport) as asks,
    ):
        private = await are_private(config, transport, seeds)
        if not private:
            require_agent(config)
        about = {"software": f"gcs/{gcs.__version__}", "robots": config.fetch.robots}
        if config.fetch.agent:
            about["http-header-user-agent"] = config.fetch.agent
        with Store.open(
            request.directory,
            config.store,
            resume=request.resume,
            name=config.crawl.name,
            about=about,
            finely=is_embedded(config),
        ) as store:
            if not seeds and not store.counts().accepted:
                raise UsageError(_NO_SEEDS)
            if not seeds and store.get_meta(PRIVATE) is None:
                private = False
                require_agent(config)
            novelty = store.get_meta(NOVELTY)
            admission = Admission(
                config,
                year=datetime.now(UTC).year,
                novelty=Novelty.from_bytes(novelty) if novelty else None,
            )
            visitor = Visitor(config, targets_of(config), admission, plugins.load(structlog.get_logger()))
            expansion = _expansion(store, given)
            running = Crawl(config, store, asks, visitor, expansion, limits=request.limits)
            kept = {
                SETTINGS: msgpack.packb(list(request.settings)),
                SOURCES: msgpack.packb(needs(config.sources)),
                PRIVATE: b"yes" if private else b"",
            }
            running.seed(visitor.seeds(seeds), kept)
            process = Process("crawl", config.member.name, config.crawl.name, partial(_trouble, running))
            measured = CrawlMeters(running, store, transport)
            serve = partial(monitored.serve, process, measured)
            return await _watched(running, store, request, serve, upkeep(config, store))


def _trouble(running: Crawl) -> str:
    return vitals.trouble(running.signs, trio.current_time(), vitals.UNWATCHED_S)


def checked(config: Config, request: Request, *, begun: bool) -> list[str]:
    """The seeds as URLs; raises GcsError for whatever can be refused before anything is made on disk."""
    targets = targets_of(config)
    seeds = [seed_url(targets, each) for each in request.seeds]
    Admission(config, year=datetime.now(UTC).year)
    schedule_of(config)
    if request.revisit and not begun:
        raise UsageError(f"{request.directory} holds no crawl whose pages could be visited again.")
    if not seeds and not (request.resume and begun):
        raise UsageError(_NO_SEEDS)
    # Without one of them what is queued of it would be dropped.
    if request.resume and begun and (said := lack(config.sources, sources_of(request.directory))):
        raise ConfigError(f"The crawl in {request.directory} {said}.")
    return seeds


async def _watched(
    running: Crawl,
    store: Store,
    request: Request,
    serve: Callable[[], Awaitable[None]],
    beside: Upkeep | None,
) -> ExitCode:
    console = Console(running, store, sys.stderr)
    endings: list[Ending] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_obey_signals, running, console, nursery.cancel_scope)
        nursery.start_soon(console.show)
        nursery.start_soon(serve)
        if beside is not None:
            nursery.start_soon(beside.run)
        endings.append(await running.run())
        if beside is not None:
            await beside.caught_up(CATCH_UP_S)
        nursery.cancel_scope.cancel()
    console.clear()
    if not endings:
        console.say(f"Stopped at once; `{again(request)}` goes on with it.")
        return ExitCode.INTERRUPTED
    ending = endings[0]
    return sum_up(console, request, ending, running.tally, store.counts())


def sum_up(screen: Screen, request: Request, ending: Ending, tally: Tally, counts: Counts) -> ExitCode:
    """Say what a crawl came to, and how to go on with it."""
    screen.sum_up(ending, tally, counts)
    if ending is not Ending.FINISHED:
        screen.say(f"To go on: {again(request)}")
    elif not tally.statuses:
        screen.say("No seed could be fetched; crawl.log says why.")
        return ExitCode.NO_SEED
    return EXITS[ending]


def again(request: Request) -> str:
    """The command that goes on with a crawl."""
    how = "--revisit" if request.revisit else "--resume"
    return f"gcs crawl {how} --into {shlex.quote(str(request.directory))}"


async def _obey_signals(running: Crawl, console: Console, scope: trio.CancelScope) -> None:
    """The first Ctrl-C (or SIGTERM) drains, the second stops at once."""
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for _ in signals:
            if running.interrupted:
                scope.cancel()
                return
            running.stop()
            console.say(
                f"Finishing {running.busy} requests that are under way; once more stops at once.",
            )


def tally_of(directory: Path) -> Tally:
    """What a crawl came to; raises StoreError where there is none."""
    with View(directory) as view:
        stored = view.get_meta(TALLY)
    return Tally.from_bytes(stored) if stored else Tally()


def read_expansion(path: Path) -> Expansion:
    """The user's initial expansion; raises UsageError."""
    try:
        return Expansion.from_lines(path.read_text(encoding="utf-8").splitlines())
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: the expansion cannot be read: {error}.") from error


def _expansion(store: Store, given: Expansion | None) -> Expansion:
    """The crawl's expansion: that of its earlier runs, or the user's, or one that spells nothing out."""
    stored = store.get_meta(EXPANSION)
    if stored is None:
        return given or Expansion()
    if given is not None:
        raise UsageError("this crawl has an expansion already; leave --expansion out to go on with it")
    return Expansion.from_bytes(stored)


async def are_private(config: Config, transport: Transport, seeds: Sequence[str]) -> bool:
    """Whether every seed lies in `fetch.allow`, or is no web page."""
    pages = [seed for seed in seeds if seed.startswith("http")]
    if config.fetch.proxy and pages:
        return False
    for seed in pages:
        found = await transport.addresses(Origin.split(seed)[0].host)
        if isinstance(found, Failure):
            return False
        if not all(any(ip_address(each) in network for network in config.fetch.allow) for each in found):
            return False
    return True


def require_agent(config: Config) -> None:
    """Refuse to ask public hosts without a name and a contact address."""
    if not any(mark in config.fetch.agent for mark in _CONTACT):
        raise ConfigError(
            "fetch.agent must name your crawler and how its owner can be reached, such as "
            '-s fetch.agent="mycrawler (+https://example.org/bot)"; only hosts in fetch.allow need none.'
        )


def settings_of(directory: Path) -> list[str]:
    """The settings with which the crawl in a directory began; none where there is no crawl."""
    fleet = Fleet.of(directory)
    return _stored(directory, SETTINGS) if fleet is None else list(fleet.settings)


def sources_of(directory: Path) -> list[str]:
    """What the crawl in a directory needs of sources, as `needs` says it."""
    fleet = Fleet.of(directory)
    return _stored(directory, SOURCES) if fleet is None else list(fleet.sources)


def _stored(directory: Path, name: str) -> list[str]:
    try:
        with View(directory) as view:
            stored = view.get_meta(name)
    except StoreError:
        return []
    return [str(each) for each in msgpack.unpackb(stored)] if stored else []
