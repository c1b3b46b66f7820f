"""The summaries of a store by their numbers: from its files, and from the journal what is in no file yet."""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Sequence
from itertools import accumulate, islice
from pathlib import Path
from typing import Final, NamedTuple, Protocol

import pyarrow.parquet as pq

from gcs.index.entries import SHOWN, Shown, shown, unpacked
from gcs.store.parquet import rows_of
from gcs.store.records import SUMMARIES
from gcs.store.segments import covered, files

_MOST_OPEN: Final = 64
_TRIES: Final = 3
"""While one looks, a part of the journal may become a file."""


class Journal(Protocol):
    """What is in no file yet: a `Store` has it for its own process, a `View` for others."""

    def waiting(self, kind: str) -> list[tuple[int, int]]:
        """Numbers of journal entries and their rows, in order."""

    def packed(self, kind: str, number: int) -> bytes | None:
        """The packed rows of such an entry; None if it is in a file by now."""


class _File(NamedTuple):
    """A file, and the number of the row after each of its groups."""

    file: pq.ParquetFile
    ends: Sequence[int]

    def read(self, rows: Sequence[int]) -> list[Shown]:
        """Some rows, which are given in order; only their groups are read."""
        by_group: defaultdict[int, list[int]] = defaultdict(list)
        for row in rows:
            by_group[bisect_right(self.ends, row)].append(row)
        found: list[Shown] = []
        for group, inside in by_group.items():
            before = self.ends[group - 1] if group else 0
            table = self.file.read_row_group(group, columns=list(SHOWN), use_threads=False)
            found += [Shown(*row) for row in rows_of(table.take([row - before for row in inside]), SHOWN)]
        return found


class Texts:
    """Reads summaries; some files stay open, since they never change."""

    def __init__(self, directory: Path) -> None:
        """Of the store in a directory."""
        self._directory = directory
        self._rows: dict[Path, int] = {}
        self._open: OrderedDict[Path, _File] = OrderedDict()

    def read(self, numbers: Iterable[int], journal: Journal) -> dict[int, Shown]:
        """The summaries with some numbers, as far as they are there."""
        wanted = sorted(set(numbers))
        found: dict[int, Shown] = {}
        for _ in range(_TRIES):
            paths = files(self._directory, SUMMARIES)
            ends = list(accumulate(map(self._count, paths)))
            rows = ends[-1] if ends else 0
            late = self._journalled([each - rows for each in wanted if each >= rows], paths, journal)
            found = self._filed([each for each in wanted if each < rows], paths, ends)
            found |= {number + rows: entry for number, entry in (late or {}).items()}
            if late is not None:
                break
        return found

    def _count(self, path: Path) -> int:
        if path not in self._rows:
            self._rows[path] = pq.read_metadata(path).num_rows
        return self._rows[path]

    def _file(self, path: Path) -> _File:
        if path in self._open:
            self._open.move_to_end(path)
            return self._open[path]
        file = pq.ParquetFile(path)
        groups = range(file.num_row_groups)
        ends = list(accumulate(file.metadata.row_group(each).num_rows for each in groups))
        self._open[path] = _File(file, ends)
        if len(self._open) > _MOST_OPEN:
            self._open.popitem(last=False)[1].file.close()
        return self._open[path]

    def _filed(self, wanted: Sequence[int], paths: Sequence[Path], ends: Sequence[int]) -> dict[int, Shown]:
        found: dict[int, Shown] = {}
        by_file: defaultdict[int, list[int]] = defaultdict(list)
        for number in wanted:
            by_file[bisect_right(ends, number)].append(number)
        for at, numbers in by_file.items():
            before = ends[at - 1] if at else 0
            rows = self._file(paths[at]).read([number - before for number in numbers])
            found |= dict(zip(numbers, rows, strict=True))
        return found

    def _journalled(
        self, wanted: Sequence[int], paths: Sequence[Path], journal: Journal
    ) -> dict[int, Shown] | None:
        """The same of what is in no file, counted from there; None if some of it has become one meanwhile."""
        found: dict[int, Shown] = {}
        if not wanted:
            return found
        first = covered(paths[-1]).tail if paths else 0
        waiting = [(number, rows) for number, rows in journal.waiting(SUMMARIES) if number >= first]
        if not waiting or waiting[0][0] != first:
            return None
        before = 0
        for number, rows in waiting:
            inside = [each - before for each in wanted if before <= each < before + rows]
            if inside:
                packed = journal.packed(SUMMARIES, number)
                if packed is None:
                    return None
                entries = list(islice(unpacked(packed), max(inside) + 1))
                found |= {before + each: shown(entries[each]) for each in inside}
            before += rows
        return found
