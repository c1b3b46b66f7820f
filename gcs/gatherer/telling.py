"""Tells whoever watches what a gatherer has found; nobody is told anything while nobody watches.

A monitor puts up that it watches, again and again. A gatherer that has seen that change of late, by its own
clock, puts up its findings, and replaces them every few seconds; the more gatherers there are, the less
often, so that a monitor has about as much to read for fifty as for five.
"""

from __future__ import annotations

from itertools import islice
from typing import Any, Final

import msgpack
import trio

from gcs.board import Board
from gcs.core.trust import Trust
from gcs.gatherer.findings import VERSION
from gcs.gatherer.membership import Membership
from gcs.gatherer.node import Node
from tuplespace import TupleSpaceError

EVERY_S: Final = 2.0
MORE_S: Final = 0.1
"""For each gatherer that there is."""
_HELPERS: Final = 500
"""Of more helpers nothing is told."""


class Telling:
    """The task that tells."""

    def __init__(self, node: Node, board: Board, membership: Membership, trust: Trust) -> None:
        self._node, self._board, self._membership, self._trust = node, board, membership, trust

    async def run(self) -> None:
        """Tell again and again, while anybody watches."""
        told = False
        while True:
            await trio.sleep(EVERY_S + MORE_S * len(self._membership.members))
            try:
                await self.tell()
                told = False
            except TupleSpaceError as error:
                if not told:
                    self._node.log.warning("cannot tell what was found", why=str(error))
                told = True

    async def tell(self) -> None:
        """Tell once, if anybody watches."""
        if self._membership.is_watched:
            await self._board.tell(self._node.id, msgpack.packb(self._told()))

    def _told(self) -> dict[str, Any]:
        node = self._node
        traffic = node.traffic
        return {
            "version": VERSION,
            "name": node.name,
            "incarnation": node.incarnation,
            "sent": node.store.sent(),
            "trust": dict(islice(self._trust.counts().items(), _HELPERS)),
            "traffic": (traffic.sent_bytes, traffic.received_bytes, node.crawl.fetched_bytes),
            **node.crawl.findings.told(node.clock()),
        }
