"""Synthetic languages whose words are as frequent, as long and as alike as those of real ones.

The words of a language follow two power laws: up to a rank b a frequency falls with the rank, beyond it with
its power γ, and there is no last word. M. Gerlach and E. G. Altmann found this in books of several languages
("Stochastic model for the vocabulary growth in natural languages", Physical Review X 3, 021006, 2013). The b
and γ here are of the size that fits English. So a million summaries have many different words, and most of
what they say is said in few.

The fifty most frequent words are those of the real language, and as frequent as the law says. Others are made
of syllables, frequent ones of fewer; a third are another word with an ending that the language has. Japanese
has particles in hiragana, words in katakana, and the others in kanji, without spaces.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import numpy as np
from numpy.typing import NDArray

CORE = 7_873
STEEPNESS = 1.77
_ONSETS = {
    "en": (
        "",
        "b",
        "c",
        "d",
        "f",
        "g",
        "h",
        "l",
        "m",
        "n",
        "p",
        "r",
        "s",
        "t",
        "w",
        "st",
        "tr",
        "th",
        "ch",
        "pl",
    ),
    "de": (
        "",
        "b",
        "d",
        "f",
        "g",
        "h",
        "k",
        "l",
        "m",
        "n",
        "r",
        "s",
        "t",
        "w",
        "z",
        "sch",
        "st",
        "pf",
        "kr",
        "gr",
    ),
    "fr": (
        "",
        "b",
        "c",
        "d",
        "f",
        "g",
        "j",
        "l",
        "m",
        "n",
        "p",
        "r",
        "s",
        "t",
        "v",
        "ch",
        "pr",
        "qu",
        "tr",
        "bl",
    ),
    "es": (
        "",
        "b",
        "c",
        "d",
        "g",
        "h",
        "l",
        "m",
        "n",
        "p",
        "r",
        "s",
        "t",
        "v",
        "ll",
        "pr",
        "tr",
        "qu",
        "gr",
        "cl",
    ),
}
_FIRST = {
    "en": (
        "the to and a i of in you is for it that have on with are s this be was they my at not we will t "
        "but if as or there can great good from me what by has your all like would do an very so he best"
    ),
    "de": (
        "die der und in das den ist mit nicht zu ich für von es auf ein auch sich im eine wir dem des war "
        "am sehr bei an dass hat nach man aus sind noch nur als so über aber sie einer er haben kann werden "
        "vor wie um habe"
    ),
    "fr": (
        "de la le et l à les en est des un du d il une dans au a pour par qui que sur son plus se pas ce "
        "avec s sont qu elle n aux été mais cette ne sa ou c comme on y ses même entre très deux"
    ),
    "es": (
        "de la el en y que a los del se un por con las es una su para al no como más lo fue o este sus ha "
        "pero también entre esta dos ser sobre muy eran son sin ya le desde durante 1 era años tiene todo "
        "donde año"
    ),
}
"""The most frequent words of each, in their order, as counted in a treebank of Universal Dependencies."""
_VOWELS = {
    "en": ("e", "a", "i", "o", "u", "ea", "ou", "ai", "io", "y"),
    "de": ("e", "a", "i", "u", "o", "ei", "ie", "au", "ä", "ü", "ö"),
    "fr": ("e", "a", "i", "u", "o", "é", "ou", "ai", "eu", "è", "oi"),
    "es": ("e", "a", "o", "i", "u", "ie", "ue", "ó", "á", "í", "io"),
}
_CODAS = {
    "en": ("", "n", "r", "s", "t", "l", "d", "m", "nd", "ng", "ck", "st"),
    "de": ("", "n", "r", "s", "t", "l", "ch", "nd", "ng", "m", "rt", "st"),
    "fr": ("", "n", "r", "s", "t", "l", "nt", "m", "x", "c", "rs", "nd"),
    "es": ("", "n", "r", "s", "l", "d", "z", "", "n", "s", "r", ""),
}
_ENDINGS = {
    "en": ("s", "ed", "ing", "er", "ly", "es", "ness"),
    "de": ("en", "e", "er", "es", "ung", "lich", "t"),
    "fr": ("s", "e", "es", "er", "ment", "tion", "ent"),
    "es": ("s", "o", "a", "os", "as", "ción", "mente"),
}
_HIRAGANA = "のにはをたがでてとしれさいるあらもなりまか"
_KATAKANA = "アイウエオカキクケコサシスセソタチツテトナニハヒフヘホマミムメモラリルレロンー"
_KANJI = 2_136
"""As many are in daily use."""
_PARTICLES = 60
_WITHOUT_ENDING = 100


def _zipf(random: Random, count: int) -> int:
    """One of some things, of which the first are the most frequent."""
    return int((count + 1) ** random.random()) - 1


class Language:
    """A language by its code; words are by their ranks, the most frequent is 1."""

    def __init__(self, code: str) -> None:
        self.code = code
        self.between = "" if code == "ja" else " "
        """What is written between words."""
        self._spelled: dict[int, str] = dict(enumerate(_FIRST.get(code, "").split(), 1))

    def words(self, ranks: Sequence[int] | NDArray[np.int64]) -> list[str]:
        """The words with some ranks."""
        return [self.word(int(rank)) for rank in ranks]

    def word(self, rank: int) -> str:
        """The word with a rank; some are spelled as others are."""
        found = self._spelled.get(rank)
        if found is None:
            random = Random(f"{self.code} {rank}")
            found = self._spelled[rank] = (
                _japanese(random, rank) if self.code == "ja" else self._western(random, rank)
            )
        return found

    def _western(self, random: Random, rank: int) -> str:
        if rank > _WITHOUT_ENDING and rank % 3 == 0:
            return self.word(rank // 3) + random.choice(_ENDINGS[self.code])
        count = 1 + (rank > 40) + (rank > 2_000) + (rank > 60_000) * (random.random() < 0.5)
        parts = (_ONSETS, _VOWELS, _CODAS)
        return "".join(
            part[self.code][_zipf(random, len(part[self.code]))] for _ in range(count) for part in parts
        )


def _japanese(random: Random, rank: int) -> str:
    if rank <= _PARTICLES:
        return "".join(random.choices(_HIRAGANA, k=random.choice([1, 1, 2])))
    if rank % 4 == 0:
        return "".join(random.choices(_KATAKANA, k=random.choice([2, 3, 3, 4, 5])))
    count = random.choice([1, 2, 2, 2, 3])
    kanji = "".join(chr(0x4E00 + 9 * _zipf(random, _KANJI)) for _ in range(count))
    return kanji + (random.choice(_HIRAGANA) if rank % 4 == 1 else "")


class Ranks:
    """Draws ranks of words, as often as they are in texts."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        core = 1 / np.arange(1, CORE + 1)
        rest = 1 / (STEEPNESS - 1)
        self._core = np.cumsum(core) / (core.sum() + rest)

    def draw(self, count: int) -> NDArray[np.int64]:
        """Ranks of words that follow each other."""
        chance = self._random.random(count)
        found = np.searchsorted(self._core, chance) + 1
        # Beyond the core the share of words of a higher rank is a power of it.
        beyond = (1 - chance) / (1 - self._core[-1])
        far = CORE * np.maximum(beyond, 1e-12) ** (-1 / (STEEPNESS - 1))
        return np.where(found > CORE, np.minimum(far, 1e9), found).astype(np.int64)
