"""A batch while it is decided about: what is to be written, and what it does to each host."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from gcs.store.database import HOSTS, LATER, PARENTS, QUEUE, Database, Writes
from gcs.store.encoding import (
    STATE,
    BandRow,
    Origin,
    pack_host,
    pack_later,
    pack_piece,
    retry_of,
)
from gcs.store.queue import RETRY, Band, Host, Queue, Waiting, head_after, later_key, piece_key
from gcs.store.records import Found, Queued, State, host_of
from gcs.store.status import ANY_OTHER, Status
from gcs.store.view import parent_key

_NOTHING: Final[Mapping[int, int]] = {}
_QUEUED: Final = int(State.QUEUED)


class Change:
    """What a batch does to one host."""

    __slots__ = ("added", "bands", "counts", "dead", "finished", "host", "used")

    def __init__(self, host: Host) -> None:
        """Nothing yet."""
        self.host = host
        self.counts = [*host.counts]
        """By state, as they will be."""
        self.added: dict[int, list[tuple[Found, int]]] = {}
        """By band: new URLs with their parents' numbers."""
        self.used: dict[int, dict[int, int]] = {}
        """By band and piece: how many of its URLs are finished."""
        self.dead: dict[int, int] = {}
        """By band: how many of its dead pieces are deleted."""
        self.finished = 0
        """URLs in flight that are finished."""
        self.bands: dict[int, BandRow] = {}
        """The rows, as they will be, of the bands that change."""

    def move(self, before: State | None, after: State | None) -> None:
        """Count a URL where it goes, and no longer where it was."""
        if before is not None:
            self.counts[before] -= 1
        if after is not None:
            self.counts[after] += 1

    def add(self, found: Found, parent: int) -> None:
        """A URL goes into the queue, as one that was not tried; `parent` is its parent's number."""
        added = self.added.get(found.band)
        if added is None:
            added = self.added[found.band] = []
        added.append((found, parent))

    def use(self, waiting: Waiting, writes: Writes) -> None:
        """A URL leaves the place in the queue that it was handed out from."""
        self.finished += 1
        queued = waiting.queued
        if waiting.piece == RETRY:
            writes.delete(later_key(queued.not_before, queued.key), writes.tables[LATER])
        else:
            used = self.used.get(queued.band)
            if used is None:
                used = self.used[queued.band] = {}
            used[waiting.piece] = used.get(waiting.piece, 0) + 1

    def write(self, writes: Writes) -> None:
        """Write the host's row and its new pieces, and delete those that are used up."""
        host, added = self.host, self.added
        queue = writes.tables[QUEUE]
        for number in added.keys() | self.used.keys() if self.used else added:
            band = host.bands.get(number)
            head = tail = 0
            if band is not None:
                used = self.used.get(number, _NOTHING)
                if used or band.dead:
                    self._delete_pieces(number, band, writes)
                head, tail = head_after(band, used), band.row.tail
            if number in added:
                at = len(host.name)
                piece = pack_piece([found.key[at:] for found, _ in added[number]])
                writes.put(piece_key(host.prefix, number, tail), piece, queue)
                tail += 1
            self.bands[number] = BandRow(head, tail)
        rows = {number: band.row for number, band in host.bands.items()}
        rows.update(self.bands)
        writes.put(host.prefix, pack_host(self.counts, rows), writes.tables[HOSTS])

    def _delete_pieces(self, number: int, band: Band, writes: Writes) -> None:
        prefix, queue = self.host.prefix, writes.tables[QUEUE]
        for piece, count in self.used.get(number, _NOTHING).items():
            if band.open[piece] == count:
                writes.delete(piece_key(prefix, number, piece), queue)
        if band.dead:
            self.dead[number] = len(band.dead)
            for piece in band.dead:
                writes.delete(piece_key(prefix, number, piece), queue)

    def apply(self, queue: Queue) -> None:
        """Enter it into the queue in memory, once it is on disk."""
        host = self.host
        host.counts = self.counts
        host.busy -= self.finished + 1
        for number, row in self.bands.items():
            band = host.band(number)
            for piece, count in self.used.get(number, _NOTHING).items():
                band.open[piece] -= count
                if not band.open[piece]:
                    del band.open[piece]
            band.dead = band.dead[self.dead.get(number, 0) :]
            tail, band.row = band.row.tail, row
            if number in self.added:
                queue.add(host, number, tail, self.added[number])


@dataclass(slots=True)
class Draft:
    """A batch that is being decided about."""

    database: Database
    queue: Queue
    known_parents: Mapping[str, int]
    """Numbers of pages that named something lately."""
    writes: Writes
    status: Status
    changes: dict[str, Change] = field(default_factory=dict)
    reasons: dict[str, int] = field(default_factory=dict)
    parents: dict[str, int] = field(default_factory=dict)
    """Numbers of pages that got one now."""
    retries: list[tuple[bytes, Waiting]] = field(default_factory=list)
    arriving: list[str] = field(default_factory=list)
    """Keys that get into pieces."""
    left: list[str] = field(default_factory=list)
    """URLs that are in flight, and are not any more."""
    taken: list[str] = field(default_factory=list)
    """Those of them that nobody asked for."""
    unasked: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """By host: URLs that leave the queue while they wait on disk."""
    woken: dict[str, None] = field(default_factory=dict)
    """Hosts to which URLs were moved, or come back."""
    gone: set[str] = field(default_factory=set)
    """Keys of rows that are deleted."""
    moved_memories: dict[str, bytes] = field(default_factory=dict)
    """What is remembered of pages that were moved here, as the table of visits has it."""
    moved_priorities: dict[str, bytes] = field(default_factory=dict)
    """What the last ranking said of URLs that were moved here, as the table of priorities has it."""
    queued_again: list[str] = field(default_factory=list)
    """Keys that were done or dropped, and are as if they had never been tried."""
    places: list[bytes] = field(default_factory=list)
    """Where pages stand from now on to be visited again."""
    settled_visits: list[str] = field(default_factory=list)
    """Pages whose visits, if any are under way, are over."""
    visits: int = 0
    """Pages more of which something is remembered."""
    accepted: int = 0
    moved_in: int = 0
    moved_out: int = 0
    erased: int = 0

    def touch(self, names: Iterable[str]) -> None:
        """Have a change for each of some hosts."""
        changes = self.changes
        for host in self.queue.hosts([name for name in dict.fromkeys(names) if name not in changes]):
            changes[host.name] = Change(host)

    def number_reasons(self, words: set[str]) -> None:
        """Have a number for each of some reasons."""
        self.status = self.status.with_reasons(words)
        self.reasons = self.status.reason_numbers()

    def reason(self, word: str) -> int:
        """The number of a reason; that of another word if there are too many."""
        number = self.reasons.get(word)
        return self.reasons.get(ANY_OTHER, 0) if number is None else number

    def parent(self, parent: str) -> int:
        """The number of a page that names something."""
        if not parent:
            return 0
        number = self.known_parents.get(parent) or self.parents.get(parent)
        if number is None:
            number = self.status.parents + len(self.parents) + 1
            self.parents[parent] = number
            self.writes.put(parent_key(number), parent.encode(), self.writes.tables[PARENTS])
        return number

    def take_out(self, rows: Mapping[str, bytes]) -> None:
        """Take those of some rows that are queued out of the window, for they will leave the queue."""
        by_host: defaultdict[str, set[str]] = defaultdict(set)
        in_flight = self.queue.in_flight
        for key, row in rows.items():
            if row[0] & STATE == _QUEUED and key not in in_flight:
                by_host[host_of(key)].add(key)
        for name, keys in by_host.items():
            self.taken += self.queue.take_out(self.changes[name].host, keys)

    def leave(self, key: str, row: bytes, change: Change) -> Waiting | None:
        """A queued URL leaves the queue; if it is not in memory, it is skipped when it is read."""
        waiting = self.queue.in_flight.get(key)
        if waiting is not None:
            change.use(waiting, self.writes)
            self.left.append(key)
        else:
            self.unasked[change.host.name].add(key)
            if at := retry_of(row):
                self.writes.delete(at + key.encode(), self.writes.tables[LATER])
        return waiting

    def retry(self, queued: Queued, origin: Origin) -> None:
        """A URL goes to the table of retries."""
        packed_key = later_key(queued.not_before, queued.key)
        self.writes.put(packed_key, pack_later(origin, queued.attempts), self.writes.tables[LATER])
        self.retries.append((packed_key, Waiting(queued, RETRY, origin.parent)))
