"""XML, walked through once: events with local names, and no tree. Nothing outside of it is ever fetched.

Entities that grow are refused by expat itself, which bounds how much more comes out than went in.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol
from xml.parsers import expat

from gcs.summary.charsets import Charset, decode
from gcs.summary.pipeline import top_level
from gcs.summary.plugins import Part


class Handler(Protocol):
    """What is told of elements and texts."""

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        """An element begins; names are local, without prefix and namespace."""

    def end(self, name: str) -> None:
        """An element ends."""

    def text(self, text: str) -> None:
        """Some text, perhaps not all of it."""


class Quiet:
    """A handler that does nothing yet."""

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        """An element begins."""

    def end(self, name: str) -> None:
        """An element ends."""

    def text(self, text: str) -> None:
        """Some text."""


class Enough(Exception):
    """A handler has seen what it wanted."""


def local(name: str) -> str:
    """A name without its namespace."""
    return name.rpartition("\n")[2]


def walk_text(part: Part, handler: Handler) -> Charset:
    """The same for a whole body, in whatever character set it is, also one that expat does not know."""
    utf8, charset = decode(part.body, part.charset_label, domain=top_level(part.url))
    walk(utf8, handler, encoding="utf-8")
    return charset


def walk(data: bytes, handler: Handler, *, encoding: str | None = None) -> None:
    """Tell a handler all that is in a document, until it has enough; raises ExpatError."""
    parser = expat.ParserCreate(encoding, namespace_separator="\n")
    parser.buffer_text = True
    parser.StartElementHandler = lambda name, attributes: handler.start(
        local(name), {local(key): value for key, value in attributes.items()}
    )
    parser.EndElementHandler = lambda name: handler.end(local(name))
    parser.CharacterDataHandler = handler.text
    try:
        parser.Parse(data, True)  # noqa: FBT003 - as it is called
    except Enough:
        return
