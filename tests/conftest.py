"""How tests run: `async def` ones under trio, on real servers that all of them share.

A test marked `virtual_time` runs on a clock that jumps to the next deadline whenever every task waits;
it must not use threads or sockets.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator

import pytest
import trio
import trio.testing

from tests import servers

# A test that hangs is cut off and fails. On virtual time a hang comes here at once.
_PATIENCE_S = 120.0


def pytest_configure(config: pytest.Config) -> None:
    """Make the project's own marker known."""
    config.addinivalue_line(
        "markers", "virtual_time: run the test on a clock that jumps while all tasks wait"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an `async def` test under trio; None leaves any other to pytest."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}
    test = functools.partial(pyfuncitem.obj, **arguments)
    virtual = pyfuncitem.get_closest_marker("virtual_time") is not None
    clock = trio.testing.MockClock(autojump_threshold=0) if virtual else None

    async def bounded() -> None:
        with trio.fail_after(_PATIENCE_S):
            await test()

    trio.run(bounded, clock=clock)
    return True


@pytest.fixture(scope="session", params=sorted(servers.binaries()))
def server(request: pytest.FixtureRequest) -> Iterator[servers.Node]:
    """A server that tests share, of each kind there is on this machine."""
    with servers.redis_server(request.param) as node:
        yield node


@pytest.fixture(scope="session")
def server_url(server: servers.Node) -> str:
    """The address of the shared server; tests use space names of their own."""
    return server.url


@pytest.fixture(scope="session")
def valkey_url() -> Iterator[str]:
    """The address of a shared server on a unix socket, of the kind that the library brings along."""
    with servers.redis_server("valkey", unix_socket=True) as node:
        yield node.url


@pytest.fixture(scope="session")
def redis_node() -> Iterator[servers.Node]:
    """A shared Redis on a TCP port."""
    with servers.redis_server("redis") as node:
        yield node
