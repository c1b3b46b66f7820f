"""The outboxes: what waits for other gatherers, in numbered pieces, until they have it on disk.

Pieces are read and deleted by number, so nothing ever passes over tombstones. With each piece is kept how
many bytes and entries went before it, so that a look at the first one that is left tells how much waits.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from gcs.store import mail
from gcs.store.database import OUTBOX, Database, Writes
from gcs.store.records import Batch, Found, Outbox

ENTRIES_AT_ONCE: Final = 2_000
"""URLs in a piece at most."""
BYTES_AT_ONCE: Final = 256 << 10
"""Characters of their keys and of their parents' at most, but for a single one."""
_READ_AT_ONCE = 16
_NUMBER = struct.Struct(">Q")
_BEFORE = struct.Struct(">QQ")


class Numbers(NamedTuple):
    """What is known of one outbox: pieces [first, next) wait, and what went in and out in all."""

    first: int = 1
    next: int = 1
    bytes_in: int = 0
    entries_in: int = 0
    bytes_out: int = 0
    entries_out: int = 0

    @property
    def waiting(self) -> Outbox:
        """As others see it."""
        return Outbox(
            self.first, self.next, self.bytes_in - self.bytes_out, self.entries_in - self.entries_out
        )


def post(
    batch: Batch,
    passed: Mapping[str, list[Found]],
    outboxes: Mapping[str, Numbers],
    database: Database,
    writes: Writes,
) -> tuple[dict[str, Numbers], dict[str, int], dict[str, int]]:
    """Write what a batch puts into outboxes and takes out.

    Gives the outboxes then, and by receiver the URLs that were put in, and those that were withdrawn.
    """
    after = dict(outboxes)
    for to, number in batch.acked.items():
        if to in after:
            after[to] = _taken_out(to, number, after[to], database, writes)
    sent: dict[str, int] = {}
    withdrawn: dict[str, int] = {}
    for to, number in batch.withdrawn.items():
        if to in after:
            before = after[to].entries_out
            after[to] = _taken_out(to, number, after[to], database, writes)
            if entries := after[to].entries_out - before:
                withdrawn[to] = entries
    for to, piece in _pieces(batch, passed):
        entries = mail.entries_of(piece)
        after[to] = _put(to, piece, entries, after.get(to, Numbers()), writes)
        if entries:
            sent[to] = sent.get(to, 0) + entries
    return after, sent, withdrawn


def _pieces(batch: Batch, passed: Mapping[str, list[Found]]) -> Iterator[tuple[str, bytes]]:
    for to, found in passed.items():
        for some in _parts(found):
            yield to, mail.pack_found(some)
    for to, chunk in batch.rows:
        yield to, mail.pack_rows(chunk)
    told: dict[str, list[Found]] = {}
    for to, each in batch.told:
        told.setdefault(to, []).append(each)
    for to, found in told.items():
        for some in _parts(found):
            yield to, mail.pack_known(some)
    for to, data in batch.mail:
        yield to, mail.pack_mail(data)


def _parts(found: list[Found]) -> Iterator[list[Found]]:
    """Parts of bounded number and size: keys may be long, and hardly compress."""
    some: list[Found] = []
    size = 0
    for each in found:
        length = len(each.key) + len(each.parent)
        if some and (len(some) >= ENTRIES_AT_ONCE or size + length > BYTES_AT_ONCE):
            yield some
            some, size = [], 0
        some.append(each)
        size += length
    if some:
        yield some


def _put(to: str, piece: bytes, entries: int, numbers: Numbers, writes: Writes) -> Numbers:
    before = _BEFORE.pack(numbers.bytes_in, numbers.entries_in)
    writes.put(_key(to, numbers.next), before + piece, writes.tables[OUTBOX])
    return numbers._replace(
        next=numbers.next + 1,
        bytes_in=numbers.bytes_in + len(piece),
        entries_in=numbers.entries_in + entries,
    )


def _taken_out(to: str, number: int, numbers: Numbers, database: Database, writes: Writes) -> Numbers:
    first = min(number + 1, numbers.next)
    if first <= numbers.first:
        return numbers
    for each in range(numbers.first, first):
        writes.delete(_key(to, each), writes.tables[OUTBOX])
    before = numbers.bytes_in, numbers.entries_in
    if first < numbers.next:
        left = database.get(OUTBOX, _key(to, first))
        assert left is not None
        before = _BEFORE.unpack_from(left)
    return numbers._replace(first=first, bytes_out=before[0], entries_out=before[1])


def outgoing(
    to: str, after: int, max_bytes: int, numbers: Numbers, database: Database
) -> list[tuple[int, bytes]]:
    """Pieces beyond a number, in order, as many as the bytes allow and at least one."""
    pieces: list[tuple[int, bytes]] = []
    left = max_bytes
    for number, piece in _read(to, range(max(after + 1, numbers.first), numbers.next), database):
        left -= len(piece)
        if pieces and left < 0:
            break
        pieces.append((number, piece))
    return pieces


def _read(to: str, numbers: range, database: Database) -> Iterator[tuple[int, bytes]]:
    """Pieces by number; those that were acknowledged meanwhile are not there any more."""
    for at in range(0, len(numbers), _READ_AT_ONCE):
        some: Iterable[int] = numbers[at : at + _READ_AT_ONCE]
        values = database.get_many(OUTBOX, [_key(to, number) for number in some])
        for number, value in zip(some, values, strict=True):
            if value is not None:
                yield number, value[_BEFORE.size :]


def _key(to: str, number: int) -> bytes:
    return to.encode() + b"\0" + _NUMBER.pack(number)
