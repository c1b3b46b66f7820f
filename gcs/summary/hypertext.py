"""HTML, read: links only from its bytes, everything from its tree.

Level "links" reads no tree at all (`gcs.summary.scan`). Level "full" builds one and walks over it once: the
walk collects links, headings, paragraphs and what is no text; then that is cut out and the text is taken of
what is left. The main text is `<main>`, else the only `<article>`, else the body without navigation; the
excerpt is its first paragraphs of some length.

Both levels give the same links in the same order, as far as the docstring of `gcs.summary.scan` says.
Invariant: no page takes more than linear time and memory. One whose tree would be expensive
(`gcs.summary.nesting`) is read from its bytes at level "full" too, without the texts of links and headings;
and those texts, which may be nested, have a common budget.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from selectolax.lexbor import LexborDocumentOptions, LexborHTMLParser, LexborNode

from gcs.summary import records
from gcs.summary.charsets import UNKNOWN, Charset
from gcs.summary.head import Head
from gcs.summary.nesting import is_costly
from gcs.summary.recognise import HTML
from gcs.summary.records import Document, Heading, Link
from gcs.summary.scan import plain, scan, without_markup
from gcs.summary.text import Facts, facts, fitted

_NO_EVENTS = LexborDocumentOptions.WO_EVENTS.value
_SENTENCE = 40
_LITTLE = 100

_ANCHOR, _AREA, _HEADING, _PARAGRAPH, _NOT_TEXT, _HEAD, _TITLE, _MAIN, _ARTICLE = range(9)
_JOBS_BY_NAME: Final = {
    **dict.fromkeys(("h1", "h2", "h3", "h4", "h5", "h6"), _HEADING),
    **dict.fromkeys(("meta", "base", "link", "frame", "iframe"), _HEAD),
    **dict.fromkeys(("script", "style", "noscript", "template"), _NOT_TEXT),
    **dict.fromkeys(("nav", "footer", "aside", "select", "svg", "button"), _NOT_TEXT),
    "main": _MAIN,
    "article": _ARTICLE,
    "a": _ANCHOR,
    "area": _AREA,
    "p": _PARAGRAPH,
    "title": _TITLE,
}


def _tag_id(name: str) -> int:
    """The number that the parser has for a tag."""
    node = LexborHTMLParser("<frameset><frame>" if name == "frame" else f"<{name}>").css_first(name)
    assert node is not None
    return node.tag_id


_JOBS: Final = {_tag_id(name): job for name, job in _JOBS_BY_NAME.items()}
_LEVELS: Final = {_tag_id(f"h{level}"): level for level in range(1, 7)}


def read_links(body: bytes, *, charset: Charset = UNKNOWN, media_type: str = HTML) -> Document:
    """The links of a page in UTF-8, its base, and what it asks of crawlers; `charset` is what it was in."""
    found = scan(body)
    cut = len(found.hrefs) > records.MAX_LINKS
    return _document(found.head, charset, format=media_type, hrefs=_kept(found.hrefs), links_cut=cut)


def read_full(
    body: bytes, *, charset: Charset = UNKNOWN, media_type: str = HTML, domain: str = ""
) -> Document:
    """All that a page in UTF-8 says; `domain` (top-level) and `charset` hint at its language."""
    if is_costly(body):
        return _from_bytes(body, charset, media_type, domain)
    page = _Page(body)
    text = page.text()
    excerpt = page.excerpt() or fitted(text, records.MAX_EXCERPT)
    found = facts(text, excerpt, domain=domain, lang=page.lang, charset=charset.used)
    return _document(
        page.head,
        charset,
        format=media_type,
        links=page.links,
        hrefs=page.hrefs,
        links_cut=page.cut,
        title=page.title or (page.headings[0].text if page.headings else ""),
        headings=page.headings,
        excerpt=excerpt,
        **_said(found),
    )


def _from_bytes(body: bytes, charset: Charset, media_type: str, domain: str) -> Document:
    """What can be said at level "full" about a page of which there will be no tree."""
    found = scan(body)
    text = plain(without_markup(body))
    excerpt = fitted(text, records.MAX_EXCERPT)
    kept = found.hrefs[: records.MAX_LINKS]
    links = [
        Link(href, kind=found.kinds.get(at, "a"))
        for at, href in enumerate(kept)
        if len(href) <= records.MAX_HREF
    ]
    return _document(
        found.head,
        charset,
        format=media_type,
        links=links,
        hrefs=[link.href for link in links],
        links_cut=len(found.hrefs) > records.MAX_LINKS,
        title=fitted(found.title, records.MAX_TITLE),
        excerpt=excerpt,
        **_said(facts(text, excerpt, domain=domain, charset=charset.used)),
    )


def _kept(hrefs: list[str]) -> list[str]:
    kept = hrefs[: records.MAX_LINKS]
    if max(map(len, kept), default=0) > records.MAX_HREF:
        kept = [href for href in kept if len(href) <= records.MAX_HREF]
    return kept


def _said(found: Facts) -> dict[str, Any]:
    return {
        "language": found.language,
        "language_confidence": found.confidence,
        "words": found.words,
        "fingerprint": found.fingerprint,
    }


def _document(head: Head, charset: Charset, **facts: Any) -> Document:
    return Document(
        charset=charset.used,
        charset_declared=charset.declared,
        charset_detected=charset.detected,
        base=head.base,
        canonical=head.canonical,
        refresh=head.refresh,
        noindex=head.directives.noindex,
        nofollow=head.directives.nofollow,
        description=fitted(head.description, records.MAX_DESCRIPTION) if head.description else "",
        keywords=_keywords(head.keywords) if head.keywords else (),
        **facts,
    )


def _keywords(content: str) -> tuple[str, ...]:
    words = (fitted(word, records.MAX_KEYWORD) for word in content[:10_000].replace(";", ",").split(","))
    return tuple(dict.fromkeys(filter(None, words)))[: records.MAX_KEYWORDS]


class _Page:
    """A page's tree, walked over once."""

    def __init__(self, body: bytes) -> None:
        self._tree = LexborHTMLParser(body, options=_NO_EVENTS)
        self.head = Head()
        self.links: list[Link] = []
        self.title = self.lang = ""
        self._budget = 4 * len(body) + 10_000
        self._paragraphs: list[LexborNode] = []
        self._not_text: list[LexborNode] = []
        self._wholes: dict[int, list[tuple[LexborNode, int]]] = {_MAIN: [], _ARTICLE: []}
        self._heading_nodes: list[LexborNode] = []
        root = self._tree.root
        if root is not None:
            self.lang = root.attributes.get("lang") or ""
            self._walk(root)
        self._main, self._before_main = self._main_part()
        self.headings = tuple(self._read_headings())
        self.cut = len(self.links) > records.MAX_LINKS
        del self.links[records.MAX_LINKS :]
        self.hrefs = [link.href for link in self.links]
        if max(map(len, self.hrefs), default=0) > records.MAX_HREF:
            self.links = [link for link in self.links if len(link.href) <= records.MAX_HREF]
            self.hrefs = [link.href for link in self.links]

    def _walk(self, root: LexborNode) -> None:
        jobs, headings, paragraphs, not_text = _JOBS, self._heading_nodes, self._paragraphs, self._not_text
        add, new, kind = self.links.append, tuple.__new__, Link
        longest, longest_rel, budget = records.MAX_ANCHOR, records.MAX_REL, self._budget
        for node in root.traverse():
            job = jobs.get(node.tag_id)
            if job is None:
                continue
            if job == _ANCHOR:
                # Nearly all that is found is this, so it is spelled out: no call that can be done without.
                attributes = node.attributes
                href = attributes.get("href")
                if href:
                    text = node.text_lexbor() if budget > 0 else ""
                    if len(text) > longest:
                        budget -= len(text)
                        text = fitted(text, longest)
                    else:
                        text = " ".join(text.split())
                    rel = attributes.get("rel")
                    add(new(kind, (href, text, rel[:longest_rel] if rel else "", "a")))
            elif job == _PARAGRAPH:
                paragraphs.append(node)
            elif job == _HEADING:
                headings.append(node)
            elif job == _NOT_TEXT:
                not_text.append(node)
            else:
                self._other(job, node)
        self._budget = budget

    def _other(self, job: int, node: LexborNode) -> None:
        if job == _HEAD:
            attributes, name = node.attributes, node.tag or ""
            kind, target = self.head.add(name, attributes)
            if target:
                self._add(target, "", attributes.get("rel"), kind)
        elif job == _TITLE:
            self.title = self.title or self._text_of(node, records.MAX_TITLE)
        elif job == _AREA:
            attributes = node.attributes
            if href := attributes.get("href"):
                alt = fitted(attributes.get("alt") or "", records.MAX_ANCHOR)
                self._add(href, alt, attributes.get("rel"), "area")
        else:
            self._wholes[job].append((node, len(self._paragraphs)))

    def _main_part(self) -> tuple[LexborNode | None, int]:
        """The node with the main text, and how many paragraphs come before it."""
        mains, articles = self._wholes[_MAIN], self._wholes[_ARTICLE]
        if mains:
            return mains[0]
        return articles[0] if len(articles) == 1 else (None, 0)

    def _add(self, href: str, text: str, rel: str | None, kind: str) -> None:
        self.links.append(Link(href, text, (rel or "")[: records.MAX_REL], kind))

    def _read_headings(self) -> Iterator[Heading]:
        for node in self._heading_nodes[: records.MAX_HEADINGS]:
            if text := self._text_of(node, records.MAX_HEADING):
                yield Heading(_LEVELS[node.tag_id], text)

    def _text_of(self, node: LexborNode, limit: int) -> str:
        """The text inside of a node; nothing once the nodes of this page have had their share."""
        if self._budget <= 0:
            return ""
        text = node.text_lexbor()
        self._budget -= len(text)
        return fitted(text, limit)

    def text(self) -> str:
        """The main text, from now on without navigation, scripts and the like."""
        for node in self._not_text:
            node.decompose()
        whole = self._tree.body if self._main is None else self._main
        text = whole.text(separator=" ") if whole is not None else ""
        if self._main is not None and len(text) < _LITTLE and self._tree.body is not None:
            self._before_main = 0
            text = self._tree.body.text(separator=" ")
        return text

    def excerpt(self) -> str:
        """The first paragraphs of the main text that are no mere captions; "" if there are too few."""
        parts: list[str] = []
        size = 0
        for node in self._paragraphs[self._before_main :]:
            # What was cut out with the navigation has lost its parent.
            text = self._text_of(node, records.MAX_EXCERPT) if node.parent is not None else ""
            if len(text) >= _SENTENCE:
                parts.append(text)
                size += len(text)
                if size >= records.MAX_EXCERPT:
                    break
        return fitted(" ".join(parts), records.MAX_EXCERPT) if size >= _LITTLE else ""
