"""Whose pages came by hand-over, and until when: what is fetched again should that gatherer's disk be lost.

A page is archived where it was fetched, and what it names is known there. When its row has moved on and that
disk is lost, nobody has the page any more, nor knows what it names. So whoever takes over a range remembers
from whom, and those from whom the sender had parts of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgpack


class Origin(NamedTuple):
    """Rows of a range [start, end) came from a gatherer, or through it, up to a Unix time."""

    gatherer: str
    start: str
    end: str | None
    at: float


class Origins:
    """All that is known of where ranges came from; immutable."""

    def __init__(self, known: Iterable[Origin] = ()) -> None:
        """Of one gatherer, ranges that overlap become one, as old as the latest."""
        self._known: list[Origin] = []
        for each in sorted(known, key=lambda each: (each.gatherer, each.start)):
            last = self._known[-1] if self._known else None
            if last is not None and last.gatherer == each.gatherer and _ends_after(last.end, each.start):
                end = None if last.end is None or each.end is None else max(last.end, each.end)
                self._known[-1] = last._replace(end=end, at=max(last.at, each.at))
            else:
                self._known.append(each)

    def __iter__(self) -> Iterator[Origin]:
        return iter(self._known)

    def within(self, start: str, end: str | None) -> list[Origin]:
        """What is known of a range."""
        return [
            each._replace(start=max(start, each.start), end=_earlier(end, each.end))
            for each in self._known
            if _ends_after(each.end, start) and _ends_after(end, each.start)
        ]

    def to_bytes(self) -> bytes:
        """As it is kept on disk."""
        packed: bytes = msgpack.packb(self._known)
        return packed

    @classmethod
    def from_bytes(cls, data: bytes) -> Origins:
        """What `to_bytes` gave."""
        return cls(Origin(*each) for each in msgpack.unpackb(data))


def _ends_after(end: str | None, key: str) -> bool:
    return end is None or end > key


def _earlier(one: str | None, other: str | None) -> str | None:
    return other if one is None else one if other is None else min(one, other)
