"""Parquet segments: rows that were journalled with their batches become files.

A Parquet file has no footer before it is closed, so rows cannot be appended to one. They are journalled
with the batch instead, and when there are enough of them, a run of journal entries becomes a file: written
aside, synced, renamed, and only then are the entries deleted. The file is named after the run, so that a
start after a crash in between sees which entries are in files already. A reader sees only whole files, and
every row in exactly one of them.

The segments know nothing of what the columns mean; a schema says what they are.
"""

import os
import re
import struct
import threading
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgpack
import pyarrow as pa
import pyarrow.parquet as pq

from gcs.store.database import JOURNAL, Database, Writes
from gcs.store.directory import sync_directory
from gcs.store.errors import translated
from gcs.store.records import Finished
from gcs.store.status import Range

SUMMARIES: Final = "summaries"
LINKS: Final = "links"

_NAME = re.compile(r"part-(\d{12})-(\d{12})\.parquet")
_ASIDE = ".new"
_COUNT = struct.Struct(">I")
_NUMBER = struct.Struct(">Q")
_ENTRIES_AT_ONCE = 64
_DICTIONARY_BYTES = 16 << 20
"""A column's dictionary may grow to this; then all URLs of a segment are in it once, and rows are ids."""


@dataclass(slots=True)
class _Kind:
    """One kind of rows: summaries, or links."""

    name: str
    schema: pa.Schema
    directory: Path
    waiting: deque[tuple[int, int]] = field(default_factory=deque)
    """Journal entries that are in no segment: number and rows."""
    rows: int = 0
    tail: int = 0
    written: int = 0

    @property
    def range(self) -> Range:
        return Range(self.waiting[0][0] if self.waiting else self.tail, self.tail)


class Segments:
    """The journals of a store's rows and the files that they become.

    Commits add to it and one thread writes segments, at the same time if need be.
    """

    def __init__(
        self, directory: Path, database: Database, schemas: Mapping[str, pa.Schema], rows_per_segment: int
    ) -> None:
        """Files go into a directory for each kind below the given one."""
        self._directory = directory
        self._database = database
        self._enough = rows_per_segment
        self._kinds = {name: _Kind(name, schema, directory / name) for name, schema in schemas.items()}
        self._changing = threading.Lock()

    def restore(self, journal: Mapping[str, Range]) -> None:
        """Find out what of the recorded journals is in files already, and count the rest."""
        for kind in self._kinds.values():
            recorded = journal.get(kind.name, Range())
            kind.directory.mkdir(exist_ok=True)
            kind.tail = recorded.tail
            head = max(recorded.head, _clean(kind.directory))
            for number in range(head, recorded.tail):
                packed = self._database.get(JOURNAL, _key(kind.name, number))
                if packed is not None:
                    kind.waiting.append((number, _COUNT.unpack_from(packed)[0]))
            kind.rows = sum(rows for _, rows in kind.waiting)

    def journal(self, finished: Sequence[Finished], writes: Writes) -> dict[str, int]:
        """Write the rows of a batch into it; how many there are of each kind."""
        counts = {}
        summaries = [each.summary for each in finished if each.summary is not None]
        if summaries:
            names = self._kinds[SUMMARIES].schema.names
            rows = [[row.get(name) for name in names] for row in summaries]
            counts[SUMMARIES] = self._put(SUMMARIES, len(rows), rows, writes)
        links = [each.links for each in finished if each.links]
        if links:
            counts[LINKS] = self._put(LINKS, sum(map(_length, links)), links, writes)
        return counts

    def _put(self, kind: str, count: int, rows: Sequence[Sequence[Any]], writes: Writes) -> int:
        key = _key(kind, self._kinds[kind].tail)
        writes.put(key, _COUNT.pack(count) + _pack(rows), writes.tables[JOURNAL])
        return count

    def ranges(self, added: Mapping[str, int]) -> dict[str, Range]:
        """The journals as they are once the entries of a batch are added."""
        with self._changing:
            ranges = {name: kind.range for name, kind in self._kinds.items()}
        return {
            name: Range(each.head, each.tail + 1) if name in added else each for name, each in ranges.items()
        }

    def added(self, counts: Mapping[str, int]) -> None:
        """Note that the entries of a batch are on disk."""
        with self._changing:
            for name, count in counts.items():
                kind = self._kinds[name]
                kind.waiting.append((kind.tail, count))
                kind.tail += 1
                kind.rows += count

    @property
    def backlog(self) -> float:
        """How many segments the longest journal would make."""
        return max((kind.rows / self._enough for kind in self._kinds.values()), default=0.0)

    def journalled(self) -> dict[str, int]:
        """Rows that are in no segment, by kind."""
        return {name: kind.rows for name, kind in self._kinds.items()}

    def written(self) -> dict[str, int]:
        """Segments written, by kind."""
        return {name: kind.written for name, kind in self._kinds.items()}

    def write_one(self, *, everything: bool) -> tuple[str, Path, Range] | None:
        """Write a segment of a kind that has enough rows, or any with `everything`; None if none has.

        The entries of the range may be deleted then. Raises DiskFull, and nothing has changed.
        """
        for kind in self._kinds.values():
            run = self._run(kind, everything=everything)
            if run:
                path = self._write(kind, run)
                with self._changing:
                    for _, rows in run:
                        kind.waiting.popleft()
                        kind.rows -= rows
                    kind.written += 1
                return kind.name, path, Range(run[0][0], run[-1][0] + 1)
        return None

    def _run(self, kind: _Kind, *, everything: bool) -> list[tuple[int, int]]:
        """The entries of the next segment."""
        run = []
        rows = 0
        with self._changing:
            for entry in kind.waiting:
                run.append(entry)
                rows += entry[1]
                if rows >= self._enough:
                    return run
        return run if everything else []

    def _write(self, kind: _Kind, run: Sequence[tuple[int, int]]) -> Path:
        name = f"part-{run[0][0]:012}-{run[-1][0]:012}.parquet"
        path, aside = kind.directory / name, kind.directory / f".{name}{_ASIDE}"
        table = pa.Table.from_batches(self._batches(kind, [number for number, _ in run]), kind.schema)
        with translated(self._directory):
            try:
                pq.write_table(
                    table,
                    aside,
                    compression="zstd",
                    compression_level=1,
                    dictionary_pagesize_limit=_DICTIONARY_BYTES,
                )
                _sync(aside)
                aside.rename(path)
                sync_directory(kind.directory)
            except OSError:
                aside.unlink(missing_ok=True)
                raise
        return path

    def _batches(self, kind: _Kind, numbers: Sequence[int]) -> Iterable[pa.RecordBatch]:
        for at in range(0, len(numbers), _ENTRIES_AT_ONCE):
            keys = [_key(kind.name, number) for number in numbers[at : at + _ENTRIES_AT_ONCE]]
            for packed in self._database.get_many(JOURNAL, keys):
                assert packed is not None
                rows = msgpack.unpackb(packed[_COUNT.size :], use_list=kind.name == LINKS, timestamp=3)
                arrays = _of_pages if kind.name == LINKS else _of_rows
                yield pa.RecordBatch.from_arrays(arrays(rows, kind.schema), schema=kind.schema)


def forget(kind: str, entries: Range, writes: Writes) -> None:
    """Delete journal entries that are in segments."""
    writes.batch.delete_range(_key(kind, entries.head), _key(kind, entries.tail), writes.tables[JOURNAL])


def _key(kind: str, number: int) -> bytes:
    return kind.encode() + b"\0" + _NUMBER.pack(number)


def _pack(rows: Sequence[Sequence[Any]]) -> bytes:
    try:
        packed: bytes = msgpack.packb(rows, datetime=True)
    except UnicodeEncodeError:
        # Half of a surrogate pair has no place in UTF-8; looking for one beforehand would cost more.
        packed = msgpack.packb(rows, datetime=True, unicode_errors="replace")
    return packed


def _length(columns: Sequence[Any]) -> int:
    """How many rows a page's columns have: as many as a list among them, or one."""
    return next((len(each) for each in columns if isinstance(each, list)), 1)


def _of_rows(rows: Sequence[Sequence[Any]], schema: pa.Schema) -> list[pa.Array]:
    """The columns of rows."""
    return [pa.array(values, each.type) for values, each in zip(zip(*rows, strict=True), schema, strict=True)]


def _of_pages(pages: Sequence[Sequence[Any]], schema: pa.Schema) -> list[pa.Array]:
    """The columns of all pages' links, one page after the other."""
    joined: list[list[Any]] = [[] for _ in schema]
    for page in pages:
        length = _length(page)
        for column, values in zip(joined, page, strict=True):
            column.extend(values if isinstance(values, list) else [values] * length)
    return [pa.array(values, each.type) for values, each in zip(joined, schema, strict=True)]


def _clean(directory: Path) -> int:
    """Remove what was left half written; the number after the last journal entry that is in a file."""
    after = 0
    for path in directory.iterdir():
        if path.name.endswith(_ASIDE):
            path.unlink()
        elif found := _NAME.fullmatch(path.name):
            after = max(after, int(found[2]) + 1)
    return after


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
