"""Decompressors of Python's, some bytes at a time, so that no more is in memory than may be."""

from __future__ import annotations

import bz2
import lzma
import struct
import zlib
from typing import Any, Final

from gcs.summary.limits import Refused

_STEP: Final = 1 << 18
_LEAST: Final = 4096


class Stepwise:
    """What is packed goes in with the first call; each call gives some of what comes out, b"" at the end."""

    def __init__(self, decompressor: bz2.BZ2Decompressor | lzma.LZMADecompressor) -> None:
        self._decompressor = decompressor

    def __call__(self, data: bytes) -> bytes:
        """Some more."""
        return b"" if self._decompressor.eof else self._decompressor.decompress(data, _STEP)


class Inflating:
    """The same for deflate."""

    def __init__(self) -> None:
        self._decompressor = zlib.decompressobj(-15)
        self._left = b""

    def __call__(self, data: bytes) -> bytes:
        """Some more."""
        found = self._decompressor.decompress(self._left + data, _STEP)
        self._left = self._decompressor.unconsumed_tail
        return found


def dictionary(declared: int, most: int) -> int:
    """The size of a dictionary of LZMA, of which memory is taken for all: no more than can come out of it."""
    return max(_LEAST, min(declared, most))


def lzma1(properties: bytes, most: int) -> dict[str, Any]:
    """A filter for raw LZMA, from the properties that stand before it; `most` is what can come out."""
    if len(properties) < 5:
        raise Refused("damaged: the properties of a codec")
    first, declared = struct.unpack_from("<BI", properties)
    rest, lc = divmod(first, 9)
    pb, lp = divmod(rest, 5)
    return {"id": lzma.FILTER_LZMA1, "dict_size": dictionary(declared, most), "lc": lc, "lp": lp, "pb": pb}
