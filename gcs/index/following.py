"""Who follows the summaries of a store from the first to the newest, from its files and from its journal."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq

from gcs.index.entries import Entry, filed, unpacked
from gcs.index.records import Position
from gcs.store.records import SUMMARIES
from gcs.store.segments import covered, files

_AT_ONCE: Final = 5_000
"""Rows of a file in one step."""


@dataclass(slots=True)
class _Reading:
    """A file that is being taken in."""

    entries: Iterator[Entry]
    at: Position
    """What has to be taken in for the next entry to be right."""
    tail: int
    """The number of the journal entry after it."""
    left_out: int = 0
    """Rows that are only counted."""


class Following(ABC):
    """Takes in all summaries once, in their order; where it has come to is kept by whoever implements it."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self._reading: _Reading | None = None
        self._rows: dict[Path, int] = {}
        """How many each file has; files never change."""

    @abstractmethod
    def at(self) -> Position:
        """What has been taken in."""

    @abstractmethod
    def take(self, entries: Iterable[Entry], position: Position) -> None:
        """Take in the rows from where it is on, and be at a position then."""

    def rows(self, first: int, packed: Sequence[tuple[int, bytes]]) -> None:
        """Take in journal entries, the first of which has a number; nothing if it is not the next."""
        at = self.at()
        if first == at.entry:
            entries = (entry for _, rows in packed for entry in unpacked(rows))
            count = sum(rows for rows, _ in packed)
            self.take(entries, Position(first + len(packed), at.rows + count))

    def files(self, until: int) -> None:
        """Take in some of the next file; where there is none, go on with a number of the journal."""
        at = self.at()
        if self._reading is None or self._reading.at != at:
            self._reading = self._opened(at)
        reading = self._reading
        if reading is None:
            self.take((), Position(until, at.rows))
            return
        some = list(islice(reading.entries, _AT_ONCE))
        is_over = len(some) < _AT_ONCE
        rows = at.rows + len(some) + reading.left_out
        reading.at = Position(reading.tail if is_over else at.entry, rows)
        self.take(some, reading.at)
        if is_over:
            self._reading = None

    def _opened(self, at: Position) -> _Reading | None:
        """The file that has what is next, without what was taken in of it."""
        before = 0
        for path in files(self._store, SUMMARIES):
            entries, count = covered(path), self._count(path)
            if entries.tail > at.entry:
                done = max(0, at.rows - before)
                if self.is_wanted(path):
                    return _Reading(islice(filed(path), done, None), at, entries.tail)
                return _Reading(iter(()), at, entries.tail, count - done)
            before += count
        return None

    def _count(self, path: Path) -> int:
        if path not in self._rows:
            self._rows[path] = pq.read_metadata(path).num_rows
        return self._rows[path]

    def is_wanted(self, path: Path) -> bool:
        """Whether anything in a file is to be taken in; if not, its rows are only counted."""
        del path
        return True


def newest_us(path: Path) -> int:
    """When the newest page of a file was fetched, in microseconds of Unix time, by its footer alone."""
    metadata = pq.read_metadata(path)
    column = metadata.schema.names.index("fetched_at") if metadata.num_row_groups else 0
    newest = [metadata.row_group(n).column(column).statistics for n in range(metadata.num_row_groups)]
    return max((round(each.max.timestamp() * 1e6) for each in newest), default=0)
