"""Recognise, expand, summarise: from the body of a response to a `Document`. (003, section 2.)

    recognise    what is it?              declared type, signatures, sniffing; recognisers go first
    expand       what is inside?          nothing, unless an expander knows the format
    summarise    what does it say?        a site's own summariser, one for the type, HTML, text, else the rest

`read` is all that the crawl loop calls; it never raises, whatever the body is. The parts of what a plug-in
expanded are summarised one by one and put together as one document; how many of them count is bounded.
Formats other than HTML and plain text are read apart (`gcs.summary.deep`); here they are recognised.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final, Literal

from gcs.summary import records, registry
from gcs.summary.charsets import decode
from gcs.summary.hypertext import read_full, read_links
from gcs.summary.limits import Limits
from gcs.summary.plaintext import read_text
from gcs.summary.plugins import NONE, Part, Plugins
from gcs.summary.recognise import MARKUP, TEXT, Recognised, is_textual, recognise
from gcs.summary.records import Document

Level = Literal["full", "links"]

_TYPES: Final = Document._fields.index("type_declared")
MAX_PARTS: Final = 100
MAX_EXPANDED_BYTES: Final = 64 << 20
"""How much of what an expander yields is read."""


def read(
    body: bytes, *, url: str, content_type: str = "", level: Level = "full", plugins: Plugins = NONE
) -> Document:
    """What a body holds. `url` is where it came from, `content_type` the header as sent; never raises."""
    found = recognised(content_type, url, body, plugins)
    part = Part(body, url, found.media_type, found.charset_label, level)
    document = whole(part, plugins)
    if level == "links":
        return document  # nobody keeps what it was taken for
    return with_types(document, found)


def with_types(document: Document, found: Recognised) -> Document:
    """A document with what server, name and content say that its body is."""
    # There is one for every page, and `_replace` takes ten times as long.
    return tuple.__new__(Document, (*document[:_TYPES], *found[2:], *document[_TYPES + 3 :]))


def whole(part: Part, plugins: Plugins, limits: Limits | None = None) -> Document:
    """What a body says, as `summarised`; expanded before by the plug-in for its type, if there is one."""
    if part.media_type not in plugins.expanders:
        return summarised(part, plugins, limits)
    what = f"expander of {part.media_type}"
    parts = plugins.call(what, part.url, list, lambda: list(_expanded(part, plugins)))
    if not parts:
        return summarised(part, plugins, limits)
    return _joined(part, [summarised(each, plugins, limits) for each in parts])


def recognised(content_type: str, url: str, body: bytes, plugins: Plugins) -> Recognised:
    """What a body is, by the plug-ins' word if one of them knows it."""
    found = recognise(content_type, url, body)
    for recogniser in plugins.recognisers:
        special = plugins.call("recogniser", url, str, lambda: recogniser(content_type, url, body))  # noqa: B023 - called at once
        if special:
            return found._replace(media_type=special)
    return found


def _expanded(part: Part, plugins: Plugins) -> Iterator[Part]:
    """The parts inside of a part, up to the limits."""
    room = MAX_EXPANDED_BYTES
    for inner in islice(plugins.expanders[part.media_type](part), MAX_PARTS):
        if not isinstance(inner, Part):
            raise TypeError(f"an expander yields Part, not {type(inner).__name__}")
        room -= len(inner.body)
        if room < 0:
            return
        yield inner


def summarised(part: Part, plugins: Plugins, limits: Limits | None = None) -> Document:
    """What a body says: by a plug-in's word, else by ours; with limits, in any format that there is.

    Without them never raises. With them raises whatever a reader raises.
    """
    summariser = plugins.summariser_for(part.url, part.media_type)
    if summariser is not None:
        given = plugins.call("summariser", part.url, Document, lambda: summariser(part))
        if given is not None:
            return given
    if limits is not None and (reader := registry.reader_of(part.media_type)):
        document: Document = registry.loaded("readers", reader)(part, limits)
        return document
    return summarise(part)


def summarise(part: Part) -> Document:
    """The summary that needs no reader: of HTML and text what they say, of anything else what it is."""
    media_type = part.media_type
    markup = media_type in MARKUP
    if not markup and not is_textual(media_type):
        return Document(format=media_type)
    domain = top_level(part.url)
    only_links = part.level == "links"
    utf8, charset = decode(
        part.body,
        part.charset_label,
        markup=markup or media_type != TEXT,
        domain=domain,
        believed=only_links,
    )
    if markup and only_links:
        document = read_links(utf8, charset=charset, media_type=media_type)
        if utf8 is part.body and not charset.detected and "\ufffd" in "".join(document.hrefs):
            # It is not the UTF-8 that it was believed to be.
            utf8, charset = decode(part.body, part.charset_label, domain=domain)
            document = read_links(utf8, charset=charset, media_type=media_type)
        return document
    if markup:
        return read_full(utf8, charset=charset, media_type=media_type, domain=domain)
    if only_links:
        return Document(
            format=media_type,
            charset=charset.used,
            charset_declared=charset.declared,
            charset_detected=charset.detected,
        )
    return read_text(utf8, charset=charset, media_type=media_type, domain=domain)


def top_level(url: str) -> str:
    """The last label of a URL's host, a hint at the language; nothing for an address in numbers."""
    host = url.partition("://")[2].partition("/")[0].partition(":")[0]
    label = host.rpartition(".")[2]
    return label if label.isalpha() else ""


def _joined(whole: Part, documents: list[Document]) -> Document:
    """One document of many: the text of the one that has most of it, the links of all."""
    best = max(documents, key=lambda each: len(each.excerpt))
    hrefs = [href for each in documents for href in each.hrefs]
    if any(each.texts for each in documents):
        links = [link for each in documents for link in each.links]
        best = best.with_links(links[: records.MAX_LINKS])
    else:
        best = best._replace(hrefs=hrefs[: records.MAX_LINKS])
    return best._replace(
        format=whole.media_type,
        links_cut=len(hrefs) > records.MAX_LINKS or any(each.links_cut for each in documents),
        base="",
        canonical="",
        refresh="",
    )
