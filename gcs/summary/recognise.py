"""What a body is: its media type, from what was declared and from its first bytes.

Three may speak: the server, the name (`gcs.summary.names`), and the first bytes. They lie, so all three are
kept beside the verdict. The declared type is believed where it is plausible. Texts are sniffed much as the
WHATWG standard on MIME types does; binary formats are known by their signatures (`filetype`, then
`puremagic`). A page that is declared as HTML and begins like one is settled after one look at a table and one
at its first byte. (003, section 2: the Recognizer.)
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

import filetype
import puremagic

from gcs.summary.names import ALIASES, type_of_name

HTML: Final = "text/html"
XHTML: Final = "application/xhtml+xml"
TEXT: Final = "text/plain"
XML: Final = "application/xml"
BINARY: Final = "application/octet-stream"
ZIP: Final = "application/zip"
OLE: Final = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
"""What Office files until 2003 begin with."""

MARKUP: Final = frozenset({HTML, XHTML, "application/vnd.wap.xhtml+xml"})
FEEDS: Final = frozenset({"application/rss+xml", "application/atom+xml", "application/rdf+xml"})

_HEAD_BYTES = 1024
_SIGNATURE_BYTES = 8192
_SPACE = b"\t\n\x0c\r "
_BOMS = (b"\xef\xbb\xbf", b"\xfe\xff", b"\xff\xfe")
# Bytes that no text has, by the standard: controls other than tab, line ends, form feed and escape.
_NOT_TEXT = re.compile(rb"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f]")
_LOOKS_LIKE_HTML = re.compile(
    rb"(?:\xef\xbb\xbf)?[\t\n\x0c\r ]*<(?:!doctype[\t\n\x0c\r ]+html|!--|(?:html|head|script|iframe|h1|div|"
    rb"font|table|a|style|title|b|body|br|p|meta|link|base|center|ul|frameset)[\t\n\x0c\r >/])",
    re.IGNORECASE,
)
_XML_ROOT = re.compile(rb"<(?![?!])(?:[\w.-]+:)?([\w.-]+)")
_XML_ROOTS = {
    b"html": XHTML,
    b"rss": "application/rss+xml",
    b"rdf": "application/rss+xml",
    b"feed": "application/atom+xml",
    b"svg": "image/svg+xml",
}
# What texts begin with that say what they are.
_TEXT_BEGINNINGS = (
    (re.compile(rb"BEGIN:VCALENDAR\r?\n", re.IGNORECASE), "text/calendar"),
    (re.compile(rb"From [^\r\n]{3,200}[0-9]{4}\r?\n[\w-]+:"), "application/mbox"),
    (re.compile(rb"WARC/1\.[01]\r\n"), "application/warc"),
    (re.compile(rb"WEBVTT[ \t\r\n]"), "text/vtt"),
    (
        re.compile(
            rb"(?:(?:Return-Path|Received|Delivered-To|MIME-Version|Message-ID): ?[^\r\n]+\r?\n)",
            re.IGNORECASE,
        ),
        "message/rfc822",
    ),
)
_MARKUP_LATER = re.compile(rb"<(?:!doctype|html|head|body)[\t\n\x0c\r >]", re.IGNORECASE)
# Formats that begin as texts do, and are none.
_TEXT_SIGNATURES = (b"%PDF-", b"{\\rtf", b"%!PS-Adobe")
_TEXTUAL = frozenset(
    {
        *(XML, XHTML, "application/json", "application/javascript", "application/x-javascript"),
        *(
            "application/yaml",
            "application/toml",
            "application/x-ndjson",
            "application/x-sh",
            "application/sql",
        ),
        *("application/x-subrip", "application/x-httpd-php", "application/mbox", "message/rfc822"),
    }
)
# Texts that say in their first line what they are, whatever a server that knows only "text" says.
_SURE = frozenset({"text/calendar", "application/mbox", "text/vtt", "message/rfc822"})
_TYPE = re.compile(r"[a-z0-9!#$&^_.+-]+/[a-z0-9!#$&^_.+-]+\Z")
_CHARSET = re.compile(r";\s*charset\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^;\s]*))", re.IGNORECASE)
# Servers say these when they do not know.
_NO_CLAIM = frozenset(
    {
        "",
        BINARY,
        "application/x-unknown",
        "unknown/unknown",
        "application/unknown",
        "*/*",
        "binary/octet-stream",
    }
)
# Formats inside of which others hide: a more special claim is believed.
_CONTAINERS = frozenset(
    {
        ZIP,
        "application/gzip",
        "application/x-ole-storage",
        XML,
        "text/xml",
        "application/ogg",
        "video/mp4",
        "video/webm",
    }
)
# What a text may be said to be by a server that only knows that it is one.
_ANY_TEXT = frozenset({TEXT, "text/x-unknown"})
# Signatures that the two libraries do not have, or not for every variant.
_SIGNATURES = (
    (b"%PDF-", "application/pdf"),
    (b"{\\rtf", "application/rtf"),
    (b"%!PS-Adobe", "application/postscript"),
    (b"PK\x03\x04", ZIP),
    (b"PK\x05\x06", ZIP),
    (b"\x28\xb5\x2f\xfd", "application/zstd"),
    (b"\xfd7zXZ\0", "application/x-xz"),
    (b"PAR1", "application/vnd.apache.parquet"),
    (b"fLaC", "audio/flac"),
    (b"OggS", "application/ogg"),
    (b"\x1aE\xdf\xa3", "video/webm"),
    (b"MZ", "application/x-msdownload"),
    (b"WARC/1.", "application/warc"),
)
_PDF = b"%PDF-"
_MIMETYPE_IN_ZIP = re.compile(rb"PK\x03\x04.{18}(.)\0{3}\x08\0.{2}mimetype([ -~]+)", re.DOTALL)


class Declared(NamedTuple):
    """What a Content-Type header says: the media type and the label of the character set, or "" for each."""

    media_type: str
    charset_label: str


class Recognised(NamedTuple):
    """What a body is, and the label of the character set that came with it."""

    media_type: str
    charset_label: str
    declared: str = ""
    by_name: str = ""
    by_content: str = ""
    """What was declared, what the name stands for, and what the first bytes are; "" for no idea."""


@lru_cache(maxsize=1024)
def declared(content_type: str) -> Declared:
    """A Content-Type header, read; there are few different ones, and one comes with every page."""
    media_type = content_type.partition(";")[0].partition(",")[0].strip().lower()
    found = _CHARSET.search(content_type)
    label = next(filter(None, found.groups()), "") if found else ""
    return Declared(media_type if _TYPE.match(media_type) else "", label[:100])


def recognise(content_type: str, url: str, body: bytes) -> Recognised:
    """The media type of a body, the declared label of its character set, and who says what it is."""
    claim, label = declared(content_type)
    if claim == HTML and body.startswith(b"<") and b"\0" not in body[:64]:
        seen = HTML if _LOOKS_LIKE_HTML.match(body, 0, _HEAD_BYTES) else ""
        return Recognised(HTML, label, HTML, type_of_name(url), seen)
    claim, name, head = ALIASES.get(claim, claim), type_of_name(url), body[:_HEAD_BYTES]
    if _is_text(head):
        seen = _seen_in_text(head)
        found = claim if claim in MARKUP else _text_type(claim, name, seen, head)
    else:
        seen = _signature(body[:_SIGNATURE_BYTES])
        found = claim if claim in MARKUP and _may_be_markup(head) else _binary_type(claim, name, seen)
    return Recognised(found, label, claim, name, seen)


def _binary_type(claim: str, name: str, seen: str) -> str:
    if seen and seen not in _CONTAINERS:
        return seen
    special = name if claim in _NO_CLAIM else claim
    if claim == seen and _may_be(name, seen):
        special = name
    return seen or BINARY if not special or is_textual(special) else special


def _may_be(name: str, seen: str) -> bool:
    """Whether a name is a more special one for what was seen; only those of archives hide anything."""
    return name.startswith("application/") and seen in {ZIP, "application/gzip", "application/x-ole-storage"}


def _may_be_markup(head: bytes) -> bool:
    """Browsers take nearly anything for HTML; we do unless it is plainly binary."""
    return _is_text(head) or head.lstrip(_SPACE).startswith(b"<") or _MARKUP_LATER.search(head) is not None


def _is_text(head: bytes) -> bool:
    if head.startswith(_TEXT_SIGNATURES):
        return False
    if head.startswith(_BOMS) or not _NOT_TEXT.search(head):
        return True
    return _is_wide(head) and not _known_signature(head)


def is_textual(media_type: str) -> bool:
    """Whether a media type is one of texts that people may read."""
    return media_type.startswith("text/") or media_type in _TEXTUAL or media_type.endswith(("+xml", "+json"))


def _is_wide(head: bytes) -> bool:
    """Whether the zeros are those of UTF-16 without a mark: nearly all at even or all at odd places."""
    half = len(head) // 2
    even, odd = head[::2].count(0), head[1::2].count(0)
    return half >= 4 and max(even, odd) > 0.7 * half and min(even, odd) < 0.05 * half


def _text_type(claim: str, name: str, seen: str, head: bytes) -> str:
    special = name if is_textual(name) else ""
    if not head:
        return (name if claim in _NO_CLAIM else claim) or BINARY
    if claim in _NO_CLAIM:
        return special if seen == XML and special.endswith("xml") else seen or special or TEXT
    if claim in {XML, "text/xml"}:
        return _xml_type(head, default=claim)
    # A text cannot be what its server takes for an image, a sound or a film.
    if claim.startswith(("image/", "audio/", "video/", "font/")) and not is_textual(claim):
        return seen if seen == HTML else TEXT
    if claim in _ANY_TEXT:
        return seen if seen in _SURE else special if special and special not in MARKUP else TEXT
    return claim if is_textual(claim) or not special else special


def _seen_in_text(head: bytes) -> str:
    """What a text says of itself by its beginning; "" for nothing."""
    if _LOOKS_LIKE_HTML.match(head):
        return HTML
    begun = head.removeprefix(b"\xef\xbb\xbf").lstrip(_SPACE)
    if begun.startswith((b"<?xml", b"<rss", b"<feed", b"<svg")):
        return _xml_type(begun)
    return next((found for pattern, found in _TEXT_BEGINNINGS if pattern.match(begun)), "")


def _xml_type(head: bytes, *, default: str = XML) -> str:
    root = _XML_ROOT.search(head)
    return _XML_ROOTS.get(root[1].lower(), default) if root else default


def _is_elsewhere(head: bytes) -> bool:
    """Whether there is, further on, the mark of a format that does not say by its first bytes what it is."""
    return head[128:132] == b"DICM" or head[257:262] == b"ustar"


def _signature(head: bytes) -> str:
    if inside := _MIMETYPE_IN_ZIP.match(head):
        named = inside[2][: inside[1][0]].decode("ascii").strip()
        if _TYPE.match(named):
            return named
    if found := _known_signature(head):
        return found
    try:
        found = str(puremagic.from_string(head, mime=True))
    except (puremagic.PureError, ValueError):
        return ""
    return ALIASES.get(found, found)


def _known_signature(head: bytes) -> str:
    """What begins so and cannot be anything else; "" for nothing of the kind."""
    # What the libraries take for something more special.
    if head.startswith(b"wOF2"):
        return "font/woff2"
    if head.startswith(OLE):
        return "application/x-ole-storage"
    # What is common, and what `filetype` would come to after trying forty others.
    if head.startswith(_PDF) and not _is_elsewhere(head):
        return "application/pdf"
    kind = filetype.guess(head)
    if kind is not None:
        return ALIASES.get(kind.mime, str(kind.mime))
    if len(head) > 262 and head[257:262] == b"ustar":
        return "application/x-tar"
    return next((found for signature, found in _SIGNATURES if head.startswith(signature)), "")
