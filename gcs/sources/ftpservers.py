"""Directories and files of FTP servers.

    ftp://ftp.example.org/pub/          a directory, whose links are its entries; long ones in pieces
    ftp://ftp.example.org/pub/a.txt     a file, as its bytes are

Paths begin at the server's root, as the login sees it. A file is known by its time and size, where the server
tells both. Servers are asked by the guard's leave, as web servers are, one thing at a time, over one
connection that is kept.

No loop of symbolic links is endless. A link leads to where it says, or to where the server says that we are
then. Where a server hides that something is a link, a directory is left out that is one of those above it;
where that is not told either, a path that only repeats itself is not gone on with.
"""

from __future__ import annotations

import re
import ssl
import time
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Mapping, Sequence
from posixpath import normpath
from typing import Final, NamedTuple

import trio

from gcs.core.listings import Listed, from_facts, from_ls, is_name, moment
from gcs.core.sources import Logins, after, beside, names, spelt
from gcs.core.traps import repeated
from gcs.fetch.outcome import Failure, Origin, Outcome, Reason
from gcs.sources.answers import HTML, PIECE, Conditions, Entry, page, piece, response, shown
from gcs.sources.ftp import Connection, Received, Reply
from gcs.sources.kept import Kept

_SETTLED_S: Final = 60.0
"""A time that is more recent proves nothing: there may be another change within it, and clocks differ."""
_LISTED_S: Final = 300.0
"""For how long the pieces of a directory are of one listing."""
_LONGEST_LINE: Final = 16 << 10
_NOT_THERE: Final = frozenset({500, 501, 550, 551, 553})
"""Some take a name that they do not like for a wrong command."""
_NOT_NOW: Final = frozenset({450, 451, 452})
"""What it fails at is this file: that says nothing of others."""
_NOT_ALLOWED: Final = frozenset({530, 532, 534})
_WORKING = re.compile(rb'257 "(/(?:[^"]|"")*)"')

Addresses = Callable[[str], Awaitable[Sequence[str] | Failure]]


class _Entries(NamedTuple):
    """What a directory has."""

    names: Sequence[bytes]
    """In order, those of directories with a slash at the end."""
    links: Mapping[bytes, bytes]
    """Where symbolic links lead, as far as that is said."""
    again: Sequence[Listed]
    """Directories that are called as one above them is."""


class _Directory(NamedTuple):
    """The entries of a directory, as they were at some time."""

    url: str
    at: float
    entries: _Entries
    is_cut: bool


class FtpServers:
    """FTP servers."""

    def __init__(
        self,
        addresses: Addresses,
        logins: Logins,
        *,
        context: Callable[[], ssl.SSLContext],
        max_body_bytes: int,
        connect_timeout_s: float,
    ) -> None:
        """`addresses` gives those of a host that may be asked, `context` what TLS needs."""
        self._addresses, self._logins, self._context = addresses, logins, context
        self._max_body_bytes = max_body_bytes
        self._kept = Kept("FTP server", self._connect, connect_timeout_s=connect_timeout_s)
        self._listed: _Directory | None = None
        """The one in the middle of which somebody may be."""

    async def fetch(self, url: str, conditions: Conditions) -> Outcome:
        """The answer to a canonical URL."""
        steps = names(url)
        path = b"/" + b"/".join(steps if steps[-1] else steps[:-1])
        if not all(map(is_name, steps if steps[-1] else steps[:-1])) or repeated(url.split("/")[3:]):
            return response(404)
        origin, _ = Origin.split(url)
        if steps[-1]:
            return await self._kept.ask(origin, lambda there: self._file(there, url, path, conditions))
        return await self._kept.ask(origin, lambda there: self._directory(there, url, path))

    async def _connect(self, origin: Origin) -> Connection | Failure:
        found = await self._addresses(origin.host)
        if isinstance(found, Failure):
            return found
        if not found:
            return Failure(Reason.PROXY, "FTP servers are not asked through a proxy.")
        login = self._logins.at(origin.host, origin.port)
        return await Connection.open(found, origin.host, origin.port, login=login, context=self._context)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._kept.aclose()

    # Files

    async def _file(self, there: Connection, url: str, path: bytes, conditions: Conditions) -> Outcome:
        known = await _facts(there, path)
        if known is not None and known.is_directory:
            return response(301, location=f"{url}/")
        etag, modified = (_etag(known), known.modified) if known is not None else ("", None)
        if etag and etag == conditions.etag:
            return response(304, etag=etag, modified=modified)
        found = await there.receive(b"RETR " + path, most_bytes=self._max_body_bytes)
        if found.reply.code in _NOT_THERE and (await there.ask(b"CWD " + path)).code == 250:
            return response(301, location=f"{url}/")
        if found.reply.code >= 400:
            return _refused(found.reply)
        cut = "length" if found.is_cut else ""
        return response(200, found.body, etag=etag, modified=modified, truncated=cut)

    # Directories

    async def _directory(self, there: Connection, url: str, path: bytes) -> Outcome:
        bare, since, last = url.partition("?")[0], after(url), self._listed
        if since and last is not None and last.url == bare and time.monotonic() - last.at < _LISTED_S:
            return self._piece(last, path, since)
        if (reply := await there.ask(b"CWD " + path)).code != 250:
            return _refused(reply)
        if (elsewhere := await _working(there)) not in (b"", path):
            return response(301, location=beside(url, elsewhere) + "/" * (elsewhere != b"/"))
        found, read = await self._lines(there)
        if found.reply.code >= 400:
            return response(403) if found.reply.code in _NOT_THERE else _refused(found.reply)
        # Very many lines take seconds.
        entries = await trio.to_thread.run_sync(_entries, found, path, read)
        if not found.is_cut:
            above = {each.name + b"/" for each in entries.again if await _is_above(there, path, each)}
            entries = entries._replace(names=[name for name in entries.names if name not in above])
        self._listed = made = _Directory(bare, time.monotonic(), entries, found.is_cut)
        return self._piece(made, path, since)

    async def _lines(self, there: Connection) -> tuple[Received, Callable[[bytes], Listed | None]]:
        """The entries of the directory in which we are, and what reads a line of them."""
        found = await there.receive(b"MLSD", most_bytes=self._max_body_bytes)
        if not found.reply.is_unknown:
            return found, from_facts
        return await there.receive(b"LIST", most_bytes=self._max_body_bytes), from_ls

    def _piece(self, directory: _Directory, path: bytes, since: bytes) -> Outcome:
        listed, links, _ = directory.entries
        start = bisect_right(listed, since)
        found, more = piece(listed[start : start + 4 * PIECE + 1])
        title = shown(path.rstrip(b"/") + b"/")
        entries = [_entry(directory.url, path, name, links.get(name, b"")) for name in found]
        body = page(title, entries, more=more)
        return response(200, body, content_type=HTML, truncated="length" if directory.is_cut else "")


async def _facts(there: Connection, path: bytes) -> Listed | None:
    """What a server tells of a file; None if that is nothing."""
    reply = await there.ask(b"MLST " + path)
    if reply.code == 250:
        return next(filter(None, (from_facts(line.strip()) for line in reply.lines[1:-1])), None)
    if not reply.is_unknown:
        return None
    size, changed = await there.ask(b"SIZE " + path), await there.ask(b"MDTM " + path)
    if size.code != 213 or changed.code != 213 or not size.lines[0][4:24].strip().isdigit():
        return None
    return Listed(path, size_bytes=int(size.lines[0][4:24]), modified=moment(changed.lines[0][4:].strip()))


async def _is_above(there: Connection, path: bytes, listed: Listed) -> bool:
    """Whether a directory is one of those above it: in any loop its name comes again in the path."""
    head, _, _ = (path + b"/").rpartition(b"/" + listed.name + b"/")
    known = await _facts(there, head + b"/" + listed.name)
    return known is not None and known.unique == listed.unique


async def _working(there: Connection) -> bytes:
    """The directory in which a server says that we are; empty if it does not say."""
    found = _WORKING.match((await there.ask(b"PWD")).lines[0])
    return (found[1].replace(b'""', b'"').rstrip(b"/") or b"/") if found else b""


def _entries(found: Received, path: bytes, read: Callable[[bytes], Listed | None]) -> _Entries:
    """What a listing has; of one that was cut, without the line in which that was."""
    body = found.body[: found.body.rfind(b"\n") + 1] if found.is_cut else found.body
    lines = (read(line) for line in body.splitlines() if len(line) <= _LONGEST_LINE)
    listed = [each for each in lines if each is not None and is_name(each.name)]
    parts = set(path.split(b"/"))
    return _Entries(
        sorted({each.name + b"/" * each.is_directory for each in listed}),
        {each.name: each.leads_to for each in listed if each.leads_to},
        [each for each in listed if each.is_directory and each.unique and each.name in parts],
    )


def _entry(url: str, path: bytes, name: bytes, leads_to: bytes) -> Entry:
    """The link of an entry."""
    if leads_to:
        target = normpath(path + b"/" + leads_to) if leads_to[:1] != b"/" else leads_to
        return Entry(beside(url, target), shown(name))
    slash = "/" * name.endswith(b"/")
    return Entry(f"./{spelt(name.removesuffix(b'/'))}{slash}", shown(name))


def _etag(known: Listed) -> str:
    """What changes with every change; empty if that is not sure."""
    if known.modified is None or known.size_bytes is None or time.time() - known.modified < _SETTLED_S:
        return ""
    return f'"{known.modified:.0f}-{known.size_bytes}"'


def _refused(reply: Reply) -> Outcome:
    """What it means that a server refuses."""
    if reply.code in _NOT_THERE:
        return response(404)
    if reply.code in _NOT_ALLOWED:
        return response(403)
    if reply.code in _NOT_NOW:
        return response(500)
    return Failure(Reason.CONNECT, f"The FTP server says {reply.code}.")
