"""The index itself: Tantivy, in a directory of its own, with one writer and any number of readers.

It has postings and positions of terms that `gcs.core.words` has made, and no texts: those are in the
summaries that the store keeps anyway, and a page's place among them is all that is kept beside its terms.
What has come into the index is one entry of it too, committed with the rest: after a crash it is what it says
it is. Of a page that is gone the index has when that was found, and no terms: another gatherer's index, from
which it cannot leave, may have the page as it was.

A term says of which language it is a stem. A word of a query is looked for as a stem of each language that
the index has, so that the same pages are found as `Query.holds` says. The most frequent words of a language
have no place in descriptions and excerpts: there is a gap where they stood, and which pages have them is in
`exact`, with all that is compared as a whole.

Of a key there is a digest of 60 bits, as four values: a dictionary of few terms costs little, and a page is
where all four are. Each index has a secret of its own for it, so that nobody can make a URL which takes the
place of another's page.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from secrets import token_bytes
from typing import Final, NamedTuple

import tantivy

from gcs.core.query import EXACT, PLACELESS, WORDED, All, Query, Some, Terms
from gcs.core.words import LANGUAGES, Words, rules
from gcs.index.entries import Entry
from gcs.index.records import Forgotten, Found, Hit, NoIndex, Position
from gcs.index.symbols import written

VERSION: Final = "3"
_VERSION_FILE: Final = "gcs-index"
_DIGESTS_FILE: Final = "gcs-digests"
_META_FILE: Final = "meta.json"
"""Where Tantivy keeps what was committed; another file takes its place each time."""
_EXACT: Final = "exact"
_POSITION: Final = "position"
_GONE: Final = "gone"
"""No value is one of these two: a colon is in each."""
_GAP: Final = "."
"""What stands where a word has no place; no term has it."""
_SECRET_BYTES: Final = 16
_PARTS: Final = 4
_PART_BITS: Final = 15
"""Of so many bits each part of a digest is one value."""
_WEIGHTS: Final[Mapping[str, float]] = {"title": 4.0, "about": 2.0, "text": 1.0, "url": 1.0}
_HEAP_BYTES: Final = 64 << 20
_MERGED: Final = 8
"""Tantivy makes one segment of so many that are about as large."""
_MOST_AT_ONCE: Final = 20_000
"""Of so many pages a segment can be made within `_HEAP_BYTES`, and an eighth of them are enough for one."""
_DELETED_AT_ONCE: Final = 10_000
"""What is to be deleted by a query takes 5 KB until it is committed."""
_MUST, _MAY, _NOT = tantivy.Occur.Must, tantivy.Occur.Should, tantivy.Occur.MustNot


def _schema() -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    for name in WORDED:
        builder.add_text_field(name, tokenizer_name="terms")
    builder.add_text_field(_EXACT, tokenizer_name="values", index_option="basic")
    for name in ("row", "fetched"):
        builder.add_unsigned_field(name, fast=True)
    return builder.build()


def _opened(directory: Path) -> tantivy.Index:
    index = tantivy.Index(_schema(), str(directory))
    spaces = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace())
    index.register_tokenizer("terms", spaces.filter(tantivy.Filter.custom_stopword([_GAP])).build())
    index.register_tokenizer("values", tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.raw()).build())
    return index


class _Pages:
    """Finds pages by their keys."""

    def __init__(self, index: tantivy.Index, directory: Path) -> None:
        self._schema, self._secret = index.schema, (directory / _DIGESTS_FILE).read_bytes()

    def values(self, key: str) -> list[str]:
        """The values of the page that has a key."""
        hashed = blake2b(key.encode(), digest_size=8, key=self._secret).digest()
        digest = int.from_bytes(hashed, "big")
        parts = [digest >> part * _PART_BITS & (1 << _PART_BITS) - 1 for part in range(_PARTS)]
        return [_value(f"key{number}", f"{part:x}") for number, part in enumerate(parts)]

    def query(self, key: str) -> tantivy.Query:
        """Finds the page that has a key."""
        return _all(
            [tantivy.Query.term_query(self._schema, _EXACT, each, "basic") for each in self.values(key)]
        )

    def fetched_us(self, searcher: tantivy.Searcher, key: str) -> int | None:
        """When a page was fetched, or found to be gone; None if it is not there."""
        hits = searcher.search(self.query(key), 1, count=False).hits
        return int(searcher.fast_field_values("fetched", [hits[0][1]])[0] or 0) if hits else None


class _Commit(NamedTuple):
    """An index as it was committed."""

    meta: bytes
    """What says of which files it is; no two commits say the same."""
    searcher: tantivy.Searcher
    pages: int
    languages: Sequence[str]


def is_there(directory: Path) -> bool:
    """Whether a directory has an index that can be read."""
    path = directory / _VERSION_FILE
    return path.is_file() and path.read_text("utf-8", "replace") == VERSION


def evenly(pages: int) -> int:
    """How many of some pages to commit at once, so that all of them become one segment.

    Each segment has a dictionary of its own, and most of their words are the same.
    """
    while pages > _MOST_AT_ONCE:
        pages = -(-pages // _MERGED)
    return max(1, pages)


class Reader:
    """Finds pages in an index, as it was at its last commit before the question."""

    def __init__(self, directory: Path, words: Words) -> None:
        """Raises NoIndex."""
        if not is_there(directory):
            raise NoIndex(str(directory))
        self._meta, self._words = directory / _META_FILE, words
        self._index = _opened(directory)
        self._pages = _Pages(self._index, directory)
        self._index.config_reader("manual")
        self._seen: _Commit | None = None

    @property
    def pages(self) -> int:
        """How many there are."""
        return self._commit().pages

    def position(self) -> Position:
        """What has come into it."""
        return _position(self._index, self._commit().searcher)

    def find(self, query: Query, limit: int, offset: int = 0) -> Found:
        """The best pages of a query, beginning with one further down if `offset` says so."""
        commit = self._commit()
        searcher = commit.searcher
        asked = _Translation(self._index.schema, self._words, commit.languages).of(query)
        result = searcher.search(asked, max(1, limit), count=True, offset=offset)
        places = [address for _, address in result.hits]
        rows = searcher.fast_field_values("row", places)
        times = searcher.fast_field_values("fetched", places)
        scored = zip(result.hits, rows, times, strict=True)
        hits = [Hit(float(score), int(row or 0), int(at or 0)) for (score, _), row, at in scored]
        return Found(int(result.count), hits)  # type: ignore[attr-defined] # its stub leaves that out

    def newest(self, keys: Iterable[str]) -> dict[str, int]:
        """When each of some pages was fetched that the index has, or was found to be gone, by key."""
        searcher = self._commit().searcher
        found = {key: self._pages.fetched_us(searcher, key) for key in keys}
        return {key: at_us for key, at_us in found.items() if at_us is not None}

    def _commit(self) -> _Commit:
        """The last commit; the files of one that was seen stay open, and what was counted in it is known."""
        meta = self._meta.read_bytes()
        if self._seen is None or meta != self._seen.meta:
            self._index.reload()
            searcher = self._index.searcher()
            asked = tantivy.Query.term_query(self._index.schema, _EXACT, _GONE)
            gone = searcher.search(asked, 1, count=True).count  # type: ignore[attr-defined] # as above
            pages = max(0, searcher.num_docs - 1 - int(gone))
            self._seen = _Commit(meta, searcher, pages, _languages(searcher))
        return self._seen


class Writer:
    """Fills an index; there is one at a time."""

    def __init__(self, directory: Path, words: Words) -> None:
        """Make the index if there is none; one of another version is made anew. Raises ValueError if busy."""
        if not is_there(directory):
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir(parents=True)
            _opened(directory)
            (directory / _DIGESTS_FILE).write_bytes(token_bytes(_SECRET_BYTES))
            (directory / _VERSION_FILE).write_text(VERSION, "utf-8")
        self._index, self._words = _opened(directory), words
        self._pages = _Pages(self._index, directory)
        self._writer = self._index.writer(_HEAP_BYTES, 1)
        self.position = _position(self._index, self._index.searcher())
        self._forgotten: Sequence[Forgotten] = ()

    def forget(self, forgotten: Sequence[Forgotten], keys: Iterable[str]) -> None:
        """Remove pages, and let none of them in any more; of the keys, all that are here are some."""
        fresh = [each for each in forgotten if each not in self._forgotten]
        self._forgotten = forgotten
        if not fresh:
            return
        searcher, deleted = self._searcher(), set[str]()
        for key in keys:
            if key in deleted or not any(each.is_of(key) for each in fresh):
                continue
            at_us = self._pages.fetched_us(searcher, key)
            if at_us is not None and any(each.covers(key, at_us) for each in fresh):
                self._writer.delete_documents_by_query(self._pages.query(key))
                deleted.add(key)
            if len(deleted) >= _DELETED_AT_ONCE:
                self._writer.commit()
                searcher, deleted = self._searcher(), set()
        self._writer.commit()

    def _searcher(self) -> tantivy.Searcher:
        """Finds what is committed."""
        self._index.reload()
        return self._index.searcher()

    def add(self, entries: Iterable[Entry], position: Position) -> None:
        """Let pages be found, each instead of what was there of it before, and commit.

        They are the rows from the old position on; the index is at the given one then.
        """
        row = self.position.rows
        # The last visit of a page counts: within a commit its earlier ones need not be written.
        visits = ((number, entry) for number, entry in enumerate(entries, row) if not entry.unchanged)
        last = {entry.key: (number, entry) for number, entry in visits}
        searcher = self._searcher()
        for key, (number, entry) in last.items():
            if self._pages.fetched_us(searcher, key) is not None:
                self._writer.delete_documents_by_query(self._pages.query(key))
            if not any(each.covers(key, entry.fetched_us) for each in self._forgotten):
                self._writer.add_document(self._document(number, entry))
        self._writer.delete_documents_by_term(_EXACT, _POSITION)
        at = tantivy.Document(exact=_POSITION)
        self._writer.add_document(_placed(at, position.rows, position.entry))
        self._writer.commit()
        self.position = position

    def _document(self, row: int, entry: Entry) -> tantivy.Document:
        values = self._pages.values(entry.key)
        if not entry.is_there:
            return _placed(tantivy.Document(exact=[*values, _GONE]), row, entry.fetched_us)
        values += [_value(name, each) for name, some in entry.exact().items() for each in some]
        texts: dict[str, str] = {}
        for name, text in entry.texts().items():
            language = "" if name == "url" else rules(entry.language)
            frequent: Collection[str] = self._words.frequent(language) if name in PLACELESS else ()
            terms = _written(self._words.terms(text, language), language)
            texts[name] = _joined(terms, _tag(language), frequent)
            values += [_said(each, language) for each in {*terms}.intersection(frequent)]
        return _placed(tantivy.Document(exact=[*{*values}], **texts), row, entry.fetched_us)

    def close(self) -> None:
        """Wait until what was written is in its place."""
        self._writer.wait_merging_threads()


def _placed(document: tantivy.Document, row: int, fetched: int) -> tantivy.Document:
    document.add_unsigned("row", row)
    document.add_unsigned("fetched", fetched)
    return document


def _tag(language: str) -> str:
    """What a term of a language with rules for stems begins with, so that it is found by no other's stems."""
    return f"{language}:" if language else ""


def _written(terms: list[str], language: str) -> list[str]:
    """What terms are in the index; where words have stems, and some no place, each is one."""
    return terms if language else written(terms)


def _joined(terms: Iterable[str], tag: str, placeless: Collection[str]) -> str:
    return " ".join([_GAP if each in placeless else tag + each for each in terms])


def _value(name: str, value: str) -> str:
    return f"{name}:{value}"


def _said(term: str, language: str) -> str:
    """The value of a page that has a frequent word."""
    return _value("word", _tag(language) + term)


def _position(index: tantivy.Index, searcher: tantivy.Searcher) -> Position:
    hits = searcher.search(tantivy.Query.term_query(index.schema, _EXACT, _POSITION), 1).hits
    if not hits:
        return Position()
    (entry,), (rows,) = (searcher.fast_field_values(name, [hits[0][1]]) for name in ("fetched", "row"))
    return Position(int(entry or 0), int(rows or 0))


def _languages(searcher: tantivy.Searcher) -> list[str]:
    """Those of the pages of an index that have rules for stems."""
    values = searcher.terms_with_prefix(_EXACT, _value("lang", ""))
    names = [value.partition(":")[2] for value, _ in values]
    return [name for name in names if name in LANGUAGES]


class _Translation:
    """From a query to one of Tantivy's."""

    def __init__(self, schema: tantivy.Schema, words: Words, languages: Sequence[str]) -> None:
        self._schema, self._words, self._languages = schema, words, languages

    def of(self, query: Query) -> tantivy.Query:
        """The query that finds what the given one holds of."""
        if isinstance(query, Terms):
            return self._terms(query)
        if isinstance(query, Some):
            return _any([self.of(part) for part in query.parts])
        assert isinstance(query, All)
        parts = [(_MUST, self.of(part)) for part in query.parts]
        return tantivy.Query.boolean_query([*parts, *((_NOT, self.of(part)) for part in query.without)])

    def _terms(self, terms: Terms) -> tantivy.Query:
        if terms.field in EXACT:
            return tantivy.Query.const_score_query(self._exact(_value(terms.field, terms.words[0])), 0.1)
        fields = [terms.field] if terms.field else list(WORDED)
        ways = [self._in_field("url", terms, "")] if "url" in fields else []
        for language in ("", *self._languages):
            ways += [self._in_field(name, terms, language) for name in fields if name != "url"]
        return _any(ways)

    def _in_field(self, name: str, terms: Terms, language: str) -> tantivy.Query:
        stems = _written([self._words.stem(word, language) for word in terms.words], language)
        frequent: Collection[str] = self._words.frequent(language) if name in PLACELESS else ()
        placed = [(at, _tag(language) + stem) for at, stem in enumerate(stems) if stem not in frequent]
        parts = [self._exact(_said(stem, language)) for stem in {*stems}.intersection(frequent)]
        if placed:
            parts.append(self._following(name, placed))
        return tantivy.Query.boost_query(_all(parts), _WEIGHTS[name])

    def _following(self, name: str, placed: Sequence[tuple[int, str]]) -> tantivy.Query:
        """The query for terms that are so far from each other."""
        first, term = placed[0]
        if len(placed) == 1:
            return tantivy.Query.term_query(self._schema, name, term, "freq")
        return tantivy.Query.phrase_query(self._schema, name, [(at - first, each) for at, each in placed])

    def _exact(self, value: str) -> tantivy.Query:
        return tantivy.Query.term_query(self._schema, _EXACT, value, "basic")


def _all(parts: Sequence[tantivy.Query]) -> tantivy.Query:
    return parts[0] if len(parts) == 1 else tantivy.Query.boolean_query([(_MUST, part) for part in parts])


def _any(parts: Sequence[tantivy.Query]) -> tantivy.Query:
    return parts[0] if len(parts) == 1 else tantivy.Query.boolean_query([(_MAY, part) for part in parts])
