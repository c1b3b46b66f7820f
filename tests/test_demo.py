"""The demonstration, run as a user runs it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from cli import main

GCS = Path(sys.executable).with_name("gcs")
# The endless parts of the web are left sooner than they would be found out.
BUDGET = ("-s", "crawl.max_pages_per_host=300")


def test_a_small_web(tmp_path: Path) -> None:
    """A whole web is crawled, the servers saw every page fetched once, and there is a report to look at."""
    into = tmp_path / "demo"
    done = subprocess.run(
        [GCS, "demo", "--hosts", "10", "--pages", "40", "--seed", "3", "--into", into, *BUDGET],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"Finished: [\d,]+ pages", done.stderr)
    assert "coverage 1.0000" in done.stdout
    assert "0 fetched twice, 0 that robots.txt forbids" in done.stdout
    report = (into / "report.html").read_text()
    assert report.startswith("<!DOCTYPE html>")
    assert "coverage 1.0000" in report
    assert re.search(r"h000\.[a-z]{2}:", report)


def test_a_directory_that_is_used(tmp_path: Path) -> None:
    """What is in a directory is not touched."""
    (tmp_path / "mine").write_text("")
    result = CliRunner().invoke(main, ["demo", "--into", str(tmp_path)])
    assert (result.exit_code, "is not empty" in result.output) == (2, True)


@pytest.mark.parametrize("option", [["--hosts", "1"], ["--pages", "0"], ["--seed", "-1"]])
def test_usage(option: list[str]) -> None:
    """A number out of range is wrong usage."""
    assert CliRunner().invoke(main, ["demo", *option]).exit_code == 2
