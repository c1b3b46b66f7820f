"""What operators ask of single gatherers, and seeds: taken from the board, and on two disks, if there are
two, before they are gone there.

Orders are carried out side by side: planning takes long, and must not keep anybody from pausing a host. Every
one is answered, one that failed with the reason.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final

import msgpack
import trio

from gcs import board as boards
from gcs.board import Board, Wish
from gcs.core.reasons import OPERATOR
from gcs.core.urls import Rejected, part, readable
from gcs.gatherer import testimony
from gcs.gatherer.book import book_of, dropped_of
from gcs.gatherer.exchange import Exchange
from gcs.gatherer.node import Node
from gcs.gatherer.searches import Searches
from gcs.gatherer.seeds import without_login
from gcs.gatherer.visit import Visitor
from gcs.index import FORGOTTEN
from gcs.index.feed import with_forgotten
from gcs.index.records import Forgotten
from gcs.leader.leader import Leader
from gcs.rank import taking
from gcs.store.ranges import Which
from gcs.store.records import Batch, State
from tuplespace import TupleError, TupleSpaceError

_PAUSE_S: Final = 1.0
_LOOK_EVERY_S: Final = 0.1
_SEEDS_AT_ONCE: Final = 8
"""Of ten bundles each, which nobody has on a second disk yet."""
_AT_ONCE: Final = 2_000
_ROWS_AT_ONCE: Final = 100_000
_MOVES: Final = 1_000
"""Ranges that change hands in a plan which was only asked for; of more, the first are told."""
_Handler = Callable[[Mapping[str, Any]], Awaitable[dict[str, Any]]]


class Orders:
    """The tasks that take seeds and orders."""

    def __init__(
        self, node: Node, board: Board, exchange: Exchange, leader: Leader, visitor: Visitor
    ) -> None:
        self._node, self._board, self._exchange = node, board, exchange
        self._leader, self._visitor = leader, visitor
        searches = Searches(node)
        self._handlers: dict[str, _Handler] = {
            "drain": self._drain,
            "audit": self._audit,
            "dropped": self._dropped,
            "host": self._host,
            "retry": self._retry,
            "forget": self._forget,
            "plan": self._plan,
            "why": self._why,
            taking.ORDER: self._priorities,
            taking.FILE: self._file,
            "turns": self._turns,
            "search": searches.search,
            "newest": searches.newest,
        }

    # Seeds

    async def take_seeds(self) -> None:
        """Take seeds from the board, and pass them on to their owners."""
        room = trio.CapacityLimiter(_SEEDS_AT_ONCE)
        async with trio.open_nursery() as nursery:
            while True:
                if self._node.charter is None:
                    await self._node.changed.wait()
                    continue
                await nursery.start(self._take_some, room)

    async def _take_some(
        self, room: trio.CapacityLimiter, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Take some seeds; others may be taken while these are on one disk only."""
        begun = False
        try:
            async with room, self._board.seeds.take("seed", bytes, many=10) as taken:
                if self._node.has_company:
                    taken.give_back()
                else:
                    sent = await self._seed([url for _, urls in taken for url in msgpack.unpackb(urls)])
                    await self._board.take_down(boards.FINISHED)
                    begun = True
                    task_status.started()
                    await self._until_received(sent)
            if begun:
                return
            # Whoever takes them passes them on to here, and knows of them, should this one be lost.
        except TupleSpaceError as error:
            self._node.log.warning("cannot take seeds", why=str(error))
        if not begun:
            await trio.sleep(_PAUSE_S)
            task_status.started()

    async def _seed(self, urls: list[str]) -> dict[str, int]:
        """Bring seeds to disk; by receiver, the last piece with something that others are to know of them."""
        node = self._node
        node.taking_in += 1
        try:
            found = []
            for url in urls:
                try:
                    found += self._visitor.seeds([url])
                except Rejected as error:
                    node.log.warning("a seed cannot be crawled", url=without_login(url), why=str(error))
            own, passed = node.sorted_out(found, always=False)
            told = node.witnesses(own)
            await node.crawl.commit(Batch(found=own, passed=passed, told=told))
        finally:
            node.taking_in -= 1
        self._exchange.hurry()
        outboxes = node.store.outboxes()
        receivers = {each.to for each in passed} | {to for to, _ in told}
        return {each: outboxes[each].next - 1 for each in receivers if each in outboxes}

    async def _until_received(self, sent: Mapping[str, int]) -> None:
        """Wait until others have pieces on their disks too; not for one that is no member any more."""

        def is_on_its_way(receiver: str, number: int) -> bool:
            charter, box = self._node.charter, self._node.store.outboxes().get(receiver)
            is_member = charter is not None and receiver in charter.members
            return is_member and box is not None and box.first <= number

        while any(is_on_its_way(*each) for each in sent.items()):  # noqa: ASYNC110 - nothing says so
            await trio.sleep(_LOOK_EVERY_S)

    # Orders

    async def obey(self) -> None:
        """Take orders from the board, carry them out, and answer."""
        async with trio.open_nursery() as nursery:
            while True:
                await nursery.start(self._obey_next)

    async def _obey_next(self, task_status: trio.TaskStatus[None]) -> None:
        """Take one order, and let the next be taken while this one is carried out."""
        begun = False
        try:
            async with self._board.space.take("order", self._node.id, str, str, bytes) as taken:
                begun = True
                task_status.started()
                _, _, number, kind, arguments = taken.tuple
                await self._answer(str(number), await self._carried_out(str(kind), arguments))
        except TupleSpaceError as error:
            self._node.log.warning("cannot take orders", why=str(error))
            if not begun:
                await trio.sleep(_PAUSE_S)
                task_status.started()

    async def _carried_out(self, kind: str, arguments: Any) -> dict[str, Any]:
        handler = self._handlers.get(kind)
        if handler is None:
            return {"error": f"it does not know how to {kind}"}
        try:
            return await handler(msgpack.unpackb(arguments))
        except Exception as error:  # whoever asked is told, and the gatherer goes on
            self._node.log.warning("an order failed", order=kind, exc_info=error)
            return {"error": f"it could not {kind}: {str(error) or type(error).__name__}"}

    async def _answer(self, number: str, answer: Mapping[str, Any]) -> None:
        """Answer; when that fails, wait a little before the order goes back and is carried out again."""
        node = self._node
        try:
            try:
                await self._board.answer(number, node.id, {"name": node.name, **answer})
            except TupleError as error:
                too_large = {"name": node.name, "error": f"its answer cannot be sent: {error}"}
                await self._board.answer(number, node.id, too_large)
        except TupleSpaceError:
            await trio.sleep(_PAUSE_S)
            raise

    async def _drain(self, _: Mapping[str, Any]) -> dict[str, Any]:
        await self._node.drain()
        return {}

    async def _audit(self, _: Mapping[str, Any]) -> dict[str, Any]:
        """The book of this gatherer, as of its last commit."""
        node = self._node
        reasons = dict(node.crawl.tally.reasons)
        said = {"id": node.id, "epoch": node.epoch, "reasons": reasons, "lent": node.crawl.loans.lent}
        return {**said, **book_of(node.store)}

    async def _dropped(self, _: Mapping[str, Any]) -> dict[str, Any]:
        """How many URLs were dropped here, by why."""
        return {"dropped": await self._node.world.offload(partial(dropped_of, self._node.store))}

    async def _host(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """What is known of the hosts with a prefix."""
        start, end = part(str(arguments["prefix"]))
        hosts = [
            {
                "host": readable(each.host),
                "queued": each.queued,
                "done": each.done,
                "dropped": each.dropped,
                "passed": each.passed,
                "extent": self._node.extent(each.host).value,
            }
            for each in self._node.store.hosts(start, end)
        ]
        return {"hosts": hosts}

    async def _why(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """What is known of a URL."""
        return testimony.tell(self._node, self._visitor.admission, str(arguments["url"]))

    async def _turns(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Which of some lines may be used here."""
        return {"open": testimony.turns(self._node, arguments["lines"])}

    async def _retry(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Queue again what has been answered with some status."""
        low, high = int(arguments["low"]), int(arguments["high"])
        start, end = part(str(arguments["prefix"]))
        count, at = 0, start
        while True:
            keys, at_next = await self._node.world.offload(partial(self._answered, at, end, low, high))
            if keys:
                await self._node.crawl.commit(Batch(again=keys))
                await self._board.take_down(boards.FINISHED)
                count += len(keys)
            if at_next is None:
                return {"queued": count}
            at = at_next

    def _answered(self, start: str, end: str | None, low: int, high: int) -> tuple[list[str], str | None]:
        """Some keys that are held and were answered with some status, and where to go on."""
        chosen: list[str] = []
        holdings = self._node.holdings
        for number, (key, row) in enumerate(self._node.store.scan(start, end)):
            if (
                row.state in (State.DONE, State.DROPPED)
                and low <= row.status <= high
                and holdings.may_fetch(key)
            ):
                chosen.append(key)
            if len(chosen) >= _AT_ONCE or number >= _ROWS_AT_ONCE:
                return chosen, key + "\0"
        return chosen, None

    async def _forget(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Remove all rows with a prefix."""
        start, end = part(str(arguments["prefix"]))
        count = 0
        for which in (Which.HELD, Which.PASSED):
            at: str | None = start
            while at is not None:
                keys, at = self._node.store.keys(at, end, _AT_ONCE, which)
                await trio.lowlevel.checkpoint()
                if keys:
                    await self._node.crawl.commit(Batch(erased=keys))
                    count += len(keys)
        self._node.crawl.forget_targets()
        fresh = Forgotten(start, end, round(self._node.clock() * 1e6))
        kept = with_forgotten(self._node.store.get_meta(FORGOTTEN), fresh)
        await self._node.crawl.commit(Batch(meta=kept))
        return {"forgotten": count}

    async def _priorities(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Keep what a ranking says of URLs that are here."""
        rows, ranking = taking.heard(arguments)
        batch = taking.batch_of(rows, ranking, self._node.store.get_meta(taking.RANKING))
        if batch is None:
            return {"error": "it has the priorities of a newer ranking"}
        committed = await self._node.crawl.commit(batch)
        return {"taken": len(rows), "known": sum(each.key in committed.ranked for each in rows)}

    async def _file(self, _: Mapping[str, Any]) -> dict[str, Any]:
        """Write all summaries and links into files, however few they are: somebody is going to read them."""
        store = self._node.store
        return {"files": len(await self._node.world.offload(partial(store.flush_segments, everything=True)))}

    async def _plan(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """What a new plan would be, without making it one."""
        wish = Wish(OPERATOR, "", str(arguments["method"]))
        charter = await self._leader.lead([wish], dry=True)
        if charter is None:
            return {"error": "it has not adopted the newest plan yet; ask again"}
        return {
            "forecast": dict(charter.forecast),
            "members": dict(charter.members),
            "ranges": len(charter.owners),
            "moves": charter.sources.changes(charter.owners)[:_MOVES],
        }
