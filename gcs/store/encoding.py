"""How rows, hosts and pieces of the queue are packed into bytes.

There are far more rows than anything else, most of them of URLs that are only queued, so a row is packed by
hand: a byte of flags, then numbers of variable length, seven bits to a byte, the lowest first.

    row     flags (state 2 bits, via 3, band 2, tried 1) · depth · parent's number
            and, if it was tried: status (zigzag) · attempts · reason's number · seconds since the store's
            birth (zigzag: a row from another gatherer may be older) · the first bytes of the digest or, if it
            is queued again, the key of its retry's time
    host    passed · queued · dropped · done · for each band that was used: its number · head · tail - head
    later   flags as above · depth · parent's number · attempts
    piece   what keys have beyond their host's name, joined by zero bytes; the rest is in the rows
    visit   whether it stands in a line, of which grade and since when in milliseconds · what is remembered
    line    grade · since when in milliseconds · key

A parent is a number, and its key is in a table of its own, because most parents name many URLs.
"""

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeGuard

from gcs.core.revisits.standing import Standing
from gcs.store.records import VIAS, Remembered, State

DIGEST_BYTES: Final = 8
"""What a row keeps of a digest: enough to see that one page did not change."""

TIME_BYTES: Final = 8
"""What a row keeps of a retry: when it is due, as the table of retries has it."""
TRIED: Final = 0x80
STATE: Final = 0x03
VIA_NUMBER: Final = {via: number for number, via in enumerate(VIAS)}
_BYTE: Final = tuple(bytes((n,)) for n in range(256))
_BETWEEN_PATHS: Final = "\0"
_STATES: Final = tuple(State)
_PLACE: Final = struct.Struct(">BBQ")
_LINE: Final = struct.Struct(">BQ")


class Origin(NamedTuple):
    """Where a URL comes from: what its row says while it is queued, and keeps for ever."""

    via: int
    band: int
    depth: int
    parent: int


class Outcome(NamedTuple):
    """How the last try went."""

    status: int
    attempts: int
    reason: int
    at: int
    digest: bytes


class BandRow(NamedTuple):
    """A band of a host's queue: pieces [head, tail) may exist, and may be used up in part."""

    head: int = 0
    tail: int = 0


class HostRow(NamedTuple):
    """What is on disk about a host."""

    counts: tuple[int, int, int, int]
    """URLs by state."""
    bands: dict[int, BandRow]
    """Those that were ever used."""


def varint(number: int) -> bytes:
    """A number that is not negative, in as few bytes as it needs."""
    if number < 0:
        raise ValueError(f"{number} is negative")
    if number < 0x80:
        return _BYTE[number]
    if number < 0x4000:
        return _BYTE[number & 0x7F | 0x80] + _BYTE[number >> 7]
    packed = bytearray()
    while number >= 0x80:
        packed.append(number & 0x7F | 0x80)
        number >>= 7
    packed.append(number)
    return bytes(packed)


def zigzag(number: int) -> int:
    """A number that may be negative, as one that is not."""
    return number << 1 if number >= 0 else (-number << 1) - 1


def unzigzag(number: int) -> int:
    """The inverse of `zigzag`."""
    return number >> 1 if not number & 1 else -(number + 1 >> 1)


def varints(packed: bytes, at: int, count: int) -> tuple[list[int], int]:
    """Some numbers from a position on, and the position after them."""
    numbers = []
    for _ in range(count):
        number = shift = 0
        while (byte := packed[at]) & 0x80:
            number |= (byte & 0x7F) << shift
            shift += 7
            at += 1
        numbers.append(number | byte << shift)
        at += 1
    return numbers, at


def _pack(numbers: Iterable[int]) -> bytes:
    # A negative one would be taken for one of the last bytes, and nothing could be read any more.
    return b"".join([_BYTE[each] if 0 <= each < 0x80 else varint(each) for each in numbers])


def pack_untried(state: State, origin: Origin) -> bytes:
    """The row of a URL that was never tried here: queued, or passed on."""
    via, band, depth, parent = origin
    return _BYTE[state | via << 2 | band << 5] + _pack((depth, parent))


def via_of(flags: int) -> int:
    """How the URL of a row became known, by the row's first byte."""
    return flags >> 2 & 7


def untried(state: State, row: bytes) -> bytes:
    """A packed row without what is known about tries, in another state."""
    end = varints(row, 1, 2)[1] if row[0] & TRIED else len(row)
    return _BYTE[row[0] & ~(TRIED | STATE) | state] + row[1:end]


def pack_tried(state: State, origin: Origin, outcome: Outcome) -> bytes:
    """The row of a URL that was tried."""
    via, band, depth, parent = origin
    status, attempts, reason, at, digest = outcome
    numbers = _pack((depth, parent, zigzag(status), attempts, reason, zigzag(at)))
    return _BYTE[state | via << 2 | band << 5 | TRIED] + numbers + digest[:DIGEST_BYTES]


def pack_kind(state: State, origin: Origin, status: int, attempts: int, reason: int) -> bytes:
    """The row of a URL that was tried, up to the time; the status is given as a row has it."""
    via, band, depth, parent = origin
    numbers = _pack((depth, parent, status, attempts, reason))
    return _BYTE[state | via << 2 | band << 5 | TRIED] + numbers


def state_of(row: bytes) -> State:
    """The state that a packed row says."""
    return _STATES[row[0] & STATE]


def tried_at(row: bytes) -> int:
    """When the URL of a packed row was last tried, in seconds since the birth of the store."""
    return unzigzag(varints(row, 1, 6)[0][-1]) if row[0] & TRIED else 0


def retry_of(row: bytes) -> bytes:
    """Of a packed row in state QUEUED: when it is tried again, as in the table of retries; empty if new."""
    if not row[0] & TRIED:
        return b""
    return row[varints(row, 1, 6)[1] :]


def is_untried(row: bytes | None) -> TypeGuard[bytes]:
    """Whether a packed row is of a URL that waits for its first try."""
    return row is not None and row[0] & (TRIED | STATE) == State.QUEUED


def unpack_origin(row: bytes) -> Origin:
    """Where the URL of a packed row comes from."""
    flags = row[0]
    (depth, parent), _ = varints(row, 1, 2)
    return Origin(via_of(flags), flags >> 5 & 3, depth, parent)


def unpack_outcome(row: bytes) -> Outcome | None:
    """How the last try went, if there was one."""
    if not row[0] & TRIED:
        return None
    (_, _, status, attempts, reason, at), end = varints(row, 1, 6)
    digest = b"" if state_of(row) is State.QUEUED else row[end:]
    return Outcome(unzigzag(status), attempts, reason, unzigzag(at), digest)


def pack_later(origin: Origin, attempts: int) -> bytes:
    """What the table of waiting retries says about a URL."""
    return pack_untried(State.QUEUED, origin) + varint(attempts)


def unpack_later(packed: bytes) -> tuple[Origin, int]:
    """The inverse of `pack_later`."""
    (_, _, attempts), _ = varints(packed, 1, 3)
    return unpack_origin(packed), attempts


def pack_host(counts: Sequence[int], bands: Mapping[int, BandRow]) -> bytes:
    """A host's row."""
    numbers = [*counts]
    for number, (head, tail) in bands.items():
        numbers += (number, head, tail - head)
    return _pack(numbers)


def unpack_host(packed: bytes) -> HostRow:
    """The inverse of `pack_host`."""
    (passed, queued, dropped, done), at = varints(packed, 0, 4)
    bands = {}
    while at < len(packed):
        (number, head, length), at = varints(packed, at, 3)
        bands[number] = BandRow(head, head + length)
    return HostRow((passed, queued, dropped, done), bands)


def pack_piece(paths: Iterable[str]) -> bytes:
    """A piece of a queue: what its keys have beyond the host's name, in order."""
    return _BETWEEN_PATHS.join(paths).encode()


def unpack_piece(packed: bytes) -> list[str]:
    """The inverse of `pack_piece`."""
    return packed.decode().split(_BETWEEN_PATHS)


def pack_visit(remembered: Remembered) -> bytes:
    """What is remembered of a page, as it is in the table of visits."""
    standing = remembered.standing
    if standing is None:
        return _PLACE.pack(0, 0, 0) + remembered.memory
    return _PLACE.pack(1, standing.grade, _ms(standing.since)) + remembered.memory


def unpack_visit(packed: bytes) -> Remembered:
    """The inverse of `pack_visit`."""
    stands, grade, since = _PLACE.unpack_from(packed)
    return Remembered(packed[_PLACE.size :], Standing(grade, since / 1000) if stands else None)


def _ms(at: float) -> int:
    return max(0, round(at * 1000))


def visit_place(packed: bytes, key: bytes) -> bytes | None:
    """Where a page stands among the lines, from its entry of the table of visits."""
    stands, grade, since = _PLACE.unpack_from(packed)
    return _LINE.pack(grade, since) + key if stands else None


def visit_line(grade: int, since: float) -> bytes:
    """Where those stand, or would, who are in a line since a time."""
    return _LINE.pack(grade, round(since * 1000))


def since_of(place: bytes) -> float:
    """Since when somebody stands at a place of the lines."""
    since: int = _LINE.unpack_from(place)[1]
    return since / 1000
