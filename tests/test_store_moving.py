"""Rows that leave a store for another one, come from there, are erased, or are queued again."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from gcs import config
from gcs.core.urls import AFTER, PATH, key
from gcs.store import moving
from gcs.store.database import LATER, QUEUE, Database, Writes
from gcs.store.errors import DiskFull, StoreError
from gcs.store.queue import Bounds
from gcs.store.ranges import Which
from gcs.store.records import Batch, Counts, Finished, Found, Passed, Queued, State, host_of
from gcs.store.store import Store

SETTINGS = config.Store(keep_free_bytes=0)
HOST = host_of(key("http://a.com/"))
OTHER = "0123456789ab"
SMALL = Bounds(band_window=1)


def k(path: str, host: str = "a.com") -> str:
    """The key of a path on a host."""
    return key(f"http://{host}/{path}")


def opened(place: Path, *, resume: bool = False, bounds: Bounds | None = None) -> Store:
    """A store that does not mind how full the disk is."""
    return Store.open(place, SETTINGS, resume=resume, bounds=bounds or Bounds())


def ended(of: str, state: State = State.DONE, **more: object) -> Finished:
    """A URL that was tried."""
    facts: dict[str, object] = {"status": 200, "at": 1_000.0, "attempts": 1}
    return Finished(key=of, state=state, **(facts | more))  # type: ignore[arg-type]


def given(store: Store, count: int = 100, now: float = 0.0) -> list[str]:
    """The keys that are handed out next."""
    return [each.key for each in store.next_of(HOST, count, now=now)]


def leaving(how: str, keys: list[str]) -> Batch:
    """A batch that releases or erases some rows."""
    return Batch(released=keys) if how == "released" else Batch(erased=keys)


def everywhere(store: Store) -> dict[str, list[str]]:
    """Put URLs into every place that a queue has; those that wait on disk are not in memory."""
    store.commit(Batch(found=[Found(k("flight"))]))
    assert given(store, 1) == [k("flight")]
    store.commit(Batch(found=[Found(k("window")), Found(k("window-too"))]))
    store.commit(Batch(found=[Found(k("disk"))]))
    store.commit(Batch(found=[Found(k("disk-too"))]))
    retries = [ended(k("late"), State.QUEUED, retry_at=9.0), ended(k("woken"), State.QUEUED, retry_at=1.0)]
    store.commit(Batch(finished=[*retries, ended(k("done")), ended(k("dropped"), State.DROPPED)]))
    assert store.due(now=2.0) == [HOST]
    return {
        "queued": [k(each) for each in ("flight", "window", "disk", "late", "woken")],
        "ended": [k(each) for each in ("done", "dropped")],
        "left": [k(each) for each in ("window-too", "disk-too")],
    }


def is_empty(place: Path) -> bool:
    """Whether nothing is left of the queue on the disk of a closed store."""
    database = Database(place / "db")
    entries = [*database.scan(QUEUE, b""), *database.scan(LATER, b"")]
    database.close()
    return not entries


def test_a_chunk_has_all_that_rows_say(tmp_path: Path) -> None:
    """Rows are the same in another store, though it is younger and has other numbers for everything."""
    at = float(int(time.time()) - 10_000_000)
    with opened(tmp_path / "a") as one, opened(tmp_path / "b") as two:
        two.commit(Batch([ended(k("z"), reason="another")], [Found(k("y"), 1, k("z"))]))
        one.commit(
            Batch(
                [
                    ended(k("done"), at=at, digest=b"0123456789", status=404, attempts=200),
                    ended(k("dropped"), State.DROPPED, at=at + 1, status=-300, reason="robots"),
                    ended(k("retry"), State.QUEUED, at=at + 2, retry_at=50.5, reason="timeout", attempts=3),
                    ended(k("long ago"), at=0.0, digest=b""),
                ],
                [Found(k("x"), 300, k("p"), "sitemap", 3), Found(k("w"), 0, "", "seed", 0)],
            )
        )
        chunk, count, following = one.chunk("", None)
        assert (count, following) == (6, None)
        assert moving.count_of(chunk) == 6
        committed = two.commit(Batch(moved=[chunk]))
        assert (committed.new, committed.hosts) == ([], [HOST])
        rows = dict(two.scan(""))
        assert dict(one.scan("")).items() <= rows.items()
        assert rows[k("done")].at == at
        assert two.counts() == Counts(queued=4, done=3, dropped=1)
        assert two.next_of(HOST, 9, now=60.0) == [
            Queued(k("w"), 0, "seed", 0, 0.0, "", 0),
            Queued(k("retry"), 0, "link", 3, 50.5, "", 1),
            Queued(k("y"), 1, "link", 0, 0.0, k("z"), 1),
            Queued(k("x"), 300, "sitemap", 0, 0.0, k("p"), 3),
        ]
        assert two.ledger().moved_in == 6


def test_a_range_is_read_chunk_by_chunk(tmp_path: Path) -> None:
    """A range is read to its end, less what was passed on, however much of that there is in between."""
    with opened(tmp_path) as store:
        keys = sorted(k(f"{n:03}") for n in range(100))
        store.commit(Batch(found=[Found(each) for each in keys]))
        store.commit(Batch(released=keys[20:90]))
        chunk, count, following = store.chunk(keys[10], keys[95], 3)
        assert (moving.unpack(chunk).keys, count, following) == (keys[10:13], 3, keys[13])
        read: list[str] = []
        at: str | None = keys[10]
        while at is not None:
            chunk, count, at = store.chunk(at, keys[95], 2)
            assert bool(chunk) == bool(count)
            read += moving.unpack(chunk).keys if chunk else []
        assert read == keys[10:20] + keys[90:95]
        assert store.chunk(keys[30], keys[40]) == (b"", 0, None)
        assert store.keys("", None, 30, Which.PASSED) == (keys[20:50], keys[50])
        assert store.keys(keys[50], keys[91], 99, Which.PASSED) == (keys[50:90], None)
        assert store.keys(keys[50], None, 99, Which.HELD) == (keys[90:], None)


def test_moved_rows_merge_to_the_larger_state(tmp_path: Path) -> None:
    """What is done in one of two stores is done; of equal rows that which was here stays."""
    states = [None, State.PASSED, State.QUEUED, State.DROPPED, State.DONE]

    def fill(store: Store, name: str, state: State | None, status: int) -> None:
        if state is State.PASSED:
            store.commit(Batch(passed=[Passed(OTHER, Found(k(name)))]))
        elif state is State.QUEUED:
            store.commit(Batch(found=[Found(k(name), status)]))
        elif state is not None:
            store.commit(Batch([ended(k(name), state, status=status)]))

    with opened(tmp_path / "a") as one, opened(tmp_path / "b", bounds=SMALL) as two:
        for here in states:
            for there in states:
                fill(one, f"{here}-{there}", there, 1)
                fill(two, f"{here}-{there}", here, 2)
        chunk, count, _ = one.chunk("", None)
        assert count == 15
        two.commit(Batch(moved=[chunk]))
        two.commit(Batch(moved=[chunk, chunk]))
        rows = dict(two.scan(""))
        for here in states:
            for there in states:
                row = rows.get(k(f"{here}-{there}"))
                if here is None and not there:
                    assert row is None
                    continue
                assert row is not None
                assert row.state == max(here or 0, there or 0)
                if row.state:
                    is_from_there = (there or 0) > (here or 0)
                    assert max(row.status, row.depth) == (1 if is_from_there else 2)
        assert sorted(given(two)) == sorted(each for each in rows if rows[each].state is State.QUEUED)
        assert two.ledger().moved_in == 6
        assert two.counts().accepted == sum(1 for row in rows.values() if row.state)


@pytest.mark.parametrize("how", ["released", "erased", "moved"])
def test_a_url_leaves_the_queue_wherever_it_is(tmp_path: Path, how: str) -> None:
    """In flight, in the window, on disk or among retries: it is not handed out, and leaves nothing behind."""
    with opened(tmp_path / "a", bounds=SMALL) as store, opened(tmp_path / "b") as other:
        at = everywhere(store)
        other.commit(Batch([ended(each) for each in at["queued"]]))
        match how:
            case "released":
                store.commit(Batch(released=[*at["queued"], *at["ended"], k("unknown")]))
                assert store.counts() == Counts(queued=2, passed=7)
                assert store.ledger().moved_out == 7
            case "erased":
                store.commit(Batch(erased=[*at["queued"], *at["ended"], k("unknown")]))
                assert store.counts() == Counts(queued=2)
                assert store.ledger().erased == 7
                assert store.seen([*at["queued"], *at["left"]]) == [False] * 5 + [True] * 2
            case "moved":
                store.commit(Batch(moved=[other.chunk("", None)[0]]))
                assert store.counts() == Counts(queued=2, done=6, dropped=1)
                assert store.ledger().moved_in == 0
        assert store.statistics().in_flight == 0
        assert given(store, now=99.0) == at["left"]
        store.commit(Batch([ended(each) for each in at["left"]]))
        assert store.statistics().window == store.statistics().in_flight == 0
        assert all(not host.busy for host in store._queue._hosts.values())
    assert is_empty(tmp_path / "a")


@pytest.mark.parametrize("how", ["released", "erased"])
def test_what_left_can_come_back(tmp_path: Path, how: str) -> None:
    """A URL that is found again is handed out once, though its old place in the queue is still there."""
    keys = [k(str(n)) for n in range(6)]
    with opened(tmp_path, bounds=SMALL) as store:
        for each in keys:
            store.commit(Batch(found=[Found(each)]))
        store.commit(leaving(how, keys[2:5]))
        store.commit(Batch(found=[Found(each) for each in keys]))
    for _ in range(2):
        with opened(tmp_path, resume=True, bounds=SMALL) as store:
            assert sorted(given(store)) == keys
            assert store.counts() == Counts(queued=6)
    with opened(tmp_path, resume=True, bounds=SMALL) as store:
        store.commit(Batch([ended(each) for each in given(store)]))
        assert store.counts() == Counts(done=6)
        assert given(store) == []


def test_what_comes_back_into_another_band_comes_from_there(tmp_path: Path) -> None:
    """The old place of a URL is skipped if it is queued in another band now."""
    with opened(tmp_path) as store:
        store.commit(Batch(found=[Found(k("x"), band=0), Found(k("y"), band=0)]))
        store.commit(Batch(released=[k("x")]))
        store.commit(Batch(found=[Found(k("x"), band=3)]))
    with opened(tmp_path, resume=True) as store:
        assert given(store) == [k("y"), k("x")]


def test_rows_that_ended_are_queued_again(tmp_path: Path) -> None:
    """What was done or dropped is handed out as if it had never been tried; nothing else is."""
    with opened(tmp_path) as store:
        store.commit(Batch(found=[Found(k("x"), 2, k("p"), "redirect", 2), Found(k("q"))]))
        assert len(given(store)) == 2
        store.commit(Batch([ended(k("x")), ended(k("d"), State.DROPPED)]))
        store.commit(Batch(passed=[Passed(OTHER, Found(k("passed")))]))
        committed = store.commit(Batch(again=[k(each) for each in ("x", "d", "q", "passed", "unknown")]))
        assert (committed.new, committed.hosts) == ([], [HOST])
        assert store.counts() == Counts(queued=3, passed=1)
        row = store.get(k("x"))
        assert row is not None
        assert (row.state, row.status, row.at, row.attempts) == (State.QUEUED, 0, 0.0, 0)
        d, x = store.next_of(HOST, 9, now=0.0)
        assert x == Queued(k("x"), 2, "redirect", 0, 0.0, k("p"), 2)
        assert d.key == k("d")
    with opened(tmp_path, resume=True) as store:
        assert sorted(given(store)) == sorted(k(each) for each in ("x", "d", "q"))


def test_a_url_that_is_read_while_a_commit_moves_it_is_handed_out_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a commit under way puts back into the queue is not read from its old place meanwhile."""
    with opened(tmp_path / "a", bounds=SMALL) as store, opened(tmp_path / "b") as other:
        for n in range(6):
            store.commit(Batch(found=[Found(k(str(n)))]))
        store.commit(Batch(released=[k("2"), k("4")], erased=[k("3")]))
        other.commit(Batch([ended(k("4"), State.QUEUED, retry_at=1.0)], [Found(k("3"))]))
        chunk, _, _ = other.chunk("", None)
        write = store._database.write
        read: list[str] = []

        def write_early(writes: Writes) -> None:
            write(writes)
            read.extend(given(store, now=5.0))

        monkeypatch.setattr(store._database, "write", write_early)
        store.commit(Batch(found=[Found(k("2"))], moved=[chunk]))
        monkeypatch.undo()
        assert read == [k(each) for each in "015"]
        assert sorted(given(store, now=5.0)) == [k(each) for each in "234"]
        store.commit(Batch([ended(k(str(n))) for n in range(6)]))
        assert store.counts() == Counts(done=6)
        assert store.statistics().in_flight == store.statistics().window == 0
    assert is_empty(tmp_path / "a")


@pytest.mark.parametrize("how", ["released", "erased"])
def test_a_url_that_is_read_while_a_commit_takes_it_away_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """What leaves the queue on disk does not stay in memory, though it was read just before."""
    with opened(tmp_path, bounds=SMALL) as store:
        for n in range(5):
            store.commit(Batch(found=[Found(k(str(n)))]))
        store.commit(Batch([ended(k("r"), State.QUEUED, retry_at=9.0)]))
        write = store._database.write

        def write_late(writes: Writes) -> None:
            assert given(store, 3, now=10.0) == [k("r"), k("0"), k("1")]
            write(writes)

        monkeypatch.setattr(store._database, "write", write_late)
        store.commit(leaving(how, [k(each) for each in ("r", "1", "2")]))
        monkeypatch.undo()
        assert given(store, now=10.0) == [k("3"), k("4")]
        assert store.statistics().in_flight == 3
        store.commit(Batch([ended(k(each)) for each in "034"]))
        assert store.statistics().in_flight == store.statistics().window == 0
    assert is_empty(tmp_path)


def test_a_commit_that_failed_leaves_the_queue_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a full disk nothing is lost from memory, whether the batch is repeated or not."""
    with opened(tmp_path / "a", bounds=SMALL) as store, opened(tmp_path / "b") as other:
        at = everywhere(store)
        other.commit(Batch([ended(k("disk"))], [Found(k("new"))]))
        ledger, counts = store.ledger(), store.counts()
        batch = Batch(
            moved=[other.chunk("", None)[0]], erased=[k("late")], released=at["queued"], again=at["ended"]
        )

        def full(_: object) -> None:
            raise DiskFull("full")

        monkeypatch.setattr(store._database, "write", full)
        with pytest.raises(DiskFull):
            store.commit(batch)
        monkeypatch.undo()
        store.commit(Batch())
        assert (store.ledger(), store.counts()) == (ledger, counts)
        assert store.statistics().in_flight == 1
        store.give_back([k("flight")])
        taken = given(store, now=99.0)
        assert sorted(taken) == sorted([*at["queued"], *at["left"]])
        store.give_back(taken)
        store.commit(batch)
        assert store.counts() == Counts(queued=5, passed=4)
        assert sorted(given(store, now=99.0)) == sorted([*at["left"], *at["ended"], k("new")])


def test_damaged_rows_change_nothing(tmp_path: Path) -> None:
    """Rows that were cut, or of which a bit is wrong, are refused before anything is done."""
    with opened(tmp_path / "a") as store, opened(tmp_path / "b") as other:
        store.commit(Batch([ended(k("done"))], [Found(k("x"))]))
        chunk, _, _ = store.chunk("", None)
        other.commit(Batch(found=[Found(k("window"))]))
        for bad in (b"", chunk[:-1], chunk[:9], chunk[:20] + b"?" + chunk[21:], b"\0\0\0\1" + chunk[4:]):
            with pytest.raises(ValueError, match="a chunk of rows is"):
                other.commit(Batch(moved=[chunk, bad], erased=[k("window")]))
        assert other.counts() == Counts(queued=1)
        assert given(other) == [k("window")]


def test_rows_that_no_store_could_have_are_refused() -> None:
    """A chunk that another program packed is looked at before it is entered."""
    passed = moving.pack([(k("x").encode(), b"\0\0\0")], reasons=[""], birth=0, parents_of=lambda _: {0: ""})
    unknown = moving.pack(
        [(k("x").encode(), bytes([1 | 7 << 2, 0, 0]))], reasons=[""], birth=0, parents_of=lambda _: {0: ""}
    )
    for chunk in (passed, unknown):
        with pytest.raises(ValueError, match="damaged"):
            moving.unpack(chunk)


def test_hosts_of_a_range(tmp_path: Path) -> None:
    """A range has the hosts of which it has keys, also those that it cuts in two."""
    hosts = [host_of(k("", f"{name}.com")) for name in "abcde"]
    with opened(tmp_path) as store:
        store.commit(Batch(found=[Found(k("m", f"{name}.com")) for name in "abcde"]))

        def named(start: str = "", end: str | None = None) -> list[str]:
            return [each.host for each in store.hosts(start, end)]

        assert named() == hosts
        assert named(k("x", "b.com"), k("c", "d.com")) == hosts[1:4]
        assert named(hosts[1], hosts[3]) == hosts[1:3]
        assert named(hosts[1] + PATH, hosts[3] + PATH) == hosts[1:3]
        assert named(hosts[1] + AFTER, hosts[3] + AFTER) == hosts[2:4]
        assert named(k("x", "b.com"), k("y", "b.com")) == [hosts[1]]


def test_what_is_finished_after_it_was_erased_is_known_again(tmp_path: Path) -> None:
    """A page that was under way when its row was erased is like one that nobody asked for."""
    with opened(tmp_path) as store:
        store.commit(Batch(found=[Found(k("x"), 5, k("p"))]))
        given(store)
        store.commit(Batch(erased=[k("x")]))
        store.commit(Batch([ended(k("x"))]))
        assert store.counts() == Counts(done=1)
        ledger = store.ledger()
        assert (ledger.accepted, ledger.erased) == (2, 1)


def test_an_older_format_is_refused(tmp_path: Path) -> None:
    """A store without the state of what was passed on cannot be gone on with."""
    opened(tmp_path).close()
    (tmp_path / "format").write_text("gcs store 1\n")
    with pytest.raises(StoreError, match="written by an older GCS"):
        opened(tmp_path, resume=True)
