"""Markdown, by CommonMark: its headings and links, and the text between them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.token import Token

from gcs.summary.limits import Limits
from gcs.summary.plugins import Part
from gcs.summary.readers.saying import Said, document, text_of
from gcs.summary.records import Document, Link

_READ: Final = 256 << 10
_FRONT = re.compile(r"\A---\n(.{0,4000}?)\n(?:---|\.\.\.)\n", re.DOTALL)
_TITLE = re.compile(r"^title:\s*[\"']?(.+?)[\"']?\s*$", re.MULTILINE)


def read(part: Part, _: Limits) -> Document:
    """What a text says."""
    text, charset = text_of(part, most=_READ)
    text = text.replace("\r\n", "\n")
    front = _FRONT.match(text)
    title = _TITLE.search(front[1]) if front else None
    tokens = MarkdownIt("commonmark").enable("table").parse(text[front.end() :] if front else text)
    texts: list[str] = []
    headings: list[tuple[int, str]] = []
    links: list[Link] = []
    blocks: dict[str, int] = {}
    level = 0
    for token in tokens:
        if token.type == "heading_open":
            level = int(token.tag[1:])
        elif token.type == "inline":
            written = _plain(token.children or ())
            texts.append(written)
            if level:
                headings.append((level, written))
            links += _links(token.children or ())
            level = 0
        elif token.type == "fence":
            blocks[token.info.strip().partition(" ")[0] or "code"] = 1
    facts = {"code_in": list(blocks), "images": sum(link.kind == "image" for link in links)}
    said = Said(
        title=title[1] if title else "",
        text="\n".join(filter(None, texts)),
        headings=headings,
        links=[link for link in links if link.kind != "image"],
        charset=charset,
        facts=facts,
    )
    return document(part, said)


def _plain(tokens: Iterable[Token]) -> str:
    return "".join(" " if each.type in {"softbreak", "hardbreak"} else each.content for each in tokens)


def _links(tokens: Iterable[Token]) -> list[Link]:
    found: list[Link] = []
    href, parts = "", [""][:0]
    for token in tokens:
        if token.type == "link_open":
            href, parts = str(token.attrGet("href") or ""), []
        elif token.type == "link_close":
            found.append(Link(href, "".join(parts)))
            href = ""
        elif token.type == "image":
            found.append(Link(str(token.attrGet("src") or ""), token.content, kind="image"))
        elif href:
            parts.append(token.content)
    return found
