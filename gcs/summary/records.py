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
from itertools import islice
from math import isfinite
from operator import attrgetter
from typing import Any, Final, NamedTuple

from gcs.summary.text import fitted

VERSION: Final = 2
"""The version of `Summary`; a reader refuses records of a newer one. 2 has three types, details, a thumbnail,
and why something was refused."""

MEMBER: Final = "member"
"""`Summary.via` of what was inside of something that was fetched."""

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
MAX_DETAILS: Final = 48
MAX_DETAIL: Final = 300
"""Characters of a detail, or of one of its items."""
MAX_DETAIL_NAME: Final = 40
MAX_ITEMS: Final = 32
MAX_THUMBNAIL: Final = 16_000
"""Characters of a picture as a `data:` URL."""
MAX_REFUSED: Final = 200


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


class Detail(NamedTuple):
    """One fact that only some formats have: a text, a number, or several texts; the other two are None."""

    name: str
    text: str | None = None
    number: float | None = None
    items: tuple[str, ...] | None = None

    @property
    def value(self) -> str | float | tuple[str, ...]:
        """What it says; whole numbers as such."""
        if self.number is not None:
            return int(self.number) if float(self.number).is_integer() else self.number
        return self.text if self.items is None and self.text is not None else self.items or ()

    @classmethod
    def of(cls, name: str, value: str | float | Sequence[str]) -> Detail:
        """The inverse of `value`."""
        if isinstance(value, str):
            return cls(name, text=value)
        return cls(name, number=value) if isinstance(value, int | float) else cls(name, items=tuple(value))


def details(facts: Mapping[str, object]) -> tuple[Detail, ...]:
    """Facts as details, cut to their bounds; without what is empty, None, or no finite number."""
    made: list[Detail] = []
    for key, value in facts.items():
        name = scalars(key, MAX_DETAIL_NAME)
        if isinstance(value, bool):
            detail = Detail.of(name, int(value)) if value else None
        elif isinstance(value, int | float):
            detail = Detail.of(name, value) if isfinite(value) and abs(value) < 2**63 else None
        elif isinstance(value, str):
            detail = Detail.of(name, text) if (text := scalars(value, MAX_DETAIL)) else None
        elif isinstance(value, Iterable):
            items = tuple(filter(None, (scalars(str(each), MAX_DETAIL) for each in islice(value, MAX_ITEMS))))
            detail = Detail.of(name, items) if items else None
        else:
            detail = None
        if detail is not None:
            made.append(detail)
    return tuple(made[:MAX_DETAILS])


def scalars(text: str, limit: int) -> str:
    """A text as `fitted` makes it, of Unicode scalar values only."""
    short = fitted(text, limit)
    return short if short.isascii() else short.encode("utf-8", "replace").decode("utf-8")


class Edge(NamedTuple):
    """A link between two canonical URLs, as it is stored: a row of the links table."""

    source: str
    target: str
    text: str = ""
    rel: str = ""
    kind: str = "a"
    fetched_us: int = 0
    """When the page was fetched that has it, as its summary says; in microseconds of Unix time."""
    repeated: bool = False
    """Whether the page has another link to the same target before it."""


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
    type_declared: str = ""
    type_by_name: str = ""
    type_by_content: str = ""
    details: tuple[Detail, ...] = ()
    thumbnail: str = ""
    refused: str = ""

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
    change: float = 1.0
    unchanged: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """All that is kept about one fetched page.

    `fetched_at` is Unix time, kept to the microsecond. `media_type` is what was recognised, not what the
    server said. `parent` is the URL of the page that led here, `via` how: the kind of that link, "redirect",
    "seed", "sitemap". `digest` is of the payload, as WARC files have it. `epoch` is that of what operators
    had ruled when it was fetched, 0 for nothing. `change` is the share of links that only one of this visit
    and the one before found (C of 004), 1 for the first; of a page that was found `unchanged` nothing more is
    said, and no links are kept: the last visit that found something else has them.

    `type_declared`, `type_by_name` and `type_by_content` are what the server, the name and the first bytes
    say; each may be "", and they need not agree. `details` are what only some formats have, `thumbnail` is a
    small picture as a `data:` URL. `refused` says why it was not read, or not all of it, and is "" if it was.
    Of what was inside of an archive `via` is MEMBER, `parent` what it was in, and its links are kept as those
    of the URL that was fetched.
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
    change: float = 1.0
    unchanged: bool = False
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
    type_declared: str = ""
    type_by_name: str = ""
    type_by_content: str = ""
    details: tuple[Detail, ...] = ()
    thumbnail: str = ""
    refused: str = ""
    version: int = VERSION

    @staticmethod
    def row(document: Document, fetched: Fetched, *, links_out: int | None = None) -> tuple[Any, ...]:
        """The values of `to_row` of the summary of a document with the facts of its fetch, in their order.

        No summary is made for it, because there is one row for every page. The links are those of the
        document, unless somebody else has them and says how many there are.
        """
        links_out = len(document.hrefs) if links_out is None else links_out
        return (*fetched, *_SAID(document), links_out, *_ASKED(document), VERSION)

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
        known["details"] = tuple(_detail(each) for each in known.get("details", ()))
        return cls(**known)

    def detail(self, name: str) -> str | float | tuple[str, ...] | None:
        """What a detail says; None if there is none of that name."""
        return next((each.value for each in self.details if each.name == name), None)


def _seconds(value: float | datetime) -> float:
    return value.timestamp() if isinstance(value, datetime) else value / 1e6


def _heading(value: Mapping[str, Any] | Sequence[Any]) -> Heading:
    if isinstance(value, Mapping):
        return Heading(value["level"], value["text"])
    level, text = value
    return Heading(level, text)


def _detail(value: Mapping[str, Any] | Sequence[Any]) -> Detail:
    name, text, number, items = value.values() if isinstance(value, Mapping) else value
    return Detail(name, text, number, None if items is None else tuple(items))


def instant(at_s: float) -> datetime:
    """Unix time as an instant in UTC, to the microsecond."""
    return datetime.fromtimestamp(round(at_s * 1e6) / 1e6, UTC)


NAMES: Final = tuple(each.name for each in fields(Summary))
_LINKS_OUT: Final = NAMES.index("links_out")
_SAID: Final = attrgetter(*NAMES[len(Fetched._fields) : _LINKS_OUT])
_ASKED: Final = attrgetter(*NAMES[_LINKS_OUT + 1 : -1])
"""What a row takes over from a document, before and after the number of its links."""
