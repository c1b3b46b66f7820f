"""All that a gatherer does for profiles, as one task."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import trio

from gcs.config import Config
from gcs.fetch.client import unguarded
from gcs.fetch.transport import Transport
from gcs.profiles.book import Book
from gcs.profiles.courier import Courier
from gcs.profiles.matching import Matches
from gcs.profiles.targets import Targets
from gcs.store.store import Store
from tuplespace import Spaces, TupleSpaceError

SETTLE_S: Final = 10.0
"""So long the end of a gatherer waits for its last matches; what is left is delivered by others, or later."""


class Service:
    """Matches what this gatherer fetches, and delivers what any gatherer has matched."""

    def __init__(self, config: Config, client: Spaces, store: Store) -> None:
        self._config = config
        self._book = Book(client, config)
        self._matches = Matches(store, self._book)
        self._courier: Courier | None = None

    async def run(self) -> None:
        """Do both; never ends by itself."""
        async with Transport(unguarded(self._config.fetch)) as transport:
            targets = Targets(self._config.profiles, transport)
            self._courier = Courier(self._book, targets.deliver, self._config.profiles.patience_s)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._matches.run)
                nursery.start_soon(self._courier.run)

    async def settle(self) -> None:
        """Wait a little until what was fetched is matched, and what can be delivered is."""
        with trio.move_on_after(SETTLE_S), suppress(TupleSpaceError):
            await self._matches.caught_up()
            if self._courier is not None:
                await self._courier.settled()
