"""The records of summarising: what a page holds, and the one typed record of it that is kept.

A `Document` is what reading a body gives: nothing in it depends on who fetched it, when, or what the links
resolve to. A `Summary` adds those facts and is what is stored, sent and exported; an `Edge` is one of its
links, resolved. Both have a schema for Parquet, and `to_row` and `from_row` are each other's inverse.

Invariant: every text in these records is made of Unicode scalar values (no lone surrogates) and is bounded,
so that a record can be written in any of the formats and its size does not depend on the goodwill of a page.
(003, section 2: the summary format SML; a summary names the parent and the links out of the page.)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any, Final, NamedTuple

VERSION: Final = 1
"""The version of `Summary`; a reader refuses records of a newer one."""

MAX_LINKS: Final = 10_000
"""Links kept of one page; what follows is left out and `Document.links_cut` says so."""
MAX_HEADINGS: Final = 32
MAX_TITLE: Final = 300
MAX_DESCRIPTION: Final = 1_000
MAX_KEYWORDS: Final = 32
MAX_KEYWORD: Final = 100
MAX_EXCERPT: Final = 500
MAX_LINE: Final = 200
"""Characters of a heading, and of the text of a link."""
MAX_REL: Final = 100
MAX_HREF: Final = 4_000
"""A longer href is not kept: no URL of that length is crawled."""


class NewerRecord(ValueError):
    """A record was written by a newer version than this one can read."""


class Link(NamedTuple):
    """A link as the page has it: its target is not resolved yet.

    `kind` is what it stands in: "a", "area", "frame", "iframe", "link", "meta-refresh"; a plug-in may have
    others.
    """

    href: str
    text: str = ""
    rel: str = ""
    kind: str = "a"


class Heading(NamedTuple):
    """A heading and its level, 1 to 6."""

    level: int
    text: str


class Edge(NamedTuple):
    """A link between two canonical URLs, as it is stored: a row of the links table."""

    source: str
    target: str
    text: str = ""
    rel: str = ""
    kind: str = "a"


class Document(NamedTuple):
    """What a body holds, before its URLs are resolved; its fields are given by name.

    `hrefs` are the targets to follow, in the order of the page and as written; they may repeat, and `base`
    is to be applied. At level "full" `texts`, `rels` and `kinds` say more about each, in the same order; one
    text instead of many holds for all of them. At level "links" there are no texts.
    """

    format: str = "application/octet-stream"
    title: str = ""
    description: str = ""
    keywords: tuple[str, ...] = ()
    headings: tuple[Heading, ...] = ()
    excerpt: str = ""
    language: str = ""
    language_confidence: float = 0.0
    charset: str = ""
    charset_declared: str = ""
    charset_detected: str = ""
    hrefs: Sequence[str] = ()
    texts: Sequence[str] = ()
    rels: str | Sequence[str] = ""
    kinds: str | Sequence[str] = "a"
    links_cut: bool = False
    base: str = ""
    canonical: str = ""
    refresh: str = ""
    noindex: bool = False
    nofollow: bool = False

    @property
    def links(self) -> list[Link]:
        """The links one by one, with what is known about each."""
        return list(map(Link, self.hrefs, *self.columns()))

    def columns(self) -> tuple[Sequence[str], Sequence[str], Sequence[str]]:
        """The texts, rels and kinds of the links, one for each; what a column lacks is as usual."""
        count = len(self.hrefs)
        texts = [*self.texts[:count], *[""] * (count - len(self.texts))]
        rels = [self.rels] * count if isinstance(self.rels, str) else [*self.rels[:count]]
        kinds = [self.kinds] * count if isinstance(self.kinds, str) else [*self.kinds[:count]]
        return texts, rels + [""] * (count - len(rels)), kinds + ["a"] * (count - len(kinds))

    def with_links(self, links: Iterable[Link]) -> Document:
        """The same document with these links."""
        hrefs, texts, rels, kinds = zip(*links, strict=True) if (links := list(links)) else ((),) * 4
        return self._replace(hrefs=hrefs, texts=texts, rels=rels or "", kinds=kinds or "a")


class Fetched(NamedTuple):
    """The facts of a fetch with which a row begins; they mean what they do in `Summary`."""

    url: str
    key: str
    parent: str
    via: str
    depth: int
    status: int
    media_type: str
    fetched_at: int
    """Microseconds of Unix time."""
    fetch_s: float
    bytes: int
    truncated: str
    digest: str
    etag: str
    last_modified: str
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """All that is kept about one fetched page.

    `fetched_at` is Unix time, kept to the microsecond. `media_type` is what was recognised, not what the
    server said. `parent` is the URL of the page that led here, `via` how: the kind of that link, "redirect",
    "seed", "sitemap". `digest` is of the payload, as WARC files have it. `epoch` is that of what operators
    had ruled when it was fetched, 0 for nothing.
    """

    url: str
    key: str = ""
    parent: str = ""
    via: str = ""
    depth: int = 0
    status: int = 0
    media_type: str = ""
    fetched_at: float = 0.0
    fetch_s: float = 0.0
    bytes: int = 0
    truncated: str = ""
    digest: str = ""
    etag: str = ""
    last_modified: str = ""
    epoch: int = 0
    title: str = ""
    description: str = ""
    keywords: tuple[str, ...] = ()
    headings: tuple[Heading, ...] = ()
    excerpt: str = ""
    language: str = ""
    language_confidence: float = 0.0
    charset: str = ""
    charset_declared: str = ""
    charset_detected: str = ""
    links_out: int = 0
    canonical: str = ""
    noindex: bool = False
    nofollow: bool = False
    version: int = VERSION

    @staticmethod
    def row(document: Document, fetched: Fetched) -> tuple[Any, ...]:
        """The values of `to_row` of the summary of a document with the facts of its fetch, in their order.

        No summary is made for it, because there is one row for every page.
        """
        return (*fetched, *_SAID(document), len(document.hrefs), *_ASKED(document), VERSION)

    def to_row(self) -> dict[str, Any]:
        """The columns of `SCHEMA["summaries"]`; the time in whole microseconds."""
        row = {name: getattr(self, name) for name in NAMES}
        row["fetched_at"] = round(self.fetched_at * 1e6)
        return row

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Summary:
        """The inverse of `to_row`, also after Parquet or msgpack; raises NewerRecord for a newer one."""
        if row["version"] > VERSION:
            raise NewerRecord(
                f"a summary of version {row['version']}, and this program reads up to {VERSION}: update it"
            )
        known = {name: row[name] for name in NAMES if name in row}
        known["fetched_at"] = _seconds(known.get("fetched_at", 0))
        known["keywords"] = tuple(known.get("keywords", ()))
        known["headings"] = tuple(_heading(each) for each in known.get("headings", ()))
        return cls(**known)


def _seconds(value: float | datetime) -> float:
    return value.timestamp() if isinstance(value, datetime) else value / 1e6


def _heading(value: Mapping[str, Any] | Sequence[Any]) -> Heading:
    if isinstance(value, Mapping):
        return Heading(value["level"], value["text"])
    level, text = value
    return Heading(level, text)


def instant(at_s: float) -> datetime:
    """Unix time as an instant in UTC, to the microsecond."""
    return datetime.fromtimestamp(round(at_s * 1e6) / 1e6, UTC)


NAMES: Final = tuple(each.name for each in fields(Summary))
_LINKS_OUT: Final = NAMES.index("links_out")
_SAID: Final = attrgetter(*NAMES[len(Fetched._fields) : _LINKS_OUT])
_ASKED: Final = attrgetter(*NAMES[_LINKS_OUT + 1 : -1])
"""What a row takes over from a document, before and after the number of its links."""
