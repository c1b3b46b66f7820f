"""What is between a machine and the tuple space: delays, replies that are lost, and times without any way.

The real client repeats what got no answer, and the server tells a repetition from a new request; so what its
users see of a bad network is that things take long, or an error after which nobody knows whether they were
done. That is what happens here too.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, Literal, NamedTuple, TypeAlias, TypeVar

import trio

from gcs import board as boards
from gcs.simulate.cluster.faults import Moment
from gcs.simulate.cluster.world import Dead, MachineWorld
from tuplespace import Event, Fence, OutcomeUnknown, Statistics, Tenure, Terms, Tuple, Unavailable
from tuplespace.backend import Backend, Grant
from tuplespace.bag import Bag
from tuplespace.fields import Item, Template, token_of
from tuplespace.memory import MemoryBackend, Server
from tuplespace.space import Spaces

T = TypeVar("T")
WAY_S: Final = 0.004
_TURN: Final = "turn"
_FRESH_S: Final = 1.0
"""A turn that was taken so long ago may still be one of which Redis forgets that."""
Kept: TypeAlias = Mapping[str, Bag]
"""What is on the disk of Redis, by space."""


class Doing(NamedTuple):
    """Whose doing it is that a moment has come."""

    by: str
    before: Kept | None = None
    """What was there before that, if it was a turn that was taken for which there is a rival."""


class _Fresh(NamedTuple):
    """Who has taken a turn that lay there, when, and what was there before that."""

    by: str
    at: float
    before: Kept


class Moments:
    """Tells those who wait for a moment that it has come, and whose doing it is."""

    def __init__(self) -> None:
        self._waiting: dict[Moment, list[Callable[[Doing], None]]] = {}
        self._users: defaultdict[str, set[str]] = defaultdict(set)
        """By line: who has taken its turn when it lay there."""
        self._fresh: dict[Template, _Fresh] = {}
        """Those turns that were taken while somebody waited for a rival."""
        self._wanted: Counter[bytes] = Counter()
        """By the token of a line: how many wait for its turn."""
        self._is_declared = False

    async def wait(self, moment: Moment) -> Doing:
        """Wait for one; whose doing it is."""
        come = trio.Event()
        done = Doing("")

        def note(doing: Doing) -> None:
            nonlocal done
            done = doing
            come.set()

        self._waiting.setdefault(moment, []).append(note)
        await come.wait()
        return done

    def written(self, fields: Tuple, by: str) -> None:
        """A tuple was written."""
        match fields:
            case ("now", boards.CALL, _, b""):
                self._come(Moment.CALL, by)
                if self._is_declared:
                    self._come(Moment.RECALL, by)
            case ("posted", _):
                self._come(Moment.PARTS, by)
            case ("now", boards.CHARTER, *_):
                self._is_declared = False
                self._come(Moment.PLAN, by)
            case ("now", boards.FINISHED, *_):
                self._is_declared = True
                self._come(Moment.END, by)

    def lent(self, lines: Iterable[str], by: str) -> None:
        """A host is lent that has these lines."""
        if any(self._wanted[token_of(line)] for line in lines):
            self._come(Moment.LOAN, by)

    @property
    def wants_rival(self) -> bool:
        """Whether somebody waits for one."""
        return Moment.RIVAL in self._waiting

    def started(self) -> None:
        """What was taken before is forgotten, or on the disk of Redis."""
        self._fresh.clear()

    @contextmanager
    def waits(self, template: Template, by: str) -> Iterator[None]:
        """Somebody waits for a tuple."""
        if template.tag != _TURN:
            yield
            return
        line = template.tokens[0]
        fresh = self._fresh.get(template)
        if fresh is not None and fresh.by != by and trio.current_time() < fresh.at + _FRESH_S:
            self._come(Moment.RIVAL, fresh.by, fresh.before)
        self._wanted[line] += 1
        try:
            yield
        finally:
            self._wanted[line] -= 1

    def taken(self, template: Template, fields: Tuple, by: str, before: Kept | None) -> None:
        """A turn was taken that lay there."""
        if before is not None:
            self._fresh[template] = _Fresh(by, trio.current_time(), before)
        users = self._users[str(fields[1])]
        users.add(by)
        if len(users) > 1:
            self._come(Moment.TURN, by)

    def _come(self, moment: Moment, by: str, before: Kept | None = None) -> None:
        for note in self._waiting.pop(moment, ()):
            note(Doing(by, before))


class Redis:
    """The server of all spaces; it may be away, and may come back without its last second."""

    def __init__(self) -> None:
        self.server = Server()
        self.is_there = True
        self.forgot_at = 0.0
        """When it last came back without something."""
        self.tokens: dict[str, tuple[int, bytes]] = {}
        """By election: the highest token that was given, and to whom."""
        self.stale: list[str] = []
        """Tokens that were given though there had been higher ones."""
        self.moments = Moments()
        self._kept: Kept = {}

    @property
    def is_offering(self) -> bool:
        """Whether something lies there for helpers, and nobody has it."""
        bags = self.server.bags.items()
        return any(":urls:" in name and bag.statistics().waiting for name, bag in bags)

    def snapshot(self) -> Kept:
        """What is there now."""
        return {name: bag.snapshot() for name, bag in self.server.bags.items()}

    def keep(self) -> None:
        """What is there now is on its disk."""
        self._kept = self.snapshot()

    def lose(self, kept: Kept | None = None) -> None:
        """Die, and forget what is not on the disk: what was kept last, or another time."""
        self.forgot_at = trio.current_time()
        kept = self._kept if kept is None else kept
        for name, bag in self.server.bags.items():
            bag.restore(kept.get(name, Bag()))

    def start(self) -> None:
        """Be there again."""
        self.is_there = True
        self.moments.started()
        for bag in self.server.bags.values():
            bag.start(trio.current_time())

    def won(self, name: str, token: int, holder: bytes) -> None:
        """Somebody got a token; it has to be higher than all before."""
        highest, by = self.tokens.get(name, (0, b""))
        if token < highest or (token == highest and holder != by):
            self.stale.append(f"the election {name!r} gave the token {token} after {highest}")
        self.tokens[name] = max((token, holder), (highest, by))


class Link:
    """The way from one machine to the server."""

    def __init__(self, name: str, world: MachineWorld, redis: Redis, timeout_s: float) -> None:
        self.name, self._world, self.redis, self._timeout_s = name, world, redis, timeout_s
        self.is_cut = False
        self.lossy = 0.0
        """Of the requests, the share of which the way there or back is lost."""
        self.way_s = WAY_S
        """How long one way takes at most."""

    def connect(self, nursery: trio.Nursery) -> Spaces:
        """A client on this machine."""

        def opened(name: str) -> LinkedBackend:
            there = MemoryBackend(self.redis.server, name, nursery, at_once=True, until=self._world.until)
            return LinkedBackend(there, self)

        return Spaces(opened)

    @property
    def is_up(self) -> bool:
        """Whether something gets through."""
        return not self.is_cut and self.redis.is_there

    @property
    def is_alive(self) -> bool:
        """Whether there is still somebody at this end."""
        return self._world.is_alive

    async def there_and_back(self, call: Callable[[], Awaitable[T]], *, patience_s: float | None = None) -> T:
        """Have something done, as far as the network lets us."""
        world = self._world
        if not world.is_free:
            await world.gate()
        patience_s = min(self._timeout_s, patience_s or self._timeout_s)
        chance, way_s = world.random.random(), world.random.random() * self.way_s
        await self._pass(patience_s, way_s, lost=chance < self.lossy / 2)
        result = await call()
        is_lost, done_at = chance > 1 - self.lossy / 2, trio.current_time()
        if not self.is_up or is_lost:
            await self._pass(patience_s, 0.0, lost=True)
            if self.redis.forgot_at >= done_at:
                result = await call()  # what was not answered is asked again, and nothing is known of it
        if not world.is_free:
            await world.gate()
        if is_lost and chance > 1 - self.lossy / 4:
            raise OutcomeUnknown("the simulated server has not answered")
        return result

    async def _pass(self, patience_s: float, takes_s: float, *, lost: bool) -> None:
        """One way; raises Unavailable when that takes too long."""
        deadline = trio.current_time() + patience_s
        await trio.sleep(takes_s)
        while lost or not self.is_up:
            left_s = deadline - trio.current_time()
            if left_s <= 0:
                raise Unavailable("the simulated server does not answer")
            await trio.sleep(min(left_s, 0.25))
            if lost and left_s < patience_s / 2:
                lost = False  # it was repeated, and got through
        if not self._world.is_free:
            await self._world.gate()


class LinkedBackend:
    """A space at the other end of a link."""

    def __init__(self, inner: Backend, link: Link) -> None:
        self._inner, self._link = inner, link

    @property
    def unreadable(self) -> int:
        """As `Backend.unreadable`."""
        return self._inner.unreadable

    async def out(self, items: Sequence[Item], fence: Fence | None) -> None:
        """As `Backend.out`."""

        async def written() -> None:
            await self._inner.out(items, fence)
            for item in items:
                self._note_written(item)

        await self._link.there_and_back(written)

    def _note_written(self, item: Item) -> None:
        self._link.redis.moments.written(item.fields, self._link.name)

    async def take(self, template: Template, many: int, terms: Terms, *, wait: bool) -> Grant | None:
        """As `Backend.take`; a tuple whose way back is lost comes back when its lease has ended."""

        redis, name = self._link.redis, self._link.name
        moments = redis.moments

        async def waited_for() -> Grant | None:
            with moments.waits(template, name):
                return await self._inner.take(template, many, terms, wait=True)

        async def taken() -> Grant | None:
            is_turn = template.tag == _TURN
            before = redis.snapshot() if is_turn and moments.wants_rival else None
            grant = await self._inner.take(template, many, terms, wait=False)
            if grant is not None and is_turn:
                moments.taken(template, grant.deliveries[0].fields, name, before)
            return grant

        return await self._link.there_and_back(waited_for if wait else taken)

    async def remove(self, template: Template) -> Tuple | None:
        """As `Backend.remove`."""
        return await self._link.there_and_back(lambda: self._inner.remove(template))

    async def read(self, template: Template, *, wait: bool) -> Tuple | None:
        """As `Backend.read`."""
        return await self._link.there_and_back(lambda: self._inner.read(template, wait=wait))

    async def page(self, template: Template, after: bytes, limit: int) -> tuple[list[Tuple], bytes | None]:
        """As `Backend.page`."""
        return await self._link.there_and_back(lambda: self._inner.page(template, after, limit))

    async def count(self, template: Template) -> int:
        """As `Backend.count`."""
        return await self._link.there_and_back(lambda: self._inner.count(template))

    async def commit(
        self, grant: Grant, items: Sequence[Item], fence: Fence | None, *, patience_s: float
    ) -> None:
        """As `Backend.commit`; who is dead commits nothing."""
        if not self._link.is_alive:
            raise Dead
        await self._link.there_and_back(
            lambda: self._inner.commit(grant, items, fence, patience_s=patience_s), patience_s=patience_s
        )

    def release(self, grant: Grant, *, counted: bool) -> None:
        """As `Backend.release`; without a way there the lease has to end by itself."""
        if self._link.is_alive and self._link.is_up:
            self._inner.release(grant, counted=counted)

    async def renew(self, grants: Sequence[Grant]) -> None:
        """As `Backend.renew`."""
        await self._link.there_and_back(lambda: self._inner.renew(grants))

    async def tenure(self) -> Tenure:
        """As `Backend.tenure`."""
        return await self._link.there_and_back(self._inner.tenure)

    async def swap(self, template: Template, item: Item, fence: Fence | None) -> Tuple | None:
        """As `Backend.swap`."""

        async def swapped() -> Tuple | None:
            old = await self._inner.swap(template, item, fence)
            if old is not None:
                self._note_written(item)
            return old

        return await self._link.there_and_back(swapped)

    async def watch(self, listener: Callable[[Event], None]) -> Callable[[], None]:
        """As `Backend.watch`."""
        return await self._link.there_and_back(lambda: self._inner.watch(listener))

    async def elect(
        self, name: str, step: Literal["win", "renew", "resign"], holder: bytes, lease_s: float, floor: int
    ) -> tuple[int | None, float]:
        """As `Backend.elect`; who is dead does not resign."""
        if not self._link.is_alive:
            raise Dead

        async def elected() -> tuple[int | None, float]:
            token, left_s = await self._inner.elect(name, step, holder, lease_s, floor)
            if token is not None:
                self._link.redis.won(name, token, holder)
            return token, left_s

        return await self._link.there_and_back(elected)

    async def statistics(self) -> Statistics:
        """As `Backend.statistics`."""
        return await self._link.there_and_back(self._inner.statistics)

    def spawn(self, task: Callable[[], Awaitable[object]]) -> None:
        """As `Backend.spawn`."""
        self._inner.spawn(task)

    def close(self) -> None:
        """As `Backend.close`."""
        self._inner.close()
