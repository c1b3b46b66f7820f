"""The store's benchmark runs; how fast anything is, it says itself."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROWS = [
    "seen-tests",
    "disk",
    "memory",
    "accepting URLs",
    "handing out from a full queue",
    "commit",
    "records of a page of 20 KB",
    "records of a page of 20 KB",
    "summary and 80 links",
]


def test_the_quick_benchmark_reports_every_row() -> None:
    """`--quick --json` runs to the end and says all that there is to say."""
    ran = subprocess.run(
        [sys.executable, "-m", "benchmarks.store", "--quick", "--json"],
        cwd=Path(__file__).parent.parent,
        capture_output=True,
        text=True,
        check=True,
    )
    rows = json.loads(ran.stdout)
    assert [row["what"].partition(",")[0] for row in rows] == ROWS
    assert all(row["ratio"] is None or row["ratio"] > 0 for row in rows)
