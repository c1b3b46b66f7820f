"""What a gatherer answers to those who search: what it has fetched itself, as far as its index has come."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from typing import TYPE_CHECKING, Any

from gcs.errors import UsageError
from gcs.gatherer.node import Node
from gcs.index.records import NoIndex
from gcs.index.results import MOST, Results, understood
from gcs.index.upkeep import is_embedded

if TYPE_CHECKING:
    from gcs.index.searching import Searcher


class Searches:
    """Searches of one gatherer's index, in threads; what they need is loaded for the first."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._searcher: Searcher | None = None
        self._one_at_a_time = threading.Lock()
        """Files that are open are read by one thread at a time."""

    async def search(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The best pages of a query."""
        return await self._node.world.offload(lambda: self._found(arguments))

    async def newest(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """When pages were fetched that can be found here."""
        keys = [str(each) for each in arguments["keys"]]
        return await self._node.world.offload(lambda: self._fetched(keys))

    def _fetched(self, keys: Sequence[str]) -> dict[str, Any]:
        with self._one_at_a_time:
            index = self._index()
            return {"newest": index.newest(keys) if index is not None else {}}

    def _found(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        query, count = understood(str(arguments["query"])), min(MOST, int(arguments["count"]))
        with self._one_at_a_time:
            index = self._index()
            found = index.search(query, count) if index is not None else Results()
        return {"total": found.total, "pages": found.pages, "found": [astuple(each) for each in found.found]}

    def _index(self) -> Searcher | None:
        """The index of this gatherer; None before it is made. Raises UsageError where there is to be none."""
        from gcs.index.searching import Searcher

        if self._searcher is None:
            store = self._node.store
            try:
                self._searcher = Searcher.of(store)
            except NoIndex:
                if is_embedded(self._node.config):
                    return None
                raise UsageError("it has no index, which -s index.engine=embedded would keep") from None
        return self._searcher
