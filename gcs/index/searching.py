"""Searches of what one store has, and of what a directory has; what they say is in `results`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Final

from gcs.core.highlights import snippet, wanted
from gcs.core.query import Query
from gcs.core.words import Words
from gcs.errors import UsageError
from gcs.gatherer import parts
from gcs.index import DIRECTORY
from gcs.index.engine import Reader
from gcs.index.entries import Shown
from gcs.index.records import NoIndex
from gcs.index.results import Result, Results, merged, understood, without_stale
from gcs.index.texts import Journal, Texts
from gcs.store.store import Store
from gcs.store.view import View

_TITLE: Final = 200


class Searcher:
    """Answers searches of one store."""

    def __init__(self, store: Path, journal: Callable[[], AbstractContextManager[Journal]]) -> None:
        """Raises NoIndex if it has no index. `journal` opens the journal as it is then."""
        self._words = Words()
        self._reader = Reader(store / DIRECTORY, self._words)
        self._texts, self._journal = Texts(store), journal

    @classmethod
    def of(cls, store: Store) -> Searcher:
        """Of a store that is open in this process."""
        return cls(store.directory, lambda: nullcontext(store))

    def search(self, query: Query, count: int) -> Results:
        """The best pages of a query, so many at most."""
        found = self._reader.find(query, count)
        # What is found was committed before: so the journal is opened after that.
        with self._journal() as journal:
            entries = self._texts.read([hit.row for hit in found.hits], journal)
        looked_for = wanted(query)
        results = [
            self._result(entries[hit.row], hit.score, looked_for)
            for hit in found.hits
            # Files that somebody has removed are missing, and others stand in their place.
            if hit.row in entries and entries[hit.row].fetched_us == hit.fetched_us
        ]
        return Results(found.total, self._reader.pages, results)

    def newest(self, keys: Iterable[str]) -> dict[str, int]:
        """When each of some pages was fetched, of those that are in this index, by key."""
        return self._reader.newest(keys)

    def _result(self, entry: Shown, score: float, looked_for: frozenset[str]) -> Result:
        title = snippet(self._words, entry.title, entry.language, looked_for, about=_TITLE)
        text = max(
            (
                snippet(self._words, each, entry.language, looked_for)
                for each in (entry.excerpt, entry.description)
            ),
            key=lambda piece: len(piece.marks),
        )
        return Result(
            url=entry.url,
            score=score,
            title=title.text,
            title_marks=title.marks,
            text=text.text,
            text_marks=text.marks,
            language=entry.language,
            media_type=entry.media_type,
            fetched_us=entry.fetched_us,
            key=entry.key,
        )


def search_directory(directory: Path, text: str, limit: int, offset: int) -> Results:
    """Search what is kept in a directory, also while it is crawled into; raises UsageError."""
    query = understood(text)
    searchers = _searchers(directory)
    results = merged(each.search(query, offset + limit) for each in searchers)
    if len(searchers) > 1:
        keys = [each.key for each in results.found[: offset + limit]]
        times = [searcher.newest(keys) for searcher in searchers]
        results = without_stale(results, {k: max(t.get(k, 0) for t in times) for k in keys})
    return Results(results.total, results.pages, results.found[offset : offset + limit])


def _searchers(directory: Path) -> list[Searcher]:
    found = []
    for store in parts.parts(directory):
        with suppress(NoIndex):
            found.append(Searcher(store, partial(View, store)))
    if not found:
        raise UsageError(
            f"{directory} has no index; `gcs index --into {directory}` makes one, and a crawl with "
            "-s index.engine=embedded keeps one."
        )
    return found
