"""SVG: its size, its texts, the colours it names, and where its links lead. It is not drawn."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from gcs.summary.limits import Limits
from gcs.summary.plugins import Part
from gcs.summary.readers.saying import Said, document
from gcs.summary.readers.trees import walk_text
from gcs.summary.records import Document, Link

_COLOUR = re.compile(r"(?:fill|stroke|stop-color)\s*:\s*(#[0-9a-fA-F]{3,8}|[a-z]{3,20}|rgb\([^)]{3,40}\))")
_NONE = frozenset({"none", "inherit", "currentcolor", "transparent"})
_NUMBER = re.compile(r"\s*([0-9.]+)")


class _Drawing:
    """What a drawing says."""

    def __init__(self) -> None:
        self.size: dict[str, object] = {}
        self.texts: list[str] = []
        self.title = self.description = ""
        self.links: list[Link] = []
        self.colours: Counter[str] = Counter()
        self.elements: Counter[str] = Counter()
        self._path: list[str] = []
        self._parts: list[str] = []

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        """An element begins."""
        if not self._path:
            self.size = _size(attributes)
        self._path.append(name)
        self.elements[name] += 1
        if name == "a" and attributes.get("href"):
            self.links.append(Link(attributes["href"], kind="svg"))
        for key in ("fill", "stroke", "stop-color"):
            if key in attributes:
                self.colours[attributes[key].lower()] += 1
        self.colours.update(map(str.lower, _COLOUR.findall(attributes.get("style", ""))))
        if name in {"title", "desc", "text"}:
            self._parts = []

    def end(self, name: str) -> None:
        """An element ends."""
        self._path.pop()
        if name not in {"title", "desc", "text"}:
            return
        text = "".join(self._parts).strip()
        self._parts = []
        if name == "title" and not self.title:
            self.title = text
        elif name == "desc" and not self.description:
            self.description = text
        elif text:
            self.texts.append(text)

    def text(self, text: str) -> None:
        """Some text."""
        if not self._path or self._path[-1] != "style":
            self._parts.append(text)


def _size(attributes: Mapping[str, str]) -> dict[str, object]:
    box = attributes.get("viewBox", "").replace(",", " ").split()
    written = (attributes.get("width", ""), attributes.get("height", ""))
    found = [_NUMBER.match(each) for each in (written if all(written) else box[2:4])]
    values = [float(each[1]) for each in found if each and each[1].count(".") < 2 and each[1] != "."]
    return {"width": values[0], "height": values[1]} if len(values) == 2 else {}


def read(part: Part, _: Limits) -> Document:
    """What a drawing says; raises ExpatError for what is not well-formed."""
    drawing = _Drawing()
    charset = walk_text(part, drawing)
    colours = [
        each for each, _ in drawing.colours.most_common() if each not in _NONE and not each.startswith("url")
    ]
    facts = {
        **drawing.size,
        "elements": sum(drawing.elements.values()),
        "scripts": drawing.elements["script"],
        "colours": colours[:5],
    }
    said = Said(
        title=drawing.title,
        text=" ".join(drawing.texts),
        description=drawing.description,
        links=drawing.links,
        charset=charset,
        facts=facts,
    )
    return document(part, said)
