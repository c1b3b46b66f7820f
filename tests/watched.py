"""A live crawl with its web page, for tests: gatherers and a monitor as processes, and a real Redis."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.crawling import gcs_here
from tests.gatherers import Gatherers, Served, gatherers
from tests.monitors import Monitor, monitor
from tests.servers import Node, redis_server, until

BASE = "/crawl/"
"""Behind a reverse proxy the page is below a path."""


@dataclass
class Watched:
    """A crawl that somebody watches."""

    group: Gatherers
    redis: Node
    place: Path
    settings: Sequence[str]
    """Of gatherers and monitor alike."""
    _running: ExitStack = field(default_factory=ExitStack)
    _monitor: Monitor | None = None

    def watch(self) -> None:
        """Start the monitor; always at the same port."""
        listen = f"monitor.listen={self.url.split('/')[2]}" if self._monitor else "monitor.listen=127.0.0.1:0"
        settings = (*self.settings, f"monitor.path={BASE}", listen)
        self._monitor = self._running.enter_context(
            monitor(self.redis.url, self.place / "monitor", *settings)
        )
        until(self._monitor.has_seen, "a first look at the crawl", timeout_s=60)

    def look_away(self) -> None:
        """End the monitor as a service manager would."""
        self._running.close()

    @property
    def url(self) -> str:
        """The page, without a token."""
        assert self._monitor is not None
        return self._monitor.url

    def link(self, role: str) -> str:
        """The page for somebody with a role, who is signed in by it."""
        assert self._monitor is not None
        return f"{self.url}#token={self._monitor.tokens[role]}"

    def told(self, *arguments: str) -> Any:
        """What a command of `gcs` says with --json."""
        result = gcs_here(*arguments, "--json", "-s", f"redis.url={self.redis.url}")
        return json.loads(result.stdout)


@contextmanager
def watched(
    place: Path, served: Served, seeds: Sequence[str], *settings: str, names: Sequence[str] = ("g1", "g2")
) -> Iterator[Watched]:
    """A crawl of a web that is served; it stays when it has finished."""
    staying = ["member.leave_when_finished=false", *settings]
    with (
        redis_server("valkey") as redis,
        gatherers(redis, served, place / "gatherers", staying) as group,
    ):
        crawl = Watched(group, redis, place, settings)
        try:
            crawl.watch()
            for name in names:
                group.start(name)
            group.seed(seeds)
            yield crawl
        finally:
            crawl.look_away()
