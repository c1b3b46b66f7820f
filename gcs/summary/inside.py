"""What a body is on a closer look: which of the formats that begin alike, and whether it is two at a time.

A polyglot is read by one program as this and by another as that, and none of its summaries would be true.
What counts is a second format that programs find although the file does not begin with it: an archive is
found by its end (ZIP), or by a mark further on (TAR, PDF).
"""

from __future__ import annotations

import io
import re
import struct
import tarfile
import zipfile
import zlib
from typing import Final

import zstandard

from gcs.summary.recognise import OLE, ZIP
from gcs.summary.registry import is_apart

_MEMBER_OF_ZIP: Final = b"PK\x03\x04"
_END_OF_ZIP: Final = b"PK\x05\x06"
_END_BYTES: Final = 22 + 65_535
_ZIPPED: Final = re.compile(
    r"application/(zip|java-archive|epub\+zip|vnd\.openxmlformats|vnd\.oasis|vnd\.android|x-xpinstall)"
)
_OOXML: Final = {
    "word/": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "xl/": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "ppt/": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
}
_OLE: Final = {
    "WordDocument": "application/msword",
    "Workbook": "application/vnd.ms-excel",
    "Book": "application/vnd.ms-excel",
    "PowerPoint Document": "application/vnd.ms-powerpoint",
}
_PDF_WITHIN: Final = 1024
_HAVE_FILES: Final = frozenset(
    {
        *("message/rfc822", "application/mbox", "application/warc", "application/x-tar", "application/gzip"),
        *("application/x-7z-compressed", "application/x-bzip2", "application/x-xz", "application/zstd"),
    }
)
"""Formats in which others may stand as they are."""
_RECORDED: Final = ("image/", "audio/", "video/", "font/")
_WARC: Final = b"WARC/"
_SHORTEST_TAR: Final = 512


def special(media_type: str, body: bytes) -> str:
    """The format that a body with the beginning of some format is in."""
    if media_type == ZIP or (body.startswith(_MEMBER_OF_ZIP) and not is_apart(media_type)):
        return _of_zip(body)
    if body.startswith(OLE):
        return _of_ole(body)
    if media_type in {"application/gzip", "application/zstd"} and _is_warc(body):
        return "application/warc"
    return media_type


def _of_zip(body: bytes) -> str:
    try:
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            names = archive.namelist()[:1000]
    except Exception:  # noqa: BLE001 - whoever expands it says what is wrong
        return ZIP
    if "[Content_Types].xml" in names:
        for folder, media_type in _OOXML.items():
            if any(name.startswith(folder) for name in names):
                return media_type
    if "META-INF/MANIFEST.MF" in names:
        return "application/java-archive"
    return ZIP


def _of_ole(body: bytes) -> str:
    import olefile

    try:
        with olefile.OleFileIO(io.BytesIO(body)) as file:
            return next(
                (found for name, found in _OLE.items() if file.exists(name)), "application/x-ole-storage"
            )
    except Exception:  # noqa: BLE001 - whoever reads it says what is wrong
        return "application/x-ole-storage"


def _is_warc(body: bytes) -> bool:
    """Whether what is packed begins as a WARC file does."""
    try:
        if body.startswith(b"\x1f\x8b"):
            return zlib.decompressobj(31).decompress(body[:4096], 5) == _WARC
        with zstandard.ZstdDecompressor().stream_reader(body) as stream:
            return stream.read(5) == _WARC
    except (zlib.error, zstandard.ZstdError):
        return False


def also(media_type: str, body: bytes) -> str:
    """The other format that a body is in; "" for none."""
    if media_type in _HAVE_FILES:
        return ""
    if _ZIPPED.match(media_type):
        return "" if body.startswith((_MEMBER_OF_ZIP, _END_OF_ZIP)) else "something that stands before it"
    if _ends_as_zip(body, exactly=media_type == "application/pdf"):
        return ZIP
    if media_type.startswith(_RECORDED) and b"%PDF-" in body[:_PDF_WITHIN]:
        return "application/pdf"
    return "application/x-tar" if _is_tar(body) else ""


def _ends_as_zip(body: bytes, *, exactly: bool) -> bool:
    """Whether there is the end of an archive, and its list of members where that says.

    With nothing behind it, if that is wanted: a PDF may have an archive in it.
    """
    at = body.rfind(_END_OF_ZIP, max(0, len(body) - _END_BYTES))
    if at < 0 or len(body) - at < 22:
        return False
    count, size, _, comment = struct.unpack_from("<HIIH", body, at + 10)
    if at + 22 + comment > len(body) or not 0 < size <= at or (exactly and at + 22 + comment < len(body)):
        return False
    return count > 0 and body[at - size : at - size + 4] == b"PK\x01\x02"


def _is_tar(body: bytes) -> bool:
    if len(body) < _SHORTEST_TAR or body[257:262] != b"ustar":
        return False
    try:
        tarfile.TarInfo.frombuf(body[:_SHORTEST_TAR], "utf-8", "replace")
    except tarfile.HeaderError:
        return False
    return True
