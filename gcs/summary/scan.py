"""The links of a page, and nothing else: one pass over its bytes, compiled or of one regular expression.

A look at the first letter passes most tags over. Two things are not seen that a parser would see: a link
inside of another tag (`title="<a href=x>"`) counts as one, and so does a link in `<template>`, in `<svg>` or
after `<plaintext>`. They, too, lead somewhere.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import NamedTuple, cast

from gcs.native import compiled, is_compiled
from gcs.summary.head import Head
from gcs.summary.markup import (
    ATTRIBUTE,
    BOGUS,
    COMMENT,
    EQUALS,
    NAME_ENDS,
    OTHER,
    SKIPPED,
    escaped,
    pairs,
    raw,
    replaced,
    resolve,
    tags,
    values,
)
from gcs.summary.records import MAX_LINKS

# The usual spelling of a link; the general one is after it, and takes twice as long.
_USUAL = r"""[aA]\ (?:class="[^"]*+"\ )?+href="([^"]*+)"(?:[ ][a-z-]++="[^"]*+")*+>"""
_ANCHOR = rf"""[aA](?i:rea)?+{NAME_ENDS}(?:(?!(?i:href)[\t\n\f\r />=]){ATTRIBUTE})*+
    (?:(?i:href){EQUALS}(?:"([^"]*+)(?:"|\Z)|'([^']*+)(?:'|\Z)|([^\t\n\f\r >]*+)))?+{ATTRIBUTE}*+(>|\Z)"""
_SCANNED = tags(
    *(_USUAL, _ANCHOR, COMMENT, SKIPPED, OTHER, raw("title"), BOGUS),
    # What is in these tags belongs to them at the other level, so it does here.
    rf"[hH](?:[1-6]|(?i:tml)){NAME_ENDS}{ATTRIBUTE}*+",
    begin="(?=[aAbBfFhHiIlLmMnNsStTxX!?]|/[^a-zA-Z])",
)
_LARGE_BYTES = 1 << 20


class Scanned(NamedTuple):
    """The links of a page, and what its head says."""

    hrefs: list[str]
    head: Head


def scan(body: bytes) -> Scanned:
    """The links of a page in UTF-8, in its order and one more than MAX_LINKS at most; what other tags say."""
    return scan_compiled(body) if is_compiled else scan_expressed(body)


def scan_compiled(body: bytes) -> Scanned:
    """The same, by the compiled walk over the tags."""
    written, referring, specials = compiled.links_in(replaced(body), MAX_LINKS)
    head = Head()
    for place, name, attributes in specials:
        _, written[place] = head.add(name.lower().decode("ascii"), pairs(attributes))
    if referring:
        resolve(written, referring)
    hrefs = cast("list[str]", list(filter(None, written)))
    return Scanned(hrefs[: MAX_LINKS + 1], head)


def scan_expressed(body: bytes) -> Scanned:
    """The same, by the regular expression."""
    found, head = all_found(_SCANNED, body, MAX_LINKS), Head()
    hrefs = [groups[0] for groups in found]
    for at in [at for at, href in enumerate(hrefs) if not href]:
        _, double, single, bare, closed, name, _, attributes, other_closed = found[at]
        if closed:
            hrefs[at] = double or single or bare
        elif other_closed:
            _, target = head.add(name.lower().decode("ascii"), pairs(attributes))
            hrefs[at] = escaped(target)
    return Scanned(list(filter(None, values(list(filter(None, hrefs)))))[: MAX_LINKS + 1], head)


def all_found(pattern: re.Pattern[bytes], body: bytes, most: int) -> list[tuple[bytes, ...]]:
    """All that a pattern finds in a page, as its groups; of a huge page ten times as many as `most`, and one.

    Both levels find the same tags, so they stop at the same one.
    """
    body = replaced(body)
    if len(body) <= _LARGE_BYTES:
        return pattern.findall(body)
    return [tag.groups(b"") for tag in islice(pattern.finditer(body), 10 * most + 1)]
