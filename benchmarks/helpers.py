"""What helpers are worth: gatherers with them beside the same gatherers alone.

    python -m benchmarks.helpers [--pages 20000] [--hosts 400] [--gatherers 2] [--helpers 3] [--latency 50]
                                 [--concurrency 4] [--per-host 4] [--json]

Both crawl the same synthetic web, whose hosts take a while to answer, with few requests at once each. Read
the ratio of pages per second, and what a page costs its gatherer in CPU time when a helper has fetched it:
what the gatherers used, less what their own pages cost by the run without helpers.
On a machine with few cores the helpers compete with the gatherers, though they are nice.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import trio

from benchmarks.crawl import tree_cpu_s
from benchmarks.together import await_members, crawl_to_end, gcs_program
from gcs import board as boards
from gcs.config import load
from gcs.simulate.verdict import judge
from gcs.simulate.web import Web
from tuplespace import embedded

_SITE = "helpers.sites=office"


@dataclass(frozen=True, slots=True)
class Result:
    """One crawl, and what it cost its gatherers."""

    helpers: int
    pages: int
    helped: int
    coverage: float
    duplicates: int
    wall_s: float
    cpu_s: float
    helpers_cpu_s: float

    @property
    def per_s(self) -> float:
        """Pages per second."""
        return self.pages / self.wall_s


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, and print."""
    options = _options(argv)
    web = Web(options.seed, options.hosts, options.pages, plain=True, slowness=0.0)
    with tempfile.TemporaryDirectory(prefix="gcs-helpers-") as place:
        alone = _run(web, Path(place, "alone"), options, 0)
        helped = _run(web, Path(place, "helped"), options, options.helpers)
    own_s = alone.cpu_s / alone.pages
    lent_s = (helped.cpu_s - own_s * (helped.pages - helped.helped)) / max(1, helped.helped)
    if options.json:
        print(json.dumps([asdict(alone), asdict(helped)], indent=2))
        return
    for each in (alone, helped):
        print(
            f"{each.helpers} helpers: {each.pages:,} pages, {each.helped:,} by helpers, coverage "
            f"{each.coverage:.4f}, {each.duplicates} twice, {each.per_s:.0f} pages/s, gatherers "
            f"{1e6 * each.cpu_s / each.pages:.0f} µs of CPU a page, helpers {each.helpers_cpu_s:.0f} s of CPU"
        )
    print(
        f"\n{helped.per_s / alone.per_s:.2f} times the pages a second; a page that a helper has fetched "
        f"costs its gatherer {lent_s / own_s:.2f} of what its own costs "
        f"({1e6 * lent_s:.0f} and {1e6 * own_s:.0f} µs)"
    )


def _run(web: Web, place: Path, options: argparse.Namespace, helpers: int) -> Result:
    place.mkdir()
    with ExitStack() as stack:
        hosts, log, port = stack.enter_context(_served(web, place / "web", options))
        server = stack.enter_context(embedded.serving(place / "redis"))
        fetch = [f"fetch.concurrency={options.concurrency}", f"fetch.per_host={options.per_host}"]
        fetch += ["fetch.allow=127.0.0.0/8", "fetch.delay=0s", f"fetch.hosts={hosts}"]
        crawl = [f"redis.url={server.url}", _SITE]
        children = []
        for number in range(helpers):
            file = place / f"h{number}.invitation"
            invite = [gcs_program(), "helper", "invite", f"h{number}", "--into", str(file), *_set(crawl)]
            subprocess.run(invite, check=True, stdout=subprocess.DEVNULL)
            line = [gcs_program(), "helper", "--invitation", str(file), *_set(fetch)]
            children.append(_started(stack, line, place / f"h{number}"))
        gatherers = []
        for number in range(options.gatherers):
            own = [*crawl, *fetch, f"member.name=g{number}"]
            line = [gcs_program(), "gatherer", "--into", str(place / f"g{number}"), *_set(own)]
            gatherers.append(_started(stack, line, place / f"g{number}.run"))
        await_members(server.url, options.gatherers)
        before = [sum(tree_cpu_s(child.pid) for child in group) for group in (gatherers, children)]
        served_web = web.at(port)
        began = time.monotonic()
        crawl_to_end(server.url, served_web.seeds[0])
        wall_s = time.monotonic() - began
        after = [sum(tree_cpu_s(child.pid) for child in group) for group in (gatherers, children)]
        helped = trio.run(_helped, server.url)
        time.sleep(0.5)
        verdict = judge(log, served_web, sitemaps=False)
    return Result(
        helpers,
        verdict.pages,
        helped,
        verdict.coverage,
        verdict.duplicates,
        wall_s,
        after[0] - before[0],
        after[1] - before[1],
    )


async def _helped(url: str) -> int:
    async with boards.opened(load(overrides=[f"redis.url={url}"], environ={}).config) as board:
        members = (await board.members()).values()
        return sum(int(member.pulse.facts["helped"]) for member in members)


def _set(settings: Sequence[str]) -> list[str]:
    return [part for each in settings for part in ("-s", each)]


def _started(stack: ExitStack, line: Sequence[str], place: Path) -> subprocess.Popen[bytes]:
    place.mkdir(mode=0o700)
    log = stack.enter_context((place / "log").open("wb"))
    child = subprocess.Popen(line, stdout=log, stderr=log, env={**os.environ, "XDG_RUNTIME_DIR": str(place)})
    stack.callback(child.wait)
    stack.callback(child.kill)
    return child


@contextmanager
def _served(web: Web, into: Path, options: argparse.Namespace) -> Iterator[tuple[Path, Path, int]]:
    line = [sys.executable, "-m", "gcs.simulate.webserver", "--into", into, "--plain", "--slowness", 0]
    line += ["--seed", web.seed, "--hosts", options.hosts, "--pages", options.pages]
    line += ["--latency", options.latency]
    with subprocess.Popen([str(part) for part in line], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            said = json.loads(process.stdout.readline())
            yield Path(said["hosts"]), Path(said["log"]), said["port"]
        finally:
            process.terminate()


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="What helpers are worth.")
    parser.add_argument("--pages", type=int, default=20_000)
    parser.add_argument("--hosts", type=int, default=400)
    parser.add_argument("--gatherers", type=int, default=2)
    parser.add_argument("--helpers", type=int, default=3)
    parser.add_argument("--latency", type=float, default=50.0, help="milliseconds until a host answers")
    parser.add_argument("--concurrency", type=int, default=4)
    parser.add_argument("--per-host", type=int, default=4)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
