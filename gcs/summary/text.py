"""Texts, cut to size."""

from __future__ import annotations


def fitted(text: str, limit: int) -> str:
    """A text with single spaces between its words, cut to a number of characters."""
    short = " ".join(text[: 4 * limit].split())
    if len(short) < limit and len(text) > 4 * limit:
        # The beginning is mostly white space.
        short = " ".join(text.split(None, limit)[:limit])
    return short[:limit].rstrip()
