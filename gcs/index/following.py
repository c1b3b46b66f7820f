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
from gcs.store import parquet
from gcs.store.records import SUMMARIES
from gcs.store.segments import covered, files
from gcs.store.view import View

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
    left: int
    """Rows that have not been taken in yet."""
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
        """Take in some of the next files; where there is none, go on with a number of the journal."""
        at = self.at()
        paths = files(self._store, SUMMARIES)
        reading = self._next(at, paths)
        if reading is None:
            self.take((), Position(until, at.rows))
            return
        wanted = self.at_once(sum(map(self._count, paths)))
        some: list[Entry] = []
        # Rows that are only counted have a step of their own: those that are taken in follow each other.
        while reading is not None and len(some) < wanted and not (some and reading.left_out):
            more = list(islice(reading.entries, wanted - len(some)))
            some += more
            reading.left -= len(more)
            rows = at.rows + len(more) + reading.left_out
            reading.at = at = Position(at.entry if reading.left else reading.tail, rows)
            if reading.left_out:
                break
            if not reading.left:
                reading = self._next(at, paths)
        self.take(some, at)

    def at_once(self, rows: int) -> int:
        """How many rows are taken in in one step, where files have so many in all."""
        del rows
        return _AT_ONCE

    def _next(self, at: Position, paths: Sequence[Path]) -> _Reading | None:
        """The file that is being taken in, or the next; None if there is none any more."""
        if self._reading is None or not self._reading.left or self._reading.at != at:
            self._reading = self._opened(at, paths)
        return self._reading

    def _opened(self, at: Position, paths: Sequence[Path]) -> _Reading | None:
        """The file that has what is next, without what was taken in of it."""
        before = 0
        for path in paths:
            entries, count = covered(path), self._count(path)
            if entries.tail > at.entry:
                done = min(count, max(0, at.rows - before))
                if self.is_wanted(path):
                    return _Reading(islice(filed(path), done, None), at, entries.tail, count - done)
                return _Reading(iter(()), at, entries.tail, 0, count - done)
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


def keys(store: Path) -> Iterator[str]:
    """The keys of all pages of which a store has summaries, once for each visit that found something new."""
    # What becomes a file while the journal is read is in one when those are listed.
    with View(store) as view:
        for number, _ in view.waiting(SUMMARIES):
            for entry in unpacked(view.packed(SUMMARIES, number) or b""):
                if not entry.unchanged:
                    yield entry.key
    for path in files(store, SUMMARIES):
        for rows in parquet.read(path, ("key", "unchanged"), _AT_ONCE):
            yield from (key for key, unchanged in rows if not unchanged)


def newest_us(path: Path) -> int:
    """When the newest page of a file was fetched, in microseconds of Unix time, by its footer alone."""
    metadata = pq.read_metadata(path)
    column = metadata.schema.names.index("fetched_at") if metadata.num_row_groups else 0
    newest = [metadata.row_group(n).column(column).statistics for n in range(metadata.num_row_groups)]
    return max((round(each.max.timestamp() * 1e6) for each in newest), default=0)
