"""Which module reads which format, and which expands it: names only, so that nothing is imported for it.

What is listed here is read apart from the gatherer, in a process with limits (`gcs.summary.workshop`). A
reader is a function from a `Part` and `Limits` to a `Document`, an expander one from a `Part` and a `Budget`
to `Part`s; both may raise whatever they like. HTML and plain text are read in place and are not listed.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final

from gcs.summary.recognise import MARKUP

_OOXML = "application/vnd.openxmlformats-officedocument."
_ODF = "application/vnd.oasis.opendocument."
_READERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "application/pdf": "pdf:read",
        "application/epub+zip": "epub:read",
        "application/rtf": "rtf:read",
        "application/msword": "ole:read",
        "application/vnd.ms-excel": "ole:read",
        "application/vnd.ms-powerpoint": "ole:read",
        "application/x-ole-storage": "ole:read",
        "text/markdown": "markdown:read",
        "text/csv": "tables:read_csv",
        "text/tab-separated-values": "tables:read_csv",
        "application/vnd.apache.parquet": "tables:read_parquet",
        "application/json": "data:read_json",
        "application/x-ndjson": "data:read_json",
        "application/yaml": "data:read_yaml",
        "application/xml": "xml:read",
        "text/xml": "xml:read",
        "application/rss+xml": "feeds:read",
        "application/rdf+xml": "feeds:read",
        "application/atom+xml": "feeds:read",
        "image/svg+xml": "svg:read",
        "message/rfc822": "mail:read",
        "application/mbox": "mail:read_mbox",
        "text/calendar": "calendars:read",
        "application/ogg": "media:read",
        "application/x-subrip": "subtitles:read",
        "text/vtt": "subtitles:read",
        "text/css": "code:read",
        "text/javascript": "code:read",
        "application/toml": "code:read",
        "application/x-sh": "code:read",
        "application/sql": "code:read",
        "application/x-httpd-php": "code:read",
    }
)
_BY_BEGINNING: Final = (
    (_OOXML, "ooxml:read"),
    (_ODF, "opendocument:read"),
    ("image/", "images:read"),
    ("audio/", "media:read"),
    ("video/", "media:read"),
    ("font/", "fonts:read"),
    ("text/x-", "code:read"),
)
_BY_END: Final = (("+xml", "xml:read"), ("+json", "data:read_json"))
_EXPANDERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "application/zip": "zips:expand",
        "application/java-archive": "zips:expand",
        "application/x-tar": "tars:expand",
        "application/gzip": "packed:expand",
        "application/x-bzip2": "packed:expand",
        "application/x-xz": "packed:expand",
        "application/zstd": "packed:expand",
        "application/x-7z-compressed": "sevenzip:expand",
        "application/warc": "warcs:expand",
        "message/rfc822": "mailboxes:expand_message",
        "application/mbox": "mailboxes:expand",
    }
)


def reader_of(media_type: str) -> str:
    """The name of what reads a format; "" for nothing."""
    if media_type in MARKUP:
        return ""
    if found := _READERS.get(media_type):
        return found
    for beginning, name in _BY_BEGINNING:
        if media_type.startswith(beginning):
            return name
    return next((name for end, name in _BY_END if media_type.endswith(end)), "")


def expander_of(media_type: str) -> str:
    """The name of what expands a format; "" for nothing."""
    return _EXPANDERS.get(media_type, "")


def is_apart(media_type: str) -> bool:
    """Whether a format is read in a process of its own."""
    return media_type in _EXPANDERS or bool(reader_of(media_type))


def loaded(package: str, name: str) -> Any:
    """The function of a name, imported."""
    module, _, function = name.partition(":")
    return getattr(import_module(f"gcs.summary.{package}.{module}"), function)
