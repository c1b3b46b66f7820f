"""Who may write into a space may write anything there, past our client: others of the space go on."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial

import msgpack
import pytest
import redis
import trio

import tuplespace
from tests import forging, servers
from tuplespace import Space, TupleSpaceError, Unreadable, library
from tuplespace.testing.stage import in_line

INDEX = {"answer": (1,)}
GOOD = ("answer", "me", b"good")
FORGED = {
    "no MessagePack": b"\xc1\xc1",
    "nothing": b"",
    "no tuple": msgpack.packb(7),
    "an empty tuple": msgpack.packb([]),
    "too few fields": msgpack.packb(["answer"]),
    "another type": msgpack.packb(["answer", "me", 7]),
    "another value": msgpack.packb(["answer", "you", b""]),
    "another tag": msgpack.packb(["question", "me", b""]),
    "a map": msgpack.packb(["answer", "me", {"a": 1}]),
    "a time": msgpack.packb(["answer", "me", msgpack.Timestamp(1)]),
    "an unknown extension": msgpack.packb(["answer", "me", msgpack.ExtType(9, b"")]),
    "no UTF-8": b"\x93\xa6answer\xa2\xff\xff\xc4\x00",
    "too deep": b"\x91" * 2000 + b"\x01",
    "too much for its length": b"\xdd\xff\xff\xff\xff",
}


def write(theirs: redis.Redis, name: str, payload: bytes) -> None:
    """Write bytes under the head of an answer."""
    forging.write(theirs, name, INDEX, GOOD, payload)


@asynccontextmanager
async def space(node: servers.Node) -> AsyncIterator[Space]:
    """A space that others may write into too."""
    async with tuplespace.connect(node.url) as client:
        made = client.space(f"forged-{secrets.token_hex(4)}", index=INDEX)
        assert await made.rdp("answer", "me", bytes) is None
        yield made


@pytest.mark.parametrize("payload", FORGED.values(), ids=FORGED)
async def test_what_is_no_tuple_is_dropped(server: servers.Node, payload: bytes) -> None:
    """Whatever stands in place of a tuple is passed over by who reads, and gone with who takes."""
    async with space(server) as made:
        with forging.user(server, made.name) as theirs:
            for ask in (made.rdp, made.rd, made.inp, made.in_):
                write(theirs, made.name, payload)
                await made.out(*GOOD)
                with trio.fail_after(60):
                    assert await ask("answer", "me", bytes) == GOOD
            for _ in range(3):
                write(theirs, made.name, payload)
            await made.out(*GOOD)
            assert {each async for each in made.scan("answer", "me", bytes)} == {GOOD}
            with trio.fail_after(60):
                async with made.take("answer", "me", bytes, many=50) as taken:
                    assert set(taken) == {GOOD}
            assert await made.count("answer", "me", bytes) == 0
            assert made.unreadable == 7
            async with made.take("answer", "me", bytes, wait=False) as taken:
                assert not taken


async def test_what_is_handed_over_is_looked_at(server: servers.Node) -> None:
    """Who waits in line and is handed what is no tuple goes on waiting, and it does not come again."""
    async with space(server) as made, trio.open_nursery() as nursery:
        got: list[object] = []

        async def wait(ask: Callable[..., object]) -> None:
            got.append(await ask("answer", "me", bytes))  # type: ignore[misc] # it is a coroutine

        nursery.start_soon(wait, made.in_)
        nursery.start_soon(wait, made.rd)
        await in_line(made, takers=1, readers=1)
        with forging.user(server, made.name) as theirs:
            write(theirs, made.name, FORGED["no MessagePack"])
        # Both have looked at it, and stand in line again.
        await in_line(made, takers=1, readers=1)
        now = await made.statistics()
        assert (now.waiting, now.leased, made.unreadable) == (0, 0, 1)
        await made.out(*GOOD)
    assert got == [GOOD, GOOD]


async def test_a_swap_says_that_it_replaced_no_tuple(server: servers.Node) -> None:
    """What was replaced cannot be told; that the new one stands can."""
    async with space(server) as made:
        with forging.user(server, made.name) as theirs:
            write(theirs, made.name, b"\xc1")
        with pytest.raises(Unreadable):
            await made.swap(("answer", "me", bytes), GOOD)
        assert await made.inp("answer", "me", bytes) == GOOD


@pytest.mark.parametrize("many", [1, 16])
async def test_gigabytes_never_leave_the_server(server: servers.Node, many: int) -> None:
    """What is longer than a tuple may be is dropped where it stands, and counted."""
    async with space(server) as made:
        with forging.user(server, made.name) as theirs, server.client() as admin:
            for _ in range(12):
                write(theirs, made.name, msgpack.packb(["answer", "me", bytes(8 << 20)]))
            await made.out(*GOOD)
            before = admin.info("stats")["total_net_output_bytes"]
            assert await made.rdp("answer", "me", bytes) == GOOD
            async with made.take("answer", "me", bytes, many=many) as taken:
                assert list(taken) == [GOOD]
            assert admin.info("stats")["total_net_output_bytes"] - before < 100_000
            assert made.unreadable == 12
            assert admin.hlen(library.keys(made.name)[0]) == 0
            assert await made.count("answer", str, bytes) == 0 or await made.inp("answer", str, bytes) is None
            assert await made.count("answer", str, bytes) == 0


async def test_one_take_is_bounded(server: servers.Node) -> None:
    """A take of many is as many as fit into some megabytes."""
    async with space(server) as made:
        for _ in range(16):
            await made.out("answer", "me", bytes(1_000_000))
        taken_at_once = []
        while await made.count("answer", "me", bytes):
            async with made.take("answer", "me", bytes, many=16) as taken:
                taken_at_once.append(len(taken))
        assert sum(taken_at_once) == 16
        assert max(taken_at_once) == 8


@pytest.mark.parametrize(
    "forged", [7, [], [b"got"], [b"got", 1], [b"got", b"x"], [b"wait"], {b"a": 1}], ids=repr
)
async def test_kept_answers_are_not_believed(server: servers.Node, forged: object) -> None:
    """What somebody has put in the place of a kept answer is an error of the space at most."""
    async with space(server) as made:
        await made.out(*GOOD)
        keys, template = library.keys(made.name), ("answer", "me", bytes)
        with forging.user(server, made.name) as theirs:

            def forge() -> None:
                for session in theirs.execute_command("ZRANGEBYSCORE", keys[8], "-inf", "+inf"):
                    last = theirs.execute_command("HGET", keys[9], session + bytes(2))
                    following = int.from_bytes(last[:6], "big") + 1
                    kept = following.to_bytes(6, "big") + msgpack.packb(forged)
                    theirs.execute_command("HSET", keys[9], session + bytes(2), kept)

            for ask in (
                partial(made.inp, *template),
                partial(made.swap, template, GOOD),
                partial(made.out, *GOOD),
            ):
                forge()
                with suppress(TupleSpaceError):
                    await ask()
        assert await made.inp("answer", "me", bytes) == GOOD


async def test_mail_from_others_is_not_believed(server: servers.Node) -> None:
    """What others send to a mailbox hands nothing over, and disturbs nobody for long."""
    async with space(server) as made, trio.open_nursery() as nursery:
        got: list[object] = []

        async def take() -> None:
            got.append(await made.in_("answer", "me", bytes))

        nursery.start_soon(take)
        await in_line(made, takers=1)
        keys = library.keys(made.name)
        with forging.user(server, made.name) as theirs:
            (line,) = theirs.execute_command("ZRANGEBYLEX", keys[5], "-", "+")
            waiter = theirs.execute_command("HGET", keys[7], line[-6:])[9:23]
            channel = keys[10].removesuffix("meta").encode() + b"mail:" + waiter[:8]
            for data in (b"", b"t", b"t" + waiter, b"t" + waiter + bytes(6) + b"\xc1", b"\xff" * 99):
                theirs.execute_command("SPUBLISH", channel, data)
        await in_line(made, takers=1)
        assert not got
        await made.out(*GOOD)
    assert got == [GOOD]
