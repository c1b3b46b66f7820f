"""What goes wrong between a client and its server, and that nothing is lost or done twice by it."""

from __future__ import annotations

import contextlib
import random
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any

import pytest
import redis
import trio

import tuplespace
from tests import servers
from tests.proxy import between
from tuplespace import (
    ANY,
    AccessDenied,
    LeaseLost,
    OutcomeUnknown,
    ServerError,
    Space,
    SpaceFull,
    Tuple,
    Unavailable,
    embedded,
    library,
)
from tuplespace.testing.stage import gives, hold, in_line, just, until

PATIENCE_S = 30.0


@asynccontextmanager
async def opened(url: str, name: str = "", **options: Any) -> AsyncIterator[Space]:
    """A space of a client of its own, under a name of its own when none is given."""
    index = options.pop("index", None)
    lease = options.pop("lease", 30.0)
    async with tuplespace.connect(url, **options) as client:
        yield client.space(name or secrets.token_hex(8), index=index, lease=lease)


@contextmanager
def admin(node: servers.Node) -> Iterator[redis.Redis]:
    """The server's own view, without a detour."""
    with node.client() as client:
        yield client


async def settled(space: Space, *, waiting: int) -> None:
    """Wait until nothing is leased and so many tuples wait."""

    async def there() -> bool:
        now = await space.statistics()
        return (now.waiting, now.leased) == (waiting, 0)

    with trio.fail_after(PATIENCE_S):
        await until(there)


# Cancelling


async def take_and_commit(space: Space, *template: Any) -> Tuple:
    async with space.take(*template) as taken:
        return taken.tuple


async def take_at_once(space: Space, *template: Any) -> Tuple | None:
    async with space.take(*template, wait=False) as taken:
        return taken.tuple if taken else None


@pytest.mark.parametrize(
    "ask",
    [Space.in_, take_and_commit, Space.inp, take_at_once],
    ids=["in_", "take", "inp", "take without waiting"],
)
async def test_cancelled_takes(valkey_url: str, ask: Callable[..., Awaitable[Tuple | None]]) -> None:
    """Of 2,000 takes cancelled within a millisecond of the matching out, none loses a tuple."""
    lanes, rounds = 40, 50
    got: list[Tuple] = []
    chance = random.Random(1)

    async def take(taking: Space, lane: int) -> None:
        found = await ask(taking, "job", lane, int)
        if found is not None:
            got.append(found)

    async def lane(writing: Space, taking: Space, lane: int) -> None:
        for serial in range(rounds):
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as outer, trio.open_nursery() as inner:
                    inner.start_soon(take, taking, lane)
                    await trio.sleep(chance.random() * 0.004)
                    outer.start_soon(writing.out, "job", lane, serial)
                    await trio.sleep(chance.random() * 0.001)
                    inner.cancel_scope.cancel()
            assert not scope.cancelled_caught

    index = {"job": (1,)}
    async with (
        opened(valkey_url, index=index) as writing,
        opened(valkey_url, writing.name, index=index) as taking,
    ):
        async with trio.open_nursery() as nursery:
            for number in range(lanes):
                nursery.start_soon(lane, writing, taking, number)
        assert len(got) > 0
        await settled(writing, waiting=lanes * rounds - len(got))
        left = [fields async for fields in writing.scan("job", ANY, ANY)]
        assert sorted(got + left) == [("job", at, serial) for at in range(lanes) for serial in range(rounds)]
        await in_line(writing)
    assert len(left) > 0


# Lost replies


Operation = Callable[[Space], Awaitable[object]]


async def commit_with_out(space: Space) -> None:
    async with space.take("x", int) as taken:
        await taken.commit(out=[("y", n) for n in range(3)])


async def commit(space: Space) -> None:
    async with space.take("x", int):
        pass


async def take_many(space: Space) -> None:
    async with space.take("x", int, many=2) as taken:
        assert list(taken) == [("x", 0), ("x", 1)]


LOST: dict[str, tuple[str, Operation, dict[str, int]]] = {
    "open": ("open", lambda space: space.out("y", 0), {"x": 4, "y": 1}),
    "out": ("out", lambda space: space.out("y", 0), {"x": 4, "y": 1}),
    "out_many": ("out", lambda space: space.out_many(("y", n) for n in range(700)), {"x": 4, "y": 700}),
    "swap": ("swap", lambda space: space.swap(("x", int), ("y", 0)), {"x": 3, "y": 1}),
    "inp": ("remove", lambda space: space.inp("x", int), {"x": 3, "y": 0}),
    "in_": ("take", lambda space: space.in_("x", int), {"x": 3, "y": 0}),
    "in_'s commit": ("commit", lambda space: space.in_("x", int), {"x": 3, "y": 0}),
    "take": ("take", commit, {"x": 3, "y": 0}),
    "take many": ("take", take_many, {"x": 2, "y": 0}),
    "commit": ("commit", commit, {"x": 3, "y": 0}),
    "commit with out": ("commit_out", commit_with_out, {"x": 3, "y": 3}),
    "rdp": ("read", lambda space: space.rdp("x", int), {"x": 4, "y": 0}),
    "count": ("count", lambda space: space.count("x", int), {"x": 4, "y": 0}),
    "statistics": ("statistics", lambda space: space.statistics(), {"x": 4, "y": 0}),
}


@pytest.mark.parametrize(("operation", "ask", "left"), LOST.values(), ids=LOST)
async def test_lost_replies(
    redis_node: servers.Node, operation: str, ask: Operation, left: dict[str, int]
) -> None:
    """A request whose answer was lost twice is done once, and gives its answer in the end."""
    async with between(redis_node) as proxy, opened(redis_node.url) as sound:
        await sound.out_many(("x", n) for n in range(4))
        async with opened(proxy.url, sound.name) as space:
            if operation != "open":
                assert await space.rdp("x", int) == ("x", 0)
            proxy.lose_reply(operation, times=2)
            await ask(space)
            assert proxy.lost == 2
            assert {tag: await sound.count(tag, int) for tag in left} == left
            now = await space.statistics()
            assert now.leased == 0
            assert (now.retries, now.reconnects) == (2, 2)


async def test_lost_answer_to_a_wait(redis_node: servers.Node) -> None:
    """A taker whose request to join the line went unanswered keeps its place and gets its tuple."""
    async with (
        between(redis_node) as proxy,
        opened(redis_node.url) as sound,
        opened(proxy.url, sound.name) as space,
        trio.open_nursery() as nursery,
    ):
        results: list[Tuple] = []
        await space.rdp("x", int)
        proxy.lose_reply("take")
        nursery.start_soon(_append, results, space.in_("x", int))
        await in_line(sound, takers=1)
        nursery.start_soon(_append, results, sound.in_("x", int))
        await in_line(sound, takers=2)
        await sound.out_many([("x", 1), ("x", 2)])
        await until(lambda: gives(just(len(results)), 2))
        assert proxy.lost == 1
        assert await sound.inp("x", int) is None
        await settled(sound, waiting=0)


async def _reaches(things: list[Any], length: int) -> bool:
    await trio.lowlevel.checkpoint()
    return len(things) >= length


async def _append(results: list[Any], answer: Awaitable[Any]) -> None:
    results.append(await answer)


async def test_everything_is_cut_again_and_again(redis_node: servers.Node) -> None:
    """Workers whose connections are cut all the time do each piece of work exactly once."""
    pieces, workers = 300, 8
    async with between(redis_node) as proxy, opened(redis_node.url) as sound:
        async with opened(proxy.url, sound.name) as space, trio.open_nursery() as nursery:

            async def work() -> None:
                while True:
                    async with space.take("todo", int) as taken:
                        await taken.commit(out=[("done", taken.tuple[1])])

            async def write() -> None:
                for piece in range(pieces):
                    await space.out("todo", piece)

            async def cut() -> None:
                chance = random.Random(2)
                while True:
                    await trio.sleep(chance.random() * 0.05)
                    await proxy.cut()

            for _ in range(workers):
                nursery.start_soon(work)
            nursery.start_soon(cut)
            await write()
            await until(lambda: gives(sound.count("done", int), pieces))
            assert (await space.statistics()).retries > 0
            nursery.cancel_scope.cancel()
        done: list[Any] = [fields[1] async for fields in sound.scan("done", int)]
        assert sorted(done) == list(range(pieces))
        await settled(sound, waiting=pieces)


async def test_late_mail(redis_node: servers.Node) -> None:
    """A taker that hears of a hand-over after its lease has ended gets nothing by it, and loses nothing."""
    async with between(redis_node) as proxy, opened(redis_node.url) as sound:
        async with opened(proxy.url, sound.name, lease=0.3) as space, trio.open_nursery() as nursery:
            results: list[Tuple] = []
            nursery.start_soon(_append, results, space.in_("x", int))
            await in_line(sound, takers=1)
            proxy.hold_mail()
            await sound.out("x", 1)  # is handed over, but the taker does not hear of it
            while (
                await sound.inp("x", int) is None
            ):  # until the lease ends, and this is quicker than the taker
                await trio.lowlevel.checkpoint()
            await in_line(sound, takers=1)  # the taker has asked anew
            proxy.release()
            await sound.out("x", 2)
            await until(lambda: just(results))
            assert results == [("x", 2)]
        await settled(sound, waiting=0)


async def test_cancelled_take_of_many(redis_node: servers.Node) -> None:
    """A take of a thousand that is cancelled before it heard of them counts as no delivery of any."""
    async with between(redis_node) as proxy, opened(redis_node.url) as sound:
        await sound.out_many(("x", n) for n in range(1000))
        async with opened(proxy.url, sound.name) as space:
            await space.out("warm")
            await space.in_("warm")
            proxy.hold_replies()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(partial(hold, space, "x", int, many=1000))
                await until(lambda: gives(sound.count("x", int), 0))
                nursery.cancel_scope.cancel()
            proxy.release()
            await until(lambda: gives(sound.count("x", int), 1000))
        async with sound.take("x", int, many=1000) as taken:
            assert taken.deliveries == [1] * 1000


async def test_unreachable_waiters(redis_node: servers.Node) -> None:
    """A taker that can be reached gets the tuple, however many in front of it are cut off."""
    async with between(redis_node) as proxy, opened(redis_node.url) as sound:
        async with opened(proxy.url, sound.name) as space, trio.open_nursery() as nursery:
            for _ in range(200):
                nursery.start_soon(space.in_, "x", int)
            await in_line(sound, takers=200)
            results: list[Tuple] = []
            nursery.start_soon(_append, results, sound.in_("x", int))
            await in_line(sound, takers=201)
            await proxy.cut(refuse=True)
            await sound.out("x", 1)
            with trio.fail_after(20):
                await until(lambda: just(results))
            nursery.cancel_scope.cancel()
        proxy.accept()


# A server that has forgotten


async def test_forgotten_session(redis_node: servers.Node) -> None:
    """A request repeated to a server that lost the session is never redone: its outcome is unknown."""
    with servers.redis_server("redis") as node:
        async with between(node) as proxy, opened(proxy.url) as space:
            await space.out("x", 0)
            asked: list[tuple[str, Callable[[], Awaitable[object]]]] = [
                ("out", lambda: space.out("x", 1)),
                ("swap", lambda: space.swap(("x", int), ("x", 1))),
                ("remove", lambda: space.inp("x", int)),
            ]
            for operation, ask in asked:
                with admin(node) as client:
                    proxy.on_loss = client.flushall
                    proxy.lose_reply(operation)
                    with pytest.raises(OutcomeUnknown, match="session"):
                        await ask()
                assert await space.count("x", int) == 0
                await space.out("x", 2)
                assert await space.count("x", int) == 1


async def test_restart_without_data() -> None:
    """A client goes on by itself with a server that has lost everything, functions included."""
    with servers.redis_server("redis") as node:
        async with opened(node.url) as space, trio.open_nursery() as nursery:
            results: list[Tuple] = []
            await space.out("gone")
            nursery.start_soon(_append, results, space.in_("x", int))
            await in_line(space, takers=1)
            await trio.to_thread.run_sync(node.restart)
            assert await space.count("gone") == 0
            await space.out("y")
            assert await space.inp("y") == ("y",)
            await in_line(space, takers=1)
            await space.out("x", 1)
            await until(lambda: just(results))


async def test_functions_are_loaded_again(server: servers.Node) -> None:
    """A client whose functions and scripts are flushed loads them again, in the middle of its work."""
    async with opened(server.url) as space, trio.open_nursery() as nursery:

        async def work() -> None:
            while True:
                async with space.take("todo", int) as taken:
                    await taken.commit(out=[("done", taken.tuple[1])])

        for _ in range(4):
            nursery.start_soon(work)
        with admin(server) as client:
            for piece in range(100):
                await space.out("todo", piece)
                if piece % 10 == 0:
                    client.function_flush()
                    client.script_flush()
        await until(lambda: gives(space.count("done", int), 100))
        nursery.cancel_scope.cancel()


async def test_loading_is_cut_off() -> None:
    """A client that is cut off while it brings its functions to the server goes on afterwards."""
    with servers.redis_server("redis") as node:
        async with between(node) as proxy, opened(proxy.url) as space:
            proxy.lose_reply_to(b"FUNCTION")
            await space.out("x", 1)
            assert await space.in_("x", int) == ("x", 1)
            assert proxy.lost == 1


# A server that is away


async def test_killed_server() -> None:
    """Nothing acknowledged is lost or done twice when the server is killed and restarted under load."""
    with servers.redis_server("redis", appendonly=True, appendfsync="always") as node:
        async with opened(node.url) as space, trio.open_nursery() as nursery:
            written: list[int] = []
            stop = trio.Event()

            async def write(writer: int) -> None:
                serial = writer
                while not stop.is_set():
                    await space.out("todo", serial)
                    written.append(serial)
                    serial += 4

            async def work() -> None:
                while True:
                    async with space.take("todo", int, many=3) as taken:
                        await taken.commit(out=[("done", fields[1]) for fields in taken])

            async with trio.open_nursery() as writers:
                for writer in range(4):
                    writers.start_soon(write, writer)
                    nursery.start_soon(work)
                for kill in range(3):
                    enough = len(written) + 100
                    await until(partial(_reaches, written, enough))
                    await trio.to_thread.run_sync(node.restart)
                    assert node.running, kill
                stop.set()
            await until(lambda: gives(space.count("done", int), len(written)))
            nursery.cancel_scope.cancel()
        async with opened(node.url, space.name) as space:
            done: list[Any] = [fields[1] async for fields in space.scan("done", int)]
            assert sorted(done) == sorted(written)
            await settled(space, waiting=len(written))


WAITING: dict[str, Operation] = {
    "out": lambda space: space.out("x", 1),
    "out_many": lambda space: space.out_many([("x", 1)]),
    "in_": lambda space: space.in_("x", int),
    "inp": lambda space: space.inp("x", int),
    "rd": lambda space: space.rd("x", int),
    "rdp": lambda space: space.rdp("x", int),
    "take": lambda space: hold(space, "x", int),
    "count": lambda space: space.count("x", int),
    "swap": lambda space: space.swap(("x", int), ("x", 2)),
    "statistics": lambda space: space.statistics(),
    "watch": lambda space: space.watch("x", int).__aenter__(),
    "election": lambda space: tuplespace.election(space, "boss").__aenter__(),
}


async def test_server_away() -> None:
    """While there is no server callers wait up to the timeout and get Unavailable: nothing was sent."""
    with servers.redis_server("redis") as node:
        async with opened(node.url, timeout=1.0) as space:
            began = trio.current_time()
            await trio.to_thread.run_sync(node.kill)
            errors: dict[str, Exception] = {}

            async def ask(name: str, operation: Operation) -> None:
                try:
                    await operation(space)
                except Unavailable as error:
                    errors[name] = error
                    assert 0.9 < trio.current_time() - began < 20

            async with trio.open_nursery() as nursery:
                for name, operation in WAITING.items():
                    nursery.start_soon(ask, name, operation)
            assert {name: type(error) for name, error in errors.items()} == dict.fromkeys(
                WAITING, Unavailable
            )
            for error in errors.values():
                assert "has not answered for 1 s" in str(error)
                assert "\n" not in str(error)
                assert servers.PASSWORD not in str(error)
            await trio.to_thread.run_sync(node.start)
            await space.out("x", 5)
            assert await space.in_("x", int) == ("x", 5)


async def test_silent_server() -> None:
    """When the server hangs with a request its outcome is unknown; afterwards the client goes on."""
    with servers.redis_server("redis") as node:
        async with opened(node.url, timeout=1.0) as space:
            await space.out("x", 0)
            taken = await hold(space, "x", int, lease=1)
            await trio.to_thread.run_sync(node.pause)
            try:
                with pytest.raises(OutcomeUnknown, match="had been sent"):
                    await space.out("y")
                with pytest.raises(Unavailable, match="has not answered"):
                    await space.inp("y")
                with pytest.raises(Unavailable, match="has not answered"):
                    await taken.commit()
                with pytest.raises(Unavailable):
                    await space.in_("x", int)
            finally:
                node.resume()
            await until(lambda: gives(space.count("y"), 1))


async def test_commit_while_away() -> None:
    """A commit that cannot be sent before the lease has ended fails, and the tuple is found again."""
    with servers.redis_server("redis", appendonly=True, appendfsync="always") as node:
        async with opened(node.url, timeout=20, lease=0.5) as space:
            await space.out("x", 1)
            taken = await hold(space, "x", int)
            await trio.to_thread.run_sync(node.kill)
            with pytest.raises((OutcomeUnknown, LeaseLost)):
                await taken.commit(out=[("y",)])
            await trio.to_thread.run_sync(node.start)
            assert await space.in_("x", int) == ("x", 1)
            assert await space.inp("y") is None


async def test_lease_survives_an_outage() -> None:
    """A holder whose server was away for less than the lease, and longer than the timeout, can commit."""
    with servers.redis_server("redis", appendonly=True, appendfsync="always") as node:
        async with opened(node.url, timeout=0.5, lease=6) as space:
            await space.out("x", 1)
            async with space.take("x", int):
                await trio.to_thread.run_sync(node.kill)
                with pytest.raises(Unavailable):
                    await space.count("x", int)
                await trio.sleep(2.5)  # a renewal has failed by now
                await trio.to_thread.run_sync(node.start)
            await settled(space, waiting=0)


async def test_who_has_had_a_tuple_may_be_forgotten() -> None:
    """What a server has from before its start is never delivered as if for the first time; what is new is."""
    with servers.redis_server("redis", appendonly=True, appendfsync="always") as node:
        async with opened(node.url) as space:
            await space.out_many([("x", 1), ("x", 2)])
            await trio.to_thread.run_sync(node.restart)
            await space.out("x", 3)
            async with space.take("x", int, many=3) as taken:
                assert taken.deliveries == [2, 2, 1]
                taken.give_back()
            async with space.take("x", int, many=3) as taken:
                assert taken.deliveries == [2, 2, 2]
            with admin(node) as client:
                client.delete(*library.keys(space.name))
            began = trio.current_time()
            await space.out("x", 4)
            async with space.take("x", int) as taken:
                assert taken.deliveries == [1]
                assert taken.tenure.seconds <= trio.current_time() - began + _A_TICK_S


async def test_a_master_that_was_a_replica_meanwhile() -> None:
    """One that comes back without having been started does not take for its own what another one has done."""
    with (
        servers.redis_server("redis") as one,
        servers.redis_server("redis") as two,
        admin(one) as first,
        admin(two) as second,
    ):
        async with opened(one.url) as space, opened(two.url, space.name) as there:
            await space.out("x", 1)
            for each in (first, second):
                each.config_set("masterauth", servers.PASSWORD)
            second.replicaof("127.0.0.1", str(one.port))
            await _synced(second)
            second.replicaof("NO", "ONE")
            await there.in_("x", int)
            await there.out("x", 2)
            first.replicaof("127.0.0.1", str(two.port))
            await _synced(first)
            first.replicaof("NO", "ONE")
            began = trio.current_time()
            async with space.take("x", int) as taken:
                assert (taken.tuple, taken.deliveries) == (("x", 2), [2])
                assert taken.tenure.seconds <= trio.current_time() - began + _A_TICK_S


_A_TICK_S = 0.002
"""A server counts in milliseconds."""


async def _synced(replica: redis.Redis) -> None:
    with trio.fail_after(60):
        while replica.info("replication")["master_link_status"] != "up":  # noqa: ASYNC110 - nothing says so
            await trio.sleep(0.05)


async def test_how_long_a_server_has_forgotten_nothing() -> None:
    """It counts from when it was started, which is told from when there was nothing yet."""
    with servers.redis_server("redis", appendonly=True, appendfsync="always") as node:
        async with opened(node.url) as space:
            await space.out("x", 1)
            await trio.sleep(0.5)
            async with space.take("x", int) as taken:
                assert taken.tenure.from_nothing
                assert taken.tenure.seconds >= 0.5
                first = taken.tenure.seconds
                await trio.sleep(0.1)
                await taken.renew()
                assert taken.tenure.seconds > first
                taken.give_back()
            start = (await space.tenure()).start
            assert start
            began = trio.current_time()
            await trio.to_thread.run_sync(node.restart)
            assert (await space.tenure()).start not in (0, start)
            async with space.take("x", int) as taken:
                assert not taken.tenure.from_nothing
                assert taken.tenure.seconds <= trio.current_time() - began + _A_TICK_S
                taken.give_back()
            async with space.take("x", int, wait=True) as taken:
                await taken.renew()
                assert not taken.tenure.from_nothing


async def test_closing_while_silent() -> None:
    """A client can be closed within seconds though its server hangs."""
    with servers.redis_server("redis") as node:
        began = trio.current_time()
        async with opened(node.url) as space:
            await space.out("x", 1)
            await trio.to_thread.run_sync(node.pause)
        node.resume()
        assert trio.current_time() - began < 20


async def test_full_server() -> None:
    """A server at its memory limit refuses to write, while everything that makes room goes on."""
    with servers.redis_server("redis") as node, admin(node) as client:
        async with opened(node.url) as space:
            await space.out_many(("x", n) for n in range(10))
            held = await hold(space, "x", int)
            client.config_set("maxmemory", 1)
            for ask in (
                lambda: space.out("y"),
                lambda: space.out_many([("y",)]),
                lambda: space.swap(("x", int), ("y",)),
                lambda: held.commit(out=[("y",)]),
            ):
                with pytest.raises(SpaceFull, match="memory limit"):
                    await ask()
            assert await space.rdp("x", int) == ("x", 1)
            assert await space.inp("x", int) == ("x", 1)
            assert await space.in_("x", int) == ("x", 2)
            async with space.take("x", int, many=2) as taken:
                assert [fields[1] for fields in taken] == [3, 4]
            async with space.take("x", int) as taken:
                taken.give_back()
            assert await space.rd("x", int) == ("x", 5)
            await held.commit()
            assert await space.count("x", int) == 5
            with trio.move_on_after(0.2) as scope:
                await space.in_("y")
            assert scope.cancelled_caught
            async with tuplespace.election(space, "boss") as term:
                assert term.token > 0
            client.config_set("maxmemory", 0)
            await space.out("y")
            await settled(space, waiting=6)


async def test_full_server_and_who_waits() -> None:
    """A client that comes to a full server for the first time can still take what there is."""
    with servers.redis_server("redis") as node, admin(node) as client:
        async with opened(node.url) as space:
            await space.out("x", 1)
            client.config_set("maxmemory", 1)
            async with opened(node.url, space.name) as late:
                assert await late.in_("x", int) == ("x", 1)


# Rights


@pytest.mark.parametrize("ask", WAITING.values(), ids=WAITING)
async def test_wrong_password(redis_node: servers.Node, ask: Operation) -> None:
    """A wrong password, or none, is one clear error at once, not after the timeout."""
    async with opened(redis_node.url, password="guess") as space:
        with trio.fail_after(20), pytest.raises(AccessDenied, match="refuses this user"):
            await ask(space)
    async with opened(f"redis://127.0.0.1:{redis_node.port}") as space:
        with trio.fail_after(20), pytest.raises(AccessDenied, match="refuses this user"):
            await ask(space)


async def test_missing_rights() -> None:
    """A user who may not call functions, or not subscribe, is told so."""
    user = servers.User("weak", rules="~* +ping")
    with servers.redis_server("redis", user=user) as node, admin(node) as client:
        async with opened(node.url, timeout=3) as space:
            with pytest.raises(AccessDenied, match="fcall"):
                await space.out("x", 1)
            client.execute_command("ACL", "SETUSER", "weak", "+@all", "resetchannels")
            await space.out("x", 1)
            assert await space.inp("x", int) == ("x", 1)
            with pytest.raises((AccessDenied, Unavailable), match=r"(?i)channel|permission"):
                await space.in_("x", int)
            client.execute_command("ACL", "SETUSER", "weak", "-hset")
            with pytest.raises(AccessDenied, match="script"):
                await space.out("x", 1)


@pytest.mark.skipif(not servers.tls_binaries(), reason="no server here was built with TLS")
async def test_untrusted_certificate() -> None:
    """A server whose certificate nobody vouches for is not spoken to, and the error says why."""
    with servers.redis_server(tls=True) as node:
        stranger, _, _ = node.url.partition("?")
        async with opened(stranger, timeout=1) as space:
            with pytest.raises((Unavailable, ServerError), match="ertificate"):
                await space.out("x", 1)
        ca = str(node.directory / "ca.pem")
        async with opened(stranger, tls_ca=ca) as space:
            await space.out("x", 1)


# Clusters and Sentinel


def names_on(cluster: servers.Cluster) -> list[str]:
    """A space's name for each node, in their order."""
    names: dict[int, str] = {}
    while len(names) < len(cluster.nodes):
        name = secrets.token_hex(8)
        names.setdefault(cluster.nodes.index(cluster.node_of(library.keys(name)[0])), name)
    return [names[at] for at in range(len(cluster.nodes))]


async def test_hung_shard() -> None:
    """A shard that hangs holds up nobody on the others, whatever waits for it meanwhile."""
    with servers.cluster("redis", node_timeout_ms=15_000) as cluster:
        names = names_on(cluster)
        async with tuplespace.connect(cluster.url) as client, trio.open_nursery() as nursery:
            hung, *sound = [client.space(name) for name in names]
            for space in (hung, *sound):
                await space.out("x", 0)
                assert await space.in_("x", int) == ("x", 0)
            cluster.nodes[0].pause()
            try:
                late: list[object] = []
                for _ in range(20):
                    nursery.start_soon(_append, late, hung.out("x", 1))
                    nursery.start_soon(_append, late, hung.count("x", int))
                worst_s = 0.0
                for serial in range(100):
                    for space in sound:
                        began = trio.current_time()
                        await space.out("x", serial)
                        assert await space.in_("x", int) == ("x", serial)
                        worst_s = max(worst_s, trio.current_time() - began)
                    await trio.sleep(0.02)
                assert not late
                assert worst_s < 1.0
            finally:
                cluster.nodes[0].resume()
            await until(lambda: gives(just(len(late)), 40))
            assert await hung.count("x", int) == 20


async def test_lost_shard() -> None:
    """A shard that is gone is Unavailable, the others go on, and it is used again when it comes back."""
    with servers.cluster("redis", extra=["appendonly yes", "appendfsync always"]) as cluster:
        names = names_on(cluster)
        async with tuplespace.connect(cluster.url, timeout=2.0) as client:
            gone, *sound = [client.space(name) for name in names]
            await gone.out("x", 1)
            await trio.to_thread.run_sync(cluster.nodes[0].kill)
            with pytest.raises(Unavailable, match="has not answered"):
                await gone.count("x", int)
            for space in sound:
                await space.out("x", 1)
                assert await space.in_("x", int) == ("x", 1)
            await trio.to_thread.run_sync(cluster.nodes[0].start)
            with trio.fail_after(PATIENCE_S):
                while True:
                    with contextlib.suppress(Unavailable):
                        assert await gone.inp("x", int) == ("x", 1)
                        break


def migrate(cluster: servers.Cluster, name: str, source: servers.Node, target: servers.Node) -> None:
    """Move a space to another shard the way an operator's tools do, key by key."""
    with admin(source) as old, admin(target) as new:
        slot = int(old.cluster("KEYSLOT", library.keys(name)[0]))
        source_id, target_id = str(old.cluster("MYID")), str(new.cluster("MYID"))
        new.cluster("SETSLOT", slot, "IMPORTING", source_id)
        old.cluster("SETSLOT", slot, "MIGRATING", target_id)
        while keys := old.cluster("GETKEYSINSLOT", slot, 1):
            address = ("127.0.0.1", target.port, "", 0, 5000, "AUTH", servers.PASSWORD, "KEYS")
            old.execute_command("MIGRATE", *address, *keys)
            time.sleep(0.02)
        for node in (target, source, *cluster.nodes):
            with admin(node) as client:
                client.cluster("SETSLOT", slot, "NODE", target_id)


@pytest.mark.parametrize("binary", sorted(servers.binaries()))
async def test_moving_space(binary: str) -> None:
    """A space that moves to another shard and back, under load and with takers in line, loses nothing."""
    with servers.cluster(binary) as cluster:
        name = names_on(cluster)[0]
        here, there, _ = cluster.nodes
        async with (
            tuplespace.connect(cluster.url) as one,
            tuplespace.connect(cluster.url) as two,
            trio.open_nursery() as nursery,
        ):
            writing, working = one.space(name), two.space(name)
            written: list[int] = []
            stop = trio.Event()

            async def write(serial: int) -> None:
                while not stop.is_set():
                    await writing.out("todo", serial)
                    written.append(serial)
                    serial += 4
                    await trio.sleep(0.001)

            async def work() -> None:
                while True:
                    async with working.take("todo", int, many=3) as taken:
                        await taken.commit(out=[("done", fields[1]) for fields in taken])

            results: list[Tuple] = []
            nursery.start_soon(_append, results, working.in_("last", int))
            async with trio.open_nursery() as writers:
                for serial in range(4):
                    writers.start_soon(write, serial)
                    nursery.start_soon(work)
                for source, target in ((here, there), (there, here)):
                    await until(partial(_reaches, written, len(written) + 100))
                    await trio.to_thread.run_sync(migrate, cluster, name, source, target)
                await until(partial(_reaches, written, len(written) + 100))
                stop.set()
            await until(lambda: gives(writing.count("done", int), len(written)))
            await writing.out("last", 1)
            await until(lambda: just(results))
            nursery.cancel_scope.cancel()
        async with opened(cluster.url, name) as space:
            done: list[Any] = [fields[1] async for fields in space.scan("done", int)]
            assert sorted(done) == sorted(written)
            await settled(space, waiting=len(written))


def asked(node: servers.Node) -> int:
    """How many functions a server has been asked to run, in vain or not."""
    with admin(node) as client:
        statistics = client.info("commandstats")["cmdstat_fcall"]
    return int(statistics["calls"]) + int(statistics["rejected_calls"])


async def test_new_place_is_remembered() -> None:
    """A client that was sent on to a space's new shard asks there from then on."""
    with servers.cluster("redis") as cluster:
        name = names_on(cluster)[0]
        here, there, _ = cluster.nodes
        async with opened(cluster.url, name) as space:
            await space.out("x", 0)
            await trio.to_thread.run_sync(migrate, cluster, name, here, there)
            await space.out("x", 1)
            before = asked(here)
            for serial in range(20):
                await space.out("x", serial)
                async with tuplespace.election(space, "boss"):
                    pass
            assert await space.in_("x", int) == ("x", 0)
            assert asked(here) == before


def move_empty_slots(cluster: servers.Cluster, source: servers.Node, target: servers.Node, name: str) -> None:
    """Give all slots but a space's to another shard, as an operator does before the shard is taken away."""
    with admin(target) as client:
        target_id = str(client.cluster("MYID"))
        kept = int(client.cluster("KEYSLOT", library.keys(name)[0]))
    assert source is cluster.nodes[0]
    slots = [slot for slot in range(servers.SLOTS // len(cluster.nodes)) if slot != kept]
    for node in (target, *cluster.nodes):
        with admin(node) as client, client.pipeline(transaction=False) as pipeline:
            for slot in slots:
                pipeline.execute_command("CLUSTER", "SETSLOT", slot, "NODE", target_id)
            pipeline.execute()


async def test_removed_shard() -> None:
    """A shard that gave all it had to another can be taken away while a client works and waits."""
    with servers.cluster("redis", extra=["cluster-allow-replica-migration no"]) as cluster:
        name = names_on(cluster)[0]
        here, there, _ = cluster.nodes
        async with opened(cluster.url, name) as space, trio.open_nursery() as nursery:
            results: list[Tuple] = []
            nursery.start_soon(_append, results, space.in_("last", int))
            await space.out("x", 0)
            await in_line(space, takers=1)
            await trio.to_thread.run_sync(move_empty_slots, cluster, here, there, name)
            for _ in range(20):
                nursery.start_soon(_append, [], space.in_("never", int))
            await trio.to_thread.run_sync(migrate, cluster, name, here, there)
            await space.out("x", 1)
            await trio.to_thread.run_sync(here.kill)
            await space.out("x", 2)
            assert [fields[1] async for fields in space.scan("x", int)] == [0, 1, 2]
            await space.out("last", 1)
            await until(lambda: just(results))
            nursery.cancel_scope.cancel()


async def test_whole_cluster_away() -> None:
    """A client goes on by itself after all shards were away at the same time."""
    with servers.cluster("redis", shards=1, extra=["appendonly yes", "appendfsync always"]) as cluster:
        (node,) = cluster.nodes
        async with opened(cluster.url, timeout=1.0) as space:
            await space.out("x", 1)
            await trio.to_thread.run_sync(node.kill)
            with pytest.raises(Unavailable, match="has not answered"):
                await space.count("x", int)
            await trio.to_thread.run_sync(node.start)
            await until(lambda: _answers(space))
            assert await space.inp("x", int) == ("x", 1)


async def _answers(space: Space) -> bool:
    try:
        await space.statistics()
    except Unavailable:
        return False
    return True


async def test_failover() -> None:
    """When Sentinel makes another server the master the client goes on with that one by itself."""
    with servers.sentinel_group("redis") as group:
        async with opened(group.url) as space, trio.open_nursery() as nursery:
            results: list[Tuple] = []
            await space.out("x", 1)
            nursery.start_soon(_append, results, space.in_("y", int))
            await in_line(space, takers=1)
            with admin(group.master) as master:
                master.wait(1, 5000)
            old = group.master
            await trio.to_thread.run_sync(group.failover)
            assert await space.in_("x", int) == ("x", 1)
            await space.out("y", 2)
            await until(lambda: just(results))
            assert not old.running


async def test_demotion() -> None:
    """A master that becomes a replica while the client is connected to it is left for the new one."""
    with servers.sentinel_group("redis") as group:
        async with opened(group.url) as space:
            await space.out("x", 1)
            with admin(group.master) as master:
                master.wait(1, 5000)
            await trio.to_thread.run_sync(partial(group.failover, kill=False))
            await space.out("x", 2)
            assert [fields[1] async for fields in space.scan("x", int)] == [1, 2]


async def test_replica() -> None:
    """A client of a replica cannot write, and is told why."""
    with servers.sentinel_group("redis", sentinels=1) as group:
        replica = next(server for server in group.servers if server is not group.master)
        async with opened(replica.url, timeout=1) as space:
            with pytest.raises((ServerError, Unavailable), match="read only"):
                await space.out("x", 1)


async def test_no_cluster(redis_node: servers.Node) -> None:
    """A cluster's address with no cluster behind it is one clear error."""
    port = embedded.free_port()
    for url in (f"redis+cluster://127.0.0.1:{port}", redis_node.url.replace("redis:", "redis+cluster:")):
        with pytest.raises(Unavailable, match="no server of"):
            async with tuplespace.connect(url):
                raise AssertionError
