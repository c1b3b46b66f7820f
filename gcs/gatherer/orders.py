"""What operators ask of single gatherers, and seeds: taken from the board, on disk before they are gone
there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgpack
import trio

from gcs import board as boards
from gcs.board import Board
from gcs.core.urls import AFTER, Rejected, readable
from gcs.gatherer.exchange import Exchange, witness
from gcs.gatherer.node import Node
from gcs.gatherer.visit import Visitor
from gcs.leader.leader import Leader
from gcs.store.records import Batch, State
from tuplespace import TupleSpaceError

_PAUSE_S: Final = 1.0
_AT_ONCE: Final = 2_000
_Handler = Callable[[Mapping[str, Any]], Awaitable[dict[str, Any]]]


class Orders:
    """The tasks that take seeds and orders."""

    def __init__(
        self, node: Node, board: Board, exchange: Exchange, leader: Leader, visitor: Visitor
    ) -> None:
        self._node, self._board, self._exchange = node, board, exchange
        self._leader, self._visitor = leader, visitor
        self._handlers: dict[str, _Handler] = {
            "drain": self._drain,
            "audit": self._audit,
            "host": self._host,
            "retry": self._retry,
            "forget": self._forget,
            "plan": self._plan,
        }

    # Seeds

    async def take_seeds(self) -> None:
        """Take seeds from the board, and pass them on to their owners."""
        node = self._node
        while True:
            if node.charter is None:
                await node.changed.wait()
                continue
            try:
                async with self._board.seeds.take("seed", bytes, many=10) as taken:
                    node.taking_in += 1
                    try:
                        await self._seed([url for _, urls in taken for url in msgpack.unpackb(urls)])
                    finally:
                        node.taking_in -= 1
                await self._board.take_down(boards.FINISHED)
            except TupleSpaceError as error:
                node.log.warning("cannot take seeds", why=str(error))
                await trio.sleep(_PAUSE_S)

    async def _seed(self, urls: list[str]) -> None:
        node = self._node
        found = []
        for url in urls:
            try:
                found += self._visitor.seeds([url])
            except Rejected as error:
                node.log.warning("a seed cannot be crawled", url=url, why=str(error))
        own, passed = node.sorted_out(found, always=False)
        batch = Batch(found=own, passed=passed)
        assert node.charter is not None
        others = sorted(each for each in node.charter.members if each != node.id)
        if own and others:
            batch.mail.append((others[0], witness(own)))
        await node.crawl.commit(batch)
        self._exchange.hurry()

    # Orders

    async def obey(self) -> None:
        """Take orders from the board, carry them out, and answer."""
        node = self._node
        while True:
            try:
                async with self._board.space.take("order", node.id, str, str, bytes) as taken:
                    _, _, number, kind, arguments = taken.tuple
                    handler = self._handlers.get(str(kind))
                    if handler is None:
                        answer: dict[str, Any] = {"error": f"{node.name} does not know how to {kind!s}"}
                    else:
                        answer = await handler(msgpack.unpackb(arguments))
                    await self._board.answer(str(number), node.id, {"name": node.name, **answer})
            except TupleSpaceError as error:
                node.log.warning("cannot take orders", why=str(error))
                await trio.sleep(_PAUSE_S)

    async def _drain(self, _: Mapping[str, Any]) -> dict[str, Any]:
        await self._node.drain()
        return {}

    async def _audit(self, _: Mapping[str, Any]) -> dict[str, Any]:
        """The ledger of this gatherer, as of its last commit."""
        node = self._node
        store = node.store
        ledger, counts = store.ledger(), store.counts()
        return {
            "id": node.id,
            "epoch": node.epoch,
            "accepted": ledger.accepted,
            "moved_in": ledger.moved_in,
            "moved_out": ledger.moved_out,
            "erased": ledger.erased,
            "sent": dict(ledger.sent),
            "received": dict(ledger.received),
            "queued": counts.queued,
            "done": counts.done,
            "dropped": counts.dropped,
            "passed": counts.passed,
            "in_flight": store.statistics().in_flight,
            "outboxes": {to: box.entries for to, box in store.outboxes().items()},
            "reasons": dict(node.crawl.tally.reasons),
        }

    async def _host(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """What is known of the hosts with a prefix."""
        start = str(arguments["prefix"])
        hosts = [
            {
                "host": readable(each.host),
                "queued": each.queued,
                "done": each.done,
                "dropped": each.dropped,
                "passed": each.passed,
                "extent": self._node.extent(each.host).value,
            }
            for each in self._node.store.hosts(start, start + AFTER)
        ]
        return {"hosts": hosts}

    async def _retry(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Queue again what has been answered with some status."""
        low, high = int(arguments["low"]), int(arguments["high"])
        start = str(arguments["prefix"])
        chosen: list[str] = []
        count = 0
        for key, row in self._node.store.scan(start, start + AFTER if start else None):
            if row.state in (State.DONE, State.DROPPED) and low <= row.status <= high:
                chosen.append(key)
            if len(chosen) >= _AT_ONCE:
                count += await self._again(chosen)
                chosen = []
        return {"queued": count + await self._again(chosen)}

    async def _again(self, keys: list[str]) -> int:
        if keys:
            await self._node.crawl.commit(Batch(again=keys))
            await self._board.take_down(boards.FINISHED)
        return len(keys)

    async def _forget(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Remove all rows with a prefix."""
        start = str(arguments["prefix"])
        count = 0
        for passed in (False, True):
            at: str | None = start
            while at is not None:
                keys, at = self._node.store.keys(at, start + AFTER, _AT_ONCE, passed=passed)
                if keys:
                    await self._node.crawl.commit(Batch(erased=keys))
                    count += len(keys)
        self._node.crawl.forget_targets()
        return {"forgotten": count}

    async def _plan(self, _: Mapping[str, Any]) -> dict[str, Any]:
        """What a new plan would be, without making it one."""
        charter = await self._leader.lead(["dry run"], dry=True)
        if charter is None:
            return {"error": "there is no gatherer that could own anything"}
        moved = [
            {
                "from": readable(start),
                "holder": charter.sources.owner(start),
                "owner": charter.owners.owner(start),
            }
            for start in sorted({*charter.owners.starts, *charter.sources.starts})
            if charter.sources.owner(start) != charter.owners.owner(start)
        ]
        return {
            "forecast": dict(charter.forecast),
            "members": dict(charter.members),
            "ranges": len(charter.owners),
            "moves": moved[:1000],
        }
