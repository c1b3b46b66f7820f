"""A space on a server: sessions, slots, waiting, and the heartbeat that makes hand-overs certain.

A session has slots, and each slot has one request under way at most. A request carries its slot and
its number there; the server keeps the last answer of every slot. So a request that is sent again
because its answer was lost gets the first answer, and one that arrives late is refused.

Somebody who waits is told by mail, which is a hint. Once a second the client asks after all who
wait: what was handed over but not heard of is repeated, and who has fallen out of line joins again
in the old place.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import secrets
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Literal

import msgpack
import outcome
import redis.exceptions as remote_errors
import trio

from tuplespace import wire
from tuplespace.backend import Delivery, Event, Fence, Grant, Statistics, Tenure, Terms
from tuplespace.carrier import Carrier, Subscription
from tuplespace.combiner import Caller, Combiner
from tuplespace.errors import (
    AccessDenied,
    ClientClosed,
    Fenced,
    IndexMismatch,
    LeaseLost,
    OutcomeUnknown,
    ServerError,
    TemplateError,
    TupleSpaceError,
    Unavailable,
    Unreadable,
)
from tuplespace.fields import Item, Template, Tuple, readable
from tuplespace.pump import Call

SLOTS: Final = 512
_TICK_S: Final = 1.0
_NAMES_PER_CALL: Final = 200
_TOGETHER: Final = 100
_COMBINERS: Final = 256
_TOGETHER_BYTES: Final = 64 << 10


@dataclass(eq=False)
class Session:
    """The slots of one session: which are free, and how many requests each has carried."""

    name: bytes
    used: int = 0
    _free: list[int] = field(default_factory=list)
    _sequences: list[int] = field(default_factory=list)
    _lot: trio.lowlevel.ParkingLot = field(default_factory=trio.lowlevel.ParkingLot)

    async def acquire(self) -> int:
        """A free slot; the lowest that was used before, so that few are ever used."""
        while not self._free:
            if self.used < SLOTS:
                self.used += 1
                self._sequences.append(0)
                return self.used - 1
            await self._lot.park()
        return self._free.pop()

    def next_number(self, slot: int) -> int:
        """The number of the next request in a slot."""
        self._sequences[slot] += 1
        return self._sequences[slot]

    def release(self, slot: int) -> None:
        """The slot's request is answered or given up; the next number makes the server refuse a late one."""
        self._free.append(slot)
        self._lot.unpark()


@dataclass(eq=False, slots=True)
class Attempt:
    """Something that several tasks wait for; `failure` when it failed."""

    over: trio.Event = field(default_factory=trio.Event)
    failure: TupleSpaceError | None = None


@dataclass(eq=False, slots=True)
class Waiter:
    """A task that may have to wait. `settled` when it has something, or must ask anew, or has failed."""

    template: Template
    in_line: bool = False
    delivery: Delivery | None = None
    unreadable: bool = False
    """Whether it was handed something that is no tuple, or not the one that it waits for."""
    failure: TupleSpaceError | None = None
    settled: trio.Event = field(default_factory=trio.Event)

    def settle(self, *, delivery: Delivery | None = None, failure: TupleSpaceError | None = None) -> None:
        """Wake the task, once."""
        if not self.settled.is_set():
            self.delivery, self.failure = delivery, failure
            self.settled.set()

    def hand(self, payload: object, tries: int) -> None:
        """Wake the task, once, with what the server says was handed over."""
        if not self.settled.is_set():
            fields = self.template.read(payload)
            self.unreadable = fields is None
            self.settle(delivery=None if fields is None else Delivery(fields, tries))


class RemoteBackend:
    """One client's view of one space on a server."""

    def __init__(self, carrier: Carrier, name: str) -> None:
        self._carrier = carrier
        self._space = name
        self._format = wire.Calls(name)
        self._key = self._format.key
        self._mailbox = secrets.token_bytes(8)
        self._numbers = itertools.count(1)
        self._session: Session | None = None
        self._opening: Attempt | None = None
        self._waiters: dict[bytes, Waiter] = {}
        self._granted: set[bytes] = set()
        self._listeners: list[Callable[[Event], None]] = []
        self._listening: dict[bytes, Attempt] = {}
        self._ticking = False
        self._tick_now = trio.Event()
        self._outs = Combiner(self.spawn, self._out_alone, self._out_together, _fitting)
        self._removes: dict[Template, Combiner] = {}
        self.unreadable = 0

    async def out(self, items: Sequence[Item], fence: Fence | None) -> None:
        arguments = wire.tuples(items)
        if fence is None:
            await self._outs.ask(arguments)
        else:
            await self._guarded("out", [wire.fence(fence), *arguments])

    async def _out_alone(self, arguments: list[bytes]) -> None:
        await self._guarded("out", [b"", *arguments])

    async def _out_together(self, callers: list[Caller]) -> None:
        """Write what several callers write, in one step; if that is refused, each for itself."""
        try:
            await self._guarded("out", [b"", *itertools.chain.from_iterable(c.request for c in callers)])
        except Unavailable as error:
            for caller in callers:
                caller.answer(outcome.Error(type(error)(str(error))))
        except TupleSpaceError:
            for caller in callers:
                try:
                    await self._out_alone(caller.request)
                except TupleSpaceError as error:
                    caller.answer(outcome.Error(error))
                else:
                    caller.answer(outcome.Value(None))
        else:
            for caller in callers:
                caller.answer(outcome.Value(None))

    async def take(self, template: Template, many: int, terms: Terms, *, wait: bool) -> Grant | None:
        arguments = [
            wire.terms(terms), *wire.bucket(template), b"%d" % many, b"1" if wait else b"",
        ]  # fmt: skip
        declared = (*wire.declaration(template), b"%d" % template.longest)
        if wait:
            await self._listen(b"mail:" + self._mailbox, self._heard_mail)
        turn = b""
        while True:
            with self._waiter(template) as (name, waiter):
                reply = await self._guarded("take", [name, *arguments, turn, *declared])
                self.unreadable += reply[1]
                if reply[0] == b"got":
                    deliveries = wire.deliveries(reply[4:], template)
                    # What cannot be read is held with the rest, and leaves the space with it.
                    self.unreadable += len(reply[4:]) // 2 - len(deliveries)
                    if deliveries:
                        grant = self._grant(name, deliveries, terms)
                        grant.tenure = wire.tenure(reply[2], reply[3])
                        return grant
                    await self._drop(name)
                elif reply[0] == b"none":
                    return None
                elif reply[0] == b"wait":
                    turn = reply[2]
                    delivery = await self._wait(waiter)
                    if delivery is not None:
                        return self._grant(name, [delivery], terms)
                    if waiter.unreadable:
                        self.unreadable += 1
                        await self._drop(name)

    async def _drop(self, name: bytes) -> None:
        """Remove what a lease holds: nobody could read it, and given back it would come again and again."""
        await self._guarded("commit", [b"", name])

    async def remove(self, template: Template) -> Tuple | None:
        combiner = self._removes.get(template)
        if combiner is None:
            if len(self._removes) >= _COMBINERS:
                self._removes = {t: c for t, c in self._removes.items() if not c.idle}
            arguments = [*wire.bucket(template), *wire.declaration(template), b"%d" % template.longest]
            combiner = self._removes[template] = Combiner(
                self.spawn,
                partial(self._remove_alone, arguments),
                partial(self._remove_together, arguments),
                lambda waiting: min(len(waiting), _TOGETHER),
            )
        while (payload := await combiner.ask(None)) is not None:
            fields = template.read(payload)
            if fields is not None:
                return fields
            self.unreadable += 1
        return None

    async def _remove_alone(self, arguments: list[bytes], _: None) -> bytes | None:
        while True:
            reply = await self._guarded("remove", [b"1", *arguments], undo=True)
            self.unreadable += reply[1]
            if reply[0] != b"again":
                payload: bytes | None = reply[2] if len(reply) > 2 else None
                return payload

    async def _remove_together(self, arguments: list[bytes], callers: list[Caller]) -> None:
        """Take for several callers at once; what is taken for one who has left goes to the next, or back."""

        def hand_out(reply: Any) -> int:
            self.unreadable += reply[1]
            payloads = deque(reply[2:])
            for caller in callers:
                if payloads and not caller.left:
                    caller.answer(outcome.Value(payloads.popleft()))
                elif reply[0] == b"none":
                    caller.answer(outcome.Value(None))
            return len(payloads)

        while waiting := [c for c in callers if not c.left]:
            try:
                await self._guarded(
                    "remove", [b"%d" % len(waiting), *arguments], undo=True, hand_out=hand_out
                )
            except TupleSpaceError as error:
                for caller in waiting:
                    caller.answer(outcome.Error(type(error)(str(error))))

    async def read(self, template: Template, *, wait: bool) -> Tuple | None:
        if not wait:
            found: list[Tuple] = []
            place: bytes | None = b""
            while not found and place is not None:
                found, place = await self._read_page(template, place, 1)
            return found[0] if found else None
        await self._listen(b"mail:" + self._mailbox, self._heard_mail)
        after = turn = b""
        while True:
            with self._waiter(template) as (name, waiter):
                reply = await self._asked_read(template, after, 1, name, turn)
                if reply[0] == b"got":
                    fields = template.read(reply[2])
                    if fields is not None:
                        return fields
                if reply[0] != b"wait":
                    after = reply[1]
                    continue
                after, turn = b"", reply[1]
                delivery = await self._wait(waiter)
                if delivery is not None:
                    return delivery.fields

    async def page(self, template: Template, after: bytes, limit: int) -> tuple[list[Tuple], bytes | None]:
        return await self._read_page(template, after, limit)

    async def _read_page(
        self, template: Template, after: bytes, limit: int
    ) -> tuple[list[Tuple], bytes | None]:
        while True:
            reply = await self._asked_read(template, after, limit, b"", b"")
            if reply[0] == b"none":
                return [], None
            if reply[0] == b"got":
                read = map(template.read, reply[2::2])
                return [fields for fields in read if fields is not None], reply[-2]
            after = reply[1]

    async def _asked_read(
        self, template: Template, after: bytes, limit: int, name: bytes, turn: bytes
    ) -> Any:
        terms = wire.terms(Terms(0.0))
        where, longest = wire.bucket(template), b"%d" % template.longest
        return await self._ask(
            "read", [*where, b"%d" % limit, after, *wire.declaration(template), name, terms, turn, longest]
        )

    async def count(self, template: Template) -> int:
        while True:
            total, unswept = await self._ask("count", [*wire.bucket(template), *wire.declaration(template)])
            if not unswept:
                return int(total)

    async def commit(
        self, grant: Grant, items: Sequence[Item], fence: Fence | None, *, patience_s: float
    ) -> None:
        try:
            done = await self._guarded(
                "commit_out" if items else "commit",
                [wire.fence(fence), grant.name, *wire.tuples(items)],
                patience_s=patience_s,
            )
        except OutcomeUnknown:
            self._granted.discard(grant.name)
            raise
        self._granted.discard(grant.name)
        if not done:
            grant.lost = True
            raise LeaseLost("the lease ended before the commit; the tuples were given back")

    def release(self, grant: Grant, *, counted: bool) -> None:
        self._granted.discard(grant.name)
        self._send_release([grant.name], counted=counted)
        if len(grant.deliveries) > _NAMES_PER_CALL:
            with contextlib.suppress(ClientClosed):  # the rest is due at once, whoever comes next
                self.spawn(lambda: self._release_in_parts(grant, counted=counted))

    async def _release_in_parts(self, grant: Grant, *, counted: bool) -> None:
        with contextlib.suppress(TupleSpaceError):  # the lease's end does the rest
            while await self._ask("release", [b"1" if counted else b"", grant.name]):
                pass

    async def tenure(self) -> Tenure:
        seconds, start = await self._ask("renew", [])
        return wire.tenure(seconds, start)

    async def renew(self, grants: Sequence[Grant]) -> None:
        for part in _parts(grants):
            seconds, start, *lost = await self._ask("renew", [g.name for g in part])
            ended, tenure = set(lost), wire.tenure(seconds, start)
            for grant in part:
                grant.lost, grant.tenure = grant.name in ended, tenure

    async def swap(self, template: Template, item: Item, fence: Fence | None) -> Tuple | None:
        reply = await self._final(
            "swap",
            [
                wire.fence(fence), *wire.bucket(template), *wire.declaration(template),
                b"%d" % template.longest, *wire.tuples([item]),
            ],
        )  # fmt: skip
        if reply[0] != b"got":
            return None
        fields = template.read(reply[1])
        if fields is None:
            self.unreadable += 1
            raise Unreadable("what was replaced was no tuple; the new one stands in its place")
        return fields

    async def watch(self, listener: Callable[[Event], None]) -> Callable[[], None]:
        await self._listen(b"watch", self._heard_event)
        session = await self._opened()
        await self._ask("tick", [session.name, b"1", b"0"])
        self._listeners.append(listener)
        self._tick_soon()
        return lambda: self._listeners.remove(listener)

    async def elect(
        self, name: str, step: Literal["win", "renew", "resign"], holder: bytes, lease_s: float, floor: int
    ) -> tuple[int | None, float]:
        lease_ms = b"%d" % max(1, round(lease_s * 1000))
        number, held = await self._ask(
            "elect", [name.encode(), step.encode(), holder, lease_ms, b"%d" % floor], election=True
        )
        return (int(number), lease_s) if held else (None, int(number) / 1000)

    async def statistics(self) -> Statistics:
        waiting, tuples, leases, takers, readers, sessions, kept = await self._ask("statistics", [])
        counters = self._carrier.counters
        return Statistics(
            waiting=waiting,
            leased=tuples - waiting,
            leases=leases,
            takers=takers,
            readers=readers,
            sessions=sessions,
            kept_replies=kept,
            calls=sum(c.calls for c in counters),
            retries=sum(c.retries for c in counters),
            reconnects=sum(max(0, c.reconnects - 1) for c in counters),
        )

    def spawn(self, task: Callable[[], Awaitable[object]]) -> None:
        self._carrier.spawn(task)

    def close(self) -> None:
        """Forget the session on the server, soon, and tell those who still wait."""
        for waiter in self._waiters.values():
            waiter.settle(failure=ClientClosed("this client is closed"))
        if self._session is not None:
            self._tell("close", [self._session.name, b"%d" % self._session.used])

    # Asking

    async def _ask(self, operation: str, arguments: list[bytes], *, election: bool = False) -> Any:
        """A request that may be repeated freely."""
        call = Call(self._format.write(operation, arguments), key=self._key)
        reply = await self._carrier.ask(call, election=election)
        if isinstance(reply, remote_errors.ResponseError):
            raise self._translate(reply)
        self._check(operation, reply)
        return reply

    def _check(self, operation: str, reply: object) -> None:
        if not wire.is_sound(operation, reply):
            raise ServerError(f"the server of space {self._space!r} answers what makes no sense")

    def _tell(
        self, operation: str, arguments: list[bytes], *, answered: Callable[[], None] | None = None
    ) -> None:
        """A request whose answer nobody waits for."""
        self._carrier.tell(Call(self._format.write(operation, arguments), key=self._key, answered=answered))

    async def _final(self, operation: str, arguments: list[bytes], *, undo: bool = False) -> Any:
        """Ask until the answer is not to ask again, which bounds the server's work for one call."""
        while True:
            reply = await self._guarded(operation, arguments, undo=undo)
            if reply[0] != b"again":
                return reply

    async def _guarded(
        self,
        operation: str,
        arguments: list[bytes],
        *,
        undo: bool = False,
        hand_out: Callable[[Any], int] | None = None,
        patience_s: float | None = None,
    ) -> Any:
        """A request that is done once, however often it must be sent.

        With `undo`, a request whose caller leaves before the answer is there is undone; `hand_out` gets the
        answer and says how many tuples, the last ones, nobody wants any more. `patience_s` is for how long
        to wait for the answer, if not for as long as the client does.
        """
        while True:
            session = self._session or await self._opened()
            slot = await session.acquire()
            guard = wire.guard(session.name, slot, session.next_number(slot))
            data, flag_at = self._format.write_guarded(operation, guard, arguments)
            call = Call(data, flag_at, key=self._key, patience_s=patience_s)
            try:
                reply = await self._carrier.ask(call)
            except BaseException:
                if undo and call.sent:
                    # The slot keeps the answer that undoing needs: nobody may use it before that is done.
                    self._tell("undo", [guard, b""], answered=partial(session.release, slot))
                else:
                    session.release(slot)
                raise
            if not isinstance(reply, remote_errors.ResponseError):
                if not wire.is_sound(operation, reply):
                    session.release(slot)
                self._check(operation, reply)
                unwanted = 0 if hand_out is None else hand_out(reply)
                if unwanted:
                    self._tell("undo", [guard, b"%d" % unwanted], answered=partial(session.release, slot))
                else:
                    session.release(slot)
                return reply
            session.release(slot)
            if not str(reply).startswith("TSNOSESSION"):
                raise self._translate(reply)
            if self._session is session:
                self._session = None
            if not str(reply).endswith("first"):
                raise OutcomeUnknown(
                    f"the server of space {self._space!r} has lost this client's session, "
                    "and with it the answer to a request: it was done once or not at all"
                )

    async def _opened(self) -> Session:
        """The session. One task opens it; those who come meanwhile share its success, or its failure."""
        while self._session is None:
            if self._opening is None:
                self._opening = attempt = Attempt()
                try:
                    session = Session(secrets.token_bytes(8))
                    await self._ask("open", [session.name])
                    self._session = session
                except TupleSpaceError as error:
                    attempt.failure = error
                    raise
                finally:
                    self._opening = None
                    attempt.over.set()
            else:
                attempt = self._opening
                await attempt.over.wait()
                if attempt.failure is not None:
                    raise type(attempt.failure)(str(attempt.failure))
        return self._session

    def _translate(self, error: remote_errors.ResponseError) -> TupleSpaceError:
        code, _, rest = str(error).partition(" ")
        if code == "TSFENCED":
            return Fenced(f"a newer token, {rest}, was seen in space {self._space!r}")
        if code == "TSINDEX":
            fields = f"fields {rest}" if rest else "no fields"
            return IndexMismatch(f"others declare {fields} for this tag in space {self._space!r}")
        if code == "TSSHAPES":
            return TemplateError(f"more than {rest} kinds of tuple have this tag: give types instead of ANY")
        return ServerError(f"the server of space {self._space!r} says: {error}")

    # Waiting

    @contextlib.contextmanager
    def _waiter(self, template: Template) -> Iterator[tuple[bytes, Waiter]]:
        """A name to ask by, and to be told by. Whoever leaves with an error gives back what came of it.

        A name is used for one question only: mail that comes late, about a lease that has ended, must not
        be taken for the answer to the next one.
        """
        name, waiter = self._mailbox + next(self._numbers).to_bytes(6, "big"), Waiter(template)
        self._waiters[name] = waiter
        try:
            yield name, waiter
        except BaseException:
            self._send_release([name], counted=False)
            raise
        finally:
            del self._waiters[name]

    async def _wait(self, waiter: Waiter) -> Delivery | None:
        """Stand in line; what was handed over, or None to ask anew."""
        waiter.in_line = True
        self._tick_soon()
        await waiter.settled.wait()
        if waiter.failure is not None:
            raise type(waiter.failure)(str(waiter.failure))
        return waiter.delivery

    def _grant(self, name: bytes, deliveries: list[Delivery], terms: Terms) -> Grant:
        self._granted.add(name)
        return Grant(name, deliveries, terms)

    def _send_release(self, names: list[bytes], *, counted: bool) -> None:
        self._tell("release", [b"1" if counted else b"", *names])

    async def _listen(self, suffix: bytes, heard: Callable[[bytes], None]) -> None:
        """Subscribe, once, and wait until that is in force: a hand-over needs somebody to hand to."""
        if (known := self._listening.get(suffix)) is not None and known.over.is_set():
            return
        await self._opened()  # says at once what is wrong with the server, or with us
        if suffix not in self._listening:
            self._listening[suffix] = attempt = Attempt()

            def ready() -> None:
                attempt.over.set()
                self._tick_now.set()

            def refused(reason: str) -> None:
                attempt.failure = AccessDenied(
                    f"the server of space {self._space!r} refuses this user: {reason}"
                )
                attempt.over.set()
                self._listening.pop(suffix, None)

            subscription = Subscription(self._key, heard, ready, refused)
            self._carrier.subscribe(self._format.channel + suffix, subscription)
        attempt = self._listening[suffix]
        with trio.move_on_after(math.inf if self._carrier.timeout_s is None else self._carrier.timeout_s):
            await attempt.over.wait()
            if attempt.failure is not None:
                raise AccessDenied(str(attempt.failure))
            return
        raise self._carrier.silence(self._key, self._carrier.timeout_s)

    def _heard_mail(self, data: bytes) -> None:
        kind, name = data[:1], data[1:15]
        waiter = self._waiters.get(name)
        if waiter is not None:
            fields = waiter.template.read(data[21:])
            if fields is not None:  # else the next tick says what there is: others can send mail too
                waiter.settle(delivery=Delivery(fields, int.from_bytes(data[15:21], "big")))
        elif kind == b"t" and name not in self._granted:
            self._send_release([name], counted=False)

    def _heard_event(self, data: bytes) -> None:
        kind: Literal["out", "in"] = "out" if data[:1] == b"o" else "in"
        try:
            payloads = msgpack.unpackb(data[1:], raw=True, use_list=False)
        except ValueError:
            return
        for fields in map(readable, payloads if isinstance(payloads, tuple) else ()):
            if fields is not None:  # else no tuple, or one of a newer version; a hint may be missed
                for listener in list(self._listeners):
                    listener(Event(kind, fields))

    def _tick_soon(self) -> None:
        if not self._ticking:
            self._ticking = True
            self.spawn(self._tick)

    async def _tick(self) -> None:
        """While anybody waits or watches: once a second, and at once after an interruption."""
        while self._waiters or self._listeners:
            self._tick_now = trio.Event()
            with trio.move_on_after(_TICK_S):
                await self._tick_now.wait()
            names = [n for n, w in self._waiters.items() if w.in_line and not w.settled.is_set()]
            for part in _parts(names) or [[]]:
                await self._ask_after(part)
        self._ticking = False

    async def _ask_after(self, names: Sequence[bytes]) -> None:
        try:
            session = await self._opened()
            longest = max((self._waiters[n].template.longest for n in names if n in self._waiters), default=0)
            watches = b"1" if self._listeners else b""
            replies = await self._ask("tick", [session.name, watches, b"%d" % longest, *names])
        except TupleSpaceError as error:
            for name in names:
                if name in self._waiters:
                    self._waiters[name].settle(failure=error)
            return
        for name, reply in zip(names, replies, strict=True):
            waiter = self._waiters.get(name)
            if waiter is None or reply[0] == b"wait":
                continue
            if reply[0] == b"got" and len(reply) > 1:
                waiter.hand(reply[2], reply[1])
            else:
                waiter.settle()


def _fitting(waiting: deque[Caller]) -> int:
    """How many callers' tuples go into one request."""
    size, count = 0, 0
    for caller in itertools.islice(waiting, _TOGETHER):
        size += sum(map(len, caller.request))
        if count and size > _TOGETHER_BYTES:
            break
        count += 1
    return count


def _parts(values: Sequence[Any]) -> list[Sequence[Any]]:
    return [values[i : i + _NAMES_PER_CALL] for i in range(0, len(values), _NAMES_PER_CALL)]
