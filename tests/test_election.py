"""One holder at a time, and tokens that only grow: with paused holders, and with servers that forget."""

from __future__ import annotations

import os
import random
import secrets
import shutil
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

import tuplespace
from tests import servers
from tuplespace import ANY, Fence, Fenced, LeadershipLost, Space, Spaces, Unavailable, election, memory
from tuplespace.testing.stage import Make, Stage, just, until

INDEX = {"log": (1,)}


async def tokens_by_name(space: Space) -> dict[str, list[Any]]:
    """The tokens that were written under each name, in the order of the writes."""
    tokens: defaultdict[str, list[Any]] = defaultdict(list)
    async for _, name, token in space.scan("log", ANY, int):
        tokens[str(name)].append(token)
    return tokens


async def hold_elections(make: Make, *, names: int, terms: int, lease: float) -> None:
    """Elect on many names at once; holders that pause try to write when the next one is in office."""
    tally: Counter[str] = Counter()
    granted: defaultdict[str, list[int]] = defaultdict(list)
    slept: dict[tuple[Space, str], int] = {}
    chance = random.Random(1)

    async def pause(space: Space, name: str) -> None:
        """Hold the name without renewing it, then write as if nothing had happened."""
        with pytest.raises(LeadershipLost):
            await oversleep(space, name)
        fence = Fence(name, slept[space, name])
        with trio.move_on_after(lease * 20):
            await until(lambda: just(granted[name][-1] > fence.token))
        if granted[name][-1] > fence.token:
            tally["stale"] += 1
            with pytest.raises(Fenced):
                await space.out("log", name, fence.token, fence=fence)

    async def oversleep(space: Space, name: str) -> None:
        async with election(space, name, lease=lease) as term:
            slept[space, name] = term.token
            granted[name].append(term.token)
            await trio.sleep_forever()

    async def serve(space: Space, name: str) -> None:
        """Hold the name for a moment and write under its token."""
        try:
            async with election(space, name, lease=lease) as term:
                granted[name].append(term.token)
                await space.out("log", name, term.token, fence=term.fence)
        except (LeadershipLost, Fenced):
            tally["interrupted"] += 1  # a slow machine is a pause too

    async def stand(stage: Stage, name: str) -> None:
        sound, paused = stage.space(INDEX), stage.unrenewed(INDEX)
        while len(granted[name]) < terms:
            if chance.random() < 0.2:
                await pause(paused, name)
            else:
                await serve(sound, name)

    async with make() as one, make() as two:
        space = Stage(one, two, make, secrets.token_hex(8))
        async with trio.open_nursery() as nursery:
            for name in range(names):
                for client in (one, two):
                    nursery.start_soon(stand, Stage(client, client, make, space.name), f"name {name}")
        assert sum(map(len, granted.values())) >= names * terms
        assert all(tokens == sorted(set(tokens)) for tokens in granted.values())
        written = await tokens_by_name(space.space(INDEX))
        assert len(written) == names
        assert all(tokens == sorted(tokens) for tokens in written.values())
        assert tally["stale"] > names


async def test_thousand_elections(valkey_url: str) -> None:
    """In 1,000 elections on 20 names no holder that was paused past its lease gets a write through."""
    await hold_elections(partial(tuplespace.connect, valkey_url), names=20, terms=50, lease=0.15)


@pytest.mark.virtual_time
async def test_thousand_elections_in_memory() -> None:
    """The in-memory space lets no stale holder write either."""
    await hold_elections(partial(memory.connect, memory.Server()), names=20, terms=50, lease=0.15)


async def test_stopped_processes(redis_node: servers.Node) -> None:
    """Processes that are stopped while they hold a name, and woken past their lease, write nothing stale."""
    name, elections = secrets.token_hex(8), [f"name {number}" for number in range(5)]
    command = [sys.executable, "-m", "tests.candidate", redis_node.url, name, *elections]
    chance = random.Random(2)
    async with tuplespace.connect(redis_node.url) as client, trio.open_nursery() as nursery:
        space = client.space(name, index=INDEX)
        processes: list[trio.Process] = [
            await nursery.start(
                partial(
                    trio.run_process,
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    cwd=Path(__file__).parents[1],
                )
            )
            for _ in range(3)
        ]
        await until(lambda: space.count("log", ANY, int))
        for _ in range(20):
            process = chance.choice(processes)
            os.kill(process.pid, signal.SIGSTOP)
            await trio.sleep(0.3)
            os.kill(process.pid, signal.SIGCONT)
            await trio.sleep(chance.random() * 0.1)
        tally: list[int] = [0, 0, 0]
        for process in processes:
            assert process.stdin is not None
            assert process.stdout is not None
            await process.stdin.aclose()
            said = b"".join([part async for part in process.stdout])
            tally = [a + int(b) for a, b in zip(tally, said.split(), strict=True)]
        written = await tokens_by_name(space)
    elected, fenced, lost = tally
    assert len(written) == len(elections)
    assert all(tokens == sorted(tokens) for tokens in written.values())
    assert sum(len(set(tokens)) for tokens in written.values()) <= elected
    assert fenced + lost > 5


async def token_of(space: Space, **options: Any) -> int:
    """What a term of an instant has as its token."""
    async with election(space, "boss", **options) as term:
        return term.token


@pytest.mark.parametrize("binary", sorted(servers.binaries()))
async def test_server_without_memory(binary: str) -> None:
    """Tokens grow across restarts of a server that has lost everything, its clock being what remains."""
    highest = 0
    with servers.redis_server(binary) as node:
        for _ in range(5):
            async with tuplespace.connect(node.url) as client:
                for _ in range(3):
                    token = await token_of(client.space("terms"))
                    assert token > highest
                    highest = token
            await trio.to_thread.run_sync(node.restart)


async def test_server_with_old_data(tmp_path: Path) -> None:
    """Tokens grow when a server comes back with an older copy of its data, whatever was seen since."""
    with servers.redis_server("redis", appendonly=True, appendfsync="always") as node:
        files = node.directory / "appendonlydir"
        async with tuplespace.connect(node.url) as client:
            space = client.space("terms")
            tokens = [await token_of(space)]
            shutil.copytree(files, tmp_path / "copy")
            tokens += [await token_of(space) for _ in range(5)]
        await trio.to_thread.run_sync(node.kill)
        shutil.rmtree(files)
        shutil.copytree(tmp_path / "copy", files)
        await trio.to_thread.run_sync(node.start)
        async with tuplespace.connect(node.url) as client:
            space = client.space("terms")
            tokens.append(await token_of(space))
            ahead = tokens[-1] + 10**9
            tokens.append(await token_of(space, floor=ahead))
            assert tokens[-1] > ahead
            with pytest.raises(Fenced):
                await space.out("x", fence=Fence("boss", tokens[-2]))
    assert tokens == sorted(set(tokens))


async def hold_and_kill(space: Space, node: servers.Node) -> None:
    async with election(space, "boss", lease=1.0):
        await trio.to_thread.run_sync(node.kill)
        await trio.sleep_forever()


async def test_holder_without_a_server() -> None:
    """A holder whose server is away is stopped when its lease ends by its own clock, not at the timeout."""
    with servers.redis_server("redis") as node:
        async with tuplespace.connect(node.url, timeout=60) as client:
            began = trio.current_time()
            with pytest.raises(LeadershipLost):
                await hold_and_kill(client.space("terms"), node)
            assert trio.current_time() - began < 30


async def test_short_outage() -> None:
    """A holder keeps its name over an outage that is shorter than its lease."""
    with servers.redis_server("redis", appendonly=True, appendfsync="always") as node:
        async with tuplespace.connect(node.url, timeout=0.5) as client:
            space = client.space("terms")
            async with election(space, "boss", lease=2.5) as term:
                await trio.to_thread.run_sync(node.kill)
                with pytest.raises(Unavailable):
                    await space.count("x")
                await trio.to_thread.run_sync(node.start)
                await trio.sleep(3)
                await space.out("x", fence=term.fence)


def clients(kind: str, url: str) -> AbstractAsyncContextManager[Spaces]:
    """A client of either kind."""
    return memory.connect() if kind == "memory" else tuplespace.connect(url)


@pytest.mark.parametrize("kind", ["memory", "server"])
async def test_cancelled_candidate(kind: str, valkey_url: str) -> None:
    """A candidate that is cancelled, before or after it was elected, leaves the name free."""
    async with clients(kind, valkey_url) as client:
        space = client.space(secrets.token_hex(8))
        for attempt in range(50):
            with trio.move_on_after(attempt * 0.000_05):
                async with election(space, "boss", lease=600):
                    await trio.sleep_forever()
            with trio.fail_after(10):
                assert await token_of(space, lease=600) > 0


@pytest.mark.parametrize("kind", ["memory", "server"])
@pytest.mark.parametrize("token", [-1, 2**53, 2**64])
async def test_impossible_tokens(kind: str, valkey_url: str, token: int) -> None:
    """A token or floor that the server could not count exactly is refused, not rounded."""
    async with clients(kind, valkey_url) as client:
        space = client.space(secrets.token_hex(8))
        with pytest.raises(ValueError, match="token"):
            await space.out("x", fence=Fence("boss", token))
        with pytest.raises(ValueError, match=r"floor|token"):
            await token_of(space, floor=token)
        assert await space.count("x") == 0
