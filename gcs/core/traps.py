"""Traps: places where a crawler would never end, and find nothing. Known by their URLs, and by their pages.

`trap_in` looks at one URL: repeated runs of path segments, too many segments or parameters, too long, dates
that no page can be about. It is a pure function, cheap enough for every new link.

`Novelty` looks at pages. It owns a table of fingerprints of what was seen, and for every *subtree* (the pages
below a directory, and the pages whose URLs differ only in numbers and values of parameters) two counts of how
*dry* it is: each page that was seen before adds one, and each new page halves the count. So a count is about
twice the number of pages between two new ones, and forgets the past quickly. However large a subtree is, with
one new page in ten it is not slowed, and with one in twenty not dropped, but once in millions of pages.

Every page has two fingerprints. `exact` is that of its bytes: a subtree of repetitions is soon slowed, then
dropped. `shape` is that of its bytes without its own path and the targets of its links, and with every digit
the same, as the pages of a calendar, of sessions or of a growing path are; there may be sites where numbers
are all that matters, so much more of that is needed.

Memory is bounded. The table of fingerprints has small buckets; in each, what came again stands in front of
what came once, and the last falls out. So the few pages that a trap repeats outlast the many of other sites
that come in between. Of subtrees those go which had no page for longest. Forgetting makes pages new again, so
it errs on the side of fetching.
"""

from __future__ import annotations

import re
from array import array
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import Final, NamedTuple, cast

import msgpack
from isal import isal_zlib

from gcs.core.urls import PATH, QUERY, readable
from gcs.native import compiled, is_compiled

MAX_LENGTH: Final = 1024
MAX_SEGMENTS: Final = 32
MAX_PARAMETERS: Final = 32
MAX_REPEATS: Final = 3
YEARS_AHEAD: Final = 3
_LAST_YEAR: Final = 2200
_FIRST_YEAR: Final = 1800

SLOWED_FROM: Final = {"exact": 150, "shape": 300}
DROPPED_FROM: Final = {"exact": 300, "shape": 1500}
_BUCKET: Final = 8
_DIRECTORIES: Final = 3
_SHAPED_BYTES: Final = 4 << 10
_SHAPE: Final = 0x5BD1E9955BD1E995
_VERSION: Final = 1
_InflateError: Final = cast("type[Exception]", isal_zlib.error)

_PATH_DATE = re.compile(r"/(\d{4})/(?:0?[1-9]|1[0-2])(?:/|\Z)")
_WHOLE_DATE = re.compile(r"(?<!\d)(\d{4})-[01]\d-[0-3]\d(?!\d)")
_YEAR_PARAMETER = re.compile(r"(?:\A|&)(?:year|yr|y)=(\d{4})(?!\d)")
_VARIABLE = re.compile(r"\d(?:[0-9a-f]{15,}|\d*)")
_VALUE = re.compile(r"=[^&]*")
_HREF = re.compile(rb"href=(?:\"[^\"]*\"|'[^']*')")
_SAME_DIGIT = bytes(ord("0") if chr(byte).isdigit() and byte < 0x80 else byte for byte in range(256))


def trap_in(url: str, year: int) -> str:
    """Why a canonical URL looks like a trap; "" when it does not. `year` is the present one."""
    if len(url) > MAX_LENGTH:
        return f"{len(url)} characters, over {MAX_LENGTH}"
    path, _, query = url.partition("?")
    segments = path.split("/")[3:]
    count = len(segments)
    if count > MAX_SEGMENTS:
        return f"{count} path segments, over {MAX_SEGMENTS}"
    # Only a path with several segments that were there before can repeat a run of them.
    if count > MAX_REPEATS and count - len(set(segments)) >= MAX_REPEATS and (run := repeated(segments)):
        return f"{run!r} repeated more than {MAX_REPEATS} times"
    if query and (reason := _in_query(query)):
        return reason
    return _in_dates(url, path, query, year)


def repeated(segments: list[str]) -> str:
    """A run of segments that comes more than `MAX_REPEATS` times in a row; "" when there is none."""
    count = len(segments)
    for length in range(1, count // (MAX_REPEATS + 1) + 1):
        same = 0
        for at in range(count - length):
            same = same + 1 if segments[at] == segments[at + length] else 0
            if same >= MAX_REPEATS * length and any(segments[at : at + length]):
                return "/".join(segments[at + 1 : at + 1 + length])
    return ""


def _in_query(query: str) -> str:
    pairs = query.split("&")
    count = len(pairs)
    if count > MAX_PARAMETERS:
        return f"{count} parameters, over {MAX_PARAMETERS}"
    if count > MAX_REPEATS and count - len(set(pairs)) >= MAX_REPEATS:
        for pair in set(pairs):
            if pairs.count(pair) > MAX_REPEATS:
                return f"{pair!r} repeated more than {MAX_REPEATS} times"
    return ""


def _in_dates(url: str, path: str, query: str, year: int) -> str:
    # What has a date has these, and most others have not.
    if "/2" in path:
        for found in _PATH_DATE.finditer(path):
            # A small number between slashes may be anything; only what is ahead is a date for sure.
            if year + YEARS_AHEAD < int(found[1]) <= _LAST_YEAR:
                return f"a date in the year {found[1]}"
    if "-0" in url or "-1" in url:
        for found in _WHOLE_DATE.finditer(url):
            if _is_far(int(found[1]), year):
                return f"a date in the year {found[1]}"
    for found in _YEAR_PARAMETER.finditer(query):
        if _is_far(int(found[1]), year):
            return f"a date in the year {found[1]}"
    return ""


def _is_far(dated: int, year: int) -> bool:
    # Beyond the last year there are numbers of other things, and whoever counts years comes by here before.
    return year + YEARS_AHEAD < dated <= _LAST_YEAR or 1000 <= dated < _FIRST_YEAR


class Fingerprint(NamedTuple):
    """A page in two numbers of 64 bits, equal for equal pages, and for pages of the same shape."""

    exact: int
    shape: int


def fingerprint(content: bytes, path: str = "") -> Fingerprint:
    """The fingerprint of a page that was found at a path; checksums, since nobody gains by a forgery."""
    shaped = content
    if len(content) > _SHAPED_BYTES:
        # A part of the middle tells pages of one template apart, at a fraction of the cost.
        middle = len(content) // 3
        shaped = content[: _SHAPED_BYTES // 4] + content[middle : middle + _SHAPED_BYTES]
    # Without digits both sums are the same, and must not displace each other in the table.
    return Fingerprint(_sum(content), _sum(shape_of(shaped, path.encode())) ^ _SHAPE)


def shape_of_expressed(content: bytes, path: bytes) -> bytes:
    """A page without its path and the targets of its links, and with every digit the same."""
    if len(path) > 1:
        content = content.replace(path, b"")
    return _HREF.sub(b"", content).translate(_SAME_DIGIT)


shape_of = compiled.shape_of if is_compiled else shape_of_expressed


def _sum(content: bytes) -> int:
    mixed = (isal_zlib.crc32(content) << 32 | isal_zlib.adler32(content)) + len(content)
    # The table takes its places from the upper bits, which a checksum of little text leaves alike.
    return mixed * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF


class Standing(IntEnum):
    """What a subtree's pages are worth; the larger, the less."""

    OPEN = 0
    SLOWED = 1
    DROPPED = 2


class Judgement(NamedTuple):
    """How a URL stands, and because of which subtree."""

    standing: Standing
    reason: str


_FINE: Final = Judgement(Standing.OPEN, "")


class Dry(NamedTuple):
    """What was seen of a subtree that repeats something."""

    subtree: str
    pages: int
    exact: int
    shape: int

    @property
    def host(self) -> str:
        """The key of the host that it is at."""
        return self.subtree[: self.subtree.index(PATH)]


class _Tally:
    """The pages of a subtree since it began to repeat something, and how dry it is in both ways."""

    __slots__ = ("exact", "pages", "shape")

    def __init__(self, pages: int = 0, exact: int = 0, shape: int = 0) -> None:
        self.pages = pages
        self.exact = exact
        self.shape = shape


class Novelty:
    """What has been seen, and which subtrees yield nothing else."""

    def __init__(self, *, fingerprints: int = 1 << 19, subtrees: int = 20_000) -> None:
        """Room for so many fingerprints, two to a page, and so many subtrees that repeat something."""
        if fingerprints < _BUCKET or fingerprints % _BUCKET or subtrees < 1:
            raise ValueError(f"room for {fingerprints} fingerprints, {subtrees} subtrees cannot be made")
        self._table = array("Q", [0]) * fingerprints
        self._room = subtrees
        self._tallies: OrderedDict[str, _Tally] = OrderedDict()
        self._closed: OrderedDict[str, Judgement] = OrderedDict()
        self._hosts: dict[str, int] = {}

    def seen(self, key: str, page: Fingerprint) -> Judgement:
        """A page was fetched: how its subtrees stand now."""
        exact = self._is_known(page.exact)
        shape = self._is_known(page.shape)
        repeated = exact or shape
        if not repeated and not self._tallies and not self._closed:
            return _FINE
        worst = _FINE
        for subtree in subtrees(key):
            # Most pages are new, and in places where nothing was ever repeated.
            if not repeated and subtree not in self._tallies and subtree not in self._closed:
                continue
            tally = self._tally(subtree)
            tally.pages += 1
            tally.exact = tally.exact + 1 if exact else tally.exact >> 1
            tally.shape = tally.shape + 1 if shape else tally.shape >> 1
            judgement = self._judge(subtree, tally)
            if judgement.standing > worst.standing:
                worst = judgement
            if not tally.exact and not tally.shape:
                del self._tallies[subtree]
        return worst

    def judge(self, key: str) -> Judgement:
        """How a URL stands by the subtrees that it is in."""
        if not self._closed or key[: key.index(PATH)] not in self._hosts:
            return _FINE
        found = [self._closed[subtree] for subtree in subtrees(key) if subtree in self._closed]
        return max(found, default=_FINE)

    def closed(self) -> Iterator[tuple[str, Judgement]]:
        """The subtrees that are slowed or dropped, and why."""
        return iter(self._closed.items())

    def dry(self) -> Iterator[Dry]:
        """The subtrees that repeat something."""
        return (Dry(name, each.pages, each.exact, each.shape) for name, each in self._tallies.items())

    def adopt(self, known: Iterable[Dry]) -> None:
        """Take in what another one saw of subtrees; each is as dry as where it is drier."""
        for subtree, pages, exact, shape in known:
            mine = self._tally(subtree)
            mine.pages += pages - 1
            mine.exact, mine.shape = max(mine.exact, exact), max(mine.shape, shape)
            self._judge(subtree, mine)

    def to_bytes(self) -> bytes:
        """All of it, for storing."""
        tallies = list(self.dry())
        closed = [(subtree, int(standing), reason) for subtree, (standing, reason) in self._closed.items()]
        table = isal_zlib.compress(self._table.tobytes(), 1)
        packed: bytes = msgpack.packb((_VERSION, len(self._table), self._room, table, tallies, closed))
        return packed

    @classmethod
    def from_bytes(cls, stored: bytes) -> Novelty:
        """What `to_bytes` gave; raises ValueError for anything else."""
        try:
            version, size, room, table, tallies, closed = msgpack.unpackb(stored)
            if version != _VERSION:
                raise ValueError(f"of version {version}, not {_VERSION}")
            found = cls(fingerprints=size, subtrees=room)
            found._table = array("Q", isal_zlib.decompress(table))
            if len(found._table) != size:
                raise ValueError("a part of the fingerprints is missing")
            for subtree, pages, exact, shape in tallies:
                found._tallies[str(subtree)] = _Tally(pages, exact, shape)
            for subtree, standing, reason in closed:
                found._close(subtree, Judgement(Standing(standing), str(reason)))
        except (TypeError, ValueError, _InflateError, msgpack.exceptions.UnpackException) as error:
            raise ValueError(f"these are no stored fingerprints: {error}") from error
        return found

    def _is_known(self, mark: int) -> bool:
        """Whether a fingerprint was seen; from now on it was."""
        table = self._table
        first = (mark >> 20) % (len(table) // _BUCKET) * _BUCKET
        bucket = table[first : first + _BUCKET]
        try:
            place = bucket.index(mark)
        except ValueError:
            # In the middle: before all others that came once, behind those that came again.
            bucket.insert(_BUCKET // 2, mark)
            bucket.pop()
            table[first : first + _BUCKET] = bucket
            return False
        if place:
            bucket.insert(0, bucket.pop(place))
            table[first : first + _BUCKET] = bucket
        return True

    def _tally(self, subtree: str) -> _Tally:
        tally = self._tallies.get(subtree)
        if tally is None:
            # With the page that is repeated.
            tally = self._tallies[subtree] = _Tally(pages=1)
            if len(self._tallies) > self._room:
                self._tallies.popitem(last=False)
        else:
            self._tallies.move_to_end(subtree)
        return tally

    def _judge(self, subtree: str, tally: _Tally) -> Judgement:
        judgement = self._closed.get(subtree)
        if tally.exact < SLOWED_FROM["exact"] and tally.shape < SLOWED_FROM["shape"]:
            if judgement is not None and judgement.standing is Standing.SLOWED:
                self._open(subtree)
            return _FINE if judgement is None or judgement.standing is Standing.SLOWED else judgement
        standing = Standing.SLOWED
        if tally.exact >= DROPPED_FROM["exact"] or tally.shape >= DROPPED_FROM["shape"]:
            standing = Standing.DROPPED
        if judgement is None or judgement.standing < standing:
            judgement = Judgement(standing, _reason(subtree, tally))
            self._close(subtree, judgement)
        return judgement

    def _close(self, subtree: str, judgement: Judgement) -> None:
        if subtree not in self._closed:
            host = subtree[: subtree.index(PATH)]
            self._hosts[host] = self._hosts.get(host, 0) + 1
        self._closed[subtree] = judgement
        if len(self._closed) > self._room:
            self._open(next(iter(self._closed)))

    def _open(self, subtree: str) -> None:
        del self._closed[subtree]
        host = subtree[: subtree.index(PATH)]
        self._hosts[host] -= 1
        if not self._hosts[host]:
            del self._hosts[host]


def subtrees(key: str) -> list[str]:
    """The subtrees that a key is in: those of its first directories, and that of URLs of its pattern."""
    path_at = key.index(PATH)
    host, rest = key[:path_at], key[path_at:]
    path, question, query = rest.partition(QUERY)
    path = _VARIABLE.sub("0", path)
    whole = f"{host}{path}{QUERY}{_VALUE.sub('=', query)}" if question else host + path
    found = [whole]
    at = 0
    for _ in range(_DIRECTORIES):
        at = path.find(PATH, at + 1)
        if at < 0:
            break
        found.append(host + path[: at + 1])
    return found


def _reason(subtree: str, tally: _Tally) -> str:
    kind = (
        "the same as others"
        if tally.exact >= SLOWED_FROM["exact"]
        else "like others but for numbers and links"
    )
    return f"of {tally.pages} pages below {readable(subtree)}, all of late were {kind}"
