"""Rows on their way to another gatherer, a chunk at a time.

A row names its parent and its reason by numbers, and counts its time from the birth of its store; none of
that means anything elsewhere. But there are few different rows in a chunk, if one leaves aside the time and
the digest: what one page named, and was fetched at the first try, has all the rest in common. So a chunk has
a list of these *kinds*, which name parents and reasons by their place in lists of the chunk, and every row
says which kind it is. Sender and receiver take a kind apart and put it together once, not row by row.

    chunk   how many rows, 4 bytes · zstd, with a checksum, of
            keys, joined by zero bytes · lists of parents, reasons and kinds · for each row the number of its
            kind · for each row that was tried its time, and its digest or the time of its retry · by the
            numbers of rows, what is remembered of pages that are visited again, and what a ranking has said
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgpack
import zstandard

from gcs.store.encoding import STATE, TIME_BYTES, TRIED, unzigzag, varints, via_of
from gcs.store.records import VIAS, State

_LEVEL = 1
_COUNT_BYTES = 4
_RETRY: Final = State.QUEUED | TRIED
_TRIED_ROW: Final = re.compile(
    rb"(.(?:[\x80-\xff]*[\x00-\x7f]){5})((?:[\x80-\xff]*[\x00-\x7f]))(.*)", re.DOTALL
).fullmatch
"""The kind of a row that was tried, its time, and the rest."""


class Kind(NamedTuple):
    """What many rows have in common; the last three are of rows that were tried."""

    flags: int
    depth: int
    parent: int
    """Its place among the parents of the chunk."""
    status: int = 0
    """As a row has it."""
    attempts: int = 0
    reason: int = 0
    """Its place among the reasons of the chunk."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows that were handed over."""

    parents: list[str]
    reasons: list[str]
    kinds: list[Kind]
    keys: list[str]
    rows: list[tuple[int, int, bytes]]
    """For each key: the place of its kind, when it was tried (Unix time), and its digest or retry."""
    memories: dict[str, bytes]
    """What is remembered of pages, as the table of visits has it."""
    priorities: dict[str, bytes]
    """What the last ranking said of them, as the table of priorities has it."""


def pack(
    entries: Sequence[tuple[bytes, bytes]],
    *,
    reasons: Sequence[str],
    birth: int,
    parents_of: Callable[[set[int]], Mapping[int, str]],
    memories: Mapping[int, bytes] = MappingProxyType({}),
    priorities: Mapping[int, bytes] = MappingProxyType({}),
) -> bytes:
    """A chunk with entries of the table of rows; empty if there are none."""
    if not entries:
        return b""
    import numpy as np

    numbers: dict[bytes, int] = {}
    kind_of, at, tails = [], [], []
    for _, row in entries:
        if row[0] & TRIED:
            parts = _TRIED_ROW(row)
            assert parts is not None
            kind, time, tail = parts.groups()
            at.append(unzigzag(varints(time, 0, 1)[0][0]) + birth)
            tails.append(tail)
        else:
            kind = row
        kind_of.append(numbers.setdefault(kind, len(numbers)))
    kinds = [Kind(kind[0], *varints(kind, 1, 5 if kind[0] & TRIED else 2)[0]) for kind in numbers]
    parents = parents_of({kind.parent for kind in kinds})
    parent_places = {number: place for place, number in enumerate(parents)}
    reason_places = {number: place for place, number in enumerate({kind.reason for kind in kinds})}
    beside = [dict(memories)]
    if priorities:
        beside.append(dict(priorities))  # a gatherer of a version before knows nothing of them
    said = (
        b"\0".join([key for key, _ in entries]),
        list(parents.values()),
        [reasons[number] for number in reason_places],
        [
            kind._replace(parent=parent_places[kind.parent], reason=reason_places[kind.reason])
            for kind in kinds
        ],
        np.array(kind_of, "<u4").tobytes(),
        np.array(at, "<i8").tobytes(),
        bytes(map(len, tails)),
        b"".join(tails),
        *beside,
    )
    compressor = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True)
    return len(entries).to_bytes(_COUNT_BYTES, "big") + compressor.compress(msgpack.packb(said))


def count_of(chunk: bytes) -> int:
    """How many rows are in a chunk."""
    return int.from_bytes(chunk[:_COUNT_BYTES], "big")


def keys_of(chunk: bytes) -> list[str]:
    """The keys in a chunk, in order; raises ValueError if it is damaged."""
    try:
        unpacker = msgpack.Unpacker(max_buffer_size=0)
        unpacker.feed(zstandard.ZstdDecompressor().decompress(chunk[_COUNT_BYTES:]))
        unpacker.read_array_header()
        joined: bytes = unpacker.unpack()
        return joined.decode().split("\0")
    except (zstandard.ZstdError, msgpack.UnpackException, AttributeError, ValueError) as error:
        raise ValueError("a chunk of rows is damaged") from error


def unpack(chunk: bytes) -> Chunk:
    """The rows of a chunk; raises ValueError if it is damaged."""
    try:
        packed = zstandard.ZstdDecompressor().decompress(chunk[_COUNT_BYTES:])
        found = _unpacked(msgpack.unpackb(packed, strict_map_key=False))
    except (
        zstandard.ZstdError,
        msgpack.UnpackException,
        StopIteration,
        LookupError,
        TypeError,
        ValueError,
    ) as error:
        raise ValueError("a chunk of rows is damaged") from error
    if not len(found.keys) == len(found.rows) == count_of(chunk):
        raise ValueError("a chunk of rows is not whole")
    return found


def _unpacked(said: Any) -> Chunk:
    import numpy as np

    joined, parents, reasons, kinds, kind_of, at, lengths, tails, *beside = said
    known = [Kind(*kind) for kind in kinds]
    for kind in known:
        _check(kind, parents, reasons)
    tried = [bool(kind.flags & TRIED) for kind in known]
    times = iter(np.frombuffer(at, "<i8").tolist())
    ends = iter(np.cumsum(np.frombuffer(lengths, np.uint8), dtype=np.int64).tolist())
    begin = 0
    rows = []
    for number in np.frombuffer(kind_of, "<u4").tolist():
        if tried[number]:
            end = next(ends)
            rows.append((number, next(times), tails[begin:end]))
            begin = end
        else:
            rows.append((number, 0, b""))
    retries = {number for number, kind in enumerate(known) if kind.flags & (STATE | TRIED) == _RETRY}
    if retries and any(number in retries and len(tail) != TIME_BYTES for number, _, tail in rows):
        raise ValueError("a retry has no time")
    keys = joined.decode().split("\0")
    remembered, *ranked = ({keys[number]: bytes(each) for number, each in some.items()} for some in beside)
    return Chunk(parents, reasons, known, keys, rows, remembered, ranked[0] if ranked else {})


def _check(kind: Kind, parents: Sequence[str], reasons: Sequence[str]) -> None:
    """Refuse what could not be entered into any store."""
    is_known = kind.flags & STATE and via_of(kind.flags) < len(VIAS)
    if not is_known or kind.parent >= len(parents) or kind.reason >= len(reasons):
        raise ValueError(f"no row can be like {kind}")
