"""The second act: the server is killed and started again, and nothing acknowledged is lost or done twice.

The server runs with `appendfsync always`. Producers write, consumers take and commit with a result in the
same step (jobs) or take for good (tickets); half of them wait for the server to come back, half give up
at once. What was acknowledged must be there and done once. Where a client was told that the outcome is
unknown, both outcomes are right, but never half of one; where it was told that nothing was done, only that.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import trio

import tuplespace
from tests.servers import Node, redis_server
from tests.soak import SPACE, STALL_S, Failed, News, packed, unpacked
from tests.soak.progress import Progress
from tuplespace import LeaseLost, OutcomeUnknown, Space, Unavailable

# Clients that get their first answer across a restart, and clients that are told it is unknown.
PATIENCE_S = (30.0, 0.1)
# Tuples of a kind that wait, at most.
BACKLOG = 2000


def kill_servers(server: str, kills: int, rng: random.Random, progress: Progress) -> str:
    """Kill the server under producers and consumers; gives the verdict or raises Failed."""
    turmoil = Turmoil()
    # A low limit for rewriting the log, so that some kills come in the middle of that, too.
    extra = ["auto-aof-rewrite-min-size 256kb", "auto-aof-rewrite-percentage 50"]
    with redis_server(server, appendonly=True, appendfsync="always", unix_socket=True, extra=extra) as node:
        problems = trio.run(_rage, node, turmoil, kills, rng, progress)
    if problems:
        raise Failed(", ".join(problems))
    jobs, tickets = turmoil.jobs, turmoil.tickets
    return (
        f"{turmoil.kills} kills of the server: {len(jobs.written) + len(tickets.written):,} acknowledged "
        f"tuples done once each, none lost ({turmoil.acknowledged:,} acknowledgements); "
        f"{sum(map(len, jobs.unknown + tickets.unknown)):,} of unknown outcome wholly written or not at all, "
        f"{len(jobs.refused) + len(tickets.refused):,} refused and never seen, "
        f"{tickets.excused} takes of unknown outcome had removed {len(tickets.written - tickets.done.keys())}"
    )


@dataclass
class Ledger:
    """What the clients were told about tuples of one kind, by id."""

    issued: int = 0
    written: set[int] = field(default_factory=set)
    refused: set[int] = field(default_factory=set)
    unknown: list[range] = field(default_factory=list)
    done: Counter[int] = field(default_factory=Counter)
    excused: int = 0

    def issue(self, many: int) -> range:
        """New ids."""
        self.issued += many
        return range(self.issued - many, self.issued)

    def problems(self, found: Counter[int]) -> Iterator[str]:
        """What is wrong, given how often each id was found to be done."""
        lost = sum(found[n] == 0 for n in self.written)
        if lost > self.excused:
            yield f"{lost - self.excused:,} acknowledged writes lost"
        if undone := sum(found[n] == 0 for n in self.done):
            yield f"{undone:,} acknowledged commits lost"
        if twice := sum(times > 1 for times in (found | self.done).values()):
            yield f"{twice:,} done twice"
        if risen := sum(found[n] > 0 for n in self.refused):
            yield f"{risen:,} done although the writer was told that nothing was written"
        if halves := sum(len({found[n] > 0 for n in ids}) > 1 for ids in self.unknown):
            yield f"{halves:,} writes of unknown outcome half done"


@dataclass
class Turmoil:
    """What the tasks of this act share: two ledgers, and how much was acknowledged so far."""

    jobs: Ledger = field(default_factory=Ledger)
    tickets: Ledger = field(default_factory=Ledger)
    acknowledged: int = 0
    kills: int = 0
    ending: bool = False
    news: News = field(default_factory=News)

    def acknowledge(self) -> None:
        """A client was told that what it asked for is done."""
        self.acknowledged += 1
        self.news.tell()


async def _rage(
    node: Node, turmoil: Turmoil, kills: int, rng: random.Random, progress: Progress
) -> list[str]:
    """Run producers, consumers and the killer, then let the consumers finish, and compare."""
    async with trio.open_nursery() as consumers:
        async with trio.open_nursery() as producers:
            for timeout_s in PATIENCE_S:
                for consume in (_consume_jobs, _consume_jobs, _consume_tickets):
                    own = random.Random(rng.random())
                    consumers.start_soon(consume, node.url, timeout_s, turmoil, own)
                for kind, ledger in (("job", turmoil.jobs), ("ticket", turmoil.tickets)):
                    own = random.Random(rng.random())
                    producers.start_soon(_produce, node.url, timeout_s, kind, ledger, turmoil, own)
            await _kill_again_and_again(node, turmoil, kills, rng, progress)
            turmoil.ending = True
        async with tuplespace.connect(node.url) as client:
            await _drained(client.space(SPACE))
        consumers.cancel_scope.cancel()
    async with tuplespace.connect(node.url) as client:
        done = [ids async for _, ids in client.space(SPACE).scan("done", bytes)]
    found = Counter(n for ids in done for n in unpacked(ids))
    tickets = turmoil.tickets
    return [
        *turmoil.jobs.problems(found),
        *(f"tickets: {problem}" for problem in tickets.problems(tickets.done)),
    ]


async def _kill_again_and_again(
    node: Node, turmoil: Turmoil, kills: int, rng: random.Random, progress: Progress
) -> None:
    while turmoil.kills < kills:
        enough = turmoil.acknowledged + rng.randrange(1, 300)
        await turmoil.news.until(lambda enough=enough: turmoil.acknowledged >= enough)  # type: ignore[misc]
        await trio.sleep(rng.uniform(0, 0.005))  # any moment will do, not always the one after an answer
        await trio.to_thread.run_sync(node.kill)
        await trio.sleep(rng.choice([0, 0, 0.3]))  # longer than the impatient wait, now and then
        await trio.to_thread.run_sync(node.start)
        turmoil.kills += 1
        progress.show(
            f"server: {turmoil.kills} of {kills} kills, {turmoil.acknowledged:,} acknowledgements, "
            f"{len(turmoil.jobs.unknown) + len(turmoil.tickets.unknown):,} writes of unknown outcome",
            trio.current_time(),
        )


async def _produce(
    url: str, timeout_s: float, kind: str, ledger: Ledger, turmoil: Turmoil, rng: random.Random
) -> None:
    async with tuplespace.connect(url, timeout=timeout_s) as client:
        space = client.space(SPACE)
        while not turmoil.ending:
            if rng.random() < 0.2:
                await _room(space, kind, turmoil)
            ids = ledger.issue(round(10 ** rng.uniform(0, 2)))
            try:
                await space.out_many((kind, n) for n in ids)
            except OutcomeUnknown:
                ledger.unknown.append(ids)
            except Unavailable:
                ledger.refused.update(ids)
            else:
                ledger.written.update(ids)
                turmoil.acknowledge()


async def _room(space: Space, kind: str, turmoil: Turmoil) -> None:
    """Wait until there is room for more, or no more is wanted."""
    waiting = BACKLOG
    while waiting >= BACKLOG and not turmoil.ending:
        with suppress(Unavailable):
            waiting = await space.count(kind, int)
        await trio.sleep(0.01)


async def _consume_jobs(url: str, timeout_s: float, turmoil: Turmoil, rng: random.Random) -> None:
    """Take and commit with a result; whatever goes wrong on the way, the job comes again or is done."""
    async with tuplespace.connect(url, timeout=timeout_s) as client:
        space = client.space(SPACE, lease=1.5)
        while True:
            with suppress(LeaseLost, Unavailable):
                async with space.take("job", int, many=round(10 ** rng.uniform(0, 2))) as jobs:
                    await jobs.commit(out=[("done", packed(jobs))])
                turmoil.jobs.done.update(unpacked(packed(jobs)))
                turmoil.acknowledge()


async def _consume_tickets(url: str, timeout_s: float, turmoil: Turmoil, rng: random.Random) -> None:
    """Take for good; a take of unknown outcome excuses one ticket that nobody got."""
    async with tuplespace.connect(url, timeout=timeout_s) as client:
        space = client.space(SPACE, lease=1.5)
        while True:
            ticket = None
            try:
                ticket = await (space.inp if rng.random() < 0.5 else space.in_)("ticket", int)
            except OutcomeUnknown:
                turmoil.tickets.excused += 1
            except (LeaseLost, Unavailable):
                pass
            if ticket is not None:
                turmoil.tickets.done.update(unpacked(packed([ticket])))
                turmoil.acknowledge()


async def _drained(space: Space) -> None:
    """Wait until nothing waits to be consumed and no lease is left; raises Failed when nothing moves."""
    before, deadline = (0, 0), 0.0
    while True:
        waiting = await space.count("job", int) + await space.count("ticket", int)
        there = await space.statistics()
        if not waiting and not there.leased:
            return
        now = trio.current_time()
        if (waiting, there.leased) != before:
            before, deadline = (waiting, there.leased), now + STALL_S
        if now > deadline:
            raise Failed(f"{waiting:,} are never consumed, {there.leased:,} are leased for ever")
        await trio.sleep(0.02)
