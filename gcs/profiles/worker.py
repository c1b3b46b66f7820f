"""The process that matches profiles: `python -m gcs.profiles.worker STORE`.

It follows the summaries of a store from where it is told to, and says which pages which profiles match.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from gcs import child
from gcs.core.profiles import Profiles
from gcs.core.query import parse
from gcs.core.words import Words
from gcs.index.entries import Entry
from gcs.index.following import Following, newest_us
from gcs.index.records import Position

_SHOWN: Final = 500
_APART_S: Final = 60.0
"""So far apart clocks of operators and gatherers may be."""
Found = list[tuple[int, list[str], tuple[Any, ...]]]
"""Numbers of pages, the names of the profiles that match each, and what is told of it."""


class Matching(Following):
    """Profiles, and how far they were matched."""

    def __init__(self, store: Path) -> None:
        super().__init__(store)
        self._words = Words()
        self._key = os.urandom(16)
        self._profiles = Profiles({}, self._words, key=self._key)
        self._since_us: dict[str, int] = {}
        self._at = Position()
        self._found: Found = []

    def at(self) -> Position:
        """What was looked at."""
        return self._at

    def begin(self, entry: int, rows: int) -> None:
        """Go on at a journal entry, before which there were so many rows."""
        self._at = Position(entry, rows)

    def profiles(self, queries: Sequence[tuple[str, str, float]]) -> None:
        """Match these from now on, each against pages that were fetched after it was added."""
        parsed = {name: parse(text) for name, text, _ in queries}
        self._profiles = Profiles(parsed, self._words, key=self._key)
        self._since_us = {name: round((added - _APART_S) * 1e6) for name, _, added in queries}
        # Thousands of queries need not be looked through for cycles again and again.
        gc.collect()
        gc.freeze()

    def is_wanted(self, path: Path) -> bool:
        """Whether a file has pages that any profile is for."""
        oldest_us = min(self._since_us.values(), default=0)
        return newest_us(path) >= oldest_us

    def take(self, entries: Iterable[Entry], position: Position) -> None:
        """Look at pages that are new, or have changed."""
        for number, entry in enumerate(entries, self._at.rows):
            if entry.is_there and not entry.unchanged:
                names = self._profiles.matches(entry.paper(self._words))
                names = [name for name in names if self._since_us[name] <= entry.fetched_us]
                if names:
                    self._found.append((number, names, _told(entry)))
        self._at = position

    def answer(self, kind: str, *arguments: Any) -> tuple[Position, Found]:
        """Do what is asked for, and say how far it has come and what was found."""
        asked: dict[str, Callable[..., object]] = {
            "begin": self.begin,
            "profiles": self.profiles,
            "rows": self.rows,
            "files": self.files,
        }
        asked[kind](*arguments)
        found, self._found = self._found, []
        return self._at, found


def _told(entry: Entry) -> tuple[Any, ...]:
    text = (entry.excerpt or entry.description)[:_SHOWN]
    return entry.url, entry.title, text, entry.language, entry.media_type, entry.fetched_us


def main() -> None:
    """Match profiles, as long as somebody asks for it."""
    child.serve(Matching(Path(sys.argv[1])).answer)


if __name__ == "__main__":
    main()
