"""ZIP and JAR: the members of the central directory, if the archive says the same thing in every way.

Refused are archives whose members lie on top of each other, as those of bombs do, and members that are
encrypted, or that the list calls otherwise than they call themselves.
"""

from __future__ import annotations

import bz2
import io
import lzma
import struct
import zipfile
import zlib
from collections.abc import Iterator
from itertools import pairwise

from gcs.summary.deep import unreadable
from gcs.summary.expanders.stepwise import Stepwise, lzma1
from gcs.summary.limits import Budget, Refused
from gcs.summary.plugins import Part

_LOCAL_HEADER = 30
_NAME_LENGTH = 26
_ENCRYPTED = 0x1
_WHOLE = frozenset({zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA})
"""Methods of which `zipfile` takes at once whatever comes out."""
_METHODS = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, *_WHOLE})


def expand(part: Part, budget: Budget) -> Iterator[Part]:
    """The members of an archive; raises Refused, or what `zipfile` raises."""
    with zipfile.ZipFile(io.BytesIO(part.body)) as archive:
        infos = [info for info in archive.infolist() if not info.is_dir()]
        _refuse_overlaps(infos)
        for info in infos:
            yield _member(archive, info, part.body, budget)


def _refuse_overlaps(infos: list[zipfile.ZipInfo]) -> None:
    places = sorted((info.header_offset, info.compress_size) for info in infos)
    for (offset, length), (following, _) in pairwise(places):
        if offset + _LOCAL_HEADER + length > following:
            raise Refused("a bomb: members lie on top of each other")


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, body: bytes, budget: Budget) -> Part:
    name = info.filename
    if info.flag_bits & _ENCRYPTED:
        return unreadable(name, "encrypted")
    if info.compress_type not in _METHODS:
        return unreadable(name, f"compressed by an unknown method ({info.compress_type})")
    if not _is_called(body, info):
        return unreadable(name, "ambiguous: it has another name in the list than by itself")
    try:
        if info.compress_type in _WHOLE:
            data = _unpacked(info, body, budget)
        else:
            with archive.open(info) as stream:
                data = budget.read(stream)
    except (zipfile.BadZipFile, OSError, EOFError, ValueError, lzma.LZMAError, zlib.error) as error:
        return unreadable(name, f"damaged: {error}")
    return unreadable(name, "larger than a member may be") if data is None else Part(data, name, "")


def _unpacked(info: zipfile.ZipInfo, body: bytes, budget: Budget) -> bytes | None:
    """A member that is packed by bzip2 or LZMA; None if it is longer than a member may be."""
    if info.file_size > budget.limits.member_bytes:
        return None
    lengths = struct.unpack_from("<HH", body, info.header_offset + _NAME_LENGTH)
    start = info.header_offset + _LOCAL_HEADER + sum(lengths)
    packed = body[start : start + info.compress_size]
    if info.compress_type == zipfile.ZIP_LZMA:
        begins = 4 + int.from_bytes(packed[2:4], "little")
        filters = [lzma1(packed[4:begins], info.file_size)]
        step, packed = Stepwise(lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=filters)), packed[begins:]
    else:
        step = Stepwise(bz2.BZ2Decompressor())
    data = bytearray()
    while len(data) < info.file_size:
        found, packed = step(packed), b""
        if not found:
            raise EOFError("it ends too early")
        budget.take(len(found))
        data += found
    whole = bytes(data[: info.file_size])
    if zlib.crc32(whole) != info.CRC:
        raise zipfile.BadZipFile("its checksum is another")
    return whole


def _is_called(body: bytes, info: zipfile.ZipInfo) -> bool:
    """Whether a member's own header has the name that the list has; `zipfile` looks at less of it."""
    at = info.header_offset + _LOCAL_HEADER
    (length,) = struct.unpack_from("<H", body, info.header_offset + _NAME_LENGTH)
    return body[at : at + length] in {
        info.orig_filename.encode("utf-8", "replace"),
        info.orig_filename.encode("cp437", "replace"),
    }
