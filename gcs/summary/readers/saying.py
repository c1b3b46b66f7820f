"""What a reader has found, made into a document: bounded, with its language, and keywords if it has none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import NamedTuple

from gcs.summary import records
from gcs.summary.charsets import UNKNOWN, Charset, decode
from gcs.summary.keywords import keywords
from gcs.summary.language import identify
from gcs.summary.pipeline import top_level
from gcs.summary.plugins import Part
from gcs.summary.recognise import TEXT
from gcs.summary.records import Document, Heading, Link, details, scalars


class Said(NamedTuple):
    """What there is to say of a body; every field may be longer than what is kept of it."""

    title: str = ""
    text: str = ""
    """As much of the text as is at hand: the excerpt, the language and the keywords come from it."""
    description: str = ""
    keywords: Iterable[str] = ()
    headings: Iterable[tuple[int, str]] = ()
    links: Iterable[Link] = ()
    facts: Mapping[str, object] = {}
    thumbnail: str = ""
    language: str = ""
    """What the body itself says."""
    charset: Charset = UNKNOWN
    base: str = ""
    refused: str = ""


def document(part: Part, said: Said) -> Document:
    """The document of what was said."""
    links = [
        Link(
            link.href,
            scalars(link.text, records.MAX_LINE),
            scalars(link.rel, records.MAX_REL),
            scalars(link.kind, records.MAX_REL),
        )
        for link in islice(said.links, records.MAX_LINKS + 1)
        if 0 < len(link.href) <= records.MAX_HREF
    ]
    excerpt = scalars(said.text, records.MAX_EXCERPT)
    found = identify(
        excerpt or said.title, domain=top_level(part.url), lang=said.language, charset=said.charset.used
    )
    headings = [
        Heading(min(6, max(1, level)), name)
        for level, text in islice(said.headings, records.MAX_HEADINGS)
        if (name := scalars(text, records.MAX_LINE))
    ]
    made = Document(
        format=part.media_type,
        title=scalars(said.title, records.MAX_TITLE) or (headings[0].text if headings else ""),
        description=scalars(said.description, records.MAX_DESCRIPTION),
        keywords=_keywords(part, said),
        headings=tuple(headings),
        excerpt=excerpt,
        language=found.code,
        language_confidence=found.confidence,
        charset=said.charset.used,
        charset_declared=said.charset.declared,
        charset_detected=said.charset.detected,
        links_cut=len(links) > records.MAX_LINKS,
        base=said.base,
        details=details(said.facts),
        thumbnail=said.thumbnail if len(said.thumbnail) <= records.MAX_THUMBNAIL else "",
        refused=scalars(said.refused, records.MAX_REFUSED),
    )
    return made.with_links(links[: records.MAX_LINKS])


def _keywords(part: Part, said: Said) -> tuple[str, ...]:
    declared = [
        scalars(each, records.MAX_KEYWORD) for each in islice(said.keywords, 4 * records.MAX_KEYWORDS)
    ]
    kept = tuple(dict.fromkeys(filter(None, declared)))[: records.MAX_KEYWORDS]
    if kept or part.level == "links":
        return kept
    return tuple(scalars(each, records.MAX_KEYWORD) for each in keywords(said.text))


def split_keywords(text: str) -> list[str]:
    """Keywords that stand in one text, as Office files and PDFs have them."""
    return text.replace(";", ",").split(",") if text else []


class Text(NamedTuple):
    """A body as text, and what it was in."""

    text: str
    charset: Charset


def text_of(part: Part, *, most: int = 1 << 20) -> Text:
    """The beginning of a body that is text."""
    utf8, charset = decode(
        part.body[:most], part.charset_label, markup=part.media_type != TEXT, domain=top_level(part.url)
    )
    return Text(utf8.decode("utf-8", "replace"), charset)
