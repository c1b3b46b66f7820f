"""What watches and what answers, put together; whoever has a board can have it, in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import trio

from gcs import endpoint
from gcs.board import Board
from gcs.config import Config
from gcs.helper import desks
from gcs.monitor import routes, serving
from gcs.monitor.control import Control
from gcs.monitor.gate import Gate
from gcs.monitor.keys import Keys, Role
from gcs.monitor.reading import Reading
from gcs.monitor.sessions import Sessions
from gcs.monitor.watch import Watch
from gcs.world import REAL, World


@dataclass(frozen=True, slots=True)
class Monitor:
    """One that runs."""

    watch: Watch
    address: str
    """Where it is, as a URL if it is one."""
    keys: Keys

    def link(self, role: Role) -> str:
        """What opens the page, signed in; what is after the # never leaves the browser in a request's URL."""
        token = self.keys.operate if role is Role.OPERATE else self.keys.view
        return f"{self.address}#token={token}"


@asynccontextmanager
async def running(
    config: Config, board: Board, directory: Path, *, world: World = REAL
) -> AsyncIterator[Monitor]:
    """Watch a crawl, and serve its page, until the block is left; raises ConfigError if that cannot be."""
    keys, base = Keys.kept(directory), config.monitor.path
    sessions = Sessions(keys, config.monitor.session_s, world.now, directory)
    async with (
        serving.listening(config.monitor.listen) as listeners,
        desks.opened(config, board.client) as open_desk,
        trio.open_nursery() as nursery,
    ):
        watch = Watch(board, config, open_desk, directory, world)
        pages = routes.Pages(watch, sessions, base)
        answers = [*pages.endpoints(), *Reading(watch).endpoints(), *Control(watch).endpoints()]
        app = routes.application(answers, base, sessions.cookie)
        hosts = {each.lower() for each in config.monitor.hosts}
        gate = Gate(app, keys, sessions, base=base, hosts=hosts, clock=world.now)
        pages.check = gate.role
        nursery.start_soon(watch.run)
        nursery.start_soon(serving.answer, gate, listeners)
        yield Monitor(watch, endpoint.shown(listeners[0]) + base, keys)
        nursery.cancel_scope.cancel()
