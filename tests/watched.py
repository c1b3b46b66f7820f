"""A live crawl with its web page, for tests: gatherers and a monitor as processes, and a real Redis."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests import unmeasured
from tests.crawling import ROOT, command, gcs_here
from tests.gatherers import Gatherers, Served, gatherers
from tests.servers import Node, redis_server

BASE = "/crawl/"
"""Behind a reverse proxy the page is below a path."""
_WITHIN_S = 60.0


class Monitor:
    """A process of `gcs monitor`."""

    def __init__(self, redis: str, place: Path) -> None:
        self._redis, self._place, self._log = redis, place, place.with_suffix(".log")
        self._listen = "127.0.0.1:0"
        self._child: subprocess.Popen[bytes] | None = None
        self.links: list[str] = []
        """To sign in as who may operate, and as who may look."""

    def start(self) -> None:
        """Start it, and wait until it answers; always at the same port."""
        settings = [f"redis.url={self._redis}", f"monitor.listen={self._listen}", f"monitor.path={BASE}"]
        line = command("monitor", "--into", str(self._place))
        for each in settings:
            line += ["-s", each]
        with self._log.open("wb") as log:
            self._child = subprocess.Popen(
                line, cwd=ROOT, env=unmeasured.environment(), stdout=log, stderr=log
            )
        self.links = until(self._invited, "an invitation")
        self._listen = self.links[0].split("/")[2]

    def _invited(self) -> list[str]:
        said = self._log.read_text(errors="replace")
        assert self._child is not None
        assert self._child.poll() is None, said
        links = re.findall(r"http://\S+#token=\S+", said)
        return links if len(links) == 2 else []

    def stop(self) -> None:
        """End it as a service manager would."""
        if self._child is not None:
            self._child.terminate()
            self._child.wait()
            self._child = None

    @property
    def url(self) -> str:
        """The page, without a token."""
        return self.links[0].partition("#")[0]


@dataclass
class Watched:
    """A crawl that somebody watches."""

    group: Gatherers
    monitor: Monitor
    redis: Node

    def told(self, *arguments: str) -> Any:
        """What a command of `gcs` says with --json."""
        result = gcs_here(*arguments, "--json", "-s", f"redis.url={self.redis.url}")
        return json.loads(result.stdout)


def until(condition: Callable[[], Any], what: str, within_s: float = _WITHIN_S) -> Any:
    """Wait until something holds; gives what it came to."""
    deadline = time.monotonic() + within_s
    while not (found := condition()):
        assert time.monotonic() < deadline, f"{what} did not come"
        time.sleep(0.1)
    return found


@contextmanager
def watched(
    place: Path, served: Served, seeds: Sequence[str], *settings: str, names: Sequence[str] = ("g1", "g2")
) -> Iterator[Watched]:
    """A crawl of a web that is served; it stays when it has finished."""
    with (
        redis_server("valkey") as redis,
        gatherers(
            redis, served, place / "gatherers", ["member.leave_when_finished=false", *settings]
        ) as group,
    ):
        monitor = Monitor(redis.url, place / "monitor")
        try:
            monitor.start()
            for name in names:
                group.start(name)
            group.seed(seeds)
            yield Watched(group, monitor, redis)
        finally:
            monitor.stop()
