"""The process that fills an index: `python -m gcs.index.worker STORE`.

It is told rows of the store's journal, or to read the next of the store's files by itself, and says each time
what has come into the index. Each answer is after a commit, so who asks can rely on it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from gcs import child
from gcs.core.words import Words
from gcs.index import DIRECTORY
from gcs.index.engine import Writer, evenly
from gcs.index.entries import Entry
from gcs.index.following import Following, keys
from gcs.index.records import Forgotten, Position


class Filling(Following):
    """An index, and the store whose summaries it has."""

    def __init__(self, store: Path) -> None:
        super().__init__(store)
        self._writer = Writer(store / DIRECTORY, Words())

    def at(self) -> Position:
        """What has come into the index."""
        return self._writer.position

    def take(self, entries: Iterable[Entry], position: Position) -> None:
        """Let pages into the index."""
        self._writer.add(entries, position)

    def at_once(self, rows: int) -> int:
        """As many as leave the index in one piece when all are taken in."""
        return evenly(rows)

    def forget(self, forgotten: Sequence[tuple[str, str | None, int]]) -> None:
        """Remove pages from the index, for good."""
        self._writer.forget([Forgotten(*each) for each in forgotten], keys(self._store))

    def close(self) -> None:
        """Wait until what was written is in its place."""
        self._writer.close()

    def answer(self, kind: str, *arguments: Any) -> Position:
        """Do what is asked for, and say what has come into the index."""
        asked: dict[str, Callable[..., object]] = {
            "at": self.at,
            "forget": self.forget,
            "rows": self.rows,
            "files": self.files,
        }
        asked[kind](*arguments)
        return self.at()


def main() -> None:
    """Fill the index of a store, as long as somebody asks for it."""
    child.serve(Filling(Path(sys.argv[1])).answer)


if __name__ == "__main__":
    main()
