"""How tests run: `async def` ones under trio, on real servers that the tests of a module share.

A test marked `virtual_time` runs on a clock that jumps to the next deadline whenever every task waits;
it must not use threads or sockets. One marked `alone` measures time: no other test runs beside it. One marked
`uncounted` calculates much, with what other tests cover: counting lines would take several times as long.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import inspect
import secrets
import signal
from collections.abc import Callable, Generator, Iterator

import coverage
import pytest
import redis
import trio
import trio.testing

from tests import effort, measured, servers, sharing
from tests.soak.progress import Progress
from tuplespace import library, pump, wire

SetClock = Callable[[servers.Node, str, int], None]

# A test that hangs is cut off and fails. On virtual time a hang comes here at once.
_PATIENCE_S = 300.0


def pytest_configure(config: pytest.Config) -> None:
    """Make the project's own markers known, and how hard to try."""
    effort.load_profile()
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # As for what a script runs in the background, and then for all that the tests start.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if not config.getoption("numprocesses", None):  # it is no more than the parent of those that run tests
        measured.this_process_only()
    config.addinivalue_line(
        "markers", "virtual_time: run the test on a clock that jumps while all tasks wait"
    )
    config.addinivalue_line(
        "markers", "alone: it measures time, so that `make test` runs it when no other test runs"
    )
    config.addinivalue_line("markers", "uncounted: coverage does not count what the test runs")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> sharing.Sharing | None:
    """Share the tests out among several processes, if they are to be shared out by files."""
    return sharing.Sharing(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest."""
    items.sort(key=lambda item: sharing.rank(item.nodeid))


def pytest_collection_finish() -> None:
    """Let the garbage collector leave alone what the imports made: closing a store runs it to the end.

    That takes a tenth of a second with all modules, and hundreds of stores are closed. Hypothesis must have
    been imported: its plugin for trio looks at what refers to what, which this hides.
    """
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Count nothing while a test runs that is not to be counted, with its fixtures."""
    counting = coverage.Coverage.current() if item.get_closest_marker("uncounted") else None
    if counting is None:
        return (yield)
    counting.stop()
    try:
        return (yield)
    finally:
        counting.start()


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


@pytest.fixture(scope="module", params=sorted(servers.binaries()))
def server(request: pytest.FixtureRequest) -> Iterator[servers.Node]:
    """A server that the tests of a module share, of each kind there is on this machine."""
    with servers.redis_server(request.param) as node:
        yield node


@pytest.fixture(scope="module")
def server_url(server: servers.Node) -> str:
    """The address of the shared server; tests use space names of their own."""
    return server.url


@pytest.fixture(scope="module")
def valkey_url() -> Iterator[str]:
    """The address of a shared server on a unix socket, of the kind that the library brings along."""
    with servers.redis_server("valkey", unix_socket=True) as node:
        yield node.url


@pytest.fixture(scope="module")
def redis_node() -> Iterator[servers.Node]:
    """A shared Redis on a TCP port."""
    with servers.redis_server("redis") as node:
        yield node


@pytest.fixture
def progress() -> Iterator[Progress]:
    """Of an act of the soak; says nothing that anybody sees."""
    with contextlib.closing(Progress(every_s=1000.0)) as shown:
        yield shown


@pytest.fixture
def set_clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[SetClock]:
    """Server functions that read the time from a field of the space, and how to set it, in milliseconds.

    It must be set before the space is used.
    """
    lines = "  local time = call('TIME')\n  now_us = time[1] * 1000000 + time[2]\n"
    assert library.SOURCE.count(lines) == 1
    source = library.SOURCE.replace(lines, "  now_us = tonumber(call('HGET', keys[11], 'test clock'))\n")
    prefix = f"test{secrets.token_hex(4)}_"
    source = source.replace(library.PREFIX[:-1], prefix[:-1])
    monkeypatch.setattr(library, "SOURCE", source)
    monkeypatch.setattr(library, "PREFIX", prefix)
    monkeypatch.setattr(pump, "_LOAD", wire.command(b"FUNCTION", b"LOAD", b"REPLACE", source.encode()))
    with contextlib.ExitStack() as stack:
        client_of = functools.cache(lambda url: stack.enter_context(redis.Redis.from_url(url)))

        def set_to(node: servers.Node, name: str, now_ms: int) -> None:
            client_of(node.admin_url).hset(library.keys(name)[-1], "test clock", (10**12 + now_ms) * 1000)

        yield set_to
