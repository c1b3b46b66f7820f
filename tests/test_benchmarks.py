"""The benchmarks run; how fast anything is, they say themselves."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.servers import binaries

ROWS = {
    "out_many",
    "take_many",
    "out",
    "inp",
    "in_",
    "take",
    "aged-inp-plain",
    "aged-inp-plain-server",
    "aged-take-plain",
    "aged-take-plain-server",
    "aged-inp-declared",
    "aged-inp-declared-server",
    "aged-take-declared",
    "aged-take-declared-server",
    "hand-over-take-median",
    "hand-over-take-p99",
    "hand-over-in_-median",
    "hand-over-in_-p99",
    "hand-over-writer-calls",
    "hand-over-taker-calls",
    "hand-over-commit-calls",
    "memory-0",
    "memory-1-few",
    "memory-1-distinct",
    "memory-2-few",
    "memory-2-distinct",
    "memory-3-few",
    "memory-3-distinct",
    "memory-2-distinct-every",
    "memory-3-distinct-every",
}


def test_the_quick_benchmark_reports_every_row() -> None:
    """`--quick --json` runs to the end, and says of every server all that there is to say."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.tuplespace", "--quick", "--json"],
        check=True,
        cwd=Path(__file__).parents[1],
        capture_output=True,
        timeout=120,
    )
    report = json.loads(done.stdout)
    assert report["machine"]["cores"] >= 1
    assert set(report["servers"]) == set(binaries())
    for server in report["servers"].values():
        assert {row["name"] for row in server["rows"]} == ROWS
        assert len(server["rows"]) == len(ROWS)
        assert all(row["ours"] >= 0 for row in server["rows"])


def test_the_algorithms_benchmark() -> None:
    """Every row of the pure parts is there, with its goal."""
    ran = subprocess.run(
        [sys.executable, "-m", "benchmarks.core", "--quick", "--json"],
        cwd=Path(__file__).parent.parent,
        capture_output=True,
        text=True,
        check=True,
    )
    rows = json.loads(ran.stdout)
    assert [row["what"].partition(",")[0].split()[0] for row in rows] == [
        "locate",
        "visit_many",
        "visit_many",
        "key",
        "canonical",
        "creation",
    ]
    assert all(row["ratio"] is None or row["ratio"] > 0 for row in rows)


def test_the_monitors_benchmark() -> None:
    """A monitor of gatherers that only say something says itself what it needs, and listeners hear it."""
    few = ["--gatherers=5", "--superpages=100", "--hosts=20", "--listeners=3", "--seconds=3"]
    ran = subprocess.run(
        [sys.executable, "-m", "benchmarks.monitor", *few, "--json"],
        cwd=Path(__file__).parent.parent,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    result = json.loads(ran.stdout)
    assert result["events_per_s"] > 3
    assert 0 < result["cpu_percent"] < 100
    assert 20 < result["memory_mb"] < 150


def test_the_rankings_benchmark() -> None:
    """A ranking and SQL by hand give the same rows; how fast either is, the benchmark says itself."""
    ran = subprocess.run(
        [sys.executable, "-m", "benchmarks.rank", "--quick", "--json"],
        cwd=Path(__file__).parent.parent,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    rows = {row["what"].split()[0].rstrip(","): row for row in json.loads(ran.stdout)}
    assert list(rows) == ["ranking", "time", "memory", "rows"]
    assert rows["rows"]["reached"]
    assert rows["ranking"]["ratio"] > 0
