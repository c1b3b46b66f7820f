"""Which of many saved queries hold of a page: an inverted index over the queries.

A page has *signs*: its terms, and the values of its exact fields. A query names signs too: those that any
page it holds of must have, and some by which it is looked up, its *anchors*: every page that it holds of has
at least one. So for a page only the queries are looked at whose anchors are among its signs, and of those
only the ones all of whose necessary signs are there are asked whether they hold.

Invariant: what is found is what asking every query would find. Which signs are the anchors changes only how
long that takes: they should be rare, and how rare each is is learnt from the pages.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Final

from gcs.core.query import EXACT, All, Paper, Query, Some, Terms
from gcs.core.words import Words

SAMPLED: Final = 8
"""Of so many pages the signs of one are counted."""
ENOUGH: Final = 500
"""After so many counted pages the anchors are chosen anew, and again after each time `_AGAIN` as many."""
_AGAIN: Final = 8
_EXACT_SHARE: Final = {"host": 0.001, "lang": 0.3, "type": 0.9}
_UNSEEN: Final = 0.01
"""The share of pages that is expected to have a word of which nothing is known yet."""


class Profiles:
    """Queries by name."""

    def __init__(
        self, queries: Mapping[str, Query], words: Words, *, sampled: int = SAMPLED, enough: int = ENOUGH
    ) -> None:
        """Of one in `sampled` pages signs are counted; anchors are chosen anew after `enough` of those."""
        self._names, self._queries = list(queries), list(queries.values())
        self._words = words
        self._languages: dict[str, _Lookup] = {}
        self._pages = self._counted = 0
        self._seen: Counter[str] = Counter()
        self._sampled, self._enough = sampled, enough
        self._choose_at = enough
        leaves = [terms for query in self._queries for terms in query.leaves()]
        self._exact = {terms.field for terms in leaves if terms.field in EXACT}
        self._known = {word for terms in leaves if terms.field not in EXACT for word in terms.words}

    def matches(self, paper: Paper) -> list[str]:
        """The names of those that hold of a page, in the order in which they were given."""
        lookup = self._languages.get(paper.language)
        if lookup is None:
            lookup = self._languages[paper.language] = self._lookup(paper.language)
        signs = self._signs(paper)
        found = [number for number in lookup.candidates(signs) if self._queries[number].holds(paper)]
        self._learn(signs, lookup)
        return [self._names[number] for number in sorted(found)]

    def _signs(self, paper: Paper) -> set[str]:
        orders, stems = paper.orders, self._words.stems(paper.language)
        # A word of a URL is compared as it is written: if it is the one that is wanted, so is its stem.
        signs = {stems[word] for word in orders["url"]}
        signs.update(orders["title"], orders["about"], orders["text"])
        signs.update([_sign(name, value) for name in self._exact for value in paper.exact[name]])
        return signs

    def _learn(self, signs: set[str], lookup: _Lookup) -> None:
        self._pages += 1
        if self._pages % self._sampled:
            return
        self._counted += 1
        self._seen.update(signs & lookup.known)
        if self._counted >= self._choose_at:
            self._choose_at *= _AGAIN
            self._languages.clear()

    def _lookup(self, language: str) -> _Lookup:
        lookup = _Lookup({self._words.stem(word, language) for word in self._known})
        for query in self._queries:
            needed, anchors = self._needed(query, language), self._anchors(query, language)[1]
            lookup.add(needed, {anchor: self._second(anchor, needed) for anchor in anchors})
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


class _Lookup:
    """The queries by their anchors, for pages in one language."""

    def __init__(self, known: set[str]) -> None:
        self.known = known
        """All terms that any query names."""
        self._by_anchor: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)
        self._needed: list[frozenset[str]] = []

    def add(self, needed: frozenset[str], anchors: Mapping[str, str]) -> None:
        """Let the next query be found by its anchors, each with a sign that is asked for before others."""
        for anchor, second in anchors.items():
            self._by_anchor[anchor].append((len(self._needed), second))
        self._needed.append(needed)

    def candidates(self, signs: set[str]) -> set[int]:
        """The queries that may hold of a page with some signs."""
        needed = self._needed
        return {
            number
            for anchor in self._by_anchor.keys() & signs
            for number, second in self._by_anchor[anchor]
            if second in signs and needed[number] <= signs
        }


def _sign(field: str, value: str) -> str:
    """A value of an exact field as a sign; no term has a space."""
    return f"{field} {value}"
