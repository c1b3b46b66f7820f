"""Whether building the tree of a page would cost far more than reading it.

The rules of HTML make three things expensive that are cheap to write. Many tags have the parser walk up all
open elements. An unclosed `<font>` or the like is put anew into every paragraph that follows, so that fifty
kilobytes can become millions of nodes. Each attribute is compared with those before it. What the tree would
cost is estimated here from the tags alone, in linear time, and rather too high than too low: an end tag
closes only what it would close in every case.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from gcs.summary.scan import ATTRIBUTE, COMMENT, NAME_ENDS, RAW, tags

# A page with fewer tags and bytes than this cannot be expensive.
_FEW_TAGS = 1_000
_FEW_BYTES = 32_768
# With fewer than this, depth cannot be expensive.
_SOME_TAGS = 4_000
# With more than this the estimate itself would be expensive.
_MANY_TAGS = 100_000

_MAX_STEPS = 10_000_000
_MAX_NODES = 300_000
_MAX_REPEATED = 200
# How far up an end tag looks for its element.
_REACH = 32

_NAMES_OF_FORMATTING = "b|big|code|em|font|i|s|small|strike|strong|tt|u"
_TAGS = tags(COMMENT, RAW, rf"(/?+)([a-zA-Z][^\t\n\f\r />]*+)({ATTRIBUTE}*+)")
_FORMATTING_TAGS = tags(rf"((?i:{_NAMES_OF_FORMATTING}){NAME_ENDS}{ATTRIBUTE}*+)")
_MANY_ATTRIBUTES = tags(rf"/?+[a-zA-Z][^\t\n\f\r />]*+{ATTRIBUTE}{{4000}}")
_FORMATTING: Final = frozenset(_NAMES_OF_FORMATTING.encode().split(b"|"))
# Of equal elements of formatting no more than this are put anew into what follows.
_MAX_ALIKE = 3
# Formatting too, but each of them ends the one before it.
_SINGLE: Final = frozenset({b"a", b"nobr"})
# What is closed without what is in it.
_ALONE: Final = _FORMATTING | _SINGLE | {b"form"}
# Elements that have no end tag, or are closed by the next of their kind.
_NEVER_OPEN: Final = frozenset(
    b"area base basefont bgsound br col embed frame hr img input keygen link meta param source track wbr"
    b" p li dt dd option tr td th html body head script style title textarea".split()
)
# An end tag does not look for its element beyond these.
_BARRIERS: Final = frozenset(
    b"table caption template applet marquee object button ul ol select svg math foreignobject desc".split()
)
_REPEATABLE: Final = frozenset({b"html", b"body"})
# Inside of a drawing a tag may close itself; these do not lead out of it.
_DRAWN: Final = frozenset(
    b"svg g defs symbol text tspan mask pattern marker filter clippath lineargradient radialgradient".split()
)


def is_costly(body: bytes) -> bool:
    """Whether a page is to be read without its tree."""
    count = body.count(b"<")
    if count < _FEW_TAGS and len(body) < _FEW_BYTES:
        return False
    if count > _MANY_TAGS or _MANY_ATTRIBUTES.search(body):
        return True
    if count < _SOME_TAGS and _formatting_at_most(body) * count <= _MAX_NODES:
        return False
    return _Estimate().exceeds(_TAGS.findall(body))


def _formatting_at_most(body: bytes) -> int:
    """How many elements of formatting are in force if none is ever closed."""
    return sum(min(times, _MAX_ALIKE) for times in Counter(_FORMATTING_TAGS.findall(body)).values())


class _Estimate:
    """The elements that are open, each with its attributes and whether it is surely inside of a drawing."""

    __slots__ = ("_alike", "_deepest", "_formatting", "_most_formatting", "_open", "_repeated")

    def __init__(self) -> None:
        self._open: list[tuple[bytes, bytes, bool]] = []
        self._alike: Counter[tuple[bytes, bytes]] = Counter()
        self._deepest = self._formatting = self._most_formatting = self._repeated = 0

    def exceeds(self, found: list[tuple[bytes, bytes, bytes]]) -> bool:
        """Whether tags (the slash of an end tag, the name, the attributes) make an expensive tree."""
        for end, name, attributes in found:
            lowered = name.lower()
            if end:
                self._end(lowered)
            elif lowered in _REPEATABLE:
                self._repeated += 1
            elif lowered and lowered not in _NEVER_OPEN:
                self._start(lowered, attributes)
        return (
            self._deepest * len(found) > _MAX_STEPS
            or self._most_formatting * len(found) > _MAX_NODES
            or self._repeated > _MAX_REPEATED
        )

    def _start(self, name: bytes, attributes: bytes) -> None:
        inside = bool(self._open) and self._open[-1][2]
        if attributes.endswith(b"/") and (inside or name == b"svg"):
            return
        if name in _SINGLE:
            self._end(name)
        self._open.append((name, attributes, name == b"svg" or (inside and name in _DRAWN)))
        self._deepest = max(self._deepest, len(self._open))
        if name in _FORMATTING:
            self._alike[name, attributes] += 1
            self._formatting += self._alike[name, attributes] <= _MAX_ALIKE
            self._most_formatting = max(self._most_formatting, self._formatting)

    def _end(self, name: bytes) -> None:
        """Close the next element of a name; with a block all that is in it, save formatting begun there."""
        opened = self._open
        for at in range(len(opened) - 1, max(-1, len(opened) - 1 - _REACH), -1):
            each, attributes, _ = opened[at]
            if each == name:
                if name in _FORMATTING:
                    self._formatting -= self._alike[name, attributes] <= _MAX_ALIKE
                    self._alike[name, attributes] -= 1
                del opened[at : at + 1 if name in _ALONE else None]
                return
            if each in _BARRIERS:
                return
