"""What a body is: its media type, from what was declared and from its first bytes.

The declared type is believed where it is plausible. Texts are sniffed much as the WHATWG standard on MIME
types does; binary formats are known by their signatures (`filetype`, then `puremagic`). A page that is
declared as HTML and begins like one is settled after one look at a table and one at its first byte.
(003, section 2: the Recognizer.)
"""

from __future__ import annotations

import mimetypes
import re
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit

import filetype
import puremagic

HTML: Final = "text/html"
XHTML: Final = "application/xhtml+xml"
TEXT: Final = "text/plain"
XML: Final = "application/xml"
BINARY: Final = "application/octet-stream"

MARKUP: Final = frozenset({HTML, XHTML, "application/vnd.wap.xhtml+xml"})

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
    b"feed": "application/atom+xml",
    b"svg": "image/svg+xml",
}
_MARKUP_LATER = re.compile(rb"<(?:!doctype|html|head|body)[\t\n\x0c\r >]", re.IGNORECASE)
# Formats that begin as texts do, and are none.
_TEXT_SIGNATURES = (b"%PDF-", b"{\\rtf", b"%!PS-Adobe")
_TEXTUAL = frozenset({XML, XHTML, "application/json", "application/javascript", "application/x-javascript"})
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
_CONTAINERS = frozenset({"application/zip", "application/gzip", "application/x-ole-storage", XML, "text/xml"})


class Declared(NamedTuple):
    """What a Content-Type header says: the media type and the label of the character set, or "" for each."""

    media_type: str
    charset_label: str


class Recognised(NamedTuple):
    """What a body is, and the label of the character set that came with it."""

    media_type: str
    charset_label: str


@lru_cache(maxsize=1024)
def declared(content_type: str) -> Declared:
    """A Content-Type header, read; there are few different ones, and one comes with every page."""
    media_type = content_type.partition(";")[0].partition(",")[0].strip().lower()
    found = _CHARSET.search(content_type)
    label = next(filter(None, found.groups()), "") if found else ""
    return Declared(media_type if _TYPE.match(media_type) else "", label[:100])


def recognise(content_type: str, url: str, body: bytes) -> Recognised:
    """The media type of a body and the declared label of its character set."""
    claim, label = declared(content_type)
    if claim == HTML and body.startswith(b"<") and b"\0" not in body[:64]:
        return Recognised(HTML, label)
    return Recognised(_sniffed(claim, url, body), label)


def _sniffed(claim: str, url: str, body: bytes) -> str:
    head = body[:_HEAD_BYTES]
    if claim in MARKUP and _may_be_markup(head):
        return claim
    if _is_text(head):
        return _text_type(claim, url, head)
    found = _signature(body[:_SIGNATURE_BYTES])
    if found and found not in _CONTAINERS:
        return found
    special = _special(claim, url)
    return found or BINARY if not special or is_textual(special) else special


def _may_be_markup(head: bytes) -> bool:
    """Browsers take nearly anything for HTML; we do unless it is plainly binary."""
    return _is_text(head) or head.lstrip(_SPACE).startswith(b"<") or _MARKUP_LATER.search(head) is not None


def _is_text(head: bytes) -> bool:
    if head.startswith(_TEXT_SIGNATURES):
        return False
    return head.startswith(_BOMS) or not _NOT_TEXT.search(head) or _is_wide(head)


def is_textual(media_type: str) -> bool:
    """Whether a media type is one of texts that people may read."""
    return media_type.startswith("text/") or media_type in _TEXTUAL or media_type.endswith(("+xml", "+json"))


def _is_wide(head: bytes) -> bool:
    """Whether the zeros are those of UTF-16 without a mark: nearly all at even or all at odd places."""
    half = len(head) // 2
    even, odd = head[::2].count(0), head[1::2].count(0)
    return half >= 4 and max(even, odd) > 0.7 * half and min(even, odd) < 0.05 * half


def _text_type(claim: str, url: str, head: bytes) -> str:
    if not head:
        return _special(claim, url) or BINARY
    if claim in _NO_CLAIM:
        if _LOOKS_LIKE_HTML.match(head):
            return HTML
        if head.lstrip(_SPACE + b"\xef\xbb\xbf").startswith(b"<?xml"):
            return _xml_type(head)
        special = _special("", url)
        return special if is_textual(special) else TEXT
    if claim in {XML, "text/xml"}:
        return _xml_type(head, default=claim)
    # A text cannot be what its server takes for an image, a sound or a film.
    if claim.startswith(("image/", "audio/", "video/", "font/")) and not is_textual(claim):
        return HTML if _LOOKS_LIKE_HTML.match(head) else TEXT
    return claim


def _xml_type(head: bytes, *, default: str = XML) -> str:
    root = _XML_ROOT.search(head)
    return _XML_ROOTS.get(root[1].lower(), default) if root else default


def _signature(head: bytes) -> str:
    kind = filetype.guess(head)
    if kind is not None:
        return str(kind.mime)
    try:
        return str(puremagic.from_string(head, mime=True))
    except (puremagic.PureError, ValueError):
        return ""


def _special(claim: str, url: str) -> str:
    """The claim, unless it says nothing; else what the URL's ending stands for."""
    if claim not in _NO_CLAIM:
        return claim
    try:
        path = urlsplit(url).path
    except ValueError:
        return ""
    return mimetypes.guess_type(unquote(path), strict=False)[0] or ""
