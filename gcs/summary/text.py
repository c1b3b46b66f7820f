"""Texts: how they are cut to size, how many words they have, and a fingerprint of what they say.

The fingerprint is a simhash: texts that share most of their content have fingerprints that differ in few of
64 bits, others in about half. Its features are sixteen bytes from the beginning of a word on, three words or
so; of those about one in eight, chosen by the word's first two bytes, so that every text that has them has
the same ones, whatever stands around. Texts without spaces between words may have a feature at any byte.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gcs.summary import language

FINGERPRINTED: Final = 4_096
"""Bytes of a text that the fingerprint is made of."""

_HALF = 8
_SPACE = 32
_MIX, _MIX_AGAIN, _SHIFT = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F), np.uint64(29)
_SCATTER, _CHOSEN = np.uint16(0x9E37), np.uint16(0x2000)
_ENOUGH = 32


class Facts(NamedTuple):
    """What can be said about a text."""

    language: str
    confidence: float
    words: int
    fingerprint: int


def fitted(text: str, limit: int) -> str:
    """A text with single spaces between its words, cut to a number of characters."""
    short = " ".join(text[: 4 * limit].split())
    if len(short) < limit < len(text) // 4:
        # The beginning is mostly white space.
        short = " ".join(text.split(None, limit)[:limit])
    return short[:limit].rstrip()


def facts(text: str, excerpt: str, *, domain: str = "", lang: str = "", charset: str = "") -> Facts:
    """The facts of a text; its language is that of the excerpt, unless there is more to see in the text."""
    sample = excerpt if len(excerpt) * 2 > language.SAMPLE else fitted(text, language.SAMPLE)
    found = language.identify(sample, domain=domain, lang=lang, charset=charset)
    data = text.encode("utf-8", "replace")
    starts = _word_starts(data)
    return Facts(found.code, found.confidence, int(np.count_nonzero(starts)), _fingerprint(data, starts))


def fingerprint(text: str) -> int:
    """The fingerprint of a text; 0 for one that is too short to have any."""
    data = text.encode("utf-8", "replace")
    return _fingerprint(data, _word_starts(data))


def distance(one: int, other: int) -> int:
    """In how many bits two fingerprints differ; near duplicates do in a few."""
    return (one ^ other).bit_count()


def _word_starts(data: bytes) -> NDArray[np.bool_]:
    """At which bytes words begin: runs of anything but ASCII white space and controls."""
    black = np.frombuffer(b" " + data, np.uint8) > _SPACE
    return black[1:] > black[:-1]


def _fingerprint(data: bytes, starts: NDArray[np.bool_]) -> int:
    places = min(len(data), FINGERPRINTED) - 2 * _HALF + 1
    if places <= 0:
        return 0
    # Overlapping views of eight bytes each, so that a feature is two numbers and nothing is copied.
    runs = np.ndarray((places + _HALF,), "<u8", data, 0, (1,))
    features = _features(np.ndarray((places,), "<u2", data, 0, (1,)), starts[:places])
    hashes = runs.take(features) * _MIX ^ runs.take(features + _HALF) * _MIX_AGAIN
    hashes ^= hashes >> _SHIFT
    hashes *= _MIX
    bits = np.unpackbits(hashes.view(np.uint8)).reshape(-1, 64)
    votes = np.add.reduce(bits, 0, dtype=np.uint16)
    return int.from_bytes(np.packbits(votes > len(features) // 2).tobytes(), "little")


def _features(pairs: NDArray[np.uint16], starts: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Where features begin; of a text that has few words, or few of the chosen ones, more are taken."""
    chosen = pairs * _SCATTER < _CHOSEN
    for places in (starts & chosen, chosen):
        features = np.flatnonzero(places)
        if len(features) > _ENOUGH + len(starts) // 512:
            return features
    return np.arange(len(starts))
