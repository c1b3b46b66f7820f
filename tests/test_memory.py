"""What is particular to the in-memory space: its server object, its clock, its tidiness."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from tuplespace import ClientClosed, Fence, Fenced, TupleSpaceError, memory
from tuplespace.testing.stage import hold, in_line

pytestmark = pytest.mark.virtual_time


async def test_own_server() -> None:
    """A client without a server has one of its own; clients of one server share its spaces."""
    server = memory.Server()
    async with memory.connect(server) as one, memory.connect(server) as two, memory.connect() as alone:
        await one.space("s").out("x", 1)
        assert await two.space("s").rdp("x", int) == ("x", 1)
        assert await alone.space("s").rdp("x", int) is None


async def test_data_outlives_clients() -> None:
    """What was written stays with the server when all its clients are closed."""
    server = memory.Server()
    async with memory.connect(server) as client:
        await client.space("s").out("x", 1)
    async with memory.connect(server) as client:
        assert await client.space("s").in_("x", int) == ("x", 1)


async def test_nothing_is_left() -> None:
    """A space through which tuples have passed in every way keeps nothing of them."""
    server = memory.Server()
    async with memory.connect(server) as client:
        space = client.space("s", index={"x": (1, 2)}, max_deliveries=1)
        await space.out_many(("x", n, str(n)) for n in range(20))
        await space.out("x", 1, "expires", ttl=5)
        for n in range(10):
            assert await space.in_("x", n, str)
        async with space.take("x", int, str, many=5) as taken:
            await taken.commit(out=[("y",)])
        await space.swap(("y",), ("z",))
        async with space.take("x", int, str, many=5) as taken:
            taken.give_back()  # for the last time: they are dead letters now
        await trio.sleep(6)
        assert await space.count("dead-letter", tuple, int) == 5
        for _ in range(5):
            await space.in_("dead-letter", tuple, int)
        await space.in_("z")
        bag = server.bags["s"]
        assert (bag.tuples, bag.leases, bag.waiters, bag.listeners) == ({}, {}, [], [])
        assert (dict(bag._buckets), dict(bag._signatures)) == ({}, {})


async def test_started_again() -> None:
    """After a start who waits gets what stands there from before, and not as if for the first time."""
    server = memory.Server()
    async with memory.connect(server) as client, trio.open_nursery() as nursery:
        space, bag, got = client.space("s"), server.bags["s"], list[int]()
        await space.out("x")
        kept = bag.snapshot()
        await space.in_("x")

        async def take() -> None:
            async with space.take("x") as taken:
                got.extend(taken.deliveries)

        nursery.start_soon(take)
        nursery.start_soon(take)
        await in_line(space, takers=2)
        bag.restore(kept)
        bag.start(trio.current_time())
        await trio.testing.wait_all_tasks_blocked()
        await space.out("x")
    assert got == [2, 1]


async def test_errors_pass_through() -> None:
    """An error in a client's block comes out as it is, not in a group."""

    async def fail() -> None:
        async with memory.connect():
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()


async def test_outer_cancellation() -> None:
    """A client's block is cancelled like any other, and what it held comes back when its lease ends."""
    server = memory.Server()
    with trio.move_on_after(1) as scope:
        async with memory.connect(server) as client:
            space = client.space("s", lease=10)
            await space.out("x", 1)
            async with space.take("x", int):
                await trio.sleep_forever()
    assert scope.cancelled_caught
    async with memory.connect(server) as client:
        assert await client.space("s").in_("x", int) == ("x", 1)
    assert trio.current_time() < 2


async def test_lease_in_virtual_time() -> None:
    """Leases run on trio's clock: a lease of a minute ends after a minute, to the second."""
    server = memory.Server()
    async with memory.connect(server) as gone:
        await gone.space("s").out("x", 1)
        await hold(gone.space("s"), "x", int, lease=60)
        began = trio.current_time()
    async with memory.connect(server) as client:
        assert await client.space("s").in_("x", int) == ("x", 1)
        assert trio.current_time() - began == pytest.approx(60, abs=1.5)


async def test_waiting_while_closed() -> None:
    """A closed client refuses at once, before it would wait."""
    async with memory.connect() as client:
        space = client.space("s")
    for ask in (space.in_, space.rd):
        with pytest.raises(ClientClosed):
            await ask("x")
    with pytest.raises(ClientClosed):
        async with space.watch("x"):
            raise AssertionError


async def test_watch_backlog() -> None:
    """A watcher more than a thousand events behind misses the oldest, never the newest."""
    async with memory.connect() as client:
        space = client.space("s")
        async with space.watch("x", int) as watch:
            await space.out_many(("x", n) for n in range(1500))
            heard = [(await anext(watch)).fields[1] for _ in range(1024)]
            assert heard == list(range(476, 1500))


async def test_failed_check_changes_nothing() -> None:
    """A fenced write refused for its declarations does not count as having been seen."""
    async with memory.connect() as client:
        declared = client.space("s", index={"t": (1,)})
        other = client.space("s")
        await declared.out("t", 1)
        with pytest.raises(TupleSpaceError):
            await other.out("t", 1, fence=Fence("boss", 9))
        await declared.out("t", 2, fence=Fence("boss", 8))
        with pytest.raises(Fenced):
            await declared.out("t", 2, fence=Fence("boss", 7))


async def test_many_templates() -> None:
    """A space that is asked with thousands of different templates answers each of them."""
    async with memory.connect() as client:
        space = client.space("s", index={"x": (1,)})
        await space.out_many(("x", number) for number in range(3000))
        for number in range(3000):
            assert await space.rdp("x", number) == ("x", number)


async def test_line_in_virtual_time() -> None:
    """A taker in line is served at the very moment of the write."""
    async with memory.connect() as client, trio.open_nursery() as nursery:
        space = client.space("s")
        served: list[float] = []

        async def wait() -> None:
            await space.in_("x", int)
            served.append(trio.current_time())

        nursery.start_soon(wait)
        await in_line(space, takers=1)
        await trio.sleep(100)
        written = trio.current_time()
        await space.out("x", 1)
        await trio.testing.wait_all_tasks_blocked()
        assert served == [written]
