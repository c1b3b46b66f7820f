"""What an index says of itself and of what is found in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Position(NamedTuple):
    """What has come into the index: all journal entries before a number, and how many rows they had."""

    entry: int = 0
    rows: int = 0


class Hit(NamedTuple):
    """A page that was found."""

    score: float
    row: int
    """Its number among all rows of its store."""
    fetched_us: int


class Found(NamedTuple):
    """What was found."""

    total: int
    hits: Sequence[Hit]


class Forgotten(NamedTuple):
    """Pages of a range of keys that were fetched before a time, and are not to be found."""

    start: str
    end: str | None
    before_us: int

    def is_of(self, key: str) -> bool:
        """Whether a page is in the range."""
        return self.start <= key and (self.end is None or key < self.end)

    def covers(self, key: str, fetched_us: int) -> bool:
        """Whether a page is one of them."""
        return fetched_us < self.before_us and self.is_of(key)


class NoIndex(LookupError):
    """There is no index, or none that this version can read."""
