"""A server that says what it was told to say, whatever it is asked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import trio


@asynccontextmanager
async def saying(said: Sequence[bytes]) -> AsyncIterator[int]:
    """The port of a server that says these things to each client: one at once, one after each command."""

    async def handle(stream: trio.SocketStream) -> None:
        async with stream:
            for each in said:
                await stream.send_all(each)
                if not await stream.receive_some():
                    return

    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, handle, [listener])
        yield listener.socket.getsockname()[1]
        nursery.cancel_scope.cancel()
