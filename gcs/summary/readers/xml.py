"""XML of any kind: its outermost element and namespace, which elements there are, its text and its links."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from gcs.summary.keywords import READ
from gcs.summary.limits import Limits
from gcs.summary.plugins import Part
from gcs.summary.readers.saying import Said, document
from gcs.summary.readers.trees import walk_text
from gcs.summary.records import Document, Link

_PATHS: Final = 5_000
_DEEPEST: Final = 32
_NAME: Final = 100
"""Characters of a name that count: it comes again in the path of everything below it."""
_HREFS: Final = ("href", "src", "url", "schemaLocation")


class _Shape:
    """Paths of elements, and texts."""

    def __init__(self) -> None:
        self.paths: Counter[str] = Counter()
        self.attributes: Counter[str] = Counter()
        self.texts: list[str] = []
        self.links: list[Link] = []
        self.title = ""
        self._path: list[str] = []
        self._parts: list[str] = []
        self._size = 0

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        """An element begins."""
        name = name[:_NAME]
        self._path.append(name)
        path = "/".join(self._path[:_DEEPEST])
        if len(self.paths) < _PATHS or path in self.paths:
            self.paths[path] += 1
        for key, value in attributes.items():
            self.attributes[f"{name}@{key[:_NAME]}"] += 1
            if key in _HREFS and value.startswith(("http://", "https://")):
                self.links.append(Link(value.split()[0], kind="xml"))
        self._parts = []

    def end(self, name: str) -> None:
        """An element ends."""
        text = "".join(self._parts).strip()
        self._parts = []
        self._path.pop()
        if not text:
            return
        if name.lower() == "title" and not self.title:
            self.title = text
        if text.startswith(("http://", "https://")) and not any(map(str.isspace, text)):
            self.links.append(Link(text, kind="xml"))
        elif self._size < READ:
            self.texts.append(text)
            self._size += len(text)

    def text(self, text: str) -> None:
        """Some text."""
        if self._size < READ:
            self._parts.append(text)


def read(part: Part, _: Limits) -> Document:
    """What a document says; raises ExpatError for what is not well-formed."""
    shape = _Shape()
    charset = walk_text(part, shape)
    facts = {
        "root": next(iter(shape.paths), ""),
        "elements": sum(shape.paths.values()),
        "fields": [f"{path}: {count}" for path, count in shape.paths.items()],
        "attributes": [f"{name}: {count}" for name, count in shape.attributes.items()],
    }
    text = "\n".join(shape.texts)
    said = Said(title=shape.title, text=text, links=shape.links, charset=charset, facts=facts)
    return document(part, said)
