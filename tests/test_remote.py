"""What is particular to a space on a server: its keys, sessions and slots, its bounds, its functions."""

from __future__ import annotations

import itertools
import random
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio

import tuplespace
from tests import servers
from tests.conftest import SetClock
from tests.proxy import between
from tuplespace import (
    ANY,
    AccessDenied,
    ClientClosed,
    IndexMismatch,
    ServerError,
    Space,
    SpaceFull,
    TemplateError,
    Tuple,
    Unavailable,
    library,
)
from tuplespace.pump import Call
from tuplespace.remote import RemoteBackend
from tuplespace.testing.stage import gives, in_line, just, listed, until


@asynccontextmanager
async def opened(url: str, name: str = "", **options: Any) -> AsyncIterator[Space]:
    """A space of a client of its own, under a name of its own when none is given."""
    async with tuplespace.connect(url) as client:
        yield client.space(name or secrets.token_hex(8), **options)


async def test_keys(redis_node: servers.Node) -> None:
    """A space uses the keys that it says it uses, all in one slot, and after its last tuple nearly none."""
    async with opened(redis_node.url, index={"x": (1,)}) as space:
        with redis_node.client() as client:
            await space.out("x", 1, ttl=100)
            async with space.take("x", 1), trio.open_nursery() as nursery:
                nursery.start_soon(space.in_, "y")
                nursery.start_soon(space.rd, "y")
                await in_line(space, takers=1, readers=1)
                await space.out("x", 2)
                present = set(client.scan_iter(f"*{space.name}*"))
                assert present <= set(library.keys(space.name))
                assert len(present) >= 9
                nursery.cancel_scope.cancel()
            assert await space.in_("x", 2) == ("x", 2)
            await in_line(space)
            left = {key.rpartition(":")[2] for key in client.scan_iter(f"*{space.name}*")}
            assert left == {"sessions", "replies", "meta"}
    with redis_node.client() as client:
        left = {key.rpartition(":")[2] for key in client.scan_iter(f"*{space.name}*")}
        assert left == {"meta"}


def test_functions() -> None:
    """Every operation is a function whose name carries the version; there are no others."""
    names = [library.function(operation) for operation in library.OPERATIONS]
    assert all(name.startswith(f"ts{library.FORMAT}_") for name in names)
    assert all(f"function_name='{name}'" in library.SOURCE for name in names)
    with pytest.raises(KeyError):
        library.function("flushall")


async def test_many_at_once(server_url: str) -> None:
    """More requests at once than a session has slots wait for their turn, and all are done."""
    async with opened(server_url) as space:
        results: list[Tuple | None] = []

        async def move(number: int) -> None:
            await space.out("x", number)
            results.append(await space.inp("x", int))

        async with trio.open_nursery() as nursery:
            for number in range(1500):
                nursery.start_soon(move, number)
        assert sorted(results) == [("x", number) for number in range(1500)]  # type: ignore[type-var]
        now = await space.statistics()
        assert (now.waiting, now.leased) == (0, 0)
        assert now.kept_replies <= 512
        assert now.sessions == 1
        assert now.calls > 0


async def test_bad_among_good(server_url: str) -> None:
    """Of many writes at once the one that is refused fails, and all others are done."""
    async with tuplespace.connect(server_url) as client:
        space = client.space(secrets.token_hex(8), index={"x": (1,)})
        other = client.space(space.name)
        await space.out("x", 0)
        refused: list[int] = []

        async def write(number: int) -> None:
            try:
                await (other if number % 10 == 0 else space).out("x", number)
            except IndexMismatch:
                refused.append(number)

        async with trio.open_nursery() as nursery:
            for number in range(1, 201):
                nursery.start_soon(write, number)
        assert sorted(refused) == list(range(10, 201, 10))
        assert await space.count("x", int) == 181


async def test_full_for_many() -> None:
    """Of many writes at once to a full server all fail; of many takes at once all succeed."""
    with servers.redis_server("redis") as node, node.client() as client:
        async with opened(node.url) as space:
            await space.out_many(("x", number) for number in range(100))
            client.config_set("maxmemory", 1)
            failed: list[Exception] = []
            taken: list[Tuple | None] = []

            async def write() -> None:
                try:
                    await space.out("y")
                except SpaceFull as error:
                    failed.append(error)

            async def take() -> None:
                taken.append(await space.inp("x", int))

            async with trio.open_nursery() as nursery:
                for _ in range(100):
                    nursery.start_soon(write)
                    nursery.start_soon(take)
            assert len(failed) == 100
            assert sorted(taken) == [("x", number) for number in range(100)]  # type: ignore[type-var]
            client.config_set("maxmemory", 0)
            assert await space.count("y") == 0


async def test_cancelled_among_many(server_url: str) -> None:
    """Of many takes at once those that are cancelled take nothing along, whenever that happens."""
    chance = random.Random(3)
    async with opened(server_url) as space:
        got: list[Tuple] = []

        async def take() -> None:
            with trio.move_on_after(chance.random() * 0.05):
                while (found := await space.inp("x", int)) is not None:
                    got.append(found)

        await space.out_many(("x", number) for number in range(10_000))
        async with trio.open_nursery() as nursery:
            for _ in range(200):
                nursery.start_soon(take)

        async def settled() -> bool:
            return (await space.statistics()).waiting == 10_000 - len(got)

        await until(settled)
        left = await listed(space.scan("x", int))
        assert sorted(got + left) == [("x", number) for number in range(10_000)]
        assert left == sorted(left)
        assert 0 < len(got) < 10_000


async def test_cut_among_many(redis_node: servers.Node) -> None:
    """Many writes and takes at once, over connections that are cut all the time, are each done once."""
    chance = random.Random(4)
    async with between(redis_node) as proxy, opened(proxy.url) as space, trio.open_nursery() as cutting:

        async def cut() -> None:
            while True:
                await trio.sleep(chance.random() * 0.03)
                await proxy.cut()

        got: list[Tuple | None] = []

        async def move(number: int) -> None:
            for serial in range(20):
                await space.out("x", number * 20 + serial)
                got.append(await space.inp("x", int))

        cutting.start_soon(cut)
        async with trio.open_nursery() as nursery:
            for number in range(50):
                nursery.start_soon(move, number)
        assert sorted(got) == [("x", number) for number in range(1000)]  # type: ignore[type-var]
        assert (await space.statistics()).retries > 0
        cutting.cancel_scope.cancel()


@pytest.mark.parametrize("ask", ["out", "inp", "count"])
async def test_callers_that_outlive_the_client(redis_node: servers.Node, ask: str) -> None:
    """Tasks whose requests are under way when another closes the client get an error, and do not hang."""
    ended: Counter[str] = Counter()
    async with between(redis_node) as proxy, trio.open_nursery() as nursery:
        async with opened(proxy.url) as space:

            async def go_on() -> None:
                try:
                    while True:
                        await getattr(space, ask)("x", 1 if ask == "out" else float)
                except (ClientClosed, Unavailable) as error:
                    ended[type(error).__name__] += 1

            async def release_soon() -> None:
                await trio.sleep(0.3)
                proxy.release()

            for _ in range(100):
                nursery.start_soon(go_on)
            await until(lambda: _busy(space))
            proxy.hold_replies()
            await trio.sleep(0.1)  # until everything waits for a reply
            nursery.start_soon(release_soon)
        with trio.fail_after(60):
            await until(lambda: gives(just(ended.total()), 100))


async def _busy(space: Space) -> bool:
    return (await space.statistics()).calls > 100


async def test_late_duplicates(server_url: str) -> None:
    """Requests that arrive a second time, much later and in any order, change nothing."""
    chance = random.Random(5)
    async with opened(server_url) as space:
        assert isinstance(space.backend, RemoteBackend)
        carrier = space.backend._carrier
        seen: list[Call] = []
        ask = carrier.ask

        async def record(call: Call, **options: Any) -> Any:
            if call.flag_at is not None:
                seen.append(call)
            return await ask(call, **options)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(carrier, "ask", record)
            await space.out_many(("x", number) for number in range(10))
            for number in range(5):
                await space.inp("x", int)
                await space.out("y", number)
                async with space.take("x", int) as taken:
                    await taken.commit(out=[("z", number)])
                await space.swap(("y", int), ("y", number))
        expected = {tag: await listed(space.scan(tag, int)) for tag in "xyz"}
        assert len(seen) > 20
        for repeated in (True, False):
            chance.shuffle(seen)
            for call in seen:
                again = Call(call.data, call.flag_at, key=call.key)
                if repeated:
                    again.repeat()
                await ask(again)
            assert {tag: await listed(space.scan(tag, int)) for tag in "xyz"} == expected
            assert (await space.statistics()).leased == 0


async def test_too_many_kinds(server_url: str) -> None:
    """ANY over more kinds of tuple than one call may look at is refused; with types they are found."""
    async with opened(server_url) as space:
        values: list[Any] = ["", b"", 0, 0.0, False, None, ()]
        kinds = list(itertools.islice(itertools.product(values, repeat=3), 70))
        await space.out_many(("x", *kind) for kind in kinds)
        for ask in (space.rdp, space.inp, space.count, space.in_, space.rd):
            with pytest.raises(TemplateError, match="kinds of tuple"):
                await ask("x", ANY, ANY, ANY)
        with pytest.raises(TemplateError, match="kinds of tuple"):
            await space.swap(("x", ANY, ANY, ANY), ("x",))
        assert await space.inp("x", *map(type, kinds[-1])) == ("x", *kinds[-1])


async def test_many_patterns_in_line(server_url: str) -> None:
    """A taker is served though more kinds of templates wait than one write may look at."""
    async with opened(server_url) as space, trio.open_nursery() as nursery:
        kinds = [int, str, bytes, float]
        others = [pattern for pattern in itertools.product(kinds, repeat=4) if pattern[0] is not float][:100]
        for number, pattern in enumerate(others, start=1):
            nursery.start_soon(space.in_, "x", *pattern)
            await in_line(space, takers=number)
        results: list[Tuple] = []

        async def wait() -> None:
            results.append(await space.in_("x", float, ANY, ANY, ANY))

        nursery.start_soon(wait)
        await in_line(space, takers=101)
        await space.out("x", 1.0, 1, 1, 1)
        with trio.fail_after(60):
            await until(lambda: just(results))
        nursery.cancel_scope.cancel()


async def test_index_is_built_when_asked_for(server_url: str) -> None:
    """The first question by a combination of declared fields finds tuples that were there long before."""
    async with opened(server_url, index={"x": (1, 2, 3)}) as space:
        tuples = [("x", n % 7, n % 11, str(n % 13)) for n in range(2500)]
        await space.out_many(tuples)
        questions: list[tuple[Any, ...]] = [
            ("x", 3, int, str), ("x", int, 4, str), ("x", 3, 4, str), ("x", int, ANY, "5"), ("x", 3, 4, "5"),
        ]  # fmt: skip
        for question in questions:
            expected = [
                t
                for t in tuples
                if all(isinstance(q, type) or q in (ANY, f) for q, f in zip(question, t, strict=True))
            ]
            assert await space.rdp(*question) == expected[0]
            assert await space.count(*question) == len(expected)
            assert await listed(space.scan(*question)) == expected


async def test_index_is_built_while_things_change(server_url: str) -> None:
    """Tuples that are taken, given back and written while an index is built are in it exactly once."""
    index = {"x": (1,)}
    async with opened(server_url, index=index) as one, opened(server_url, one.name, index=index) as two:
        await one.out_many(("x", n % 10, n) for n in range(5000))
        async with trio.open_nursery() as nursery:

            async def change() -> None:
                for n in range(5000, 5200):
                    async with one.take("x", int, int, many=5) as taken:
                        taken.give_back()
                    await one.out("x", n % 10, n)

            nursery.start_soon(change)
            for key in range(10):
                assert await two.rdp("x", key, int) is not None
        await until(lambda: gives(two.count("x", int, int), 5200))
        for key in range(10):
            found = [t[2] async for t in two.scan("x", key, int)]
            assert found == list(range(key, 5200, 10))


async def test_forgotten_sessions(server: servers.Node, set_clock: SetClock) -> None:
    """A session that was silent for a quarter of an hour is forgotten, and begun anew when it is back."""
    name = secrets.token_hex(8)
    set_clock(server, name, 0)
    async with opened(server.url, name) as silent, opened(server.url, name) as other:
        await silent.out("x", 1)
        await other.out("x", 2)
        assert (await other.statistics()).sessions == 2
        set_clock(server, name, 14 * 60_000)
        await other.out("x", 3)
        set_clock(server, name, 16 * 60_000)
        async with opened(server.url, name) as third:
            await third.out("x", 4)
            now = await third.statistics()
            assert (now.sessions, now.kept_replies) == (2, 2)
            await silent.out("x", 5)
            assert (await third.statistics()).sessions == 3
            assert await third.count("x", int) == 5


async def test_vanished_waiters(server: servers.Node, set_clock: SetClock) -> None:
    """Waiters that nobody has confirmed for half a minute leave the line."""
    name = secrets.token_hex(8)
    set_clock(server, name, 0)
    async with opened(server.url, name) as space, trio.open_nursery() as nursery:
        async with between(server) as proxy, opened(proxy.url, name) as gone, trio.open_nursery() as inner:
            inner.start_soon(gone.in_, "x", int)
            inner.start_soon(gone.rd, "x", int)
            await in_line(space, takers=1, readers=1)
            await proxy.cut(refuse=True)
            nursery.start_soon(space.in_, "y")
            await in_line(space, takers=2, readers=1)
            set_clock(server, name, 29_000)
            await trio.sleep(1.2)  # the sound client's tick confirms its own place
            set_clock(server, name, 31_000)
            assert await space.count("x", int) == 0
            await in_line(space, takers=1)
            inner.cancel_scope.cancel()
            proxy.accept()
        await space.out("y")


async def test_reading_past_expired_tuples(server: servers.Node, set_clock: SetClock) -> None:
    """A reader that waits is not held up by tuples that expired but are not swept yet."""
    name = secrets.token_hex(8)
    set_clock(server, name, 0)
    async with opened(server.url, name) as space:
        await space.out_many([("x", n) for n in range(1000)], ttl=1)
        await space.out("x", -1)
        set_clock(server, name, 2000)
        assert await space.rd("x", int) == ("x", -1)
        assert await space.swap(("x", int), ("y", 1)) == ("x", -1)
        assert await space.count("x", int) == 0


async def test_waiting_when_the_server_goes() -> None:
    """Who waits in line while the server goes away is told after the timeout; a watcher waits on."""
    with servers.redis_server("redis") as node:
        async with tuplespace.connect(node.url, timeout=1.0) as client:
            space = client.space("s")
            async with space.watch("x") as watch, trio.open_nursery() as nursery:
                errors: list[Exception] = []

                async def wait(ask: Any) -> None:
                    try:
                        await ask("x")
                    except Unavailable as error:
                        errors.append(error)

                nursery.start_soon(wait, space.in_)
                nursery.start_soon(wait, space.rd)
                await in_line(space, takers=1, readers=1)
                await trio.to_thread.run_sync(node.kill)
                await until(lambda: gives(just(len(errors)), 2))
                await trio.to_thread.run_sync(node.start)
                nursery.start_soon(anext, watch)
                while not watch._events:  # a hint: what is written before it listens again is missed
                    await space.out("x")
                    await trio.sleep(0.2)


async def test_databases(redis_node: servers.Node) -> None:
    """The number in an address is the database, and one database does not see the other."""
    async with opened(redis_node.url) as zero, opened(redis_node.url[:-1] + "3", zero.name) as three:
        await three.out("x", 3)
        assert await zero.rdp("x", int) is None
        assert await three.inp("x", int) == ("x", 3)


async def test_credentials_apart(redis_node: servers.Node) -> None:
    """Name and password may be given apart from the address."""
    bare = f"redis://127.0.0.1:{redis_node.port}"
    async with tuplespace.connect(bare, username="default", password=servers.PASSWORD) as client:
        await client.space("s").count("x")


async def test_impossible_host() -> None:
    """A server whose name cannot even be looked up is Unavailable, every time, and the error says why."""
    async with tuplespace.connect(f"redis://{'long' * 20}.example", timeout=0.5) as client:
        for _ in range(2):
            with pytest.raises(Unavailable, match=r"has not answered for 0.5 s: .+"):
                await client.space("s").out("x")


async def fake(stream: trio.SocketStream, answer: bytes) -> None:
    """A server that has one answer to everything but a login."""
    async for data in stream:
        await stream.send_all(b"+OK\r\n" if b"AUTH" in data else answer)


@pytest.mark.parametrize(
    ("answer", "error", "says"),
    [
        (b"-ERR unknown command 'FCALL'\r\n", ServerError, "too old"),
        (b"-MISCONF Errors writing to the AOF file\r\n", ServerError, "refused a request"),
        (b"-NOAUTH Authentication required.\r\n", AccessDenied, "refuses this user"),
        (b"-LOADING Redis is loading the dataset in memory\r\n", Unavailable, "loading"),
        (b"-BUSY Redis is busy running a script\r\n", Unavailable, "busy"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", (ServerError, Unavailable), "Protocol|HTTP"),
    ],
)
async def test_strange_servers(answer: bytes, error: type[Exception], says: str) -> None:
    """A server that is too old, out of order, busy or none at all gives one clear error."""
    async with trio.open_nursery() as nursery:
        (listener,) = await nursery.start(
            partial(trio.serve_tcp, partial(fake, answer=answer), 0, host="127.0.0.1")
        )
        url = f"redis://127.0.0.1:{listener.socket.getsockname()[1]}"
        began = time.monotonic()
        async with tuplespace.connect(url, timeout=1.0) as client:
            with pytest.raises(error, match=f"(?i){says}"):
                await client.space("s").out("x")
        assert time.monotonic() - began < 30
        nursery.cancel_scope.cancel()
