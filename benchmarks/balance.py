"""How even the work is shared out: by superpages and by a hash of the domain, on the same web.

    python -m benchmarks.balance [--urls 120000] [--hosts 200] [--strategies superpage hash] [--json]

The hosts are of very different sizes, each answers after 20 ms, and the gatherers are throttled to 2, 4 and 8
requests at once. One of them knows all URLs at first; the others join. Then an operator asks twice for a new
plan. After each, T is what a gatherer has queued over the rate that was measured since, in seconds; what
counts is the largest T over their mean: 1 would be perfect.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any

import trio

from gcs import board as boards
from gcs.board import Board, Member
from gcs.config import Config, load
from gcs.core.reasons import OPERATOR
from gcs.core.tree import Expansion
from gcs.core.urls import key
from gcs.gatherer.crawl import EXPANSION
from gcs.store.records import Batch, Found
from gcs.store.store import Store
from tuplespace import embedded

CONCURRENCY = (2, 4, 8)
LATENCY_S = 0.02
_MEASURE_S = 8.0
_AT_ONCE = 5_000
_PORT = 8095
_ANSWER = b"HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nnone\n"


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, and print."""
    options = _options(argv)
    if options.serve:
        trio.run(_serve)
        return
    results = {strategy: _measure(options, strategy) for strategy in options.strategies}
    if options.json:
        print(json.dumps(results, indent=2))
        return
    for strategy, rounds in results.items():
        for number, each in enumerate(rounds):
            times = " ".join(f"{seconds:.0f}" for seconds in each["times"])
            when = f"after rebalance {number}" if number else "after all have joined"
            print(f"{strategy:<10} {when:<24} T {times} s, largest over mean {each['ratio']:.3f}")
    if {"superpage", "hash"} <= results.keys():
        ours, hashed = (results[each][-1]["ratio"] - 1 for each in ("superpage", "hash"))
        print(f"\nsuperpages are {hashed / max(ours, 1e-9):.1f} times closer to 1 than a hash of the domain")


def _measure(options: argparse.Namespace, strategy: str) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="gcs-balance-") as place, ExitStack() as stack:
        web = subprocess.Popen([sys.executable, "-m", "benchmarks.balance", "--serve"])
        stack.callback(web.wait)
        stack.callback(web.kill)
        server = stack.enter_context(embedded.serving(Path(place, "redis")))
        names = [f"h{number:03}.site{number:03}.test" for number in range(options.hosts)]
        lines = [
            f"127.0.{number // 250 + 1}.{number % 250 + 1} {name}\n" for number, name in enumerate(names)
        ]
        hosts = Path(place, "hosts")
        hosts.write_text("".join(lines))
        _populate(names, Path(place, "g0"), options.urls)
        return trio.run(_run, strategy, Path(place), hosts, server.url)


def _populate(hosts: Sequence[str], directory: Path, urls: int) -> None:
    """A store that knows all URLs, of hosts of very different sizes."""
    expansion, random = Expansion(), Random(7)
    weights = [1 / (rank + 1) ** 0.8 for rank in range(len(hosts))]
    whole = sum(weights)
    keys = [
        key(f"http://{host}:{_PORT}/section{n % 37}/page{n}.html")
        for host, weight in zip(hosts, weights, strict=True)
        for n in range(round(urls * weight / whole))
    ]
    random.shuffle(keys)
    with Store.open(directory, Config().store, resume=True) as store:
        for at in range(0, len(keys), _AT_ONCE):
            some = keys[at : at + _AT_ONCE]
            expansion.visit_many(some, random)
            store.commit(Batch(found=[Found(each, 1) for each in some]))
        store.commit(Batch(meta={EXPANSION: expansion.to_bytes()}))


async def _run(strategy: str, place: Path, hosts: Path, url: str) -> list[dict[str, Any]]:
    config = load(overrides=[f"redis.url={url}"], environ={}).config
    rounds = []
    with ExitStack() as stack:
        async with boards.opened(config) as board:
            for number, concurrency in enumerate(CONCURRENCY):
                child = _gatherer(number, concurrency, strategy, place, hosts, url)
                stack.callback(child.wait)
                stack.callback(child.kill)
                await _settled(board, number + 1)
            for number in range(3):
                if number:
                    await board.ask_for_plan(OPERATOR, "benchmark")
                    await trio.sleep(1)
                    await _settled(board, len(CONCURRENCY))
                await trio.sleep(_MEASURE_S)
                rounds.append(_judged(await board.members()))
    return rounds


def _judged(members: dict[str, Member]) -> dict[str, Any]:
    facts = [member.pulse.facts for member in sorted(members.values(), key=lambda each: each.pulse.name)]
    times = [each["queued"] / each["rate"] if each["rate"] else 0.0 for each in facts]
    return {"times": times, "ratio": max(times) / (sum(times) / len(times))}


async def _settled(board: Board, count: int) -> None:
    """Wait until so many gatherers follow the charter in force, and no range is on its way."""
    with trio.fail_after(120):
        while True:
            epoch = (await board.now()).get(boards.CHARTER, (0, b""))[0]
            pulses = [member.pulse for member in (await board.members()).values()]
            charter = await board.charter(epoch) if epoch else None
            if charter is not None and len(charter.members) == count == len(pulses):
                still = [not pulse.leaving and not pulse.coming and pulse.epoch == epoch for pulse in pulses]
                if all(still):
                    return
            await trio.sleep(0.2)


def _gatherer(
    number: int, concurrency: int, strategy: str, place: Path, hosts: Path, url: str
) -> subprocess.Popen[bytes]:
    settings = [
        "fetch.allow=127.0.0.0/8",
        f"fetch.hosts={hosts}",
        "fetch.delay=0s",
        "fetch.robots=ignore",
        f"fetch.concurrency={concurrency}",
        f"member.name=g{number}",
        "member.heartbeat=500ms",
        "rebalance.cooldown=1h",
        "store.pages=none",
        f"placement.strategy={strategy}",
    ]
    command = [str(Path(sys.executable).parent / "gcs"), "gatherer", "--into", str(place / f"g{number}")]
    command += [part for each in settings for part in ("-s", each)]
    with (place / f"g{number}.log").open("wb") as log:
        return subprocess.Popen(command, stderr=log, env={**os.environ, "GCS_REDIS_URL": url})


async def _serve() -> None:
    """Answer everything, after a while."""

    async def answer(stream: trio.SocketStream) -> None:
        waiting = b""
        try:
            while True:
                while b"\r\n\r\n" not in waiting:
                    more = await stream.receive_some(65536)
                    if not more:
                        return
                    waiting += more
                waiting = waiting.partition(b"\r\n\r\n")[2]
                await trio.sleep(LATENCY_S)
                await stream.send_all(_ANSWER)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return

    await trio.serve_tcp(answer, _PORT, host="0.0.0.0")


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="How even the work is shared out.")
    parser.add_argument("--urls", type=int, default=120_000)
    parser.add_argument("--hosts", type=int, default=200)
    parser.add_argument("--strategies", nargs="+", default=["superpage", "hash"])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
