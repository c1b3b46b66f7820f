"""The shorter form of the soak, and that the soak can fail."""

from __future__ import annotations

import signal
import subprocess
import sys
from array import array
from collections import Counter
from pathlib import Path

import pytest

from tests.servers import binaries
from tests.soak import Failed, Skipped, packed, unpacked
from tests.soak.__main__ import perform
from tests.soak.progress import Progress
from tests.soak.server import Ledger
from tests.soak.workers import Audit

ROOT = Path(__file__).parent.parent
ON_EACH_SERVER = pytest.mark.parametrize("server", sorted(binaries()))


def soak(act: str, *options: str, server: str, timeout_s: float) -> str:
    """Run one act in a process of its own, where nothing has run before that forks; gives its verdict."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.soak", "--act", act, "--server", server, *options],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    verdict = done.stdout.splitlines()[-1]
    assert verdict.startswith(f"{act}: PASS"), done.stdout
    return verdict


class TestShort:
    """Each act, on each server there is."""

    @ON_EACH_SERVER
    def test_workers(self, server: str) -> None:
        """Of 20,000 tuples none is lost and none done twice when 30 workers are killed at random moments."""
        verdict = soak("workers", "--tuples", "20000", "--kills", "30", server=server, timeout_s=240)
        assert "20,000 tuples through 8 workers with 30 kills: none lost" in verdict

    @ON_EACH_SERVER
    def test_server(self, server: str) -> None:
        """Nothing acknowledged is lost or done twice when the server is killed three times."""
        verdict = soak("server", "--server-kills", "3", server=server, timeout_s=240)
        assert "3 kills of the server" in verdict

    @ON_EACH_SERVER
    def test_cancels(self, server: str) -> None:
        """A take that is cancelled within a millisecond of the matching out loses nothing, 2,000 times."""
        verdict = soak("cancels", "--cancels", "2000", server=server, timeout_s=240)
        assert "2,000 takes cancelled within 1 ms" in verdict


class TestInterrupted:
    """Control-C."""

    def test_nothing_is_left(self) -> None:
        """An interrupted soak leaves neither workers nor a server behind."""
        with subprocess.Popen(
            [sys.executable, "-m", "tests.soak", "--act", "workers", "--tuples", "1000000"],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            process_group=0,
        ) as process:
            assert process.stdout is not None
            assert next(line for line in process.stdout if "of 1,000,000 done" in line)
            process.send_signal(signal.SIGINT)
            # All of its processes have its standard output open: the end of that is the end of the last.
            process.communicate(timeout=90)
            assert process.returncode != 0


class TestAudit:
    """What the first act accepts."""

    def audit(self, *results: tuple[int, ...]) -> Audit:
        """An audit of the ids 0, 1 and 2, after these results."""
        audit = Audit(3)
        for ids in results:
            audit.enter(("done", array("I", ids).tobytes(), 0))
        return audit

    def test_once_each(self) -> None:
        """Every id once, in any order and in any batches, is right."""
        audit = self.audit((2, 0), (1,))
        assert (audit.complete, list(audit.problems(left=0))) == (True, [])

    def test_missing(self) -> None:
        """An id that never came is found."""
        audit = self.audit((2, 0))
        assert (audit.complete, list(audit.problems(left=0))) == (False, ["1 not done"])

    def test_twice(self) -> None:
        """An id that came twice is found."""
        assert list(self.audit((2, 0), (1, 2)).problems(left=0)) == ["1 done twice"]

    def test_twice_for_another(self) -> None:
        """An id that came twice does not stand for one that is missing, though the count is right."""
        assert list(self.audit((2, 0, 2)).problems(left=0)) == ["1 not done", "1 done twice"]

    def test_stranger(self) -> None:
        """An id that was never written is found."""
        assert list(self.audit((2, 0, 1, 3)).problems(left=0)) == ["1 done that were never written"]

    def test_left(self) -> None:
        """A job that is still in the space is found."""
        assert list(self.audit((0, 1, 2)).problems(left=1)) == ["1 left over"]


class TestLedger:
    """What the second act accepts."""

    def problems(self, ledger: Ledger, *found: int) -> list[str]:
        """What is wrong when these ids were found to be done."""
        return list(ledger.problems(Counter(found)))

    def test_right(self) -> None:
        """Acknowledged writes and commits that are done once are right, and so is either unknown outcome."""
        ledger = Ledger(written={0, 1}, done=Counter([0]), unknown=[range(2, 4), range(4, 6)], refused={6})
        assert self.problems(ledger, 0, 1, 2, 3) == []

    def test_lost_write(self) -> None:
        """An acknowledged write that was never done is lost, unless a take of unknown outcome has it."""
        assert self.problems(Ledger(written={0})) == ["1 acknowledged writes lost"]
        assert self.problems(Ledger(written={0}, excused=1)) == []
        assert self.problems(Ledger(written={0, 1}, excused=1)) == ["1 acknowledged writes lost"]

    def test_lost_commit(self) -> None:
        """An acknowledged commit whose result is not there is lost, whatever the write's outcome was."""
        ledger = Ledger(unknown=[range(1)], done=Counter([0]))
        assert self.problems(ledger) == ["1 acknowledged commits lost"]

    def test_twice(self) -> None:
        """Two results are found, and so are two acknowledgements of which only one left a result."""
        assert self.problems(Ledger(written={0}), 0, 0) == ["1 done twice"]
        assert self.problems(Ledger(written={0}, done=Counter([0, 0])), 0) == ["1 done twice"]

    def test_risen(self) -> None:
        """A write that was said not to have happened must not have."""
        assert len(self.problems(Ledger(refused={0}), 0)) == 1

    def test_half(self) -> None:
        """A write of unknown outcome is done wholly or not at all."""
        assert self.problems(Ledger(unknown=[range(2)]), 1) == ["1 writes of unknown outcome half done"]

    def test_ids(self) -> None:
        """New ids are never issued twice."""
        ledger = Ledger()
        assert [*ledger.issue(2), *ledger.issue(3)] == [0, 1, 2, 3, 4]


class TestVerdict:
    """How an act ends."""

    def test_pass(self, capsys: pytest.CaptureFixture[str]) -> None:
        """An act that passed says so in one line."""
        assert perform("act", lambda progress: "all is well")
        assert capsys.readouterr().out == "act: PASS in 0.0 s: all is well\n"

    def test_fail(self, capsys: pytest.CaptureFixture[str]) -> None:
        """An act that failed says so in one line, out of whatever groups the failure came."""

        def act(progress: Progress) -> str:
            raise ExceptionGroup("", [ExceptionGroup("", [Failed("1 lost")]), Failed("2 left")])

        assert not perform("act", act)
        assert capsys.readouterr().out == "act: FAIL in 0.0 s: 1 lost; 2 left\n"

    def test_skip(self, capsys: pytest.CaptureFixture[str]) -> None:
        """An act that cannot be done here says why, and is no failure."""

        def act(progress: Progress) -> str:
            raise Skipped("only root can do that")

        assert perform("act", act)
        assert capsys.readouterr().out == "act: SKIP in 0.0 s: only root can do that\n"

    def test_bug(self) -> None:
        """An error that is no verdict is not taken for one."""

        def act(progress: Progress) -> str:
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            perform("act", act)


def test_ids_in_one_field() -> None:
    """Packed ids come out as they went in."""
    assert list(unpacked(packed([("job", 0), ("job", 4_000_000_000)]))) == [0, 4_000_000_000]
