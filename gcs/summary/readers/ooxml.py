"""Word, Excel and PowerPoint since 2007: the XML inside, read in passing.

Libraries for these formats build a tree of everything; what a summary needs is a few texts of some parts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final
from xml.parsers.expat import ExpatError

from gcs.summary import records
from gcs.summary.keywords import READ
from gcs.summary.limits import Limits
from gcs.summary.plugins import Part
from gcs.summary.readers.pictures import thumbnail_of
from gcs.summary.readers.saying import Said, document, split_keywords
from gcs.summary.readers.trees import Enough, Quiet, walk
from gcs.summary.readers.zipped import Package
from gcs.summary.records import Document, Link

_SHEETS: Final = 8
_ROWS: Final = 6
_CELLS: Final = 16
_FACTS: Final = {
    "creator": "author",
    "lastModifiedBy": "modified_by",
    "created": "created",
    "modified": "modified",
    "subject": "subject",
    "category": "category",
    "Pages": "pages",
    "Words": "words",
    "Slides": "slides",
    "Company": "company",
    "Application": "application",
}
_NUMBERS: Final = frozenset({"pages", "words", "slides"})
_HEADING = re.compile(r"(?:heading|berschrift|titre|título)\s?([1-6])", re.IGNORECASE)


def read(part: Part, limits: Limits) -> Document:
    """What a file says; raises Refused for a bomb, and ExpatError or BadZipFile for what is broken."""
    with Package(part.body, limits) as package:
        properties = _Leaves()
        for name in ("docProps/core.xml", "docProps/app.xml"):
            if data := package.read(name):
                walk(data, properties)
        facts = {name: properties.found.get(key, "") for key, name in _FACTS.items()}
        shown: dict[str, object] = {
            name: int(value) if name in _NUMBERS and value.isdecimal() else value
            for name, value in facts.items()
        }
        if "wordprocessingml" in part.media_type:
            text, headings, more = _word(package)
        elif "spreadsheetml" in part.media_type:
            text, headings, more = _sheets(package)
        else:
            text, headings, more = _slides(package)
        found = properties.found
        return document(
            part,
            Said(
                title=found.get("title", ""),
                text=text,
                description=found.get("description", ""),
                keywords=split_keywords(found.get("keywords", "")),
                headings=headings,
                links=list(_links(package)),
                facts=shown | more,
                thumbnail=thumbnail_of(package.read("docProps/thumbnail.jpeg"), limits),
            ),
        )


_Found = tuple[str, list[tuple[int, str]], dict[str, object]]


def _word(package: Package) -> _Found:
    flow = _Flow()
    walk(package.read("word/document.xml"), flow)
    return "\n".join(flow.paragraphs), flow.headings, {}


def _slides(package: Package) -> _Found:
    texts: list[str] = []
    titles: list[tuple[int, str]] = []
    slides = package.numbered("ppt/slides/slide")
    for name in slides:
        flow = _Flow()
        walk(package.read(name), flow)
        texts += flow.paragraphs
        titles += flow.headings[:1]
        if sum(map(len, texts)) > READ:
            break
    return "\n".join(texts), titles, {"slides": len(slides)}


def _sheets(package: Package) -> _Found:
    names = _Names()
    walk(package.read("xl/workbook.xml"), names)
    strings = _Strings()
    if data := package.read("xl/sharedStrings.xml"):
        walk(data, strings)
    texts: list[str] = []
    facts: dict[str, object] = {"sheets": names.names}
    for number, name in enumerate(package.numbered("xl/worksheets/sheet")[:_SHEETS]):
        sheet = _Sheet(strings.strings)
        walk(package.read(name), sheet)
        lines = [" | ".join(filter(None, row)) for row in sheet.rows]
        texts += filter(None, lines)
        if number == 0:
            facts |= {
                "columns": sheet.rows[0] if sheet.rows else [],
                "rows": sheet.count,
                "samples": lines[1:],
            }
    return "\n".join(texts), [(1, name) for name in names.names], facts


def _links(package: Package) -> Iterator[Link]:
    """Hyperlinks that lead out of the file; relations are where they stand."""
    for name in package.names:
        if not name.endswith(".rels"):
            continue
        relations = _Relations()
        try:
            walk(package.read(name), relations)
        except ExpatError:
            continue
        yield from (Link(target, kind="office") for target in relations.targets)


class _Leaves(Quiet):
    """The text of each element that has nothing else in it."""

    def __init__(self) -> None:
        self.found: dict[str, str] = {}
        self._parts: list[str] = []

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        self._parts = []

    def end(self, name: str) -> None:
        if text := "".join(self._parts).strip():
            self.found.setdefault(name, text[: records.MAX_DESCRIPTION])
        self._parts = []

    def text(self, text: str) -> None:
        self._parts.append(text)


class _Flow(Quiet):
    """Paragraphs (`p`) of runs of text (`t`); headings by their style, or by the place of a slide's title."""

    def __init__(self) -> None:
        self.paragraphs: list[str] = []
        self.headings: list[tuple[int, str]] = []
        self._parts: list[str] = []
        self._level, self._size = 0, 0
        self._in_text = self._in_title = False

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        if name == "t":
            self._in_text = True
        elif name == "p":
            self._parts, self._level = [], 0
        elif name == "pStyle":
            style = attributes.get("val", "")
            found = _HEADING.match(style)
            self._level = int(found[1]) if found else 1 if style.lower() == "title" else 0
        elif name == "outlineLvl":
            self._level = int(attributes.get("val", "0")) + 1
        elif name == "sp":
            self._in_title = False
        elif name == "ph" and attributes.get("type") in {"title", "ctrTitle"}:
            self._in_title = True
        elif name in {"tab", "br"}:
            self._parts.append(" ")

    def end(self, name: str) -> None:
        if name == "t":
            self._in_text = False
        elif name == "p":
            text = "".join(self._parts).strip()
            self._parts = []
            if not text:
                return
            self.paragraphs.append(text)
            if self._level or self._in_title:
                self.headings.append((self._level or 1, text))
            self._size += len(text)
            if self._size > READ:
                raise Enough

    def text(self, text: str) -> None:
        if self._in_text:
            self._parts.append(text)


class _Names(Quiet):
    """The names of sheets."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        if name == "sheet":
            self.names.append(attributes.get("name", ""))


class _Strings(Quiet):
    """The texts that cells refer to by number."""

    def __init__(self) -> None:
        self.strings: list[str] = []
        self._parts: list[str] = []
        self._in_text = False

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        if name == "si":
            self._parts = []
        self._in_text = name == "t"

    def end(self, name: str) -> None:
        self._in_text = False
        if name == "si":
            self.strings.append("".join(self._parts)[: records.MAX_DETAIL])

    def text(self, text: str) -> None:
        if self._in_text:
            self._parts.append(text)


class _Sheet(Quiet):
    """The first rows of a sheet, and how many there are."""

    def __init__(self, strings: list[str]) -> None:
        self._strings = strings
        self.rows: list[list[str]] = []
        self.count = 0
        self._kind, self._value = "", ""
        self._in_value = False

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        if name == "row":
            self.count += 1
            if self.count <= _ROWS:
                self.rows.append([])
        elif name == "c":
            self._kind, self._value = attributes.get("t", ""), ""
        self._in_value = name in {"v", "t"}

    def end(self, name: str) -> None:
        self._in_value = False
        if name != "c" or self.count > _ROWS or not self.rows or len(self.rows[-1]) >= _CELLS:
            return
        value = self._value
        if self._kind == "s" and value.isdecimal():
            value = self._strings[int(value)] if int(value) < len(self._strings) else ""
        self.rows[-1].append(value)

    def text(self, text: str) -> None:
        if self._in_value and len(self._value) < records.MAX_DETAIL:
            self._value += text


class _Relations(Quiet):
    """Where relations lead that are hyperlinks out of the file."""

    def __init__(self) -> None:
        self.targets: list[str] = []

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        if (
            name == "Relationship"
            and attributes.get("TargetMode") == "External"
            and attributes.get("Type", "").endswith("/hyperlink")
        ):
            self.targets.append(attributes.get("Target", ""))
