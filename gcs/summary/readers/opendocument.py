"""OpenDocument texts, tables and presentations: the XML inside, read in passing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gcs.summary.keywords import READ
from gcs.summary.limits import Limits, Refused
from gcs.summary.plugins import Part
from gcs.summary.readers.pictures import thumbnail_of
from gcs.summary.readers.saying import Said, document
from gcs.summary.readers.trees import Enough, walk
from gcs.summary.readers.zipped import Package
from gcs.summary.records import Document, Link

_FACTS: Final = {
    "initial-creator": "author",
    "creator": "modified_by",
    "creation-date": "created",
    "date": "modified",
    "subject": "subject",
    "generator": "application",
}
_COUNTS: Final = {
    "page-count": "pages",
    "word-count": "words",
    "table-count": "tables",
    "image-count": "images",
}


def read(part: Part, limits: Limits) -> Document:
    """What a file says; raises Refused for one that is encrypted, or a bomb."""
    with Package(part.body, limits) as package:
        if b"encryption-data" in package.read("META-INF/manifest.xml"):
            raise Refused("encrypted")
        meta, content = _Meta(), _Content()
        if data := package.read("meta.xml"):
            walk(data, meta)
        walk(package.read("content.xml"), content)
        facts: dict[str, object] = {name: meta.found.get(key, "") for key, name in _FACTS.items()}
        facts |= meta.counts | {"sheets": content.tables, "slides": content.slides}
        return document(
            part,
            Said(
                title=meta.found.get("title", ""),
                text="\n".join(content.paragraphs),
                description=meta.found.get("description", ""),
                keywords=meta.keywords,
                headings=content.headings or [(1, name) for name in (*content.slides, *content.tables)],
                links=content.links,
                language=meta.found.get("language", ""),
                facts=facts,
                thumbnail=thumbnail_of(package.read("Thumbnails/thumbnail.png"), limits),
            ),
        )


class _Meta:
    """What is said about a file."""

    def __init__(self) -> None:
        self.found: dict[str, str] = {}
        self.keywords: list[str] = []
        self.counts: dict[str, int] = {}
        self._parts: list[str] = []

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        """An element begins."""
        self._parts = []
        if name == "document-statistic":
            self.counts = {
                shown: int(attributes[key])
                for key, shown in _COUNTS.items()
                if attributes.get(key, "").isdecimal()
            }

    def end(self, name: str) -> None:
        """An element ends."""
        text = "".join(self._parts).strip()
        self._parts = []
        if name == "keyword" and text:
            self.keywords.append(text)
        elif text:
            self.found.setdefault(name, text)

    def text(self, text: str) -> None:
        """Some text."""
        self._parts.append(text)


class _Content:
    """Paragraphs, headings and links."""

    def __init__(self) -> None:
        self.paragraphs: list[str] = []
        self.headings: list[tuple[int, str]] = []
        self.links: list[Link] = []
        self.tables: list[str] = []
        self.slides: list[str] = []
        self._parts: list[str] = []
        self._level, self._size, self._depth = 1, 0, 0

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        """An element begins."""
        if name in {"p", "h"}:
            if not self._depth:
                self._parts = []
            self._depth += 1
            level = attributes.get("outline-level", "1")
            self._level = int(level) if level.isdecimal() else 1
        elif name == "a" and attributes.get("href"):
            self.links.append(Link(attributes["href"], kind="office"))
        elif name == "table" and attributes.get("name"):
            self.tables.append(attributes["name"])
        elif name == "page" and attributes.get("name"):
            self.slides.append(attributes["name"])
        elif name in {"s", "tab", "line-break"}:
            self._parts.append(" ")

    def end(self, name: str) -> None:
        """An element ends."""
        if name not in {"p", "h"}:
            return
        self._depth -= 1
        if self._depth:
            return
        text = "".join(self._parts).strip()
        if text:
            self.paragraphs.append(text)
            self._size += len(text)
            if name == "h":
                self.headings.append((self._level, text))
        if self._size > READ:
            raise Enough

    def text(self, text: str) -> None:
        """Some text."""
        if self._depth:
            self._parts.append(text)
