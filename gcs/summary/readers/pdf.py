"""PDF, by PDFium: its title and author, outline, text, links, and a picture of its first page."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

import pypdfium2
from pypdfium2 import raw

from gcs.summary import records
from gcs.summary.keywords import READ
from gcs.summary.limits import Limits, Refused
from gcs.summary.plugins import Part
from gcs.summary.readers.pictures import thumbnail
from gcs.summary.readers.saying import Said, document, split_keywords
from gcs.summary.records import Document, Link

MAX_PAGES: Final = 200
"""Pages whose text and links are looked at."""
_FACTS: Final = {
    "author": "Author",
    "subject": "Subject",
    "creator": "Creator",
    "producer": "Producer",
    "created": "CreationDate",
    "modified": "ModDate",
}
_DATE: Final = re.compile(r"D:(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?(\d\d)?")


def read(part: Part, limits: Limits) -> Document:
    """What a PDF says; raises Refused for one that needs a password."""
    try:
        file = pypdfium2.PdfDocument(part.body)
    except pypdfium2.PdfiumError as error:
        if "password" in str(error).lower():
            raise Refused("encrypted") from None
        raise
    try:
        return _read(part, file, limits)
    finally:
        file.close()


def _read(part: Part, file: pypdfium2.PdfDocument, limits: Limits) -> Document:
    said = file.get_metadata_dict()
    texts: list[str] = []
    links: list[Link] = []
    size = 0
    for number in range(min(len(file), MAX_PAGES)):
        with suppress(pypdfium2.PdfiumError):
            page = file[number]
            if size < READ:
                texts.append(page.get_textpage().get_text_range())
                size += len(texts[-1])
            links += _links(file, page)
            page.close()
        if len(links) > records.MAX_LINKS:
            break
    facts: dict[str, object] = {"pages": len(file), "version": (file.get_version() or 0) / 10}
    facts |= {name: _date(said.get(key, "")) for name, key in _FACTS.items()}
    picture = ""
    if part.level != "links" and limits.thumbnail_px and len(file):
        with suppress(pypdfium2.PdfiumError, OSError, ValueError):
            picture = _picture(file, limits)
    return document(
        part,
        Said(
            title=said.get("Title", ""),
            text="\n".join(texts),
            keywords=split_keywords(said.get("Keywords", "")),
            headings=list(_outline(file)),
            links=links,
            facts=facts,
            thumbnail=picture,
        ),
    )


def _date(text: str) -> str:
    """A date of a PDF as ISO 8601 has it; other texts as they are."""
    found = _DATE.match(text)
    if not found:
        return text
    year, month, day, hour, minute, second = found.groups()
    date = f"{year}-{month or '01'}-{day or '01'}"
    return f"{date}T{hour}:{minute or '00'}:{second or '00'}" if hour else date


def _outline(file: pypdfium2.PdfDocument) -> Iterator[tuple[int, str]]:
    with suppress(pypdfium2.PdfiumError):
        for number, mark in enumerate(file.get_toc(max_depth=4)):
            if number >= records.MAX_HEADINGS:
                return
            yield mark.level + 1, mark.get_title()


def _links(file: pypdfium2.PdfDocument, page: pypdfium2.PdfPage) -> Iterator[Link]:
    """The links of a page that lead out of the document."""
    at, link = ctypes.c_int(0), raw.FPDF_LINK()
    while raw.FPDFLink_Enumerate(page, at, link):
        action = raw.FPDFLink_GetAction(link)
        if action and raw.FPDFAction_GetType(action) == raw.PDFACTION_URI:
            length = raw.FPDFAction_GetURIPath(file, action, None, 0)
            if 1 < length <= records.MAX_HREF:
                buffer = ctypes.create_string_buffer(length)
                raw.FPDFAction_GetURIPath(file, action, buffer, length)
                yield Link(buffer.value.decode("utf-8", "replace"), kind="pdf")


def _picture(file: pypdfium2.PdfDocument, limits: Limits) -> str:
    page = file[0]
    longest = max(*page.get_size(), 1.0)
    return thumbnail(page.render(scale=2 * limits.thumbnail_px / longest).to_pil(), limits)
