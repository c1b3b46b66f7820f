"""Pages that are to be visited again: what is remembered of each, and the lines in which they stand.

Table `visits` has what is remembered of a page, and its place in the timetable; `due` has the lines: grade,
since when, key. Both change with the commit that says what came of a visit, so a page stands in one line,
once, or in none if it is gone. A page that is handed out stays in its line on disk until then: what was
under way when a process died is visited again.

The row of a page says DONE all the time, so that no count and no ledger knows about visits.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final

from gcs.core.revisits.standing import APPOINTED
from gcs.store.database import DUE, ROWS, VISITS, Database
from gcs.store.encoding import (
    pack_visit,
    since_of,
    state_of,
    unpack_origin,
    unpack_outcome,
    unpack_visit,
    visit_line,
    visit_place,
)
from gcs.store.records import VIAS, Again, Batch, Finished, Queued, Remembered, State, host_of
from gcs.store.view import parents_of

if TYPE_CHECKING:
    from gcs.core.revisits.timetable import Timetable
    from gcs.store.drafting import Draft

_PREFIX: Final = 9
"""Bytes of a place before the key: grade and time."""
_READ_AT_ONCE: Final = 64
_IN_MEMORY: Final = 4 * _READ_AT_ONCE
"""Places of a line that are in memory at most."""
_LOOKED_AT: Final = 4_000
"""Places that are looked at before others have their turn."""
_BARRED_S: Final = 30.0
"""Pages that may not be visited are not looked at again for so long, unless it is known that they may."""


def read(database: Database, key: str) -> Remembered | None:
    """What is remembered of a page."""
    packed = database.get(VISITS, key.encode())
    return None if packed is None else unpack_visit(packed)


def grades(database: Database) -> Counter[int]:
    """How many pages stand in each line, but that of dates."""
    return Counter(place[0] for place, _ in database.scan(DUE, b"", bytes((APPOINTED,))))


def appointed(database: Database, since: float) -> Iterator[str]:
    """The pages that were told a date which is not before a time, as of when the first is asked for."""
    for place, _ in database.scan(DUE, visit_line(APPOINTED, since)):
        yield place[_PREFIX:].decode()


def read_many(database: Database, keys: Sequence[str]) -> list[Remembered | None]:
    """What is remembered of some pages, in the order of the keys."""
    found = database.get_many(VISITS, [key.encode() for key in keys])
    return [None if packed is None else unpack_visit(packed) for packed in found]


def scan(database: Database, start: str = "") -> Iterator[tuple[str, Remembered]]:
    """What is remembered of all pages, from a key on, in order."""
    for key, packed in database.scan(VISITS, start.encode()):
        yield key.decode(), unpack_visit(packed)


def memories(database: Database, entries: Sequence[tuple[bytes, bytes]]) -> dict[int, bytes]:
    """What is remembered of some rows, by their numbers, as it goes with them to another gatherer."""
    done = [number for number, (_, row) in enumerate(entries) if state_of(row) is State.DONE]
    values = database.get_many(VISITS, [entries[number][0] for number in done])
    return {number: value for number, value in zip(done, values, strict=True) if value is not None}


def enter(batch: Batch, ended: Mapping[str, Finished], draft: Draft) -> None:
    """Remember what a batch says of visits, and forget what was remembered of URLs that it takes away."""
    if not (batch.remembered or batch.revised or draft.moved_memories or draft.status.visits):
        return
    gone = {*batch.erased, *batch.released, *draft.queued_again}
    told = {key: pack_visit(each) for key, each in batch.remembered if key not in gone}
    told |= {key: each for key, each in draft.moved_memories.items() if key not in told}
    # What this batch says otherwise of a page is newer than what a revision was decided by.
    revised = {each.key: each for each in batch.revised if each.key not in gone and each.key not in told}
    told |= {key: pack_visit(each.after) for key, each in revised.items()}
    for key in _not_done([key for key in told if key not in draft.moved_memories], ended, draft):
        del told[key]
    keys = list(dict.fromkeys([*gone, *told]))
    known = draft.database.get_many(VISITS, [key.encode() for key in keys])
    put, delete = draft.writes.put, draft.writes.delete
    visits, due = draft.writes.tables[VISITS], draft.writes.tables[DUE]
    for key, before in zip(keys, known, strict=True):
        if key in revised and key in told and _memory(before) != revised[key].before:
            continue
        name, after = key.encode(), told.get(key)
        if key in gone or key in ended:
            draft.settled_visits.append(key)
        if before is not None:
            draft.visits -= 1
            if (place := visit_place(before, name)) is not None:
                delete(place, due)
        if after is None:
            if before is not None:
                delete(name, visits)
            continue
        draft.visits += 1
        put(name, after, visits)
        if (place := visit_place(after, name)) is not None:
            put(place, b"", due)
            draft.places.append(place)


def _memory(packed: bytes | None) -> bytes | None:
    return None if packed is None else unpack_visit(packed).memory


def _not_done(keys: Sequence[str], ended: Mapping[str, Finished], draft: Draft) -> list[str]:
    """Those of some URLs that are not done after a batch: there is nothing to be remembered of them."""
    asked = [key for key in keys if (each := ended.get(key)) is None or each.is_revisit]
    rows = draft.database.get_many(ROWS, [key.encode() for key in asked])
    wrong = [
        key for key, row in zip(asked, rows, strict=True) if row is None or state_of(row) is not State.DONE
    ]
    first = [key for key in keys if (each := ended.get(key)) is not None and not each.is_revisit]
    return wrong + [key for key in first if ended[key].state is not State.DONE]


class _Line:
    """The pages of one grade, those that stand there for longest first."""

    __slots__ = ("barred", "cursor", "end", "is_read", "passed", "waiting")

    def __init__(self, grade: int) -> None:
        self.cursor = bytes((grade,))
        self.end = bytes((grade + 1,)) if grade < 0xFF else None
        self.waiting: deque[bytes] = deque()
        self.is_read = False
        """Whether there was nothing beyond the cursor when it was last looked at."""
        self.passed: bytes | None = None
        """The first who was passed over, and stands there still."""
        self.barred: bytes | None = None
        """The first of those that may not be visited here for now."""

    def first(self, database: Database) -> bytes | None:
        """Who stands in front."""
        if not self.waiting and not self.is_read:
            some = list(islice(database.scan(DUE, self.cursor, self.end), _READ_AT_ONCE))
            self.waiting.extend(place for place, _ in some)
            self.is_read = len(some) < _READ_AT_ONCE
            if some:
                self.cursor = some[-1][0] + b"\0"
        return self.waiting[0] if self.waiting else None

    def add(self, place: bytes) -> None:
        """Somebody stands in it, perhaps before others."""
        if place >= self.cursor:
            self.is_read = False
            return
        insort(self.waiting, place)
        if len(self.waiting) > _IN_MEMORY:
            while len(self.waiting) > _READ_AT_ONCE:
                self.cursor = self.waiting.pop()
            self.is_read = False

    def pass_over(self, place: bytes) -> None:
        """Somebody who was taken off it is not wanted now; whoever stands behind may be."""
        if self.passed is None or place < self.passed:
            self.passed = place

    def bar(self, place: bytes) -> None:
        """Somebody who was taken off it may not be visited; that lasts longer."""
        if self.barred is None or place < self.barred:
            self.barred = place

    def rewind(self, *, everybody: bool) -> bool:
        """Begin once more with the first who was passed over, or stands before; or also who was barred.

        Whether there is one.
        """
        back = [each for each in (self.passed, self.barred if everybody else None) if each is not None]
        if not back:
            return False
        self.cursor = min([*back, *islice(self.waiting, 1)])
        self.waiting.clear()
        self.is_read, self.passed = False, None
        self.barred = None if everybody else self.barred
        return True


class Lines:
    """The part of the lines that is in memory, and who was handed out."""

    def __init__(self, database: Database) -> None:
        """Nothing is read before it is asked for."""
        self._database = database
        self._lines = [_Line(grade) for grade in range(256)]
        self._open = set(range(256))
        """Lines in which somebody may stand."""
        self._skipped: set[int] = set()
        """Lines in which somebody was passed over or barred."""
        self.out: dict[str, bytes] = {}
        """Who was handed out, with where it stands on disk."""
        self.begun = 0
        """How many were handed out but of the line of dates, less those that were given back."""
        self._begun: set[str] = set()
        """Who of those is out."""
        self.has_barred = False
        """Whether somebody was due who may not be visited here, when last looked at."""
        self._barred_until = 0.0
        """When it is seen whether they still are."""

    def release(self) -> None:
        """Who may be visited has changed: look at all once more."""
        self._rewind(everybody=True)

    def _rewind(self, *, everybody: bool) -> None:
        self._open.update(grade for grade in self._skipped if self._lines[grade].rewind(everybody=everybody))
        self._skipped = {grade for grade in self._skipped if self._lines[grade].barred is not None}
        self.has_barred = self.has_barred and not everybody

    def heads(self) -> dict[int, float]:
        """For each line that is not empty, since when its first stands there."""
        found = {}
        for grade in sorted(self._open):
            place = self._lines[grade].first(self._database)
            if place is None:
                self._open.discard(grade)
            else:
                found[grade] = since_of(place)
        return found

    def take(
        self,
        table: Timetable,
        now: float,
        count: int,
        *,
        paced: int | None = None,
        is_wanted: Callable[[str], bool],
        is_allowed: Callable[[str], bool],
    ) -> list[Again]:
        """Hand out pages that are due, those first whose interval was over the most often.

        At most `paced` of them come from other lines than that of dates: who has a date was told it.
        Those of hosts that are not wanted now are passed over until all others that are due were looked at.
        So are pages that are not allowed, for longer: of them only is kept where the first one stands.
        """
        heads, places, undated, is_slowed = self.heads(), list[bytes](), 0, False
        for _ in range(_LOOKED_AT):
            if not is_slowed and undated == paced:
                heads, is_slowed = {grade: at for grade, at in heads.items() if grade == APPOINTED}, True
            if len(places) == count or (grade := table.first(heads, now)) is None:
                break
            line = self._lines[grade]
            place = line.waiting.popleft()
            key = place[_PREFIX:].decode()
            if key not in self.out:
                if not is_allowed(key):
                    line.bar(place)
                    self._skipped.add(grade)
                    if not self.has_barred:
                        self.has_barred, self._barred_until = True, now + _BARRED_S
                elif is_wanted(host_of(key)):
                    places.append(place)
                    undated += grade != APPOINTED
                else:
                    line.pass_over(place)
                    self._skipped.add(grade)
            following = line.first(self._database)
            if following is None:
                del heads[grade]
            else:
                heads[grade] = since_of(following)
        if not is_slowed and table.first(heads, now) is None:
            self._rewind(everybody=now >= self._barred_until)
        return list(self._valid(places))

    def _valid(self, places: Sequence[bytes]) -> Iterator[Again]:
        """Those who still stand where they were read."""
        names = [place[_PREFIX:] for place in places]
        rows, visits = (self._database.get_many(table, names) for table in (ROWS, VISITS))
        origins = [unpack_origin(row).parent for row in rows if row is not None]
        parents = parents_of(self._database, origins)
        for place, name, row, packed in zip(places, names, rows, visits, strict=True):
            key = name.decode()
            if row is None or packed is None or key in self.out:
                continue
            outcome = unpack_outcome(row)
            if state_of(row) is not State.DONE or outcome is None or visit_place(packed, name) != place:
                continue
            via, band, depth, parent = unpack_origin(row)
            self.out[key] = place
            if place[0] != APPOINTED:
                self._begun.add(key)
                self.begun += 1
            queued = Queued(key, depth, VIAS[via], 0, 0.0, parents[parent], band)
            yield Again(queued, unpack_visit(packed).memory, outcome.status, outcome.digest)

    def give_back(self, keys: Iterable[str]) -> None:
        """Let pages that were handed out, and not visited, stand where they were."""
        for key in keys:
            place = self.out.pop(key, None)
            if place is not None:
                self.begun -= key in self._begun
                self._begun.discard(key)
                self._add(place)

    def entered(self, places: Iterable[bytes], settled: Iterable[str]) -> None:
        """A commit is on disk: who stands in line by it, and whose visits are over."""
        for key in settled:
            self.out.pop(key, None)
            self._begun.discard(key)
        for place in places:
            key = place[_PREFIX:].decode()
            if key in self.out:
                self.out[key] = place  # it stands elsewhere, when it is given back
            else:
                self._add(place)

    def _add(self, place: bytes) -> None:
        self._lines[place[0]].add(place)
        self._open.add(place[0])
