"""The words that a text is about, by where they stand in it; no word list, and no other text, is needed.

In any language the words that a text is about come in clusters, where it speaks of them, and those that hold
it together come evenly. So a word counts by how much more unevenly it stands than chance would have it: the
deviation of the distances between its places, over their mean, normalised for how often it comes (P. Carpena
et al., "Level statistics of words", Physical Review E 79, 035102, 2009). That needs some repetition; so
beside it counts how often a word comes, and how long it is: the commonest words of a language are its
shortest (Zipf).

Scripts without spaces have no words to be seen. There short runs of characters count that come several times
and are not only a part of a longer such run; in Japanese also all that stands in katakana, and no hiragana.
"""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Sequence
from math import log2, sqrt
from typing import Final

READ: Final = 100_000
"""Characters of a text that are looked at."""
_MOST: Final = 12
_HAN = r"\u3005\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_KANA = r"\u30a1-\u30ff"
_OTHERS = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
_SPACELESS = rf"{_HAN}{_KANA}{_OTHERS}\u3040-\u30a0"
_WORD = re.compile(
    rf"([{_HAN}]+)|([{_OTHERS}]+)|[{_KANA}]+|(?![{_SPACELESS}\d_])\w(?:(?![{_SPACELESS}_])[\w'’-])*(?<=\w)"
)
_IS_SPACELESS = re.compile(rf"[{_HAN}{_OTHERS}]")
_SHORTEST: Final = 3
_OFTEN: Final = 3
_HAN_RUNS: Final = (2, 3, 4)
_OTHER_RUNS: Final = (3, 4, 5, 6)


def keywords(text: str, *, most: int = _MOST) -> tuple[str, ...]:
    """The words that a text is about, the most telling first; none for a text that repeats nothing."""
    places: dict[str, list[int]] = defaultdict(list)
    spelled: dict[str, str] = {}
    count = 0
    for found in _WORD.finditer(text[:READ]):
        word, is_han = found[0], bool(found[1])
        if is_han or found[2]:
            count += _add_runs(word, count, places, _HAN_RUNS if is_han else _OTHER_RUNS)
            continue
        folded = word.casefold()
        if len(word) >= _SHORTEST:
            places[folded].append(count)
            spelled.setdefault(folded, word)
        count += 1
    least = 2 if count < 200 else _OFTEN
    often = {word: at for word, at in places.items() if len(at) >= least}
    kept = _without_parts(often)
    ranked = sorted(kept, key=lambda word: (-_score(word, kept[word], count), kept[word][0]))
    return tuple(spelled.get(word, word) for word in ranked[:most])


def _add_runs(run: str, start: int, places: dict[str, list[int]], sizes: Sequence[int]) -> int:
    """Count all short runs within a run of characters; each character counts as a place."""
    for size in sizes:
        for at in range(len(run) - size + 1):
            places[run[at : at + size]].append(start + at)
    return len(run)


def _without_parts(often: dict[str, list[int]]) -> dict[str, list[int]]:
    """Without runs that hardly ever stand alone: those within a longer one that comes nearly as often."""
    parts: set[str] = set()
    for run, at in often.items():
        if not _IS_SPACELESS.match(run):
            continue
        for size in range(2, len(run)):
            for start in range(len(run) - size + 1):
                piece = run[start : start + size]
                if piece in often and len(at) * 4 >= len(often[piece]) * 3:
                    parts.add(piece)
    return {run: at for run, at in often.items() if run not in parts}


def _score(word: str, places: list[int], count: int) -> float:
    times = len(places)
    length = 2 * len(word) if _IS_SPACELESS.match(word) else len(word)
    # A word in every line carries nothing, however long; nor does one that came twice in a book.
    weight = sqrt(times) * log2(max(2.0, count / times)) * min(length, 12)
    return weight * (1.0 + max(0.0, _clustering(places, count)))


def _clustering(places: list[int], count: int) -> float:
    """How many deviations the places are more uneven than by chance."""
    times = len(places)
    if times < _OFTEN or times >= count:
        return 0.0
    bounds = [-1, *places, count]
    distances = [after - before for before, after in itertools.pairwise(bounds)]
    mean = sum(distances) / len(distances)
    deviation = sqrt(sum((each - mean) ** 2 for each in distances) / len(distances)) / mean
    normal = deviation / sqrt(max(1e-9, 1.0 - times / count))
    expected = (2 * times - 1) / (2 * times + 2)
    spread = 1 / (sqrt(times) * (1 + 2.8 * float(times) ** -0.865))
    return float((normal - expected) / spread)
