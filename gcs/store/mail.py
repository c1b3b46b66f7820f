"""What gatherers send each other through their outboxes, as bytes that say what they are.

    piece   its kind, a byte · checksum of the rest, 4 bytes · the rest
    found   how many, a varint · zstd of URLs by what they have in common: parent, via, depth, band, and the
            keys in order, joined by zero bytes
    known   the same, of URLs that their owners have, and of which the receiver is to know
    rows    a chunk of rows that are handed over, see `moving`
    mail    whatever it is

What one page names has a long beginning in common, so that sorted keys compress well.
"""

import zlib
from collections.abc import Iterable
from typing import Final, NamedTuple

import msgpack
import zstandard

from gcs.store.encoding import VIA_NUMBER, varint, varints
from gcs.store.moving import count_of
from gcs.store.records import VIAS, Found

FOUND: Final = "found"
KNOWN: Final = "known"
ROWS: Final = "rows"
MAIL: Final = "mail"
_MARKS: Final = {FOUND: b"F", KNOWN: b"K", ROWS: b"R", MAIL: b"M"}
_KINDS: Final = {mark: kind for kind, mark in _MARKS.items()}
_BODY_AT: Final = 5
_LEVEL = 1


class Letter(NamedTuple):
    """What is in a piece."""

    kind: str
    """One of "found", "known", "rows", "mail"."""
    found: list[Found]
    data: bytes
    """For `Batch.moved` if it is "rows"; what was sent if it is "mail"."""


def pack_found(found: Iterable[Found]) -> bytes:
    """A piece with some URLs; their order is not kept."""
    return _piece(FOUND, _pack_urls(found))


def pack_known(found: Iterable[Found]) -> bytes:
    """A piece with URLs that the receiver is only to know of."""
    return _piece(KNOWN, _pack_urls(found))


def _pack_urls(found: Iterable[Found]) -> bytes:
    alike: dict[tuple[str, str, int, int], list[str]] = {}
    for key, depth, parent, via, band in found:
        like = (parent, via, depth, band)
        keys = alike.get(like)
        if keys is None:
            keys = alike[like] = []
        keys.append(key)
    groups = [
        (parent, VIA_NUMBER[via], depth, band, "\0".join(sorted(keys)))
        for (parent, via, depth, band), keys in sorted(alike.items())
    ]
    count = sum(map(len, alike.values()))
    packed = zstandard.ZstdCompressor(level=_LEVEL).compress(msgpack.packb(groups))
    return varint(count) + packed


def pack_rows(chunk: bytes) -> bytes:
    """A piece with rows that are handed over."""
    return _piece(ROWS, chunk)


def pack_mail(data: bytes) -> bytes:
    """A piece with anything."""
    return _piece(MAIL, data)


def _piece(kind: str, body: bytes) -> bytes:
    return b"".join((_MARKS[kind], zlib.crc32(body).to_bytes(4, "big"), body))


def entries_of(piece: bytes) -> int:
    """How many URLs are in a piece."""
    match _KINDS[piece[:1]]:
        case "found" | "known":
            return varints(piece, _BODY_AT, 1)[0][0]
        case "rows":
            return count_of(piece[_BODY_AT : _BODY_AT + 4])
    return 0


def unpack(piece: bytes) -> Letter:
    """What is in a piece; raises ValueError if it is damaged."""
    kind, body = _KINDS.get(piece[:1]), piece[_BODY_AT:]
    if kind is None or piece[1:_BODY_AT] != zlib.crc32(body).to_bytes(4, "big"):
        raise ValueError("a piece of mail is damaged")
    return Letter(kind, _unpack_urls(body), b"") if kind in (FOUND, KNOWN) else Letter(kind, [], body)


def _unpack_urls(body: bytes) -> list[Found]:
    try:
        packed = zstandard.ZstdDecompressor().decompress(body[varints(body, 0, 1)[1] :])
        return [
            Found(key, depth, parent, VIAS[via], band)
            for parent, via, depth, band, keys in msgpack.unpackb(packed)
            for key in keys.split("\0")
        ]
    except (zstandard.ZstdError, msgpack.UnpackException, LookupError, TypeError, AttributeError) as error:
        raise ValueError("URLs in a piece of mail make no sense") from error
