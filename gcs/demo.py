"""The tuple space at work: workers share jobs, one of them is killed, and every job is accounted for.

The parent starts a private server, writes the jobs and starts the workers, each a process of its own
with its own client. A worker does a batch and writes the results in the same step that removes the jobs,
so a job is either still there or done, whenever the worker dies. One job hangs its worker when it is
delivered for the first time: that worker says what it holds and is killed with SIGKILL. What it held
goes back to the space when its lease ends, and another worker does it.

`work` is what a worker of your own would look like.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial

import click
import trio

import tuplespace
from gcs.errors import ExitCode, GcsError
from tuplespace import embedded

SPACE = "demo"
LEASE_S = 1.5
BATCH = 25
JOB_S = 0.004
# All jobs together take one worker at most this long: many jobs are quicker ones.
WORK_S = 12.0
# Without any progress for this long, the demonstration ends and its account says what is missing.
PATIENCE_S = 20.0
LOOK_S = 0.1

Held = dict[tuplespace.Field, frozenset[int]]


class DemoFailed(GcsError):
    """The account does not balance, or a worker ended in a way it should not."""

    exit_code = ExitCode.REDIS


def run(*, tuples: int = 3000, workers: int = 3) -> int:
    """Show it and print the account; raises DemoFailed when a job was lost or done twice."""
    with closing(Progress()) as progress:
        trio.run(_demonstrate, tuples, workers, progress, restrict_keyboard_interrupt_to_checkpoints=True)
    return ExitCode.OK


async def work(url: str, job_s: float, hangs: int) -> None:
    """Take jobs, do them and write the results, until cancelled."""
    async with tuplespace.connect(url) as client:
        space = client.space(SPACE, lease=LEASE_S)
        while True:
            # A lease can end under a worker that was asleep for too long: the jobs are another's then.
            with suppress(tuplespace.LeaseLost):
                async with space.take("job", int, many=BATCH) as jobs:
                    numbers = [number for _, number in jobs]
                    if (hangs, 1) in zip(numbers, jobs.deliveries, strict=True):
                        click.echo(" ".join(map(str, numbers)))
                        await trio.sleep_forever()
                    await trio.sleep(job_s * len(jobs))
                    results = zip(numbers, jobs.deliveries, strict=True)
                    await jobs.commit(out=[("done", number, os.getpid(), nth) for number, nth in results])


@dataclass(frozen=True, slots=True)
class Account:
    """What became of every job; `held` is what the killed workers had in their hands."""

    written: int
    done: Counter[tuplespace.Field]
    by_worker: Counter[tuplespace.Field]
    again: frozenset[tuplespace.Field]
    left: int
    held: Held

    @property
    def lost(self) -> int:
        """Jobs that were neither done nor are still there."""
        return self.written - len(self.done) - self.left

    @property
    def twice(self) -> int:
        """Jobs with more than one result."""
        return sum(times > 1 for times in self.done.values())

    @property
    def balances(self) -> bool:
        """Whether every job was done once, and those of the killed worker by another one."""
        complete = self.done == Counter(range(self.written)) and self.left == 0
        return complete and len(self.held) == 1 and all(held <= self.again for held in self.held.values())

    def lines(self) -> Iterator[str]:
        """The account as a table."""
        for worker in sorted({*self.by_worker, *self.held}, key=str):
            note = f"  killed while it held {len(self.held[worker]):,}" if worker in self.held else ""
            yield f"worker {worker!s:<15} {self.by_worker[worker]:>9,}{note}"
        rows = {
            "jobs written": self.written,
            "done once": len(self.done) - self.twice,
            "done twice": self.twice,
            "lost": self.lost,
            "left over": self.left,
            "given back by a lease": len(self.again),
        }
        yield "-" * 32
        for name, number in rows.items():
            yield f"{name:<22} {number:>9,}"


class Progress:
    """How far something is: one line, rewritten on a terminal, else a new one every so often."""

    def __init__(self, *, every_s: float = 1.0) -> None:
        self._terminal = sys.stdout.isatty()
        self._every_s = every_s
        self._next = 0.0

    def show(self, line: str, now_s: float) -> None:
        """Replace the line."""
        if self._terminal:
            click.echo(f"\r\x1b[2K{line}", nl=False)
        elif now_s >= self._next:
            self._next = now_s + self._every_s
            click.echo(line)

    def say(self, line: str) -> None:
        """Print a line that stays."""
        self.close()
        click.echo(line)

    def close(self) -> None:
        """Take the line away."""
        if self._terminal:
            click.echo("\r\x1b[2K", nl=False)


async def _demonstrate(tuples: int, workers: int, progress: Progress) -> None:
    started = trio.current_time()
    async with embedded.start() as server, tuplespace.connect(server.url) as client:
        space = client.space(SPACE)
        await space.out_many(("job", number) for number in range(tuples))
        progress.say(f"{tuples:,} jobs are in a space on a private server (process {server.pid}).")
        command = [sys.executable, "-m", "gcs.demo", str(min(JOB_S, WORK_S / tuples)), str(tuples // 2)]
        held: Held = {}
        async with trio.open_nursery() as nursery:
            crew = [await _hire(nursery, command, server.url) for _ in range(workers)]
            for process in crew:
                nursery.start_soon(_attend, process, held, progress)
            progress.say(f"{workers} workers take them: {', '.join(str(process.pid) for process in crew)}.")
            await _follow(space, tuples, progress)
            await _dismiss(crew)
        account = await _audit(space, tuples, held)
    progress.say("\n".join(["", *account.lines(), ""]))
    if not account.balances:
        raise DemoFailed("the account does not balance; please report it with the table above")
    progress.say(f"Every job was done exactly once, in {trio.current_time() - started:.1f} s.")


async def _hire(nursery: trio.Nursery, command: Sequence[str], url: str) -> trio.Process:
    """Start a worker, which is killed if the nursery is cancelled and ends by itself if this process dies."""
    # In a group of its own, so that Control-C reaches this process alone, which then ends the others.
    start = partial(
        trio.run_process, stdin=subprocess.PIPE, stdout=subprocess.PIPE, check=False, process_group=0
    )
    process: trio.Process = await nursery.start(start, command)
    assert process.stdin is not None
    # The address contains the password, so it is not on the command line, where others could see it.
    await process.stdin.send_all(f"{url}\n".encode())
    return process


async def _attend(process: trio.Process, held: Held, progress: Progress) -> None:
    """Kill the worker as soon as it says that it hangs; raises DemoFailed when it ends in any other way."""
    assert process.stdout is not None
    if report := await process.stdout.receive_some():
        process.kill()
        held[process.pid] = frozenset(map(int, report.split()))
        progress.say(
            f"Worker {process.pid} hangs, holding {len(held[process.pid])} jobs: killed with SIGKILL."
        )
    exit_code = await process.wait()
    if exit_code != (-signal.SIGKILL if report else 0):
        raise DemoFailed(
            f"worker {process.pid} ended unasked, with exit code {exit_code}; see its words above"
        )


async def _follow(space: tuplespace.Space, tuples: int, progress: Progress) -> None:
    """Wait until there are as many results as jobs, or until nothing has happened for too long."""
    done, moved = 0, trio.current_time()
    while done < tuples and trio.current_time() < moved + PATIENCE_S:
        await trio.sleep(LOOK_S)
        before, done = done, await space.count("done", int, int, int)
        if done > before:
            moved = trio.current_time()
        leased = (await space.statistics()).leased
        progress.show(f"  {done:,} of {tuples:,} done, {leased:,} in hand", trio.current_time())


async def _dismiss(crew: Sequence[trio.Process]) -> None:
    """Ask the workers to end; the nursery waits until they have."""
    for process in crew:
        assert process.stdin is not None
        await process.stdin.aclose()


async def _audit(space: tuplespace.Space, tuples: int, held: Held) -> Account:
    results = [result async for result in space.scan("done", int, int, int)]
    there = await space.statistics()
    return Account(
        written=tuples,
        done=Counter(number for _, number, _, _ in results),
        by_worker=Counter(worker for _, _, worker, _ in results),
        again=frozenset(number for _, number, _, nth in results if nth != 1),
        left=there.waiting + there.leased - len(results),
        held=held,
    )


async def _work_until_told(url: str, job_s: float, hangs: int) -> None:
    """Work until standard input ends, which it also does when the parent is killed."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(work, url, job_s, hangs)
        await trio.lowlevel.FdStream(sys.stdin.fileno()).receive_some()
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(_work_until_told, sys.stdin.readline().strip(), float(sys.argv[1]), int(sys.argv[2]))
