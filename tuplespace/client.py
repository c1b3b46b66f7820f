"""How a program comes by its spaces on a server."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

import redis.exceptions as remote_errors
import trio

from tuplespace.carrier import Carrier
from tuplespace.errors import Unavailable
from tuplespace.remote import RemoteBackend
from tuplespace.space import Spaces, background
from tuplespace.topology import masked, resolve


class Client(Spaces):
    """Opens spaces on the servers behind one address. Made by `connect`."""

    def __init__(self, carrier: Carrier) -> None:
        super().__init__(lambda name: RemoteBackend(carrier, name))


@contextlib.asynccontextmanager
async def connect(
    url: str,
    *,
    username: str | None = None,
    password: str | None = None,
    tls_ca: str | None = None,
    tls_cert: str | None = None,
    tls_key: str | None = None,
    timeout: float | None = 30.0,
) -> AsyncIterator[Client]:
    """A client of the servers behind `url`, for the length of a block.

    The schemes are those of `tuplespace.topology`. The connection is made when it is first needed
    and made again whenever it breaks. `timeout` is for how long, in seconds, an operation waits for
    a server that does not answer before it raises Unavailable; None waits for ever.
    """
    extra = {
        "username": username,
        "password": password,
        "ssl_ca_certs": tls_ca,
        "ssl_certfile": tls_cert,
        "ssl_keyfile": tls_key,
    }
    topology = resolve(url, extra)
    if topology.owners() is not None:
        try:
            await trio.to_thread.run_sync(topology.refresh)
        except remote_errors.RedisError as error:
            raise Unavailable(f"no server of {masked(url)} answers: {error}") from error
    carrier = Carrier(topology, timeout, masked(url))
    client = Client(carrier)
    try:
        async with background() as nursery:
            carrier.nursery = nursery
            nursery.start_soon(carrier.watch_clock)
            yield client
        # All tasks have ended by now, and what they had to give back is on its way.
    finally:
        client.close()
        await carrier.close()
