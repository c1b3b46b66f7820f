"""How fast known URLs change hands while gatherers fetch, and what a rebalance does to fetching.

    python -m benchmarks.handover [--urls 1000000] [--gatherers 4] [--idle] [--json]

One gatherer knows all URLs, of which a tenth is done; then the others join at once, and the next plan gives
them their shares. Measured are the rows that were handed over a second, from when the plan was published to
when the last range was let go, and at the server how long each gatherer's requests paused meanwhile. `--idle`
pauses fetching for that time.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any

import trio

from benchmarks.crawl import Site, served
from gcs import board as boards
from gcs.board import Board, Member
from gcs.config import Config, load
from gcs.core.rulings import ALL, Rulings
from gcs.core.tree import Expansion
from gcs.core.urls import key
from gcs.gatherer.crawl import EXPANSION
from gcs.store.records import Batch, Finished, Found, State
from gcs.store.store import Store
from tuplespace import embedded

_AT_ONCE = 5_000
_SETTLED_S = 4.0
_PACE = ["rebalance.cooldown=1m", "member.heartbeat=500ms"]


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, and print."""
    options = _options(argv)
    with tempfile.TemporaryDirectory(prefix="gcs-handover-") as place, ExitStack() as stack:
        site = stack.enter_context(served(7, options, Path(place)))
        server = stack.enter_context(embedded.serving(Path(place, "redis")))
        _populate(site, Path(place, "g0"), options.urls)
        result = trio.run(_run, options, site, Path(place), server.url)
    if options.json:
        print(json.dumps(result, indent=2))
        return
    for name, value in result.items():
        print(f"{name.replace('_', ' ') + ':':<40} {value}")


def _populate(site: Site, directory: Path, urls: int) -> None:
    """A store that knows very many URLs."""
    expansion, random, now = Expansion(), Random(7), time.time()
    hosts = [host.name for host in site.web.hosts]
    # Hosts of very different sizes, as on the web.
    weights = [1 / (rank + 1) ** 0.7 for rank in range(len(hosts))]
    counts = Counter(random.choices(hosts, weights, k=urls))
    with Store.open(directory, Config().store, resume=True) as store:
        keys = [
            key(f"http://{host}:{site.web.port}/section{n % 97}/page{n}.html")
            for host, count in counts.items()
            for n in range(count)
        ]
        random.shuffle(keys)
        for at in range(0, len(keys), _AT_ONCE):
            some = keys[at : at + _AT_ONCE]
            expansion.visit_many(some, random)
            store.commit(Batch(found=[Found(each, 1) for each in some]))
            done = [
                Finished(key=each, state=State.DONE, status=200, at=now, attempts=1, digest=b"12345678")
                for each in some[: _AT_ONCE // 10]
            ]
            store.commit(Batch(finished=done))
        store.commit(Batch(meta={EXPANSION: expansion.to_bytes()}))


async def _run(options: argparse.Namespace, site: Site, place: Path, url: str) -> dict[str, Any]:
    config = load(overrides=[f"redis.url={url}"], environ={}).config
    async with boards.opened(config) as board:
        with ExitStack() as stack:
            stack.enter_context(_gatherer(0, site, place, url))
            await _until(board, lambda members: len(members) == 1 and _crawls(members))
            if options.idle:
                await board.put_up(boards.RULINGS, 1, Rulings().pause(ALL, 1).to_bytes())
            else:
                await trio.sleep(5)
            began = time.time()
            for number in range(1, options.gatherers):
                stack.enter_context(_gatherer(number, site, place, url))
            moved, spans = await _watched(board, options)
            await trio.sleep(1)
    seconds = sum(end - start for start, end in spans)
    result: dict[str, Any] = {
        "urls": options.urls,
        "gatherers": options.gatherers,
        "fetching": not options.idle,
        "rows_moved": moved,
        "plans_that_moved": len(spans),
        "seconds": round(seconds, 2),
        "rows_per_second": round(moved / max(seconds, 1e-9)),
    }
    return result | (_pauses(site, spans, began) if not options.idle else {})


async def _watched(board: Board, options: argparse.Namespace) -> tuple[int, list[tuple[float, float]]]:
    """The rows that changed hands, and the times in which ranges were on their way."""
    spans: list[tuple[float, float]] = []
    since: float | None = None
    settled_at = time.time()
    with trio.fail_after(300):
        while True:
            members = await board.members()
            now = time.time()
            if any(m.pulse.leaving or m.pulse.coming for m in members.values()):
                since, settled_at = since or now, now
            elif since is not None:
                spans.append((since, now))
                since = None
            enough = _moved(members) > options.urls / 4 and len(members) == options.gatherers
            if enough and now - settled_at > _SETTLED_S:
                return _moved(members), spans
            await trio.sleep(0.02)


def _moved(members: dict[str, Member]) -> int:
    return sum(int(member.pulse.facts.get("moved", 0)) for member in members.values())


def _crawls(members: dict[str, Member]) -> bool:
    return all(member.pulse.epoch for member in members.values())


async def _until(board: Board, condition: Callable[[dict[str, Member]], bool]) -> None:
    with trio.fail_after(300):
        while True:
            if condition(await board.members()):
                return
            await trio.sleep(0.05)


def _pauses(site: Site, spans: Sequence[tuple[float, float]], joined: float) -> dict[str, Any]:
    """At the server: how long each gatherer's requests paused, and what was asked for twice."""
    times: dict[tuple[str, int], list[float]] = {}
    before = 0
    asked: Counter[str] = Counter()
    for line in site.log.read_text().splitlines():
        at, _, host, path, _, _, agent, *_ = line.split(" ")
        if not path.startswith("/section"):
            continue
        asked[host + path] += 1
        before += joined - 4 < float(at) <= joined
        for number, (start, end) in enumerate(spans):
            if start <= float(at) <= end:
                times.setdefault((agent, number), []).append(float(at))
    gaps = sorted(
        later - earlier
        for each in times.values()
        for earlier, later in zip(sorted(each), sorted(each)[1:], strict=False)
    )
    weighed = sum(gaps)
    return {
        "requests_per_second_before": before / 4,
        "requests_per_second_meanwhile": round(
            sum(map(len, times.values())) / max(1e-9, sum(end - start for start, end in spans))
        ),
        "pause_99th_percentile_ms": round(1000 * gaps[int(0.99 * len(gaps))], 1) if gaps else None,
        "pause_longest_ms": round(1000 * gaps[-1], 1) if gaps else None,
        "time_in_pauses_over_200_ms": f"{sum(g for g in gaps if g > 0.2) / max(weighed, 1e-9):.1%}",
        "fetched_twice": sum(count - 1 for count in asked.values()),
    }


def _gatherer(number: int, site: Site, place: Path, url: str) -> subprocess.Popen[bytes]:
    settings = ["fetch.allow=127.0.0.0/8", f"fetch.hosts={site.places['hosts']}", "fetch.delay=0s"]
    settings += [f"member.name=g{number}", f"fetch.agent=g{number}", "store.pages=none", *_PACE]
    command = [str(Path(sys.executable).parent / "gcs"), "gatherer", "--into", str(place / f"g{number}")]
    command += [part for each in settings for part in ("-s", each)]
    log = (place / f"g{number}.log").open("wb")
    child = subprocess.Popen(command, stderr=log, env={**os.environ, "GCS_REDIS_URL": url})
    return _Ending(child)  # type: ignore[return-value] # a context manager like it


class _Ending:
    """Kills a process at the end of a block."""

    def __init__(self, child: subprocess.Popen[bytes]) -> None:
        self._child = child

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self._child.kill()
        self._child.wait()


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="How fast known URLs change hands.")
    parser.add_argument("--urls", type=int, default=1_000_000)
    parser.add_argument("--hosts", type=int, default=300)
    parser.add_argument("--pages", type=int, default=300)
    parser.add_argument("--gatherers", type=int, default=4)
    parser.add_argument("--idle", action="store_true", help="nobody fetches meanwhile")
    parser.add_argument("--port", type=int, default=8096)
    parser.add_argument("--server", choices=["auto", "nginx", "python"], default="auto")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(argv)
    options.tls = options.gzip = False
    return options


if __name__ == "__main__":
    main()
