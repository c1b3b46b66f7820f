"""What of a text is shown for a query: a piece of it around the words looked for, and where those are."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

from gcs.core.query import EXACT, Query
from gcs.core.words import Span, Words

ABOUT: Final = 240
"""Characters of a piece."""


class Snippet(NamedTuple):
    """A piece of a text, and the ranges of it that were looked for."""

    text: str
    marks: tuple[tuple[int, int], ...] = ()


def wanted(query: Query) -> frozenset[str]:
    """The words that a query looks for."""
    return frozenset(word for terms in query.leaves() if terms.field not in EXACT for word in terms.words)


def snippet(
    words: Words, text: str, language: str, looked_for: Collection[str], *, about: int = ABOUT
) -> Snippet:
    """The piece of a text with the most of some words, cut between words."""
    stems = {words.stem(word, language) for word in looked_for}
    spans = words.spans(text, language)
    hits = [span for span in spans if span.term in stems]
    start = _start(hits, about)
    if start > 0:
        start = next((span.start for span in spans if span.start >= start), start)
    end = min(len(text), start + about)
    if end < len(text):
        end = max((span.end for span in spans if start < span.end <= end), default=end)
    inside = [
        (span.start - start, span.end - start) for span in hits if start <= span.start and span.end <= end
    ]
    return Snippet(text[start:end], _joined(inside))


def _start(hits: list[Span], about: int) -> int:
    """Where a piece begins that has the most distinct words, the first of those that are alike."""
    best, best_count = 0, 0
    for number, first in enumerate(hits):
        inside = {span.term for span in hits[number:] if span.end <= first.start + about}
        if len(inside) > best_count:
            best, best_count = first.start, len(inside)
    return max(0, best - about // 6) if best > about // 2 else 0


def _joined(ranges: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Ranges that overlap, as bigrams do, as one."""
    found: list[tuple[int, int]] = []
    for start, end in ranges:
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return tuple(found)
