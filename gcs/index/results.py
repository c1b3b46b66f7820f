"""What searches find, and how the answers of several stores become one.

A page may be in the indexes of several gatherers, since ranges change hands and pages are visited again: the
newest counts, and what an older one says is not shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from gcs.core.query import BadQuery, Query, parse
from gcs.errors import UsageError
from gcs.operate.facts import ResultFacts
from gcs.summary.records import instant

MOST: Final = 1_000
"""So far down one can look."""


@dataclass(frozen=True, slots=True)
class Result:
    """A page that was found, with what is shown of it; marks are ranges of characters looked for."""

    url: str
    score: float
    title: str
    title_marks: Sequence[Sequence[int]]
    text: str
    text_marks: Sequence[Sequence[int]]
    language: str
    media_type: str
    fetched_us: int
    key: str

    def facts(self) -> ResultFacts:
        """For programs."""
        return {
            "url": self.url,
            "score": round(self.score, 3),
            "title": self.title,
            "title_marks": [list(each) for each in self.title_marks],
            "text": self.text,
            "text_marks": [list(each) for each in self.text_marks],
            "language": self.language,
            "media_type": self.media_type,
            "fetched_at": self.fetched_at,
        }

    @property
    def fetched_at(self) -> str:
        """When it was fetched, for people."""
        return instant(self.fetched_us / 1e6).isoformat(timespec="seconds")


@dataclass(frozen=True, slots=True)
class Results:
    """What was found in one store, or in several."""

    total: int = 0
    """How many pages there are; of several stores, with those that more than one has."""
    pages: int = 0
    """How many were looked through."""
    found: Sequence[Result] = field(default_factory=list)


def understood(text: str) -> Query:
    """The query that somebody has typed; raises UsageError."""
    try:
        return parse(text)
    except BadQuery as error:
        raise UsageError(f"This cannot be searched for: {error}.") from None


def merged(answers: Iterable[Results]) -> Results:
    """The answers of several stores as one, each page once: as it was fetched last."""
    newest: dict[str, Result] = {}
    total = pages = 0
    for answer in answers:
        total, pages = total + answer.total, pages + answer.pages
        for result in answer.found:
            if result.key not in newest or newest[result.key].fetched_us < result.fetched_us:
                newest[result.key] = result
    return Results(total, pages, sorted(newest.values(), key=lambda each: (-each.score, each.url)))


def without_stale(results: Results, newest: Mapping[str, int]) -> Results:
    """The same without pages that were fetched anew since; `newest` says when, by key."""
    fresh = [each for each in results.found if newest.get(each.key, 0) <= each.fetched_us]
    return Results(results.total - len(results.found) + len(fresh), results.pages, fresh)
