"""URLs to and from other gatherers: numbered batches, acknowledged end to end.

What is passed on stands in an outbox on disk, in numbered pieces, since the commit in which it was found.
Pieces go to the receiver's inbox space, several in one tuple. The receiver writes them and the number of the
last one in one commit, and says that number with its heartbeats; only then does the sender forget them. What
has made no progress for a while, and does not lie in the inbox either, is sent again from the first piece
that was not acknowledged. So Redis may lose anything, and one that is away does not fill it.

An inbox is always emptied to disk. What must not grow without bound acts on fetching: who has too much in its
outboxes begins no fetches (`Node.outbox_is_full`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

import msgpack
import trio

from gcs.board import Board, Member
from gcs.core.holdings import NOBODY
from gcs.core.origins import Origin
from gcs.core.politeness import Manner
from gcs.core.traps import Dry
from gcs.core.vitals import Sign
from gcs.gatherer.node import Node, Received
from gcs.store import mail
from gcs.store.moving import keys_of
from gcs.store.records import Batch, Found
from tuplespace import TupleError, TupleSpaceError

END: Final = "end"
MANNERS: Final = "manners"
TRAPS: Final = "traps"
ORIGINS: Final = "origins"
DOUBTS: Final = "doubts"
_WORDS_AT_ONCE: Final = 1_000
_KEYS_AT_ONCE: Final = 20
_AT_ONCE: Final = 2
_FIRST_PAUSE_S: Final = 0.2
_LONGEST_PAUSE_S: Final = 5.0


def end_marker(start: str, end: str | None, at: float) -> bytes:
    """What follows the last row of a range: it is whole, at a time by the sender's clock."""
    packed: bytes = msgpack.packb([END, start, end, at])
    return packed


def manners(known: Sequence[Manner]) -> Iterator[bytes]:
    """How hosts of a range are to be treated, before its end marker; in letters of bounded size."""
    yield from _letters(MANNERS, known)


def traps(known: Sequence[Dry]) -> Iterator[bytes]:
    """Where in a range pages repeat each other, before its end marker."""
    yield from _letters(TRAPS, known, at_once=_KEYS_AT_ONCE)


def origins(known: Sequence[Origin]) -> Iterator[bytes]:
    """Whose pages are in a range, before its end marker."""
    yield from _letters(ORIGINS, known)


def doubts(keys: Sequence[str]) -> Iterator[bytes]:
    """Pages that somebody was wrong about, for who owns them."""
    yield from _letters(DOUBTS, keys, at_once=_KEYS_AT_ONCE)


def _letters(kind: str, words: Sequence[Any], *, at_once: int = _WORDS_AT_ONCE) -> Iterator[bytes]:
    for at in range(0, len(words), at_once):
        packed: bytes = msgpack.packb([kind, words[at : at + at_once]])
        yield packed


def _doubted(data: bytes) -> list[str]:
    """The keys of a letter of doubts; none of another one."""
    kind, *words = msgpack.unpackb(data)
    return list(words[0]) if kind == DOUBTS else []


class _Line:
    """How far the sending to one receiver has come."""

    def __init__(self, sent: int, acked: int, now: float) -> None:
        self.sent, self.acked, self.moved_at = sent, acked, now
        self._under_way: deque[tuple[int, int]] = deque()
        self.under_way_bytes = 0

    def send(self, last: int, size: int, now: float) -> None:
        """Pieces up to the last one were put into Redis."""
        if self.sent == self.acked:
            self.moved_at = now
        self.sent = last
        self._under_way.append((last, size))
        self.under_way_bytes += size

    def ack(self, number: int) -> None:
        """The receiver has all up to a number."""
        self.acked, self.sent = number, max(self.sent, number)
        while self._under_way and self._under_way[0][0] <= number:
            self.under_way_bytes -= self._under_way.popleft()[1]

    def begin_anew(self, now: float) -> None:
        """Send again what was not acknowledged."""
        self.sent, self.moved_at = self.acked, now
        self._under_way.clear()
        self.under_way_bytes = 0


class Exchange:
    """The tasks that send and receive."""

    def __init__(self, node: Node, board: Board) -> None:
        self._node, self._board, self._store = node, board, node.store
        self._lines: dict[str, _Line] = {}
        self._applied = dict(node.store.applied())
        self._soon = trio.Event()
        self._acks: dict[str, int] = {}
        self._acked = trio.Event()
        self.received = trio.Event()
        """Set when much was received since it was last cleared: a reason to say so soon."""
        self.crossing = [0.0, 0.0]
        """URLs received from others, and the seconds that took."""
        self.sign = Sign()
        """What sends answers here; while Redis is away it does so whenever it has given up."""
        self.unreadable = 0
        """What stood in the crawl's spaces in place of tuples, and was dropped; as far as was looked."""

    @property
    def applied(self) -> dict[str, int]:
        """By sender: the last piece that is on disk here."""
        return dict(self._applied)

    # Sending

    def hurry(self) -> None:
        """Send what there is without waiting for the next time."""
        self._soon.set()

    async def send(self) -> None:
        """Put what is in the outboxes into Redis, again and again."""
        pause_s = _FIRST_PAUSE_S
        while True:
            every_s = self._node.config.exchange.every_s
            self._lives(every_s)
            await self._node.world.until(self._soon, every_s)
            self._soon = trio.Event()
            self._lives(self._node.config.redis.timeout_s)
            self._see_unreadable()
            try:
                await self._send_all()
                pause_s = _FIRST_PAUSE_S
            except TupleSpaceError as error:
                self._node.log.warning("cannot send", why=str(error))
                self._lives(pause_s)
                await trio.sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def _see_unreadable(self) -> None:
        """Say what was dropped: somebody else writes here, or a gatherer of another version."""
        before, self.unreadable = self.unreadable, self._board.unreadable(self._node.id)
        if self.unreadable > before:
            self._node.log.warning("tuples cannot be read, and were dropped", count=self.unreadable - before)

    async def _send_all(self) -> None:
        if self._node.charter is None:
            return
        now = trio.current_time()
        for receiver, box in self._store.outboxes().items():
            line = self._lines.setdefault(receiver, _Line(box.first - 1, box.first - 1, now))
            line.ack(max(line.acked, box.first - 1))
            if line.sent > line.acked and now - line.moved_at > self._node.config.exchange.again_after_s:
                if await self._lies_there(receiver):
                    line.moved_at = now
                else:
                    line.begin_anew(now)
            try:
                while line.sent < box.next - 1 and await self._send_some(receiver, line, box.first):
                    pass
            except TupleError:
                # Nothing in an outbox is that large; but the others must not wait for this one.
                self._node.log.exception("a piece cannot be sent", receiver=receiver, after=line.sent)

    async def _lies_there(self, receiver: str) -> bool:
        """Whether something of ours waits to be received: sending it again would only fill Redis."""
        inbox = self._board.inbox(receiver)
        return bool(await inbox.count("batch", self._node.id, int, int, int, int, bytes))

    async def _send_some(self, receiver: str, line: _Line, floor: int) -> bool:
        """One tuple, if what is under way leaves room for it."""
        settings = self._node.config.exchange
        if line.under_way_bytes >= settings.in_redis_bytes:
            return False
        chosen = self._store.outgoing(receiver, line.sent, settings.batch_bytes)
        if not chosen:
            return False
        first, last = chosen[0][0], chosen[-1][0]
        packed = msgpack.packb([piece for _, piece in chosen])
        said = ("batch", self._node.id, first, last, floor, self._node.epoch, packed)
        await self._board.inbox(receiver).out(*said)
        self._board.traffic.wrote(*said)
        self._lives(self._node.config.redis.timeout_s)
        line.send(last, len(packed), trio.current_time())
        return True

    def _lives(self, rest_s: float) -> None:
        self.sign.answered(trio.current_time(), rest_s=rest_s)

    def heard(self, members: Sequence[Member]) -> None:
        """Heartbeats say what was received.

        By a newer charter rows may have been dropped, as their sender is lost: if that is this gatherer, it
        has to know so before it takes that for an acknowledgement.
        """
        for member in members:
            if member.pulse.epoch > self._node.epoch:
                continue
            number = member.pulse.applied.get(self._node.id, 0)
            line = self._lines.get(member.id)
            if line is not None and number > line.acked:
                line.ack(number)
                line.moved_at = trio.current_time()
                self._acks[member.id] = number
                self._acked.set()
                self._soon.set()

    async def forget(self) -> None:
        """Delete from the outboxes what was received."""
        while True:
            await self._acked.wait()
            self._acked = trio.Event()
            acks, self._acks = self._acks, {}
            await self._node.crawl.commit(Batch(acked=acks))
            self._soon.set()

    # Receiving

    async def receive(self) -> None:
        """Bring what comes in to disk, again and again."""
        inbox = self._board.inbox(self._node.id)
        while True:
            try:
                async with inbox.take("batch", str, int, int, int, int, bytes, many=_AT_ONCE) as taken:
                    await self._take_in(taken.tuples)
            except TupleSpaceError as error:
                self._node.log.warning("cannot receive", why=str(error))
                await trio.sleep(_FIRST_PAUSE_S)

    async def _take_in(self, tuples: Sequence[tuple[Any, ...]]) -> None:
        for each in tuples:
            self._board.traffic.read(*each)
        newest = max(epoch for *_, epoch, _ in tuples)
        if newest > self._node.epoch:
            await self._catch_up(newest)
        batch = await self._node.take_in(lambda: self._opened(tuples))
        if batch is None:
            return
        self._applied |= batch.applied
        self.received.set()

    def _opened(self, tuples: Sequence[tuple[Any, ...]]) -> Received | None:
        """What is new of some tuples; None if nothing is. What is left out comes again."""
        began = self._node.world.timer()
        received, applied = Received(), dict(self._applied)
        for _, sender, first, last, floor, epoch, packed in sorted(tuples, key=lambda each: each[1:3]):
            # What came before the sender's first piece came, or went elsewhere.
            before = max(applied.get(sender, 0), floor - 1)
            # What was sent to this one before it was thought lost has gone elsewhere, or is sent again.
            if not self._node.lost_by <= epoch <= self._node.epoch or last <= before or first > before + 1:
                continue
            part = Received()
            try:
                for number, piece in enumerate(msgpack.unpackb(packed), start=first):
                    if number > before:
                        self._read(sender, epoch, piece, part)
            except ValueError as error:
                self._node.log.warning("a batch is damaged", sender=sender, first=first, why=str(error))
                continue
            received.add(part)
            applied[sender] = received.batch.applied[sender] = last
        # Without the time of writing, which a URL of our own takes too, and of waiting for that.
        self.crossing[0] += sum(received.batch.received.values())
        self.crossing[1] += self._node.world.timer() - began
        return received if received.batch.applied else None

    async def _catch_up(self, epoch: int) -> bool:
        """Adopt the charter that a sender follows, before anything of it is located."""
        with self._node.deciding(epoch):
            charter = await self._board.charter(epoch)
            if charter is not None:
                await self._node.adopt(charter)
        return self._node.epoch >= epoch

    def _read(self, sender: str, epoch: int, piece: bytes, into: Received) -> None:
        letter, batch = mail.unpack(piece), into.batch
        charter = self._node.charter
        is_lost = charter is not None and charter.is_lost(sender, epoch)
        if letter.kind == "found":
            own, passed = self._node.sorted_out(letter.found, always=True)
            batch.found += own
            batch.passed += passed
        elif letter.kind == "known":
            own, passed = self._node.sorted_out(letter.found, always=False)
            batch.found += own
            # Whoever follows the same charter has seen to it, or will, that their owners have them.
            is_there = epoch == self._node.epoch
            batch.passed += [each._replace(to=NOBODY) for each in passed] if is_there else passed
        elif letter.kind == "rows":
            # Pages that it had fetched are fetched again, and they are not known to be among these any more.
            if not is_lost and not self._node.has_come(sender, keys := keys_of(letter.data)):
                batch.moved.append(letter.data)
                place = keys[0], f"{keys[-1]}\0"
                into.rows.append(place)
                if charter is not None and sender in charter.departed:
                    # It may be lost again before it has sent all: what came of it is not `coming`.
                    into.origins.append(Origin(sender, *place, self._node.clock()))
        else:
            self._heed(sender, letter.data, into, is_lost=is_lost)
        batch.received[sender] = batch.received.get(sender, 0) + mail.entries_of(piece)

    def _heed(self, sender: str, data: bytes, into: Received, *, is_lost: bool) -> None:
        """Words between gatherers that are no URLs; if rows are lost, then what is said of them too."""
        kind, *words = msgpack.unpackb(data)
        if is_lost and kind in (END, ORIGINS):
            return
        if kind == END:
            start, end, at = words
            into.ends.append((sender, (start, end)))
            into.origins.append(Origin(sender, start, end, at))
            into.whole.append(Origin(sender, start, end, at))
        elif kind == MANNERS:
            self._node.crawl.recall(Manner(*each) for each in words[0])
        elif kind == TRAPS:
            self._node.crawl.novelty.adopt(Dry(*each) for each in words[0])
        elif kind == ORIGINS:
            into.origins += [Origin(*each) for each in words[0]]
        elif kind == DOUBTS:
            into.doubted += words[0]

    # Receivers that are gone

    async def reroute(self, receiver: str) -> None:
        """Find other owners for what is in the outbox of one that is gone for good."""
        after = 0
        while pieces := self._store.outgoing(receiver, after, 1 << 20):
            found: dict[str, list[Found]] = {mail.FOUND: [], mail.KNOWN: []}
            for _, piece in pieces:
                letter = mail.unpack(piece)
                found.setdefault(letter.kind, []).extend(letter.found)
                if letter.kind == mail.MAIL:
                    self._node.doubt(_doubted(letter.data))
            own, passed = self._node.sorted_out(found[mail.FOUND], always=True)
            told = self._node.witnesses(found[mail.KNOWN])
            after = pieces[-1][0]
            batch = Batch(found=own, passed=passed, told=told, withdrawn={receiver: after})
            await self._node.crawl.commit(batch)
        self._lines.pop(receiver, None)
        inbox = self._board.inbox(receiver)
        with suppress(TupleSpaceError):
            while await inbox.inp("batch", self._node.id, int, int, int, int, bytes) is not None:
                pass
