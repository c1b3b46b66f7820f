"""From texts to the terms by which they are found: words, their stems in the language of the text, bigrams.

A word of a text counts as its stem in the language of that text (Snowball's rules), so that *a word of a
query is in a text if its stem in the text's language is*. Texts in scripts that are written without spaces
between words are cut into pairs of neighbouring characters. All else is compared without case and in
Unicode's form for comparing (NFKC). Search and profiles share these rules, so both find the same.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from operator import add
from types import MappingProxyType
from typing import Final, NamedTuple

from Stemmer import Stemmer

from gcs.core.frequent import FREQUENT

MAX_TERM: Final = 64
"""Characters of a term; longer ones are cut."""
_MEMORY: Final = 200_000
"""Words of a language whose stems are remembered."""

_ALGORITHMS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "ar": "arabic",
        "ca": "catalan",
        "cs": "czech",
        "da": "danish",
        "de": "german",
        "el": "greek",
        "en": "english",
        "eo": "esperanto",
        "es": "spanish",
        "et": "estonian",
        "eu": "basque",
        "fa": "persian",
        "fi": "finnish",
        "fr": "french",
        "ga": "irish",
        "hi": "hindi",
        "hu": "hungarian",
        "hy": "armenian",
        "id": "indonesian",
        "it": "italian",
        "lt": "lithuanian",
        "nb": "norwegian",
        "ne": "nepali",
        "nl": "dutch",
        "nn": "norwegian",
        "no": "norwegian",
        "pl": "polish",
        "pt": "portuguese",
        "ro": "romanian",
        "ru": "russian",
        "sr": "serbian",
        "sv": "swedish",
        "ta": "tamil",
        "tr": "turkish",
        "yi": "yiddish",
    }
)
LANGUAGES: Final = frozenset(_ALGORITHMS)
"""Those with rules for stems."""

_PLAIN: Final = "".join(chr(code).lower() if chr(code).isalnum() else " " for code in range(128))
"""What characters of ASCII become before words are cut at spaces."""
_CUT: Final = _PLAIN.encode() + bytes(range(128, 256))
"""The same for bytes of UTF-8."""
# Vowel signs and accents that stand apart belong to their words; Python's \w leaves them out.
_MARKS: Final = (
    "\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f\u0670"
    "\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed\u0900-\u0963\u0966-\u0dff\u1ab0-\u1aff\u20d0-\u20ff"
)
_WORD: Final = re.compile(f"[\\w{_MARKS}]+")
_UNSPACED: Final = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3130-\u318f\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff"
)
_ANY_UNSPACED: Final = re.compile(f"[{_UNSPACED}]")
_ALL_UNSPACED: Final = re.compile(f"[{_UNSPACED}]+")
_RUN: Final = re.compile(f"[{_UNSPACED}]+|[^{_UNSPACED}]+")


class Span(NamedTuple):
    """A term, and where in its text it is."""

    term: str
    start: int
    end: int


class Stems(dict[str, str]):
    """What words become in one language."""

    def __init__(self, stem: Callable[[str], str]) -> None:
        super().__init__()
        self._stem = stem

    def __missing__(self, word: str) -> str:
        if len(self) >= _MEMORY:
            self.clear()
        stem = self[word] = self.of(word)
        return stem

    def of(self, word: str) -> str:
        """What a word becomes, which is not remembered."""
        return self._stem(word[:MAX_TERM])[:MAX_TERM] or word[:MAX_TERM]


class Words:
    """The rules, with a memory of stems that were found before."""

    def __init__(self) -> None:
        self._stems: dict[str, Stems] = {}
        self._frequent: dict[str, frozenset[str]] = {}

    def terms(self, text: str, language: str = "") -> list[str]:
        """The terms of a text in a language, in their order."""
        stems = self.stems(language)
        return [stems[word] for word in self.words(text)]

    def words(self, text: str) -> list[str]:
        """The words of a text, as they are written but for case; bigrams where there are no spaces."""
        if text.isascii():
            return text.translate(_PLAIN).split()
        folded = folding(text)
        # Spaces at what is ASCII leave words, where no other sign stands; that takes half the time.
        words = (
            folded.encode("utf-8", "surrogatepass").translate(_CUT).decode("utf-8", "surrogatepass").split()
        )
        if not "".join(words).isalnum():
            words = _WORD.findall(folded)
        if _ANY_UNSPACED.search(folded) is None:
            return words
        return [term for word in words for term in _parts(word)]

    def spans(self, text: str, language: str = "") -> list[Span]:
        """The terms of a text with their places in it; of a text that folding lengthens, none."""
        folded = text.lower().replace("_", " ") if len(folding(text)) != len(text) else folding(text)
        if len(folded) != len(text):
            return []
        stems = self.stems(language)
        return [Span(stems[each.term], each.start, each.end) for each in _spans(folded)]

    def stem(self, word: str, language: str) -> str:
        """What a word of a query is in a text of a language."""
        return self.stems(language)[word]

    def stems(self, language: str) -> Stems:
        """What words become in a language, by word; any word can be looked up."""
        # One for all languages without rules, or there would be as many as pages can name.
        name = rules(language)
        stems = self._stems.get(name)
        if stems is None:
            stems = self._stems[name] = Stems(Stemmer(_ALGORITHMS[name], 0).stemWord if name else str)
        return stems

    def frequent(self, language: str) -> frozenset[str]:
        """The terms that nearly every text of a language has, as far as they are known."""
        name = rules(language)
        found = self._frequent.get(name)
        if found is None:
            found = self._frequent[name] = frozenset(self.terms(FREQUENT.get(name, ""), name))
        return found


def rules(language: str) -> str:
    """The language by whose rules words of a language become stems; "" if there are none for it."""
    if language in _ALGORITHMS:
        return language
    folded = folding(language)
    return folded if folded in _ALGORITHMS else ""


def folding(text: str) -> str:
    """A text as it is compared."""
    if text.isascii():
        return text.lower().replace("_", " ")
    return unicodedata.normalize("NFKC", text).casefold().replace("_", " ")


def _parts(word: str) -> list[str]:
    """A word, or the pairs of characters of its parts without spaces."""
    if word.isascii():
        return [word]
    if _ALL_UNSPACED.fullmatch(word) is not None:
        return [*map(add, word, word[1:])] or [word]
    if _ANY_UNSPACED.search(word) is None:
        return [word]
    found: list[str] = []
    for run in _RUN.findall(word):
        if len(run) > 1 and _ANY_UNSPACED.match(run):
            found += map(add, run, run[1:])
        else:
            found.append(run)
    return found


def _spans(folded: str) -> Iterator[Span]:
    for found in _WORD.finditer(folded):
        word, at = found[0], found.start()
        if _ANY_UNSPACED.search(word) is None:
            yield Span(word, at, found.end())
            continue
        for run in _RUN.finditer(word):
            start, end = at + run.start(), at + run.end()
            if end - start > 1 and _ANY_UNSPACED.match(run[0]):
                for first in range(start, end - 1):
                    yield Span(folded[first : first + 2], first, first + 2)
            else:
                yield Span(run[0], start, end)
