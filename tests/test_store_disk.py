"""A disk that is full: the crawl waits, nothing is half written, and it goes on when there is room."""

from __future__ import annotations

import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pyarrow.dataset as ds
import pytest

from gcs import config
from gcs.core.urls import key
from gcs.store.columns import pack_columns
from gcs.store.database import Database
from gcs.store.errors import DiskFull, StoreError, translated
from gcs.store.records import Batch, Counts, Finished, Found, State, host_of
from gcs.store.store import Store
from gcs.store.warc import Builder, Exchange
from tests.test_store_warc import records

KEEP_NOTHING_FREE = config.Store(keep_free_bytes=0, segment_rows=200)
HOST = host_of(key("http://a.com/"))
BUILDER = Builder("warc.gz")
RANDOM = Random(5)


@contextmanager
def no_file_over(size: int) -> Iterator[None]:
    """Writing beyond this length fails, as on a full disk; what is there stays."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def page(number: int, size: int) -> Finished:
    """A page that cannot be compressed, with everything that is kept of one."""
    url = f"http://a.com/{number}"
    exchange = Exchange(
        url, 0.0, b"GET / HTTP/1.1\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n", RANDOM.randbytes(size)
    )
    return Finished(
        key=key(url),
        state=State.DONE,
        status=200,
        at=0.0,
        attempts=1,
        records=BUILDER.page(exchange),
        links=pack_columns([url, [f"http://b.org/{n}" for n in range(10)], "", "", "a", "1700000000", ""]),
        log=f"{url}\n".encode(),
    )


def check(place: Path, pages: int) -> None:
    """Everything of so many pages is there, once, and nothing else."""
    read = []
    for path in sorted((place / "warc").iterdir()):
        read += records(path.read_bytes())
    responses = [record for record, _ in read if record.rec_type == "response"]
    assert len(responses) == pages
    assert (place / "crawl.log").read_text() == "".join(f"http://a.com/{n}\n" for n in range(pages))
    assert ds.dataset(place / "links", format="parquet").to_table().num_rows == 10 * pages


def commit_with_patience(store: Store, batch: Batch, make_room: Iterator[None]) -> int:
    """Commit a batch as a crawl does: the same again for as long as the disk is full; how often it was."""
    refused = 0
    while True:
        try:
            store.commit(batch)
        except DiskFull:
            refused += 1
            next(make_room)
        else:
            return refused


@pytest.mark.parametrize("size", [10, 1_000, 60_000])
def test_the_same_batch_is_committed_when_there_is_room(tmp_path: Path, size: int) -> None:
    """Whichever file has no room, the batch is refused as a whole, and is kept as a whole later."""
    refused = 0
    limit = 1 << 16

    def grow() -> Iterator[None]:
        nonlocal limit
        while True:
            limit += 1 << 16
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
            yield

    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    with Store.open(tmp_path, KEEP_NOTHING_FREE, resume=False) as store, no_file_over(limit):
        for number in range(40):
            found = [Found(key(f"http://c.net/{number}-{n}")) for n in range(60)]
            batch = Batch([page(number, size)], found, {"pages": 1})
            refused += commit_with_patience(store, batch, grow())
            assert store.counts() == Counts(queued=60 * (number + 1), done=number + 1)
    assert refused > 0
    check(tmp_path, 40)
    with Store.open(tmp_path, KEEP_NOTHING_FREE, resume=True) as store:
        assert store.counts() == Counts(queued=2400, done=40)
        assert store.counters() == {"pages": 40}
        given = store.next_of(host_of(key("http://c.net/")), 5_000, now=0.0)
        assert [each.key for each in given] == [
            key(f"http://c.net/{number}-{n}") for number in range(40) for n in range(60)
        ]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 6 MB in memory; needs the right to mount one."""
    place = tmp_path / "disk"
    place.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=6m", "gcs-test", str(place)], check=False, capture_output=True
    )
    if made.returncode:
        pytest.skip("no right to mount a file system")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_a_full_file_system_is_waited_for(small_disk: Path) -> None:
    """On a disk that really is full all stays readable, and the crawl ends well once it is enlarged."""

    def enlarge() -> Iterator[None]:
        for size in range(8, 60, 2):
            subprocess.run(["mount", "-o", f"remount,size={size}m", str(small_disk)], check=True)
            yield

    room = enlarge()
    refused = 0
    place = small_disk / "store"
    with Store.open(place, KEEP_NOTHING_FREE, resume=False) as store:
        for number in range(60):
            refused += commit_with_patience(store, Batch([page(number, 300_000)]), room)
            assert store.get(key(f"http://a.com/{number}")) is not None
    assert refused > 2
    check(place, 60)


def test_segments_wait_for_room_too(tmp_path: Path) -> None:
    """A segment that does not fit leaves nothing behind; its rows stay journalled and are written later."""
    with Store.open(tmp_path, KEEP_NOTHING_FREE, resume=False) as store:
        for number in range(40):
            store.commit(Batch([page(number, 10)]))
        with no_file_over(100), pytest.raises(DiskFull):
            store.flush_segments()
        assert list((tmp_path / "links").iterdir()) == []
        with no_file_over(100), pytest.raises(DiskFull):
            store.commit(Batch([page(99, 10)]))
        assert len(store.flush_segments()) == 2
        assert store.statistics().journalled == {"summaries": 0, "links": 0}
    check(tmp_path, 40)


def test_a_failed_reopening_is_tried_again(tmp_path: Path) -> None:
    """While the database cannot be opened again it can be read; then it goes on as if nothing had been."""
    with Store.open(tmp_path, KEEP_NOTHING_FREE, resume=False) as store:
        store.commit(Batch(found=[Found(key("http://a.com/0"))]))
        batch = Batch([page(0, 10)], [Found(key(f"http://a.com/{n}")) for n in range(9_000)])
        with no_file_over(1 << 13):
            for _ in range(3):
                with pytest.raises(DiskFull):
                    store.commit(batch)
                assert store.counts() == Counts(queued=1)
                assert store.host(host_of(key("http://a.com/0"))).queued == 1
        assert len(store.commit(batch).new) == 8_999
        assert store.counts() == Counts(queued=8_999, done=1)
    check(tmp_path, 1)


def test_a_batch_that_had_reached_the_disk_is_not_written_twice(tmp_path: Path) -> None:
    """If only the answer of the disk was bad, the repetition of the batch says what it had changed."""
    with Store.open(tmp_path, KEEP_NOTHING_FREE, resume=False) as store:
        first = Batch([page(0, 10)], [Found(key("http://a.com/1"))], {"pages": 1})
        _fail_after_writing(store)
        with pytest.raises(DiskFull):
            store.commit(first)
        assert store.commit(first).new == first.found
        _fail_after_writing(store)
        with pytest.raises(DiskFull):
            store.commit(Batch([page(1, 10)], counters={"pages": 1}))
        assert len(store.flush_segments(everything=True)) == 1
        store.commit(Batch([page(2, 10)], counters={"pages": 1}))
        assert store.counts() == Counts(done=3)
        assert store.counters() == {"pages": 3}
    check(tmp_path, 3)


def _fail_after_writing(store: Store) -> None:
    """Make the next sync of the database fail after it has happened; no real disk can be asked to."""
    real = store._database.write

    def write(writes: object) -> None:
        store._database.write = real  # type: ignore[method-assign]
        real(writes)  # type: ignore[arg-type]
        with translated(Path("disk")):
            raise OSError(28, "No space left on device")

    store._database.write = write  # type: ignore[method-assign]


def test_some_room_is_kept_free(tmp_path: Path) -> None:
    """Long before the disk is really full the crawl waits, and nothing was touched."""
    with Store.open(tmp_path, config.Store(keep_free_bytes=1 << 50), resume=False) as store:
        for _ in range(2):
            with pytest.raises(DiskFull, match="the disk is full; the crawl waits until there is room"):
                store.commit(Batch(found=[Found(key("http://a.com/"))]))
        assert store.counts() == Counts()


def test_other_errors_are_not_taken_for_a_full_disk(tmp_path: Path) -> None:
    """What is no lack of room is an error, and a mistake in the program is not hidden."""
    with pytest.raises(StoreError) as error, translated(tmp_path):
        raise PermissionError(13, "Permission denied")
    assert not isinstance(error.value, DiskFull)
    with pytest.raises(ZeroDivisionError), translated(tmp_path):
        raise ZeroDivisionError
    database = Database(tmp_path / "db")
    database.close()
    with pytest.raises(StoreError, match="closed"):
        database.get("rows", b"x")
