"""What a gatherer does beside its crawl so that its pages can be searched for, as the configuration says."""

from __future__ import annotations

from typing import Protocol

from gcs.config import Config
from gcs.errors import ConfigError
from gcs.index.service import Indexing
from gcs.store.store import Store


class Upkeep(Protocol):
    """A task that follows what a store commits."""

    async def run(self) -> None:
        """Follow it; never ends by itself."""

    async def caught_up(self, within_s: float) -> bool:
        """Wait until what is committed now has been taken in; False if that takes too long."""


def is_embedded(config: Config) -> bool:
    """Whether there is an index beside the store, which shows what the store's files have."""
    return config.index.engine == "embedded"


def upkeep(config: Config, store: Store) -> Upkeep | None:
    """The task that keeps the index of a store; None if there is to be none. Raises ConfigError."""
    if is_embedded(config):
        return Indexing(store)
    if config.index.engine == "opensearch":
        if not config.index.url:
            raise ConfigError(
                "index.url must name the OpenSearch, such as -s index.url=http://localhost:9200."
            )
        from gcs.index.sink import Sink

        return Sink(config, store)
    return None
