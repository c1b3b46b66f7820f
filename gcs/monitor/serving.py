"""HTTP on trio: Starlette's application served by Hypercorn, on sockets that we open ourselves.

Hypercorn sends to a client under a shield, so one that reads nothing would hold up even the end. The kernel
cuts such a client off: TCP_USER_TIMEOUT of the listening socket is that of its connections.
"""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import trio
from hypercorn.config import Config as Settings
from hypercorn.trio import serve
from starlette.types import ASGIApp

from gcs import endpoint

UNREAD_S: Final = 20.0
"""A client that takes nothing of what is sent for so long is cut off."""
IDLE_S: Final = 15.0
_GRACE_S: Final = 0.5
_ADVICE: Final = "-s monitor.listen=127.0.0.1:PORT"


@asynccontextmanager
async def listening(listen: str) -> AsyncIterator[list[trio.SocketListener]]:
    """The sockets; raises ConfigError if they cannot be there."""
    async with endpoint.listening(listen, "monitor.listen", _ADVICE) as listeners:
        for listener in listeners:
            if listener.socket.family != socket.AF_UNIX:
                timeout_ms = round(UNREAD_S * 1000)
                listener.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, timeout_ms)
        yield listeners


async def answer(app: ASGIApp, listeners: list[trio.SocketListener]) -> None:
    """Answer requests until cancelled."""
    settings = Settings()
    # Hypercorn closes what it is given.
    settings.bind = [f"fd://{os.dup(each.socket.fileno())}" for each in listeners]
    settings.accesslog = settings.errorlog = None
    settings.include_server_header = False
    settings.keep_alive_timeout = IDLE_S
    settings.graceful_timeout = _GRACE_S
    await serve(app, settings, mode="asgi")  # type: ignore[arg-type] # Starlette and Hypercorn type ASGI apart
