"""What a store remembers of pages that are visited again, and who is due."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from gcs import config
from gcs.core.revisits.standing import APPOINTED, Standing
from gcs.core.revisits.timetable import Timetable, timetable
from gcs.core.urls import key
from gcs.store.records import Batch, Finished, Found, Remembered, State, host_of
from gcs.store.store import Store

SETTINGS = config.Store(keep_free_bytes=0)
A, B, C, D = (key(f"http://a.com/{name}") for name in "abcd")
DAY_S = 86_400.0
NOW = 1_700_000_000.0


def done(each: str, *, again: bool = False, status: int = 200) -> Finished:
    """A page that was fetched."""
    return Finished(
        key=each, state=State.DONE, status=status, at=NOW, attempts=1, digest=b"12345678", is_revisit=again
    )


def standing(grade: int, days_ago: float) -> Remembered:
    """What is remembered of a page that was visited some days ago."""
    return Remembered(b"memory", Standing(grade, NOW - days_ago * DAY_S))


@pytest.fixture
def table() -> Timetable:
    """All pages once in ten days."""
    return timetable("uniform", 10 * DAY_S, 1.0, 100 * DAY_S)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store with three pages of which something is remembered, and one that is queued."""
    store = Store.open(tmp_path / "store", SETTINGS, resume=False)
    store.commit(Batch(found=[Found(each) for each in (A, B, C, D)]))
    store.next_of(A.partition("/")[0], 10, now=NOW)
    remembered = [(A, standing(0, 12)), (B, standing(0, 11)), (C, standing(0, 3)), (D, standing(0, 50))]
    store.commit(Batch(finished=[done(A), done(B), done(C)], remembered=remembered))
    return store


def due(store: Store, table: Timetable) -> list[str]:
    """The keys of those that are handed out."""
    return [each.queued.key for each in store.visits_due(table, now=NOW, count=10)]


def test_who_is_due(store: Store, table: Timetable) -> None:
    """Pages are handed out that are done and due, those first that wait for longest, each once."""
    with store:
        assert store.visits == 3
        assert due(store, table) == [A, B]
        assert due(store, table) == []
        assert store.next_visit_at(table) == NOW + 7 * DAY_S
        store.put_back_visits([A])
        assert due(store, table) == [A]


def test_after_a_visit(store: Store, table: Timetable) -> None:
    """A page that was visited stands where its visit put it, and counts as done all the time."""
    with store:
        (first, _) = store.visits_due(table, now=NOW, count=10)
        assert (first.memory, first.status, first.digest) == (b"memory", 200, b"12345678")
        before = store.counts(), store.ledger()
        soon = Remembered(b"later", Standing(APPOINTED, NOW + 5))
        store.commit(Batch(finished=[done(A, again=True, status=304)], remembered=[(A, soon)]))
        assert (store.counts(), store.ledger()) == before
        assert store.remembered(A) == soon
        assert store.next_visit_at(table) == NOW + 5
        gone = Remembered(b"gone", None)
        store.commit(Batch(finished=[done(B, again=True)], remembered=[(B, gone)]))
        assert store.remembered(B) == gone
        assert [each.queued.key for each in store.visits_due(table, now=NOW + 10, count=10)] == [A]


def test_who_has_a_date_is_not_slowed(store: Store, table: Timetable) -> None:
    """A pace holds for pages that stand in line by their grade, and counts those only."""
    with store:
        dated = Remembered(b"memory", Standing(APPOINTED, NOW - 1))
        store.commit(Batch(remembered=[(B, dated)]))
        assert store.next_visit_at(table, paced_from=NOW + 7) == NOW - 1
        found = store.visits_due(table, now=NOW, count=10, paced=0)
        assert [each.queued.key for each in found] == [B]
        assert store.visits_begun == 0
        assert store.next_visit_at(table, paced_from=NOW + 7) == NOW + 7
        assert due(store, table) == [A]
        assert store.visits_begun == 1
        store.put_back_visits([A, B])
        assert store.visits_begun == 0


def test_what_was_under_way_is_due_after_a_crash(store: Store, table: Timetable, tmp_path: Path) -> None:
    """What was handed out and not finished is handed out again by the next process."""
    assert due(store, table) == [A, B]
    store.close()
    with Store.open(tmp_path / "store", SETTINGS, resume=True) as again:
        assert due(again, table) == [A, B]


def test_what_is_not_done_is_not_visited_again(store: Store, table: Timetable) -> None:
    """An outcome of a visit that comes when its page was erased, or queued again, counts for nothing."""
    with store:
        assert due(store, table) == [A, B]
        store.commit(Batch(erased=[A], again=[B]))
        assert store.visits == 1
        store.commit(
            Batch(
                finished=[done(A, again=True), done(B, again=True)],
                remembered=[(A, standing(0, 20)), (B, standing(0, 20))],
            )
        )
        assert store.get(A) is None
        row = store.get(B)
        assert row is not None
        assert row.state is State.QUEUED
        assert store.visits == 1
        assert due(store, table) == []


@pytest.mark.parametrize("is_asked", [False, True], ids=["waiting", "handed out"])
def test_a_visit_takes_nothing_off_the_queue(
    store: Store, table: Timetable, tmp_path: Path, is_asked: bool
) -> None:
    """A page that is queued again while it is visited is fetched, however the visit ends."""
    host = host_of(A)
    store.commit(Batch(finished=[done(D)]))
    assert due(store, table) == [A, B]
    store.commit(Batch(again=[A]))
    given = store.next_of(host, 10, now=NOW) if is_asked else []
    store.commit(Batch(finished=[done(A, again=True)], remembered=[(A, standing(0, 0))]))
    given += store.next_of(host, 10, now=NOW)
    assert [each.key for each in given] == [A]
    store.close()
    with Store.open(tmp_path / "store", SETTINGS, resume=True) as again:
        assert [each.key for each in again.next_of(host, 10, now=NOW)] == [A]
        # Its own end, and that of the visit, in one batch.
        again.commit(Batch(finished=[done(A), done(A, again=True)], remembered=[(A, standing(0, 20))]))
        assert again.counts().queued == 0
        assert due(again, table)[0] == A


def test_queued_again_as_its_visit_ends(store: Store, table: Timetable) -> None:
    """A page that a batch queues again is fetched, though the same batch has the end of its visit."""
    with store:
        store.commit(Batch(finished=[done(D)]))
        assert due(store, table) == [A, B]
        assert store.awaits_visit(A)
        end = done(A, again=True)
        store.commit(Batch(finished=[end], remembered=[(A, standing(0, 0))], again=[A]))
        assert store.counts().queued == 1
        assert [each.key for each in store.next_of(host_of(A), 10, now=NOW)] == [A]
        assert store.remembered(A) is None
        assert not store.awaits_visit(A)


def test_lines_have_a_bound_in_memory(tmp_path: Path, table: Timetable) -> None:
    """However many pages come into a line, wherever, few are in memory, and all are handed out in order."""
    keys = [key(f"http://a.com/{number}") for number in range(3_000)]
    days = dict(zip(keys, random.Random(1).sample(range(11, 4_000), len(keys)), strict=True))
    expected = sorted(keys, key=days.__getitem__, reverse=True)
    with Store.open(tmp_path / "store", SETTINGS, resume=False) as store:
        for start in range(0, len(keys), 100):
            some = keys[start : start + 100]
            remembered = [(each, standing(0, days[each])) for each in some]
            store.commit(Batch(finished=[done(each) for each in some], remembered=remembered))
            assert store.next_visit_at(table) < NOW
            assert len(store._lines._lines[0].waiting) <= 256
        out = [each.queued.key for each in store.visits_due(table, now=NOW, count=2_000)]
        assert out == expected[:2_000]
        store.put_back_visits(random.Random(2).sample(out, 1_500))
        assert len(store._lines._lines[0].waiting) <= 256
        back: list[str] = []
        while some := [each.queued.key for each in store.visits_due(table, now=NOW, count=500)]:
            back += some
        assert len(back) == len(set(back)) == 2_500
        assert back == sorted(back, key=expected.index)


def test_hosts_that_are_not_wanted_are_passed_over(store: Store, table: Timetable) -> None:
    """Pages of a host that is not wanted stay due, and those behind them are handed out."""
    other = key("http://b.com/")
    with store:
        store.commit(Batch(finished=[done(other)], remembered=[(other, standing(0, 10.5))]))
        asked: list[str] = []

        def is_other(host: str) -> bool:
            asked.append(host)
            return host == host_of(other)

        out = store.visits_due(table, now=NOW, count=10, is_wanted=is_other)
        assert [each.queued.key for each in out] == [other]
        assert asked == [host_of(A), host_of(A), host_of(other)]
        assert store.next_visit_at(table) == NOW - 2 * DAY_S
        assert store.visits_due(table, now=NOW, count=10, is_wanted=lambda _: False) == []
        assert due(store, table) == [A, B]
        assert due(store, table) == []


@pytest.mark.parametrize("is_together", [True, False])
def test_of_two_visits_the_last_one_counts(is_together: bool, table: Timetable, tmp_path: Path) -> None:
    """Two gatherers have fetched a page, as one was thought lost: which row comes first says nothing."""
    chunks = []
    for number, days_ago in enumerate((3.0, 1.0, 2.0)):
        with Store.open(tmp_path / str(number), SETTINGS, resume=False) as other:
            other.commit(Batch(found=[Found(A)]))
            page = replace(done(A), at=NOW - days_ago * DAY_S)
            other.commit(Batch(finished=[page], remembered=[(A, standing(0, days_ago))]))
            chunks.append(other.chunk("", None)[0])
    with Store.open(tmp_path / "here", SETTINGS, resume=False) as here:
        for some in [chunks] if is_together else [[each] for each in chunks]:
            here.commit(Batch(moved=some))
        row = here.get(A)
        assert row is not None
        assert (row.state, row.at) == (State.DONE, NOW - DAY_S)
        assert here.remembered(A) == standing(0, 1.0)
        assert (here.visits, here.grades()) == (1, {0: 1})
        assert here.counts().accepted == here.counts().done == here.ledger().moved_in == 1
        assert here.next_visit_at(table) == NOW + 9 * DAY_S


def test_memories_change_hands(store: Store, table: Timetable, tmp_path: Path) -> None:
    """What is remembered goes with its rows to another store, and is forgotten where they were released."""
    packed, count, _ = store.chunk("", None)
    assert count == 4
    with Store.open(tmp_path / "other", SETTINGS, resume=False) as other:
        other.commit(Batch(moved=[packed]))
        assert other.visits == 3
        assert due(other, table) == [A, B]
        assert other.grades() == {0: 3}
        other.commit(Batch(moved=[packed]))  # again, since nobody knew that it had arrived
        assert other.visits == 3
    with store:
        store.commit(Batch(released=[A, B, C, D]))
        assert store.visits == 0
        assert due(store, table) == []
        assert store.counts().passed == 4
