"""The store: what it refuses, what it remembers, and in which order it hands out."""

from __future__ import annotations

import math
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from gcs import config
from gcs.core.urls import key, subtree
from gcs.errors import ExitCode
from gcs.store import encoding, planning
from gcs.store.database import LATER, META, QUEUE, Database, Writes
from gcs.store.directory import VERSION
from gcs.store.errors import StoreError
from gcs.store.queue import Bounds
from gcs.store.records import Batch, Counts, Finished, Found, HostCounts, Row, State, host_of
from gcs.store.status import Status
from gcs.store.store import Store
from gcs.store.view import STATUS_KEY, View
from gcs.store.warc import Builder, Exchange

SETTINGS = config.Store(keep_free_bytes=0)
HOST = host_of(key("http://a.com/"))


def k(path: str, host: str = "a.com") -> str:
    """The key of a path on a host."""
    return key(f"http://{host}/{path}")


def opened(place: Path, *, resume: bool = False, bounds: Bounds | None = None) -> Store:
    """A store that does not mind how full the disk is."""
    return Store.open(place, SETTINGS, resume=resume, bounds=bounds or Bounds())


def ended(of: str, state: State = State.DONE, **more: object) -> Finished:
    """A URL that was tried."""
    facts: dict[str, object] = {"status": 200, "at": time.time(), "attempts": 1}
    return Finished(key=of, state=state, **(facts | more))  # type: ignore[arg-type]


def given(store: Store, count: int = 100, now: float = 0.0, host: str = HOST) -> list[str]:
    """The keys that are handed out next."""
    return [each.key for each in store.next_of(host, count, now=now)]


def test_a_directory_that_holds_a_crawl_is_refused_without_resume(tmp_path: Path) -> None:
    """A crawl is not mixed into another one by mistake."""
    opened(tmp_path / "new" / "deep").close()
    with pytest.raises(StoreError, match="already holds a crawl; resume it") as refused:
        opened(tmp_path / "new" / "deep")
    assert refused.value.exit_code is ExitCode.STORE
    opened(tmp_path / "new" / "deep", resume=True).close()


@pytest.mark.parametrize("resume", [True, False])
def test_a_directory_with_something_else_is_refused(tmp_path: Path, *, resume: bool) -> None:
    """Somebody's files are left alone."""
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(StoreError, match="is not empty and holds no crawl"):
        opened(tmp_path, resume=resume)
    with pytest.raises(StoreError, match="is not a directory"):
        opened(tmp_path / "thesis.txt", resume=resume)
    assert not (tmp_path / "db").exists()


def test_an_empty_directory_can_be_resumed(tmp_path: Path) -> None:
    """A daemon need not know whether it was started before."""
    with opened(tmp_path, resume=True) as store:
        assert store.counts() == Counts()


def test_a_newer_version_is_refused(tmp_path: Path) -> None:
    """What a newer program wrote is not touched, whether the file or the database says so."""
    opened(tmp_path).close()
    said = tmp_path / "format"
    line = said.read_text()
    said.write_text(line.replace(str(VERSION), str(VERSION + 1)))
    with pytest.raises(StoreError, match=f"written by a newer GCS \\(format {VERSION + 1}"):
        opened(tmp_path, resume=True)
    said.write_text(line)
    database = Database(tmp_path / "db")
    writes = database.batch()
    writes.put(STATUS_KEY, Status(f"gcs store {VERSION + 1}\n", 0).pack(), writes.tables[META])
    database.write(writes)
    database.close()
    with pytest.raises(StoreError, match="written by a newer GCS"):
        opened(tmp_path, resume=True)
    said.write_text("something else")
    with pytest.raises(StoreError, match="is not a crawl of GCS"):
        opened(tmp_path, resume=True)


def test_a_store_belongs_to_one_process(tmp_path: Path) -> None:
    """A second process is told which one has the store; when that is gone, it gets it."""
    program = (
        "import sys; from pathlib import Path; from gcs import config; from gcs.store.store import Store\n"
        "store = Store.open(Path(sys.argv[1]), config.Store(), resume=True)\n"
        "print('open', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"open\n"
        with pytest.raises(StoreError, match=rf"in use by another process \(pid {other.pid}\)"):
            opened(tmp_path, resume=True)
        other.kill()
    opened(tmp_path, resume=True).close()


def test_a_directory_that_cannot_be_made_is_refused() -> None:
    """Errors of the file system are a sentence too."""
    with pytest.raises(StoreError, match="the store cannot be used"):
        opened(Path("/proc/gcs-store"))


def test_a_damaged_database_is_refused(tmp_path: Path) -> None:
    """What the database complains about is passed on, and the lock is given back."""
    opened(tmp_path).close()
    (tmp_path / "db" / "CURRENT").write_text("nonsense\n")
    for _ in range(2):
        with pytest.raises(StoreError, match="the database says"):
            opened(tmp_path, resume=True)


def test_rows_say_where_a_url_comes_from_and_what_became_of_it(tmp_path: Path) -> None:
    """A row keeps parent, depth and the last outcome, and does so after a restart."""
    at = float(int(time.time()) + 5)
    with opened(tmp_path) as store:
        store.commit(Batch(found=[Found(k("seed"), via="seed", band=0)]))
        store.next_of(HOST, 1, now=at)
        store.commit(
            Batch(
                finished=[ended(k("seed"), at=at, digest=b"0123456789abcdef")],
                found=[Found(k("x"), 1, k("seed")), Found(k("y"), 1, k("seed"), "redirect", 3)],
            )
        )
        store.commit(
            Batch(finished=[ended(k("y"), State.DROPPED, status=-7, reason="robots", at=at, attempts=300)])
        )
    with opened(tmp_path, resume=True) as store:
        assert store.get(k("seed")) == Row(State.DONE, 200, "", 0, "seed", "", at, 1, 0, b"01234567")
        assert store.get(k("x")) == Row(State.QUEUED, 0, "", 1, "link", k("seed"), 0.0, 0, 1, b"")
        assert store.get(k("y")) == Row(
            State.DROPPED, -7, "robots", 1, "redirect", k("seed"), at, 300, 3, b""
        )
        assert store.get(k("z")) is None
        assert store.seen([k("x"), k("z"), k("seed")]) == [True, False, True]
        assert store.seen([]) == []


def test_a_scan_is_a_range_of_keys(tmp_path: Path) -> None:
    """A subtree is one range, and what lies beside it is not read; a long scan goes on where it was."""
    with opened(tmp_path) as store:
        keys = [k(f"{section}/{n}") for section in ("docs", "docs-old", "dogs") for n in range(1500)]
        store.commit(Batch(found=[Found(each) for each in keys]))
        assert [each for each, _ in store.scan(*subtree(k("docs")))] == sorted(keys[:1500])
        assert [each for each, _ in store.scan("")] == sorted(keys)


def test_a_row_never_moves_to_a_smaller_state(tmp_path: Path) -> None:
    """What is done stays done, whatever is said later; and counts once."""
    with opened(tmp_path) as store:
        store.commit(Batch(finished=[ended(k("x"))]))
        store.commit(Batch(finished=[ended(k("x"), State.DROPPED, reason="other")], found=[Found(k("x"))]))
        store.commit(Batch(finished=[ended(k("x"), State.QUEUED, retry_at=1.0)]))
        assert store.counts() == Counts(done=1)
        assert given(store, now=5.0) == []
        both = [
            ended(k("y"), State.DONE, status=201),
            ended(k("y"), State.DROPPED),
            ended(k("y"), status=202),
        ]
        store.commit(Batch(finished=both))
        row = store.get(k("y"))
        assert row is not None
        assert (row.state, row.status, row.reason) == (State.DONE, 202, "")
        assert store.counts() == Counts(done=2)


def test_bands_come_before_age(tmp_path: Path) -> None:
    """A host's URLs are handed out by band, and within a band first come first served, across commits."""
    with opened(tmp_path, bounds=Bounds(band_window=2, pieces_at_once=1)) as store:
        for n in range(5):
            store.commit(Batch(found=[Found(k(f"{n}-{band}"), band=band) for band in (3, 1, 2, 0)]))
        expected = [k(f"{n}-{band}") for band in range(4) for n in range(5)]
        assert given(store, 3) == expected[:3]
        assert given(store) == expected[3:]
        assert given(store) == []


def test_what_was_in_flight_is_queued_after_a_restart(tmp_path: Path) -> None:
    """After a restart the queue is what it was, less what was finished."""
    with opened(tmp_path) as store:
        store.commit(Batch(found=[Found(k(str(n))) for n in range(10)]))
        given(store, 6)
        store.commit(Batch(finished=[ended(k(str(n))) for n in (1, 4)]))
    with opened(tmp_path, resume=True) as store:
        assert given(store) == [k(str(n)) for n in (0, 2, 3, 5, 6, 7, 8, 9)]


def test_retries_come_back_when_they_are_due(tmp_path: Path) -> None:
    """A URL that is to be tried again is not handed out before its time, and then before new ones."""
    with opened(tmp_path) as store:
        store.commit(Batch(found=[Found(k("x"), 3, k("p"), "link", 1), Found(k("y"))]))
        assert given(store, 1) == [k("x")]
        retry = ended(k("x"), State.QUEUED, status=503, reason="status", attempts=1, retry_at=1000.0004)
        store.commit(Batch(finished=[retry]))
        assert store.next_due <= 1000.001
        assert store.due(now=1000.0) == []
        assert store.next_due == 1000.001
    with opened(tmp_path, resume=True) as store:
        assert store.due(now=999.0) == []
        assert store.due(now=1000.5) == [HOST]
        assert store.due(now=1000.5) == []
        assert store.next_due == math.inf
        x, y = store.next_of(HOST, 2, now=1001.0)
        assert x == (k("x"), 3, "link", 1, 1000.001, k("p"), 1)
        assert y.key == k("y")
        store.commit(Batch(finished=[ended(k("x"), attempts=2), ended(k("y"))]))
        assert store.counts() == Counts(done=2)
    database = Database(tmp_path / "db")
    assert list(database.scan(LATER, b"")) == []
    assert list(database.scan(QUEUE, b"")) == []
    database.close()


def test_a_retry_for_a_time_that_has_passed_comes_at_once(tmp_path: Path) -> None:
    """A retry that is due before others which came back already is not overlooked."""
    with opened(tmp_path) as store:
        store.commit(Batch(finished=[ended(k("x"), State.QUEUED, retry_at=50.0)]))
        assert given(store, now=60.0) == [k("x")]
        store.commit(Batch(finished=[ended(k("y"), State.QUEUED, retry_at=40.0)]))
        assert store.due(now=60.0) == [HOST]
        assert given(store, now=60.0) == [k("y")]


def test_what_is_given_back_comes_first(tmp_path: Path) -> None:
    """URLs that were handed out and not tried go back to the front of the queue, in order."""
    with opened(tmp_path) as store:
        store.commit(Batch(found=[Found(k(str(n))) for n in range(5)]))
        taken = given(store, 3)
        store.give_back([*taken, k("unknown")])
        assert given(store) == [k(str(n)) for n in range(5)]
        assert store.statistics().in_flight == 5


def test_a_url_can_be_finished_while_it_waits_on_disk(tmp_path: Path) -> None:
    """A URL that is dropped unasked is not handed out, wherever in the queue it was."""
    with opened(tmp_path, bounds=Bounds(band_window=1)) as store:
        for n in range(6):
            store.commit(Batch(found=[Found(k(str(n)))]))
        store.commit(Batch(finished=[ended(k("r"), State.QUEUED, retry_at=9.0)]))
        dropped = [ended(k(each), State.DROPPED) for each in ("0", "3", "5", "r")]
        store.commit(Batch(finished=dropped))
        assert given(store, now=10.0) == [k("1"), k("2"), k("4")]
        assert store.counts() == Counts(queued=3, dropped=4)
        store.commit(Batch(finished=[ended(k(each)) for each in ("1", "2", "4")]))
        assert store.counts() == Counts(done=3, dropped=4)
    database = Database(tmp_path / "db")
    assert list(database.scan(QUEUE, b"")) == []
    database.close()


def test_many_hosts_do_not_stay_in_memory(tmp_path: Path) -> None:
    """Memory is bounded by what is used, not by how many hosts and URLs there are."""
    with opened(tmp_path, bounds=Bounds(hosts=50, window=40)) as store:
        hosts = [f"h{n}.com" for n in range(300)]
        for n in range(3):
            store.commit(Batch(found=[Found(k(str(n), host)) for host in hosts]))
        assert store.statistics().hosts_in_memory <= 50
        assert store.statistics().window <= 40
        for host in hosts:
            assert given(store, host=host_of(k("", host))) == [k(str(n), host) for n in range(3)]
        counts = list(store.hosts())
        assert len(counts) == 300
        assert all((each.queued, each.done, each.dropped) == (3, 0, 0) for each in counts)


def test_meta_and_counters_are_written_with_the_batch(tmp_path: Path) -> None:
    """Named values replace each other, an empty one goes, counters add up; all survive a restart."""
    with opened(tmp_path) as store:
        store.commit(Batch(meta={"traps": b"1", "gone": b"x"}, counters={"pages": 2}))
        store.commit(Batch(meta={"traps": b"2", "gone": b""}, counters={"pages": 3, "errors": 1}))
    with opened(tmp_path, resume=True) as store:
        assert store.get_meta("traps") == b"2"
        assert store.get_meta("gone") is None
        assert store.counters() == {"pages": 5, "errors": 1}


def test_pages_and_log_lines_are_appended(tmp_path: Path) -> None:
    """The records of pages go to a WARC file and their lines to the log; with `none` there is no WARC."""
    record = Builder("warc.gz").page(Exchange("http://a.com/", 0.0, b"GET", b"HTTP/1.1 200 OK\r\n\r\n", b"x"))
    finished = ended(k(""), records=record, log=b"one line\n")
    with Store.open(tmp_path / "with", SETTINGS, resume=False, name="mine") as store:
        assert store.commit(Batch(finished=[finished])).number == 1
        assert store.commit(Batch(finished=[finished, finished])).number == 2
        statistics = store.statistics()
    (path,) = (tmp_path / "with" / "warc").iterdir()
    assert re.fullmatch(r"mine-\d{14}-00001\.warc\.gz", path.name)
    assert (statistics.warc_files, statistics.warc_bytes) == (1, path.stat().st_size)
    assert statistics.log_bytes == 27
    assert (tmp_path / "with" / "crawl.log").read_bytes() == b"one line\n" * 3
    none = config.Store(pages="none", keep_free_bytes=0)
    with Store.open(tmp_path / "without", none, resume=False) as store:
        store.commit(Batch(finished=[finished]))
    assert list((tmp_path / "without" / "warc").iterdir()) == []


def test_hand_outs_and_questions_do_not_wait_for_commits(tmp_path: Path) -> None:
    """While one thread commits another hands out; every URL is handed out once and ends up done."""
    with opened(tmp_path, bounds=Bounds(hosts=4, window=50, band_window=5)) as store:
        hosts = [f"h{n}.com" for n in range(8)]
        store.commit(Batch(found=[Found(k("0", host)) for host in hosts]))
        to_do: list[str] = []
        taken: list[str] = []
        stop = threading.Event()

        def hand_out() -> None:
            while not stop.is_set():
                for host in hosts:
                    some = given(store, 3, host=host_of(k("", host)))
                    taken.extend(some)
                    to_do.extend(some)

        thread = threading.Thread(target=hand_out)
        thread.start()
        number = 0
        while store.counts().queued:
            some, to_do[:] = list(to_do), to_do[len(to_do) :]
            batch = Batch(finished=[ended(each) for each in some])
            if number < 400:
                batch.found = [Found(k(f"{number}-{n}", hosts[n % 8])) for n in range(40)]
                number += 40
            store.commit(batch)
        stop.set()
        thread.join()
        assert len(taken) == len(set(taken)) == store.counts().done == store.counts().accepted


def test_a_url_that_is_read_while_a_commit_finishes_it_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a commit finishes on disk does not come back from memory, though it was read just before."""
    with opened(tmp_path, bounds=Bounds(band_window=1)) as store:
        for n in range(5):
            store.commit(Batch(found=[Found(k(str(n)))]))
        store.commit(Batch(finished=[ended(k("r"), State.QUEUED, retry_at=9.0)]))
        write = store._database.write

        def write_late(writes: Writes) -> None:
            assert given(store, 3, now=10.0) == [k("r"), k("0"), k("1")]
            write(writes)

        monkeypatch.setattr(store._database, "write", write_late)
        store.commit(Batch(finished=[ended(k(n)) for n in ("r", "1", "2")]))
        monkeypatch.undo()
        assert given(store, now=10.0) == [k("3"), k("4")]
        assert store.statistics().in_flight == 3
        store.commit(Batch(finished=[ended(k(n)) for n in ("0", "3", "4")]))
        assert store.counts() == Counts(done=6)
        assert store.statistics().in_flight == store.statistics().window == 0
    database = Database(tmp_path / "db")
    assert list(database.scan(QUEUE, b"")) == []
    database.close()


def test_the_counts_of_one_host(tmp_path: Path) -> None:
    """A host can be asked for its counts alone; one that is not known has none."""
    with opened(tmp_path) as store:
        store.commit(Batch(finished=[ended(k("x"))], found=[Found(k("y"))]))
        assert store.host(HOST) == HostCounts(HOST, queued=1, done=1, dropped=0)
        assert store.host("nobody") == HostCounts("nobody", 0, 0, 0)


def test_parents_beyond_those_remembered_get_new_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page that names URLs again long after keeps being named as their parent."""
    monkeypatch.setattr(planning, "_MAX_PARENTS", 2)
    with opened(tmp_path) as store:
        for n in range(12):
            store.commit(Batch(found=[Found(k(str(n)), 1, k(f"parent {n % 4}"))]))
        rows = [store.get(k(str(n))) for n in range(12)]
        assert [row.parent for row in rows if row] == [k(f"parent {n % 4}") for n in range(12)]


def test_a_closed_store_says_so(tmp_path: Path) -> None:
    """After a close nothing can be asked any more; closing again does no harm."""
    store = opened(tmp_path)
    store.close()
    store.close()
    with pytest.raises(StoreError, match="closed"):
        store.get(k("x"))


def test_reasons_beyond_the_bound_share_a_word() -> None:
    """A vocabulary that a bug makes endless does not fill the disk."""
    status = Status("gcs store 1\n", 0)
    for n in range(1_200):
        status = status.with_reasons({f"reason {n}", ""})
    assert len(status.reasons) == 1_001
    assert status.reasons[-1] == "other"
    assert Status.unpack(status.pack()) == status


@pytest.mark.parametrize("number", [0, 1, 127, 128, 16_383, 16_384, 2_097_152, 2**40 + 3])
def test_numbers_are_packed(number: int) -> None:
    """Counts and heads of any size come back from a host's row, bands that were not used too."""
    bands = {1: encoding.BandRow(number, 2 * number + 1), 3: encoding.BandRow(0, 1)}
    row = encoding.HostRow((3, number, 1, 2 * number), bands)
    assert encoding.unpack_host(encoding.pack_host(*row)) == row


def test_a_missing_file_is_noticed_gently(tmp_path: Path) -> None:
    """A log that somebody removed begins anew, and the crawl goes on."""
    with opened(tmp_path) as store:
        store.commit(Batch(finished=[ended(k("x"), log=b"x\n")]))
    (tmp_path / "crawl.log").unlink()
    with opened(tmp_path, resume=True) as store:
        store.commit(Batch(finished=[ended(k("y"), log=b"y\n")]))
    assert (tmp_path / "crawl.log").read_bytes() == b"y\n"
    assert list((tmp_path / "warc").iterdir()) == []


def test_a_store_can_be_looked_at_while_it_is_in_use(tmp_path: Path) -> None:
    """A view sees what was committed before it was opened, takes no lock, and has what people ask for."""
    with opened(tmp_path) as store:
        store.commit(Batch(finished=[ended(k("x"))], found=[Found(k("y"), 1, k("x"))], meta={"m": b"1"}))
        with View(tmp_path) as view:
            store.commit(Batch(finished=[ended(k("y"))]))
            assert view.counts() == Counts(queued=1, done=1)
            assert view.host(HOST) == HostCounts(HOST, queued=1, done=1, dropped=0)
            assert view.get_meta("m") == b"1"
            assert view.get(k("z")) is None
            row = view.get(k("y"))
            assert row is not None
            assert (row.state, row.parent) == (State.QUEUED, k("x"))
        assert store.get(k("y")) != row


def test_only_a_store_can_be_looked_at(tmp_path: Path) -> None:
    """A directory without a crawl is refused, and nothing is made in it."""
    with pytest.raises(StoreError):
        View(tmp_path)
    assert list(tmp_path.iterdir()) == []
