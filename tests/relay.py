"""A far network: relays on loopback that pass on what is asked and answered after a while.

    python -m tests.relay DELAY_MS PORT FROM=TO ...

listens at each address FROM and passes on to TO at the same port, until it is told to end.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial

import trio

from tests.crawling import ROOT


@contextmanager
def relays(delay_s: float, port: int | None, ways: Mapping[str, str]) -> Iterator[None]:
    """Run relays from some addresses to others for the length of a block."""
    pairs = [f"{there}={here}" for there, here in ways.items()]
    line = [sys.executable, "-m", "tests.relay", str(delay_s * 1000), str(port), *pairs]
    with subprocess.Popen(line, cwd=ROOT, stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == b"ready\n"
            yield
        finally:
            child.kill()


async def _relay(delay_s: float, to: str, port: int, asking: trio.SocketStream) -> None:
    try:
        async with await trio.open_tcp_stream(to, port) as answering, trio.open_nursery() as nursery:
            nursery.start_soon(_pass_on, asking, answering, delay_s)
            await _pass_on(answering, asking, 0.0)
            nursery.cancel_scope.cancel()
    except (OSError, trio.BrokenResourceError, trio.ClosedResourceError):
        pass
    except BaseExceptionGroup as group:
        if group.split((OSError, trio.BrokenResourceError, trio.ClosedResourceError))[1] is not None:
            raise


async def _pass_on(source: trio.SocketStream, sink: trio.SocketStream, delay_s: float) -> None:
    async for data in source:
        await trio.sleep(delay_s)
        await sink.send_all(data)


async def _main(delay_s: float, port: int, ways: Mapping[str, str]) -> None:
    async with trio.open_nursery() as nursery:
        for there, here in ways.items():
            serve = partial(
                trio.serve_tcp, partial(_relay, delay_s, here, port), port, host=there, backlog=512
            )
            await nursery.start(serve)
        print("ready", flush=True)


if __name__ == "__main__":
    _pairs = dict(each.split("=", 1) for each in sys.argv[3:])
    trio.run(_main, float(sys.argv[1]) / 1000, int(sys.argv[2]), _pairs)
