"""The grammar of tags, as regular expressions over bytes, and what stands in attributes and between tags.

It follows the tokenizer of the HTML standard (attributes, quotes, comments, elements whose content is raw
text). Invariant: linear time whatever a page looks like. Every repetition is possessive and every construct
may also end with the page, so nothing is read more often than a few times.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from html import unescape
from html.entities import html5
from typing import cast

_S = r"[\t\n\f\r ]"
NAME_ENDS = r"(?=[\t\n\f\r />])"
EQUALS = rf"{_S}*+={_S}*+"
_VALUE = r"""(?:"[^"]*+(?:"|\Z)|'[^']*+(?:'|\Z)|[^\t\n\f\r >]*+)"""
ATTRIBUTE = rf"(?:=?+[^\t\n\f\r />=]++(?:{EQUALS}{_VALUE})?+|=|[\t\n\f\r /]++)"
COMMENT = r"!--(?:-?+>|[^-]*+(?:-(?!-!?>)[^-]*+)*+(?:--!?>|\Z))"
# What the standard calls a bogus comment.
BOGUS = r"(?:[!?]|/(?![a-zA-Z]))[^>]*+"


def raw_content(name: str) -> str:
    """The content of an element that is text up to its end tag, whatever it looks like."""
    return rf"[^<]*+(?:<(?!/(?i:{name})[\t\n\f\r />])[^<]*+)*+"


def raw(name: str, *, kept: bool = False) -> str:
    """An element of that kind, from its name to the end of its content, which may be a group."""
    content = raw_content(name)
    return rf"(?i:{name}){NAME_ENDS}{ATTRIBUTE}*+>?+" + (f"({content})" if kept else content)


_RAW_NAMES = ("script", "style", "textarea", "xmp", "noembed", "noframes")
SKIPPED = rf"(?=[sS][cCtT]|[tT][eE]|[xX]|[nN][oO])(?:{'|'.join(map(raw, _RAW_NAMES))})"
OTHER = rf"""(?=[lL][iI][nN]|[mM][eE]|[bB][aA]|[fFiI])
    (?i:(link|meta|base|(?P<inner>i)?+frame){NAME_ENDS})({ATTRIBUTE}*+)(>|\Z)
    (?(inner){raw_content("iframe")})"""
"""The tags that `Head` takes in: groups for the name, one more, the attributes, and the end."""


def tags(*alternatives: str, begin: str = "") -> re.Pattern[bytes]:
    """What begins with "<" and goes on with one of the alternatives, which are in verbose syntax."""
    return re.compile(rf"<{begin}(?:{'|'.join(alternatives)})".encode("ascii"), re.VERBOSE)


_NO_TEXT = tags(COMMENT, SKIPPED, raw("title"), rf"/?+[a-zA-Z]{ATTRIBUTE}*+(?:>|\Z)", rf"{BOGUS}>?+")
_PAIR = re.compile(
    rf"""(=?+[^\t\n\f\r />=]++)(?:{EQUALS}(?:"([^"]*+)"?|'([^']*+)'?|([^\t\n\f\r >]*+)))?+""".encode("ascii"),
    re.VERBOSE,
)
_REPLACED = "\ufffd".encode()
# Python refuses to read thousands of digits as a number.
_ENDLESS = re.compile(r"&#[0-9]{20,}+;?+")
_REFERENCE = re.compile(r"&(?:#(?:[0-9]++|[xX][0-9a-fA-F]++);?+|[A-Za-z][A-Za-z0-9]*+(?:;|(?!=)))")


def replaced(body: bytes) -> bytes:
    """A body without zeros, which the standard has us replace; so a zero can stand between two texts."""
    return body.replace(b"\0", _REPLACED) if b"\0" in body else body


def values(found: list[bytes]) -> list[str]:
    """The values of attributes, decoded and their references resolved.

    All at once: decoding and looking for references one by one would cost as much as finding them.
    """
    if not found:
        return []
    joined = b"\0".join(found).decode("utf-8", "replace")
    if "&" in joined:
        only_ampersands = joined.count("&") == joined.count("&amp;")
        joined = joined.replace("&amp;", "&") if only_ampersands else _referring(joined)
    return joined.split("\0")


def resolve(written: list[str | bytes | None], places: list[int]) -> None:
    """Put values of attributes that still have references, which are at these places, right."""
    for place, value in zip(places, values([cast("bytes", written[each]) for each in places]), strict=True):
        written[place] = value


def _referring(values: str) -> str:
    return _REFERENCE.sub(_referred, _ENDLESS.sub("\ufffd", values))


def escaped(value: str) -> bytes:
    """A value that is resolved already, so that resolving it gives the same."""
    return value.replace("&", "&amp;").encode("utf-8")


@lru_cache(maxsize=256)
def pairs(attributes: bytes) -> Mapping[str, str]:
    """The attributes of a tag by their names in small letters, resolved; of several alike the first.

    Remembered, since the pages of a site have many tags in common: those of their heads.
    """
    found = {
        name.lower(): double or single or bare
        for name, double, single, bare in reversed(_PAIR.findall(attributes))
    }
    names = [name.decode("utf-8", "replace") for name in found]
    return dict(zip(names, values(list(found.values())), strict=True))


def _referred(found: re.Match[str]) -> str:
    """A character reference in an attribute: of names without a semicolon only the old ones count."""
    written = found[0]
    if written[1] == "#":
        character = unescape(written)
        return character if character != "\0" else "\ufffd"
    return html5.get(written[1:], written)


def plain(text: bytes) -> str:
    """A text between tags, decoded and its references resolved."""
    decoded = text.decode("utf-8", "replace")
    return unescape(_ENDLESS.sub("\ufffd", decoded)) if "&" in decoded else decoded


def without_markup(body: bytes, instead: bytes = b" ") -> bytes:
    """A text, its references as written, without its tags, scripts and styles."""
    return _NO_TEXT.sub(instead, body) if b"<" in body else body
