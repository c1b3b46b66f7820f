"""Rows on their way to Parquet: how each page's are packed for the journal.

They are packed at once where they are made, while they are at hand, and what is packed only has to be
appended to other. A summary is packed value by value. The links of a page are columns, and all texts of a
column are packed as one, with a zero byte between them, so that nothing is done link by link in Python:
`gcs.store.parquet` splits them. A packed text without a zero byte holds for all links of its page, as most of
"rel" and "kind" do. A number is packed as its digits, and what is true as any text that is not empty.

Nothing here knows what columns mean; a schema says what they are.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgpack

from gcs.native import compiled, is_compiled
from gcs.store.records import NO_ROWS, Packed

_BETWEEN: Final = "\0"
_INSTEAD: Final = "\ufffd"
"""What a zero byte within a text becomes, as in HTML."""


def pack_row(values: Sequence[Any]) -> Packed:
    """One row, its values in the order of the schema."""
    return Packed(1, _pack(values))


def joined(packed: Sequence[Packed]) -> Packed:
    """Rows of one kind, one after the other."""
    return Packed(sum(each.rows for each in packed), b"".join([each.data for each in packed]))


def pack_columns(columns: Sequence[str | Sequence[str]]) -> Packed:
    """Some rows of texts, by columns: each a sequence, all of one length, or one text for all rows."""
    packed = compiled.pack_columns(tuple(columns)) if is_compiled else None
    return pack_columns_expressed(columns) if packed is None else Packed(*packed)


def pack_columns_expressed(columns: Sequence[str | Sequence[str]]) -> Packed:
    """The same, in Python."""
    lengths = [len(each) for each in columns if not isinstance(each, str)]
    rows = lengths[0] if lengths else 1
    if any(length != rows for length in lengths):
        raise ValueError(f"columns of {lengths} rows have no common length")
    return Packed(rows, _pack((rows, [_joined(each) for each in columns]))) if rows else NO_ROWS


def _pack(value: Any) -> bytes:
    try:
        packed: bytes = msgpack.packb(value)
    except UnicodeEncodeError:
        # Half of a surrogate pair has no place in UTF-8; looking for one beforehand would cost more.
        packed = msgpack.packb(value, unicode_errors="replace")
    return packed


def _joined(texts: str | Sequence[str]) -> str:
    """Some texts as one; the text itself if it is one only, or all are the same."""
    if isinstance(texts, str):
        return texts.replace(_BETWEEN, _INSTEAD)
    if texts[0] == texts[-1] and texts.count(texts[0]) == len(texts):
        return _joined(texts[0])
    joined = _BETWEEN.join(texts)
    if joined.count(_BETWEEN) >= len(texts):
        joined = _BETWEEN.join([each.replace(_BETWEEN, _INSTEAD) for each in texts])
    return joined


def repeated(texts: list[str]) -> list[int]:
    """The places of those texts that were there before."""
    return compiled.repeated_in(texts) if is_compiled else repeated_expressed(texts)


def repeated_expressed(texts: list[str]) -> list[int]:
    """The same, in Python."""
    left = set(texts)
    if len(left) == len(texts):
        return []
    places = []
    for place, text in enumerate(texts):
        if text in left:
            left.remove(text)
        else:
            places.append(place)
    return places
