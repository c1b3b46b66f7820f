"""A `Document` on its way between processes: what is read back has its types and bounds checked.

A helper sends documents to its gatherer, and so does a process in which risky formats are read. Neither is
believed to keep the bounds that reading a page keeps.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from math import isfinite
from typing import Annotated, Final, NamedTuple

from msgspec import Meta

from gcs.summary import language, records
from gcs.summary.records import Detail, Document, Heading

FRAME: Final = struct.Struct(">Q")
"""The length of what follows, between processes of one machine."""
READY: Final = b"\n"
"""What a process says that is ready to read."""
PLAIN: Final = r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]*\Z"
"""No control characters: it may be shown, or stand in a header."""
_DEEPEST: Final = 6
_Label = Annotated[str, Meta(max_length=records.MAX_LINE, pattern=PLAIN)]
_Text = Annotated[str, Meta(max_length=records.MAX_HREF)]
_PICTURE: Final = r"^(data:image/[a-z0-9.+-]+;base64,[A-Za-z0-9+/=]*)?\Z"
_Texts = Annotated[list[_Text], Meta(max_length=records.MAX_LINKS)]


class Wire(NamedTuple):
    """A `Document` on its way: the same fields in the same order, with bounds for all that could be long."""

    format: _Label
    title: _Text
    description: _Text
    keywords: Annotated[tuple[_Text, ...], Meta(max_length=records.MAX_KEYWORDS)]
    headings: Annotated[tuple[Heading, ...], Meta(max_length=records.MAX_HEADINGS)]
    excerpt: _Text
    language: _Label
    language_confidence: float
    charset: _Label
    charset_declared: _Label
    charset_detected: _Label
    hrefs: _Texts
    texts: _Texts
    rels: _Text | _Texts
    kinds: _Text | _Texts
    links_cut: bool
    base: _Text
    canonical: _Text
    refresh: _Text
    noindex: bool
    nofollow: bool
    type_declared: _Label
    type_by_name: _Label
    type_by_content: _Label
    details: Annotated[tuple[Detail, ...], Meta(max_length=records.MAX_DETAILS)]
    thumbnail: Annotated[str, Meta(max_length=records.MAX_THUMBNAIL, pattern=_PICTURE)]
    refused: _Label


def is_modest(document: Document) -> bool:
    """Whether a document keeps the bounds that reading a page keeps."""
    count = len(document.hrefs)
    texts, rels, kinds = (
        (column,) if isinstance(column, str) else column
        for column in (document.texts, document.rels, document.kinds)
    )
    labels = (document.format, document.language, document.charset)
    charsets = (document.charset_declared, document.charset_detected)
    return (
        max(count, len(texts), len(rels), len(kinds)) <= records.MAX_LINKS
        and len(document.keywords) <= records.MAX_KEYWORDS
        and len(document.headings) <= records.MAX_HEADINGS
        and all(1 <= each.level <= _DEEPEST for each in document.headings)
        and 0.0 <= document.language_confidence <= 1.0
        and (not document.language or language.is_code(document.language))
        and _are_short(records.MAX_TITLE, (document.title,))
        and _are_short(records.MAX_DESCRIPTION, (document.description,))
        and _are_short(records.MAX_EXCERPT, (document.excerpt,))
        and _are_short(records.MAX_KEYWORD, document.keywords)
        and _are_short(records.MAX_LINE, texts)
        and _are_short(records.MAX_LINE, rels)
        and _are_short(records.MAX_LINE, kinds)
        and _are_short(records.MAX_LINE, (*labels, *charsets, *(each.text for each in document.headings)))
        and _are_short(records.MAX_DETAIL_NAME, [each.name for each in document.details])
        and _are_short(records.MAX_DETAIL, [each.text or "" for each in document.details])
        and all(isfinite(each.number or 0.0) for each in document.details)
        and _are_short(records.MAX_DETAIL, [item for each in document.details for item in each.items or ()])
        and all(len(each.items or ()) <= records.MAX_ITEMS for each in document.details)
        and _are_short(records.MAX_THUMBNAIL, (document.thumbnail,))
        and _are_short(records.MAX_REFUSED, (document.refused,))
        and _are_short(records.MAX_HREF, document.hrefs)
        and _are_short(records.MAX_HREF, (document.base, document.canonical, document.refresh))
    )


def _are_short(limit: int, texts: Sequence[str]) -> bool:
    return not texts or max(map(len, texts)) <= limit
