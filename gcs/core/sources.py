"""Sources beside the web: the one form of their URLs, and how far from its source a link may lead.

    file:///srv/docs/a.txt              a file; file:///srv/docs/ is a directory, whose links are its entries
    nntp://news.example.org/group/7     an article of a newsgroup; nntp://news.example.org/group/ has many
    ftp://ftp.example.org/pub/a.txt     a file of a server; ftp://ftp.example.org/pub/ is a directory
    sftp://host.example/srv/a.txt       the same over SSH
    s3://archive/2024/a.txt             an object of a bucket; s3://archive/2024/ has many
    db://shop/public/orders/7           a row; db://shop/public/orders/ is a table of the database `shop`

All have their place in the URL tree as web pages do (`gcs.core.urls`). A segment of a path has one spelling:
whatever is not plain is encoded, byte by byte. So one thing has one URL, and a name in a file system, which
may be any bytes, has one too. What is large is listed in pieces: `?after=NAME` goes on after a name.

A source is used only if an operator has named it. A web page cannot lead to one: `Reach` says where links
from a source may lead, and web pages do not ask it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final
from urllib.parse import quote, unquote_to_bytes
from zlib import crc32

import ada_url

FILE: Final = "file"
NNTP: Final = "nntp"
NNTPS: Final = "nntps"
FTP: Final = "ftp"
SFTP: Final = "sftp"
S3: Final = "s3"
DATABASE: Final = "db"
PORTS: Final = MappingProxyType({FILE: 0, NNTP: 119, NNTPS: 563, FTP: 21, SFTP: 22, S3: 0, DATABASE: 0})
"""The schemes of sources, each with the port that is not written; 0 where there are no ports."""
_ALSO: Final = MappingProxyType({"news": NNTP, "snews": NNTPS})
_AFTER: Final = "after="
_PLAIN: Final = "!$&()*+,;=:@"
"""What is not encoded beside letters, digits, dots, dashes, tildes and underscores."""
_PARTS = re.compile(r"([a-z][a-z0-9]*)://([^/?#]*)([^?#]*)(?:\?([^#]*))?(?:#.*)?\Z", re.DOTALL)
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}").fullmatch
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]").fullmatch


def is_source(scheme: str) -> bool:
    """Whether a scheme is that of a source beside the web, however it is written."""
    return scheme in PORTS or scheme in _ALSO


def form(href: str) -> str:
    """The one form of a URL of a source, given as the WHATWG standard has it; raises ValueError: why not."""
    parts = _PARTS.match(href)
    if parts is None:
        raise ValueError("no host and path")
    scheme, authority, path, query = parts.groups()
    scheme = _ALSO.get(scheme, scheme)
    if "@" in authority:
        raise ValueError("a user name or password in the URL; sources.logins is the place for them")
    path = _path(path)
    after = _after(query) if path.endswith("/") else ""
    return f"{scheme}://{_authority(scheme, authority)}{path}{after}"


def _authority(scheme: str, authority: str) -> str:
    if scheme == FILE:
        if authority:
            raise ValueError("a file of another machine; mount it, and name it as file:///…")
        return ""
    if scheme == DATABASE:
        if not _NAME(authority.lower()):
            raise ValueError("no name of a database of the configuration, as in db://name/")
        return authority.lower()
    if scheme == S3:
        if not _BUCKET(authority.lower()):
            raise ValueError("no name of a bucket, as in s3://name/")
        return authority.lower()
    host, port = _host_and_port(authority)
    return host if port in (None, PORTS[scheme]) else f"{host}:{port}"


def _host_and_port(authority: str) -> tuple[str, int | None]:
    """The host in its one form, in brackets if IPv6, and the port if there is one; raises ValueError."""
    host, colon, port = authority.rpartition(":")
    if not colon or authority.endswith("]"):
        host, port = authority, ""
    if not host or (port and not (port.isascii() and port.isdigit() and 0 < int(port) < 65536)):
        raise ValueError("no host, or no port")
    try:
        host = ada_url.URL(f"http://{host}/").hostname
    except ValueError:
        raise ValueError("no valid host") from None
    return host, int(port) if port else None


def _path(path: str) -> str:
    """Every segment in its one spelling, without empty ones but the last and without dots."""
    kept: list[str] = []
    segments = path.split("/")
    for segment in segments:
        name = unquote_to_bytes(segment)
        if b"/" in name or b"\0" in name:
            raise ValueError("a slash or a zero byte within a name")
        if name == b"..":
            del kept[-1:]
        elif name not in (b"", b"."):
            kept.append(spelt(name))
    is_directory = unquote_to_bytes(segments[-1]) in (b"", b".", b"..")
    return "/" + "/".join(kept) + ("/" if kept and is_directory else "")


def _after(query: str | None) -> str:
    """Where a piece of a long list begins; nothing else in a query means anything here."""
    if not query or not query.startswith(_AFTER):
        return ""
    return "?" + _AFTER + spelt(unquote_to_bytes(query.removeprefix(_AFTER)))


def spelt(name: bytes) -> str:
    """A name as a segment of a path. One or two dots alone have no spelling: they always mean a place."""
    return quote(name, safe=_PLAIN)


def names(url: str) -> tuple[bytes, ...]:
    """The names in the path of a canonical URL, the last of them empty if that ends with a slash."""
    path = _PARTS.match(url)
    assert path is not None
    return tuple(map(unquote_to_bytes, path[3].split("/")[1:]))


def after(url: str) -> bytes:
    """The name after which a piece of a list begins; empty for its beginning."""
    _, _, query = url.partition("?" + _AFTER)
    return unquote_to_bytes(query)


def beside(url: str, path: bytes) -> str:
    """The URL of another path at the same host as a canonical URL, without a slash at the end."""
    parts = _PARTS.match(url)
    assert parts is not None
    return f"{parts[1]}://{parts[2]}/" + "/".join(spelt(step) for step in path.split(b"/") if step)


def file_url(path: bytes, *, is_directory: bool) -> str:
    """The canonical URL of an absolute path."""
    steps = [spelt(step) for step in path.split(b"/") if step]
    return "file:///" + "/".join(steps) + ("/" if is_directory and steps else "")


class Reach:
    """How far links of sources may lead: below the roots that operators have named, and no further."""

    def __init__(self, roots: Iterable[str], *, to_web: bool = False) -> None:
        """The roots are canonical URLs; `to_web`: links to the web are followed too."""
        self._roots = tuple(sorted({root.partition("?")[0].rstrip("/") for root in roots}))
        self._to_web = to_web

    def has(self, url: str) -> bool:
        """Whether a canonical URL is that of a root, or lies below one."""
        bare = url.partition("?")[0]
        return any(bare == root or bare.startswith(root + "/") for root in self._roots)

    def follows(self, page: str, url: str) -> bool:
        """Whether a link from a page of a source is followed to a canonical URL; not to another source."""
        if url.startswith("http"):
            return self._to_web
        return url.startswith(page[: page.index("/", page.index("://") + 3) + 1]) and self.has(url)


NO_SOURCES: Final = Reach(())


def _place(text: str) -> str:
    """What a login is for: a host in its one form, perhaps with a port, or a bucket; raises ValueError."""
    try:
        host, port = _host_and_port(text)
    except ValueError:
        if _BUCKET(text.lower()):
            return text.lower()  # such as a.7, which can be no host
        raise
    return host if port is None else f"{host}:{port}"


class Logins:
    """Users and passwords by the hosts that they are for; one for a port of a host is for that port alone."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        """Each is user:password@host or user:password@host:port; raises ValueError: why not, without it."""
        self._known: dict[str, tuple[str, str]] = {}
        self._named: dict[str, tuple[str, str]] = {}
        for text in texts:
            said, _, place = text.rpartition("@")
            user, _, password = said.partition(":")
            self._named[place.lower()] = user, password
            self._known[_place(place)] = user, password

    @property
    def places(self) -> list[str]:
        """What they are for: hosts, some with a port."""
        return list(self._known)

    def at(self, host: str, port: int) -> tuple[str, str] | None:
        """User and password at a port of a host (in its one form, IPv6 without brackets); None for none."""
        host = f"[{host}]" if ":" in host else host
        return self._known.get(f"{host}:{port}") or self._known.get(host)

    def of(self, name: str) -> tuple[str, str] | None:
        """The same for what has a name, and is no host."""
        return self._named.get(name)


class Schedule:
    """After how long the parts of sources are visited again, where that was said."""

    def __init__(self, parts: Mapping[str, float]) -> None:
        """The seconds of each part, which is a canonical URL."""
        ordered = sorted(parts.items(), key=lambda part: (-len(part[0]), part[0]))
        self._parts = [(Reach([url]), seconds) for url, seconds in ordered]
        self.mark = f"{crc32(repr(ordered).encode()):08x}" if ordered else ""
        """Another one for every other schedule."""

    def every(self, url: str) -> float | None:
        """The seconds that hold for a canonical URL: those of the longest part that has it."""
        return next((seconds for part, seconds in self._parts if part.has(url)), None)

    def __bool__(self) -> bool:
        """Whether anything was said."""
        return bool(self._parts)


NO_SCHEDULE: Final = Schedule({})
