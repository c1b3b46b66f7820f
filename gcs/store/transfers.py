"""What batches do to rows beyond finding and finishing them.

Rows are moved here from another gatherer, released to one, erased, queued again, or passed on.
"""

from collections.abc import Container, Sequence
from typing import Final, NamedTuple

from gcs.core.urls import PATH
from gcs.store import moving
from gcs.store.database import ROWS
from gcs.store.drafting import Change, Draft
from gcs.store.encoding import (
    STATE,
    TRIED,
    VIA_NUMBER,
    Origin,
    pack_kind,
    pack_untried,
    state_of,
    tried_at,
    unpack_origin,
    untried,
    varint,
    via_of,
    zigzag,
)
from gcs.store.queue import unpack_time
from gcs.store.records import VIAS, Batch, Finished, Found, Passed, Queued, State, host_of
from gcs.store.view import found_of, parents_of

_PASSED: Final = int(State.PASSED)
_QUEUED: Final = int(State.QUEUED)
_DONE: Final = int(State.DONE)
"""Plain numbers, for what is done with every row: asking a list by a state takes several times as long."""


class Kind(NamedTuple):
    """What rows of one kind become here."""

    state: int
    """A plain number too."""
    is_tried: bool
    origin: Origin
    parent: str
    attempts: int
    row: bytes
    """All of it, or up to the time of the last try."""


class Beside(NamedTuple):
    """By key, as the tables of a store have it: what is remembered of rows, and what a ranking said."""

    memories: dict[str, bytes]
    priorities: dict[str, bytes]


def settle(batch: Batch, ended: dict[str, Finished], draft: Draft) -> set[str]:
    """Enter what a batch moves, releases, erases and queues again; the keys for which that is all.

    What was finished, and does not count, is removed from `ended`. Raises ValueError for a damaged chunk.
    """
    moved, beside = _arrivals(batch.moved, draft)
    asked = list(dict.fromkeys([*batch.erased, *batch.released, *moved, *batch.again]))
    values = draft.database.get_many(ROWS, [key.encode() for key in asked])
    rows = {key: row for key, row in zip(asked, values, strict=True) if row is not None}
    erased = {key: row for key in batch.erased if (row := rows.get(key))}
    released = {key: row for key in batch.released if (row := rows.get(key)) and key not in erased}
    gone = erased.keys() | released.keys()
    for key in ended.keys() & gone:
        del ended[key]
    for key in moved.keys() & gone:
        del moved[key]
    for key in ended.keys() & moved.keys():
        del (ended if moved[key][0].state > ended[key].state else moved)[key]
    settled = gone | moved.keys()
    again = {
        key: row
        for key in batch.again
        if (row := rows.get(key)) and state_of(row) > State.QUEUED
        if key not in settled and key not in ended
    }
    draft.touch([host_of(key) for key in (*settled, *again)])
    draft.take_out(erased)
    draft.take_out(released)
    known = rows.keys() & moved.keys()
    draft.take_out({key: rows[key] for key in known if moved[key][0].state > rows[key][0] & STATE})
    _erase(erased, draft)
    _release(released, draft)
    _merge(moved, rows, beside, draft)
    _queue_again(again, draft)
    return settled


def _arrivals(chunks: Sequence[bytes], draft: Draft) -> tuple[dict[str, tuple[Kind, int, bytes]], Beside]:
    """By key: the kind, the time and the rest of each row; of several rows of one key the largest, or newest.

    Also what has come beside them.
    """
    unpacked = [moving.unpack(chunk) for chunk in chunks]
    draft.number_reasons({word for chunk in unpacked for word in chunk.reasons})
    arrivals: dict[str, tuple[Kind, int, bytes]] = {}
    beside = Beside({}, {})
    for chunk in unpacked:
        kinds = [_kind(each, chunk, draft) for each in chunk.kinds]
        for key, (place, at, tail) in zip(chunk.keys, chunk.rows, strict=True):
            kind = kinds[place]
            known = arrivals.get(key)
            if known is not None:
                if (known[0].state, known[1]) >= (kind.state, at):
                    continue
                beside.memories.pop(key, None)
            arrivals[key] = kind, at, tail
            if key in chunk.memories:
                beside.memories[key] = chunk.memories[key]
        beside.priorities.update(chunk.priorities)
    return arrivals, beside


def _kind(kind: moving.Kind, chunk: moving.Chunk, draft: Draft) -> Kind:
    flags = kind.flags
    parent = chunk.parents[kind.parent]
    origin = Origin(via_of(flags), flags >> 5 & 3, kind.depth, draft.parent(parent))
    state, is_tried = State(flags & STATE), bool(flags & TRIED)
    row = pack_untried(state, origin)
    if is_tried:
        reason = draft.reason(chunk.reasons[kind.reason])
        row = pack_kind(state, origin, kind.status, kind.attempts, reason)
    return Kind(int(state), is_tried, origin, parent, kind.attempts, row)


def _erase(erased: dict[str, bytes], draft: Draft) -> None:
    for key, row in erased.items():
        before = state_of(row)
        _remove(key, row, before, None, draft)
        draft.writes.delete(key.encode(), draft.writes.tables[ROWS])
        draft.erased += before is not State.PASSED
    draft.gone.update(erased)


def _release(released: dict[str, bytes], draft: Draft) -> None:
    """Rows of a range, in order: those of a host follow each other, and most are packed alike."""
    put, table = draft.writes.put, draft.writes.tables[ROWS]
    passed: dict[bytes, bytes] = {}
    beginning, change = "\0", None
    for key, row in released.items():
        before = row[0] & STATE
        if before == _PASSED:
            continue
        if change is None or not key.startswith(beginning):
            change = draft.changes[host_of(key)]
            beginning = change.host.name + PATH
        change.counts[before] -= 1
        change.counts[_PASSED] += 1
        if before == _QUEUED:
            draft.leave(key, row, change)
        after = passed.get(row)
        if after is None:
            after = passed[row] = untried(State.PASSED, row)
        put(key.encode(), after, table)
        draft.moved_out += 1


def _remove(key: str, row: bytes, before: State, after: State | None, draft: Draft) -> None:
    change = draft.changes[host_of(key)]
    change.move(before, after)
    if before is State.QUEUED:
        draft.leave(key, row, change)


def _merge(
    moved: dict[str, tuple[Kind, int, bytes]],
    rows: dict[str, bytes],
    beside: Beside,
    draft: Draft,
) -> None:
    put, table = draft.writes.put, draft.writes.tables[ROWS]
    birth = draft.status.birth
    count = 0
    beginning, change = "\0", None
    for key, (kind, at, tail) in moved.items():
        state, is_tried, origin, parent, attempts, packed = kind
        row = rows.get(key)
        if change is None or not key.startswith(beginning):
            change = draft.changes[host_of(key)]
            beginning = change.host.name + PATH
        if row is None:
            count += 1
        else:
            before = state_of(row)
            # Of what two have fetched the last visit counts.
            if before > state or (before == state and (state != _DONE or tried_at(row) + birth >= at)):
                continue
            count += before is State.PASSED
            _remove(key, row, before, None, draft)
        change.counts[state] += 1
        if state == _DONE and key in beside.memories:
            draft.moved_memories[key] = beside.memories[key]
        if key in beside.priorities:
            draft.moved_priorities[key] = beside.priorities[key]
        put(key.encode(), packed + varint(zigzag(at - birth)) + tail if is_tried else packed, table)
        if state != _QUEUED:
            continue
        if is_tried:
            due = unpack_time(tail)
            queued = Queued(key, origin.depth, VIAS[origin.via], attempts, due, parent, origin.band)
            draft.retry(queued, origin)
            draft.woken[change.host.name] = None
        else:
            found = Found(key, origin.depth, parent, VIAS[origin.via], origin.band)
            _enqueue(found, origin.parent, change, draft)
    draft.moved_in += count


def _queue_again(again: dict[str, bytes], draft: Draft) -> None:
    parents = parents_of(draft.database, [unpack_origin(row).parent for row in again.values()])
    for key, row in again.items():
        change = draft.changes[host_of(key)]
        change.move(state_of(row), State.QUEUED)
        draft.writes.put(key.encode(), untried(State.QUEUED, row), draft.writes.tables[ROWS])
        _enqueue(found_of(key, row, parents), unpack_origin(row).parent, change, draft)
    draft.queued_again += again


def _enqueue(found: Found, parent: int, change: Change, draft: Draft) -> None:
    change.add(found, parent)
    draft.arriving.append(found.key)
    draft.woken[change.host.name] = None


def pass_on(passed: Sequence[Passed], settled: Container[str], draft: Draft) -> dict[str, list[Found]]:
    """Make URLs known that belong to others; by receiver, those that are to be sent."""
    asked: dict[str, Passed] = {}
    for each in passed:
        key = each.found.key
        if key not in settled and (key not in asked or each.always):
            asked[key] = each
    values = draft.database.get_many(ROWS, [key.encode() for key in asked])
    new: list[Found] = []
    sent: dict[str, list[Found]] = {}
    for (key, each), row in zip(asked.items(), values, strict=True):
        if row is None or key in draft.gone:
            new.append(each.found)
        elif not each.always or state_of(row) is not State.PASSED:
            continue
        if each.to:
            sent.setdefault(each.to, []).append(each.found)
    _remember(new, draft)
    return sent


def _remember(new: Sequence[Found], draft: Draft) -> None:
    put, rows = draft.writes.put, draft.writes.tables[ROWS]
    draft.touch([host_of(each.key) for each in new])
    changes = draft.changes
    packed: dict[tuple[str, str, int, int], bytes] = {}
    for key, depth, parent, via, band in new:
        like = (parent, via, band, depth)
        row = packed.get(like)
        if row is None:
            origin = Origin(VIA_NUMBER[via], band, depth, draft.parent(parent))
            row = packed[like] = pack_untried(State.PASSED, origin)
        put(key.encode(), row, rows)
        changes[host_of(key)].counts[State.PASSED] += 1
