"""Parquet files of rows that were packed by `gcs.store.columns`.

Apart from what is packed and kept: only who writes a file needs Arrow and NumPy, and to load them takes as
long as to fetch a hundred pages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import mul
from pathlib import Path
from typing import Any, Final

import msgpack
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from gcs.native import compiled, is_compiled
from gcs.store.records import LINKS, SUMMARIES
from gcs.summary.schema import SCHEMA

_GROUP_BYTES: Final = 4 << 20
"""So much of packed rows becomes one row group."""
_FINE_GROUP_BYTES: Final = 256 << 10
"""So much where single rows are wanted: to read one takes 0.9 ms instead of 9, to write it 7 µs more."""
_DICTIONARY_BYTES: Final = 16 << 20
"""A column's dictionary may grow to this; then all URLs of a segment are in it once, and rows are ids."""


def write(
    path: Path,
    kind: str,
    entries: Iterable[bytes],
    schemas: Mapping[str, pa.Schema] | None = None,
    *,
    finely: bool = False,
) -> None:
    """Write a file of all rows of one kind that are packed in some entries, in order.

    Entries are taken some megabytes at a time, each time as a row group: no more of them is in memory. With
    `finely` the groups are small, so that single rows are read fast.
    """
    # What is freed is given back to the system; Arrow's own pool would keep a part of it.
    pa.set_memory_pool(pa.system_memory_pool())
    schema = (SCHEMA if schemas is None else schemas)[kind]
    with pq.ParquetWriter(
        path,
        schema,
        compression="zstd",
        compression_level=1,
        dictionary_pagesize_limit=_DICTIONARY_BYTES,
        # The least and the greatest URL of a segment tell nothing, and cost a fifth of writing it.
        write_statistics=kind != LINKS,
    ) as writer:
        enough = _FINE_GROUP_BYTES if finely else _GROUP_BYTES
        for group in _groups(entries, partial(_UNPACK[kind], schema=schema), enough):
            writer.write_table(pa.Table.from_batches(group, schema))


def read(path: Path, columns: Sequence[str], count: int) -> Iterator[list[tuple[Any, ...]]]:
    """Some columns of a file, so many rows at a time; times in microseconds of Unix time."""
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(count, columns=list(columns)):
            yield rows_of(batch, columns)


def rows_of(batch: pa.RecordBatch | pa.Table, columns: Sequence[str]) -> list[tuple[Any, ...]]:
    """Some columns of rows, in the given order; times in microseconds of Unix time."""
    values = [batch.column(name) for name in columns]
    numbers = [each.cast(pa.int64()) if pa.types.is_timestamp(each.type) else each for each in values]
    return list(zip(*[each.to_pylist() for each in numbers], strict=True))


def _groups(
    entries: Iterable[bytes], unpack: Callable[[bytes], pa.RecordBatch], enough: int
) -> Iterator[list[pa.RecordBatch]]:
    """The rows of some entries, so many at a time as become a row group."""
    group, size = [], 0
    for packed in entries:
        group.append(unpack(packed))
        size += len(packed)
        if size >= enough:
            yield group
            group, size = [], 0
    if group:
        yield group


def batch_of_rows(packed: bytes, schema: pa.Schema) -> pa.RecordBatch:
    """The rows that `pack_row` packed, and that were put together, in order."""
    columns = zip(*_unpacked(packed, raw=False), strict=True)
    arrays = [pa.array(column, each.type) for column, each in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def batch_of_columns(packed: bytes, schema: pa.Schema) -> pa.RecordBatch:
    """The rows that `pack_columns` packed, and that were put together, in order."""
    rows, texts = zip(*_unpacked(packed, raw=True), strict=True)
    columns = zip(zip(*texts, strict=True), schema, strict=True)
    arrays = [_READ.get(each.type, _column)(column, rows) for column, each in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _unpacked(packed: bytes, *, raw: bool) -> Iterator[Any]:
    unpacker = msgpack.Unpacker(use_list=False, raw=raw, max_buffer_size=len(packed))
    unpacker.feed(packed)
    yield from unpacker


def _column(joined: Sequence[bytes], rows: Sequence[int]) -> pa.StringArray:
    """All texts of some pages that have so many rows each."""
    spread = compiled.spread_texts(tuple(joined), tuple(rows)) if is_compiled else None
    if spread is None:
        return column_expressed(joined, rows)
    count, offsets, data = spread
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(data))


def column_expressed(joined: Sequence[bytes], rows: Sequence[int]) -> pa.StringArray:
    """The same, in Python."""
    if any(b"\0" in each for each in joined):
        return _split(list(map(_repeated, joined, rows)))
    # One for all rows of each page, as usual: nothing has to be looked for.
    lengths = np.repeat(np.fromiter(map(len, joined), np.int32, len(joined)), rows)
    data = b"".join(map(mul, joined, rows))
    return _texts(np.cumsum(lengths, dtype=np.int32), data)


def _flags(joined: Sequence[bytes], rows: Sequence[int]) -> pa.BooleanArray:
    """Whether there is any text, for each row."""
    texts = _column(joined, rows)
    offsets = np.frombuffer(texts.buffers()[1], np.int32, len(texts) + 1)
    return pa.array(np.diff(offsets) > 0)


def _numbers(joined: Sequence[bytes], rows: Sequence[int]) -> pa.Int64Array:
    """The number of each row."""
    if any(b"\0" in each for each in joined):
        return pa.array(np.array(b"\0".join(map(_repeated, joined, rows)).split(b"\0"), np.int64))
    # One for all rows of each page, as usual.
    return pa.array(np.repeat(np.array(joined, np.int64), rows))


def _repeated(joined: bytes, rows: int) -> bytes:
    """The joined texts of a page, also if one was packed for all."""
    return joined if rows == 1 or b"\0" in joined else b"\0".join([joined] * rows)


def _split(joined: Sequence[bytes]) -> pa.StringArray:
    """All texts of some pages; pyarrow's own function for it brings 13 MB of others into memory."""
    data = np.frombuffer(b"\0".join(joined) + b"\0", np.uint8)
    is_text = data != 0
    ends = np.flatnonzero(~is_text)
    return _texts(ends - np.arange(len(ends)), data[is_text])


def _texts(ends: NDArray[np.integer[Any]], data: bytes | NDArray[np.uint8]) -> pa.StringArray:
    """Texts by where each ends in all of them."""
    offsets = np.zeros(len(ends) + 1, np.int32)
    offsets[1:] = ends
    return pa.StringArray.from_buffers(len(ends), pa.py_buffer(offsets), pa.py_buffer(data))


_READ: Final = {pa.int64(): _numbers, pa.bool_(): _flags}
"""Columns of other things than texts."""
_UNPACK: Final = {SUMMARIES: batch_of_rows, LINKS: batch_of_columns}
