"""The demonstration, run as a user runs it, and its arithmetic."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest

from gcs.demo import Account
from tests.servers import until

GCS = Path(sys.executable).with_name("gcs")
# Found in the environment of every process that descends from one with it.
MARK = "DEMO_UNDER_TEST"


@contextmanager
def demo(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A demonstration under way, and the mark of its processes, none of which outlives the block."""
    mark = f"{MARK}={uuid4()}"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GCS_")}
    with subprocess.Popen(
        [GCS, "demo", *arguments],
        env=environment | dict([mark.split("=")]),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    ) as process:
        try:
            yield process, mark
        finally:
            for pid in marked(mark):
                os.kill(pid, signal.SIGKILL)


def marked(mark: str) -> list[int]:
    """The processes with this mark that still run."""
    return [int(each.parent.name) for each in Path("/proc").glob("[0-9]*/environ") if mark in _read(each)]


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError, PermissionError):  # it has ended, or is another user's
        return ""


def first_line(process: subprocess.Popen[str], containing: str) -> str:
    """Read on to the first line that contains this."""
    assert process.stdout is not None
    return next(line for line in process.stdout if containing in line)


def rows(table: str) -> dict[str, int]:
    """The numbers of the printed account by their names."""
    found = re.findall(r"^([a-z][a-z ]*?) +([\d,]+)$", table, re.MULTILINE)
    return {name: int(number.replace(",", "")) for name, number in found}


@pytest.mark.parametrize(("tuples", "workers"), [(400, 3), (1, 2)])
def test_every_job_is_accounted_for(tuples: int, workers: int) -> None:
    """A worker is killed with jobs in hand, each job is done once all the same, and nothing is left."""
    with demo("--tuples", str(tuples), "--workers", str(workers)) as (process, mark):
        output, errors = process.communicate(timeout=60)
        assert (process.returncode, errors) == (0, ""), output
        killed, held = map(int, re.findall(r"Worker (\d+) hangs, holding (\d+) jobs", output)[0])
        account = rows(output)
        assert f"killed while it held {held}\n" in output
        assert held >= 1
        assert account.pop("given back by a lease") == held
        assert account == {
            "jobs written": tuples,
            "done once": tuples,
            "done twice": 0,
            "lost": 0,
            "left over": 0,
        }
        assert len(re.findall(r"^worker (\d+) ", output, re.MULTILINE)) <= workers
        assert str(killed) in output.splitlines()[1]
        assert marked(mark) == []


@pytest.mark.parametrize("moment", ["jobs are in a space", "workers take them", "killed with SIGKILL"])
def test_interrupted(moment: str) -> None:
    """Control-C ends the demonstration with one sentence and exit code 130, and nothing is left running."""
    with demo("--tuples", "2000") as (process, mark):
        first_line(process, moment)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
        assert (process.returncode, errors) == (130, "gcs: interrupted.\n")
        assert marked(mark) == []


def test_killed() -> None:
    """When the demonstration itself is killed, its workers and its server end by themselves."""
    with demo() as (process, mark):
        first_line(process, "done")
        assert len(marked(mark)) >= 5
        process.kill()
        process.wait()
        until(lambda: marked(mark) == [], "the workers and the server to end")


def test_a_worker_that_fails() -> None:
    """A worker that ends unasked ends the demonstration with one sentence and exit code 4."""
    with demo() as (process, mark):
        worker = int(first_line(process, "workers take them").split()[-1].rstrip("."))
        os.kill(worker, signal.SIGTERM)
        _, errors = process.communicate(timeout=30)
        assert (process.returncode, errors.count("\n")) == (4, 1)
        assert f"worker {worker} ended unasked" in errors
        assert marked(mark) == []


class TestAccount:
    """When the account balances."""

    def account(
        self,
        *,
        done: tuple[int, ...] = (0, 1, 2),
        again: frozenset[int] = frozenset({2}),
        left: int = 0,
        held: frozenset[int] = frozenset({2}),
    ) -> Account:
        """Three jobs, of which a killed worker held one, with these differences."""
        return Account(
            written=3, done=Counter(done), by_worker=Counter({7: 3}), again=again, left=left, held={8: held}
        )

    def test_all_done(self) -> None:
        """It balances when each job was done once."""
        account = self.account()
        assert (account.balances, account.lost, account.twice) == (True, 0, 0)

    def test_lost(self) -> None:
        """A job that is neither done nor there is lost."""
        account = self.account(done=(0, 2))
        assert (account.balances, account.lost) == (False, 1)

    def test_left_over(self) -> None:
        """A job that is still there is left over, not lost."""
        account = self.account(done=(0, 2), left=1)
        assert (account.balances, account.lost) == (False, 0)

    def test_twice(self) -> None:
        """A job with two results was done twice."""
        account = self.account(done=(0, 1, 1, 2))
        assert (account.balances, account.twice, account.lost) == (False, 1, 0)

    def test_another(self) -> None:
        """A result without a job is no substitute for one that is missing."""
        assert not self.account(done=(0, 1, 3)).balances

    def test_the_held_ones_came_back(self) -> None:
        """What the killed worker held was delivered again; else it was killed too late to show anything."""
        assert not self.account(again=frozenset()).balances
