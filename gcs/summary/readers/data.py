"""JSON and YAML: which fields there are, what kinds of values they have, and the texts among them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import yaml

from gcs.summary.limits import Limits, Refused
from gcs.summary.plugins import Part
from gcs.summary.readers.saying import Said, document, text_of
from gcs.summary.records import Document, Link

_READ: Final = 32 << 20
_LOOKED_AT: Final = 20_000
"""Values that are looked at."""
_DEEPEST: Final = 12
_NAME: Final = 100
"""Characters of a name that count: it comes again in the path of everything below it."""
_NESTED: Final = 1_000
_EVENTS: Final = 4 * _LOOKED_AT
"""What a parser of YAML says at most: values, and that lists and mappings begin and end."""
_TITLES: Final = ("title", "name", "headline", "label")
_KINDS: Final = {str: "text", bool: "truth", int: "integer", float: "number", type(None): "nothing"}


class _Shape:
    """The fields of a value and of those in it, by their paths; `[]` stands for the items of a list."""

    def __init__(self) -> None:
        self.fields: dict[str, Counter[str]] = {}
        self.texts: list[str] = []
        self.links: list[Link] = []
        self.title = ""
        self._left = _LOOKED_AT

    def add(self, value: Any, path: str = "", depth: int = 0) -> None:
        """Take in a value; shared ones as often as they are there, but not more in all than is looked at."""
        if self._left <= 0 or depth > _DEEPEST:
            return
        self._left -= 1
        if isinstance(value, dict):
            for name, inner in value.items():
                named = str(name)[:_NAME]
                self.add(inner, f"{path}.{named}" if path else named, depth + 1)
        elif isinstance(value, list):
            for inner in value:
                self.add(inner, f"{path}[]", depth + 1)
                if self._left <= 0:
                    return
        elif path:
            self.fields.setdefault(path, Counter())[_KINDS.get(type(value), "text")] += 1
            self._take_text(str(value) if not isinstance(value, str) else value, path)

    def _take_text(self, text: str, path: str) -> None:
        if text.startswith(("http://", "https://")) and not any(map(str.isspace, text)):
            self.links.append(Link(text, path, kind="data"))
        elif " " in text:
            self.texts.append(text)
        if not self.title and path.rpartition(".")[2].lower() in _TITLES:
            self.title = text

    def shown(self) -> list[str]:
        """The fields and the kind that most values of each have."""
        return [f"{path}: {kinds.most_common(1)[0][0]}" for path, kinds in self.fields.items()]


def read_json(part: Part, _: Limits) -> Document:
    """What data in JSON, or in lines of it, says; raises ValueError for what is neither."""
    text, charset = text_of(part, most=_READ)
    try:
        values = [json.loads(text)]
    except RecursionError:
        raise Refused("nested too deep") from None
    except ValueError:
        lines = [line for line in text.splitlines() if line.strip()]
        if len(lines) < 2:
            raise Refused("truncated" if _is_begun(text) else "damaged: no JSON") from None
        values = list(_lines(lines))
    return _document(part, values, charset)


def _lines(lines: list[str]) -> Iterator[Any]:
    for number, line in enumerate(lines):
        try:
            yield json.loads(line)
        except ValueError:
            if number + 1 < len(lines) or not number:
                raise Refused("damaged: no JSON") from None


def _is_begun(text: str) -> bool:
    return text.lstrip()[:1] in {"{", "["}


def read_yaml(part: Part, _: Limits) -> Document:
    """What data in YAML says, as far as it is looked at; tags name no types here."""
    text, charset = text_of(part, most=_READ)
    values, is_whole = _composed(text)
    return _document(part, values, charset, is_whole=is_whole)


class _Open(NamedTuple):
    """A list or mapping of YAML whose end has not come yet; of a mapping the names and values in turn."""

    items: list[Any]
    is_mapping: bool
    anchor: str | None

    def value(self) -> Any:
        """What it is, with what has come so far."""
        if not self.is_mapping:
            return self.items
        names = [name if isinstance(name, str) else "" for name in self.items[::2]]
        return dict(zip(names, self.items[1::2], strict=False))


def _composed(text: str) -> tuple[list[Any], bool]:
    """The documents of a text in YAML up to so many values, and whether that is all of them.

    They are put together here from what the parser says: the library's own composer calls itself for each
    level, beyond the end of the stack, and does not end before the text does. References are not written out.
    """
    loader = yaml.CBaseLoader if hasattr(yaml, "CBaseLoader") else yaml.BaseLoader
    opened = [_Open([], is_mapping=False, anchor=None)]
    named: dict[str, Any] = {}

    def close() -> None:
        ended = opened.pop()
        value = ended.value()
        opened[-1].items.append(value)
        if ended.anchor:
            named[ended.anchor] = value

    for number, event in enumerate(yaml.parse(text, loader)):
        if number > _EVENTS:
            while len(opened) > 1:
                close()
            return opened[0].items, False
        if isinstance(event, yaml.CollectionStartEvent):
            if len(opened) > _NESTED:
                raise Refused("nested too deep")
            opened.append(_Open([], isinstance(event, yaml.MappingStartEvent), event.anchor))
        elif isinstance(event, yaml.CollectionEndEvent):
            close()
        elif isinstance(event, yaml.ScalarEvent):
            opened[-1].items.append(event.value)
            if event.anchor:
                named[event.anchor] = event.value
        elif isinstance(event, yaml.AliasEvent):
            opened[-1].items.append(named.get(event.anchor or "", ""))
    return opened[0].items, True


def _document(part: Part, values: list[Any], charset: Any, *, is_whole: bool = True) -> Document:
    shape = _Shape()
    for value in values:
        shape.add(value)
    first = values[0] if values else None
    count = len(first) if isinstance(first, list | dict) and len(values) == 1 else len(values)
    facts = {
        "kind": "list" if isinstance(first, list) else "mapping" if isinstance(first, dict) else "value",
        "items": count if is_whole else None,
        "fields": shape.shown(),
    }
    text = " ".join(shape.texts)[:100_000]
    return document(part, Said(title=shape.title, text=text, links=shape.links, charset=charset, facts=facts))
