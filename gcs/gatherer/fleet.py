"""Several gatherers on this machine, each a process of its own: started, watched, and stopped together.

They are `gcs gatherer`, and meet in a private server, or at the Redis of the configuration. All that they are
told is in their environment, so that no password is on a command line. This process crawls nothing: it adds
up what they say with their heartbeats, and starts one again that dies. They have sessions of their own, so
that Ctrl-C reaches this process alone, and `tuplespace.supervisor` sees that none outlives it.
"""

from __future__ import annotations

import os
import signal
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, TextIO

import structlog
import trio

from gcs import board as boards
from gcs import children
from gcs.board import Board, Pulse
from gcs.config import Config, Redis
from gcs.endpoint import numbered
from gcs.errors import ConfigError, ExitCode, UsageError
from gcs.fetch.transport import Transport
from gcs.gatherer import parts, session, turns
from gcs.gatherer.console import Screen
from gcs.gatherer.crawl import Ending
from gcs.gatherer.parts import Fleet
from gcs.gatherer.session import Request
from gcs.gatherer.tally import Tally, size
from gcs.sources.chosen import needs
from gcs.store.errors import StoreError
from gcs.store.records import Counts
from gcs.store.view import View
from tuplespace import TupleSpaceError, embedded
from tuplespace.supervisor import Supervised, spawn

RESTARTS: Final = 5
WITHIN_S: Final = 60.0
_LOOK_S: Final = 0.1
_GRACE_S: Final = 30.0
"""What a gatherer has to end, beside the time that a request may take."""
_HOPELESS: Final = frozenset({ExitCode.USAGE, ExitCode.CONFIG, ExitCode.STORE})


def crawl(config: Config, request: Request, gatherers: int) -> ExitCode:
    """Crawl with several gatherers, and say how it went; raises GcsError for what cannot be begun."""
    return trio.run(_crawl, config, request, gatherers)


async def _crawl(config: Config, request: Request, gatherers: int) -> ExitCode:
    directory = request.directory
    if request.expansion is not None:
        raise UsageError("--expansion is for one gatherer; leave it out, or crawl with -n 1.")
    before = Fleet.of(directory)
    seeds = session.checked(config, request, begun=before is not None)
    if before is not None and before.own_server == bool(config.redis.url):
        what = (
            "a private server; leave redis.url out" if before.own_server else "a Redis; name it as redis.url"
        )
        raise ConfigError(f"The gatherers of {directory} meet in {what} to go on with them.")
    async with Transport(config.fetch) as transport:
        private = await session.are_private(config, transport, seeds) and (before is None or before.private)
    if not private:
        session.require_agent(config)
    lock = parts.prepare(directory)
    try:
        fleet = Fleet(
            gatherers=gatherers,
            settings=request.settings,
            private=private,
            own_server=not config.redis.url,
            sources=needs(config.sources),
        )
        async with _meeting(config, directory) as (there, is_served), boards.opened(there) as board:
            # All of them have to prove the end again, also one that is new.
            await board.take_down(boards.FINISHED)
            if fleet.own_server:
                await turns.say_private(board.turns)
            seeds = [*(parts.waiting_seeds(directory) if before else ()), *seeds]
            parts.keep_seeds(directory, seeds)
            fleet.remember(directory)
            await board.seed(seeds)
            running = Gatherers(there, directory, gatherers, is_served)
            watch = Watch(board, running, sys.stderr)
            async with _monitored(there, board, request, watch):
                return await _watched(running, watch, request)
    finally:
        lock.release()


@asynccontextmanager
async def _meeting(config: Config, directory: Path) -> AsyncIterator[tuple[Config, Callable[[], bool]]]:
    """The configuration with the address where they meet, and whether there is still a server."""
    if config.redis.url:
        # The password was read already.
        yield replace(config, redis=replace(config.redis, password_file=None)), lambda: True
        return
    async with embedded.start(directory / "space") as server:
        redis = Redis(url=server.url, timeout_s=config.redis.timeout_s)
        yield replace(config, redis=redis), lambda: server.running


@asynccontextmanager
async def _monitored(config: Config, board: Board, request: Request, watch: Watch) -> AsyncIterator[None]:
    """Serve the web page, if it is wanted; also after the end, if that is."""
    if not request.monitor:
        yield
        return
    from gcs.monitor import daemon, monitor

    async with monitor.running(config, board, request.directory / "monitor") as served:
        daemon.invite(served, watch.say)
        yield
        if request.stay:
            with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
                watch.say("The page stays until Ctrl-C.")
                await anext(signals)


async def _watched(running: Gatherers, watch: Watch, request: Request) -> ExitCode:
    limits = request.limits
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_obey_signals, running, watch)
        nursery.start_soon(watch.look, limits.pages)
        nursery.start_soon(watch.show)
        nursery.start_soon(_stop_after, running, limits.seconds)
        await running.run()
        nursery.cancel_scope.cancel()
    watch.clear()
    if running.trouble is not None:
        sentence, code = running.trouble
        watch.say(f"gcs: {sentence}\nTo go on: {session.again(request)}")
        return code
    if running.killed:
        watch.say(f"Stopped at once; `{session.again(request)}` goes on with it.")
        return ExitCode.INTERRUPTED
    ending = running.ending or Ending.FINISHED
    if ending is Ending.FINISHED:
        parts.keep_seeds(request.directory, [])
    return session.sum_up(watch, request, ending, *watch.account())


async def _stop_after(running: Gatherers, seconds: float) -> None:
    await trio.sleep(seconds)
    running.stop(Ending.TIME)


async def _obey_signals(running: Gatherers, watch: Watch) -> None:
    """The first Ctrl-C (or SIGTERM) lets them finish what is under way, the second does not."""
    interrupted = False
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for _ in signals:
            if interrupted:
                running.kill()
            else:
                interrupted = True
                running.stop(Ending.INTERRUPTED)
                watch.say("The gatherers finish what is under way; once more stops them at once.")


class Gatherer:
    """One of them."""

    def __init__(self, config: Config, place: Path, name: str) -> None:
        self.place, self.name = place, name
        self.log = place.with_name(f"{place.name}.log")
        self.process: Supervised | None = None
        self.is_over = False
        self.starts: deque[float] = deque(maxlen=RESTARTS + 1)
        self.grace_s = config.fetch.connect_timeout_s + config.fetch.timeout_s + _GRACE_S
        member = replace(config.member, name=name, leave_when_finished=True)
        # The place's own name is its number, from 1.
        metrics = replace(config.metrics, listen=numbered(config.metrics.listen, int(place.name) - 1))
        self._environment = children.environment(replace(config, member=member, metrics=metrics), os.environ)

    async def start(self) -> bool:
        """Start it; False while one that an earlier run has left behind is about to end."""
        starting = partial(
            spawn,
            [*children.PROGRAM, "gatherer", "--into", self.place],
            lock=self.place.with_name(f"{self.place.name}.lock"),
            log=self.log,
            grace_s=self.grace_s,
            cwd=Path.cwd(),
            environment=self._environment,
            umask=-1,
        )
        self.process = await trio.to_thread.run_sync(starting)
        return self.process is not None

    @property
    def dies_often(self) -> bool:
        """Whether to start it once more would be too often."""
        return len(self.starts) > RESTARTS and trio.current_time() - self.starts[0] < WITHIN_S


class Gatherers:
    """The processes; they end by themselves when the crawl is finished."""

    def __init__(
        self, config: Config, directory: Path, count: int, is_served: Callable[[], bool] = lambda: True
    ) -> None:
        self.directory, self.heartbeat_s = directory, config.member.heartbeat_s
        self.ending: Ending | None = None
        """Why they were told to stop."""
        self.killed = False
        self.trouble: tuple[str, ExitCode] | None = None
        self._is_served = is_served
        self._log = structlog.get_logger()
        prefix = f"{config.member.name}-" if config.member.name else "g"
        places = parts.places(directory, count)
        self.each = [Gatherer(config, place, f"{prefix}{place.name}") for place in places]

    async def run(self) -> None:
        """Start them, and return when all have ended; none is left when this is cut short."""
        try:
            for gatherer in self.each:
                await self._start(gatherer)
            while not all(gatherer.is_over for gatherer in self.each):
                await trio.sleep(_LOOK_S)
                if not self._is_served():
                    log = self.directory / "space" / "server.log"
                    self._fail(f"The private server has ended; {log} says why.", ExitCode.REDIS)
                for gatherer in self.each:
                    await self._look_at(gatherer)
        finally:
            self.kill(quietly=True)

    def stop(self, ending: Ending) -> None:
        """Let all of them finish what is under way, and end."""
        if self.ending is None:
            self.ending = ending
            for gatherer in self.each:
                if gatherer.process is not None:
                    gatherer.process.ask_to_end()

    def kill(self, *, quietly: bool = False) -> None:
        """End all of them at once."""
        self.killed = self.killed or not quietly
        for gatherer in self.each:
            if gatherer.process is not None:
                gatherer.process.kill()

    async def _start(self, gatherer: Gatherer) -> None:
        """Start one, unless they are told to stop, also while it starts; raises StoreError."""
        gatherer.starts.append(trio.current_time())
        while self.ending is None and not await gatherer.start():
            if trio.current_time() - gatherer.starts[-1] > gatherer.grace_s:
                raise StoreError(
                    f"{gatherer.place}: a gatherer of an earlier run is still there; end it first."
                )
            await trio.sleep(_LOOK_S)
        if gatherer.process is None:
            gatherer.is_over = True
        elif self.killed:
            gatherer.process.kill()
        elif self.ending is not None:
            gatherer.process.ask_to_end()

    async def _look_at(self, gatherer: Gatherer) -> None:
        """See whether it has ended, and what to do about that."""
        code = None if gatherer.is_over or gatherer.process is None else gatherer.process.exit_code
        if code is None:
            return
        if code == ExitCode.OK or self.ending is not None:
            gatherer.is_over = True
            return
        self._log.warning(
            "a gatherer has died", gatherer=gatherer.name, exit_code=code, log=str(gatherer.log)
        )
        if code in _HOPELESS or gatherer.dies_often:
            gatherer.is_over = True
            self._fail(
                f"The gatherer {gatherer.name} cannot go on; {gatherer.log} says why.",
                next((each for each in _HOPELESS if each == code), ExitCode.LIMIT),
            )
            return
        gatherer.process = None
        await self._start(gatherer)

    def _fail(self, sentence: str, code: ExitCode) -> None:
        if self.ending is None:
            self.trouble = (sentence, code)
            self.stop(Ending.INTERRUPTED)


class Watch(Screen):
    """Looks at the heartbeats of all gatherers, and shows what they come to."""

    def __init__(self, board: Board, running: Gatherers, stream: TextIO) -> None:
        super().__init__(stream)
        self._board, self._running = board, running
        self._pulses: dict[str, Pulse] = {}
        self._after = 0
        self._before = self.account()[0].pages
        at_work = {each.place for each in running.each}
        self._left = sum(
            session.tally_of(each).pages for each in parts.parts(running.directory) if each not in at_work
        )
        """Pages of gatherers that have left."""

    async def look(self, max_pages: float) -> None:
        """Look at them, and stop them at a limit, until cancelled."""
        told, seeds_wait = False, True
        while True:
            try:
                await self._hear()
                if seeds_wait and not await self._board.seeds_wait():
                    seeds_wait = False
                    parts.keep_seeds(self._running.directory, [])
                told = False
            except TupleSpaceError as error:
                if not told:
                    self._log.warning("nothing is heard of the gatherers", why=str(error))
                told = True
            if self.pages >= max_pages:
                self._running.stop(Ending.PAGES)
            await trio.sleep(self._running.heartbeat_s)

    async def _hear(self) -> None:
        names = {each.name for each in self._running.each}
        members = (await self._board.members()).values()
        pulses = [each.pulse for each in sorted(members, key=lambda each: each.beat)]
        # A tuple that is replaced while others are read may be missed.
        self._pulses |= {pulse.name: pulse for pulse in pulses if pulse.name in names}

    def account(self) -> tuple[Tally, Counts]:
        """What is on their disks, of all that ever took part."""
        tally, counts = Tally(), Counts()
        for place in parts.parts(self._running.directory):
            try:
                tally.merge(session.tally_of(place))
                with View(place) as view:
                    counts += view.counts()
            except StoreError as error:
                self._log.warning("a part cannot be read", why=str(error))
        self._after = tally.pages
        return tally, counts

    def _sum(self, fact: str) -> int:
        return sum(int(pulse.facts.get(fact, 0)) for pulse in self._pulses.values())

    @property
    def pages(self) -> int:
        """Answers that this run got."""
        return max(self._sum("pages") + self._left, self._after) - self._before

    def line(self) -> str:
        """How it goes, in one line."""
        standings: dict[str, list[str]] = {}
        for name, pulse in sorted(self._pulses.items()):
            standings.setdefault("quiet" if pulse.quiet else pulse.standing, []).append(name)
        return " · ".join(
            [
                f"{self._before + self.pages:,} pages",
                f"{self._pace.recent:,.0f}/s",
                f"{self._sum('queued'):,} queued",
                size(self._sum("bytes")),
                f"{self._sum('failed'):,} failed",
                *(f"{standing}: {' '.join(names)}" for standing, names in standings.items()),
            ]
        )

    def facts(self) -> dict[str, object]:
        """The same for a log."""
        return {
            "pages": self._before + self.pages,
            "per_second": round(self._pace.recent, 1),
            "queued": self._sum("queued"),
            "bytes": self._sum("bytes"),
            "failed": self._sum("failed"),
            "gatherers": {name: pulse.standing for name, pulse in sorted(self._pulses.items())},
        }
