"""The beginning of a page's main text: its first paragraphs.

The main text is `<main>`, else the only `<article>`, else the whole page; without what stands in navigation
and the like. Of that only what is closed again is left out: a `<nav>` that is never closed costs nothing but
itself. A page without paragraphs has its beginning instead.

Only as much of a page is looked at as the excerpt takes. Invariant: linear time; for the end of an element of
each kind that is never closed is looked once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from gcs.native import compiled, is_compiled
from gcs.summary import records
from gcs.summary.language import SAMPLE
from gcs.summary.markup import ATTRIBUTE, COMMENT, NAME_ENDS, SKIPPED, plain, raw, tags, without_markup
from gcs.summary.text import fitted

BEGINNING: Final = 64 << 10
"""Bytes of a page without paragraphs that are looked at."""
_SENTENCE = 40
_LITTLE = 100
_ASIDES: Final = ("nav", "footer", "aside", "noscript", "template", "select", "svg", "button")
_BLOCKS = (
    "p|address|article|aside|blockquote|body|center|dd|details|div|dl|dt|fieldset|figcaption|figure|footer|"
    "form|h[1-6]|header|hr|html|li|main|nav|ol|pre|section|table|tbody|td|th|tr|ul"
)
_EVENTS = tags(
    *(COMMENT, SKIPPED, raw("title")),
    rf"(?i:(p)|(main|article)|({'|'.join(_ASIDES)})){NAME_ENDS}{ATTRIBUTE}*+(?:>|\Z)",
    rf"/(?i:(main|article)){NAME_ENDS}{ATTRIBUTE}*+(?:>|\Z)",
    begin="(?=[aAbBfFmMnNpPsStTxX!]|/[mMaA])",
)
_PARAGRAPH = re.compile(rf"[^<]*+(?:<(?!/?+(?i:{_BLOCKS})[\t\n\f\r />])[^<]*+)*+".encode("ascii"))
_LOOKED_AT = 16 * records.MAX_EXCERPT
_INLINE_ASIDE = re.compile(
    rb"<(?i:(button|select|svg|noscript|template))[\t\n\f\r />][^<]*+(?:<(?!/(?i:\1)[\t\n\f\r />])[^<]*+)*+"
    rb"(?:(?=<)|\Z)"
)
_ENDS: Final = {name: re.compile(rf"<(/?)(?i:{name})[\t\n\f\r />]".encode("ascii")) for name in _ASIDES}


class CompiledMain:
    """The main part of a page, gone through once, by the compiled walk over the tags."""

    def __init__(self, body: bytes, part: bytes) -> None:
        """`part` is `main` or `article`, or "" for all of the page."""
        self._body = body
        self._written = compiled.Paragraphs(body, part, _LOOKED_AT, records.MAX_EXCERPT)

    def paragraphs(self) -> Iterator[str]:
        """What is written in each paragraph."""
        for text in self._written:
            yield text if isinstance(text, str) else fitted(plain(text), records.MAX_EXCERPT)

    def beginning(self) -> str:
        """The text of its beginning, without what was found to be none of it."""
        return _text_without(self._body, self._written.start, self._written.end, self._written.asides)


class ExpressedMain:
    """The same, by regular expressions."""

    def __init__(self, body: bytes, part: bytes) -> None:
        self._body, self._part = body, part
        self._unclosed: set[str] = set()
        self.start, self.end = 0, len(body)
        self.asides: list[tuple[int, int]] = []

    def paragraphs(self) -> Iterator[str]:
        """What is written in each paragraph."""
        body, part, at, inside = self._body, self._part, 0, not self._part
        while (found := _EVENTS.search(body, at)) is not None:
            at = found.end()
            paragraph, begun, aside, ended = found.groups()
            if aside:
                at = self._skip(aside.lower().decode("ascii"), found.start(), at)
            elif inside and paragraph:
                written = _PARAGRAPH.match(body, at)
                assert written is not None
                at = written.end()
                yield fitted(plain(_inline_text(written[0][:_LOOKED_AT])), records.MAX_EXCERPT)
            elif part and begun and begun.lower() == part and not inside:
                self.start, inside = at, True
            elif part and ended and ended.lower() == part and inside:
                self.end = found.start()
                return

    def _skip(self, name: str, start: int, at: int) -> int:
        """Where an element ends that is no text of the page; where its tag ends if it is never closed."""
        if name in self._unclosed or self._body[at - 2 : at] == b"/>":
            return at
        depth = 1
        for tag in _ENDS[name].finditer(self._body, at):
            depth += -1 if tag[1] else 1
            if not depth:
                self.asides.append((start, tag.end()))
                return tag.end()
        self._unclosed.add(name)
        return at

    def beginning(self) -> str:
        """The text of its beginning, without what was found to be none of it."""
        return _text_without(self._body, self.start, self.end, self.asides)


_Main = CompiledMain if is_compiled else ExpressedMain


def _text_without(body: bytes, start: int, end: int, asides: Sequence[tuple[int, int]]) -> str:
    """The beginning of a part of a page without what was found to be none of its text."""
    end = min(end, start + BEGINNING)
    kept, at = [], start
    for begin, over in asides:
        if at <= begin < end:
            kept.append(body[at:begin])
            at = over
    kept.append(body[at:end])
    return plain(without_markup(b" ".join(kept)))


def _inline_text(written: bytes) -> bytes:
    """What is written in a paragraph, without tags and buttons."""
    if b"<" not in written:
        return written
    return without_markup(_INLINE_ASIDE.sub(b"", written), b"")


class Beginning(NamedTuple):
    """How a page begins: an excerpt for people, and what is enough to tell the language from."""

    excerpt: str
    sample: str


def beginning(body: bytes, main: type[CompiledMain | ExpressedMain] = _Main) -> Beginning:
    """The first paragraphs of a page in UTF-8 that are no mere captions, or the beginning of its text."""
    part = _part(body)
    if part:
        found = _beginning(main(body, part))
        if len(found.excerpt) >= _LITTLE:
            return found
    return _beginning(main(body, b""))


def _part(body: bytes) -> bytes:
    """Which part of a page its main text is; "" for all of it."""
    if b"<main" in body or b"<MAIN" in body:
        return b"main"
    return b"article" if body.count(b"<article") == 1 else b""


def _beginning(main: CompiledMain | ExpressedMain) -> Beginning:
    parts: list[str] = []
    size = 0
    for text in main.paragraphs():
        if len(text) >= _SENTENCE:
            parts.append(text)
            size += len(text)
            if size >= records.MAX_EXCERPT:
                break
    found = " ".join(parts)[: records.MAX_EXCERPT].rstrip()
    if 2 * size > SAMPLE:
        return Beginning(found, found)
    text = fitted(main.beginning(), records.MAX_EXCERPT)
    return Beginning(found if size >= _LITTLE else text, text)
