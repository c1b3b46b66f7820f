"""Ranges that change hands, while everything else is crawled.

A range that leaves is fetched from no more. When nothing of it is under way, its rows go to the new owner as
numbered pieces, then an end marker; when that is acknowledged, the rows are turned into rows of URLs that
were passed on, and the range is foreign. A crash at any moment begins the range anew: rows merge by the
larger state, and what has come whole is not taken in again, so sending them twice does no harm. Many ranges
are under way at a time; none waits for another.

Ranges that were lost with their holder's disk: whatever was ever passed into them is passed on again. So who
leaves for good tells others, before it does, of all that it has passed on. And what the lost one had fetched
and handed over before is fetched again: with its disk both the pages and what they name were lost.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from typing import Final

import trio

from gcs.core.holdings import Piece, Range, Standing
from gcs.core.origins import Origin
from gcs.gatherer.exchange import Exchange, end_marker, manners, origins, traps
from gcs.gatherer.manners import Hosts
from gcs.gatherer.node import EVERYTHING, Node
from gcs.store.ranges import Which
from gcs.store.records import Batch, State

ROWS: Final = 2_000
"""Rows in a piece."""
ROWS_AT_ONCE: Final = 8_000
"""Rows that are written to outboxes in one commit."""
RELEASED_AT_ONCE: Final = 4_000
FOUND_AGAIN: Final = "found again after a loss"
FETCHED_AGAIN: Final = "fetched again after a loss"
_PIECES_AT_ONCE: Final = 64
UNSENT_BYTES: Final = 8 << 20
"""What may wait in an outbox before more rows are read for it."""
_LOOK_EVERY_S: Final = 0.05
CLOCKS_DIFFER_S: Final = 10.0
"""Pages count as having come with a range if they were fetched no later than this after it had come."""
_REST_S: Final = 1.0


class HandOver:
    """The task that gives ranges away."""

    def __init__(self, node: Node, exchange: Exchange) -> None:
        self._node, self._exchange, self._store = node, exchange, node.store
        self._sent: dict[tuple[Range, str], int] = {}
        """By range and receiver: the number of the piece with its end marker."""
        self._begun: dict[tuple[Range, str], str] = {}
        """Those of which a part is in the outbox, and where the next row is."""
        self._lost_by = node.lost_by

    async def run(self) -> None:
        """Give away what is leaving, and send again what was lost."""
        while True:
            changed = self._node.changed
            leaving = self._leaving()
            self._begin_anew()
            await self._close_outboxes()
            absent = self._gone()
            able = [piece for piece in leaving if piece.peer not in absent]
            keys = {self._key(piece) for piece in able}
            self._sent = {key: number for key, number in self._sent.items() if key in keys}
            self._begun = {key: at for key, at in self._begun.items() if key in keys}
            for lost in list(self._node.resend):
                await self._send_again(lost)
            for came in self._node.refetch:
                await self._fetch_again(came)
            if self._node.is_to_testify:
                await self._testify()
            if self._node.is_to_tell_of_seeds:
                await self._tell_of_seeds()
            if not leaving:
                await self._node.world.until(changed, _REST_S)
                continue
            await self._send_rows([piece for piece in able if self._key(piece) not in self._sent])
            await self._let_go()
            await trio.sleep(_LOOK_EVERY_S)

    def _begin_anew(self) -> None:
        """Send again what is not all, as rows have come since, or was sent in vain.

        When this gatherer was thought lost nobody takes in what it sent before it knew.
        """
        if self._node.lost_by > self._lost_by:
            self._lost_by, self._sent, self._begun = self._node.lost_by, {}, {}
        if self._node.late:
            self._sent = {key: at for key, at in self._sent.items() if not self._node.has_late(key[0])}
            self._begun = {
                key: at for key, at in self._begun.items() if not self._node.has_late((key[0][0], at))
            }
            self._node.late.clear()

    @staticmethod
    def _key(piece: Piece) -> tuple[Range, str]:
        return (piece.start, piece.end), piece.peer

    async def _send_rows(self, pieces: list[Piece]) -> None:
        """Send the rows of ranges of which nothing is under way; small ones together.

        Of one whose receiver has enough waiting, the rest comes later: it may never take it, and others do.
        """
        together: list[Piece] = []
        batch, count, epoch = Batch(), 0, self._node.on_disk[0]
        crawl = self._node.crawl
        hosts = Hosts(crawl.bench, crawl.novelty, self._node.clock, crawl.inquiries.asking)
        busy = list(crawl.under_way)
        for piece in pieces:
            key = self._key(piece)
            if not self._has_room(piece.peer):
                continue
            if key not in self._begun and (_has_one(busy, piece) or hosts.are_asked(*key[0])):
                continue
            at: str | None = self._begun.pop(key, piece.start)
            while at is not None:
                packed, rows, at = self._store.chunk(at, piece.end, ROWS)
                if rows:
                    batch.rows.append((piece.peer, packed))
                    count += rows
                await trio.lowlevel.checkpoint()
                if count >= ROWS_AT_ONCE:
                    await self._sent_off(batch, together)
                    batch, together, count = Batch(), [], 0
                    hosts.look_again()
                    busy = list(crawl.under_way)
                    if self._node.on_disk[0] != epoch:
                        return  # another charter has come meanwhile
                    if at is not None and not self._has_room(piece.peer):
                        self._begun[key] = at
                        break
            if at is not None:
                continue
            known = hosts.manners(piece.start, piece.end)
            batch.mail += [(piece.peer, letter) for letter in manners(known)]
            dry = hosts.traps(piece.start, piece.end)
            batch.mail += [(piece.peer, letter) for letter in traps(dry)]
            came = self._node.origins.within(piece.start, piece.end)
            batch.mail += [(piece.peer, letter) for letter in origins(came)]
            batch.mail.append((piece.peer, end_marker(piece.start, piece.end, self._node.clock())))
            together.append(piece)
            if len(together) >= _PIECES_AT_ONCE:
                await self._sent_off(batch, together)
                batch, together, count = Batch(), [], 0
                hosts.look_again()
                busy = list(crawl.under_way)
        if batch.rows or batch.mail:
            await self._sent_off(batch, together)

    async def _sent_off(self, batch: Batch, ended: list[Piece]) -> None:
        """Write rows and end markers to the outboxes."""
        await self._node.crawl.commit(batch)
        outboxes = self._store.outboxes()
        for piece in ended:
            self._sent[self._key(piece)] = outboxes[piece.peer].next - 1
        self._exchange.hurry()

    def _has_room(self, receiver: str) -> bool:
        box = self._store.outboxes().get(receiver)
        return box is None or box.bytes <= UNSENT_BYTES

    async def _until_there_is_room(self, receiver: str, epoch: int) -> None:
        """Wait for room in an outbox, or another charter: the receiver may be lost."""
        while self._node.on_disk[0] == epoch and not self._has_room(receiver):  # noqa: ASYNC110 - nothing says so
            await trio.sleep(_LOOK_EVERY_S)

    def _leaving(self) -> list[Piece]:
        # As a restart would find them: what was found under the charter before is on disk by then.
        return self._node.on_disk[1].pieces(Standing.LEAVING)

    async def _let_go(self) -> None:
        """Forget the rows of ranges whose end was acknowledged; none if others come into such a range."""
        self._begin_anew()
        outboxes, gone = self._store.outboxes(), self._gone()
        done = [
            (key, number)
            for key, number in self._sent.items()
            if key[1] in outboxes and outboxes[key[1]].first > number and key[1] not in gone
        ]
        keys: list[str] = []
        for (place, _), _ in done:
            at: str | None = place[0]
            while at is not None:
                some, at = self._store.keys(at, place[1], ROWS, Which.HELD)
                keys += some
                await trio.lowlevel.checkpoint()
                if self._node.has_late(EVERYTHING):
                    return
                if len(keys) >= RELEASED_AT_ONCE:
                    await self._release(keys)
                    keys = []
        if keys:
            await self._release(keys)
        if done:
            await self._node.left([key for key, _ in done])

    async def _release(self, keys: list[str]) -> None:
        await self._node.crawl.commit(Batch(released=keys))

    # What would be forgotten

    async def _testify(self) -> None:
        """Tell others of all that was passed on here; begun anew when another charter comes meanwhile."""
        passed, epoch = self._store.counts().passed, self._node.on_disk[0]
        at: str | None = ""
        while at is not None:
            keys, at = self._store.keys(at, None, ROWS, Which.PASSED)
            await trio.lowlevel.checkpoint()
            told = self._node.witnesses(self._store.founds(keys))
            if told:
                await self._node.crawl.commit(Batch(told=told))
                self._exchange.hurry()
            for receiver in {to for to, _ in told}:
                await self._until_there_is_room(receiver, epoch)
            if self._node.on_disk[0] != epoch:
                return
        self._node.testified(passed)

    async def _tell_of_seeds(self) -> None:
        """Have another gatherer know of each seed that is ours: no page may name it."""
        epoch = self._node.on_disk[0]
        at: str | None = ""
        while at is not None:
            keys, at = self._store.keys(at, None, ROWS, Which.SEEDS)
            await trio.lowlevel.checkpoint()
            if told := self._node.witnesses(self._store.founds(keys)):
                await self._node.crawl.commit(Batch(told=told))
                self._exchange.hurry()
        await self._node.told_of_seeds(epoch)

    # What was lost

    def _gone(self) -> set[str]:
        """Who takes nothing more. That an outbox to one of them was emptied is no acknowledgement."""
        charter = self._node.charter
        return {*self._node.gone, *(charter.departed if charter else ())}

    async def _close_outboxes(self) -> None:
        # What a plan gives to one that is gone has no other owner until there is the next one.
        charter = self._node.charter
        gone = self._gone() - (charter.members.keys() if charter else set())
        for receiver, box in self._store.outboxes().items():
            if receiver in gone and box.next > box.first:
                await self._exchange.reroute(receiver)

    async def _send_again(self, lost: Range) -> None:
        """Pass on again whatever was passed into a range, or queue it if the range is ours now."""
        at: str | None = lost[0]
        while at is not None:
            keys, at = self._store.keys(at, lost[1], ROWS, Which.PASSED)
            await trio.lowlevel.checkpoint()
            if keys:
                own, passed = self._node.sorted_out(self._store.founds(keys), always=True)
                # What is ours from now on was known here because another one had it: now a third one has to.
                told, counters = self._node.witnesses(own), {FOUND_AGAIN: len(keys)}
                await self._node.crawl.commit(Batch(found=own, passed=passed, told=told, counters=counters))
                self._exchange.hurry()
        await self._node.resent(lost)

    async def _fetch_again(self, came: Origin) -> None:
        """Queue again the pages of a range that had been fetched when it came from one that is lost."""
        keys: list[str] = []
        for number, (key, row) in enumerate(self._store.scan(came.start, came.end)):
            if row.state is State.DONE and row.at <= came.at + CLOCKS_DIFFER_S:
                keys.append(key)
            if number % ROWS == ROWS - 1:
                await trio.lowlevel.checkpoint()
            if len(keys) == ROWS:
                await self._queue_again(keys)
                keys = []
        if keys:
            await self._queue_again(keys)
        await self._node.refetched(came)

    async def _queue_again(self, keys: list[str]) -> None:
        await self._node.crawl.commit(Batch(again=keys, counters={FETCHED_AGAIN: len(keys)}))


def _has_one(keys: Sequence[str], piece: Piece) -> bool:
    """Whether one of some keys, in order, is in a range."""
    at = bisect.bisect_left(keys, piece.start)
    return at < len(keys) and (piece.end is None or keys[at] < piece.end)
