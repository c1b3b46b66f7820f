"""The tuple space as its users see it.

A template is given field by field: a value, a type such as `str`, or `ANY`. `take` is the heart:
the tuple stays with the space until the taker commits. A taker that fails, is cancelled, dies or
loses its connection gives it back; `in_` and `inp` are a take and a commit.
"""

from __future__ import annotations

import contextlib
import math
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Final, Self

import trio

from tuplespace.backend import Backend, Event, Fence, Grant, Statistics, Tenure, Terms
from tuplespace.errors import (
    LeaseLost,
    OutcomeUnknown,
    TemplateError,
    TupleError,
    TupleSpaceError,
)
from tuplespace.fields import (
    Field,
    Index,
    Item,
    Limits,
    Template,
    TemplateField,
    Tuple,
    compile_template,
    declare,
    prepare,
)

MAX_MANY: Final = 1000
"""Tuples that one take, or one atomic write, may carry: no script may run long."""
MAX_ATOMIC_BYTES: Final = 8 << 20
DEFAULT_LIMITS: Final = Limits()
_BATCH_TUPLES: Final = 500
_BATCH_BYTES: Final = 256 << 10
_PAGE: Final = 100
_WATCH_BACKLOG: Final = 1024
_TEMPLATES: Final = 256
_FINISH_S: Final = 30.0


class Space:
    """One named space. Made by a client's `space()`; usable from any of its tasks."""

    def __init__(self, name: str, backend: Backend, index: Index, limits: Limits, terms: Terms) -> None:
        self.name = name
        self.backend = backend
        self._index = index
        self._limits = limits
        self.terms = terms
        self._keeper = _Keeper(backend)
        self._templates: dict[tuple[object, ...], Template] = {}

    async def out(self, *fields: Field, ttl: float | None = None, fence: Fence | None = None) -> None:
        """Write a tuple, which is gone after `ttl` seconds if nobody has taken it by then.

        Cancelled before it was sent, nothing is written; after, it may have been.
        """
        await self.backend.out([prepare(fields, self._index, self._limits, ttl)], fence)

    async def out_many(
        self, tuples: Iterable[Sequence[Field]], *, ttl: float | None = None, fence: Fence | None = None
    ) -> int:
        """Write many tuples in batches, and say how many. Each batch is atomic, the whole is not."""
        total = 0
        for batch in _batches(prepare(t, self._index, self._limits, ttl) for t in tuples):
            await self.backend.out(batch, fence)
            total += len(batch)
        return total

    async def in_(self, *template: TemplateField) -> Tuple:
        """Take the oldest matching tuple for good; waits for one."""
        compiled = self._compile(template)
        while True:
            grant = await self.backend.take(compiled, 1, self.terms, wait=True)
            assert grant is not None
            try:
                await self._finish(grant, [], None)
            except LeaseLost:  # this process stood still; the tuple went back
                continue
            except TupleSpaceError:
                self.backend.release(grant, counted=False)
                raise
            return grant.deliveries[0].fields

    async def inp(self, *template: TemplateField) -> Tuple | None:
        """Take the oldest matching tuple for good; None when there is none."""
        return await self.backend.remove(self._compile(template))

    async def rd(self, *template: TemplateField) -> Tuple:
        """Read the oldest matching tuple, which stays; waits for one."""
        found = await self.backend.read(self._compile(template), wait=True)
        assert found is not None
        return found

    async def rdp(self, *template: TemplateField) -> Tuple | None:
        """Read the oldest matching tuple, which stays; None when there is none."""
        return await self.backend.read(self._compile(template), wait=False)

    def take(
        self,
        *template: TemplateField,
        lease: float | None = None,
        many: int = 1,
        wait: bool = True,
        max_deliveries: int | None = None,
    ) -> Taking:
        """Lease the oldest matching tuples for the length of an `async with` block.

        Leaving the block commits; an error or a cancellation inside it gives the tuples back. The
        lease is renewed while the block runs and this process lives. With `many`, between one and
        that many tuples: it waits for the first, not for more. With `wait=False` the block may
        get none, and what it gets is then false.
        """
        if not 1 <= many <= MAX_MANY:
            raise TemplateError(f"many is between 1 and {MAX_MANY}, not {many}")
        terms = self.terms
        if lease is not None or max_deliveries is not None:
            terms = _terms(
                terms.lease_s if lease is None else lease,
                terms.max_deliveries if max_deliveries is None else max_deliveries,
            )
        return Taking(self, self._compile(template), terms, many, wait=wait)

    async def count(self, *template: TemplateField) -> int:
        """How many waiting tuples match; leased ones do not count."""
        return await self.backend.count(self._compile(template))

    async def scan(self, *template: TemplateField) -> AsyncIterator[Tuple]:
        """Every matching tuple, oldest first, without taking any.

        A tuple that waits from beginning to end is seen once; one that comes or goes may be missed.
        """
        compiled = self._compile(template)
        after: bytes | None = b""
        while after is not None:
            found, after = await self.backend.page(compiled, after, _PAGE)
            for fields in found:
                yield fields

    async def swap(
        self, template: Sequence[TemplateField], new: Sequence[Field], *, fence: Fence | None = None
    ) -> Tuple | None:
        """Replace the oldest match by another tuple in one step, and return it; None when none matched."""
        item = prepare(new, self._index, self._limits)
        return await self.backend.swap(self._compile(template), item, fence)

    def watch(self, *template: TemplateField) -> Watch:
        """What happens to matching tuples from now on, as a hint: some of it may be missed."""
        return Watch(self.backend, self._compile(template))

    @property
    def unreadable(self) -> int:
        """What this client has found here so far in place of tuples, and dropped."""
        return self.backend.unreadable

    async def statistics(self) -> Statistics:
        """What is in the space now."""
        return await self.backend.statistics()

    def _compile(self, template: Sequence[TemplateField]) -> Template:
        """The template, compiled once: the same few are asked with again and again.

        The types are part of what it is known by, since 1, 1.0 and True are equal to Python. Nested tuples
        can hide such a difference, and what cannot be hashed is no template at all: neither is remembered.
        """
        types = tuple(map(type, template))
        known = (tuple(template), types)
        try:
            return self._templates[known]
        except (KeyError, TypeError):
            compiled = compile_template(template, self._index, self._limits)
        if tuple not in types:
            if len(self._templates) >= _TEMPLATES:
                self._templates.clear()
            self._templates[known] = compiled
        return compiled

    def _prepare_atomic(self, tuples: Iterable[Sequence[Field]]) -> list[Item]:
        items = [prepare(t, self._index, self._limits) for t in tuples]
        if len(items) > MAX_MANY or sum(len(i.payload) for i in items) > MAX_ATOMIC_BYTES:
            raise TupleError(f"one commit writes at most {MAX_MANY} tuples and {MAX_ATOMIC_BYTES} bytes")
        return items

    async def renew(self, takes: Iterable[Taken]) -> None:
        """Renew the leases of some takes now, which happens by itself from time to time."""
        grants = [each._grant for each in takes if each._open and each._grant is not None]
        if grants:
            await self._keeper.renew(grants)

    async def tenure(self) -> Tenure:
        """For how long the server has surely forgotten nothing; leases of before it may not know of."""
        return await self.backend.tenure()

    async def _finish(self, grant: Grant, items: Sequence[Item], fence: Fence | None) -> None:
        """Commit, even when cancelled meanwhile: a tuple removed for one who never gets it would be lost.

        Past the end of the lease a commit cannot succeed any more, which bounds the wait.
        """
        with trio.CancelScope(shield=True):
            await self.backend.commit(grant, items, fence, patience_s=min(grant.terms.lease_s + 1, _FINISH_S))


class Taking:
    """The block of a take. Entering it gives a `Taken`."""

    def __init__(self, space: Space, template: Template, terms: Terms, many: int, *, wait: bool) -> None:
        self._space = space
        self._template = template
        self._terms = terms
        self._many = many
        self._wait = wait
        self._taken: Taken | None = None

    async def __aenter__(self) -> Taken:
        asked_at = trio.current_time()
        grant = await self._space.backend.take(self._template, self._many, self._terms, wait=self._wait)
        if grant is not None and not self._wait:
            # Who waited cannot tell when the tuple was handed over.
            grant.sure_until = asked_at + self._terms.lease_s
        self._taken = Taken(self._space, grant)
        return self._taken

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._taken is not None
        if error is not None:
            self._taken.give_back()
            return
        try:
            await self._taken.commit()
        except BaseException:
            self._taken.give_back()  # nobody else could: the block is over
            raise


class Taken:
    """What a take holds: a sequence of tuples, leased until `commit` or `give_back`."""

    def __init__(self, space: Space, grant: Grant | None) -> None:
        self._space = space
        self._grant = grant
        self._open = grant is not None
        self.tuples: tuple[Tuple, ...] = () if grant is None else tuple(d.fields for d in grant.deliveries)
        if grant is not None:
            space._keeper.add(grant)

    @property
    def tuple(self) -> Tuple:
        """The one tuple taken."""
        if len(self.tuples) != 1:
            raise TupleSpaceError(f"this take holds {len(self.tuples)} tuples, not one")
        return self.tuples[0]

    @property
    def deliveries(self) -> Sequence[int]:
        """For each tuple, which delivery this is: 1 for the first.

        A tuple from before the server was started again is never said to be delivered for the first time:
        that somebody has had it may be what the server has lost.
        """
        return [] if self._grant is None else [d.tries + 1 for d in self._grant.deliveries]

    @property
    def lost(self) -> bool:
        """Whether the lease is known to have ended: a commit would fail."""
        return self._grant is not None and self._grant.lost

    @property
    def sure_until(self) -> float:
        """A time on trio's clock before which the lease cannot have ended, even if the server is away.

        Every renewal moves it. After a take that waited it is in the past until the first renewal.
        """
        return -math.inf if self._grant is None else self._grant.sure_until

    @property
    def tenure(self) -> Tenure:
        """For how long the server had forgotten nothing when it was last asked about this take.

        Leases that were given before may be unknown to it, and their holders rely on them. After a take that
        waited it is 0 until the first renewal.
        """
        return Tenure() if self._grant is None else self._grant.tenure

    async def renew(self) -> None:
        """Renew the lease now, which happens by itself from time to time."""
        await self._space.renew([self])

    async def commit(self, out: Iterable[Sequence[Field]] = (), *, fence: Fence | None = None) -> None:
        """Remove the tuples for good and write others, in one step; leaving the block then does nothing more.

        Raises LeaseLost when the lease had ended: the tuples are the space's again, and nothing was
        written. A commit refused for another reason did nothing, and the take is still open.
        """
        items = self._space._prepare_atomic(out)
        if not self._open:
            if items:
                raise LeaseLost("this take was committed or given back already")
            return
        assert self._grant is not None
        try:
            await self._space._finish(self._grant, items, fence)
        except (LeaseLost, OutcomeUnknown):
            self._close()
            raise
        self._close()

    def give_back(self) -> None:
        """Give the tuples back now; they are found again in their old place."""
        if self._open:
            assert self._grant is not None
            self._close()
            self._space.backend.release(self._grant, counted=True)

    def leave(self) -> None:
        """Let the lease end by itself, as when a process dies; not before are the tuples found again."""
        if self._open:
            self._close()

    def _close(self) -> None:
        assert self._grant is not None
        self._open = False
        self._space._keeper.remove(self._grant)

    def __iter__(self) -> Iterator[Tuple]:
        return iter(self.tuples)

    def __len__(self) -> int:
        return len(self.tuples)

    def __bool__(self) -> bool:
        return bool(self.tuples)


class Watch:
    """Events about matching tuples, in an `async with` block or straight in an `async for`.

    A hint: while the connection is away, or when the reader is more than a thousand events behind,
    events are missed. Whoever must not miss anything looks at the space itself.
    """

    def __init__(self, backend: Backend, template: Template) -> None:
        self._backend = backend
        self._template = template
        self._events: deque[Event] = deque(maxlen=_WATCH_BACKLOG)
        self._arrived = trio.Event()
        self._stop: Callable[[], None] | None = None

    async def __aenter__(self) -> Self:
        if self._stop is None:
            self._stop = await self._backend.watch(self._hear)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop listening."""
        if self._stop is not None:
            self._stop()
            self._stop = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        await self.__aenter__()
        while not self._events:
            self._arrived = trio.Event()
            await self._arrived.wait()
        return self._events.popleft()

    def _hear(self, event: Event) -> None:
        if self._template.matches(event.fields):
            self._events.append(event)
            self._arrived.set()


class _Keeper:
    """Renews the leases of takes whose blocks are still running, all in one call."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._grants: set[Grant] = set()
        self._pause_s = math.inf
        self._sooner = trio.Event()

    def add(self, grant: Grant) -> None:
        """Keep this lease alive; wakes the task only when it would otherwise come too late."""
        self._grants.add(grant)
        pause_s = grant.terms.lease_s / 3
        if pause_s < self._pause_s:
            if self._pause_s == math.inf:
                self._backend.spawn(self._run)
            self._pause_s = pause_s
            self._sooner.set()

    def remove(self, grant: Grant) -> None:
        """Let this lease end."""
        self._grants.discard(grant)

    async def _run(self) -> None:
        renewed = trio.current_time()
        while self._grants:
            self._sooner = trio.Event()
            self._pause_s = min(g.terms.lease_s for g in self._grants) / 3
            with trio.move_on_at(renewed + self._pause_s):
                await self._sooner.wait()
                continue
            renewed = trio.current_time()
            with contextlib.suppress(TupleSpaceError):
                await self.renew([g for g in self._grants if not g.lost])
        self._pause_s = math.inf

    async def renew(self, grants: Sequence[Grant]) -> None:
        """Renew some leases, and note until when they are sure."""
        asked_at = trio.current_time()
        await self._backend.renew(grants)
        for grant in grants:
            if not grant.lost:
                grant.sure_until = asked_at + grant.terms.lease_s


class Spaces:
    """A client: opens spaces by name. Two spaces of one name are the same space."""

    def __init__(self, backend: Callable[[str], Backend]) -> None:
        self._backend = backend
        self._backends: dict[str, Backend] = {}

    def space(
        self,
        name: str,
        *,
        index: Mapping[str, Sequence[int]] | None = None,
        limits: Limits = DEFAULT_LIMITS,
        lease: float = 30.0,
        max_deliveries: int | None = None,
    ) -> Space:
        """A space. `index` says, per tag, which fields (three at most) templates may give as values.

        `lease` is how long a take holds without a renewal; after `max_deliveries` (no limit when
        None) a tuple that was never committed becomes a dead letter.
        """
        if not name or any(c in name for c in "{}") or not name.isprintable():
            raise TemplateError(f"a space's name is printable and has no braces: {name!r}")
        if name not in self._backends:
            self._backends[name] = self._backend(name)
        return Space(name, self._backends[name], declare(index or {}), limits, _terms(lease, max_deliveries))

    def close(self) -> None:
        """Let go of what the spaces keep on the server."""
        for backend in self._backends.values():
            backend.close()


def _terms(lease_s: float, max_deliveries: int | None) -> Terms:
    if not 0.01 <= lease_s <= 86_400 * 365 or math.isnan(lease_s):
        raise TemplateError(f"a lease lasts between 0.01 s and a year, not {lease_s!r}")
    if max_deliveries is not None and not 1 <= max_deliveries <= 65_535:
        raise TemplateError(f"max_deliveries is between 1 and 65535, not {max_deliveries}")
    return Terms(lease_s, max_deliveries)


def _batches(items: Iterable[Item]) -> Iterator[list[Item]]:
    batch: list[Item] = []
    size = 0
    for item in items:
        batch.append(item)
        size += len(item.payload)
        if len(batch) >= _BATCH_TUPLES or size >= _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


@contextlib.asynccontextmanager
async def background() -> AsyncIterator[trio.Nursery]:
    """A nursery whose tasks end with its block, which raises what its body raised, not a group around it."""
    failure: BaseException | None = None
    async with trio.open_nursery() as nursery:
        try:
            yield nursery
        except BaseException as error:  # noqa: BLE001 - raised again below
            failure = error
        nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure
