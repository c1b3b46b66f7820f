"""A body, read with all that is inside of it: into one summary, and one for each member.

Runs where it may hang, crash and be killed (`gcs.summary.reading`). Whatever a reader or an expander raises
becomes the reason why its body was refused; what it found before stays.

A member's address is that of what it is in, `!/`, and its name: `http://host/a.zip!/docs/x.pdf`. Members are
no URLs of the crawl: nothing can be asked for there. What they link to by whole addresses counts as links of
the body that was fetched; relative links of theirs lead nowhere. What they ask of crawlers is obeyed.
"""

from __future__ import annotations

import hashlib
import re
from base64 import b32encode
from collections.abc import Iterable
from typing import Final
from urllib.parse import quote, unquote, urljoin

from gcs.summary import records, registry
from gcs.summary.inside import also, special
from gcs.summary.limits import Budget, Limits, Refused
from gcs.summary.members import Member, Read
from gcs.summary.names import SEPARATOR, name_of
from gcs.summary.pipeline import recognised, whole, with_types
from gcs.summary.plugins import NONE, Part, Plugins
from gcs.summary.recognise import BINARY
from gcs.summary.records import Document, Link, details, scalars

_MAX_NAME: Final = 500
_MAX_ADDRESS: Final = records.MAX_HREF - 10
_CUT: Final = re.compile(r"%[0-9A-F]?\Z")
_SAFE: Final = "/-._~()',;=@+$&*:"


def read(
    body: bytes,
    *,
    url: str,
    content_type: str = "",
    level: str = "full",
    plugins: Plugins = NONE,
    limits: Limits | None = None,
) -> Read:
    """Read a body and its members; never raises but MemoryError."""
    limits = limits or Limits()
    reading = _Reading(plugins, Budget(limits, len(body)), level)
    document = reading.document(body, url, content_type, depth=0)
    return Read(reading.with_links_of_members(document), reading.members)


class _Reading:
    """The reading of one body."""

    def __init__(self, plugins: Plugins, budget: Budget, level: str) -> None:
        self._plugins, self._budget, self._level = plugins, budget, level
        self.members: list[Member] = []
        self._links: list[Link] = []

    def document(self, body: bytes, url: str, content_type: str, *, depth: int) -> Document:
        """What a body says; its members, if it has some, are collected."""
        found = recognised(content_type, url, body, self._plugins)
        media_type = special(found.media_type, body)
        part = Part(body, url, media_type, found.charset_label, self._level)
        if other := also(media_type, body):
            why = f"a polyglot: it is {media_type} and also {other}"
            return with_types(Document(format=media_type, refused=why), found)
        document = self._read(part)
        expander = registry.expander_of(media_type)
        if expander and part.media_type not in self._plugins.expanders:
            document = self._expanded(part, document, expander, depth)
        if not document.refused.isprintable():
            document = document._replace(refused=_printable(document.refused))
        return with_types(document, found)

    def _read(self, part: Part) -> Document:
        try:
            document = whole(part, self._plugins, self._budget.limits)
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - libraries raise anything for what is broken
            return Document(format=part.media_type, refused=reason(part.media_type, error))
        return document._replace(format=part.media_type)

    def _expanded(self, part: Part, document: Document, expander: str, depth: int) -> Document:
        """A document with what is said of its members."""
        names: list[str] = []
        count = size_bytes = 0
        refused = document.refused
        addresses: set[str] = set()
        try:
            if depth >= self._budget.limits.depth:
                raise Refused(f"nested more than {depth} deep")
            for inner in registry.loaded("expanders", expander)(part, self._budget):
                self._budget.member()
                address = address_of(part.url, inner.url, addresses)
                addresses.add(address)
                names.append(inner.url)
                count, size_bytes = count + 1, size_bytes + len(inner.body)
                self._member(inner, address, part.url, depth + 1)
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - as above
            refused = refused or reason(part.media_type, error)
        facts = {"members": count, "expanded_bytes": size_bytes, "names": names}
        said = (*details(facts), *document.details)
        return document._replace(
            title=document.title or scalars(unquote(name_of(part.url)), records.MAX_TITLE),
            details=said[: records.MAX_DETAILS],
            refused=refused,
        )

    def _member(self, inner: Part, address: str, parent: str, depth: int) -> None:
        if inner.level == REFUSED:
            why = _printable(scalars(inner.charset_label, records.MAX_REFUSED))
            document = Document(format=inner.media_type or BINARY, refused=why)
        else:
            document = self.document(inner.body, address, inner.media_type, depth=depth)
        if not document.nofollow:
            self._links += absolute(document, inner.url)
        if document.noindex:
            return
        digest = b32encode(hashlib.sha1(inner.body, usedforsecurity=False).digest()).decode()
        bare = document._replace(hrefs=(), texts=(), rels="", kinds="a", base="", canonical="", refresh="")
        links = len(document.hrefs)
        self.members.append(Member(address, parent, len(inner.body), f"sha1:{digest}", links, bare))

    def with_links_of_members(self, document: Document) -> Document:
        """The document of the body that was fetched, with the links of its members behind its own."""
        if not self._links:
            return document
        links = [*document.links, *self._links]
        cut = document.links_cut or len(links) > records.MAX_LINKS
        return document.with_links(links[: records.MAX_LINKS])._replace(links_cut=cut)


REFUSED: Final = "refused"
"""The level of a part that an expander could not have: its label says why."""


def unreadable(name: str, why: str) -> Part:
    """A member of which there is only the name, and why it is not read."""
    return Part(b"", name, "", why, REFUSED)


def _printable(why: str) -> str:
    """A reason without control characters: errors quote what they complain about."""
    return "".join(filter(str.isprintable, why))


def reason(media_type: str, error: Exception) -> str:
    """Why something was refused, in a few words."""
    if isinstance(error, Refused):
        return scalars(str(error), records.MAX_REFUSED)
    said = str(error).partition("\n")[0]
    name = type(error).__name__
    return scalars(f"not readable as {media_type}: {said or name}", records.MAX_REFUSED)


def address_of(container: str, name: str, taken: Iterable[str] = ()) -> str:
    """The address of a member, which no other has: without steps upwards, and "!" only where it separates.

    Raises Refused when there is no room for one.
    """
    steps = [step for step in name.replace("\\", "/").lstrip("/").split("/") if step not in {".", ".."}]
    quoted = quote("/".join(steps).encode("utf-8", "replace"), safe=_SAFE) or "unnamed"
    if len(quoted) > _MAX_NAME:
        quoted = _CUT.sub("", quoted[:_MAX_NAME])
    address = f"{container}{SEPARATOR}{quoted}"
    if len(address) > _MAX_ADDRESS:
        raise Refused("the addresses of its members would be too long")
    number, free = 2, address
    while free in taken:
        free, number = f"{address}~{number}", number + 1
    return free


def absolute(document: Document, name: str) -> list[Link]:
    """Those links of a member that lead somewhere whatever it is in; its name may be where it came from."""
    base = next((each for each in (document.base, name) if each.startswith(("http://", "https://"))), "")
    kept = []
    for link in document.links:
        try:
            href = urljoin(base, link.href) if base else link.href
        except ValueError:
            continue
        if href.lower().startswith(("http://", "https://")):
            kept.append(link._replace(href=href[: records.MAX_HREF]))
    return kept
