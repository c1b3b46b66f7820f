"""What the ending of a name stands for, and the one name of each media type that has several."""

from __future__ import annotations

import mimetypes
from functools import lru_cache
from types import MappingProxyType
from typing import Final
from urllib.parse import unquote

SEPARATOR: Final = "!/"
"""Between the address of an archive and the name of a member."""

ALIASES: Final = MappingProxyType(
    {
        "application/x-zip-compressed": "application/zip",
        "application/x-zip": "application/zip",
        "application/x-gzip": "application/gzip",
        "application/x-bzip": "application/x-bzip2",
        "application/bzip2": "application/x-bzip2",
        "application/x-lzma": "application/x-xz",
        "application/zstandard": "application/zstd",
        "application/x-zstd": "application/zstd",
        "application/x-zstandard": "application/zstd",
        "application/x-compressed-tar": "application/gzip",
        "application/x-gtar": "application/x-tar",
        "application/tar": "application/x-tar",
        "application/x-ustar": "application/x-tar",
        "application/x-java-archive": "application/java-archive",
        "application/warc-fields": "text/plain",
        "application/x-parquet": "application/vnd.apache.parquet",
        "application/parquet": "application/vnd.apache.parquet",
        "text/x-markdown": "text/markdown",
        "text/rtf": "application/rtf",
        "text/yaml": "application/yaml",
        "text/x-yaml": "application/yaml",
        "application/x-yaml": "application/yaml",
        "text/json": "application/json",
        "application/csv": "text/csv",
        "text/comma-separated-values": "text/csv",
        "application/x-pdf": "application/pdf",
        "application/ics": "text/calendar",
        "text/x-vcalendar": "text/calendar",
        "application/javascript": "text/javascript",
        "application/x-javascript": "text/javascript",
        "application/x-mbox": "application/mbox",
        "image/jpg": "image/jpeg",
        "image/x-ms-bmp": "image/bmp",
        "image/vnd.microsoft.icon": "image/x-icon",
        "audio/mp3": "audio/mpeg",
        "audio/wav": "audio/x-wav",
        "audio/wave": "audio/x-wav",
        "audio/vnd.wave": "audio/x-wav",
        "audio/x-flac": "audio/flac",
        "audio/m4a": "audio/mp4",
        "audio/x-m4a": "audio/mp4",
        "audio/mp4a-latm": "audio/mp4",
        "audio/x-aac": "audio/aac",
        "video/avi": "video/x-msvideo",
        "video/x-m4v": "video/mp4",
        "application/font-sfnt": "font/ttf",
        "application/x-font-ttf": "font/ttf",
        "application/x-font-otf": "font/otf",
        "application/font-woff": "font/woff",
        "application/font-woff2": "font/woff2",
        "font/sfnt": "font/ttf",
    }
)
"""Other names of a type."""

_ENDINGS: Final = MappingProxyType(
    {
        "application/x-7z-compressed": "7z",
        "application/zstd": "zst tzst",
        "application/x-xz": "xz txz",
        "application/x-bzip2": "bz2 tbz2",
        "application/gzip": "gz tgz",
        "application/java-archive": "jar war",
        "application/warc": "warc",
        "application/mbox": "mbox",
        "message/rfc822": "eml",
        "application/xml": "xml xsl xsd",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
        "application/vnd.openxmlformats-officedocument.presentationml.presentation": "pptx",
        "application/vnd.oasis.opendocument.text": "odt",
        "application/vnd.oasis.opendocument.spreadsheet": "ods",
        "application/vnd.oasis.opendocument.presentation": "odp",
        "application/epub+zip": "epub",
        "text/markdown": "md markdown",
        "application/yaml": "yaml yml",
        "application/toml": "toml",
        "application/x-ndjson": "jsonl ndjson",
        "application/geo+json": "geojson",
        "application/vnd.apache.parquet": "parquet",
        "text/tab-separated-values": "tsv",
        "text/calendar": "ics",
        "application/rtf": "rtf",
        "application/x-subrip": "srt",
        "text/vtt": "vtt",
        "application/rss+xml": "rss",
        "application/atom+xml": "atom",
        "text/javascript": "js mjs",
        "font/ttf": "ttf",
        "font/otf": "otf",
        "font/woff": "woff",
        "font/woff2": "woff2",
        "font/collection": "ttc",
        "video/webm": "webm",
        "video/x-matroska": "mkv",
        "audio/x-matroska": "mka",
        "audio/flac": "flac",
        "audio/ogg": "opus oga ogg",
        "video/ogg": "ogv",
        "audio/mp4": "m4a",
        "video/mp4": "m4v",
        "image/webp": "webp",
        "image/avif": "avif",
        "image/bmp": "bmp",
        "image/x-icon": "ico",
        "text/x-c": "c h",
        "text/x-c++": "cc cpp hpp cxx",
        "text/x-java": "java",
        "text/x-go": "go",
        "text/x-rust": "rs",
        "text/x-typescript": "ts tsx",
        "text/x-ruby": "rb",
        "application/x-httpd-php": "php",
        "text/x-perl": "pl pm",
        "application/x-sh": "sh",
        "text/x-python": "py",
        "text/x-swift": "swift",
        "text/x-kotlin": "kt",
        "text/x-scala": "scala",
        "text/x-haskell": "hs",
        "text/x-lua": "lua",
        "application/sql": "sql",
        "text/x-r": "r",
        "text/x-csharp": "cs",
        "text/x-ocaml": "ml",
        "text/x-elixir": "ex",
        "text/x-erlang": "erl",
        "text/x-clojure": "clj",
        "text/x-dart": "dart",
        "text/x-fortran": "f90",
        "text/x-tex": "tex",
        "text/x-vue": "vue",
        "text/x-lisp": "lisp el",
        "text/x-julia": "jl",
    }
)
_OURS: Final = MappingProxyType(
    {each: name for name, endings in _ENDINGS.items() for each in endings.split()}
)
_PYTHONS: Final = MappingProxyType(mimetypes.common_types | mimetypes.types_map)
"""What Python knows without the files of this machine."""
_LONGEST = 12


@lru_cache(maxsize=512)
def _type_of(ending: str) -> str:
    found = _OURS.get(ending) or _PYTHONS.get(f".{ending}")
    return ALIASES.get(found, found) if found else ""


def name_of(url: str) -> str:
    """The last segment of the path of a canonical URL, or of a member's address, as written."""
    # What a container was asked for by is no part of the names of its members.
    return url.rpartition(SEPARATOR)[2].partition("?")[0].rpartition("/")[2]


def container_of(url: str) -> str:
    """The URL that was fetched for a member of this address; "" for an address that is no member's."""
    container, separator, _ = url.partition(SEPARATOR)
    return container if separator else ""


def ending_of(url: str) -> str:
    """What follows the last dot of the name in an address, in small letters; "" for nothing of the kind."""
    name, dot, ending = name_of(url).rpartition(".")
    if not dot or not name or len(ending) > _LONGEST:
        return ""
    return (unquote(ending) if "%" in ending else ending).lower()


def type_of_name(url: str) -> str:
    """The media type that the name in an address stands for; "" for none."""
    ending = ending_of(url)
    return _type_of(ending) if ending else ""
