"""How fast the pure parts are, as ratios to a dictionary look-up of the same keys.

    python -m benchmarks.core [--json] [--quick]

A million tokens means: hot tokens and sampled tokens of all nodes together, which is what creation reads.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict
from random import Random

import numpy as np

from benchmarks.result import Row
from gcs.core import partition
from gcs.core.sampling import Frequent, Sample
from gcs.core.superpages import create
from gcs.core.tree import Expansion
from gcs.core.urls import canonical, key

ROUNDS = 5
BATCH = 1000


def synthetic_keys(count: int, random: Random, *, flat: bool = False) -> list[str]:
    """Keys of a web with a few large and many small hosts, directories and pages.

    A flat one has all pages of a directory side by side, so that its nodes have as many tokens as they hold.
    """
    hosts = [
        f"h{n}.{random.choice('abcdefghijkl')}.{random.choice(['com', 'org', 'net', 'de', 'jp'])}"
        for n in range(20_000)
    ]
    chosen = random.choices(hosts, [1 / (n + 1) ** 0.8 for n in range(len(hosts))], k=count)
    sections = [""] if flat else [f"/s{n}" for n in range(40)]
    return [
        key(
            f"http://{host}/d{int(random.expovariate(0.1))}{random.choice(sections)}"
            f"/p{random.getrandbits(32)}.html"
        )
        for host in chosen
    ]


def per_call(action: Callable[[], object], calls: int) -> float:
    """Microseconds per call, the best of some rounds: what else the machine does only adds."""
    times = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        action()
        times.append((time.perf_counter() - started) / calls * 1e6)
    return min(times)


def grown(keys: list[str], k: int, delta: float, random: Random) -> Expansion:
    """An expansion after some rounds of a crawl."""
    expansion = Expansion()
    part = len(keys) // 4
    for start in range(0, len(keys), part):
        copy = expansion.fresh()
        copy.visit_many(keys[start : start + part], random)
        expansion.merge([copy])
        expansion = create(expansion, k, delta, random=random).expansion
    copy = expansion.fresh()
    copy.visit_many(keys, random)
    expansion.merge([copy])
    return expansion


def visit_in_batches(copy: Expansion, keys: list[str], random: Random) -> None:
    """What a gatherer does: its keys come a few at a time, in no order."""
    for start in range(0, len(keys), BATCH):
        copy.visit_many(keys[start : start + BATCH], random)


def look_ups(keys: list[str], random: Random) -> list[Row]:
    """locate and visit_many at about 5,000 superpages, against dict.__getitem__."""
    expansion = grown(keys, 64, 70, random)
    table = dict.fromkeys(keys, 0)

    def all_in_dict() -> None:
        for k in keys:
            table[k]

    def all_located() -> None:
        locate = expansion.locate
        for k in keys:
            locate(k)

    copy = expansion.fresh()
    dictionary = per_call(all_in_dict, len(keys))
    located = per_call(all_located, len(keys))
    visited = per_call(lambda: copy.visit_many(keys, random), len(keys))
    arriving = random.sample(keys, len(keys))
    fresh = per_call(lambda: visit_in_batches(expansion.fresh(), arriving, random), len(keys))
    canonicals = [f"http://h{n}.example.org/a/b/{n}.html" for n in range(20_000)]
    keyed = per_call(lambda: [key(u) for u in canonicals], len(canonicals))
    parsed = per_call(lambda: [canonical(u) for u in canonicals], len(canonicals))
    m = f"m = {len(expansion.superpages):,}"
    compared = f"dict look-up {dictionary:.3f} µs"
    return [
        Row(f"locate, {m}", f"{located:.2f} µs", compared, located / dictionary, "under 1 µs", located < 1),
        Row(
            f"visit_many per key, {m}",
            f"{visited:.2f} µs",
            compared,
            visited / dictionary,
            "under 2 µs",
            visited < 2,
        ),
        Row(
            f"visit_many per key, fresh copy, batches of {BATCH:,}",
            f"{fresh:.2f} µs",
            compared,
            fresh / dictionary,
        ),
        Row("key", f"{keyed:.2f} µs", compared, keyed / dictionary),
        Row("canonical", f"{parsed:.2f} µs", compared, parsed / dictionary),
    ]


def planning(keys: list[str], random: Random, m: int, tokens: int) -> Row:
    """Creation and partition for k = 64, with as many superpages and tokens as the goal says."""
    k = 64
    delta = m / k
    expansion = grown(keys, k, delta, random).fresh()
    nodes = expansion.nodes()
    size = 13 * tokens // (10 * len(nodes))
    for node in nodes:  # which hold 200 tokens of a kind by default, too few for the goal
        node.hot, node.sample = Frequent(size), Sample(size)
    expansion.visit_many(keys, random)
    token_count = sum(len(n.hot.counts) + len(n.sample) for n in nodes)
    rates = np.random.default_rng(1).uniform(0.5, 5.0, (k, 1)) * np.ones((1, 1))
    times, pages = [], 0
    for _ in range(3):
        started = time.perf_counter()
        made = create(expansion, k, delta, random=random)
        pages = len(made.weights)
        noise = np.random.default_rng(2).lognormal(0, 0.5, (k, pages))
        plan = partition.greedy(np.asarray(made.weights), rates * noise)
        partition.improve(plan, np.asarray(made.weights), rates * noise)
        times.append(time.perf_counter() - started)
    took = statistics.median(times)
    what = f"creation + partition, {token_count:,} tokens, k = {k}, m = {pages:,}"
    return Row(what, f"{took:.2f} s", "", None, "under 2 s", took < 2)


def main() -> None:
    """Print the table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--quick", action="store_true", help="small numbers, to see that it runs")
    arguments = parser.parse_args()
    random = Random(1)
    few, many, m, tokens = (
        (10_000, 20_000, 500, 10_000) if arguments.quick else (100_000, 3_000_000, 10_000, 1_000_000)
    )
    rows = look_ups(synthetic_keys(few, random), random)
    rows.append(planning(synthetic_keys(many, random, flat=True), random, m, tokens))
    if arguments.json:
        print(json.dumps([asdict(row) for row in rows], indent=2))
        return
    for row in rows:
        ratio = "" if row.ratio is None else f"{row.ratio:5.1f} × {row.compared_with}"
        verdict = "" if not row.goal else f"{row.goal}: {'reached' if row.reached else 'MISSED'}"
        print(f"{row.what:62} {row.ours:>10}  {ratio:32} {verdict}")


if __name__ == "__main__":
    main()
