"""What a batch changes: decided without changing anything, so that a commit which fails needs no undoing.

`Planner.plan` reads rows and hosts, and returns a `Plan`: what is to be written, and what the queue in
memory is to be told afterwards. `Planner.apply` tells it. Rows only ever move to a larger state (see
`records`), so a batch that is repeated, or that says something about a URL which is already done, does no
harm and counts nothing twice.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from gcs.core.urls import PATH
from gcs.store.appending import Position
from gcs.store.database import HOSTS, LATER, META, PARENTS, QUEUE, ROWS, Database, Writes
from gcs.store.encoding import (
    VIA_NUMBER,
    BandRow,
    Origin,
    Outcome,
    pack_host,
    pack_later,
    pack_piece,
    pack_queued,
    pack_tried,
    retry_of,
    state_of,
    unpack_origin,
)
from gcs.store.queue import (
    RETRY,
    Band,
    Host,
    Queue,
    Waiting,
    head_after,
    later_key,
    later_time,
    origin_of,
    pack_time,
    piece_key,
)
from gcs.store.records import VIAS, Batch, Committed, Counts, Finished, Found, Queued, State, host_of
from gcs.store.status import ANY_OTHER, Range, Status
from gcs.store.view import STATUS_KEY, parent_key, parents_of

"""No name of a user's value begins with a zero byte."""

_MAX_PARENTS = 16_384
_NOTHING: Final[Mapping[int, int]] = {}
_UNKNOWN: Final = Origin(via=0, band=1, depth=0, parent=0)


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

    def move(self, before: State | None, after: State) -> None:
        """Count a URL where it goes, and no longer where it was."""
        if before is not None:
            self.counts[before] -= 1
        self.counts[after] += 1


@dataclass(slots=True)
class Plan:
    """A batch, decided."""

    batch: Batch
    writes: Writes
    status: Status
    committed: Committed
    changes: list[Change]
    retries: list[tuple[bytes, Waiting]] = field(default_factory=list)
    parents: dict[str, int] = field(default_factory=dict)
    ended: list[str] = field(default_factory=list)
    unasked: list[tuple[Host, int, str]] = field(default_factory=list)
    """URLs (host, band, key) that were finished while they waited on disk."""

    journalled: Mapping[str, int] = field(default_factory=dict)

    def record(self, *, archive: Position, log: int, journal: Mapping[str, Range]) -> None:
        """Complete it with how long files and journals are now."""
        self.status = replace(self.status, archive=archive, log=log, journal=journal)
        self.writes.put(STATUS_KEY, self.status.pack(), self.writes.tables[META])


@dataclass(slots=True)
class _Draft:
    """What is known while a plan is made."""

    writes: Writes
    changes: dict[str, Change]
    rows: dict[str, bytes]
    """Rows of URLs that are finished without having been in flight."""
    status: Status
    reasons: dict[str, int]
    any_other: int
    """The number for a reason that has none of its own."""
    parents: dict[str, int] = field(default_factory=dict)
    retries: list[tuple[bytes, Waiting]] = field(default_factory=list)
    unasked: list[tuple[Host, int, str]] = field(default_factory=list)


class Planner:
    """Decides about batches; one at a time."""

    def __init__(self, database: Database, queue: Queue) -> None:
        """For the tables of a store and its queue."""
        self._database = database
        self._queue = queue
        self._parents: dict[str, int] = {}
        """Numbers of pages that named something lately."""

    def plan(self, batch: Batch, status: Status) -> Plan:
        """What the batch changes; hosts that it touches stay in memory until `apply` or `abandon`."""
        ended = _each_once(batch.finished)
        new = self._new(batch.found, ended)
        draft = self._draft(status, ended, new)
        for finished in ended.values():
            self._finish(finished, draft)
        self._accept(new, draft)
        writes = draft.writes
        for change in draft.changes.values():
            _write_host(change, writes)
        for name, value in batch.meta.items():
            write_meta(name, value, writes)
        after = _status_after(batch, draft)
        for change in draft.changes.values():
            change.host.busy += 1
        return Plan(
            batch=batch,
            writes=writes,
            status=after,
            committed=Committed(new, after.commit),
            changes=list(draft.changes.values()),
            retries=draft.retries,
            parents=draft.parents,
            ended=list(ended),
            unasked=draft.unasked,
        )

    def _new(self, found: list[Found], ended: dict[str, Finished]) -> list[Found]:
        """Those found that have no row, each once, in order."""
        in_flight = self._queue.in_flight
        asked: dict[str, Found] = {}
        for each in found:
            key = each.key
            if key not in asked and key not in in_flight and key not in ended:
                asked[key] = each
        rows = self._database.get_many(ROWS, [key.encode() for key in asked])
        return [each for each, row in zip(asked.values(), rows, strict=True) if row is None]

    def _draft(self, status: Status, ended: dict[str, Finished], new: list[Found]) -> _Draft:
        queue = self._queue
        strays = [key for key in ended if key not in queue.in_flight]
        values = self._database.get_many(ROWS, [key.encode() for key in strays])
        names = dict.fromkeys([host_of(key) for key in ended])
        names |= dict.fromkeys([host_of(each.key) for each in new])
        status = status.with_reasons({each.reason for each in ended.values()})
        return _Draft(
            writes=self._database.batch(),
            changes={host.name: Change(host) for host in queue.hosts(names)},
            rows={key: row for key, row in zip(strays, values, strict=True) if row is not None},
            status=status,
            reasons=(reasons := status.reason_numbers()),
            any_other=reasons.get(ANY_OTHER, 0),
        )

    def _finish(self, finished: Finished, draft: _Draft) -> None:
        key = finished.key
        change = draft.changes[host_of(key)]
        row = draft.rows.get(key)
        waiting = self._queue.in_flight.get(key)
        if row is not None:
            before: State | None = state_of(row)
            origin = unpack_origin(row)
            if before is State.QUEUED:
                waiting = self._take_unasked(key, row, change, draft)
        elif waiting is not None:
            before, origin = State.QUEUED, origin_of(waiting)
        else:
            before, origin = None, _UNKNOWN
        if waiting is not None:
            _use(waiting, change, draft.writes)
        if before is not None and finished.state < before:
            return
        state, at = finished.state, int(finished.at) - draft.status.birth
        is_retry = state is State.QUEUED
        outcome = Outcome(
            finished.status,
            finished.attempts,
            draft.reasons.get(finished.reason, draft.any_other),
            max(0, at),
            pack_time(later_time(finished.retry_at)) if is_retry else finished.digest,
        )
        draft.writes.put(key.encode(), pack_tried(state, origin, outcome), draft.writes.tables[ROWS])
        change.move(before, state)
        if is_retry:
            self._retry(finished, origin, waiting, draft)

    def _take_unasked(self, key: str, row: bytes, change: Change, draft: _Draft) -> Waiting | None:
        """A URL that is queued but was not handed out; if it is not in memory, it is skipped when read."""
        band = unpack_origin(row).band
        waiting = self._queue.take_out(change.host, band, key)
        if waiting is None:
            draft.unasked.append((change.host, band, key))
            if at := retry_of(row):
                draft.writes.delete(at + key.encode(), draft.writes.tables[LATER])
        return waiting

    def _retry(self, finished: Finished, origin: Origin, waiting: Waiting | None, draft: _Draft) -> None:
        at = later_time(finished.retry_at)
        packed_key = later_key(at, finished.key)
        draft.writes.put(packed_key, pack_later(origin, finished.attempts), draft.writes.tables[LATER])
        known = (
            waiting.queued.parent if waiting else parents_of(self._database, (origin.parent,))[origin.parent]
        )
        queued = Queued(
            finished.key, origin.depth, VIAS[origin.via], finished.attempts, at, known, origin.band
        )
        draft.retries.append((packed_key, Waiting(queued, RETRY, origin.parent)))

    def _accept(self, new: list[Found], draft: _Draft) -> None:
        """Rows for what is new. What one page names has the same row, so that it is packed once."""
        put, rows = draft.writes.put, draft.writes.tables[ROWS]
        changes = draft.changes
        packed: dict[tuple[str, str, int, int], tuple[int, bytes]] = {}
        for each in new:
            key, depth, parent, via, band = each
            like = (parent, via, band, depth)
            known = packed.get(like)
            if known is None:
                number = self._parent_number(parent, draft)
                known = packed[like] = number, pack_queued(Origin(VIA_NUMBER[via], band, depth, number))
            put(key.encode(), known[1], rows)
            change = changes[key[: key.find(PATH)]]
            change.counts[0] += 1
            added = change.added.get(band)
            if added is None:
                added = change.added[band] = []
            added.append((each, known[0]))

    def _parent_number(self, parent: str, draft: _Draft) -> int:
        if not parent:
            return 0
        number = self._parents.get(parent) or draft.parents.get(parent)
        if number is None:
            number = draft.status.parents + len(draft.parents) + 1
            draft.parents[parent] = number
            draft.writes.put(parent_key(number), parent.encode(), draft.writes.tables[PARENTS])
        return number

    def apply(self, plan: Plan) -> None:
        """Tell the queue in memory about a plan that is on disk."""
        for change in plan.changes:
            self._apply(change)
        for host, band, key in plan.unasked:
            self._queue.discard(host, band, key)
        in_flight = self._queue.in_flight
        for key in plan.ended:
            in_flight.pop(key, None)
        for packed_key, waiting in plan.retries:
            self._queue.add_retry(packed_key, waiting)
        if len(self._parents) > _MAX_PARENTS:
            self._parents.clear()
        self._parents |= plan.parents
        self._queue.evict()

    def _apply(self, change: Change) -> None:
        host = change.host
        host.counts = change.counts
        host.busy -= change.finished + 1
        for number, row in change.bands.items():
            band = host.band(number)
            for piece, count in change.used.get(number, _NOTHING).items():
                band.open[piece] -= count
                if not band.open[piece]:
                    del band.open[piece]
            band.dead = band.dead[change.dead.get(number, 0) :]
            tail, band.row = band.row.tail, row
            if number in change.added:
                self._queue.add(host, number, tail, change.added[number])

    @staticmethod
    def abandon(plan: Plan) -> None:
        """Forget a plan that did not reach the disk."""
        for change in plan.changes:
            change.host.busy -= 1


def _each_once(finished: list[Finished]) -> dict[str, Finished]:
    """By key: of several about one URL the larger state counts, then the later."""
    ended: dict[str, Finished] = {}
    for each in finished:
        known = ended.get(each.key)
        if known is None or each.state >= known.state:
            ended[each.key] = each
    return ended


def _use(waiting: Waiting, change: Change, writes: Writes) -> None:
    """Note that a URL leaves the place in the queue that it was handed out from."""
    change.finished += 1
    queued = waiting.queued
    if waiting.piece == RETRY:
        writes.delete(later_key(queued.not_before, queued.key), writes.tables[LATER])
    else:
        used = change.used.get(queued.band)
        if used is None:
            used = change.used[queued.band] = {}
        used[waiting.piece] = used.get(waiting.piece, 0) + 1


def _write_host(change: Change, writes: Writes) -> None:
    host, added = change.host, change.added
    queue = writes.tables[QUEUE]
    for number in added.keys() | change.used.keys() if change.used else added:
        band = host.bands.get(number)
        head = tail = 0
        if band is not None:
            used = change.used.get(number, _NOTHING)
            if used or band.dead:
                _delete_pieces(change, number, band, writes)
            head, tail = head_after(band, used), band.row.tail
        if number in added:
            at = len(host.name)
            piece = pack_piece([found.key[at:] for found, _ in added[number]])
            writes.put(piece_key(host.prefix, number, tail), piece, queue)
            tail += 1
        change.bands[number] = BandRow(head, tail)
    rows = {number: band.row for number, band in host.bands.items()}
    rows.update(change.bands)
    writes.put(host.prefix, pack_host(change.counts, rows), writes.tables[HOSTS])


def _delete_pieces(change: Change, number: int, band: Band, writes: Writes) -> None:
    prefix, queue = change.host.prefix, writes.tables[QUEUE]
    for piece, count in change.used.get(number, _NOTHING).items():
        if band.open[piece] == count:
            writes.delete(piece_key(prefix, number, piece), queue)
    if band.dead:
        change.dead[number] = len(band.dead)
        for piece in band.dead:
            writes.delete(piece_key(prefix, number, piece), queue)


def write_meta(name: str, value: bytes, writes: Writes) -> None:
    """Set or, with an empty value, remove a named value."""
    if value:
        writes.put(name.encode(), value, writes.tables[META])
    else:
        writes.delete(name.encode(), writes.tables[META])


def _status_after(batch: Batch, draft: _Draft) -> Status:
    status = draft.status
    moved = [0, 0, 0]
    for change in draft.changes.values():
        for state, count in enumerate(change.host.counts):
            moved[state] += change.counts[state] - count
    counts = status.counts
    counters = status.counters
    if batch.counters:
        counters = {**counters, **{n: counters.get(n, 0) + more for n, more in batch.counters.items()}}
    return replace(
        status,
        commit=status.commit + 1,
        counts=Counts(
            queued=counts.queued + moved[State.QUEUED],
            done=counts.done + moved[State.DONE],
            dropped=counts.dropped + moved[State.DROPPED],
        ),
        parents=status.parents + len(draft.parents),
        counters=counters,
    )
