"""The store against a model of it: a dictionary of states and a list per band, in any order of calls."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from gcs import config
from gcs.core.urls import key
from gcs.store.queue import Bounds
from gcs.store.records import VIAS, Batch, Counts, Finished, Found, HostCounts, State, host_of
from gcs.store.store import Store

SETTINGS = config.Store(keep_free_bytes=0)
TINY = Bounds(hosts=2, window=6, band_window=3, pieces_at_once=2, retries_at_once=2)
URLS = [f"http://{host}/{path}" for host in ("a.com", "b.org", "c.net") for path in ("", *"abcdefghijklmn")]
KEYS = [key(url) for url in URLS]
NAMES = sorted({host_of(each) for each in KEYS})

FOUND = st.builds(
    Found,
    key=st.sampled_from(KEYS),
    depth=st.integers(0, 300),
    parent=st.sampled_from(["", *KEYS]),
    via=st.sampled_from(VIAS),
    band=st.integers(0, 3),
)
STATES = st.sampled_from([State.QUEUED, State.DROPPED, State.DONE])


@dataclass
class Entry:
    """What the model knows about a URL."""

    state: State
    found: Found
    number: int
    attempts: int = 0
    due: float | None = None


class StoreMachine(RuleBasedStateMachine):
    """Commits, hand-outs and restarts in any order; the model says what has to come of them."""

    def __init__(self) -> None:
        """Nothing is open."""
        super().__init__()
        self.place = Path(tempfile.mkdtemp(prefix="gcs-store-"))
        self.known: dict[str, Entry] = {}
        self.in_flight: dict[str, None] = {}
        self.now = 1_000.0
        self.counters: Counter[str] = Counter()

    @initialize()
    def begin(self) -> None:
        """A new store."""
        self.store = Store.open(self.place / "s", SETTINGS, resume=False, bounds=TINY)

    def teardown(self) -> None:
        """Everything accepted is handed out in the end, and nothing of it twice."""
        try:
            if hasattr(self, "store"):
                self._drain()
        finally:
            shutil.rmtree(self.place)

    def _drain(self) -> None:
        self.reopen()
        self.now = 10_000.0
        given: list[str] = []
        while some := [each.key for n in NAMES for each in self.store.next_of(n, 99, now=self.now)]:
            given += some
        assert sorted(given) == sorted(k for k, e in self.known.items() if e.state is State.QUEUED)
        self.store.close()

    def _finish(self, end: str, state: State, delay: float, batch: Batch) -> None:
        """Finish a URL in a batch and in the model."""
        entry = self.known.get(end)
        if entry is None:
            entry = self.known[end] = Entry(State.QUEUED, Found(end), len(self.known))
        entry.attempts += 1
        batch.finished.append(
            Finished(
                key=end,
                state=state,
                status=200 - 400 * state,
                reason=state.name.lower(),
                at=self.now,
                attempts=entry.attempts,
                retry_at=self.now + delay,
            )
        )
        self.in_flight.pop(end, None)
        entry.state = max(entry.state, state)
        if entry.state is State.QUEUED:
            entry.due = self.now + delay

    @rule(found=st.lists(FOUND, max_size=12), states=st.lists(STATES, max_size=6), delay=st.floats(-9, 9))
    def commit(self, found: list[Found], states: list[State], delay: float) -> None:
        """Some of what is in flight is finished, and URLs are found meanwhile."""
        batch = Batch(found=found, counters={"commits": 1}, meta={"last": str(self.now).encode()})
        for end, state in zip(list(self.in_flight), states, strict=False):
            self._finish(end, state, delay, batch)
        expected = []
        for each in found:
            if each.key not in self.known:
                self.known[each.key] = Entry(State.QUEUED, each, len(self.known))
                expected.append(each)
        assert self.store.commit(batch).new == expected
        self.counters.update(batch.counters)
        assert self.store.counters() == dict(self.counters)
        assert self.store.get_meta("last") == str(self.now).encode()

    @rule(ends=st.lists(st.sampled_from(KEYS), min_size=1, max_size=4, unique=True), state=STATES)
    def finish_unasked(self, ends: list[str], state: State) -> None:
        """URLs are finished wherever they are."""
        batch = Batch()
        for end in ends:
            self._finish(end, state, 2.0, batch)
        assert self.store.commit(batch).new == []

    @rule(name=st.sampled_from(NAMES), count=st.integers(0, 5), passed=st.floats(0, 5))
    def next_of(self, name: str, count: int, passed: float) -> None:
        """URLs are handed out by band, retries that are due first, then in the order in which they came."""
        self.now += passed
        given = self.store.next_of(name, count, now=self.now)
        assert len(given) <= count
        for each in given:
            entry = self.known[each.key]
            found = entry.found
            assert entry.state is State.QUEUED
            assert each.key not in self.in_flight
            assert each.not_before <= self.now
            assert each[1:4] == (found.depth, found.via, entry.attempts)
            assert each[5:] == (found.parent, found.band)
            self.in_flight[each.key] = None
        ranks = [self._rank(each.key) for each in given]
        assert ranks == sorted(ranks)
        left = [self._rank(each) for each in self._untried(name)]
        if len(given) < count:
            assert not left
        elif given and left:
            assert ranks[-1] < min(left)

    def _rank(self, of: str) -> tuple[int, bool, int]:
        """Where a URL stands in its host's queue; nothing is said about the order of retries."""
        entry = self.known[of]
        return entry.found.band, entry.due is None, 0 if entry.due is not None else entry.number

    def _untried(self, name: str) -> list[str]:
        """What a host has, and was neither tried nor handed out."""
        return [
            each
            for each, entry in self.known.items()
            if host_of(each) == name and entry.state is State.QUEUED and entry.due is None
            if each not in self.in_flight
        ]

    @rule(name=st.sampled_from(NAMES))
    def give_back(self, name: str) -> None:
        """All that is in flight of a host goes back to the front of its queue."""
        back = [each for each in self.in_flight if host_of(each) == name]
        self.store.give_back(sorted(back, key=lambda each: self.known[each].number))
        for each in back:
            del self.in_flight[each]

    @rule()
    def reopen(self) -> None:
        """After a restart what was in flight is queued."""
        self.store.close()
        self.store = Store.open(self.place / "s", SETTINGS, resume=True, bounds=TINY)
        self.in_flight.clear()

    @invariant()
    def counts_add_up(self) -> None:
        """Every URL that was ever accepted is in exactly one state, in all and by host."""
        if not hasattr(self, "store"):
            return
        by_state = Counter(entry.state for entry in self.known.values())
        counts = Counts(by_state[State.QUEUED], by_state[State.DONE], by_state[State.DROPPED])
        assert self.store.counts() == counts
        assert counts.accepted == len(self.known)
        by_host = Counter((host_of(each), entry.state) for each, entry in self.known.items())
        assert [each for each in self.store.hosts() if each != HostCounts(each.host, 0, 0, 0)] == [
            HostCounts(n, by_host[n, State.QUEUED], by_host[n, State.DONE], by_host[n, State.DROPPED])
            for n in sorted({host_of(each) for each in self.known})
        ]
        assert self.store.statistics().in_flight == len(self.in_flight)

    @invariant()
    def rows_are_right(self) -> None:
        """A scan gives every row, in the order of keys, with where it came from."""
        if not hasattr(self, "store"):
            return
        rows = dict(self.store.scan(""))
        assert list(rows) == sorted(self.known)
        for each, row in rows.items():
            entry = self.known[each]
            assert (row.state, row.depth, row.via, row.parent, row.band) == (
                entry.state,
                entry.found.depth,
                entry.found.via,
                entry.found.parent,
                entry.found.band,
            )
        assert self.store.seen(KEYS) == [each in self.known for each in KEYS]


StoreMachine.TestCase.settings = settings(
    max_examples=20,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
TestStore = StoreMachine.TestCase
