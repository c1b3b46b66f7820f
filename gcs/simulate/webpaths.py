"""What is at which path of a host of the synthetic web.

The path says it all: of what kind a thing is, and its number among those of its kind. So `find` reads what
`path_of` and the links of pages have written, and takes nothing else: any other spelling is not there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import quote

from gcs.simulate.webhosts import Host, Robots, Sitemap

_LETTERS = ("größe", "žluť", "дом", "山水", "café", "ποτάμι")
QUOTED = tuple(quote(word) for word in _LETTERS)
RAW = tuple(word.encode().decode("latin-1") for word in _LETTERS)
_NUMBER = re.compile(r"(?:[pt-]|id=)(\d{1,9})(?:\.html|/|&n=\d)\Z")
TRACKING_QUERY = "?utm_source=feed&utm_medium=rss"
PRINT_QUERY = "?print=1"


class Kind(StrEnum):
    """What is at a URL; the value is how its path begins, for those that have a place of their own."""

    PAGE = ""
    TRACKED = "tracked"  # a page, under a URL with tracking parameters
    PRINT = "print"  # a copy of a page, which names the page as its canonical form
    REDIRECT = "go"
    AROUND = "around"  # a circle of redirects
    GONE = "gone"
    FAILING = "error"
    BUSY = "busy"
    PRIVATE = "private"
    OPEN = "private/open"
    NOTES = "notes"
    ORPHAN = "orphan"  # only a sitemap leads there
    HIDDEN = "hidden"  # only pages whose links are not to be followed lead there
    FILE = "files"
    IMAGE = "img"
    STATIC = "static"
    ROBOTS = "robots.txt"
    SITEMAP = "sitemaps"
    TRAP = "trap"
    MISSING = "missing"


HTML = frozenset(
    {
        Kind.PAGE,
        Kind.TRACKED,
        Kind.PRINT,
        Kind.BUSY,
        Kind.PRIVATE,
        Kind.OPEN,
        Kind.NOTES,
        Kind.ORPHAN,
        Kind.HIDDEN,
    }
)
_PLACES: Mapping[str, tuple[Kind, re.Pattern[str]]] = {
    kind.value.partition("/")[0]: (kind, re.compile(pattern))
    for kind, pattern in (
        (Kind.REDIRECT, r"/go/(?P<around>around/)?(\d{1,9})\Z"),
        (Kind.GONE, r"/gone/(\d{1,9})\.html\Z"),
        (Kind.FAILING, r"/error/(\d{1,9})\Z"),
        (Kind.BUSY, r"/busy/(\d{1,9})\Z"),
        (Kind.PRIVATE, r"/private/(?P<open>open/)?(\d{1,9})\.html\Z"),
        (Kind.NOTES, r"/notes/(\d{1,9})\.secret\Z"),
        (Kind.ORPHAN, r"/orphan/(\d{1,9})\.html\Z"),
        (Kind.HIDDEN, r"/hidden/(\d{1,9})\.html\Z"),
        (Kind.FILE, r"/files/(\d{1,9})\.(?:pdf|zip|mp3|doc)\Z"),
        (Kind.IMAGE, r"/img/(\d{1,9})\.(?:png|jpg|gif)\Z"),
    )
}
_SITEMAP_PATHS = {
    Sitemap.PLAIN: {"/sitemap.xml": 0},
    Sitemap.INDEX: {"/sitemap-index.xml": 0, "/sitemaps/1.xml": 1, "/sitemaps/2.xml.gz": 2},
    Sitemap.NONE: {},
}


@dataclass(frozen=True, slots=True)
class Document:
    """What a target stands for: its kind, its number among those, and the path of its plain form."""

    kind: Kind
    number: int
    path: str


def path_of(number: int) -> str:
    """The target of a host's ordinary page."""
    match number & 15:
        case _ if number == 0:
            return "/"
        case 3 | 9:
            return f"/s{number % 13}/d{number >> 5}/t{number}/"
        case 5:
            return f"/s{number % 13}/view?id={number}&n={number % 7}"
        case 7:
            return f"/s{number % 13}/{QUOTED[number % len(QUOTED)]}-{number}.html"
        case 11:
            return f"/s{number % 13}/deep/er/still/p{number}.html"
        case _:
            return f"/s{number % 13}/d{number >> 5}/p{number}.html"


def find(host: Host, target: str, *, plain: bool) -> Document:
    """What a host has at a target; in a plain web pages have no second URLs."""
    if target == "/":
        return Document(Kind.PAGE, 0, "/")
    if target == "/robots.txt":
        return Document(Kind.ROBOTS, 0, target)
    if target in _SITEMAP_PATHS[host.sitemap]:
        return Document(Kind.SITEMAP, _SITEMAP_PATHS[host.sitemap][target], target)
    if host.trap and target.startswith(host.trap):
        return Document(Kind.TRAP, 0, target)
    if place := _PLACES.get(target[1:].partition("/")[0]):
        return _find_extra(host, target, *place)
    if target in {"/static/style.css", "/static/app.js", "/static/robots.txt"}:
        return Document(Kind.STATIC, 0, target)
    return _find_page(host, target, plain=plain)


def _find_extra(host: Host, target: str, kind: Kind, pattern: re.Pattern[str]) -> Document:
    found = pattern.match(target)
    if found is None:
        return Document(Kind.MISSING, 0, target)
    number = int(found[found.lastindex or 0])
    if found.groupdict().get("around"):
        kind = Kind.AROUND
    elif found.groupdict().get("open"):
        kind = Kind.OPEN
    if number >= _how_many(host, kind):
        return Document(Kind.MISSING, 0, target)
    return Document(kind, number, target)


def _how_many(host: Host, kind: Kind) -> int:
    match kind:
        case Kind.FAILING:
            return 2 if host.failing else 0
        case Kind.BUSY:
            return 2 if host.busy else 0
        case Kind.AROUND:
            return 3
        case Kind.OPEN | Kind.NOTES:
            return host.extras if host.robots is Robots.RICH else 0
        case Kind.ORPHAN:
            return host.extras if host.sitemap else 0
        case _:
            return host.extras


def _find_page(host: Host, target: str, *, plain: bool) -> Document:
    for ending, kind in ((TRACKING_QUERY, Kind.TRACKED), (PRINT_QUERY, Kind.PRINT)):
        if target.endswith(ending) and not plain:
            path = target.removesuffix(ending)
            return _numbered(host, path, kind) if "?" not in path else _nothing(target)
    return _numbered(host, target, Kind.PAGE)


def _numbered(host: Host, path: str, kind: Kind) -> Document:
    found = _NUMBER.search(path)
    if found and int(found[1]) < host.size and path_of(int(found[1])) == path:
        return Document(kind, int(found[1]), path)
    return _nothing(path)


def _nothing(target: str) -> Document:
    return Document(Kind.MISSING, 0, target)
