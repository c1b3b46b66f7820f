"""The benchmarks of search and profiles run; how fast anything is, they say themselves."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.crawling import ROOT


@pytest.mark.parametrize(
    ("arguments", "rows"),
    [
        (("search", "--pages", "300", "--engines", "200"), 13),
        (("profiles", "--pages", "300", "--profiles", "100", "--page-us", "1000"), 5),
    ],
    ids=["search", "profiles"],
)
def test_a_benchmark_says_all_that_there_is_to_say(arguments: tuple[str, ...], rows: int) -> None:
    """With few pages it runs to the end, and each row has a figure."""
    name, *options = arguments
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{name}", *options, "--json"],
        check=True,
        cwd=ROOT,
        capture_output=True,
        timeout=120,
    )
    found = json.loads(done.stdout)
    assert len(found) == rows
    assert all(row["ours"] for row in found)
