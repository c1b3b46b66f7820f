"""The same space in one process, on trio's clock: for tests and simulations.

    server = memory.Server()
    async with memory.connect(server) as client:
        space = client.space("crawl", index={"url": (1,)})

Everything that the server-backed space promises holds here too, but for durability.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import trio

from tuplespace.backend import Delivery, Event, Fence, Grant, Statistics, Tenure, Terms
from tuplespace.bag import Bag, Waiter
from tuplespace.errors import ClientClosed, LeaseLost
from tuplespace.fields import Item, Template, Tuple
from tuplespace.space import Spaces, background


@dataclass
class Server:
    """Spaces by name. What clients of one server write, its other clients find."""

    bags: defaultdict[str, Bag] = field(default_factory=lambda: defaultdict(Bag))
    names: itertools.count[int] = field(default_factory=lambda: itertools.count(1))


async def _until(event: trio.Event, seconds: float) -> None:
    with trio.move_on_after(max(0.0, seconds)):
        await event.wait()


class MemoryBackend:
    """One client's view of one bag."""

    def __init__(
        self,
        server: Server,
        space: str,
        nursery: trio.Nursery,
        *,
        at_once: bool = False,
        until: Callable[[trio.Event, float], Awaitable[None]] = _until,
    ) -> None:
        """A step is done `at_once` for one that has let others run just before it.

        `until` waits for an event, but not for longer than some seconds.
        """
        self._at_once, self._until = at_once, until
        self._bag = server.bags[space]
        self._names = server.names
        self._nursery = nursery
        self._closed = False
        self._waiting: set[Callable[[], None]] = set()
        """How to have those look who wait."""
        self.unreadable = 0

    async def out(self, items: Sequence[Item], fence: Fence | None) -> None:
        await self._step()
        self._bag.write(items, trio.current_time(), fence)

    async def take(self, template: Template, many: int, terms: Terms, *, wait: bool) -> Grant | None:
        await self._step()
        name = self._name()
        self._shed(template)
        deliveries = self._bag.take(name, template, many, terms, trio.current_time())
        if not deliveries:
            if not wait:
                return None
            return Grant(name, [await self._wait(name, template, terms)], terms)
        return Grant(name, deliveries, terms, tenure=self._bag.tenure(trio.current_time()))

    async def remove(self, template: Template) -> Tuple | None:
        await self._step()
        name, now = self._name(), trio.current_time()
        self._shed(template)
        deliveries = self._bag.take(name, template, 1, Terms(1.0), now)
        self._bag.commit(name, [], now)
        return deliveries[0].fields if deliveries else None

    async def read(self, template: Template, *, wait: bool) -> Tuple | None:
        await self._step()
        number = next(self._bag.find(template, trio.current_time()), None)
        if number is not None:
            return self._bag.tuples[number].item.fields
        return (await self._wait(self._name(), template, None)).fields if wait else None

    async def page(self, template: Template, after: bytes, limit: int) -> tuple[list[Tuple], bytes | None]:
        await self._step()
        start = int.from_bytes(after, "big")
        found = (n for n in self._bag.find(template, trio.current_time()) if n > start)
        numbers = list(itertools.islice(found, limit))
        place = numbers[-1].to_bytes(8, "big") if len(numbers) == limit else None
        return [self._bag.tuples[n].item.fields for n in numbers], place

    async def count(self, template: Template) -> int:
        await self._step()
        return sum(1 for _ in self._bag.find(template, trio.current_time()))

    async def commit(
        self, grant: Grant, items: Sequence[Item], fence: Fence | None, *, patience_s: float
    ) -> None:
        await self._step()
        if not self._bag.commit(grant.name, items, trio.current_time(), fence):
            grant.lost = True
            raise LeaseLost("the lease ended before the commit; the tuples were given back")

    def release(self, grant: Grant, *, counted: bool) -> None:
        self._bag.release(grant.name, trio.current_time(), counted=counted)

    async def renew(self, grants: Sequence[Grant]) -> None:
        await self._step()
        for grant in grants:
            grant.lost = not self._bag.renew(grant.name, trio.current_time())
            grant.tenure = self._bag.tenure(trio.current_time())

    async def tenure(self) -> Tenure:
        await self._step()
        return self._bag.tenure(trio.current_time())

    async def swap(self, template: Template, item: Item, fence: Fence | None) -> Tuple | None:
        await self._step()
        self._shed(template)
        return self._bag.swap(template, item, trio.current_time(), fence)

    async def watch(self, listener: Callable[[Event], None]) -> Callable[[], None]:
        await self._step()
        self._bag.listeners.append(listener)
        return lambda: self._bag.listeners.remove(listener)

    async def elect(
        self, name: str, step: Literal["win", "renew", "resign"], holder: bytes, lease_s: float, floor: int
    ) -> tuple[int | None, float]:
        await self._step()
        return self._bag.elect(name, step, holder, lease_s, floor, trio.current_time())

    async def statistics(self) -> Statistics:
        await self._step()
        self._bag.sweep(trio.current_time())
        return self._bag.statistics()

    def spawn(self, task: Callable[[], Awaitable[object]]) -> None:
        self._nursery.start_soon(task)

    def close(self) -> None:
        """Send those away who still wait; nothing else is kept for a client."""
        self._closed = True
        for stir in self._waiting:
            stir()

    async def _step(self) -> None:
        """Be cancelled, or let others run, before the step, not after it: nothing is taken and then lost."""
        if self._closed:
            raise ClientClosed("this client is closed")
        if not self._at_once:
            await trio.lowlevel.checkpoint()

    def _shed(self, template: Template) -> None:
        self.unreadable += self._bag.shed(template, trio.current_time())

    def _name(self) -> bytes:
        return next(self._names).to_bytes(14, "big")

    async def _wait(self, name: bytes, template: Template, terms: Terms | None) -> Delivery:
        """Stand in line until a tuple is handed over; leaving the line gives back what was."""
        result: list[Delivery] = []
        stirred = trio.Event()

        def stir() -> None:
            stirred.set()

        def hand(delivery: Delivery) -> bool:
            result.append(delivery)
            stir()
            return True

        self._waiting.add(stir)
        self._bag.waiters.append(Waiter(name, template, terms, hand, stir))
        try:
            while not result:
                due = self._bag.next_due()
                left_s = math.inf if due is None else due - trio.current_time()
                await self._until(stirred, left_s)
                stirred = trio.Event()
                if self._closed and not result:
                    raise ClientClosed("this client is closed")
                self._bag.sweep(trio.current_time())
        except (trio.Cancelled, ClientClosed):
            self._bag.release(name, trio.current_time(), counted=False)
            raise
        finally:
            self._waiting.discard(stir)
        return result[0]


@contextlib.asynccontextmanager
async def connect(server: Server | None = None) -> AsyncIterator[Spaces]:
    """A client of an in-memory server; of one of its own when none is given."""
    shared = Server() if server is None else server
    async with background() as nursery:
        client = Spaces(lambda name: MemoryBackend(shared, name, nursery))
        try:
            yield client
        finally:
            client.close()
