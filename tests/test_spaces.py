"""From the configuration to spaces."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import tuplespace
from gcs import spaces
from gcs.config import load
from tests import servers
from tuplespace import memory


async def test_without_redis_a_private_server_is_started(tmp_path: Path) -> None:
    """With no address configured there is a private server, whose directory keeps its data."""
    config = load(overrides=("redis.url=",)).config
    for expected in (None, ("x", 1)):
        async with spaces.connected(config, directory=tmp_path / "data") as client:
            space = spaces.space(client, config, "s")
            assert await space.rdp("x", int) == expected
            await space.out("x", 1)


async def test_the_configured_server_is_used(tmp_path: Path) -> None:
    """Address, user, password file and certificate authority of the configuration reach the server."""
    user = servers.User("crawler", rules="~ts1:* &ts1:* +@all")
    secret = tmp_path / "secret"
    with servers.redis_server(tls=True, user=user) as server:
        parts = urlsplit(server.url)
        secret.write_text(unquote(parts.password or "") + "\n")
        authority = parts.query.partition("ssl_ca_certs=")[2].partition("&")[0]
        overrides = (
            f"redis.url=rediss://{parts.hostname}:{parts.port}",
            f"redis.username={user.name}",
            f"redis.password_file={secret}",
            f"redis.tls_ca={unquote(authority)}",
            "crawl.name=mine",
        )
        config = load(overrides=overrides).config
        async with spaces.connected(config) as client:
            await spaces.space(client, config, "s", index={"x": (1,)}).out("x", 1)
        assert server.client().exists("ts1:{mine:s}:tuples") == 1


async def test_limits_are_those_of_the_configuration() -> None:
    """The largest tuple that is written, its depth, the lease and the deliveries are as configured.

    What others write who are configured otherwise is read.
    """
    overrides = ("space.max_tuple=1KiB", "space.max_depth=1", "space.lease=7s", "space.max_deliveries=3")
    config = load(overrides=overrides).config
    async with memory.connect() as client:
        space = spaces.space(client, config, "s")
        with pytest.raises(tuplespace.TupleError, match="over the limit of 1024"):
            await space.out("x", "y" * 2000)
        with pytest.raises(tuplespace.TupleError, match="too deeply"):
            await space.out("x", ((1,),))
        assert space.terms == tuplespace.Terms(7.0, 3)
        generous = load(overrides=("space.max_tuple=8MiB",)).config
        await spaces.space(client, generous, "s").out("x", "y" * 100_000)
        assert await space.inp("x", str) == ("x", "y" * 100_000)
