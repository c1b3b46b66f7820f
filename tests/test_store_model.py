"""Two stores against a model of them: a dictionary of states and a list per band, in any order of calls."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from gcs import config
from gcs.core.urls import key
from gcs.store import mail
from gcs.store.queue import Bounds
from gcs.store.ranges import Which
from gcs.store.records import (
    VIAS,
    Batch,
    Counts,
    Finished,
    Found,
    HostCounts,
    Outbox,
    Passed,
    Row,
    State,
    host_of,
)
from gcs.store.store import Store
from tests.effort import examples

pytestmark = pytest.mark.uncounted
SETTINGS = config.Store(keep_free_bytes=0)
TINY = Bounds(hosts=2, window=6, band_window=3, pieces_at_once=2, retries_at_once=2)
URLS = [f"http://{host}/{path}" for host in ("a.com", "b.org", "c.net") for path in ("", *"abcdefghijklmn")]
KEYS = [key(url) for url in URLS]
NAMES = sorted({host_of(each) for each in KEYS})
GONE = "a gatherer that never answers"

FOUND = st.builds(
    Found,
    key=st.sampled_from(KEYS),
    depth=st.integers(0, 300),
    parent=st.sampled_from(["", *KEYS]),
    via=st.sampled_from(VIAS),
    band=st.integers(0, 3),
)
STATES = st.sampled_from([State.QUEUED, State.DROPPED, State.DONE])
SOME_KEYS = st.lists(st.sampled_from(KEYS), max_size=4, unique=True)
SIDES = st.integers(0, 1)


@dataclass
class Entry:
    """What the model knows about a URL."""

    state: State
    found: Found
    number: int
    """In the order in which they came into the queue."""
    attempts: int = 0
    tried: tuple[int, str, float, bytes] = (0, "", 0.0, b"")
    """Status, reason, time and digest."""
    due: float | None = None
    came_back: bool = False
    """It was in the queue, left it, and is in it again, at the old or the new place."""

    def row(self) -> Row:
        """As the store shows it."""
        found, (status, reason, at, digest) = self.found, self.tried
        return Row(
            self.state,
            status,
            reason,
            found.depth,
            found.via,
            found.parent,
            at,
            self.attempts,
            found.band,
            digest,
        )


@dataclass
class Side:
    """A store, and what the model says is in it."""

    place: Path
    known: dict[str, Entry] = field(default_factory=dict)
    in_flight: dict[str, None] = field(default_factory=dict)
    were_queued: set[str] = field(default_factory=set)
    counters: Counter[str] = field(default_factory=Counter)
    outbox: dict[str, dict[int, object]] = field(default_factory=lambda: defaultdict(dict))
    """By receiver and number: the URLs of a piece, in order of keys, or its bytes."""
    next: Counter[str] = field(default_factory=Counter)
    applied: Counter[str] = field(default_factory=Counter)
    sent: Counter[str] = field(default_factory=Counter)
    received: Counter[str] = field(default_factory=Counter)
    withdrawn: Counter[str] = field(default_factory=Counter)
    numbers: int = 0

    def __post_init__(self) -> None:
        """A new store."""
        self.store = Store.open(self.place, SETTINGS, resume=False, bounds=TINY)
        self.identity = self.store.identity

    def reopen(self) -> None:
        """Close it and open it again."""
        self.store.close()
        self.store = Store.open(self.place, SETTINGS, resume=True, bounds=TINY)
        self.in_flight.clear()

    def leave(self, of: str) -> None:
        """A URL is no longer in the queue as it was."""
        self.in_flight.pop(of, None)

    def enqueue(self, entry: Entry) -> None:
        """A URL comes into the queue."""
        self.numbers += 1
        entry.number = self.numbers
        entry.came_back = entry.found.key in self.were_queued
        self.were_queued.add(entry.found.key)
        self.known[entry.found.key] = entry

    def finish(self, finished: Finished) -> None:
        """A URL was tried."""
        entry = self.known.get(finished.key)
        if entry is None:
            entry = self.known[finished.key] = Entry(State.PASSED, Found(finished.key), 0)
        self.leave(finished.key)
        if finished.state < entry.state:
            return
        if entry.state is State.PASSED:
            self.counters["accepted"] += 1
        entry.state, entry.attempts = finished.state, finished.attempts
        is_retry = finished.state is State.QUEUED
        digest = b"" if is_retry else finished.digest[:8]
        entry.tried = finished.status, finished.reason, float(int(finished.at)), digest
        entry.due = finished.retry_at if is_retry else None

    def merge(self, came: Entry) -> bool:
        """A row came from the other side; whether its host has more to do now."""
        entry = self.known.get(came.found.key)
        if entry is not None and entry.state >= came.state:
            return False
        self.leave(came.found.key)
        if entry is None or entry.state is State.PASSED:
            self.counters["moved_in"] += 1
        came = replace(came)
        self.known[came.found.key] = came
        if came.state is State.QUEUED and came.due is None:
            self.enqueue(came)
        return came.state is State.QUEUED

    def enter(self, batch: Batch, moved: Iterable[Entry]) -> tuple[list[Found], set[str]]:
        """What a batch does, by its rules of precedence; what is new, and which hosts have more to do."""
        woken = set()
        erased = [each for each in batch.erased if each in self.known]
        released = [each for each in batch.released if each in self.known and each not in erased]
        named = {*erased, *released}
        came = {each.found.key: each for each in moved if each.found.key not in named}
        ended = {
            each.key: each
            for each in batch.finished
            if each.key not in named and not (each.is_revisit and self.is_void(each.key, batch))
        }
        for both in came.keys() & ended.keys():
            del (ended if came[both].state > ended[both].state else came)[both]
        again = [
            each
            for each in batch.again
            if each not in named | came.keys() | ended.keys()
            if each in self.known and self.known[each].state > State.QUEUED
        ]
        for each in erased:
            self.counters["erased"] += self.known.pop(each).state is not State.PASSED
            self.leave(each)
        for each in released:
            entry = self.known[each]
            self.counters["moved_out"] += entry.state is not State.PASSED
            self.known[each] = Entry(State.PASSED, entry.found, 0)
            self.leave(each)
        for row in came.values():
            if self.merge(row):
                woken.add(host_of(row.found.key))
        for each in again:
            self.enqueue(Entry(State.QUEUED, self.known[each].found, 0))
            woken.add(host_of(each))
        new = []
        for found in batch.found:
            known = self.known.get(found.key)
            if found.key in named | ended.keys() or (known and known.state is not State.PASSED):
                continue
            self.enqueue(Entry(State.QUEUED, found, 0))
            self.counters["accepted"] += 1
            new.append(found)
        for finished in ended.values():
            self.finish(finished)
        self.post(batch, named - set(erased))
        return new, woken

    def is_void(self, visited: str, batch: Batch) -> bool:
        """Whether a visit does not count, because its page is not done, or is to be queued."""
        entry = self.known.get(visited)
        return entry is None or entry.state is not State.DONE or visited in batch.again

    def post(self, batch: Batch, released: set[str]) -> None:
        """What a batch puts into outboxes."""
        chosen: dict[str, Passed] = {}
        for each in batch.passed:
            if each.found.key not in chosen or each.always:
                chosen[each.found.key] = each
        sent: dict[str, list[Found]] = defaultdict(list)
        for each in chosen.values():
            entry = self.known.get(each.found.key)
            if entry is None:
                self.known[each.found.key] = Entry(State.PASSED, each.found, 0)
            elif entry.state is not State.PASSED or not each.always or each.found.key in released:
                continue
            sent[each.to].append(each.found)
        for to, number in batch.withdrawn.items():
            pieces = [piece for n, piece in self.outbox[to].items() if n <= number]
            self.withdrawn[to] += sum(len(piece) for piece in pieces if isinstance(piece, list))
        for to, number in (*batch.acked.items(), *batch.withdrawn.items()):
            self.outbox[to] = {n: piece for n, piece in self.outbox[to].items() if n > number}
        for to, found in sent.items():
            self.put(to, sorted(found))
            self.sent[to] += len(found)
        for to, data in batch.mail:
            self.put(to, data)

    def put(self, to: str, piece: object) -> None:
        """One more piece for a receiver."""
        self.next[to] += 1
        self.outbox[to][self.next[to]] = piece


class StoreMachine(RuleBasedStateMachine):
    """Commits, hand-outs, hand-overs and restarts in any order; the model says what has to come of them."""

    def __init__(self) -> None:
        """Nothing is open."""
        super().__init__()
        self.place = Path(tempfile.mkdtemp(prefix="gcs-store-"))
        self.sides: list[Side] = []
        self.now = 1_000.0

    @initialize()
    def begin(self) -> None:
        """Two new stores."""
        self.sides = [Side(self.place / name) for name in ("one", "two")]
        assert len({side.identity for side in self.sides}) == 2

    def teardown(self) -> None:
        """Everything accepted is handed out in the end, and nothing of it twice."""
        try:
            for side in self.sides:
                self._drain(side)
        finally:
            shutil.rmtree(self.place)

    def _drain(self, side: Side) -> None:
        self.now = 10_000.0
        for _ in range(2):
            given = list(side.in_flight)
            some = ["anything"]
            while some or side.store.due(now=self.now):
                some = [each.key for n in NAMES for each in side.store.next_of(n, 99, now=self.now)]
                given += some
            expected = sorted(each for each, entry in side.known.items() if entry.state is State.QUEUED)
            assert sorted(given) == expected
            side.reopen()
        side.store.close()

    def _commit(self, side: Side, batch: Batch, moved: Iterable[Entry] = ()) -> None:
        batch.counters = {"commits": 1}
        batch.meta = {"last": str(self.now).encode()}
        side.counters["commits"] += 1
        new, woken = side.enter(batch, moved)
        committed = side.store.commit(batch)
        assert committed.new == new
        assert (set(committed.hosts), len(committed.hosts)) == (woken, len(woken))
        assert side.store.counters() == {"commits": side.counters["commits"]}
        assert side.store.get_meta("last") == batch.meta["last"]

    def _finished(self, side: Side, end: str, state: State, delay: float) -> Finished:
        entry = side.known.get(end)
        return Finished(
            key=end,
            state=state,
            status=200 - 200 * state,
            reason=state.name.lower(),
            at=self.now,
            attempts=entry.attempts + 1 if entry else 1,
            digest=end[-1:].encode() * 11,
            retry_at=self.now + delay,
        )

    @rule(
        at=SIDES,
        found=st.lists(FOUND, max_size=12),
        states=st.lists(STATES, max_size=6),
        delay=st.floats(-9, 9),
    )
    def commit(self, at: int, found: list[Found], states: list[State], delay: float) -> None:
        """Some of what is in flight is finished, and URLs are found meanwhile."""
        side = self.sides[at]
        ends = zip(list(side.in_flight), states, strict=False)
        finished = [self._finished(side, end, state, delay) for end, state in ends]
        found = list({each.key: each for each in reversed(found)}.values())
        self._commit(side, Batch(finished, found))

    @rule(at=SIDES, ends=st.lists(st.sampled_from(KEYS), min_size=1, max_size=4, unique=True), state=STATES)
    def finish_unasked(self, at: int, ends: list[str], state: State) -> None:
        """URLs are finished wherever they are."""
        side = self.sides[at]
        self._commit(side, Batch([self._finished(side, end, state, 2.0) for end in ends]))

    @rule(at=SIDES, ends=SOME_KEYS, again=SOME_KEYS, found=st.lists(FOUND, max_size=2))
    def end_visits(self, at: int, ends: list[str], again: list[str], found: list[Found]) -> None:
        """Visits to pages end, whatever became of these meanwhile."""
        side = self.sides[at]
        finished = [replace(self._finished(side, end, State.DONE, 0.0), is_revisit=True) for end in ends]
        found = list({each.key: each for each in reversed(found)}.values())
        self._commit(side, Batch(finished, found, again=again))

    @rule(
        at=SIDES,
        passed=st.lists(st.tuples(FOUND, st.booleans()), max_size=6),
        letters=st.lists(st.binary(max_size=9), max_size=2),
        to_gone=st.booleans(),
    )
    def pass_on(self, at: int, passed: list[tuple[Found, bool]], letters: list[bytes], to_gone: bool) -> None:
        """URLs that belong to the other side are made known, and wait for it."""
        to = GONE if to_gone else self.sides[1 - at].identity
        batch = Batch(
            passed=[Passed(to, found, always) for found, always in passed],
            mail=[(to, letter) for letter in letters],
        )
        self._commit(self.sides[at], batch)

    @rule(at=SIDES, back=st.integers(0, 2))
    def forget(self, at: int, back: int) -> None:
        """What was acknowledged is deleted; most is, where there is no hope."""
        side, other = self.sides[at], self.sides[1 - at]
        acked = {other.identity: other.applied[side.identity]}
        self._commit(side, Batch(acked=acked, withdrawn={GONE: max(0, side.next[GONE] - back)}))

    @rule(at=SIDES, max_bytes=st.integers(0, 400))
    def deliver(self, at: int, max_bytes: int) -> None:
        """The other side takes in what waits for it, in order, once."""
        side, other = self.sides[at], self.sides[1 - at]
        after = other.applied[side.identity]
        pieces = side.store.outgoing(other.identity, after, max_bytes)
        waiting = [number for number in side.outbox[other.identity] if number > after]
        assert [number for number, _ in pieces] == waiting[: len(pieces)]
        assert bool(pieces) == bool(waiting)
        assert sum(len(piece) for _, piece in pieces[1:]) <= max_bytes
        found: list[Found] = []
        for number, piece in pieces:
            letter = mail.unpack(piece)
            assert sorted(letter.found) or letter.data == side.outbox[other.identity][number]
            assert letter.kind == "mail" or sorted(letter.found) == side.outbox[other.identity][number]
            found += letter.found
        if pieces:
            other.applied[side.identity] = pieces[-1][0]
            other.received[side.identity] += len(found)
            batch = Batch(applied={side.identity: pieces[-1][0]})
            if found:
                batch.received = {side.identity: len(found)}
            batch.found = list({each.key: each for each in reversed(found)}.values())
            self._commit(other, batch)

    @rule(at=SIDES, start=st.sampled_from(["", *KEYS]), length=st.integers(1, 30), limit=st.integers(1, 9))
    def hand_over(self, at: int, start: str, length: int, limit: int) -> None:
        """A range goes to the other side, chunk by chunk; what is in flight holds it up."""
        side, other = self.sides[at], self.sides[1 - at]
        end = sorted([*KEYS, start])[length:][:1]
        end_key = end[0] if end else None
        inside = [each for each in KEYS if start <= each and (end_key is None or each < end_key)]
        if any(each in side.in_flight for each in inside):
            return
        expected = {each: side.known[each] for each in sorted(inside) if each in side.known}
        expected = {each: entry for each, entry in expected.items() if entry.state is not State.PASSED}
        at_key: str | None = start
        while at_key is not None:
            keys, _ = side.store.keys(at_key, end_key, limit, Which.HELD)
            chunk, count, at_key = side.store.chunk(at_key, end_key, limit)
            assert count == len(keys) <= limit
            assert keys == list(expected)[:count]
            if count:
                self._commit(other, Batch(moved=[chunk]), [expected.pop(each) for each in keys])
                self._commit(side, Batch(released=keys))
        assert not expected

    @rule(
        at=SIDES,
        found=st.lists(FOUND, max_size=4),
        passed=st.lists(st.tuples(FOUND, st.booleans()), max_size=4),
        ends=SOME_KEYS,
        state=STATES,
        erased=SOME_KEYS,
        released=SOME_KEYS,
        again=SOME_KEYS,
        limit=st.integers(0, 9),
    )
    def everything(
        self,
        at: int,
        found: list[Found],
        passed: list[tuple[Found, bool]],
        ends: list[str],
        state: State,
        erased: list[str],
        released: list[str],
        again: list[str],
        limit: int,
    ) -> None:
        """A batch may say anything about any URL, several times."""
        side, other = self.sides[at], self.sides[1 - at]
        keys, _ = other.store.keys("", None, limit, Which.HELD) if limit else ([], None)
        chunk = other.store.chunk("", None, limit)[0] if limit else b""
        batch = Batch(
            [self._finished(side, end, state, 2.0) for end in ends],
            list({each.key: each for each in reversed(found)}.values()),
            passed=[Passed(GONE, each, always) for each, always in passed],
            moved=[chunk] if chunk else [],
            erased=erased,
            released=released,
            again=again,
        )
        self._commit(side, batch, [other.known[each] for each in keys])

    @rule(at=SIDES, name=st.sampled_from(NAMES), count=st.integers(0, 5), waited=st.floats(0, 5))
    def next_of(self, at: int, name: str, count: int, waited: float) -> None:
        """URLs are handed out by band, retries that are due first, then in the order in which they came."""
        side = self.sides[at]
        self.now += waited
        given = side.store.next_of(name, count, now=self.now)
        assert len(given) <= count
        for each in given:
            entry = side.known[each.key]
            found = entry.found
            assert entry.state is State.QUEUED
            assert each.key not in side.in_flight
            assert each.not_before <= self.now
            assert each[1:4] == (found.depth, found.via, entry.attempts)
            assert each[5:] == (found.parent, found.band)
            side.in_flight[each.key] = None
        ranks = [_rank(side.known[each.key]) for each in given if not side.known[each.key].came_back]
        assert ranks == sorted(ranks)
        left = [
            entry
            for each, entry in side.known.items()
            if host_of(each) == name and entry.state is State.QUEUED and entry.due is None
            if each not in side.in_flight
        ]
        if len(given) < count:
            assert not left
        ranks_left = [_rank(entry) for entry in left if not entry.came_back]
        if ranks and ranks_left:
            assert ranks[-1] < min(ranks_left)

    @rule(at=SIDES, name=st.sampled_from(NAMES))
    def give_back(self, at: int, name: str) -> None:
        """All that is in flight of a host goes back to the front of its queue."""
        side = self.sides[at]
        back = [each for each in side.in_flight if host_of(each) == name]
        side.store.give_back(sorted(back, key=lambda each: side.known[each].number))
        for each in back:
            del side.in_flight[each]

    @rule(at=SIDES)
    def reopen(self, at: int) -> None:
        """After a restart what was in flight is queued."""
        self.sides[at].reopen()

    @invariant()
    def counts_add_up(self) -> None:
        """Every URL is in exactly one state, in all and by host, and the ledger says how it came there."""
        for side in self.sides:
            by_state = Counter(entry.state for entry in side.known.values())
            counts = Counts(*(by_state[state] for state in _STATES))
            assert side.store.counts() == counts
            by_host = Counter((host_of(each), entry.state) for each, entry in side.known.items())
            assert [each for each in side.store.hosts() if each != HostCounts(each.host, 0, 0, 0)] == [
                HostCounts(n, *(by_host[n, state] for state in _STATES))
                for n in sorted({host_of(each) for each in side.known})
            ]
            assert side.store.statistics().in_flight == len(side.in_flight)
            ledger = side.store.ledger()
            assert ledger._asdict() == {
                "accepted": side.counters["accepted"],
                "moved_in": side.counters["moved_in"],
                "moved_out": side.counters["moved_out"],
                "erased": side.counters["erased"],
                "sent": +side.sent,
                "received": +side.received,
                "withdrawn": +side.withdrawn,
            }
            came, went = ledger.accepted + ledger.moved_in, ledger.moved_out + ledger.erased
            assert came - went == counts.accepted

    @invariant()
    def rows_are_right(self) -> None:
        """A scan gives every row, in the order of keys, with where it came from and what became of it."""
        for side in self.sides:
            rows = dict(side.store.scan(""))
            assert list(rows) == sorted(side.known)
            assert rows == {each: entry.row() for each, entry in side.known.items()}
            assert side.store.seen(KEYS) == [each in side.known for each in KEYS]
            assert side.store.founds(KEYS) == [side.known[each].found for each in KEYS if each in side.known]
            passed = [each for each in rows if rows[each].state is State.PASSED]
            assert side.store.keys("", None, 99, Which.PASSED) == (passed, None)

    @invariant()
    def outboxes_are_right(self) -> None:
        """What waits for whom, and what was taken in, is known."""
        for side in self.sides:
            assert side.store.identity == side.identity
            assert side.store.applied() == +side.applied
            outboxes = side.store.outboxes()
            assert {to for to in outboxes if outboxes[to].next > 1} == {
                to for to in side.next if side.next[to]
            }
            for to, outbox in outboxes.items():
                pieces = side.outbox[to]
                assert (outbox.first, outbox.next) == (min(pieces, default=outbox.next), side.next[to] + 1)
                waiting = side.store.outgoing(to, 0, 1 << 20)
                size = sum(len(piece) for _, piece in waiting)
                entries = sum(len(piece) for piece in pieces.values() if isinstance(piece, list))
                assert outbox == Outbox(outbox.first, outbox.next, size, entries)
                assert [number for number, _ in waiting] == list(pieces)


_STATES = (State.QUEUED, State.DONE, State.DROPPED, State.PASSED)
"""In the order in which counts have them."""


def _rank(entry: Entry) -> tuple[int, bool, int]:
    """Where a URL stands in its host's queue; nothing is said about the order of retries."""
    return entry.found.band, entry.due is None, 0 if entry.due is not None else entry.number


StoreMachine.TestCase.settings = settings(
    max_examples=examples(20),
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
TestStore = StoreMachine.TestCase
