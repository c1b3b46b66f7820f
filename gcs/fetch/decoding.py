"""Content codings, taken off a body that is in memory, within bounds.

What comes out is never longer than the limit, whatever went in, and never more than `max_ratio` times what
was read for it once it is past FREE_BYTES. Decoding is done on the whole raw body at once: that is how most
pages come, and the raw body is bounded already.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias, cast

import brotli
import zstandard
from isal import isal_zlib

from gcs.fetch.outcome import Reason

ACCEPTED: Final = "gzip, br, zstd"
FREE_BYTES: Final = 64 << 10
"""Up to here a body may be any number of times as long as it was sent: short pages of blanks are no bombs."""
MAX_CODINGS: Final = 3

_InflateError = cast("type[Exception]", isal_zlib.error)
_MAX_MEMBERS = 64
"""Parts of one gzip body; each costs a copy of all that follow."""
_MAX_ZSTD_WINDOW = 8 << 20
_SLICE = 512
_ZSTD_STEP = 128 << 10
_NO_CODING = frozenset({"", "identity", "none", "utf-8", "utf8", "binary", "8bit", "7bit", "chunked"})
"""What servers say when they mean that the body is as it is; chunking is off already."""


class Decoded(NamedTuple):
    """A body, and "" or why it is not whole, in the words of WARC-Truncated."""

    body: bytes
    truncated: str


@dataclass(frozen=True, slots=True)
class Undecodable:
    """There is no body worth having, and why."""

    reason: Reason
    detail: str


class _Part(NamedTuple):
    """What a decoder made of a body: at most the limit, from so many bytes, to the end of the data or not."""

    data: bytes
    consumed: int
    whole: bool


_Decoder: TypeAlias = Callable[[bytes, int], _Part]


class _Corrupt(Exception):
    """The data is not what the coding says; carries what could be read before that showed."""

    def __init__(self, part: _Part) -> None:
        """Keep what there is."""
        super().__init__()
        self.part = part


def codings(headers: Mapping[str, str]) -> tuple[str, ...]:
    """The codings of a body in the order in which they were applied; those that change nothing left out."""
    applied = f"{headers.get('content-encoding', '')},{headers.get('transfer-encoding', '')}".lower()
    return tuple(name for name in map(str.strip, applied.split(",")) if name not in _NO_CODING)


def decode(raw: bytes, applied: tuple[str, ...], *, max_bytes: int, max_ratio: int) -> Decoded | Undecodable:
    """Take the codings off, the last first."""
    if len(applied) > MAX_CODINGS:
        return Undecodable(Reason.CODING, f"The body has {len(applied)} codings, over {MAX_CODINGS}.")
    body, truncated = raw, ""
    for name in reversed(applied):
        decoder = _DECODERS.get(name)
        if decoder is None:
            return Undecodable(Reason.CODING, f"The body's coding {name[:40]!r} is not known.")
        layer = _decode_one(body, decoder, name, max_bytes, max_ratio)
        if isinstance(layer, Undecodable):
            return layer
        body, truncated = layer.body, layer.truncated or truncated
    if len(applied) > 1 and len(body) > max(FREE_BYTES, max_ratio * len(raw)):
        return _bomb(max_ratio)
    return Decoded(body, truncated)


def _decode_one(
    data: bytes, decoder: _Decoder, name: str, max_bytes: int, max_ratio: int
) -> Decoded | Undecodable:
    most = min(max_bytes, max(FREE_BYTES, max_ratio * len(data)))
    truncated = ""
    try:
        part = decoder(data, most + 1)
    except _Corrupt as found:
        part, truncated = found.part, "unspecified"
    if not part.data and not part.whole:
        return Undecodable(Reason.CODING, f"The body is not {name}, though the header says so.")
    size = len(part.data)
    if size > max(FREE_BYTES, max_ratio * part.consumed):
        return _bomb(max_ratio)
    if size > max_bytes:
        return Decoded(part.data[:max_bytes], "length")
    return Decoded(part.data, truncated or ("" if part.whole else "unspecified"))


def _bomb(max_ratio: int) -> Undecodable:
    return Undecodable(Reason.RATIO, f"The body decodes to more than {max_ratio} times its size.")


def _gzip(data: bytes, limit: int) -> _Part:
    """All members of a gzip file; what follows the last and is no gzip is left away, as everybody does."""
    parts: list[bytes] = []
    left, whole = limit, True
    rest = data
    for _ in range(_MAX_MEMBERS):
        try:
            member, rest, whole = _inflate(rest, left, 31)
        except _Corrupt:
            if not parts:
                raise
            whole = False
            break
        parts.append(member)
        left -= len(member)
        if not whole or left <= 0 or rest[:2] != b"\x1f\x8b":
            break
    else:
        whole = False
    return _Part(parts[0] if len(parts) == 1 else b"".join(parts), len(data) - len(rest), whole)


def _deflate(data: bytes, limit: int) -> _Part:
    """The zlib format, which the standard means, or bare deflate, which some servers send."""
    wrapped = len(data) > 1 and data[0] & 15 == 8 and (data[0] << 8 | data[1]) % 31 == 0
    out, rest, whole = _inflate(data, limit, 15 if wrapped else -15)
    return _Part(out, len(data) - len(rest), whole)


def _inflate(data: bytes, limit: int, window: int) -> tuple[bytes, bytes, bool]:
    """What one stream decodes to, what is left of the data, and whether the stream came to its end."""
    stream = isal_zlib.decompressobj(wbits=window)
    try:
        out = stream.decompress(data, limit)
    except _InflateError:
        again = isal_zlib.decompressobj(wbits=window)
        raise _Corrupt(_before_error(data, limit, again.decompress, _InflateError)) from None
    return out, stream.unused_data or stream.unconsumed_tail, stream.eof


def _brotli(data: bytes, limit: int) -> _Part:
    stream = brotli.Decompressor()
    parts: list[bytes] = []
    size = at = 0
    step = FREE_BYTES
    try:
        while at < len(data) and size < limit and not stream.is_finished():
            part = stream.process(data[at : at + step], output_buffer_limit=limit - size)
            at = min(at + step, len(data))
            parts.append(part)
            size += len(part)
    except brotli.error:
        again = brotli.Decompressor()
        part = _before_error(data, limit, lambda d, n: again.process(d, output_buffer_limit=n), brotli.error)
        raise _Corrupt(part) from None
    out = parts[0] if len(parts) == 1 else b"".join(parts)
    return _Part(out if size <= limit else out[:limit], at, stream.is_finished())


def _zstd(data: bytes, limit: int) -> _Part:
    """All frames. The decoder does not say whether the last one was whole."""
    source = io.BytesIO(data)
    reader = zstandard.ZstdDecompressor(max_window_size=_MAX_ZSTD_WINDOW).stream_reader(
        source, read_across_frames=True, read_size=_ZSTD_STEP
    )
    parts: list[bytes] = []
    size = 0
    try:
        while size < limit and (part := reader.read(min(_ZSTD_STEP, limit - size))):
            parts.append(part)
            size += len(part)
    except zstandard.ZstdError:
        raise _Corrupt(_Part(b"".join(parts), source.tell(), whole=False)) from None
    return _Part(parts[0] if len(parts) == 1 else b"".join(parts), source.tell(), whole=size > 0)


def _before_error(
    data: bytes, limit: int, step: Callable[[bytes, int], bytes], error: type[Exception]
) -> _Part:
    """What can be decoded before the damage; a decoder that fails keeps what it made of the same piece."""
    out, at = bytearray(), 0
    with suppress(error):
        while at < len(data) and len(out) < limit:
            piece = data[at : at + _SLICE]
            at += len(piece)
            out += step(piece, limit - len(out))
    return _Part(bytes(out[:limit]), at, whole=False)


_DECODERS: Mapping[str, _Decoder] = {
    "gzip": _gzip,
    "x-gzip": _gzip,
    "deflate": _deflate,
    "br": _brotli,
    "zstd": _zstd,
}
