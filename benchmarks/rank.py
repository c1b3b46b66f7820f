"""How fast URLs are ranked, against 004's Hadoop and SQL written by hand; and that DuckDB and Spark agree.

    python -m benchmarks.rank [--edges N] [--memory BYTES] [--keep DIR] [--quick] [--json]
    python -m benchmarks.rank --agree [--edges N] [--spark-master URL] [--keep DIR] [--json]

The edges are those of a synthetic crawl, as a store keeps them: URLs in Parquet. A ranking is everything from
these files to a table of P_new and P_old in files. Each runs in a process of its own, which may have so much
memory; what it had at most is measured. The SQL by hand gives the same table, and is run before and after.
With --agree both engines rank the same crawl, by in-degree and by PageRank, and every row is compared.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import duckdb

from benchmarks.crawls import written
from benchmarks.result import Row
from gcs.config import Rank
from gcs.core.ranking import T_CRAWL_S
from gcs.graph import engine as engines
from gcs.graph import filed
from gcs.graph.tables import edges, nodes, visits
from gcs.rank.pagerank import pagerank
from gcs.rank.ranked import rank

PAPER_PER_S: Final = 29_166
"""The fastest row of table 5.2: input records per second, on three data nodes."""
GOAL: Final = 50
SLOWER: Final = 1.5
NOW_US: Final = 1_800_000_000_000_000
BY_HAND: Final = """
COPY (
    WITH visited AS (
        SELECT url, max(us) AS visited_us, arg_max(change, us) AS change,
               max(us) FILTER (WHERE NOT unchanged) AS links_us
        FROM (SELECT *, epoch_us(fetched_at) AS us FROM read_parquet('{place}/summaries/*.parquet'))
        GROUP BY url
    ), outs AS (
        SELECT source, fetched_us, count(*) FILTER (WHERE NOT repeated) AS out_degree
        FROM read_parquet('{place}/links/*.parquet') GROUP BY ALL
    ), ins AS (
        SELECT target, count(*) AS in_degree
        FROM read_parquet('{place}/links/*.parquet') l
        SEMI JOIN visited v ON l.source = v.url AND l.fetched_us = v.links_us
        WHERE NOT repeated GROUP BY target
    ), pages AS (
        SELECT visited.*, coalesce(out_degree, 0) AS out_degree
        FROM visited LEFT JOIN outs ON source = url AND fetched_us = links_us
    )
    SELECT coalesce(target, url) AS url, coalesce(in_degree, 0) AS in_degree,
           coalesce(out_degree, 0) AS out_degree, visited_us, change,
           CASE WHEN visited_us IS NULL THEN in_degree::DOUBLE END AS p_new,
           change * (greatest({now} - visited_us, 0)::DOUBLE / {crawl})
               * (coalesce(in_degree, 0)::DOUBLE + out_degree::DOUBLE) AS p_old
    FROM ins FULL JOIN pages ON target = url
) TO '{to}' (FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1)
"""


@dataclass(frozen=True)
class Run:
    """A ranking that was run."""

    seconds: float
    peak_bytes: int
    checksum: str


def ours(place: Path, memory_bytes: int) -> Run:
    """Rank as `gcs rank` does."""
    settings = Rank(memory_bytes=memory_bytes)
    began = time.perf_counter()
    with engines.opened(settings, place) as engine:
        filed.load(engine, [place])
        rank(engine, by="in-degree", now_us=NOW_US, directory=place / "ranking")
    return _ran(began, place / "ranking" / "*.parquet")


def by_hand(place: Path, memory_bytes: int) -> Run:
    """Rank with SQL written for DuckDB alone."""
    began = time.perf_counter()
    to = place / "by-hand.parquet"
    with duckdb.connect(
        config={
            "memory_limit": f"{memory_bytes * 3 // 4}B",
            "temp_directory": str(place / "spilled"),
            "preserve_insertion_order": False,
        }
    ) as db:
        db.execute("SET enable_progress_bar = false")
        db.execute(BY_HAND.format(place=place, to=to, now=NOW_US, crawl=T_CRAWL_S * 1e6))
    return _ran(began, to)


def _ran(began: float, files: Path) -> Run:
    seconds = time.perf_counter() - began
    peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    row = "url, in_degree, out_degree, visited_us, change, p_new, p_old"
    sums = duckdb.execute(f"SELECT count(*), bit_xor(hash({row})) FROM read_parquet('{files}')")  # noqa: S608 - our own files
    return Run(seconds, peak_bytes, str(sums.fetchall()[0]))


def alone(kind: str, place: Path, memory_bytes: int) -> Run:
    """The same in a process of its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply({"ours": ours, "by hand": by_hand}[kind], (place, memory_bytes))


def measure(place: Path, count: int, memory_bytes: int) -> Iterator[Row]:
    """All lines."""
    before, mine, after = (alone(kind, place, memory_bytes) for kind in ("by hand", "ours", "by hand"))
    hand_s = statistics.mean([before.seconds, after.seconds])
    per_s = count / mine.seconds
    yield Row(
        f"ranking {count:,} edges",
        f"{per_s:,.0f} edges/s",
        f"004's Hadoop on 3 data nodes, {PAPER_PER_S:,}/s at best",
        per_s / PAPER_PER_S,
        f"at least {GOAL} ×",
        per_s >= GOAL * PAPER_PER_S,
    )
    yield Row(
        "time",
        f"{mine.seconds:.1f} s",
        f"SQL by hand {before.seconds:.1f} and {after.seconds:.1f} s",
        mine.seconds / hand_s,
        f"at most {SLOWER} ×",
        mine.seconds <= SLOWER * hand_s,
    )
    yield Row(
        "memory, whole process",
        f"{mine.peak_bytes / 1e6:,.0f} MB",
        f"SQL by hand {after.peak_bytes / 1e6:,.0f} MB",
        mine.peak_bytes / after.peak_bytes,
        f"at most {memory_bytes / 1e6:,.0f} MB",
        mine.peak_bytes <= memory_bytes,
    )
    same = mine.checksum == before.checksum
    yield Row(
        "rows, and a sum over all of them",
        mine.checksum,
        f"SQL by hand {before.checksum}",
        None,
        "equal",
        same,
    )


def agree(place: Path, count: int, master: str, rounds: int) -> Iterator[Row]:
    """Rank on both engines, and compare every row."""
    took = {}
    for name in ("duckdb", "spark"):
        settings = Rank(engine=name, spark_master=master, memory_bytes=2 << 30)
        with engines.opened(settings, place) as engine:
            filed.load(engine, [place])
            began = time.perf_counter()
            rank(engine, by="in-degree", now_us=NOW_US, directory=place / f"priorities-{name}")
            took[name] = time.perf_counter() - began
            kept = engine.keep("kept", nodes())
            ranks = pagerank(engine, kept.select(name=kept.url), edges(visits()), rounds=rounds)
            engine.write(ranks, place / f"pageranks-{name}")
    for table in ("priorities", "pageranks"):
        one, other = (f"read_parquet('{place}/{table}-{name}/*.parquet')" for name in took)
        rows, others, missing, more = duckdb.execute(
            f"SELECT (SELECT count(*) FROM {one}), (SELECT count(*) FROM {other}), "  # noqa: S608 - our own files
            f"(SELECT count(*) FROM (FROM {one} EXCEPT ALL FROM {other})), "
            f"(SELECT count(*) FROM (FROM {other} EXCEPT ALL FROM {one}))"
        ).fetchall()[0]
        differ = missing + more
        yield Row(
            f"{table} of {count:,} edges",
            f"{rows:,} rows",
            f"Spark {others:,} rows, {differ:,} differ",
            took["spark"] / took["duckdb"] if table == "priorities" else None,
            "every row equal",
            rows == others > 0 and differ == 0,
        )


@contextmanager
def crawl(keep: Path | None, count: int) -> Iterator[tuple[Path, int]]:
    """A crawl with so many links, and how many it has; one that was kept is used again."""
    with tempfile.TemporaryDirectory(prefix="gcs-rank-") as name:
        place = (keep or Path(name)) / f"crawl-{count}"
        known = place / "links.txt"
        if not known.exists():
            shutil.rmtree(place, ignore_errors=True)
            known.write_text(str(written(place, count)))
        for each in place.iterdir():
            if each.is_dir() and each.name not in ("summaries", "links"):
                shutil.rmtree(each)
        yield place, int(known.read_text())


def main() -> None:
    """Measure, and print a table or JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--edges", type=float, help="100,000,000, or 5,000,000 with --agree")
    parser.add_argument("--memory", type=int, default=4_000_000_000, help="bytes that a ranking may have")
    parser.add_argument("--agree", action="store_true", help="compare DuckDB and Spark")
    parser.add_argument("--rounds", type=int, default=5, help="of PageRank, with --agree")
    parser.add_argument("--spark-master", default="local-cluster[2,1,1024]", help="which Spark, with --agree")
    parser.add_argument("--keep", type=Path, help="keep the crawl here, and use it again")
    parser.add_argument("--quick", action="store_true", help="only see that it runs")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    usual = 100_000 if options.quick else 5_000_000 if options.agree else 100_000_000
    count = int(options.edges or usual)
    with crawl(options.keep, count) as (place, links):
        rows = list(
            agree(place, links, options.spark_master, options.rounds)
            if options.agree
            else measure(place, links, options.memory)
        )
    if options.json:
        print(json.dumps([asdict(row) for row in rows], indent=2))
        return
    for row in rows:
        ratio = "" if row.ratio is None else f"{row.ratio:.2f} ×"
        goal = f"{row.goal} {'reached' if row.reached else 'NOT reached'}" if row.goal else ""
        print(f"{row.what:36} {row.ours:>20}  {ratio:>9}  {row.compared_with:50} {goal}")


if __name__ == "__main__":
    main()
