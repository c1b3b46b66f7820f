"""All that the tags of a page say: links with their texts, headings, its title, its head.

One pass, compiled or of one regular expression, which is that of `gcs.summary.scan` with more groups. There
is no tree: what stands in a link or a heading is what is written up to its end, or to the next one, and that
is looked at in passing, so links in headings and headings in links are both found. In Python texts are put
together before they are decoded and resolved, since that takes as long for one as for a hundred.

Invariant: both levels give the same links in the same order.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import compress
from typing import NamedTuple, cast

from gcs.native import compiled, is_compiled
from gcs.summary import records
from gcs.summary.head import Head
from gcs.summary.markup import (
    ATTRIBUTE,
    BOGUS,
    COMMENT,
    NAME_ENDS,
    OTHER,
    SKIPPED,
    escaped,
    pairs,
    plain,
    raw,
    replaced,
    resolve,
    tags,
    values,
    without_markup,
)
from gcs.summary.records import Heading
from gcs.summary.scan import all_found
from gcs.summary.text import fitted

_PLAIN = r'[a-z-]++="[^"]*+"'
_IN_LINK = r"(?=([^<]*+(?:<(?!/?+[aA][\t\n\f\r />])[^<]*+)*+))"
_IN_HEADING = r"(?=([^<]*+(?:<(?!/?+[hH][1-6])[^<]*+)*+))"
# The usual spelling of a link; the general one is after it, and takes several times as long.
_USUAL = rf"""[aA]\ (?:(?!href=|rel=){_PLAIN}\ )*+href="([^"]*+)"((?:\ {_PLAIN})*+)>{_IN_LINK}"""
_ANCHOR = rf"[aA](?i:(?P<area>rea))?+{NAME_ENDS}({ATTRIBUTE}*+)(>|\Z)(?(area)|{_IN_LINK})"
_HEADING = rf"[hH](?:([1-6]){NAME_ENDS}{ATTRIBUTE}*+(?:>|\Z){_IN_HEADING}|(?i:tml){NAME_ENDS}({ATTRIBUTE}*+))"
_TAGS = tags(
    *(_USUAL, _ANCHOR, _HEADING, COMMENT, SKIPPED, OTHER, raw("title", kept=True), BOGUS),
    begin="(?=[aAbBfFhHiIlLmMnNsStTxX!?]|/[^a-zA-Z])",
)
_new = tuple.__new__
_SPACES = re.compile(r"[^\S\0]+")
# Longer texts than this are not put together.
_LONG = 4 * records.MAX_LINE


class Page(NamedTuple):
    """What the tags of a page say; of its links by columns, or one text for all of them."""

    head: Head
    title: str
    lang: str
    hrefs: Sequence[str]
    texts: Sequence[str]
    rels: str | Sequence[str]
    kinds: str | Sequence[str]
    headings: tuple[Heading, ...]
    is_cut: bool


class _Links:
    """The links of a page as written, each at the place of its tag among all that were found.

    The usual ones are columns of what was found; the others are put into them one by one.
    """

    __slots__ = ("hrefs", "kinds", "rels", "texts")

    def __init__(self, hrefs: list[bytes], texts: list[bytes]) -> None:
        self.hrefs, self.texts = hrefs, texts
        # Where they are not as usual.
        self.rels: dict[int, str] = {}
        self.kinds: dict[int, str] = {}

    def put(self, at: int, href: str, text: bytes, rel: str, kind: str) -> None:
        if not href:
            return
        self.hrefs[at], self.texts[at] = escaped(href), text
        if rel:
            self.rels[at] = rel
        if kind != "a":
            self.kinds[at] = kind


def look(body: bytes) -> Page:
    """What the tags of a page in UTF-8 say."""
    return look_compiled(body) if is_compiled else look_expressed(body)


def look_compiled(body: bytes) -> Page:
    """The same, by the compiled walk over the tags."""
    hrefs, referring, texts, referring_texts, rels, headings, specials, title = compiled.tags_in(
        replaced(body), records.MAX_LINKS, records.MAX_LINE
    )
    head, lang, kinds = Head(), "", dict[int, str]()
    for place, name, attributes in specials:
        said, tag = pairs(attributes), name.lower().decode("ascii")
        if tag == "html":
            lang = lang or said.get("lang", "")
            continue
        kind, hrefs[place] = (tag, said.get("href")) if tag == "area" else head.add(tag, said)
        if hrefs[place]:
            rels[place], kinds[place] = said.get("rel", ""), kind
            if tag == "area":
                (texts[place],) = lines([escaped(said.get("alt", ""))], records.MAX_LINE)
    if referring:
        resolve(hrefs, referring)
    if referring_texts:
        resolved = stripped_lines([cast("bytes", texts[each]) for each in referring_texts], records.MAX_LINE)
        for place, text in zip(referring_texts, resolved, strict=True):
            texts[place] = text
    named = [
        (level, text if isinstance(text, str) else stripped_lines([text], records.MAX_LINE)[0])
        for level, text in headings[: records.MAX_HEADINGS]
    ]
    columns = _Columns(
        cast("list[str]", hrefs),
        cast("list[str]", texts),
        _column(_resolved(rels), len(hrefs), ""),
        _column(kinds, len(hrefs), "a"),
    )
    kept = tuple([_new(Heading, each) for each in named if each[1]])
    return _page(head, title, lang, columns, kept)


def _resolved(rels: dict[int, str | bytes]) -> dict[int, str]:
    return {at: rel if isinstance(rel, str) else values([rel])[0] for at, rel in rels.items()}


def look_expressed(body: bytes) -> Page:
    """The same, by the regular expression."""
    found = all_found(_TAGS, body, records.MAX_LINKS)
    if not found:
        return Page(Head(), "", "", [], [], "", "a", (), is_cut=False)
    hrefs = [groups[0] for groups in found]
    links, head = _Links(hrefs, [groups[2] for groups in found]), Head()
    title, lang = b"", ""
    headings: list[Sequence[bytes]] = []
    others = [groups[1] for groups in found]
    if b" rel=" in b"".join(others):
        links.rels.update((at, pairs(other).get("rel", "")) for at, other in enumerate(others) if other)
    for at in [at for at, href in enumerate(hrefs) if not href]:
        if found[at][7]:
            headings.append(found[at][7:9])
            continue
        area, attributes, closed, text, _, _, html, name, _, more, closed_too, words = found[at][3:]
        if closed:
            _put_anchor(links, at, pairs(attributes), text, is_area=bool(area))
        elif closed_too:
            said = pairs(more)
            kind, target = head.add(name.lower().decode("ascii"), said)
            links.put(at, target, b"", said.get("rel", ""), kind)
        elif html:
            lang = lang or pairs(html).get("lang", "")
        elif words:
            title = title or words
    chosen = [at for at, href in enumerate(hrefs) if href]
    written = [links.texts[at] for at in chosen]
    headings = headings[: records.MAX_HEADINGS]
    # Those of headings too: what takes long is to begin.
    texts = lines(written + [text for _, text in headings], records.MAX_LINE)
    columns = _Columns(
        values(list(filter(None, hrefs))),
        texts[: len(written)],
        _chosen(_column(links.rels, len(hrefs), ""), chosen),
        _chosen(_column(links.kinds, len(hrefs), "a"), chosen),
    )
    return _page(head, title, lang, columns, _named(headings, texts[len(written) :]))


def _put_anchor(links: _Links, at: int, said: Mapping[str, str], text: bytes, *, is_area: bool) -> None:
    """A link that is not spelled as nearly all are."""
    if is_area:
        text = escaped(said.get("alt", ""))
    links.put(at, said.get("href", ""), text, said.get("rel", ""), "area" if is_area else "a")


class _Columns(NamedTuple):
    """Links by columns, or one text for all of them."""

    hrefs: list[str]
    texts: list[str]
    rels: str | list[str]
    kinds: str | list[str]

    def of(self, chosen: Sequence[object]) -> _Columns:
        """Those links for which something is true."""
        hrefs, texts = list(compress(self.hrefs, chosen)), list(compress(self.texts, chosen))
        rels = self.rels if isinstance(self.rels, str) else list(compress(self.rels, chosen))
        kinds = self.kinds if isinstance(self.kinds, str) else list(compress(self.kinds, chosen))
        return _Columns(hrefs, texts, rels, kinds)


def _page(head: Head, title: bytes, lang: str, links: _Columns, headings: tuple[Heading, ...]) -> Page:
    """A page of what was found: an empty link is none, and of the rest so many count, save endless ones."""
    if not all(links.hrefs):
        links = links.of(links.hrefs)
    if not any(links.rels):
        links = links._replace(rels="")
    is_cut = len(links.hrefs) > records.MAX_LINKS
    if is_cut:
        links = links.of([1] * records.MAX_LINKS)
    if max(map(len, links.hrefs), default=0) > records.MAX_HREF:
        links = links.of([len(href) <= records.MAX_HREF for href in links.hrefs])
    return Page(
        head=head,
        title=fitted(plain(title), records.MAX_TITLE) if title else "",
        lang=lang,
        hrefs=links.hrefs,
        texts=links.texts,
        rels=links.rels,
        kinds=links.kinds,
        headings=headings,
        is_cut=is_cut,
    )


def _column(unusual: dict[int, str], count: int, usual: str) -> str | list[str]:
    """A column of so many links, or what holds for all of them."""
    if not any(unusual.values()):
        return usual
    column = [usual] * count
    for at, text in unusual.items():
        column[at] = text[: records.MAX_REL]
    return column


def _chosen(column: str | list[str], places: Sequence[int]) -> str | list[str]:
    """What a column has at some places."""
    return column if isinstance(column, str) else [column[at] for at in places]


def _named(headings: Sequence[Sequence[bytes]], texts: Sequence[str]) -> tuple[Heading, ...]:
    """Those of the headings that say something."""
    return tuple(
        [_new(Heading, (int(level), text)) for (level, _), text in zip(headings, texts, strict=True) if text]
    )


def lines(texts: list[bytes], limit: int) -> list[str]:
    """Texts between tags as `fitted` makes them, without tags inside of them."""
    if b"<" in b"".join(texts):
        texts = [without_markup(text, b"") for text in texts]
    return stripped_lines(texts, limit)


def stripped_lines(texts: list[bytes], limit: int) -> list[str]:
    """Texts as `fitted` makes them; short ones all at once, which is several times as fast."""
    if not texts:
        return []
    joined = b"\0".join(texts)
    if len(joined) > _LONG and max(map(len, texts)) > _LONG:
        return [fitted(plain(text), limit) for text in texts]
    found = _tidied(plain(joined)).split("\0")
    if max(map(len, found)) > limit:
        found = [line[:limit].rstrip() for line in found]
    return found


def _tidied(joined: str) -> str:
    """Texts with zeros between them, and no white space but single spaces inside of each."""
    if "  " in joined or not joined.replace("\0", "").isprintable():
        joined = _SPACES.sub(" ", joined)
    if "\0 " in joined or " \0" in joined or joined[:1] == " " or joined[-1:] == " ":
        joined = joined.replace("\0 ", "\0").replace(" \0", "\0").strip(" ")
    return joined
