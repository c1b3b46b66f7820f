"""What a batch changes: decided without changing anything, so that a commit which fails needs no undoing.

`Planner.plan` reads rows and hosts, and returns a `Plan`: what is to be written, and what the queue in
memory is to be told afterwards. `Planner.apply` tells it. Rows only move to a larger state (see `records`),
unless a batch names those that move back, so a batch that is repeated, or that says something about a URL
which is already done, does no harm and counts nothing twice.
"""

from collections.abc import Container, Mapping, Set
from dataclasses import dataclass, field, replace
from typing import Final

from gcs.core.urls import PATH
from gcs.store import outbox, priorities, promoting, revisits, transfers
from gcs.store.appending import Position
from gcs.store.database import META, ROWS, Database, Writes
from gcs.store.drafting import Draft
from gcs.store.encoding import (
    STATE,
    VIA_NUMBER,
    Origin,
    Outcome,
    pack_tried,
    pack_untried,
    state_of,
    unpack_origin,
)
from gcs.store.queue import Queue, Waiting, later_time, origin_of, pack_time
from gcs.store.records import VIAS, Batch, Committed, Counts, Finished, Found, Ledger, Queued, State, host_of
from gcs.store.status import Range, Status
from gcs.store.view import STATUS_KEY, parents_of

_MAX_PARENTS = 16_384
_PASSED: Final = int(State.PASSED)
_QUEUED: Final = int(State.QUEUED)
"""Plain numbers, for what is done with every URL: asking a list by a state takes several times as long."""
_UNKNOWN: Final = Origin(via=0, band=1, depth=0, parent=0)


@dataclass(slots=True)
class Plan:
    """A batch, decided."""

    batch: Batch
    draft: Draft
    status: Status
    committed: Committed
    journalled: Mapping[str, int] = field(default_factory=dict)

    @property
    def writes(self) -> Writes:
        """All that is to be written."""
        return self.draft.writes

    def record(self, *, archive: Position, log: int, journal: Mapping[str, Range]) -> None:
        """Complete it with how long files and journals are now."""
        self.status = replace(self.status, archive=archive, log=log, journal=journal)
        self.writes.put(STATUS_KEY, self.status.pack(), self.writes.tables[META])


class Planner:
    """Decides about batches; one at a time."""

    def __init__(self, database: Database, queue: Queue, lines: revisits.Lines) -> None:
        """For the tables of a store, its queue, and the lines for further visits."""
        self._database = database
        self._queue, self._lines = queue, lines
        self._parents: dict[str, int] = {}
        """Numbers of pages that named something lately."""

    def plan(self, batch: Batch, status: Status) -> Plan:
        """What the batch changes; hosts that it touches stay in memory until `apply` or `abandon`.

        Raises ValueError, and nothing has changed, for rows from another gatherer that are damaged.
        """
        draft = Draft(self._database, self._queue, self._parents, self._database.batch(), status)
        try:
            return self._decide(batch, draft)
        except BaseException:
            self._queue.give_back(draft.taken)
            raise

    def _decide(self, batch: Batch, draft: Draft) -> Plan:
        ended = _each_once(self._counting(batch))
        settled: Set[str] = ended.keys()
        if batch.moved or batch.released or batch.erased or batch.again:
            settled = transfers.settle(batch, ended, draft) | ended.keys()
        new = self._accept(batch.found, settled, draft)
        self._finish_all(ended, draft)
        passed: dict[str, list[Found]] = {}
        if batch.passed:
            known = {*settled - draft.gone, *[each.key for each in new]}
            passed = transfers.pass_on(batch.passed, known, draft)
        promoting.promote(batch, {*settled, *(each.key for each in new)} if batch.priorities else (), draft)
        for change in draft.changes.values():
            change.write(draft.writes)
        for name, value in batch.meta.items():
            write_meta(name, value, draft.writes)
        ranked = priorities.enter(batch, draft)
        revisits.enter(batch, ended, draft)
        after = _status_after(batch, passed, draft)
        for change in draft.changes.values():
            change.host.busy += 1
        self._queue.expect(draft.arriving, [packed_key for packed_key, _ in draft.retries])
        return Plan(batch, draft, after, Committed(new, after.commit, list(draft.woken), ranked))

    def _counting(self, batch: Batch) -> list[Finished]:
        """What was finished, but for visits to pages that are not done any more, or are to be queued."""
        keys = [each.key for each in batch.finished if each.is_revisit]
        rows = self._database.get_many(ROWS, [key.encode() for key in keys])
        void = {
            key for key, row in zip(keys, rows, strict=True) if row is None or state_of(row) is not State.DONE
        }.union(batch.again)
        return [each for each in batch.finished if not (each.is_revisit and each.key in void)]

    def _accept(self, found: list[Found], settled: Container[str], draft: Draft) -> list[Found]:
        """Rows for what is found and has none, each once, in order.

        What one page names has the same row, so that it is packed once.
        """
        new = self._new(found, settled, draft)
        put, rows = draft.writes.put, draft.writes.tables[ROWS]
        changes = draft.changes
        packed: dict[tuple[str, str, int, int], tuple[int, bytes]] = {}
        for each in new:
            key, depth, parent, via, band = each
            like = (parent, via, band, depth)
            known = packed.get(like)
            if known is None:
                number = draft.parent(parent)
                row = pack_untried(State.QUEUED, Origin(VIA_NUMBER[via], band, depth, number))
                known = packed[like] = number, row
            put(key.encode(), known[1], rows)
            change = changes[key[: key.find(PATH)]]
            change.counts[_QUEUED] += 1
            added = change.added.get(band)
            if added is None:
                added = change.added[band] = []
            added.append((each, known[0]))
        if draft.status.ledger.moved_out or draft.status.ledger.erased:
            # Only then can a piece on disk have a key that is new.
            draft.arriving += [each.key for each in new]
        draft.accepted += len(new)
        return new

    def _new(self, found: list[Found], settled: Container[str], draft: Draft) -> list[Found]:
        """Those found that have no row, or were passed on; their hosts change."""
        in_flight = self._queue.in_flight
        asked: dict[str, Found] = {}
        for each in found:
            key = each.key
            if key not in asked and key not in in_flight and key not in settled:
                asked[key] = each
        rows = self._database.get_many(ROWS, [key.encode() for key in asked])
        new = [
            each for each, row in zip(asked.values(), rows, strict=True) if row is None or not row[0] & STATE
        ]
        draft.touch([host_of(each.key) for each in new])
        if draft.status.counts.passed:
            for key, row in zip(asked, rows, strict=True):
                if row is not None and not row[0] & STATE:
                    draft.changes[host_of(key)].counts[_PASSED] -= 1
        return new

    def _finish_all(self, ended: dict[str, Finished], draft: Draft) -> None:
        in_flight = self._queue.in_flight
        strays = [key for key in ended if key not in in_flight]
        values = self._database.get_many(ROWS, [key.encode() for key in strays])
        rows = {key: row for key, row in zip(strays, values, strict=True) if row is not None}
        draft.touch([host_of(key) for key in ended])
        if rows:
            draft.take_out(rows)
        draft.number_reasons({each.reason for each in ended.values()})
        for key, finished in ended.items():
            self._finish(finished, rows.get(key), draft)

    def _finish(self, finished: Finished, row: bytes | None, draft: Draft) -> None:
        """Enter what became of a URL; `row` is that of one that was not handed out, if there is one."""
        key = finished.key
        change = draft.changes[host_of(key)]
        waiting = None
        if row is not None:
            before: State | None = state_of(row)
            origin = unpack_origin(row)
            if before is State.QUEUED:
                waiting = draft.leave(key, row, change)
        elif (waiting := self._queue.in_flight.get(key)) is not None:
            before, origin = State.QUEUED, origin_of(waiting)
            change.use(waiting, draft.writes)
            draft.left.append(key)
        else:
            before, origin = None, _UNKNOWN
        state, at = finished.state, int(finished.at) - draft.status.birth
        if before is not None and state < before:
            return
        is_retry = state is State.QUEUED
        outcome = Outcome(
            finished.status,
            finished.attempts,
            draft.reason(finished.reason),
            at,
            pack_time(later_time(finished.retry_at)) if is_retry else finished.digest,
        )
        draft.writes.put(key.encode(), pack_tried(state, origin, outcome), draft.writes.tables[ROWS])
        change.move(before, state)
        draft.accepted += not before
        if is_retry:
            draft.retry(self._again(finished, origin, waiting), origin)

    def _again(self, finished: Finished, origin: Origin, waiting: Waiting | None) -> Queued:
        at = later_time(finished.retry_at)
        known = (
            waiting.queued.parent if waiting else parents_of(self._database, (origin.parent,))[origin.parent]
        )
        return Queued(finished.key, origin.depth, VIAS[origin.via], finished.attempts, at, known, origin.band)

    def apply(self, plan: Plan) -> None:
        """Tell the queue in memory about a plan that is on disk."""
        draft, queue = plan.draft, self._queue
        queue.expect((), ())
        for change in draft.changes.values():
            change.apply(queue)
        for name, keys in draft.unasked.items():
            queue.discard(draft.changes[name].host, keys)
        for key in draft.left:
            queue.in_flight.pop(key, None)
        for packed_key, waiting in draft.retries:
            queue.add_retry(packed_key, waiting)
        self._lines.entered(draft.places, draft.settled_visits)
        if len(self._parents) > _MAX_PARENTS:
            self._parents.clear()
        self._parents |= draft.parents
        queue.evict()

    def abandon(self, plan: Plan) -> None:
        """Forget a plan that did not reach the disk."""
        self._queue.expect((), ())
        self._queue.give_back(plan.draft.taken)
        for change in plan.draft.changes.values():
            change.host.busy -= 1


def _each_once(finished: list[Finished]) -> dict[str, Finished]:
    """By key: of several about one URL the larger state counts, then the later."""
    ended: dict[str, Finished] = {}
    for each in finished:
        known = ended.get(each.key)
        if known is None or each.state >= known.state:
            ended[each.key] = each
    return ended


def write_meta(name: str, value: bytes, writes: Writes) -> None:
    """Set or, with an empty value, remove a named value."""
    if value:
        writes.put(name.encode(), value, writes.tables[META])
    else:
        writes.delete(name.encode(), writes.tables[META])


def _status_after(batch: Batch, passed: Mapping[str, list[Found]], draft: Draft) -> Status:
    status, ledger, outboxes = draft.status, draft.status.ledger, draft.status.outboxes
    sent: dict[str, int] = {}
    withdrawn: dict[str, int] = {}
    if passed or batch.rows or batch.told or batch.mail or batch.acked or batch.withdrawn:
        outboxes, sent, withdrawn = outbox.post(batch, passed, outboxes, draft.database, draft.writes)
    moved = _difference(draft)
    counts = status.counts
    return replace(
        status,
        commit=status.commit + 1,
        counts=Counts(
            queued=counts.queued + moved[State.QUEUED],
            done=counts.done + moved[State.DONE],
            dropped=counts.dropped + moved[State.DROPPED],
            passed=counts.passed + moved[State.PASSED],
        ),
        parents=status.parents + len(draft.parents),
        visits=status.visits + draft.visits,
        counters=_sums(status.counters, batch.counters),
        ledger=Ledger(
            accepted=ledger.accepted + draft.accepted,
            moved_in=ledger.moved_in + draft.moved_in,
            moved_out=ledger.moved_out + draft.moved_out,
            erased=ledger.erased + draft.erased,
            sent=_sums(ledger.sent, sent),
            received=_sums(ledger.received, batch.received),
            withdrawn=_sums(ledger.withdrawn, withdrawn),
        ),
        outboxes=outboxes,
        applied=_largest(status.applied, batch.applied),
    )


def _difference(draft: Draft) -> list[int]:
    """By state: how many URLs more there are."""
    changes = draft.changes.values()
    before = map(sum, zip(*[change.host.counts for change in changes], strict=True))
    after = map(sum, zip(*[change.counts for change in changes], strict=True))
    return [more - less for more, less in zip(after, before, strict=True)] or [0, 0, 0, 0]


def _sums(counters: Mapping[str, int], more: Mapping[str, int]) -> Mapping[str, int]:
    return {**counters, **{name: counters.get(name, 0) + n for name, n in more.items()}} if more else counters


def _largest(numbers: Mapping[str, int], more: Mapping[str, int]) -> Mapping[str, int]:
    return (
        {**numbers, **{name: max(n, numbers.get(name, 0)) for name, n in more.items()}} if more else numbers
    )
