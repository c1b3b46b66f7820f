"""What it costs to crawl together: gatherers and their Redis beside one gatherer alone.

    python -m benchmarks.together [--pages 10000] [--gatherers 2] [--seed 7] [--pairs 1] [--json]

Both crawl the same synthetic web, served by a process of its own on the last core, in turns. Read the ratio
of pages per CPU second, in which Redis counts too. Bytes of coordination are what Redis received and sent,
beside the bytes that were fetched. Redis operations are calls of the tuple space's functions; what gatherers
that have nothing to do call (heartbeats, ticks) is measured first, for the same time, and taken off.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import redis
import trio

from benchmarks.crawl import Meter, Site, served, tree_cpu_s
from gcs import board as boards
from gcs.config import load
from gcs.simulate.verdict import judge
from tuplespace import embedded

_IDLE_S = 10.0
_START_S = 120.0


@dataclass(frozen=True, slots=True)
class Result:
    """One crawl, and what it cost."""

    gatherers: int
    pages: int
    coverage: float
    duplicates: int
    wall_s: float
    cpu_s: float
    redis_cpu_s: float
    redis_bytes: int
    fetched_bytes: int
    redis_calls: float
    shares: Sequence[float] = ()
    """Of the pages, what each gatherer has fetched."""

    @property
    def per_cpu_s(self) -> float:
        """Pages per CPU second, Redis included."""
        return self.pages / (self.cpu_s + self.redis_cpu_s)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, and print."""
    options = _options(argv)
    with tempfile.TemporaryDirectory(prefix="gcs-together-") as place, ExitStack() as stack:
        site = stack.enter_context(served(options.seed, options, Path(place)))
        pairs = []
        for number in range(options.pairs):
            alone = _alone(site, Path(place, f"alone{number}"))
            together = _together(site, Path(place, f"together{number}"), options)
            pairs.append((alone, together))
    if options.json:
        print(json.dumps([[asdict(each) for each in pair] for pair in pairs], indent=2))
        return
    for alone, together in pairs:
        for each in (alone, together):
            _show(each)
    ratio = statistics.median(together.per_cpu_s / alone.per_cpu_s for alone, together in pairs)
    print(f"\nratio, median of {len(pairs)} pairs: {ratio:.3f} in pages per CPU second")


def _show(result: Result) -> None:
    print(
        f"{result.gatherers} gatherers: {result.pages:,} pages, coverage {result.coverage:.4f}, "
        f"{result.duplicates} twice, {result.pages / result.wall_s:.0f} pages/s, "
        f"{result.per_cpu_s:.0f} pages/CPU s"
        + (
            f" (Redis {result.redis_cpu_s / (result.cpu_s + result.redis_cpu_s):.1%} of it), "
            f"coordination {result.redis_bytes / result.fetched_bytes:.2%} of the bytes fetched, "
            f"{result.redis_calls / result.pages:.3f} calls of Redis a page; shares "
            f"{' '.join(f'{share:.2f}' for share in result.shares)}"
            if result.redis_bytes
            else ""
        )
    )


def _settings(site: Site) -> list[str]:
    settings = ["fetch.allow=127.0.0.0/8", f"fetch.hosts={site.places['hosts']}", "fetch.delay=0s"]
    return [part for each in settings for part in ("-s", each)]


def gcs_program() -> str:
    return str(Path(sys.executable).parent / "gcs")


def _alone(site: Site, place: Path) -> Result:
    with _logged(site) as log:
        command = [gcs_program(), "crawl", site.places["seed"], "--into", str(place), *_settings(site)]
        began = time.monotonic()
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as child:
            meter = Meter(child.pid)
            child.wait()
            wall_s = time.monotonic() - began
            meter.stop()
    verdict = judge(log, site.web, sitemaps=False)
    return Result(
        1, verdict.pages, verdict.coverage, verdict.duplicates, wall_s, meter.cpu_s, 0.0, 0, _size(log), 0.0
    )


def _together(site: Site, place: Path, options: argparse.Namespace) -> Result:
    place.mkdir()
    with embedded.serving(place / "redis") as server, ExitStack() as stack:
        environment = {**os.environ, "GCS_REDIS_URL": server.url}
        children = []
        for number in range(options.gatherers):
            command = [gcs_program(), "gatherer", "--into", str(place / str(number)), *_settings(site)]
            command += ["-s", f"member.name=g{number}"]
            command += [part for each in options.settings for part in ("-s", each)]
            log_file = stack.enter_context(Path(place, f"{number}.log").open("wb"))
            child = subprocess.Popen(command, stderr=log_file, env=environment)
            stack.callback(child.kill)
            children.append(child)
        client = stack.enter_context(redis.Redis.from_url(server.url))
        await_members(server.url, options.gatherers)
        idle = _calls(client)
        time.sleep(_IDLE_S)
        idle_rate = (_calls(client) - idle) / _IDLE_S
        with _logged(site) as log:
            before, cpu_before = client.info(), [tree_cpu_s(child.pid) for child in children]
            calls = _calls(client)
            began = time.monotonic()
            shares = crawl_to_end(server.url, site.places["seed"])
            wall_s = time.monotonic() - began
            after = client.info()
            calls = _calls(client) - calls
            cpu_s = sum(tree_cpu_s(child.pid) for child in children) - sum(cpu_before)
    verdict = judge(log, site.web, sitemaps=False)
    used = [float(each["used_cpu_user"]) + float(each["used_cpu_sys"]) for each in (before, after)]
    traffic = [
        int(each["total_net_input_bytes"]) + int(each["total_net_output_bytes"]) for each in (before, after)
    ]
    return Result(
        options.gatherers,
        verdict.pages,
        verdict.coverage,
        verdict.duplicates,
        wall_s,
        cpu_s,
        used[1] - used[0],
        traffic[1] - traffic[0],
        _size(log),
        max(0.0, calls - idle_rate * wall_s),
        shares,
    )


def _calls(client: Any) -> int:
    """Calls of the tuple space's functions so far."""
    stats = client.info("commandstats")
    return sum(int(each["calls"]) for name, each in stats.items() if name.startswith("cmdstat_fcall"))


def await_members(url: str, count: int) -> None:
    """Wait until so many gatherers crawl; raises trio.TooSlowError if they do not."""

    async def wait() -> None:
        config = load(overrides=[f"redis.url={url}"], environ={}).config
        async with boards.opened(config) as board:
            with trio.fail_after(_START_S):
                while True:
                    members = (await board.members()).values()
                    if sum(member.pulse.standing == "crawling" for member in members) == count:
                        return
                    await trio.sleep(0.2)

    trio.run(wait)


def crawl_to_end(url: str, seed: str) -> list[float]:
    """Give the gatherers a seed, and wait until they have found out that all is done; the share of each."""

    async def crawl() -> list[float]:
        config = load(overrides=[f"redis.url={url}"], environ={}).config
        async with boards.opened(config) as board:
            await board.seed([seed])
            begun = False
            while True:
                await trio.sleep(0.2)
                finished = boards.FINISHED in await board.now()
                begun = begun or not finished
                if begun and finished:
                    members = (await board.members()).values()
                    pages = [int(member.pulse.facts["pages"]) for member in members]
                    return [each / sum(pages) for each in pages]

    return trio.run(crawl)


@contextmanager
def _logged(site: Site) -> Iterator[Path]:
    """What the server's log grows by, as a file that is there after the block."""
    before = site.log.stat().st_size if site.log.exists() else 0
    part = site.log.with_suffix(f".{time.monotonic_ns()}")
    yield part
    time.sleep(0.5)
    with site.log.open("rb") as stream:
        stream.seek(before)
        part.write_bytes(stream.read())


def _size(log: Path) -> int:
    """The bytes that the server sent."""
    return sum(int(line.split()[5]) for line in log.read_text().splitlines() if line.split()[5].isdigit())


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="What it costs to crawl together.")
    parser.add_argument("--pages", type=int, default=10_000)
    parser.add_argument("--hosts", type=int, default=100)
    parser.add_argument("--gatherers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--pairs", type=int, default=1)
    parser.add_argument("--port", type=int, default=8097)
    parser.add_argument("--server", choices=["auto", "nginx", "python"], default="auto")
    parser.add_argument("--settings", nargs="*", default=[])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(argv)
    options.tls = options.gzip = False
    return options


if __name__ == "__main__":
    main()
