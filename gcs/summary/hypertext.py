"""HTML, read: its links at level "links" (`gcs.summary.scan`), all that it says at level "full".

No level builds a tree, so no page takes more than linear time and memory. Full is the pass over the tags
(`gcs.summary.page`), the beginning of the text (`gcs.summary.excerpt`), and the language of that.
"""

from __future__ import annotations

from typing import Any

from gcs.summary import records
from gcs.summary.charsets import UNKNOWN, Charset
from gcs.summary.excerpt import beginning
from gcs.summary.head import Head
from gcs.summary.language import identify
from gcs.summary.page import look
from gcs.summary.recognise import HTML
from gcs.summary.records import Document
from gcs.summary.scan import scan
from gcs.summary.text import fitted


def read_links(body: bytes, *, charset: Charset = UNKNOWN, media_type: str = HTML) -> Document:
    """The links of a page in UTF-8, its base, and what it asks of crawlers; `charset` is what it was in."""
    found = scan(body)
    cut = len(found.hrefs) > records.MAX_LINKS
    return _document(found.head, charset, format=media_type, hrefs=_kept(found.hrefs), links_cut=cut)


def read_full(
    body: bytes, *, charset: Charset = UNKNOWN, media_type: str = HTML, domain: str = ""
) -> Document:
    """All that a page in UTF-8 says; `domain` (top-level) and `charset` hint at its language."""
    page, text = look(body), beginning(body)
    language = identify(text.sample, domain=domain, lang=page.lang, charset=charset.used)
    return _document(
        page.head,
        charset,
        format=media_type,
        hrefs=page.hrefs,
        texts=page.texts,
        rels=page.rels,
        kinds=page.kinds,
        links_cut=page.is_cut,
        title=page.title or (page.headings[0].text if page.headings else ""),
        headings=page.headings,
        excerpt=text.excerpt,
        language=language.code,
        language_confidence=language.confidence,
    )


def _kept(hrefs: list[str]) -> list[str]:
    kept = hrefs[: records.MAX_LINKS]
    if max(map(len, kept), default=0) > records.MAX_HREF:
        kept = [href for href in kept if len(href) <= records.MAX_HREF]
    return kept


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
