"""Which of many saved queries hold of a page: an inverted index over the queries.

A page has *signs*: its terms, and the values of its exact fields. A query names signs too: those that any
page it holds of must have, and some by which it is looked up, its *anchors*: every page that it holds of has
at least one. So for a page only the queries are looked at whose anchors are among its signs, and of those
only the ones all of whose necessary signs are there are asked whether they hold.

Invariant: what is found is what asking every query would find. Which signs are the anchors changes only how
long that takes: they should be rare, and how rare each is is learnt from the pages.

What is done for each word of a page is compiled (`gcs/native/lookup.c`); `ExpressedLookup` is its reference.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from gcs.core.query import EXACT, All, Paper, Query, Some, Terms
from gcs.core.words import Words, rules
from gcs.native import compiled, is_compiled

if TYPE_CHECKING:
    from gcs.native._compiled import Lookup as CompiledLookup

SAMPLED: Final = 8
"""Of so many pages the signs of one are counted."""
ENOUGH: Final = 500
"""After so many counted pages the anchors are chosen anew, and again after each time `_AGAIN` as many."""
_AGAIN: Final = 8
_MEMORY: Final = 200_000
"""Words of a language of which is remembered what they become."""
_FEW: Final = 10
_EXACT_SHARE: Final = {"host": 0.001, "lang": 0.3, "type": 0.9}
_UNSEEN: Final = 0.01
"""The share of pages that is expected to have a word of which nothing is known yet."""


class Profiles:
    """Queries by name."""

    def __init__(
        self,
        queries: Mapping[str, Query],
        words: Words,
        *,
        key: bytes,
        sampled: int = SAMPLED,
        enough: int = ENOUGH,
    ) -> None:
        """Of one in `sampled` pages signs are counted; anchors are chosen anew after `enough` of those.

        The key has 16 bytes that nobody knows who writes pages.
        """
        self._names, self._queries = list(queries), list(queries.values())
        self._words, self._key = words, key
        self._languages: dict[str, _Lookup] = {}
        self._pages = self._counted = 0
        self._seen: Counter[str] = Counter()
        self._sampled, self._enough = sampled, enough
        self._choose_at = enough
        leaves = [terms for query in self._queries for terms in query.leaves()]
        self._exact: dict[str, dict[str, str]] = {}
        """The values of exact fields that any query names, each with its sign."""
        for terms in leaves:
            if terms.field in EXACT:
                value = terms.words[0]
                self._exact.setdefault(terms.field, {})[value] = _sign(terms.field, value)
        named = [terms for query in self._queries for terms in _named(query)]
        self._known = {word for terms in named if terms.field not in EXACT for word in terms.words}

    def matches(self, paper: Paper) -> list[str]:
        """The names of those that hold of a page, in the order in which they were given."""
        # One lookup for all languages without rules, or there would be as many as pages can name.
        language = rules(paper.language)
        lookup = self._languages.get(language)
        if lookup is None:
            lookup = self._languages[language] = self._lookup(language)
        exact = [
            known[value]
            for name, known in self._exact.items()
            for value in paper.exact[name]
            if value in known
        ]
        orders, candidates = lookup.look(tuple(paper.cut.values()), exact)
        self._learn(orders)
        if not candidates:
            return []
        paper.become(orders)
        return [self._names[number] for number in candidates if self._queries[number].holds(paper)]

    def _learn(self, orders: Sequence[Sequence[str]]) -> None:
        self._pages += 1
        if self._pages % self._sampled:
            return
        self._counted += 1
        self._seen.update(set[str]().union(*orders) - {""})
        if self._counted >= self._choose_at:
            self._choose_at *= _AGAIN
            self._languages.clear()

    def _lookup(self, language: str) -> _Lookup:
        stems = self._words.stems(language)
        exact = [sign for known in self._exact.values() for sign in known.values()]
        signs = ("", *exact, *{stems[word] for word in self._known})
        made = compiled.Lookup if is_compiled else ExpressedLookup
        lookup = made(self._key, signs, stems.of, _MEMORY)
        for query in self._queries:
            needed, anchors = self._needed(query, language), self._anchors(query, language)[1]
            lookup.add(tuple(needed), {anchor: self._second(anchor, needed) for anchor in anchors})
        return lookup

    def _second(self, anchor: str, needed: frozenset[str]) -> str:
        """The rarest sign that a page needs beside an anchor; the anchor if there is none."""
        others = needed - {anchor}
        return min(others, key=lambda sign: (self._share(sign), sign)) if others else anchor

    def _needed(self, query: Query, language: str) -> frozenset[str]:
        """Signs that every page has of which a query holds."""
        if isinstance(query, Terms):
            return self._signs_of(query, language)
        if isinstance(query, All):
            return frozenset().union(*(self._needed(part, language) for part in query.parts))
        assert isinstance(query, Some)
        return frozenset.intersection(*(self._needed(part, language) for part in query.parts))

    def _anchors(self, query: Query, language: str) -> tuple[float, frozenset[str]]:
        """Signs of which every page has one that a query holds of, and the share of pages that have one."""
        if isinstance(query, Terms):
            each = {sign: self._share(sign) for sign in self._signs_of(query, language)}
            rarest = min(each, key=lambda sign: (each[sign], sign))
            return each[rarest], frozenset({rarest})
        if isinstance(query, All):
            return min(
                (self._anchors(part, language) for part in query.parts),
                key=lambda found: (found[0], sorted(found[1])),
            )
        assert isinstance(query, Some)
        parts = [self._anchors(part, language) for part in query.parts]
        return sum(share for share, _ in parts), frozenset().union(*(signs for _, signs in parts))

    def _signs_of(self, terms: Terms, language: str) -> frozenset[str]:
        if terms.field in EXACT:
            return frozenset({_sign(terms.field, terms.words[0])})
        return frozenset(self._words.stem(word, language) for word in terms.words)

    def _share(self, sign: str) -> float:
        """The share of pages that is expected to have a sign."""
        field, space, _ = sign.partition(" ")
        if space:
            return _EXACT_SHARE[field]
        if self._counted < self._enough:
            return _UNSEEN / (1 + len(sign))
        return (self._seen[sign] + 0.1) / self._counted


class _Terms(dict[str, str]):
    """What words become in one language: a term that queries name, or "" for all that none does."""

    def __init__(self, known: Collection[str], stem: Callable[[str], str], most: int) -> None:
        super().__init__()
        self._known, self._stem, self._most = known, stem, most

    def __missing__(self, word: str) -> str:
        if len(self) >= self._most:
            self.clear()
        stem = self._stem(word)
        term = self[word] = stem if stem in self._known else ""
        return term


class ExpressedLookup:
    """The queries by their anchors, for pages in one language."""

    def __init__(self, key: bytes, signs: tuple[str, ...], stem: Callable[[str], str], most: int) -> None:
        """Queries name some signs, the first of which is "", for words that none names.

        Of at most so many words is remembered what they become. Here they are kept themselves, which needs
        no key.
        """
        del key
        self._term = _Terms(frozenset(signs), stem, most).__getitem__
        self._by_anchor: dict[str, dict[str, list[int]]] = {}
        """For each anchor, by a sign that is asked for before others, the queries."""
        self._needed: list[frozenset[str]] = []

    def add(self, needed: tuple[str, ...], anchors: dict[str, str]) -> None:
        """Let the next query be found by its anchors, each with a sign that is asked for before others."""
        for anchor, second in anchors.items():
            self._by_anchor.setdefault(anchor, {}).setdefault(second, []).append(len(self._needed))
        self._needed.append(frozenset(needed))

    def look(self, fields: tuple[list[str], ...], signs: list[str]) -> tuple[list[list[str]], list[int]]:
        """What the words of fields become, and which queries may hold of a page with these and other signs.

        A word becomes a term that some query names, or "".
        """
        orders = [list(map(self._term, words)) for words in fields]
        return orders, sorted(self._candidates({*signs}.union(*orders) - {""}))

    def _candidates(self, signs: set[str]) -> set[int]:
        needed, found = self._needed, set[int]()
        for anchor in self._by_anchor.keys() & signs:
            seconds = self._by_anchor[anchor]
            # To look for a few signs takes less than to find all that both have.
            for second in seconds if len(seconds) < _FEW else seconds.keys() & signs:
                if second in signs:
                    found.update([number for number in seconds[second] if needed[number] <= signs])
        return found


_Lookup: TypeAlias = "CompiledLookup | ExpressedLookup"


def _named(query: Query) -> Iterator[Terms]:
    """All terms that a query names, also those that must not be there."""
    if isinstance(query, Terms):
        yield query
    elif isinstance(query, All | Some):
        without = query.without if isinstance(query, All) else ()
        for part in (*query.parts, *without):
            yield from _named(part)


def _sign(field: str, value: str) -> str:
    """A value of an exact field as a sign; no term has a space."""
    return f"{field} {value}"
