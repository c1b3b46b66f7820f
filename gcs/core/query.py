"""The language of queries, of `gcs search` and of profiles: from a text to a tree, and what that holds of.

    words               all of them, in any field
    "a phrase"          these words, one after the other in one field
    title:word          in one field; title, about, text and url have words
    host:example.org    this host and those below it; likewise lang:de, type:text/html and type:text
    -word  a OR b  ( )  without it; one or the other; groups

A word is in a field if its stem in the language of the page is (`gcs.core.words`), and words that are joined
by signs, or written without spaces, are a phrase. Of the most frequent words of a language a phrase asks only
in titles and URLs where they stand. What is said about a page and its text are one for such words: they have
to be in it somewhere, and any words may be in their places. So "end of the world" holds where "end", two
words and "world" follow each other, and "of" and "the" are between them or elsewhere. What a query means is
said by `Query.holds`: the index must find that very pages, and profiles are matched by it.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from gcs.core.words import Words, folding

WORDED: Final = ("title", "about", "text", "url")
"""Fields that have words: title; description, keywords and headings; excerpt; URL."""
_UNSTEMMED: Final = "url"
_STEMMED: Final = tuple(name for name in WORDED if name != _UNSTEMMED)
PLACELESS: Final = ("about", "text")
"""Fields that are one for the most frequent words of a language, which have no place in it."""
EXACT: Final = ("host", "lang", "type")
"""Fields that have values, which are compared as a whole."""
FIELDS: Final = (*WORDED, *EXACT)
MAX_QUERY: Final = 1_000
"""Characters of a query."""
MAX_TERMS: Final = 64
"""Words of a query, all in all."""
_MAX_DEPTH: Final = 16
_TOKEN: Final = re.compile(
    r"""\s*(?:(?P<open>\()|(?P<close>\))|(?P<minus>-(?=[^\s)]))|"""
    r"""(?P<field>[A-Za-z]+):(?=[^\s)])|"(?P<phrase>[^"]*)(?P<end>"|$)|(?P<word>[^\s()"]+))"""
)


class BadQuery(ValueError):
    """A text is no query; the message says why, in one sentence."""


class Paper:
    """A page as queries see it: the terms of each field, and the values of those that have values.

    Words are cut once, and become terms when a field is first asked for, or those that `become` is given.
    """

    __slots__ = ("_orders", "_words", "cut", "exact", "frequent", "language", "stem")

    def __init__(
        self, words: Words, language: str, texts: Mapping[str, str], exact: Mapping[str, Sequence[str]]
    ) -> None:
        self.language, self.exact, self._words = language, exact, words
        self.stem: Callable[[str], str] = words.stems(language).__getitem__
        """What a word becomes in the language of the page."""
        self.frequent = words.frequent(language)
        """The terms that nearly every text in the language of the page has."""
        self.cut = {name: words.words(text) for name, text in texts.items()}
        self._orders: dict[str, list[str]] = {}

    def order(self, name: str) -> list[str]:
        """The terms of a field, in their order."""
        found = self._orders.get(name)
        if found is None:
            cut = self.cut.get(name, ())
            found = self.unstemmed(cut) if name == _UNSTEMMED else [*map(self.stem, cut)]
            self._orders[name] = found
        return found

    def unstemmed(self, words: Iterable[str]) -> list[str]:
        """What words become in a URL, which has no language."""
        return [*map(self._words.stems("").__getitem__, words)]

    def become(self, orders: Iterable[list[str]]) -> None:
        """Let what was cut of each field be some terms, which must be right for all that is asked then.

        A word of a URL is compared as it is written: if it is the one that is wanted, so is its stem.
        """
        self._orders = dict(zip(self.cut, orders, strict=True))
        self._orders.pop(_UNSTEMMED, None)


class Query(ABC):
    """A part of a query, or the whole."""

    @abstractmethod
    def holds(self, paper: Paper) -> bool:
        """Whether a page is meant."""

    @abstractmethod
    def leaves(self) -> Iterator[Terms]:
        """All terms in it that a page may be found by."""


@dataclass(frozen=True, slots=True)
class Terms(Query):
    """Words that follow each other in a field, or in any if none is named; or one value of an exact one."""

    field: str
    words: tuple[str, ...]

    def holds(self, paper: Paper) -> bool:
        """Whether they are there."""
        if self.field in EXACT:
            return self.words[0] in paper.exact.get(self.field, ())
        if self.field != _UNSTEMMED:
            wanted = [*map(paper.stem, self.words)]
            for name in (self.field,) if self.field else _STEMMED:
                if _says(paper, name, wanted):
                    return True
        return self.field in ("", _UNSTEMMED) and follows(
            paper.order(_UNSTEMMED), paper.unstemmed(self.words)
        )

    def leaves(self) -> Iterator[Terms]:
        """Itself."""
        yield self


@dataclass(frozen=True, slots=True)
class All(Query):
    """All of some parts, and none of others."""

    parts: tuple[Query, ...]
    without: tuple[Query, ...] = field(default=())

    def holds(self, paper: Paper) -> bool:
        """Whether that is so."""
        return all(part.holds(paper) for part in self.parts) and not any(
            part.holds(paper) for part in self.without
        )

    def leaves(self) -> Iterator[Terms]:
        """Of the parts that must be there."""
        for part in self.parts:
            yield from part.leaves()


@dataclass(frozen=True, slots=True)
class Some(Query):
    """At least one of some parts."""

    parts: tuple[Query, ...]

    def holds(self, paper: Paper) -> bool:
        """Whether one is there."""
        return any(part.holds(paper) for part in self.parts)

    def leaves(self) -> Iterator[Terms]:
        """Of any part."""
        for part in self.parts:
            yield from part.leaves()


def _says(paper: Paper, name: str, wanted: Sequence[str]) -> bool:
    """Whether a field has a phrase."""
    there = paper.order(name)
    if len(wanted) == 1 and wanted[0] in there:
        return True
    placeless = paper.frequent.intersection(wanted) if name in PLACELESS else frozenset[str]()
    return follows(there, wanted, placeless) and all(
        any(term in paper.order(other) for other in PLACELESS) for term in placeless
    )


def follows(terms: Sequence[str], wanted: Sequence[str], placeless: Collection[str] = ()) -> bool:
    """Whether some terms follow each other somewhere; any may stand where one is wanted that has no place."""
    placed = [(at, term) for at, term in enumerate(wanted) if term not in placeless]
    if not placed:
        return True
    before, first = placed[0]
    at = -1
    for _ in range(terms.count(first)):
        at = terms.index(first, at + 1)
        start = at - before
        if start + placed[-1][0] < len(terms) and all(terms[start + off] == term for off, term in placed):
            return True
    return False


def parse(text: str) -> Query:
    """The query that a text says; raises BadQuery."""
    if len(text) > MAX_QUERY:
        raise BadQuery(f"a query has at most {MAX_QUERY} characters")
    parser = _Parser(text)
    query = parser.some(0)
    if parser.kind is not None:
        raise BadQuery("a bracket is closed that was not opened")
    if query is None:
        raise BadQuery("a query needs a word to look for")
    return query


class _Parser:
    """Reads tokens one after the other; `kind` is that of the next, None at the end."""

    def __init__(self, text: str) -> None:
        self._words = Words()
        self._tokens = _TOKEN.finditer(text.rstrip())
        self._count = 0
        self.kind: str | None = None
        self._value = ""
        self._next()

    def _next(self) -> None:
        found = next(self._tokens, None)
        if found is None:
            self.kind, self._value = None, ""
            return
        kind = found.lastgroup or ""
        if kind == "end":
            kind = "phrase"
            if not found["end"]:
                raise BadQuery('a quotation mark is not closed: write "two words"')
        self.kind, self._value = kind, found[kind]
        if kind == "word" and self._value in ("OR", "AND", "NOT"):
            self.kind = self._value

    def some(self, depth: int) -> Query | None:
        """Parts with OR between them; None if there are none."""
        if depth > _MAX_DEPTH:
            raise BadQuery(f"brackets are nested deeper than {_MAX_DEPTH}")
        parts = [self._all(depth)]
        while self.kind == "OR":
            self._next()
            parts.append(self._all(depth))
        found = [part for part in parts if part is not None]
        if len(found) < len(parts) and len(parts) > 1:
            raise BadQuery("OR stands between two things to look for")
        if not found:
            return None
        return found[0] if len(found) == 1 else Some(tuple(found))

    def _all(self, depth: int) -> Query | None:
        parts: list[Query] = []
        without: list[Query] = []
        while self.kind not in (None, "close", "OR"):
            if self.kind == "AND":
                self._next()
                continue
            chosen = parts
            while self.kind in ("minus", "NOT"):
                chosen = without if chosen is parts else parts
                self._next()
            one = self._one(depth)
            if one is not None:
                chosen.append(one)
        if without and not parts:
            raise BadQuery("a query needs something to look for beside what it leaves out")
        if not parts:
            return None
        return parts[0] if len(parts) == 1 and not without else All(tuple(parts), tuple(without))

    def _one(self, depth: int) -> Query | None:
        kind, value = self.kind, self._value
        if kind in (None, "close", "OR", "AND", "minus", "NOT"):
            raise BadQuery("something to look for is missing after a field, a minus or NOT")
        self._next()
        if kind == "open":
            inner = self.some(depth + 1)
            if self.kind != "close":
                raise BadQuery("a bracket is not closed")
            self._next()
            return inner
        if kind == "field":
            return self._of_field(value)
        return self._terms("", value)

    def _of_field(self, name: str) -> Query | None:
        field_name, kind, value = name.lower(), self.kind, self._value
        if field_name not in FIELDS:
            raise BadQuery(f"there is no field {name}; there are {', '.join(FIELDS)}")
        if kind == "field":  # a value may have a colon, as ports have
            self._next()
            value, kind = f"{value}:{self._value}", self.kind
        if kind not in ("word", "phrase"):
            raise BadQuery(f"something to look for is missing after {name}:")
        self._next()
        if field_name in EXACT:
            self._counted(1)
            return Terms(field_name, (folding(value.strip()) if value.strip() else "-",))
        return self._terms(field_name, value)

    def _terms(self, name: str, value: str) -> Query | None:
        words = self._words.words(value)
        self._counted(len(words))
        return Terms(name, tuple(words)) if words else None

    def _counted(self, count: int) -> None:
        self._count += count
        if self._count > MAX_TERMS:
            raise BadQuery(f"a query has at most {MAX_TERMS} words")
