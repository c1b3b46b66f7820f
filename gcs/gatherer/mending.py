"""Pages that a helper was wrong about are fetched again, by whoever holds them when that is found out.

A gatherer believes a helper, hands the range over, and then finds that it lied: the page is done at its new
owner, which is told. Of a range that is on its way nobody can say yet who is to be told, so that waits. Who
is told, and has handed the range on, does the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from gcs.board import FINISHED, Board
from gcs.core.holdings import Standing
from gcs.gatherer.exchange import doubts
from gcs.gatherer.node import Node
from gcs.store.records import Batch
from tuplespace import TupleSpaceError


async def mend(node: Node, board: Board, keys: Sequence[str]) -> list[str]:
    """Have pages fetched again, here or by their owners; says of which that was done."""
    again, owners = _sorted_out(node, keys)
    if not again and not owners:
        return []
    mail = [(owner, letter) for owner, theirs in owners.items() for letter in doubts(theirs)]
    await node.crawl.commit(Batch(again=again, mail=mail))
    with suppress(TupleSpaceError):
        await board.take_down(FINISHED)
    return [*again, *(key for theirs in owners.values() for key in theirs)]


def _sorted_out(node: Node, keys: Sequence[str]) -> tuple[list[str], dict[str, list[str]]]:
    """Those that are fetched here, and others by their owners; the rest has to wait."""
    here: list[str] = []
    owners: dict[str, list[str]] = {}
    for key in keys:
        standing = node.holdings.standing(key)
        if standing is Standing.HELD:
            here.append(key)
        elif standing is Standing.FOREIGN and node.charter is not None:
            owner = node.charter.owners.owner(key)
            if owner not in node.gone:
                owners.setdefault(owner, []).append(key)
    return here, owners
