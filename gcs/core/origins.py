"""Whose pages came by hand-over, and until when: what is fetched again should that gatherer's disk be lost.

A page is archived where it was fetched, and what it names is known there. When its row has moved on and that
disk is lost, nobody has the page any more, nor knows what it names. So whoever takes over a range remembers
from whom, and those from whom the sender had parts of it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import chain
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
        self._known: dict[str, list[Origin]] = {}
        """By gatherer: ranges that do not overlap, in order."""
        for each in sorted(known, key=lambda each: (each.gatherer, each.start)):
            ranges = self._known.setdefault(each.gatherer, [])
            if ranges and _ends_after(ranges[-1].end, each.start):
                last = ranges[-1]
                end = None if last.end is None or each.end is None else max(last.end, each.end)
                ranges[-1] = last._replace(end=end, at=max(last.at, each.at))
            else:
                ranges.append(each)

    def __iter__(self) -> Iterator[Origin]:
        return chain.from_iterable(self._known.values())

    def within(self, start: str, end: str | None) -> list[Origin]:
        """What is known of a range."""
        return [
            each._replace(start=max(start, each.start), end=_earlier(end, each.end))
            for ranges in self._known.values()
            for each in _overlapping(ranges, start, end)
        ]

    def cover(self, gatherer: str, first: str, last: str) -> bool:
        """Whether all from one key to another came from a gatherer."""
        ranges = self._known.get(gatherer, ())
        at = bisect_right(ranges, first, key=lambda each: each.start) - 1
        return at >= 0 and _ends_after(ranges[at].end, last)

    def to_bytes(self) -> bytes:
        """As it is kept on disk."""
        packed: bytes = msgpack.packb(list(self))
        return packed

    @classmethod
    def from_bytes(cls, data: bytes) -> Origins:
        """What `to_bytes` gave."""
        return cls(Origin(*each) for each in msgpack.unpackb(data))


def _overlapping(ranges: list[Origin], start: str, end: str | None) -> Iterator[Origin]:
    """Those of some ranges, in order and apart from each other, that have a part in another."""
    at = max(0, bisect_right(ranges, start, key=lambda each: each.start) - 1)
    while at < len(ranges) and _ends_after(end, ranges[at].start):
        if _ends_after(ranges[at].end, start):
            yield ranges[at]
        at += 1


def _ends_after(end: str | None, key: str) -> bool:
    return end is None or end > key


def _earlier(one: str | None, other: str | None) -> str | None:
    return other if one is None else one if other is None else min(one, other)
