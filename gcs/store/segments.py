"""Parquet segments: rows that were journalled with their batches become files.

A Parquet file has no footer before it is closed, so rows cannot be appended to one. They are journalled
with the batch instead, and when there are enough of them, a run of journal entries becomes a file: written
aside, synced, renamed, and only then are the entries deleted. The file is named after the run, so that a
start after a crash in between sees which entries are in files already. A reader sees only whole files, and
every row in exactly one of them.

How rows are packed is for `columns`, and what the files are like for `parquet`.
"""

from __future__ import annotations

import os
import re
import struct
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from gcs.store.database import JOURNAL, Database, Writes
from gcs.store.directory import sync_directory
from gcs.store.errors import translated
from gcs.store.records import LINKS, SUMMARIES, Finished, Packed
from gcs.store.status import Range

if TYPE_CHECKING:
    import pyarrow as pa

_NAME = re.compile(r"part-(\d{12})-(\d{12})\.parquet")
_ASIDE = ".new"
_COUNT = struct.Struct(">I")
_NUMBER = struct.Struct(">Q")


@dataclass(slots=True)
class _Kind:
    """One kind of rows: summaries, or links."""

    name: str
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
        self,
        directory: Path,
        database: Database,
        schemas: Mapping[str, pa.Schema] | None,
        rows_per_segment: int,
        *,
        finely: bool = False,
    ) -> None:
        """Files go into a directory for each kind below the given one; None stands for the usual schemas.

        With `finely`, single summaries can be read fast.
        """
        self._directory = directory
        self._database = database
        self._enough = rows_per_segment
        self._schemas = schemas
        self._finely = finely
        self._kinds = {name: _Kind(name, directory / name) for name in (SUMMARIES, LINKS)}
        self._changing = threading.Lock()

    def restore(self, journal: Mapping[str, Range]) -> None:
        """Find out what of the recorded journals is in files already, and count the rest."""
        for kind in self._kinds.values():
            recorded = journal.get(kind.name, Range())
            kind.directory.mkdir(exist_ok=True)
            kind.tail = recorded.tail
            head = max(recorded.head, _clean(kind.directory))
            for number in range(head, recorded.tail):
                rows = journal_rows(self._database, kind.name, number)
                if rows is not None:
                    kind.waiting.append((number, rows))
            kind.rows = sum(rows for _, rows in kind.waiting)

    def journal(self, finished: Sequence[Finished], writes: Writes) -> dict[str, int]:
        """Write the rows of a batch into it; how many there are of each kind."""
        given = {
            SUMMARIES: [each.summary for each in finished if each.summary.rows],
            LINKS: [each.links for each in finished if each.links.rows],
        }
        return {name: self._put(name, packed, writes) for name, packed in given.items() if packed}

    def _put(self, name: str, packed: Sequence[Packed], writes: Writes) -> int:
        count = sum([each.rows for each in packed])
        entry = b"".join([_COUNT.pack(count), *[each.data for each in packed]])
        writes.put(_key(name, self._kinds[name].tail), entry, writes.tables[JOURNAL])
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

    def waiting(self, name: str) -> list[tuple[int, int]]:
        """The journal entries of a kind that are in no segment: number and rows, in order."""
        with self._changing:
            return list(self._kinds[name].waiting)

    def range(self, name: str) -> Range:
        """The journal entries of a kind that are in no segment; the tail is the number of the next one."""
        with self._changing:
            return self._kinds[name].range

    def packed(self, name: str, number: int) -> bytes | None:
        """The packed rows of a journal entry; None if it is in a segment by now, or not there yet."""
        return journal_entry(self._database, name, number)

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
        with translated(self._directory):
            try:
                # Not before it is needed: many crawls keep no rows.
                from gcs.store import parquet

                finely = self._finely and kind.name == SUMMARIES
                parquet.write(aside, kind.name, self._entries(kind, run), self._schemas, finely=finely)
                _sync(aside)
                aside.rename(path)
                sync_directory(kind.directory)
            except BaseException:
                aside.unlink(missing_ok=True)
                raise
        return path

    def _entries(self, kind: _Kind, run: Sequence[tuple[int, int]]) -> Iterator[bytes]:
        """The packed rows of some entries, one after the other."""
        for number, _ in run:
            packed = self.packed(kind.name, number)
            assert packed is not None
            yield packed


def forget(kind: str, entries: Range, writes: Writes) -> None:
    """Delete journal entries that are in segments."""
    writes.delete_range(_key(kind, entries.head), _key(kind, entries.tail), writes.tables[JOURNAL])


def journal_entry(database: Database, kind: str, number: int) -> bytes | None:
    """The packed rows of a journal entry; None if there is none."""
    entry = database.get(JOURNAL, _key(kind, number))
    return None if entry is None else entry[_COUNT.size :]


def journal_rows(database: Database, kind: str, number: int) -> int | None:
    """How many rows a journal entry has; None if there is none."""
    entry = database.get(JOURNAL, _key(kind, number))
    return None if entry is None else int(_COUNT.unpack_from(entry)[0])


def covered(path: Path) -> Range:
    """The journal entries that are in a file, by its name."""
    found = _NAME.fullmatch(path.name)
    assert found is not None
    return Range(int(found[1]), int(found[2]) + 1)


def files(directory: Path, kind: str) -> list[Path]:
    """The segments of a kind in the directory of a store, in the order in which they were written."""
    return sorted(path for path in (directory / kind).glob("part-*.parquet") if _NAME.fullmatch(path.name))


def _key(kind: str, number: int) -> bytes:
    return kind.encode() + b"\0" + _NUMBER.pack(number)


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
