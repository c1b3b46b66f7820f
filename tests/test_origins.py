"""Whose pages came with ranges: overlapping ranges become one, and any part can be asked for."""

from __future__ import annotations

from gcs.core.origins import Origin, Origins

KNOWN = Origins(
    [
        Origin("A", "b", "d", 1.0),
        Origin("A", "c", "f", 2.0),
        Origin("A", "f", "g", 3.0),
        Origin("B", "a", None, 4.0),
        Origin("B", "x", "y", 5.0),
    ]
)


def test_ranges_that_overlap_are_one() -> None:
    """It is as old as the latest; ranges that only touch stay apart."""
    assert list(KNOWN) == [
        Origin("A", "b", "f", 2.0),
        Origin("A", "f", "g", 3.0),
        Origin("B", "a", None, 5.0),
    ]


def test_parts_of_ranges() -> None:
    assert KNOWN.within("c", "e") == [Origin("A", "c", "e", 2.0), Origin("B", "c", "e", 5.0)]
    assert KNOWN.within("g", None) == [Origin("B", "g", None, 5.0)]
    assert KNOWN.within("", "a") == []


def test_bytes() -> None:
    assert list(Origins.from_bytes(KNOWN.to_bytes())) == list(KNOWN)
    assert not any(Origins())
