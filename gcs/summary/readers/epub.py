"""EPUB: what its package says, and the text of its first chapters, which are pages of XHTML."""

from __future__ import annotations

from collections.abc import Mapping
from posixpath import dirname, join, normpath
from typing import Final
from urllib.parse import unquote

from gcs.summary.hypertext import read_full
from gcs.summary.keywords import READ
from gcs.summary.limits import Limits, Refused
from gcs.summary.markup import plain, without_markup
from gcs.summary.plugins import Part
from gcs.summary.readers.pictures import thumbnail_of
from gcs.summary.readers.saying import Said, document
from gcs.summary.readers.trees import Quiet, walk
from gcs.summary.readers.zipped import Package
from gcs.summary.records import Document, Link

_CHAPTERS: Final = 200
_FACTS: Final = ("creator", "publisher", "date", "identifier", "rights")


def read(part: Part, limits: Limits) -> Document:
    """What a book says; raises Refused for one whose text is encrypted."""
    with Package(part.body, limits) as package:
        container, book = _Container(), _Book()
        walk(package.read("META-INF/container.xml"), container)
        walk(package.read(container.path), book)
        folder = dirname(container.path)
        locked = _Locked()
        if data := package.read("META-INF/encryption.xml"):
            walk(data, locked)
        texts: list[str] = []
        headings: list[tuple[int, str]] = []
        links: list[Link] = []
        chapters = [book.items[each] for each in book.spine if each in book.items]
        for href in chapters[:_CHAPTERS]:
            name = normpath(join(folder, unquote(href)))
            if name in locked.names:
                raise Refused("encrypted")
            data = package.read(name)
            page = read_full(data)
            texts.append(plain(without_markup(data)))
            headings += page.headings
            links += [link for link in page.links if link.href.startswith(("http://", "https://"))]
            if sum(map(len, texts)) > READ:
                break
        cover = normpath(join(folder, unquote(book.items.get(book.cover, ""))))
        facts: dict[str, object] = {name: book.found.get(name, ()) for name in _FACTS}
        return document(
            part,
            Said(
                title=" ".join(book.found.get("title", [])[:1]),
                text="\n".join(texts),
                description=plain(without_markup(" ".join(book.found.get("description", [])).encode())),
                keywords=book.found.get("subject", []),
                headings=headings,
                links=links,
                language=" ".join(book.found.get("language", [])[:1]),
                facts=facts | {"chapters": len(chapters)},
                thumbnail=thumbnail_of(package.read(cover), limits) if book.cover else "",
            ),
        )


class _Container(Quiet):
    """Where the package is."""

    def __init__(self) -> None:
        self.path = ""

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        """An element begins."""
        if name == "rootfile" and not self.path:
            self.path = attributes.get("full-path", "")


class _Book(Quiet):
    """What the package says: metadata, the files, and in which order they are read."""

    def __init__(self) -> None:
        self.found: dict[str, list[str]] = {}
        self.items: dict[str, str] = {}
        self.spine: list[str] = []
        self.cover = ""
        self._parts: list[str] = []

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        """An element begins."""
        self._parts = []
        if name == "item":
            self.items[attributes.get("id", "")] = attributes.get("href", "")
            if "cover-image" in attributes.get("properties", ""):
                self.cover = attributes.get("id", "")
        elif name == "itemref":
            self.spine.append(attributes.get("idref", ""))
        elif name == "meta" and attributes.get("name") == "cover":
            self.cover = self.cover or attributes.get("content", "")

    def end(self, name: str) -> None:
        """An element ends."""
        text = "".join(self._parts).strip()
        self._parts = []
        if text:
            self.found.setdefault(name, []).append(text)

    def text(self, text: str) -> None:
        """Some text."""
        self._parts.append(text)


class _Locked(Quiet):
    """Which files are encrypted."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        """An element begins."""
        if name == "CipherReference":
            self.names.add(normpath(unquote(attributes.get("URI", ""))))
