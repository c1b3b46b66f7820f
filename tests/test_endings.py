"""What is left in order when something ends at a bad moment: a client, a block, a reply."""

from __future__ import annotations

import secrets

import pytest
import redis
import trio

import tuplespace
from tests import servers
from tuplespace import OutcomeUnknown, ServerError, TupleError, pump
from tuplespace.topology import Connection


async def test_closing_puts_back_what_nobody_got(valkey_url: str) -> None:
    """Takes that are cancelled just before the client closes lose nothing, however they were carried."""
    name = secrets.token_hex(8)
    async with tuplespace.connect(valkey_url) as lasting:
        space = lasting.space(name)
        for _ in range(10):
            await space.out_many(("x", number) for number in range(50))
            got: list[tuplespace.Tuple | None] = []
            async with tuplespace.connect(valkey_url) as client:
                brief = client.space(name)
                await brief.count("x", int)

                async def take(
                    brief: tuplespace.Space = brief, got: list[tuplespace.Tuple | None] = got
                ) -> None:
                    got.append(await brief.inp("x", int))

                with trio.move_on_after(0.002):
                    async with trio.open_nursery() as nursery:
                        for _ in range(30):
                            nursery.start_soon(take)
            left = [fields async for fields in space.scan("x", int)]
            assert len(left) + len(got) == 50
            while await space.inp("x", int) is not None:
                pass


async def test_a_failed_commit_at_the_end_gives_back() -> None:
    """When leaving the block cannot commit, the tuples go back instead of being renewed for ever."""
    with servers.redis_server("redis") as node, node.client() as admin:
        async with tuplespace.connect(node.url) as client:
            space = client.space("s", lease=0.3)
            await space.out("x", 1)
            with pytest.raises(ServerError, match=r"(?i)replicas"):
                async with space.take("x", int):
                    admin.config_set("min-replicas-to-write", 1)
            admin.config_set("min-replicas-to-write", 0)
            with trio.fail_after(60):
                assert await space.in_("x", int) == ("x", 1)


async def test_an_error_after_a_lost_reply_is_an_unknown_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    """A repetition that the server refuses says nothing about the first sending: it is not done twice."""
    with servers.redis_server("redis") as node, node.client() as admin:
        async with tuplespace.connect(node.url) as client:
            space = client.space("s")
            await space.out("warm")
            read = pump._read
            cut: list[object] = []

            def cutting(connection: Connection) -> object:
                reply: object = read(connection)
                if not cut and isinstance(reply, int) and reply >= 8:
                    cut.append(reply)
                    admin.config_set("maxmemory", 1)
                    raise redis.ConnectionError("cut")
                return reply

            monkeypatch.setattr(pump, "_read", cutting)
            unknown: list[int] = []

            async def write(number: int) -> None:
                try:
                    await space.out("x", number)
                except OutcomeUnknown:
                    unknown.append(number)

            async with trio.open_nursery() as nursery:
                for number in range(10):
                    nursery.start_soon(write, number)
            admin.config_set("maxmemory", 0)
            there = [fields[1] async for fields in space.scan("x", int)]
            assert cut
            assert len(unknown) == cut[0]
            assert sorted(there, key=str) == list(range(10))


async def test_gathered_takes_are_not_told_none_too_early(valkey_url: str) -> None:
    """Of many takes at once none is sent away while live tuples wait behind expired ones."""
    async with tuplespace.connect(valkey_url) as client:
        space = client.space(secrets.token_hex(8))
        await space.out_many((("junk", number) for number in range(2000)), ttl=0.05)
        for number in range(60):
            await space.out("x", number, ttl=0.3)
            await space.out("x", 1000 + number)
        await trio.sleep(0.4)
        got: list[tuplespace.Tuple | None] = []

        async def take() -> None:
            got.append(await space.inp("x", int))

        async with trio.open_nursery() as nursery:
            for _ in range(40):
                nursery.start_soon(take)
        assert None not in got


async def test_counting_waits_for_what_is_given_back(valkey_url: str) -> None:
    """A count is right also when a lease of a thousand tuples has just ended."""
    async with tuplespace.connect(valkey_url) as client, tuplespace.connect(valkey_url) as other:
        space = client.space(secrets.token_hex(8))
        await space.out_many(("x", number) for number in range(1000))
        grant = await space.backend.take(space._compile(("x", int)), 1000, tuplespace.Terms(0.05), wait=False)
        assert grant is not None
        await trio.sleep(0.1)
        assert await other.space(space.name).count("x", int) == 1000


async def test_a_time_too_long_to_write_is_refused(valkey_url: str) -> None:
    """A ttl beyond a century is refused rather than wrapped around."""
    async with tuplespace.connect(valkey_url) as client:
        with pytest.raises(TupleError, match="century"):
            await client.space("s").out("x", ttl=1e18)
