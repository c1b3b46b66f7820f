"""From the configuration to the crawl's tuple spaces.

With no Redis named, a private server is started for the length of the block, so that nothing has to be
set up to begin; its data are gone afterwards unless a directory is given.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

import tuplespace
from gcs.config import LARGEST_TUPLE_BYTES, Config
from tuplespace import embedded


@asynccontextmanager
async def connected(config: Config, *, directory: Path | None = None) -> AsyncIterator[tuplespace.Client]:
    """A client of the configured Redis, or of a private server that keeps its data in `directory`."""
    async with address(config, directory=directory) as url, connect(config, url) as client:
        yield client


@asynccontextmanager
async def address(config: Config, *, directory: Path | None = None) -> AsyncIterator[str]:
    """Where the crawl's Redis is; a private one runs until the block is left."""
    if config.redis.url:
        yield config.redis.url
        return
    async with embedded.start(directory) as server:
        yield server.url


@asynccontextmanager
async def connect(config: Config, url: str) -> AsyncIterator[tuplespace.Client]:
    """A client of the server at `url`, with the configured credentials if that is the configured one."""
    redis = config.redis
    if url != redis.url:
        async with tuplespace.connect(url, timeout=redis.timeout_s) as client:
            yield client
        return
    async with connect_as(redis, timeout_s=redis.timeout_s) as client:
        yield client


class Access(Protocol):
    """Where a server is, and what to show there."""

    @property
    def url(self) -> str:
        """Its address."""

    @property
    def username(self) -> str:
        """Empty for none, or for that in the address; so is the password."""

    @property
    def password(self) -> str:
        """The secret."""

    @property
    def tls_ca(self) -> Path | None:
        """Who vouches for the server, if not those that the system trusts."""

    @property
    def tls_cert(self) -> Path | None:
        """What vouches for us."""

    @property
    def tls_key(self) -> Path | None:
        """The key of that."""


@asynccontextmanager
async def connect_as(access: Access, *, timeout_s: float) -> AsyncIterator[tuplespace.Client]:
    """A client of a server that has to be shown something."""
    async with tuplespace.connect(
        access.url,
        username=access.username or None,
        password=access.password or None,
        tls_ca=_path(access.tls_ca),
        tls_cert=_path(access.tls_cert),
        tls_key=_path(access.tls_key),
        timeout=timeout_s,
    ) as client:
        yield client


def space(
    client: tuplespace.Spaces,
    config: Config,
    name: str,
    *,
    index: Mapping[str, Sequence[int]] | None = None,
    max_read_bytes: int = LARGEST_TUPLE_BYTES,
) -> tuplespace.Space:
    """One of the crawl's spaces, with the configured limits for what is written.

    What others write is read up to `max_read_bytes`: their configuration may be another one.
    """
    limits = tuplespace.Limits(
        max_bytes=config.space.max_tuple_bytes,
        max_depth=config.space.max_depth,
        max_read_bytes=max_read_bytes,
    )
    return client.space(
        f"{config.crawl.name}:{name}",
        index=index,
        limits=limits,
        lease=config.space.lease_s,
        max_deliveries=config.space.max_deliveries,
    )


def _path(path: Path | None) -> str | None:
    return None if path is None else str(path)
