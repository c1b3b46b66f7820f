"""How oddly letters stand together when bytes are read in one of the single-byte character sets.

Odd are a capital inside of a word, a sign between letters, and two alphabets in one word. Apart from
`gcs.summary.charsets`, since only texts that are not UTF-8 need it, and NumPy.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gcs.summary.labels import CODECS


class _Reading(NamedTuple):
    """What bytes are in a character set: letters, signs, and which pairs of bytes speak against it."""

    letters: NDArray[np.bool_]
    signs: NDArray[np.bool_]
    odd_pairs: NDArray[np.bool_]


@lru_cache(maxsize=64)
def _reading(name: str) -> _Reading:
    """Odd are a capital after a small letter, two alphabets in one word, and what is no character at all."""
    classes = [_class(bytes([byte]).decode(CODECS[name], "replace"), byte) for byte in range(256)]
    small, capital = (np.array([kind in kinds for kind in classes]) for kinds in ("lc", "LC"))
    alphabet = np.array(["lco".find(kind.lower()) for kind in classes])
    letters = alphabet >= 0
    both = letters[:, None] & letters[None, :]
    odd = (small[:, None] & capital[None, :]) | (both & (alphabet[:, None] != alphabet[None, :]))
    odd[np.array([kind == "x" for kind in classes])] = True
    return _Reading(letters, np.array([kind == "s" for kind in classes]), odd.ravel())


def _class(character: str, byte: int) -> str:
    """Letters: l, L Latin, c, C of an alphabet with two cases, o of one without; s a sign, x nothing."""
    category = unicodedata.category(character)
    if byte < 0x80:
        return {"Ll": "l", "Lu": "L"}.get(category, ".")
    if character == "\ufffd" or category in {"Cc", "Co"}:
        return "x"
    if category in {"Ll", "Lu"}:
        latin = unicodedata.name(character).startswith("LATIN")
        return {"Ll": "cl", "Lu": "CL"}[category][latin]
    if category[0] in "LM":
        return "o"
    return "." if category[0] in "PZ" else "s"


def oddities(sample: bytes, names: Sequence[str]) -> list[int]:
    """How often the letters of a sample stand together in an odd way, for each way to read it."""
    read = np.frombuffer(sample + b"\n", np.uint8)
    pairs, times = np.unique(read[:-1].astype(np.uint16) * 256 + read[1:], return_counts=True)
    middles = np.flatnonzero(read[1:-1] >= 0x80) + 1
    before, middle, after = read[middles - 1], read[middles], read[middles + 1]
    counts = []
    for letters, signs, odd_pairs in map(_reading, names):
        between = np.flatnonzero(signs[middle])
        enclosed = letters[before[between]] & letters[after[between]]
        counts.append(int(times[odd_pairs[pairs]].sum()) + int(np.count_nonzero(enclosed)))
    return counts
