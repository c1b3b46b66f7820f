"""The links of a page, and nothing else: one pass of one regular expression over its bytes.

A look at the first letter passes most tags over. Two things are not seen that a parser would see: a link
inside of another tag (`title="<a href=x>"`) counts as one, and so does a link in `<template>`, in `<svg>` or
after `<plaintext>`. They, too, lead somewhere.
"""

from __future__ import annotations

import re
from typing import NamedTuple

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
    rf"[hH](?:[1-6]|(?i:tml))(?=[\t\n\f\r /]){ATTRIBUTE}*+",
    begin="(?=[aAbBfFhHiIlLmMnNsStTxX!?]|/[^a-zA-Z])",
)
_LARGE_BYTES = 1 << 20


class Scanned(NamedTuple):
    """The links of a page, and what its head says."""

    hrefs: list[str]
    head: Head


def scan(body: bytes) -> Scanned:
    """The links of a page in UTF-8, in its order and one more than MAX_LINKS at most; what other tags say."""
    found, head = all_found(_SCANNED, body, MAX_LINKS), Head()
    hrefs = [groups[0] for groups in found]
    for at in [at for at, href in enumerate(hrefs) if not href]:
        _, double, single, bare, closed, name, _, attributes, other_closed = found[at]
        if closed:
            hrefs[at] = double or single or bare
        elif other_closed:
            _, target = head.add(name.lower().decode("ascii"), pairs(attributes))
            hrefs[at] = escaped(target)
    return Scanned(values(list(filter(None, hrefs))[: MAX_LINKS + 1]), head)


def all_found(pattern: re.Pattern[bytes], body: bytes, most: int) -> list[tuple[bytes, ...]]:
    """All that a pattern finds in a page, as its groups.

    Of a huge page not all: when more than `most` of them had a first group, or ten times as many had none, it
    is enough.
    """
    body = replaced(body)
    if len(body) <= _LARGE_BYTES:
        return pattern.findall(body)
    found: list[tuple[bytes, ...]] = []
    usual = 0
    for tag in pattern.finditer(body):
        found.append(tag.groups(b""))
        usual += tag[1] is not None
        if usual > most or len(found) > 10 * most:
            break
    return found
