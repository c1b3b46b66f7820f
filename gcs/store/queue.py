"""The queue: pieces of it on disk, and a window of them in memory.

A host's queue has bands, and a band is a row of numbered *pieces*, each with the URLs that one commit added.
Pieces are read by number, never by scanning, so it does not matter how many were deleted before. A piece is
deleted by the commit that finishes the last of its URLs, so it may be used up in part when the process dies,
or its host leaves memory. Therefore a piece only names its URLs and the rows say the rest: of a piece that
is read, only those come back that were never tried. A URL that left the queue and came back to it is in more
than one piece: it comes from the first that is read while it is queued.

URLs that are to be tried again are in a table by time. They come back to the front of their host's window
when they are due, and stay in the table until they are finished.

Invariant: a queued URL is in exactly one of these: a piece that is not loaded, the window, in flight, the
table of retries from its cursor on. What is in flight was handed out once, and only by this process. What a
commit under way puts into the queue is not read before the commit is entered here, see `expect`.
(Decisions are made here; what is written is for `gcs.store.planning`.)
"""

import math
import struct
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from gcs.store.database import HOSTS, LATER, QUEUE, ROWS, Database
from gcs.store.encoding import (
    VIA_NUMBER,
    BandRow,
    HostRow,
    Origin,
    is_untried,
    unpack_host,
    unpack_later,
    unpack_origin,
    unpack_piece,
)
from gcs.store.records import VIAS, Found, Queued, host_of
from gcs.store.view import parents_of

RETRY: Final = -1
"""Stands for the number of a piece: the URL comes from the table of retries."""

_NEW_HOST: Final = HostRow((0, 0, 0, 0), {})
_NUMBER = struct.Struct(">I")
_TIME = struct.Struct(">Q")


class Bounds(NamedTuple):
    """How much of the queue may be in memory."""

    hosts: int = 16_384
    window: int = 65_536
    """URLs in all."""
    band_window: int = 256
    """URLs of one band of a host, before new ones are left on disk."""
    pieces_at_once: int = 8
    retries_at_once: int = 1_000


class Waiting(NamedTuple):
    """A URL of the window or in flight, with what is needed to write its row and to find its piece."""

    queued: Queued
    piece: int
    parent: int


class Band:
    """One band of a host's queue."""

    __slots__ = ("dead", "loaded", "open", "row", "window")

    def __init__(self, row: BandRow) -> None:
        """As it is on disk."""
        self.row = row
        self.loaded = row.head
        """The pieces below it were read."""
        self.window: deque[Waiting] = deque()
        self.open: dict[int, int] = {}
        """How many URLs of each loaded piece are not finished; in the order of numbers."""
        self.dead: list[int] = []
        """Pieces of which nothing was left when they were read; the next commit deletes them."""


class Host:
    """A host in memory."""

    __slots__ = ("bands", "busy", "counts", "name", "prefix")

    def __init__(self, name: str, row: HostRow) -> None:
        """As it is on disk."""
        self.name = name
        self.prefix = name.encode()
        self.counts: list[int] = [*row.counts]
        """URLs by state."""
        self.bands = {number: Band(each) for number, each in sorted(row.bands.items())}
        """Those that were ever used, in order."""
        self.busy = 0
        """URLs in flight, retries in the window, commits under way; only a host that is not busy may go."""

    def band(self, number: int) -> Band:
        """The band, which is made if it was not used before."""
        band = self.bands.get(number)
        if band is None:
            band = self.bands[number] = Band(BandRow())
            self.bands = dict(sorted(self.bands.items()))
        return band


def piece_key(prefix: bytes, band: int, number: int) -> bytes:
    """Where a piece of a host's queue is on disk."""
    return prefix + bytes((0, band)) + _NUMBER.pack(number)


def later_time(at: float) -> float:
    """A time to the millisecond, not before the given one; the same for a time that is already so."""
    return max(0, math.ceil(at * 1000 - 0.01)) / 1000


def pack_time(at: float) -> bytes:
    """A time as `later_time` gives it, in the order of times."""
    return _TIME.pack(round(at * 1000))


def unpack_time(packed: bytes) -> float:
    """The time that a packed one, or a key of the table of retries, begins with."""
    at: int = _TIME.unpack_from(packed)[0]
    return at / 1000


def later_key(at: float, key: str) -> bytes:
    """Where a retry is on disk."""
    return pack_time(at) + key.encode()


class Queue:
    """The part of the queue that is in memory, and how the rest is read."""

    def __init__(self, database: Database, bounds: Bounds) -> None:
        """Nothing is read before it is asked for."""
        self._database = database
        self._bounds = bounds
        self._hosts: dict[str, Host] = {}
        self.in_flight: dict[str, Waiting] = {}
        self.window = 0
        self._cursor = b""
        """Retries from this key on were not read."""
        self._next_at = 0.0
        """No retry from the cursor on is due before."""
        self._woken: dict[str, None] = {}
        self._arriving: frozenset[str] = frozenset()
        self._returning: frozenset[bytes] = frozenset()
        self._hosts_bound = bounds.hosts
        self._window_bound = bounds.window

    @property
    def hosts_in_memory(self) -> int:
        """How many hosts are in memory."""
        return len(self._hosts)

    def hosts(self, names: Iterable[str]) -> list[Host]:
        """Some hosts, read if they are not in memory, new if they are not on disk."""
        cached = self._hosts
        names = list(names)
        missing = [name for name in names if name not in cached]
        if missing:
            rows = self._database.get_many(HOSTS, [name.encode() for name in missing])
            for name, row in zip(missing, rows, strict=True):
                cached[name] = Host(name, unpack_host(row) if row else _NEW_HOST)
        return [cached[name] for name in names]

    def next_of(self, name: str, count: int, now: float) -> list[Queued]:
        """Hand out a host's next URLs: by band, retries that are due first, then first come first served."""
        self.wake(now)
        (host,) = self.hosts((name,))
        self._hosts[name] = self._hosts.pop(name)
        taken: list[Waiting] = []
        for number, band in host.bands.items():
            while len(taken) < count and (band.window or self._load(host, number, band)):
                waiting = band.window.popleft()
                taken.append(waiting)
                self.in_flight[waiting.queued.key] = waiting
                host.busy += waiting.piece != RETRY
        self.window -= len(taken)
        self.evict()
        return [waiting.queued for waiting in taken]

    def give_back(self, keys: Iterable[str]) -> None:
        """Put URLs that are in flight back to the front of their queues."""
        for key in reversed(list(keys)):
            waiting = self.in_flight.pop(key, None)
            if waiting is None:
                continue
            host = self._hosts[host_of(key)]
            host.band(waiting.queued.band).window.appendleft(waiting)
            host.busy -= waiting.piece != RETRY
            self.window += 1

    def take_out(self, host: Host, keys: Collection[str]) -> list[str]:
        """Hand out those of some URLs that are in the window, because they leave the queue unasked."""
        taken = []
        for band in host.bands.values():
            if not any(waiting.queued.key in keys for waiting in band.window):
                continue
            window, band.window = band.window, deque()
            for waiting in window:
                key = waiting.queued.key
                if key in keys:
                    taken.append(key)
                    self.in_flight[key] = waiting
                    host.busy += waiting.piece != RETRY
                else:
                    band.window.append(waiting)
        self.window -= len(taken)
        return taken

    def discard(self, host: Host, keys: Collection[str]) -> None:
        """Forget URLs that were read from disk while a commit took them out of the queue there."""
        self.take_out(host, keys)
        for key in keys:
            waiting = self.in_flight.pop(key, None)
            if waiting is None:
                continue
            host.busy -= 1
            if waiting.piece != RETRY:
                band = host.band(waiting.queued.band)
                band.open[waiting.piece] -= 1
                if not band.open[waiting.piece]:
                    del band.open[waiting.piece]
                    band.dead.append(waiting.piece)

    def expect(self, arriving: Iterable[str], returning: Iterable[bytes]) -> None:
        """Leave alone, until the next call, what a commit under way puts into pieces and among retries."""
        self._arriving = frozenset(arriving)
        self._returning = frozenset(returning)

    def _load(self, host: Host, number: int, band: Band) -> bool:
        """Read pieces until one has something; whether one had."""
        while not band.window and band.loaded < band.row.tail:
            numbers = range(band.loaded, min(band.loaded + self._bounds.pieces_at_once, band.row.tail))
            keys = [piece_key(host.prefix, number, each) for each in numbers]
            for each, packed in zip(numbers, self._database.get_many(QUEUE, keys), strict=True):
                if packed is not None:
                    self._open(host, number, each, unpack_piece(packed))
                band.loaded = each + 1
        return bool(band.window)

    def _open(self, host: Host, number: int, piece: int, paths: Sequence[str]) -> None:
        band = host.band(number)
        keys = [host.name + path for path in paths]
        rows = self._database.get_many(ROWS, [key.encode() for key in keys])
        known = {waiting.queued.key for waiting in band.window}
        left = [
            (key, origin)
            for key, row in zip(keys, rows, strict=True)
            if is_untried(row) and key not in known
            if key not in self.in_flight and key not in self._arriving
            if (origin := unpack_origin(row)).band == number
        ]
        parents = parents_of(self._database, (origin.parent for _, origin in left))
        for key, origin in left:
            queued = Queued(key, origin.depth, VIAS[origin.via], 0, 0.0, parents[origin.parent], number)
            band.window.append(Waiting(queued, piece, origin.parent))
        self.window += len(left)
        if left:
            band.open[piece] = len(left)
        else:
            band.dead.append(piece)

    def wake(self, now: float) -> None:
        """Put retries that are due to the front of their hosts' windows."""
        if now < self._next_at or self.window > 2 * self._bounds.window:
            return
        for woken, (packed_key, packed) in enumerate(self._database.scan(LATER, self._cursor)):
            at = unpack_time(packed_key)
            if at > now or woken == self._bounds.retries_at_once or packed_key in self._returning:
                self._next_at = at
                break
            self._cursor = packed_key + b"\0"
            self._wake(packed_key, packed)
        else:
            self._next_at = float("inf")

    def _wake(self, packed_key: bytes, packed: bytes) -> None:
        origin, attempts = unpack_later(packed)
        key = packed_key[_TIME.size :].decode()
        parent = parents_of(self._database, (origin.parent,))[origin.parent]
        at = unpack_time(packed_key)
        queued = Queued(key, origin.depth, VIAS[origin.via], attempts, at, parent, origin.band)
        self.push_retry(Waiting(queued, RETRY, origin.parent))

    def push_retry(self, waiting: Waiting) -> None:
        """Put a retry into its host's window, in front of what was never tried."""
        name = host_of(waiting.queued.key)
        (host,) = self.hosts((name,))
        window = host.band(waiting.queued.band).window
        at = next((n for n, each in enumerate(window) if each.piece != RETRY), len(window))
        window.insert(at, waiting)
        host.busy += 1
        self.window += 1
        self._woken[name] = None

    def add_retry(self, packed_key: bytes, waiting: Waiting) -> None:
        """A retry was written: it is read when due, or put into the window now if the cursor is past it."""
        if packed_key < self._cursor:
            self.push_retry(waiting)
        else:
            self._next_at = min(self._next_at, waiting.queued.not_before)

    def has_due(self, now: float) -> bool:
        """Whether retries are due, or may be, that `due` has not told of."""
        return bool(self._woken) or now >= self._next_at

    def due(self, now: float) -> list[str]:
        """The hosts to which retries came back since this was last asked."""
        self.wake(now)
        woken, self._woken = list(self._woken), {}
        return woken

    @property
    def next_due(self) -> float:
        """When the next retry is due, at the earliest; infinite if there is none."""
        return self._next_at

    def add(self, host: Host, number: int, piece: int, urls: Sequence[tuple[Found, int]]) -> None:
        """A piece was written: keep it in the window if all before it is there and there is room."""
        band = host.band(number)
        bounds = self._bounds
        if band.loaded != piece or len(band.window) >= bounds.band_window or self.window >= bounds.window:
            return
        for found, parent in urls:
            queued = Queued(found.key, found.depth, found.via, 0, 0.0, found.parent, number)
            band.window.append(Waiting(queued, piece, parent))
        band.open[piece] = len(urls)
        band.loaded = piece + 1
        self.window += len(urls)

    def evict(self) -> None:
        """Let hosts go, the longest unused first, until memory is within its bounds; busy ones stay."""
        if len(self._hosts) <= self._hosts_bound and self.window <= self._window_bound:
            return
        hosts, window = self._bounds.hosts, self._bounds.window
        for name in list(_idle(self._hosts)):
            if len(self._hosts) <= hosts * 7 // 8 and self.window <= window * 7 // 8:
                break
            host = self._hosts.pop(name)
            self.window -= sum(len(band.window) for band in host.bands.values())
        # If most are busy it is tried again when there are an eighth more, not with every call.
        self._hosts_bound = max(hosts, len(self._hosts) * 9 // 8)
        self._window_bound = max(window, self.window * 9 // 8)


def _idle(hosts: dict[str, Host]) -> Iterator[str]:
    return (name for name, host in hosts.items() if not host.busy)


def head_after(band: Band, used: Mapping[int, int]) -> int:
    """The first piece of a band that has something left once some of its URLs are finished."""
    for piece, count in band.open.items():
        if count > used.get(piece, 0):
            return piece
    return band.loaded


def origin_of(waiting: Waiting) -> Origin:
    """Where a URL in flight comes from, as its row says it."""
    queued = waiting.queued
    return Origin(VIA_NUMBER[queued.via], queued.band, queued.depth, waiting.parent)
