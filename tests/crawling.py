"""Crawls for tests: one in this process and event loop, or `gcs crawl` as users run it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import structlog
from click.testing import CliRunner, Result

import cli
from gcs.config import Config
from gcs.core.tree import Expansion
from gcs.fetch.transport import Transport
from gcs.gatherer.admission import Admission
from gcs.gatherer.crawl import Crawl, Ending, Limits
from gcs.gatherer.seeds import targets_of
from gcs.gatherer.visit import Visitor
from gcs.simulate.verdict import Verdict, judge
from gcs.simulate.web import Web
from gcs.sources.chosen import asking
from gcs.store.store import Store

ROOT = Path(__file__).parent.parent
LOOPBACK = (ip_network("127.0.0.0/8"),)


def configured(hosts: Path, **sections: dict[str, Any]) -> Config:
    """A configuration that may ask loopback, and knows the names of a synthetic web."""
    fetch: dict[str, Any] = {"allow": LOOPBACK, "hosts": hosts, "delay_s": 0.0, "max_wait_s": 0.2}
    fetch |= sections.pop("fetch", {})
    config = Config()
    changes = {name: replace(getattr(config, name), **values) for name, values in sections.items()}
    return replace(config, fetch=replace(config.fetch, **fetch), **changes)


async def crawl(
    config: Config,
    seeds: Sequence[str],
    directory: Path,
    *,
    limits: Limits | None = None,
    transport: Transport | None = None,
) -> Ending:
    """Crawl in this event loop, to the end or a limit; a directory with a crawl in it is resumed."""
    visitor = Visitor(config, targets_of(config), Admission(config, year=datetime.now(UTC).year))
    async with transport or Transport(config.fetch) as web, asking(config, web) as fetching:
        with Store.open(directory, config.store, resume=True) as store:
            running = Crawl(config, store, fetching, visitor, Expansion(), limits=limits)
            running.seed(visitor.seeds(seeds))
            return await running.run()


def command(*arguments: str, hosts: Path | None = None) -> list[str]:
    """The command line of `gcs`, with what a crawl of loopback needs."""
    settings = ["-s", "fetch.allow=127.0.0.0/8", "-s", "fetch.delay=0s"]
    if hosts is not None:
        settings += ["-s", f"fetch.hosts={hosts}"]
    return [sys.executable, "-m", "cli", *arguments, *settings]


def gcs(*arguments: str, hosts: Path | None = None, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run `gcs` to its end."""
    return subprocess.run(
        command(*arguments, hosts=hosts), cwd=ROOT, capture_output=True, text=True, check=False, **options
    )


def gcs_here(*arguments: str, hosts: Path | None = None) -> Result:
    """Run a quick command of `gcs` in this process, which saves the start of another."""
    before = structlog.get_config()
    try:
        return CliRunner().invoke(cli.main, command(*arguments, hosts=hosts)[3:])
    finally:
        structlog.configure(**before)


@dataclass(frozen=True, slots=True)
class Server:
    """A synthetic web that is served by another process."""

    web: Web
    hosts: Path
    log: Path
    process: subprocess.Popen[str]

    def judged(self) -> Verdict:
        """What the servers saw. They end with this: only then their log is whole."""
        self.process.terminate()
        self.process.wait()
        return judge(self.log, self.web)


@contextmanager
def server(
    into: Path,
    seed: int,
    hosts: int,
    pages: int,
    *,
    plain: bool = True,
    slowness: float = 0.0,
    hosts_per_address: int = 1,
    latency_ms: float = 0.0,
    within: Sequence[str] = (),
    abroad: bool = False,
    etags: bool = False,
) -> Iterator[Server]:
    """Serve a web, without delays unless asked for, in a process of its own; `within` runs it elsewhere."""
    into.mkdir(exist_ok=True)
    arguments = [
        "--seed",
        seed,
        "--hosts",
        hosts,
        "--pages",
        pages,
        "--port",
        0,
        "--into",
        into,
        "--slowness",
        slowness,
        "--hosts-per-address",
        hosts_per_address,
        "--latency",
        latency_ms,
    ]
    with subprocess.Popen(
        [
            *within,
            sys.executable,
            "-m",
            "gcs.simulate.webserver",
            *map(str, arguments),
            *(["--plain"] if plain else []),
            *(["--abroad"] if abroad else []),
            *(["--etags"] if etags else []),
        ],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            said = json.loads(process.stdout.readline())
            web = Web(
                seed,
                hosts,
                pages,
                port=said["port"],
                plain=plain,
                slowness=slowness,
                hosts_per_address=hosts_per_address,
                abroad=abroad,
            )
            yield Server(web, Path(said["hosts"]), Path(said["log"]), process)
        finally:
            process.terminate()
