"""What one stream was packed into: gzip, bzip2, xz and zstd. Its one member is what was packed.

A `.tar.gz` is a TAR with gzip around it, and its files are members of the whole: `a.tar.gz!/x`, not
`a.tar.gz!/a.tar!/x`.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
from collections.abc import Iterator
from typing import IO, Final
from urllib.parse import unquote

import zstandard

from gcs.summary.expanders import tars
from gcs.summary.limits import Budget, Refused
from gcs.summary.names import name_of
from gcs.summary.plugins import Part
from gcs.summary.recognise import recognise

_ENDINGS: Final = {".tgz": ".tar", ".tbz2": ".tar", ".txz": ".tar", ".tzst": ".tar"}
_PACKED: Final = (".gz", ".bz2", ".xz", ".lzma", ".zst")
_MAX_WINDOW: Final = 64 << 20
_MEMORY_BYTES: Final = 128 << 20
_SKIPPABLE: Final = b"\x2a\x4d\x18"
_MAX_FRAME_HEADER: Final = 18


def expand(part: Part, budget: Budget) -> Iterator[Part]:
    """What was packed, or its files if that is a TAR; raises Refused when it is cut off or damaged."""
    data = unpacked(part, budget)
    name = _name(part.url)
    inner = recognise("", f"/{name}", data).media_type
    if inner == "application/x-tar":
        yield from tars.expand(part._replace(body=data, media_type=inner), budget)
    else:
        yield Part(data, name, "")


def unpacked(part: Part, budget: Budget) -> bytes:
    """All that was packed; raises Refused."""
    try:
        with _opened(part) as stream:
            data = budget.read(stream)
    except EOFError:
        raise Refused("truncated") from None
    except (OSError, lzma.LZMAError, zstandard.ZstdError, ValueError) as error:
        raise Refused(f"damaged: {error}") from None
    if data is None:
        raise Refused("larger than a member may be")
    if part.media_type == "application/zstd" and not _is_whole_zstd(part.body):
        raise Refused("truncated")
    return data


def _is_whole_zstd(body: bytes) -> bool:
    """Whether the last frame comes to its end, which the library does not say (RFC 8878, section 3.1)."""
    at = 0
    while at < len(body):
        if body[at + 1 : at + 4] == _SKIPPABLE:
            at += 8 + int.from_bytes(body[at + 4 : at + 8], "little")
            continue
        frame = zstandard.get_frame_parameters(body[at : at + _MAX_FRAME_HEADER])
        at += zstandard.frame_header_size(body[at : at + _MAX_FRAME_HEADER])
        is_last = False
        while not is_last:
            if at + 3 > len(body):
                return False
            header = int.from_bytes(body[at : at + 3], "little")
            is_last, is_repeated = bool(header & 1), header >> 1 & 3 == 1
            at += 3 + (1 if is_repeated else header >> 3)
        at += 4 * frame.has_checksum
    return at == len(body)


def _opened(part: Part) -> IO[bytes]:
    body = io.BytesIO(part.body)
    if part.media_type == "application/x-bzip2":
        return bz2.BZ2File(body)
    if part.media_type == "application/x-xz":
        return _Unxz(body)
    if part.media_type == "application/zstd":
        unpacking = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW)
        return unpacking.stream_reader(body, read_across_frames=True)
    return gzip.GzipFile(fileobj=body)  # type: ignore[return-value] # the same


class _Unxz(lzma.LZMAFile):
    """xz that may not take any amount of memory; the file's own class knows no limit."""

    def __init__(self, body: io.BytesIO) -> None:
        decompressor = lzma.LZMADecompressor(memlimit=_MEMORY_BYTES)
        decompressor.decompress(body.read(64), 1)
        body.seek(0)
        super().__init__(body)


def _name(url: str) -> str:
    name = unquote(name_of(url)) or "unnamed"
    for ending, instead in _ENDINGS.items():
        if name.lower().endswith(ending):
            return name[: -len(ending)] + instead
    for ending in _PACKED:
        if name.lower().endswith(ending) and len(name) > len(ending):
            return name[: -len(ending)]
    return f"{name}.unpacked" if name else "unpacked"
