"""Random sequences of all operations agree, step by step, with a plain list of tuples.

Both the in-memory space and a real server run on a clock that only the test moves: trio's mock clock, and
in the server functions a field of the space in place of TIME. So leases and times to live end exactly when
the model says. No two ends ever coincide: steps of the clock are multiples of 1,024 ms, and every lease and
every time to live has a remainder of its own.
"""

from __future__ import annotations

import contextlib
import itertools
import secrets
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import hypothesis
import pytest
import trio
import trio.testing
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import tuplespace
from tests import servers
from tests.conftest import SetClock
from tests.effort import examples
from tuplespace import (
    ANY,
    DEAD_LETTER,
    Fence,
    Fenced,
    LeaseLost,
    Space,
    Spaces,
    Tuple,
    memory,
)
from tuplespace.pump import Call
from tuplespace.remote import RemoteBackend
from tuplespace.space import Taken
from tuplespace.testing.stage import Stage, hold, listed

EXAMPLES = examples(40)
STEP_MS = 1024
INDEX = {"a": (1, 2), "b": ()}

# The model


def equal(one: object, other: object) -> bool:
    """Equality that includes the type, at every depth."""
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(equal, one, other))
    return type(one) is type(other) and one == other


def fits(template: Sequence[Any], fields: Tuple) -> bool:
    """Whether a template matches, told as plainly as possible."""

    def field_fits(wanted: Any, value: object) -> bool:
        return wanted is ANY or (type(value) is wanted if isinstance(wanted, type) else equal(wanted, value))

    return len(template) == len(fields) and all(map(field_fits, template, fields))


@dataclass(eq=False)
class Entry:
    """A tuple in the model's bag."""

    fields: Tuple
    expires: int | None = None
    tries: int = 0
    lease: Lease | None = None


@dataclass(eq=False)
class Lease:
    """What a taker holds."""

    length: int
    max_deliveries: int | None
    ends: int = 0


@dataclass(eq=False)
class Waiter:
    """Somebody in line, with the task that waits on the space under test."""

    template: tuple[Any, ...]
    lease: Lease | None
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    expected: Entry | None = None
    tries: int = 0
    got: Taken | Tuple | None = None


@dataclass
class Model:
    """A bag as a list, oldest first."""

    now: int = 0
    entries: list[Entry] = field(default_factory=list)
    line: list[Waiter] = field(default_factory=list)
    served: list[Waiter] = field(default_factory=list)
    highest: int = 0

    def waiting(self, template: Sequence[Any]) -> list[Entry]:
        return [e for e in self.entries if e.lease is None and fits(template, e.fields)]

    def write(self, fields: Tuple, ttl: int | None = None) -> None:
        entry = Entry(fields, None if ttl is None else self.now + ttl)
        self.entries.append(entry)
        self.offer(entry)

    def offer(self, entry: Entry) -> None:
        for waiter in [w for w in self.line if fits(w.template, entry.fields)]:
            if waiter.lease is None:
                self.serve(waiter, entry)
        takers = [w for w in self.line if fits(w.template, entry.fields)]
        if takers:
            self.serve(takers[0], entry)

    def serve(self, waiter: Waiter, entry: Entry) -> None:
        self.line.remove(waiter)
        waiter.expected, waiter.tries = entry, entry.tries
        if waiter.lease is not None:
            self.grant(entry, waiter.lease)
        self.served.append(waiter)

    def grant(self, entry: Entry, lease: Lease) -> None:
        entry.lease = lease
        lease.ends = self.now + lease.length

    def held(self, lease: Lease) -> list[Entry]:
        return [e for e in self.entries if e.lease is lease]

    def give_back(self, lease: Lease) -> None:
        for entry in self.held(lease):
            entry.lease = None
            entry.tries += 1
            if entry.expires is not None and entry.expires <= self.now:
                self.entries.remove(entry)
            elif lease.max_deliveries is not None and entry.tries >= lease.max_deliveries:
                self.entries.remove(entry)
                self.write((DEAD_LETTER, entry.fields, entry.tries))
            else:
                self.offer(entry)

    def advance(self, milliseconds: int) -> None:
        self.now += milliseconds
        while due := self._due():
            _, what = min(due, key=lambda pair: pair[0])
            if isinstance(what, Lease):
                self.give_back(what)
            else:
                self.entries.remove(what)

    def _due(self) -> list[tuple[int, Lease | Entry]]:
        leases = {e.lease for e in self.entries if e.lease is not None}
        ends: list[tuple[int, Lease | Entry]] = [(x.ends, x) for x in leases if x.ends <= self.now]
        ends += [
            (e.expires, e)
            for e in self.entries
            if e.lease is None and e.expires is not None and e.expires <= self.now
        ]
        return ends


# What is compared with it


@dataclass
class World:
    """How to make the space under test, and how to move its server's clock."""

    make: Callable[[], AbstractAsyncContextManager[Spaces]]
    set_clock: Callable[[str, int], None] = lambda name, now: None
    patience_s: float = 0.5  # everything has happened already


class Loop:
    """A trio loop in a thread of its own, on a mock clock, with two clients of one server."""

    def __init__(self, world: World, name: str) -> None:
        self.clock = trio.testing.MockClock()
        self._world = world
        self._name = name
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        self._ready.wait()

    def _run(self) -> None:
        try:
            trio.run(self._main, clock=self.clock)
        except BaseException as error:  # noqa: BLE001 - it is raised where the test can see it
            self._failure = error
        finally:
            self._ready.set()

    async def _main(self) -> None:
        async with self._world.make() as one, self._world.make() as two, trio.open_nursery() as nursery:
            stages = [Stage(client, client, self._world.make, self._name) for client in (one, two)]
            self.spaces = [stage.unrenewed(INDEX) for stage in stages]
            self.nursery, self._token, self._stop = nursery, trio.lowlevel.current_trio_token(), trio.Event()
            self._ready.set()
            await self._stop.wait()
            nursery.cancel_scope.cancel()

    def do(self, ask: Callable[..., Awaitable[Any]], *arguments: Any, **options: Any) -> Any:
        """Run a call in the loop and wait for it."""
        return trio.from_thread.run(partial(ask, *arguments, **options), trio_token=self._token)

    def start(self, task: Callable[..., Awaitable[object]], *arguments: Any) -> None:
        """Start a task and let it come as far as it can."""

        async def begin() -> None:
            self.nursery.start_soon(task, *arguments)
            await trio.testing.wait_all_tasks_blocked()

        self.do(begin)

    def close(self) -> None:
        with contextlib.suppress(trio.RunFinishedError):
            trio.from_thread.run_sync(self._stop.set, trio_token=self._token)
        self._thread.join()
        if self._failure is not None:
            raise self._failure


# Sequences of operations

scalars: st.SearchStrategy[Any] = st.sampled_from(
    [0, 1, True, 1.0, "s", "more than fifteen bytes of text", None, (1, "n")]
)
tuples: st.SearchStrategy[Tuple] = st.one_of(
    st.tuples(st.just("a"), scalars, scalars),
    st.tuples(st.just("a"), scalars),
    st.tuples(st.just("b"), scalars),
    st.just(("b",)),
)
formals: st.SearchStrategy[Any] = st.sampled_from([ANY, ANY, int, str, type(None)])
templates: st.SearchStrategy[tuple[Any, ...]] = st.one_of(
    st.tuples(st.just("a"), scalars | formals, scalars | formals),
    st.tuples(st.just("a"), scalars | formals),
    st.tuples(st.just("b"), formals),
    st.just(("b",)),
    st.just((DEAD_LETTER, tuple, int)),
)
lengths = st.integers(0, 6)
limits = st.sampled_from([None, None, 1, 2])
clients = st.integers(0, 1)


class Comparison(RuleBasedStateMachine):
    """One run of both, compared after every step."""

    world: ClassVar[World]

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.name = secrets.token_hex(8)
        self.remainders = itertools.count(1)
        self.held: list[tuple[Taken, Lease]] = []
        self.world.set_clock(self.name, 0)
        self.loop = Loop(self.world, self.name)
        self.repeats = False

    def teardown(self) -> None:
        self.loop.close()

    def space(self, at: int) -> Space:
        return self.loop.spaces[at]

    def length(self, steps: int) -> int:
        """A time that ends when nothing else does."""
        return steps * STEP_MS + next(self.remainders)

    @initialize(repeats=st.booleans())
    def begin(self, *, repeats: bool) -> None:
        """In some runs every guarded request is delivered twice."""
        self.repeats = repeats
        for space in self.loop.spaces:
            backend = space.backend._backend  # type: ignore[attr-defined]
            if repeats and isinstance(backend, RemoteBackend):
                setattr(backend._carrier, "ask", repeating(backend._carrier.ask))  # noqa: B010 - not to be typed

    # Writing

    @rule(at=clients, fields=tuples, ttl=st.none() | lengths)
    def out(self, at: int, fields: Tuple, ttl: int | None) -> None:
        lasts = None if ttl is None else self.length(ttl)
        self.loop.do(self.space(at).out, *fields, ttl=None if lasts is None else lasts / 1000)
        self.model.write(fields, lasts)

    @rule(at=clients, many=st.lists(tuples, max_size=5))
    def out_many(self, at: int, many: list[Tuple]) -> None:
        assert self.loop.do(self.space(at).out_many, many) == len(many)
        for fields in many:
            self.model.write(fields)

    @rule(at=clients, fields=tuples, token=st.integers(1, 5))
    def out_fenced(self, at: int, fields: Tuple, token: int) -> None:
        write = partial(self.space(at).out, *fields, fence=Fence("boss", token))
        if token < self.model.highest:
            with pytest.raises(Fenced):
                self.loop.do(write)
        else:
            self.loop.do(write)
            self.model.highest = token
            self.model.write(fields)

    @rule(at=clients, template=templates, fields=tuples)
    def swap(self, at: int, template: tuple[Any, ...], fields: Tuple) -> None:
        found = self.model.waiting(template)
        old = self.loop.do(self.space(at).swap, template, fields)
        assert equal(old, found[0].fields if found else None)
        if found:
            self.model.entries.remove(found[0])
            self.model.write(fields)

    # Reading and taking for good

    @rule(at=clients, template=templates)
    def rdp(self, at: int, template: tuple[Any, ...]) -> None:
        found = self.model.waiting(template)
        assert equal(self.loop.do(self.space(at).rdp, *template), found[0].fields if found else None)

    @rule(at=clients, template=templates)
    def inp(self, at: int, template: tuple[Any, ...]) -> None:
        found = self.model.waiting(template)
        assert equal(self.loop.do(self.space(at).inp, *template), found[0].fields if found else None)
        if found:
            self.model.entries.remove(found[0])

    @rule(at=clients, template=templates)
    def count(self, at: int, template: tuple[Any, ...]) -> None:
        assert self.loop.do(self.space(at).count, *template) == len(self.model.waiting(template))

    # Leases

    @rule(at=clients, template=templates, steps=lengths, many=st.integers(1, 3), limit=limits)
    def take(self, at: int, template: tuple[Any, ...], steps: int, many: int, limit: int | None) -> None:
        lease = Lease(self.length(steps), limit)
        taken = self.loop.do(
            partial(hold, self.space(at), *template, many=many, wait=False),
            lease=max(lease.length / 1000, 0.01),
            max_deliveries=limit,
        )
        lease.length = max(lease.length, 10)
        found = self.model.waiting(template)[:many]
        assert equal(tuple(taken), tuple(e.fields for e in found))
        assert taken.deliveries == [e.tries + 1 for e in found]
        for entry in found:
            self.model.grant(entry, lease)
        if found:
            self.held.append((taken, lease))

    @precondition(lambda self: self.held)
    @rule(data=st.data(), out=st.lists(tuples, max_size=2))
    def commit(self, data: st.DataObject, out: list[Tuple]) -> None:
        taken, lease = self.pick(data)
        found = self.model.held(lease)
        if found:
            self.loop.do(taken.commit, out)
            for entry in found:
                self.model.entries.remove(entry)
            for fields in out:
                self.model.write(fields)
        else:
            with pytest.raises(LeaseLost):
                self.loop.do(taken.commit, out)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def give_back(self, data: st.DataObject) -> None:
        taken, lease = self.pick(data)
        trio.from_thread.run_sync(taken.give_back, trio_token=self.loop._token)
        self.model.give_back(lease)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def crash(self, data: st.DataObject) -> None:
        """The holder is never heard of again."""
        self.pick(data)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def renew(self, data: st.DataObject) -> None:
        taken, lease = data.draw(st.sampled_from(self.held))
        backend = taken._space.backend._backend  # type: ignore[attr-defined]
        self.loop.do(backend.renew, [taken._grant])
        alive = bool(self.model.held(lease))
        assert taken.lost is not alive
        if alive:
            lease.ends = self.model.now + lease.length

    def pick(self, data: st.DataObject) -> tuple[Taken, Lease]:
        chosen = data.draw(st.sampled_from(self.held))
        self.held.remove(chosen)
        return chosen

    # Waiting

    @precondition(lambda self: len(self.model.line) < 6)
    @rule(at=clients, template=templates, steps=lengths, limit=limits, reads=st.booleans())
    def wait(self, at: int, template: tuple[Any, ...], steps: int, limit: int | None, *, reads: bool) -> None:
        lease = None if reads else Lease(max(self.length(steps), 10), limit)
        waiter = Waiter(template, lease)
        space = self.space(at)

        async def stand() -> None:
            with waiter.scope:
                if lease is None:
                    waiter.got = await space.rd(*template)
                else:
                    waiter.got = await hold(space, *template, lease=lease.length / 1000, max_deliveries=limit)

        self.loop.start(stand)
        self.model.line.append(waiter)
        found = self.model.waiting(template)
        if found:
            self.model.serve(waiter, found[0])
        self.settle()

    @precondition(lambda self: self.model.line)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        waiter = data.draw(st.sampled_from(self.model.line))
        trio.from_thread.run_sync(waiter.scope.cancel, trio_token=self.loop._token)
        self.model.line.remove(waiter)
        self.settle()

    # Time

    @rule(steps=st.integers(1, 6))
    def pass_time(self, steps: int) -> None:
        self.model.advance(steps * STEP_MS)
        self.world.set_clock(self.name, self.model.now)
        self.loop.clock.jump(steps * STEP_MS / 1000)
        self.loop.do(self.space(0).count, "b")  # does what is due

    # What must hold after every step

    @invariant()
    def agree(self) -> None:
        self.settle()
        for tag, shapes in {"a": 2, "b": 1, DEAD_LETTER: 2}.items():
            for length in range(shapes + 1):
                template: tuple[Any, ...] = (tag, *[ANY] * length)
                found = self.loop.do(listed, self.space(0).scan(*template))
                assert equal(tuple(found), tuple(e.fields for e in self.model.waiting(template)))

    def settle(self) -> None:
        """Wait until all who should be served are, and the space counts what the model counts."""
        deadline = time.monotonic() + self.world.patience_s
        while self.model.served or self.counted() != self.expected():
            for waiter in [w for w in self.model.served if w.got is not None]:
                self.model.served.remove(waiter)
                self.check_served(waiter)
            if time.monotonic() > deadline:
                raise AssertionError(f"{self.counted()} instead of {self.expected()}, {self.model.served}")
        assert [w for w in self.model.line if w.got is not None] == []

    def check_served(self, waiter: Waiter) -> None:
        assert waiter.expected is not None
        if isinstance(waiter.got, Taken):
            assert equal(waiter.got.tuple, waiter.expected.fields)
            assert waiter.got.deliveries == [waiter.tries + 1]
            assert waiter.lease is not None
            self.held.append((waiter.got, waiter.lease))
        else:
            assert equal(waiter.got, waiter.expected.fields)

    def counted(self) -> tuple[int, ...]:
        now = self.loop.do(self.space(0).statistics)
        return now.waiting, now.leased, now.leases, now.takers, now.readers

    def expected(self) -> tuple[int, ...]:
        entries, line = self.model.entries, self.model.line
        leases = [e.lease for e in entries if e.lease is not None]
        takers = sum(w.lease is not None for w in line)
        return len(entries) - len(leases), len(leases), len(set(leases)), takers, len(line) - takers


def repeating(ask: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """Deliver every guarded request a second time, as after a lost reply, and go by the second answer.

    That may be to ask anew, which would never end if all was repeated.
    """

    async def asked(call: Call, **options: Any) -> Any:
        reply = await ask(call, **options)
        if call.flag_at is None or isinstance(reply, Exception):
            return reply
        again = Call(call.data, call.flag_at, key=call.key)
        again.repeat()
        second = await ask(again, **options)
        is_again = isinstance(second, list) and second[:1] == [b"again"]
        return reply if is_again else second

    return asked


def check(world: World, examples: int, phases: Sequence[hypothesis.Phase] = tuple(hypothesis.Phase)) -> None:
    """Try so many sequences."""
    machine = type("Compared", (Comparison,), {"world": world})
    run_state_machine_as_test(
        machine,
        settings=hypothesis.settings(
            max_examples=examples,
            stateful_step_count=40,
            deadline=None,
            phases=phases,
            suppress_health_check=list(hypothesis.HealthCheck),
        ),
    )


@pytest.mark.uncounted
def test_memory() -> None:
    """The in-memory space does what a plain list would."""
    check(World(partial(memory.connect, memory.Server())), EXAMPLES)


@pytest.fixture
def server_world(server: servers.Node, set_clock: SetClock) -> World:
    """A real server whose clock is set by the test."""

    def set_for(name: str, now: int) -> None:
        set_clock(server, name, now)

    return World(partial(tuplespace.connect, server.url, timeout=None), set_for, 10.0)


def test_server(server_world: World) -> None:
    """A space on a real server does what a plain list would, also when every request is repeated."""
    # Every attempt at a shorter example would wait in vain for what does not happen.
    check(
        server_world,
        EXAMPLES // 2,
        [phase for phase in hypothesis.Phase if phase is not hypothesis.Phase.shrink],
    )
