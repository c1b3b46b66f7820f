"""RSS and Atom: the feed's title, and its entries as links with their titles."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Final
from xml.parsers.expat import ExpatError

from gcs.core import sitemaps
from gcs.summary import records
from gcs.summary.charsets import UNKNOWN
from gcs.summary.limits import Limits
from gcs.summary.markup import plain, without_markup
from gcs.summary.plugins import Part
from gcs.summary.readers.saying import Said, document
from gcs.summary.readers.trees import walk_text
from gcs.summary.records import Document, Link

_ENTRIES: Final = frozenset({"item", "entry"})
_TEXTS: Final = frozenset({"description", "subtitle", "summary", "content", "encoded", "tagline"})
_DATES: Final = frozenset({"pubDate", "updated", "published", "date", "lastBuildDate"})


class _Feed:
    """What a feed says of itself and of its entries."""

    def __init__(self) -> None:
        self.title = self.description = self.language = self.date = ""
        self.links: list[Link] = []
        self.titles: list[str] = []
        self.texts: list[str] = []
        self.categories: list[str] = []
        self.entries = 0
        self._parts: list[str] = []
        self._href = self._name = ""
        self._is_entry = False
        self._skipped = 0

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        """An element begins."""
        self._parts = []
        if name in _ENTRIES:
            self._is_entry, self._href, self._name = True, "", ""
            self.entries += 1
        elif name in {"image", "textInput"}:
            self._skipped += 1
        elif name == "link" and attributes.get("href"):
            self._link(attributes["href"], attributes.get("rel", "alternate"))
        elif name == "enclosure" and attributes.get("url"):
            self.links.append(Link(attributes["url"], self._name, kind="enclosure"))
        elif name == "category" and attributes.get("term"):
            self.categories.append(attributes["term"])

    def end(self, name: str) -> None:
        """An element ends."""
        text = "".join(self._parts).strip()
        self._parts = []
        if name in {"image", "textInput"}:
            self._skipped -= 1
        elif name in _ENTRIES:
            if self._href:
                self.links.append(Link(self._href, self._name, kind="entry"))
            self.titles.append(self._name)
            self._is_entry = False
        elif text and not self._skipped:
            self._take(name, text)

    def _take(self, name: str, text: str) -> None:
        if name == "title":
            said = plain(without_markup(text.encode()))
            if self._is_entry:
                self._name = said
            else:
                self.title = self.title or said
        elif name == "link":
            self._link(text, "alternate")
        elif name in _TEXTS:
            said = plain(without_markup(text.encode()[:20_000]))
            self.texts.append(said)
            if not self._is_entry and not self.description:
                self.description = said
        elif name == "language":
            self.language = text
        elif name == "category":
            self.categories.append(text)
        elif name in _DATES and not self.date:
            self.date = text

    def _link(self, href: str, rel: str) -> None:
        if self._is_entry and rel == "alternate":
            self._href = self._href or href
        elif rel in {"alternate", "next", "via", "related", "enclosure"}:
            self.links.append(Link(href, rel=rel if rel != "alternate" else "", kind="feed"))

    def text(self, text: str) -> None:
        """Some text."""
        self._parts.append(text)


def read(part: Part, _: Limits) -> Document:
    """What a feed says; of one that is not well-formed the links that can be found, and that it is not."""
    feed, refused, charset = _Feed(), "", UNKNOWN
    try:
        charset = walk_text(part, feed)
    except ExpatError as error:
        refused = f"damaged: {error}"
        with suppress(ValueError):
            known = {link.href for link in feed.links}
            found = sitemaps.parse(part.body, part.url).urls
            feed.links += [Link(url, kind="entry") for url, _ in found if url not in known]
    said = Said(
        title=feed.title,
        text="\n".join([*feed.titles, *feed.texts]),
        description=feed.description,
        keywords=list(dict.fromkeys(feed.categories))[: records.MAX_KEYWORDS],
        headings=[(2, title) for title in feed.titles],
        links=feed.links,
        language=feed.language,
        charset=charset,
        facts={"entries": feed.entries, "updated": feed.date},
        refused=refused,
    )
    return document(part, said)
