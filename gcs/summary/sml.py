"""SML, the summary markup language of 003, section 2: summaries as XML, for readers of any kind.

    <sml version="2">
     <summary url="http://example.org/">
      <status>200</status> … <keyword>crawler</keyword> <heading level="1">…</heading>
      <detail name="pages" kind="number">12</detail>
      <link to="http://example.org/a" rel="next" kind="a">A page</link>
     </summary>
    </sml>

`sml.xsd`, beside this module, is its schema.

An element is named after its field and left out when it has the field's default. A detail is a text, a
number, or, one element for each, an item of several. XML cannot hold control
characters and some others, not even as references; an element with one of them says `escaped="yes"`, and in
its texts a backslash is doubled and such a character is a backslash, its number in hexadecimal, a semicolon.

Invariant: what `write` wrote, `read` reads back exactly. The reader takes no document type, so a file from
elsewhere can neither grow in memory by its entities nor fetch anything.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from datetime import datetime
from typing import IO, Any, Final, NamedTuple
from xml.parsers import expat

from gcs.summary.records import VERSION, Detail, Edge, Heading, NewerRecord, Summary, instant

_CHUNK = 1 << 16
_ILLEGAL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_ESCAPED = re.compile(r"\\(?:\\|([0-9a-f]+);)")
# Line ends and tabs as references, or a reader would take them for others.
_MARKUP = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\r": "&#13;", "\t": "&#9;", "\n": "&#10;"}
)
_FIELDS: Final = {each.name: each for each in fields(Summary)}
_ONE_VALUE: Final = tuple(name for name in _FIELDS if name not in {"url", "keywords", "headings", "details"})


class BadSml(ValueError):
    """A file that is no SML; the message says where and why."""


class Entry(NamedTuple):
    """A summary, and the links out of its page."""

    summary: Summary
    links: tuple[Edge, ...] = ()


def write(entries: Iterable[Entry], stream: IO[bytes]) -> None:
    """Write summaries as one document."""
    stream.write(f'<?xml version="1.0" encoding="UTF-8"?>\n<sml version="{VERSION}">\n'.encode())
    for entry in entries:
        stream.write("".join(_lines(entry)).encode("utf-8"))
    stream.write(b"</sml>\n")


def _lines(entry: Entry) -> Iterator[str]:
    summary = entry.summary
    yield f" <{_tag('summary', url=summary.url)}>\n"
    for name in _ONE_VALUE:
        value = getattr(summary, name)
        if value != _FIELDS[name].default or name == "version":
            yield _element(name, _shown(name, value))
    for keyword in summary.keywords:
        yield _element("keyword", keyword)
    for heading in summary.headings:
        yield _element("heading", heading.text, level=str(heading.level))
    for detail in summary.details:
        yield from _detail_lines(detail)
    for link in entry.links:
        said = {"to": link.target, "rel": link.rel, "kind": link.kind}
        said |= {"fetched_us": str(link.fetched_us)} if link.fetched_us else {}
        yield _element("link", link.text, **said, **({"repeated": "yes"} if link.repeated else {}))
    yield " </summary>\n"


def _detail_lines(detail: Detail) -> Iterator[str]:
    if detail.number is not None:
        yield _element("detail", repr(detail.value), name=detail.name, kind="number")
    elif detail.items is None:
        yield _element("detail", detail.text or "", name=detail.name, kind="text")
    else:
        for item in detail.items:
            yield _element("detail", item, name=detail.name, kind="item")


def _shown(name: str, value: Any) -> str:
    if name == "fetched_at":
        return instant(value).isoformat()
    if isinstance(value, bool):
        return "yes" if value else "no"
    return repr(value) if isinstance(value, float) else str(value)


def _element(name: str, text: str, /, **attributes: str) -> str:
    escaped = any(map(_ILLEGAL.search, (text, *attributes.values())))
    return f"  <{_tag(name, escaped=escaped, **attributes)}>{_written(text, escaped=escaped)}</{name}>\n"


def _tag(name: str, /, *, escaped: bool | None = None, **attributes: str) -> str:
    if escaped is None:
        escaped = any(map(_ILLEGAL.search, attributes.values()))
    shown = [f' {each}="{_written(value, escaped=escaped)}"' for each, value in attributes.items()]
    return name + (' escaped="yes"' if escaped else "") + "".join(shown)


def _written(text: str, *, escaped: bool) -> str:
    if escaped:
        text = _ILLEGAL.sub(lambda found: f"\\{ord(found[0]):x};", text.replace("\\", "\\\\"))
    return text.translate(_MARKUP)


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)) if found[1] else "\\", text)


def _flag(text: str) -> bool:
    return text == "yes"


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


_BY_TYPE: Final[dict[str, Callable[[str], Any]]] = {"int": int, "float": float, "bool": _flag, "str": str}


def read(stream: IO[bytes]) -> Iterator[Entry]:
    """The summaries of a document, as they come; raises BadSml, or NewerRecord for a newer version's."""
    reader = _Reader()
    while chunk := stream.read(_CHUNK):
        yield from reader.feed(chunk)
    yield from reader.feed(b"", last=True)


class _Reader:
    """Collects what the XML parser finds until a summary is whole."""

    def __init__(self) -> None:
        self._parser = expat.ParserCreate()
        self._parser.buffer_text = True
        self._parser.StartDoctypeDeclHandler = self._refuse
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._text
        self._attributes: dict[str, str] = {}
        self._parts: list[str] = []
        self._facts: dict[str, Any] = {}
        self._links: list[Edge] = []
        self._whole: list[Entry] = []
        self._depth = 0

    def feed(self, chunk: bytes, *, last: bool = False) -> list[Entry]:
        """Read on; gives the summaries that have become whole."""
        try:
            self._parser.Parse(chunk, last)
        except (expat.ExpatError, KeyError, TypeError, ValueError, OverflowError) as error:
            if isinstance(error, BadSml | NewerRecord):
                raise
            raise BadSml(f"line {self._parser.CurrentLineNumber}: not SML: {error!r}") from error
        whole, self._whole = self._whole, []
        return whole

    def _refuse(self, *_: object) -> None:
        raise BadSml("a document type is not allowed in SML")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if self._depth == 0:
            if name != "sml":
                raise BadSml(f"the outermost element is {name}, not sml")
            if int(attributes["version"]) > VERSION:
                raise NewerRecord(
                    f"SML of version {attributes['version']}; this program reads up to {VERSION}"
                )
        escaped = attributes.pop("escaped", "") == "yes"
        self._attributes = {at: _unescaped(to) if escaped else to for at, to in attributes.items()}
        self._escaped = escaped
        self._parts = []
        self._depth += 1
        if name == "summary":
            self._facts = {"url": self._attributes["url"], "keywords": [], "headings": [], "details": []}
            self._links = []

    def _text(self, text: str) -> None:
        self._parts.append(text)

    def _end(self, name: str) -> None:
        self._depth -= 1
        if self._depth == 1:
            self._finish()
        elif self._depth == 2:
            text = "".join(self._parts)
            self._take(name, _unescaped(text) if self._escaped else text)

    def _take(self, name: str, text: str) -> None:
        said = self._attributes
        if name == "keyword":
            self._facts["keywords"].append(text)
        elif name == "heading":
            self._facts["headings"].append(Heading(int(said["level"]), text))
        elif name == "detail":
            self._take_detail(said["name"], said["kind"], text)
        elif name == "link":
            fetched_us, repeated = int(said.get("fetched_us", 0)), "repeated" in said
            edge = Edge(self._facts["url"], said["to"], text, said["rel"], said["kind"], fetched_us, repeated)
            self._links.append(edge)
        elif name == "fetched_at":
            self._facts[name] = _seconds(text)
        elif name in _ONE_VALUE:
            self._facts[name] = _BY_TYPE[str(_FIELDS[name].type)](text)

    def _take_detail(self, name: str, kind: str, text: str) -> None:
        found: list[Detail] = self._facts["details"]
        if kind == "number":
            found.append(Detail.of(name, float(text)))
        elif kind != "item":
            found.append(Detail.of(name, text))
        elif found and found[-1].name == name and found[-1].items is not None:
            found[-1] = Detail.of(name, (*found[-1].items, text))
        else:
            found.append(Detail.of(name, (text,)))

    def _finish(self) -> None:
        facts = self._facts
        if facts.get("version", VERSION) > VERSION:
            raise NewerRecord(f"a summary of version {facts['version']}; this program reads up to {VERSION}")
        for several in ("keywords", "headings", "details"):
            facts[several] = tuple(facts[several])
        self._whole.append(Entry(Summary(**facts), tuple(self._links)))
