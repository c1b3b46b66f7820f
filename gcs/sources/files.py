"""Files and directories below the roots that an operator has named.

What may be read is decided by where a path really is. One that leads over symbolic links answers with a
redirect to there, if that is below a root: so a file has one URL, and no loop of links makes a tree endless.
Whatever leads out of the roots is forbidden, and so is what is neither a file nor a directory: to open a pipe
or a device may wait for ever, or do something. What the system refuses is an answer like that of a web
server: 403 for lack of permission, 404 for what is not there.

A file is known by the times and the size that the system has of it: while they are the same it is "not
modified". A time that is very recent proves nothing, for there may be another change within it.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
import time
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from heapq import nsmallest
from itertools import chain, islice
from typing import Final, NamedTuple

import trio

from gcs.core.politeness import LOCAL_AT_ONCE
from gcs.core.sources import after, file_url, names, spelt
from gcs.fetch.outcome import Failure, Outcome, Reason, Response
from gcs.sources.answers import HTML, PIECE, Conditions, Entry, page, piece, response, shown

_STATUS: Final = {
    errno.EACCES: 403,
    errno.EPERM: 403,
    errno.ENOENT: 404,
    errno.ENOTDIR: 404,
    errno.ELOOP: 404,
    errno.ENAMETOOLONG: 404,
}
"""What it means that the system refuses; anything else is an error of the machine."""
_OPENING: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
"""A pipe that has taken a file's place meanwhile must not be waited for, and no link be followed."""
_SETTLED_S: Final = 2.0
_MOST_NAMES: Final = 1_000_000
"""Names that are in memory, of all directories; one that is larger is read anew for every piece."""


class _Names(NamedTuple):
    """The names of a directory, in order; those of directories end with a slash."""

    etag: str
    names: Sequence[bytes]


class Files:
    """Reads files and lists directories, in threads."""

    def __init__(self, roots: Sequence[bytes], *, max_body_bytes: int) -> None:
        """The roots are absolute paths; where they lead is found out with every question."""
        self._roots = roots
        self._max_body_bytes = max_body_bytes
        self._limiter = trio.CapacityLimiter(2 * LOCAL_AT_ONCE)
        self._lists: OrderedDict[bytes, _Names] = OrderedDict()
        """Of directories in the middle of which somebody may be."""
        self._lock = threading.Lock()

    async def fetch(self, url: str, conditions: Conditions) -> Outcome:
        """The answer to a canonical URL; when cancelled, a thread that hangs is left behind."""
        return await trio.to_thread.run_sync(
            self.answer, url, conditions, abandon_on_cancel=True, limiter=self._limiter
        )

    def answer(self, url: str, conditions: Conditions) -> Outcome:
        """The same at once."""
        steps = names(url)
        path = b"/" + b"/".join(steps if steps[-1] else steps[:-1])
        try:
            return self._answer(url, path, conditions)
        except OSError as error:
            return self._refused(path, error)

    def _answer(self, url: str, path: bytes, conditions: Conditions) -> Outcome:
        roots = [os.path.realpath(root) for root in self._roots]
        if not _is_below(path, [*self._roots, *roots]):
            return response(403)
        real = os.path.realpath(path, strict=True)
        if not _is_below(real, roots):
            return response(403)
        info = os.lstat(real)
        is_directory, ends_so = stat.S_ISDIR(info.st_mode), url.partition("?")[0].endswith("/")
        if real != path or (is_directory and not ends_so):
            return response(301, location=file_url(real, is_directory=is_directory))
        if is_directory:
            return self._directory(path, after(url), info, conditions)
        if not stat.S_ISREG(info.st_mode):
            return response(403)
        return response(404) if ends_so else self._file(path, conditions)

    def _refused(self, path: bytes, error: OSError) -> Outcome:
        if error.errno == errno.ENOENT:
            for root in self._roots:
                if _is_below(path, [root]) and not os.path.lexists(root):
                    # It is not mounted now, perhaps: that says nothing of the files in it.
                    return Failure(Reason.CONNECT, f"{shown(root)} is not there.")
        return response(_STATUS.get(error.errno or 0, 500))

    # Files

    def _file(self, path: bytes, conditions: Conditions) -> Outcome:
        descriptor = os.open(path, _OPENING)
        with os.fdopen(descriptor, "rb") as stream:
            info = os.fstat(descriptor)
            if not stat.S_ISREG(info.st_mode) or not _is_at(descriptor, path):
                return response(403)
            etag = _etag(info)
            if etag and etag == conditions.etag:
                return response(304, etag=etag, modified=info.st_mtime)
            body = stream.read(min(info.st_size, self._max_body_bytes) + 1)
        cut = "length" if len(body) > self._max_body_bytes else ""
        body = body[: self._max_body_bytes]
        return response(200, body, etag=etag, modified=info.st_mtime, truncated=cut)

    # Directories

    def _directory(self, path: bytes, since: bytes, info: os.stat_result, conditions: Conditions) -> Response:
        etag = _etag(info)
        if etag and etag == conditions.etag:
            return response(304, etag=etag, modified=info.st_mtime)
        found, more = piece(self._names(path, since, etag))
        entries = [
            Entry("./" + spelt(name.removesuffix(b"/")) + "/" * name.endswith(b"/"), shown(name))
            for name in found
        ]
        body = page(shown(path.rstrip(b"/") + b"/"), entries, more=more)
        return response(200, body, content_type=HTML, etag=etag, modified=info.st_mtime)

    def _names(self, path: bytes, since: bytes, etag: str) -> Sequence[bytes]:
        """The names after one, in order: enough of them for a piece."""
        known = self._lists.get(path)
        if known is not None and etag and known.etag == etag:
            start = bisect_right(known.names, since)
            return known.names[start : start + 4 * PIECE + 1]
        entries = _scanned(path)
        found = sorted(islice(entries, _MOST_NAMES))
        if len(found) == _MOST_NAMES:
            later = (name for name in chain(found, entries) if name > since)
            return nsmallest(4 * PIECE + 1, later)
        if len(found) > PIECE:
            self._remember(path, _Names(etag, found))
        start = bisect_right(found, since)
        return found[start : start + 4 * PIECE + 1]

    def _remember(self, path: bytes, listed: _Names) -> None:
        with self._lock:
            self._lists.pop(path, None)
            self._lists[path] = listed
            while sum(len(each.names) for each in self._lists.values()) > _MOST_NAMES:
                self._lists.popitem(last=False)


def _is_below(path: bytes, roots: Sequence[bytes]) -> bool:
    return any(path == root or path.startswith(root.rstrip(b"/") + b"/") for root in roots)


def _scanned(path: bytes) -> Iterator[bytes]:
    descriptor = os.open(path, _OPENING | os.O_DIRECTORY)
    try:
        if not _is_at(descriptor, path):
            raise PermissionError(errno.EACCES, "it leads elsewhere by now")
        with os.scandir(descriptor) as entries:
            for entry in entries:
                name = os.fsencode(entry.name)
                yield name + b"/" if entry.is_dir(follow_symlinks=False) else name
    finally:
        os.close(descriptor)


def _is_at(descriptor: int, path: bytes) -> bool:
    """Whether what was opened is where it was to be: a directory above may have become a link meanwhile."""
    return os.path.realpath(b"/proc/self/fd/%d" % descriptor) == path


def _etag(info: os.stat_result) -> str:
    """What changes with every change; empty if that is not sure."""
    if time.time() - max(info.st_mtime, info.st_ctime) < _SETTLED_S:
        return ""
    return f'"{info.st_mtime_ns:x}-{info.st_ctime_ns:x}-{info.st_size:x}"'
