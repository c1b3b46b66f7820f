"""What a sitemap lists: sitemaps and sitemap indexes in XML, plain lists, RSS and Atom feeds, gzipped or not.

Sitemaps come from strangers and are often broken, so they are not parsed as XML: the few elements that matter
are looked for in the text, in one pass over it. What is broken costs only itself, no document type and no
entity is ever expanded, and everything is bounded: the size after decompression, the number of entries, and
the time, which grows with the size and nothing else. Every expression below stops at the next `<`.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from typing import Final, NamedTuple

import ada_url

MAX_BYTES: Final = 50 << 20
MAX_ENTRIES: Final = 50_000
_GZIP: Final = b"\x1f\x8b"
_MAX_DATE: Final = 40
_MAX_ATTRIBUTES: Final = 4096

_ROOT = re.compile(r"<(?:([A-Za-z_][\w.\-]*):)?(urlset|sitemapindex|rss|feed|RDF)[\s>/]")
_DECLARED = re.compile(rb"<\?xml[^<>]{0,200}?encoding\s*=\s*[\"']([A-Za-z0-9._\-]{1,40})[\"']")
# Python knows many more, some of which take time out of proportion.
_ENCODINGS = re.compile(
    r"utf-8-sig|us-ascii|iso-8859-([1-9]|1[013-6])|windows-125[0-8]|koi8-[ru]"
    r"|gb2312|gbk|gb18030|big5|shift_jis|euc-jp|euc-kr"
)
_ENTITY = re.compile(r"&(?:#(\d{1,7})|#[xX]([0-9A-Fa-f]{1,6})|(amp|lt|gt|quot|apos));")
_NAMED = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
_ATTRIBUTE = re.compile(r"([A-Za-z_][\w.:\-]*)\s*=\s*(?:\"([^\"<]*)\"|'([^'<]*)')")
# A start or end tag of one of some names, what it says about itself, and the text after it.
_TAG = r"<(/?){prefix}({names})(?=[\s>/])([^<>]*)>\s*(?:<!\[CDATA\[)?([^<]*)"


class Sitemap(NamedTuple):
    """Pages with the date of their last change as it was written, further sitemaps, and why there is no more.

    `cut_off` is "" when everything was read, else "size", "number" or "damaged".
    """

    urls: list[tuple[str, str | None]]
    sitemaps: list[str]
    cut_off: str = ""


def parse(body: bytes, url: str) -> Sitemap:
    """What a sitemap lists, in whatever form; `url` is its own, for entries that are relative to it."""
    content, cut_off = _unpacked(body)
    text = _text(content)
    root = _ROOT.search(text, 0, 4096)
    kind = root[2] if root else "list" if _is_list(text) else "urlset"
    prefix = (root[1] or "") if root else ""
    entries = _lines(text) if kind == "list" else _elements(_without_comments(text), kind, prefix)
    found = Sitemap([], [])
    seen: set[str] = set()
    for is_sitemap, location, changed in entries:
        absolute = _absolute(location, url)
        if absolute is None or absolute in seen:
            continue
        if len(seen) >= MAX_ENTRIES:
            cut_off = "number"
            break
        seen.add(absolute)
        if is_sitemap:
            found.sitemaps.append(absolute)
        else:
            found.urls.append((absolute, changed))
    return found._replace(cut_off=cut_off)


_Entry = tuple[bool, str, str | None]


def _unpacked(body: bytes) -> tuple[bytes, str]:
    if not body.startswith(_GZIP):
        return body[:MAX_BYTES], "size" if len(body) > MAX_BYTES else ""
    parts: list[bytes] = []
    room = MAX_BYTES
    while body.startswith(_GZIP):
        unpacking = zlib.decompressobj(wbits=31)
        try:
            parts.append(unpacking.decompress(body, room + 1))
        except zlib.error:
            return b"".join(parts), "damaged"
        room -= len(parts[-1])
        if room < 0:
            return b"".join(parts)[:MAX_BYTES], "size"
        if not unpacking.eof:
            return b"".join(parts), "damaged"
        body = unpacking.unused_data
    return b"".join(parts), ""


def _text(content: bytes) -> str:
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return content.decode("utf-16", "replace")
    declared = _DECLARED.match(content[:300].removeprefix(b"\xef\xbb\xbf").lstrip())
    name = declared[1].decode().lower() if declared else "utf-8"
    # A declaration that can be read without knowing the encoding is not in one of two bytes a character.
    if name.startswith("utf"):
        name = "utf-8-sig"
    return content.decode(name if _ENCODINGS.fullmatch(name) else "latin-1", "replace")


def _is_list(text: str) -> bool:
    return text.lstrip("\ufeff \t\r\n")[:8].lower().startswith(("http://", "https://"))


def _lines(text: str) -> Iterator[_Entry]:
    for line in text.lstrip("\ufeff").splitlines():
        stripped = line.strip()
        if stripped.lower().startswith(("http://", "https://")):
            yield False, stripped, None


def _without_comments(text: str) -> str:
    parts: list[str] = []
    at = 0
    while (start := text.find("<!--", at)) >= 0:
        end = text.find("-->", start + 4)
        if end < 0:
            break
        parts.append(text[at:start])
        at = end + 3
    parts.append(text[at:])
    return "".join(parts)


def _elements(text: str, kind: str, prefix: str) -> Iterator[_Entry]:
    names = {
        "rss": "item|link|pubDate",
        "RDF": "item|link",
        "feed": "entry|link|updated",
    }.get(kind, "url|sitemap|loc|lastmod")
    # Items of RDF are not in the namespace of its root; for the others an element of another namespace, as
    # in <image:loc>, is something else than it is called.
    own = re.escape(prefix) + ":" if prefix and kind != "RDF" else ""
    tags = re.compile(_TAG.format(prefix=own, names=names)).finditer(text)
    return _links(tags) if kind in ("rss", "RDF", "feed") else _locations(tags, index=kind == "sitemapindex")


def _locations(tags: Iterator[re.Match[str]], *, index: bool) -> Iterator[_Entry]:
    """The entries of a sitemap, or of an index; each ends with its element, or where the next begins."""
    is_sitemap, location, changed = index, "", None
    for tag in tags:
        closing, name, _, text = tag.groups()
        if name in ("url", "sitemap") or (name == "loc" and location and not closing):
            if location:
                yield is_sitemap, location, changed
            location, changed = "", None
        if name == "sitemap":
            is_sitemap = True
        elif name == "url":
            is_sitemap = False
        elif not closing and name == "loc":
            location = _content(text)
        elif not closing:
            changed = _date(text)
    if location:
        yield is_sitemap, location, changed


def _links(tags: Iterator[re.Match[str]]) -> Iterator[_Entry]:
    """The entries of a feed; links outside of entries are those of the feed itself."""
    inside, location, changed = False, "", None
    for tag in tags:
        closing, name, attributes, text = tag.groups()
        if name in ("item", "entry"):
            if location:
                yield False, location, changed
            inside, location, changed = not closing, "", None
        elif not inside or closing:
            continue
        elif name == "link":
            location = location or _link(attributes, text)
        else:
            changed = _date(text)
    if location:
        yield False, location, changed


def _link(attributes: str, text: str) -> str:
    parts = _ATTRIBUTE.findall(attributes, 0, _MAX_ATTRIBUTES)
    given = {name: _content(double or single) for name, double, single in parts}
    if "href" not in given:
        return _content(text)
    return given["href"] if given.get("rel", "alternate") == "alternate" else ""


def _content(text: str) -> str:
    return _ENTITY.sub(_character, text.partition("]]>")[0]).strip()


def _date(text: str) -> str | None:
    return _content(text)[:_MAX_DATE] or None


def _character(entity: re.Match[str]) -> str:
    decimal, hexadecimal, name = entity.groups()
    if name:
        return _NAMED[name]
    number = int(decimal) if decimal else int(hexadecimal, 16)
    return chr(number) if 0x20 <= number < 0x110000 and not 0xD800 <= number < 0xE000 else ""


def _absolute(location: str, url: str) -> str | None:
    if location.lower().startswith(("http://", "https://")):
        return location
    try:
        absolute: str = ada_url.join_url(url, location)
    except ValueError:
        return None
    return absolute if absolute.startswith(("http://", "https://")) else None
