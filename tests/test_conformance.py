"""Every kind of space keeps every promise of `tuplespace.testing`."""

from __future__ import annotations

import subprocess
from functools import partial
from pathlib import Path

import pytest
import trio

import tuplespace
from tests import servers
from tuplespace import library, memory, rights
from tuplespace.testing import CHECKS, Check, check_space, run_check

each_check = pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)

# All that a client's user must be allowed to do; docs/tuplespace.md tells operators the same.
CALLS = (*rights.CALLED, rights.LOADING)
IN_FUNCTIONS = rights.INSIDE
KEYS = f"ts{library.FORMAT}:*"


def least_rights(commands: tuple[str, ...] = (*CALLS, *IN_FUNCTIONS)) -> servers.User:
    """A user who may do that and nothing else."""
    return servers.User("worker", rules=f"~{KEYS} &{KEYS} " + " ".join(f"+{command}" for command in commands))


@each_check
@pytest.mark.virtual_time
async def test_memory(check: Check) -> None:
    """The in-memory space keeps this promise."""
    await run_check(check, partial(memory.connect, memory.Server()))


@pytest.mark.virtual_time
async def test_memory_at_once() -> None:
    """The in-memory space keeps all promises when everything happens at the same time."""
    await check_space(partial(memory.connect, memory.Server()))


async def test_valkey(valkey_url: str) -> None:
    """A space on the embedded server, over a unix socket, keeps all promises at the same time."""
    await check_space(partial(tuplespace.connect, valkey_url))


async def test_server(server_url: str) -> None:
    """A space on a server over TCP keeps all promises at the same time."""
    await check_space(partial(tuplespace.connect, server_url))


@pytest.mark.skipif(not servers.tls_binaries(), reason="no server here was built with TLS")
async def test_tls_and_least_rights() -> None:
    """Over TLS, a user with nothing but the rights that are documented gets all that is promised."""
    with servers.redis_server(tls=True, user=least_rights()) as server:
        await check_space(partial(tuplespace.connect, server.url))
        with server.client() as admin:
            used = {name.removeprefix("cmdstat_") for name in admin.info("commandstats")}
    assert {*CALLS, *IN_FUNCTIONS} <= used


async def test_sentinel() -> None:
    """A space behind Sentinel keeps all promises."""
    with servers.sentinel_group("redis") as group:
        await check_space(partial(tuplespace.connect, group.url))


async def test_cluster() -> None:
    """Spaces on a cluster of three shards keep all promises."""
    with servers.cluster("redis") as cluster:
        await check_space(partial(tuplespace.connect, cluster.url))


async def test_locale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server whose environment sorts text like a dictionary keeps all promises."""
    command = ["localedef", "-f", "UTF-8", "-i", "en_US", f"{tmp_path}/en_US.UTF-8"]
    try:
        await trio.run_process(command)
    except (FileNotFoundError, subprocess.CalledProcessError):
        pytest.skip("no locales can be made on this machine")
    monkeypatch.setenv("LOCPATH", str(tmp_path))
    monkeypatch.setenv("LC_ALL", "en_US.UTF-8")
    with servers.redis_server("redis") as server:
        monkeypatch.undo()
        await check_space(partial(tuplespace.connect, server.url))
