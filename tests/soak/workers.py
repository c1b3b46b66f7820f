"""The first act: worker processes are killed at random moments, and no job is lost or done twice.

A worker writes the ids of what it did in the step that removes the jobs, and the auditor, in the first
process, collects these: every id must come exactly once, and nothing may be left. The jobs are written
meanwhile, in bursts, so that workers now find hundreds and now wait in line.

Starting an interpreter takes longer than most workers live, so they are forked. That is only safe in a
process without threads: the *herd*, itself forked before there were any, which imports nothing more,
forks workers, and kills one whenever it is told to.
"""

from __future__ import annotations

import ctypes
import os
import random
import signal
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial

import trio

import tuplespace
from tests.servers import redis_server
from tests.soak import SPACE, STALL_S, Failed, News, packed, unpacked
from tests.soak.progress import Progress
from tuplespace import Field, LeaseLost, OutcomeUnknown, Space, Tuple

# Tasks of each worker.
TASKS = 2
MAX_LEASE_S = 2.0
# Jobs written and not yet done, at most.
BACKLOG = 20_000


def kill_workers(
    server: str, tuples: int, workers: int, kills: int, rng: random.Random, progress: Progress
) -> str:
    """Pass tuples through processes that are killed; gives the verdict or raises Failed."""
    audit = Audit(tuples)
    with redis_server(server, appendonly=True, unix_socket=True) as node:
        with _herd(node.url, workers, rng.random()) as herd:
            trio.run(_direct, node.url, herd, audit, kills, rng, progress)
        problems = trio.run(_close_books, node.url, audit, workers)
    if problems:
        raise Failed(", ".join(problems))
    return (
        f"{tuples:,} tuples through {workers} workers with {audit.kills:,} kills: none lost, none committed "
        f"twice, none left over; {audit.again:,} were delivered again"
    )


@dataclass
class Audit:
    """How often each id was done, out of 0, 1, … expected - 1; and what happened on the way."""

    expected: int
    fed: int = 0
    wakes: int = 0
    kills: int = 0
    again: int = 0
    done: Counter[Field] = field(default_factory=Counter)
    news: News = field(default_factory=News)

    @property
    def complete(self) -> bool:
        """Whether as many different ids were done as there are."""
        return len(self.done) >= self.expected

    def enter(self, result: Tuple) -> None:
        """Enter what a worker did, and how much of that had been delivered before."""
        _, ids, again = result
        assert isinstance(again, int)
        self.done.update(unpacked(ids))
        self.again += again
        self.news.tell()

    def problems(self, *, left: int) -> Iterator[str]:
        """What is wrong when all work is over and this many jobs are still in the space."""
        if lost := sum(n not in self.done for n in range(self.expected)):
            yield f"{lost:,} not done"
        if twice := sum(times > 1 for times in self.done.values()):
            yield f"{twice:,} done twice"
        if strangers := len(self.done.keys() - set(range(self.expected))):
            yield f"{strangers:,} done that were never written"
        if left:
            yield f"{left:,} left over"


# The herd


@dataclass(frozen=True)
class Herd:
    """The process that keeps the workers, as the first process sees it."""

    commands: int
    answers: int

    async def kill_one(self) -> None:
        """Have a worker killed, some milliseconds from now, and another one started."""
        os.write(self.commands, b"k")
        await trio.lowlevel.wait_readable(self.answers)
        if not os.read(self.answers, 1):
            raise Failed("a worker ended by itself; see its words above")


@contextmanager
def _herd(url: str, workers: int, seed: float) -> Iterator[Herd]:
    """Workers for the length of the block."""
    orders, commands = os.pipe()
    answers, reports = os.pipe()

    def tend() -> None:
        os.close(commands)
        os.close(answers)
        _tend(orders, reports, url, workers, random.Random(seed))

    pid = _fork(tend)
    os.close(orders)
    os.close(reports)
    try:
        yield Herd(commands, answers)
    finally:
        os.close(commands)
        _, status = os.waitpid(pid, 0)
        os.close(answers)
    if status:
        raise Failed("a worker ended by itself; see its words above")


def _tend(orders: int, reports: int, url: str, workers: int, rng: random.Random) -> None:
    """Keep that many workers, and kill one for every order, until there are no more to come."""

    def fork() -> int:
        return _fork(partial(trio.run, _work, url, random.Random(rng.random())))

    pids = [fork() for _ in range(workers)]
    while os.read(orders, 1):
        time.sleep(rng.expovariate(1 / 0.005))  # any moment will do, not always the one after a commit
        victim = rng.randrange(workers)
        _kill(pids[victim])
        pids[victim] = fork()
        os.write(reports, b"k")
    for pid in pids:
        _kill(pid)


def _kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    if os.waitstatus_to_exitcode(status) != -signal.SIGKILL:
        raise Failed(f"worker {pid} ended by itself")


def _fork(body: Callable[[], object]) -> int:
    """Run the body in a child process, which ends with it, or with this process; gives the child's id."""
    if pid := os.fork():
        return pid
    exit_code = 1
    try:
        signal.signal(
            signal.SIGINT, signal.SIG_IGN
        )  # Control-C is for the first process, which ends the rest
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        body()
        exit_code = 0
    except BaseException:  # noqa: BLE001 - whatever it is, this copy of the parent must not go on
        traceback.print_exc()
    finally:
        os._exit(exit_code)


# A worker


async def _work(url: str, rng: random.Random) -> None:
    """A worker's life: some tasks, each doing one random thing after another."""
    async with tuplespace.connect(url) as client, trio.open_nursery() as nursery:
        for _ in range(TASKS):
            nursery.start_soon(_toil, client.space(SPACE, lease=rng.uniform(1, MAX_LEASE_S)), rng)


async def _toil(space: Space, rng: random.Random) -> None:
    while True:
        # Either comes to a process that stood still: others do the jobs, or they were done.
        with suppress(LeaseLost, OutcomeUnknown):
            if rng.random() < 0.1:
                await _wake(space, rng)
            else:
                await _do_some(space, rng)


async def _do_some(space: Space, rng: random.Random) -> None:
    """Take one job or hundreds, and commit them with their ids in the same step.

    Sometimes they are given back instead; and sometimes the whole process stands still for longer than
    the lease, so that others have done them when it tries to commit.
    """
    async with space.take("job", int, many=round(10 ** rng.uniform(0, 2.7))) as jobs:
        if rng.random() < 0.2:
            await trio.sleep(rng.expovariate(1 / 0.005))
        if rng.random() < 0.01:
            jobs.give_back()
            return
        if rng.random() < 0.01:
            time.sleep(MAX_LEASE_S + 0.5)  # noqa: ASYNC251 - nothing of this process is to run
        again = sum(nth > 1 for nth in jobs.deliveries)
        await jobs.commit(out=[("done", packed(jobs), again)])


async def _wake(space: Space, rng: random.Random) -> None:
    """Wait in line for a while with `in_`, or look once with `inp`, and say so if there was something.

    What these return is removed before the worker can say anything, so a kill, or an answer that does
    not come in time, may swallow one.
    """
    woken: Tuple | None = None
    try:
        if rng.random() < 0.5:
            woken = await space.inp("wake", int)
        else:
            with trio.move_on_after(rng.uniform(0, 0.05)):
                woken = await space.in_("wake", int)
    except OutcomeUnknown:
        await space.out("unknown")
    if woken is not None:
        await space.out("woken", woken[1])


# The first process


async def _direct(
    url: str, herd: Herd, audit: Audit, kills: int, rng: random.Random, progress: Progress
) -> None:
    async with tuplespace.connect(url) as client, trio.open_nursery() as nursery:
        space = client.space(SPACE)
        nursery.start_soon(_feed, space, audit, kills, random.Random(rng.random()))
        nursery.start_soon(_cull, herd, audit, kills, random.Random(rng.random()))
        nursery.start_soon(_collect, space, audit)
        nursery.start_soon(_report, audit, kills, progress)
        await audit.news.until(lambda: audit.complete)
        nursery.cancel_scope.cancel()


async def _feed(space: Space, audit: Audit, kills: int, rng: random.Random) -> None:
    """Write the jobs in bursts; sometimes only when all are done, so that workers wait in line."""
    while audit.fed < audit.expected:
        await audit.news.until(lambda: audit.fed - len(audit.done) < BACKLOG)
        if audit.fed > 0.97 * audit.expected:
            await audit.news.until(lambda: audit.kills == kills)  # all of them while there is work
        if rng.random() < 0.003:
            await audit.news.until(lambda: audit.fed == len(audit.done))
        burst = range(audit.fed, min(audit.fed + round(10 ** rng.uniform(0, 3.5)), audit.expected))
        await space.out("wake", audit.wakes)
        audit.wakes += 1
        await space.out_many(("job", n) for n in burst)
        audit.fed = burst.stop


async def _cull(herd: Herd, audit: Audit, kills: int, rng: random.Random) -> None:
    """Have workers killed at random points of the way."""
    points = sorted(rng.uniform(0, 0.95 * audit.expected) for _ in range(kills))
    while audit.kills < kills:
        await audit.news.until(lambda: len(audit.done) >= points[audit.kills])
        await herd.kill_one()
        audit.kills += 1
        audit.news.tell()


async def _collect(space: Space, audit: Audit) -> None:
    """Enter all results until every job was done, each after it was removed from the space for good."""
    while not audit.complete:
        async with space.take("done", bytes, int, many=200) as results:
            await results.commit()
        for result in results:
            audit.enter(result)


async def _report(audit: Audit, kills: int, progress: Progress) -> None:
    started = trio.current_time()
    while True:
        await trio.sleep(0.2)
        now, done = trio.current_time(), len(audit.done)
        progress.show(
            f"workers: {done:,} of {audit.expected:,} done, {audit.kills:,} of {kills:,} kills, "
            f"{audit.again:,} delivered again, {done / (now - started):,.0f} tuples/s",
            now,
        )


async def _close_books(url: str, audit: Audit, workers: int) -> list[str]:
    """Look at what is in the space when all workers are dead and their leases have ended."""
    async with tuplespace.connect(url) as client:
        space = client.space(SPACE)
        await _settled(space)
        late = [result async for result in space.scan("done", bytes, int)]
        for result in late:
            audit.enter(result)
        left = await space.count("job", int)
        woken = Counter([n async for _, n in space.scan("woken", int)])
        asleep = Counter([n async for _, n in space.scan("wake", int)])
        unknown = await space.count("unknown")
        there = await space.statistics()
    problems = list(audit.problems(left=left))
    if twice := sum(times > 1 for times in (woken + asleep).values()):
        problems.append(f"{twice:,} taken twice by in_ or inp")
    if (gone := audit.wakes - len(woken | asleep)) > TASKS * (audit.kills + workers) + unknown:
        problems.append(f"{gone:,} taken by in_ or inp are gone, more than kills can have swallowed")
    if strays := there.waiting - left - len(late) - woken.total() - asleep.total() - unknown:
        problems.append(f"{strays:,} tuples that nobody wrote")
    return problems


async def _settled(space: Space) -> None:
    """Wait until every lease has ended."""
    deadline = trio.current_time() + STALL_S
    while (await space.statistics()).leases:
        if trio.current_time() > deadline:
            raise Failed(f"leases do not end: {await space.statistics()}")
        await space.count("job", int)  # which gives back what is due
        await trio.sleep(0.05)
