"""What the tuple space costs, beside what the server's own commands cost in the same run.

    python -m benchmarks.tuplespace [--json] [--quick] [--server valkey|redis|all] [--only NAME ...]

Machines are noisy, so what can be compared is measured in turns with what it is compared with, and
the medians of all rounds are set against each other. Every measurement has a fresh server of its
own, on TCP loopback and with the append-only file on (fsync every second), as in production. A goal
that is missed is shown as missed and changes nothing else: the exit code only says whether the
measuring worked.
"""

from __future__ import annotations

import argparse
import functools
import importlib.metadata
import itertools
import json
import math
import multiprocessing
import os
import platform
import statistics
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import KW_ONLY, dataclass
from multiprocessing.connection import Connection
from typing import Any, Final, Literal

import redis
import trio

import tuplespace
from tests.servers import Node, binaries, redis_server
from tuplespace.fields import Limits, TemplateField, prepare
from tuplespace.space import Space

SUMMARY: Final = "What the tuple space costs, beside what the server's own commands cost in the same run."
PAYLOAD_BYTES: Final = 100
TASKS: Final = 200
BATCH: Final = 500
_PATIENCE_S: Final = 60.0
_LIMITS: Final = Limits()
_SPAWN: Final = multiprocessing.get_context("spawn")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much of everything is measured."""

    rounds: int
    batches: int  # of 500 tuples, per round
    calls: int  # by each of 200 tasks, per round
    thread_calls: int  # the same, where each call takes a thread
    others: int  # tuples that age a space
    takes: int  # one after another, per round
    hand_overs: int  # per round
    waiting: int  # tuples whose memory is measured


FULL: Final = Sizes(
    rounds=7,
    batches=20,
    calls=25,
    thread_calls=10,
    others=1_000_000,
    takes=150,
    hand_overs=100,
    waiting=100_000,
)
QUICK: Final = Sizes(
    rounds=2, batches=1, calls=2, thread_calls=1, others=20_000, takes=10, hand_overs=10, waiting=2_000
)


@dataclass(frozen=True, slots=True)
class Goal:
    """What a number should be."""

    relation: Literal["≥", "≤", "="]
    bound: float

    def reached(self, value: float) -> bool:
        """Whether the number is as it should be."""
        match self.relation:
            case "≥":
                return value >= self.bound
            case "≤":
                return value <= self.bound
            case "=":
                return value == self.bound

    def __str__(self) -> str:
        return f"{self.relation} {self.bound:g}"


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table. The goal is about the ratio, or about our number when `judge` says so."""

    name: str
    what: str
    ours: float
    unit: str
    _: KW_ONLY
    against: str = ""
    theirs: float | None = None
    goal: Goal | None = None
    judge: Literal["ratio", "ours"] = "ratio"

    @property
    def ratio(self) -> float | None:
        """Ours to theirs, where there is something to compare with."""
        return None if self.theirs is None else self.ours / self.theirs

    @property
    def reached(self) -> bool | None:
        """Whether the goal is reached, where there is one."""
        value = self.ours if self.judge == "ours" else self.ratio
        return None if self.goal is None or value is None else self.goal.reached(value)


@dataclass(frozen=True, slots=True)
class Bench:
    """What a measurement works with: a server, a plain client of it and ours, and how much to do."""

    node: Node
    server: redis.Redis
    client: tuplespace.Client
    sizes: Sizes


Timed = Callable[[], Awaitable[float]]
Step = Callable[[], Awaitable[object]]


async def in_turns(rounds: int, contenders: Mapping[str, Timed]) -> dict[str, float]:
    """The median of each one's rounds, after a first that does not count; they take turns in beginning."""
    results: dict[str, list[float]] = {name: [] for name in contenders}
    names = list(contenders)
    for number in range(rounds + 1):
        for name in names:
            results[name].append(await contenders[name]())
        names = names[1:] + names[:1]
        if number == 0:
            for result in results.values():
                result.clear()
    return {name: statistics.median(result) for name, result in results.items()}


async def compare(
    bench: Bench, name: str, what: str, ours: Timed, against: str, theirs: Timed, goal: Goal
) -> Row:
    """How many a second of one thing and of another."""
    medians = await in_turns(bench.sizes.rounds, {"ours": ours, "theirs": theirs})
    return Row(name, what, medians["ours"], "/s", against=against, theirs=medians["theirs"], goal=goal)


async def per_second(count: int, work: Step) -> float:
    """How many of so many things a second, when all of them are one piece of work."""
    started = time.perf_counter()
    await work()
    return count / (time.perf_counter() - started)


async def from_tasks(calls: int, step: Step) -> float:
    """How many steps a second when 200 tasks do so many each."""

    async def work() -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(TASKS):
                nursery.start_soon(repeat, calls, step)

    return await per_second(TASKS * calls, work)


async def repeat(times: int, step: Step) -> None:
    """One after another."""
    for _ in range(times):
        await step()


def sized(*fields: tuplespace.Field) -> tuplespace.Tuple:
    """A tuple of these fields and a last one, bytes, with which it has 100 bytes when encoded."""
    bare = len(prepare((*fields, b""), {}, _LIMITS).payload)
    return (*fields, b"." * (PAYLOAD_BYTES - bare))


TUPLE: Final = sized("task", 1 << 40)
TEMPLATE: Final[tuple[TemplateField, ...]] = ("task", int, bytes)
PAYLOAD: Final = prepare(TUPLE, {}, _LIMITS).payload


# Many at once


async def out_many(bench: Bench) -> list[Row]:
    """Writing in batches."""
    space, count = bench.client.space("out_many"), bench.sizes.batches * BATCH

    async def ours() -> float:
        return await per_second(count, lambda: space.out_many(itertools.repeat(TUPLE, count)))

    async def theirs() -> float:
        return await per_second(count, lambda: trio.to_thread.run_sync(pipelined_push, bench, count))

    what = f"out_many, {BATCH} tuples a batch"
    return [await compare(bench, "out_many", what, ours, "pipelined RPUSH", theirs, Goal("≥", 0.5))]


async def take_many(bench: Bench) -> list[Row]:
    """Taking in batches."""
    space, count = bench.client.space("take_many"), bench.sizes.batches * BATCH

    async def take() -> None:
        async with space.take(*TEMPLATE, many=BATCH) as taken:
            assert len(taken) == BATCH

    async def ours() -> float:
        await space.out_many(itertools.repeat(TUPLE, count))
        return await per_second(count, lambda: repeat(bench.sizes.batches, take))

    async def theirs() -> float:
        await trio.to_thread.run_sync(pipelined_push, bench, count)
        return await per_second(count, lambda: trio.to_thread.run_sync(pipelined_pop, bench, count))

    what = f"take(many={BATCH}) and commit"
    return [await compare(bench, "take_many", what, ours, "pipelined LPOP", theirs, Goal("≥", 0.5))]


def pipelined_push(bench: Bench, count: int) -> None:
    """The same bytes into a list, one command each."""
    for _ in range(count // BATCH):
        pipeline = bench.server.pipeline(transaction=False)
        for _ in range(BATCH):
            pipeline.rpush("list", PAYLOAD)
        pipeline.execute()


def pipelined_pop(bench: Bench, count: int) -> None:
    """And out of it again."""
    for _ in range(count // BATCH):
        pipeline = bench.server.pipeline(transaction=False)
        for _ in range(BATCH):
            pipeline.lpop("list")
        assert None not in pipeline.execute()


# One at a time, from many tasks


async def single_out(bench: Bench) -> list[Row]:
    """Writing one tuple per call."""
    space, sizes = bench.client.space("out"), bench.sizes

    async def ours() -> float:
        return await from_tasks(sizes.calls, lambda: space.out(*TUPLE))

    async def theirs() -> float:
        return await from_tasks(
            sizes.thread_calls, lambda: trio.to_thread.run_sync(bench.server.rpush, "list", PAYLOAD)
        )

    what = f"out from {TASKS} tasks"
    return [await compare(bench, "out", what, ours, "RPUSH, a thread per call", theirs, Goal("≥", 5))]


async def single_in(bench: Bench) -> list[Row]:
    """Taking one tuple per call, where there is one."""
    space, sizes = bench.client.space("in"), bench.sizes

    async def inp() -> None:
        assert await space.inp(*TEMPLATE) is not None

    async def take() -> None:
        async with space.take(*TEMPLATE):
            pass

    async def lpop() -> None:
        assert await trio.to_thread.run_sync(bench.server.lpop, "list") is not None

    def ours(step: Step) -> Timed:
        async def run() -> float:
            await space.out_many(itertools.repeat(TUPLE, TASKS * sizes.calls))
            return await from_tasks(sizes.calls, step)

        return run

    async def theirs() -> float:
        bench.server.rpush("list", *itertools.repeat(PAYLOAD, TASKS * sizes.thread_calls))
        return await from_tasks(sizes.thread_calls, lpop)

    contenders = {"inp": ours(inp), "in_": ours(lambda: space.in_(*TEMPLATE)), "take": ours(take)}
    medians = await in_turns(sizes.rounds, {**contenders, "theirs": theirs})
    whats = {"inp": "inp", "in_": "in_", "take": "take and commit"}
    return [
        Row(
            name,
            f"{what} from {TASKS} tasks",
            medians[name],
            "/s",
            against="LPOP, a thread per call",
            theirs=medians["theirs"],
            goal=Goal("≥", 5) if name == "inp" else None,
        )
        for name, what in whats.items()
    ]


# A space with a past

_PAD: Final = "." * 60
_AGED_INDEX: Final = {"declared": (1,)}
_MINE: Final[Mapping[str, tuple[tuplespace.Tuple, tuple[TemplateField, ...]]]] = {
    "plain": (("plain", 1, b"mine"), ("plain", int, bytes)),
    "declared": (("declared", "mine", 1, b"mine"), ("declared", "mine", int, bytes)),
}


def others(count: int) -> Iterator[tuplespace.Tuple]:
    """Tuples that no template of ours matches, for each of the reasons there are."""
    for n in range(0, count, 4):
        yield f"other {n % 400}", n, _PAD
        yield "plain", f"{n}", _PAD
        yield "declared", f"not mine but {n}", n, _PAD
        yield "declared", "mine", float(n), _PAD


async def aged(bench: Bench) -> list[Row]:
    """Taking from a space that holds a million other tuples, and from one that holds none."""
    spaces = {name: bench.client.space(name, index=_AGED_INDEX) for name in ("aged", "fresh")}
    for space in spaces.values():
        await space.inp(*_MINE["declared"][1])  # from now on tuples are indexed by the declared field
    await write_in_parallel(spaces["aged"], others(bench.sizes.others))
    rows = []
    for kind, how in itertools.product(_MINE, ("inp", "take")):
        seen = {name: Timings([], []) for name in spaces}
        for number in range(bench.sizes.rounds):
            for name in ("aged", "fresh") if number % 2 else ("fresh", "aged"):
                await time_takes(bench, spaces[name], kind, how, seen[name])
        rows += aged_rows(kind, how, seen["aged"], seen["fresh"], bench.sizes.others)
    return rows


@dataclass(frozen=True, slots=True)
class Timings:
    """Microseconds: of each take as its caller sees it, and of each round's average inside the server."""

    outside: list[float]
    inside: list[float]


async def time_takes(bench: Bench, space: Space, kind: str, how: str, timings: Timings) -> None:
    """A round of takes, one after another, of tuples written before."""
    fields, template = _MINE[kind]

    async def inp() -> None:
        assert await space.inp(*template) is not None

    async def take() -> None:
        async with space.take(*template) as taken:
            assert taken

    step = inp if how == "inp" else take
    await space.out_many(itertools.repeat(fields, bench.sizes.takes))
    _, before_us = functions_called(bench.server)
    for _ in range(bench.sizes.takes):
        started = time.perf_counter_ns()
        await step()
        timings.outside.append((time.perf_counter_ns() - started) / 1000)
    _, after_us = functions_called(bench.server)
    timings.inside.append((after_us - before_us) / bench.sizes.takes)


def aged_rows(kind: str, how: str, old: Timings, new: Timings, count: int) -> list[Row]:
    """What the caller waits for, and what of it is the server's own time."""
    what = {"inp": "inp", "take": "take and commit"}[how] + {"plain": "", "declared": " by a field"}[kind]
    return [
        Row(
            f"aged-{how}-{kind}{suffix}",
            f"{what}{where}, {count:,} other tuples",
            statistics.median(ours),
            "µs",
            against="no other tuples",
            theirs=statistics.median(theirs),
            goal=Goal("≤", 1.5),
        )
        for suffix, where, ours, theirs in (
            ("", "", old.outside, new.outside),
            ("-server", ", server's time", old.inside, new.inside),
        )
    ]


async def write_in_parallel(space: Space, tuples: Iterable[tuplespace.Tuple]) -> None:
    """Write all of these, a few batches at a time."""
    source = iter(tuples)

    async def write() -> None:
        while part := list(itertools.islice(source, BATCH)):
            await space.out_many(part)

    async with trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(write)


def functions_called(server: redis.Redis) -> tuple[int, int]:
    """How many calls of functions the server has done, and for how many microseconds."""
    statistic = server.info("commandstats").get("cmdstat_fcall", {"calls": 0, "usec": 0})
    return int(statistic["calls"]), int(statistic["usec"])


# Hand-over to another process


async def hand_over(bench: Bench) -> list[Row]:
    """From a writer to a taker that waits in another process."""
    return [*await hand_over_delays(bench), *await hand_over_calls(bench)]


async def hand_over_delays(bench: Bench) -> list[Row]:
    """From before the writer's call to after the taker's."""
    rounds, count = bench.sizes.rounds, bench.sizes.hand_overs
    with ExitStack() as stack:
        pipes = {
            way: stack.enter_context(child(receive, bench.node.url, way, rounds * count))
            for way in ("take", "in_", "blpop")
        }
        for _ in range(rounds):
            for way in pipes:
                await repeat(count, functools.partial(send, bench, way))
        delays = {way: sorted(await trio.to_thread.run_sync(pipe.recv)) for way, pipe in pipes.items()}
    rows = []
    for way, what in {"take": "take", "in_": "in_ (with its commit)"}.items():
        for measure, at, goal in (("median", 0.5, Goal("≤", 1)), ("p99", 0.99, None)):
            rows.append(
                Row(
                    f"hand-over-{way}-{measure}",
                    f"hand-over to a blocked {what}, {measure}",
                    quantile(delays[way], at) / 1e6,
                    "ms",
                    against="RPUSH to a blocked BLPOP",
                    theirs=quantile(delays["blpop"], at) / 1e6,
                    goal=goal,
                    judge="ours",
                )
            )
    return rows


async def send(bench: Bench, way: str) -> None:
    """Hand one over, once somebody waits for it."""
    if way == "blpop":
        await until_blocked(bench.server)
        bench.server.rpush("list", time.monotonic_ns())
    else:
        space = bench.client.space(way)
        await until_waiting(space, 1)
        await space.out("task", time.monotonic_ns())


def receive(pipe: Connection, url: str, way: str, count: int) -> None:
    """The other process: how many nanoseconds each tuple was under way."""
    if way == "blpop":
        with redis.Redis.from_url(url) as server:
            pipe.send([delay_of(server.blpop(["list"])[1]) for _ in range(count)])
    else:
        pipe.send(trio.run(receive_tuples, url, way, count))


async def receive_tuples(url: str, way: str, count: int) -> list[int]:
    """The same for our own ways of receiving; the clock is the machine's, the same in all processes."""
    delays = []
    async with tuplespace.connect(url) as client:
        space = client.space(way)
        for _ in range(count):
            if way == "take":
                async with space.take("task", int) as taken:
                    delays.append(delay_of(taken.tuple[1]))
            else:
                delays.append(delay_of((await space.in_("task", int))[1]))
    return delays


def delay_of(sent_ns: Any) -> int:
    """Nanoseconds since it was sent."""
    return time.monotonic_ns() - int(sent_ns)


async def hand_over_calls(bench: Bench) -> list[Row]:
    """Who calls the server how often for a hand-over: it counts all calls, and the writer its own.

    Some rounds contain the waiting client's heartbeat, once a second however many wait; the median has none.
    """
    rounds, count = bench.sizes.rounds, bench.sizes.hand_overs
    space = bench.client.space("held")
    await space.inp("nothing")  # opens the writer's session, which is a call too
    writing, receiving, committing = [], [], []
    with child(hold, bench.node.url, rounds, count) as pipe:
        for _ in range(rounds):
            await until_waiting(space, count)
            own = (await space.statistics()).calls
            total, _ = functions_called(bench.server)
            for number in range(count):
                await space.out("task", number)
            assert await trio.to_thread.run_sync(pipe.recv) == count
            received, _ = functions_called(bench.server)
            writes = (await space.statistics()).calls - own - 1  # without this question
            pipe.send("commit")
            assert await trio.to_thread.run_sync(pipe.recv) == "committed"
            committed, _ = functions_called(bench.server)
            writing.append(writes / count)
            receiving.append((received - total - writes) / count)
            committing.append((committed - received - 1) / count)
            pipe.send("again")
    return [
        Row(name, what, statistics.median(calls), "calls", goal=goal, judge="ours")
        for name, what, calls, goal in (
            ("hand-over-writer-calls", "hand-over: calls by the writer", writing, Goal("=", 1)),
            ("hand-over-taker-calls", "hand-over: calls by the taker to receive", receiving, Goal("=", 0)),
            ("hand-over-commit-calls", "after it: calls by the taker to commit", committing, None),
        )
    ]


def hold(pipe: Connection, url: str, rounds: int, count: int) -> None:
    """The other process: as many takers as tuples, which keep what they get until told to commit."""
    trio.run(hold_tuples, pipe, url, rounds, count)


async def hold_tuples(pipe: Connection, url: str, rounds: int, count: int) -> None:
    """See `hold`."""
    async with tuplespace.connect(url) as client:
        for _ in range(rounds):
            await hold_round(client.space("held"), pipe, count)
            pipe.send("committed")
            await trio.to_thread.run_sync(pipe.recv)


async def hold_round(space: Space, pipe: Connection, count: int) -> None:
    """One round of it."""
    committing, all_there, there = trio.Event(), trio.Event(), itertools.count(1)

    async def hold_one() -> None:
        async with space.take("task", int):
            if next(there) == count:
                all_there.set()
            await committing.wait()

    async with trio.open_nursery() as nursery:
        for _ in range(count):
            nursery.start_soon(hold_one)
        await all_there.wait()
        pipe.send(count)
        await trio.to_thread.run_sync(pipe.recv)
        committing.set()


@contextmanager
def child(target: Callable[..., None], *arguments: object) -> Iterator[Connection]:
    """Another process for the length of the block, and a pipe to it."""
    here, there = _SPAWN.Pipe()
    process = _SPAWN.Process(target=target, args=(there, *arguments), daemon=True)
    process.start()
    there.close()
    try:
        yield here
        process.join(_PATIENCE_S)
    finally:
        process.kill()
        process.join()
        here.close()


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Ask a server until it is so; servers have nobody who would tell."""
    with trio.fail_after(_PATIENCE_S):
        while not await condition():  # noqa: ASYNC110
            await trio.sleep(0.001)


async def until_waiting(space: Space, count: int) -> None:
    """Wait until so many takers are in line."""

    async def waiting() -> bool:
        return (await space.statistics()).takers == count

    await until(waiting)


async def until_blocked(server: redis.Redis) -> None:
    """Wait until a client is blocked in one of the server's own commands."""

    async def blocked() -> bool:
        return bool(server.info("clients")["blocked_clients"])

    await until(blocked)


def quantile(ordered: Sequence[float], at: float) -> float:
    """The value that this part of all do not exceed."""
    return ordered[math.ceil(at * len(ordered)) - 1]


# Memory

_INDEXED: Final = (1, 2, 3)
_FEW: Final = 10


async def memory(bench: Bench) -> list[Row]:
    """Bytes that a waiting tuple costs, by what was declared and asked by."""
    return [
        await memory_row(bench, declared, values, asked)
        for declared, values, asked in (
            (0, "few", "single"),
            *itertools.product((1, 2, 3), ("few", "distinct"), ("single",)),
            *itertools.product((2, 3), ("distinct",), ("every",)),
        )
    ]


async def memory_row(bench: Bench, declared: int, values: str, asked: str) -> Row:
    """The memory of tuples with so many declared fields, all asked by before they were written."""
    name = f"memory-{declared}" + (f"-{values}" if declared else "") + ("-every" if asked == "every" else "")
    space = bench.client.space(name, index={"task": _INDEXED[:declared]})
    for given in asked_by(declared, asked):
        template = ("task", *("none" if at in given else str for at in _INDEXED), bytes)
        assert await space.inp(*template) is None
    await write_in_parallel(space, memory_tuples(values, BATCH))
    async with space.take("task", str, str, str, bytes, many=BATCH) as taken:
        assert len(taken) == BATCH
    before = used_memory(bench.server)
    await write_in_parallel(space, memory_tuples(values, bench.sizes.waiting))
    used = used_memory(bench.server) - before
    bench.server.execute_command("FLUSHALL", "SYNC")  # else it is freed while the next is measured
    kinds = {"few": f"{_FEW} values", "distinct": "all distinct"}[values]
    ways = {"single": "", "every": ", asked by all combinations"}[asked]
    return Row(
        name,
        f"memory, {declared} declared" + (f" ({kinds}{ways})" if declared else ""),
        used / bench.sizes.waiting,
        "B",
        goal=Goal("≤", 400 + 130 * declared) if asked == "single" else None,
        judge="ours",
    )


def asked_by(declared: int, asked: str) -> list[tuple[int, ...]]:
    """The sets of fields that templates give: each declared field alone, or every combination."""
    longest = 1 if asked == "single" else declared
    fields = _INDEXED[:declared]
    return [c for length in range(1, longest + 1) for c in itertools.combinations(fields, length)]


def memory_tuples(values: str, count: int) -> Iterator[tuplespace.Tuple]:
    """Tuples of 100 bytes with three fields that can be declared."""

    def fields(n: int) -> tuple[str, ...]:
        if values == "few":
            return tuple(f"{at} {n % _FEW}" for at in _INDEXED)
        return tuple(f"{at} {n:016}" for at in _INDEXED)

    pad = sized("task", *fields(0))[-1]
    for n in range(count):
        yield "task", *fields(n), pad


def used_memory(server: redis.Redis) -> int:
    """Bytes that the server has allocated."""
    return int(server.info("memory")["used_memory"])


# The run

MEASUREMENTS: Final[Mapping[str, Callable[[Bench], Awaitable[list[Row]]]]] = {
    "out_many": out_many,
    "take_many": take_many,
    "out": single_out,
    "in": single_in,
    "aged": aged,
    "hand-over": hand_over,
    "memory": memory,
}


def measure(binary: str, name: str, sizes: Sizes) -> list[Row]:
    """One measurement on a new server."""

    async def run(node: Node) -> list[Row]:
        with node.client(decode_responses=False, socket_timeout=None) as server:
            async with tuplespace.connect(node.url) as client:
                return await MEASUREMENTS[name](Bench(node, server, client, sizes))

    with redis_server(binary, appendonly=True, extra=["auto-aof-rewrite-percentage 0"]) as node:
        return trio.run(run, node)


def version(binary: str) -> str:
    """What the server calls itself."""
    with redis_server(binary) as node, node.client() as server:
        facts = server.info("server")
    return str(facts.get("valkey_version", facts["redis_version"]))


def machine() -> dict[str, str | int | float]:
    """What one must know of the machine to read the numbers."""
    return {
        "cores": len(os.sched_getaffinity(0)),
        "load": round(os.getloadavg()[0], 2),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "trio": importlib.metadata.version("trio"),
        "redis-py": importlib.metadata.version("redis"),
    }


_COLUMNS: Final = "{:<64} {:>12}  {:<26} {:>12} {:>7}  {:<8} {}"


def line(row: Row) -> str:
    """A row as the table shows it."""
    theirs = "" if row.theirs is None else amount(row.theirs, row.unit)
    ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
    goal = "" if row.goal is None else str(row.goal)
    reached = {None: "", True: "yes", False: "NO"}[row.reached]
    return _COLUMNS.format(
        row.what, amount(row.ours, row.unit), row.against, theirs, ratio, goal, reached
    ).rstrip()


def amount(value: float, unit: str) -> str:
    """A number with its unit."""
    match unit:
        case "/s":
            return f"{value:,.0f}/s"
        case "ms":
            return f"{value:.3f} ms"
        case "calls":
            return f"{value:.2f}"
        case _:
            return f"{value:,.0f} {unit}"


def record(row: Row) -> dict[str, object]:
    """A row for machines."""
    return {
        "name": row.name,
        "what": row.what,
        "ours": row.ours,
        "unit": row.unit,
        "against": row.against or None,
        "theirs": row.theirs,
        "ratio": row.ratio,
        "goal": None if row.goal is None else str(row.goal),
        "reached": row.reached,
    }


def print_tables(servers: Sequence[str], names: Sequence[str], sizes: Sizes) -> None:
    """Measure and show each row as soon as it is there."""
    started = time.monotonic()
    print(", ".join(f"{fact} {value}" for fact, value in machine().items()))
    for server in servers:
        print(f"\n{server} {version(server)}, TCP loopback, append-only file with fsync every second\n")
        print(_COLUMNS.format("what", "ours", "compared with", "theirs", "ratio", "goal", "reached"))
        rows = []
        for name in names:
            found = measure(server, name, sizes)
            print("\n".join(map(line, found)), flush=True)
            rows += found
        judged = [row for row in rows if row.goal is not None]
        missed = [row.name for row in judged if not row.reached]
        print(f"\n{len(judged) - len(missed)} of {len(judged)} goals reached" + missing(missed))
    print(f"\n{time.monotonic() - started:.0f} s in all")


def missing(names: Sequence[str]) -> str:
    """The end of the sentence that says how many goals were reached."""
    return f"; missed: {', '.join(names)}" if names else ""


def print_json(servers: Sequence[str], names: Sequence[str], sizes: Sizes) -> None:
    """Measure everything, then print one object."""
    started = time.monotonic()
    report = {
        "machine": machine(),
        "servers": {
            server: {
                "version": version(server),
                "rows": [record(row) for name in names for row in measure(server, name, sizes)],
            }
            for server in servers
        },
        "seconds": round(time.monotonic() - started, 1),
    }
    print(json.dumps(report, indent=2, ensure_ascii=False))


def main() -> None:
    """The command line."""
    found = sorted(binaries(), reverse=True)
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tuplespace", description=SUMMARY)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    parser.add_argument("--quick", action="store_true", help="only see that it runs: no numbers to trust")
    parser.add_argument("--server", choices=[*found, "all"], default="all")
    parser.add_argument("--only", nargs="+", choices=MEASUREMENTS, metavar="NAME", default=[*MEASUREMENTS])
    options = parser.parse_args()
    servers = found if options.server == "all" else [options.server]
    show = print_json if options.json else print_tables
    show(servers, options.only, QUICK if options.quick else FULL)


if __name__ == "__main__":
    main()
