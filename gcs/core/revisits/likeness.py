"""Whether a page that is not the same is another one: its words and its links, in a few bytes.

`words_of` is a simhash of 64 bits (Charikar, 2002; Manku and others, Detecting Near-Duplicates for Web
Crawling, 2007): of pages that differ in one word of a hundred, each counted once, it differs in about three
bits. So another advertisement, date or counter does not make another page. `links_of` keeps the links whose
hashes are the smallest, which are a fair sample of all; up to so many links it keeps all of them, and
`change` is exact.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Final
from zlib import crc32

from gcs.core import ranking

NEAR: Final = 3
"""Bits in which the words of two pages may differ that count as one."""
LINKS: Final = 32
_LINK_BYTES: Final = 3
_BITS: Final = 64
_UNSEEN = re.compile(rb"<(script|style)\b.*?</\1\s*>|<[^>]*>", re.IGNORECASE | re.DOTALL)
_MIX: Final = 0x9E3779B97F4A7C15
_MASK: Final = 0xFFFFFFFFFFFFFFFF


def words_of(body: bytes) -> int:
    """The words of a page, markup left out, in 64 bits; 0 for a page without any."""
    import numpy as np

    hashes = list(map(crc32, set(_UNSEEN.sub(b" ", body).split())))
    if not hashes:
        return 0
    # A checksum is spread over 64 bits by multiplication, and each bit is counted for itself.
    mixed = (np.array(hashes, np.uint64) + np.uint64(1)) * np.uint64(_MIX)
    mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(32)
    bits = np.unpackbits(mixed.view(np.uint8).reshape(-1, 8), axis=1).sum(axis=0, dtype=np.int64)
    return int.from_bytes(np.packbits(2 * bits > len(hashes)).tobytes(), "big")


def are_alike(one: int, other: int) -> bool:
    """Whether two pages have nearly the same words."""
    return one != 0 and other != 0 and (one ^ other).bit_count() <= NEAR


def links_of(urls: Iterable[str]) -> bytes:
    """A sample of the links of a page."""
    hashes = sorted({crc32(url.encode()) & 0xFFFFFF for url in urls})[:LINKS]
    return b"".join(each.to_bytes(_LINK_BYTES, "big") for each in hashes)


def change(previous: bytes, latest: bytes) -> float:
    """C (004, 4.2), as far as two samples of links tell."""
    before, after = _hashes(previous), _hashes(latest)
    if len(before) == LINKS or len(after) == LINKS:
        # Of the union only the smallest are known for sure to be in one, the other, or both.
        smallest = set(sorted(before | after)[:LINKS])
        before, after = before & smallest, after & smallest
    return ranking.change(_named(before), _named(after))


def _hashes(sample: bytes) -> set[int]:
    return {int.from_bytes(sample[at : at + _LINK_BYTES], "big") for at in range(0, len(sample), _LINK_BYTES)}


def _named(hashes: Collection[int]) -> set[str]:
    return {f"{each:x}" for each in hashes}
