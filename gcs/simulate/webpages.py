"""How a page of the synthetic web looks: its head, its menu, and sections of text with links.

What a page says is drawn too: `drawn` are the numbers that its URL stands for, of which the first `OWN` are
the page's own and each link has one or two more. Texts hold one character per byte, as voices do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gcs.simulate.languages import PARAGRAPHS, PHRASES, Voice

OWN: Final = 16
DRAWS: Final = 160
MOST_LINKS: Final = 110
_MENU = 12
_PER_SECTION = 4
_LINK_BYTES, _FRAME_BYTES = 95, 700
_LAST_PHRASE = PHRASES - 1


@dataclass(frozen=True, slots=True)
class Page:
    """What is true of an HTML page, for judging what a summary says of it."""

    url: str
    language: str
    charset: str
    declared: str
    """Where the charset is declared: in the "header", a "meta" element, an "http-equiv", "" for nowhere."""
    title: str
    description: str
    noindex: bool
    nofollow: bool
    canonical: str | None

    @property
    def robots(self) -> str:
        """What the page tells robots, in its head or in a header."""
        words = (("noindex", self.noindex), ("nofollow", self.nofollow))
        return ", ".join(word for word, is_so in words if is_so)


def link_count(drawn: tuple[int, ...], most: int = MOST_LINKS) -> int:
    """How many links a page has beside those that make sure that everything is found."""
    size = _size(drawn)
    return min(most, 20 + size // 500 + drawn[1] % (10 + size // 2000))


def _size(drawn: tuple[int, ...]) -> int:
    """How many bytes a page is to have, about: many small ones, few large ones."""
    return 2_000 + int(54_000 * (drawn[0] / 2**32) ** 2)


def head(page: Page, speech: Voice, *, base: str, says_robots: bool) -> str:
    """All up to the first heading."""
    title = speech.wire(page.title.replace("&", "&amp;"))
    parts = [f'<!DOCTYPE html>\n<html lang="{page.language}">\n<head>\n']
    if page.declared == "meta":
        parts.append(f'<meta charset="{page.charset}">\n')
    elif page.declared == "http-equiv":
        parts.append(f'<meta http-equiv="Content-Type" content="text/html; charset={page.charset}">\n')
    parts.append(f"<title>{title}</title>\n")
    if base:
        parts.append(f'<base href="{base}">\n')
    if page.description:
        parts.append(f'<meta name="description" content="{speech.wire(page.description)}">\n')
    if says_robots and page.robots:
        parts.append(f'<meta name="robots" content="{page.robots}">\n')
    if page.canonical:
        parts.append(f'<link rel="canonical" href="{page.canonical}">\n')
    parts.append(
        '<link rel="stylesheet" href="/static/style.css">\n<script src="/static/app.js"></script>\n'
        f'</head>\n<body class="page">\n<h1>{title}</h1>\n'
    )
    return "".join(parts)


def body(speech: Voice, hrefs: list[str], drawn: tuple[int, ...], *, short: bool = False) -> str:
    """The menu and the sections, as long as the page is to be, and what looks like a link but is none.

    A `short` page has hardly more text than its links have.
    """
    phrases, paragraphs, ends = speech.wire_phrases, speech.wire_paragraphs, speech.wire_ends
    count = len(hrefs)
    menu = min(_MENU, count // 4)
    anchors = [f'<a href="{href}{ends[n & _LAST_PHRASE]}' for href, n in zip(hrefs, drawn, strict=False)]
    parts = ["<nav><ul>\n<li>", "</li>\n<li>".join(anchors[:menu]), "</li>\n</ul></nav>\n<main>\n"]
    size = 0 if short else _size(drawn)
    per_section = max(0, size - _LINK_BYTES * count - _FRAME_BYTES) / (count - menu) * _PER_SECTION
    owed = 0.0
    for start in range(menu, count, _PER_SECTION):
        number = drawn[start]
        parts.append(f'<section id="s{start % 7}"><h2>{phrases[number & _LAST_PHRASE]}</h2>\n<p>')
        parts += anchors[start : start + _PER_SECTION]
        # Only where another link, which may be followed, leads to the same page.
        if number & 7 == 1 and _is_plain_page(hrefs[start]):
            parts.append(f'<a rel="nofollow" href="{hrefs[start]}{ends[0]}')
        owed += per_section
        while owed > 0:
            paragraph = paragraphs[number % PARAGRAPHS]
            parts += paragraph, "</p>\n<p>"
            owed -= len(paragraph) + 8
            number += 7
        parts.append("</p></section>\n")
    parts.append(
        '</main>\n<footer><img src="/img/0.png" alt="a mark"> &copy; &mdash;</footer>\n'
        '<!-- <a href="/not-a-link">x</a> --><script>var x = \'<a href="/not-a-link">x</a>\';</script>\n'
        "</body>\n</html>\n"
    )
    return "".join(parts)


def _is_plain_page(href: str) -> bool:
    return href.startswith("/s") and "?" not in href
