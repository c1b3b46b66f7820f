"""A store whose process is killed, again and again, at any moment.

python -m tests.test_store_crash DIR     the process that is killed: crawls an endless tree of pages
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from random import Random

import pyarrow.dataset as ds
import pyarrow.parquet as pq

from gcs import config
from gcs.core.urls import key, url
from gcs.store.columns import pack_columns, pack_row
from gcs.store.records import Batch, Finished, Found, Queued, State, host_of
from gcs.store.store import Store
from gcs.store.warc import Builder, Exchange
from gcs.summary.records import Summary
from tests.test_store_warc import records

KILLS = 8
HOSTS = [f"http://h{n}.com" for n in range(5)]
SETTINGS = config.Store(keep_free_bytes=0, warc_bytes=1 << 20, segment_rows=150)


def address(number: int) -> str:
    """The key of the n-th page; page n leads to pages 3n + 1 to 3n + 3."""
    return key(f"{HOSTS[number % 5]}/{number}")


def fetched(queued: Queued, random: Random, builder: Builder, now: float) -> Finished:
    """A page, as a crawl would have fetched it; some are to be tried again and some are dropped."""
    page = url(queued.key)
    state = random.choices([State.DONE, State.QUEUED, State.DROPPED], [20, 2, 1])[0]
    finished = Finished(
        key=queued.key, state=state, status=200, at=now, attempts=queued.attempts + 1, retry_at=now + 0.05
    )
    if state is State.DONE:
        body = random.randbytes(3_000)
        exchange = Exchange(page, now, b"GET / HTTP/1.1\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n", body)
        finished.records = builder.page(exchange)
        finished.summary = pack_row(list(Summary(url=page, key=queued.key).to_row().values()))
        repeated = ["", *["1"] * 4]
        finished.links = pack_columns([page, [page] * 5, ["text"] * 5, "", "a", "1700000000", repeated])
        finished.log = f"{page}\n".encode()
    return finished


def crawl(place: Path, seed: int) -> None:
    """Commit batches for ever, and say after each what is done now."""
    random = Random(seed)
    builder = Builder("warc.gz")
    store = Store.open(place, SETTINGS, resume=True)
    store.commit(Batch(found=[Found(address(0))]))
    hosts = [host_of(address(n)) for n in range(5)]

    def flush() -> None:
        while True:
            store.flush_segments()

    threading.Thread(target=flush, daemon=True).start()
    while True:
        now = time.time()
        taken = [each for host in hosts for each in store.next_of(host, 12, now=now)]
        batch = Batch([fetched(each, random, builder, now) for each in taken], counters={"taken": len(taken)})
        for each in batch.finished:
            number = int(url(each.key).rpartition("/")[2])
            if each.state is State.DONE:
                batch.found += [Found(address(3 * number + n), 1, each.key) for n in (1, 2, 3)]
        store.commit(batch)
        done = [url(each.key) for each in batch.finished if each.state is State.DONE]
        os.write(1, (" ".join(["commit", *done]) + "\n").encode())


def killed_at_random(place: Path, seed: int, random: Random) -> set[str]:
    """Run the process for a while and kill it; the pages that it had said were done."""
    command = [sys.executable, "-m", "tests.test_store_crash", str(place), str(seed)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        timer = threading.Timer(random.uniform(0, 0.3), process.send_signal, [signal.SIGKILL])
        timer.start()
        rest = process.stdout.read()
    # The last line may be cut: then its commit was acknowledged, but we did not hear all of it.
    lines = (first + rest).split(b"\n")[:-1]
    return {page.decode() for line in lines for page in line.split()[1:]}


def check(place: Path, acknowledged: set[str]) -> Counter[str]:
    """What was acknowledged is done, and the queue and all counts agree with the rows; the pages done."""
    with Store.open(place, SETTINGS, resume=True) as store:
        rows = dict(store.scan(""))
        states = Counter(row.state for row in rows.values())
        counts = store.counts()
        assert (counts.queued, counts.done, counts.dropped) == tuple(
            states[state] for state in (State.QUEUED, State.DONE, State.DROPPED)
        )
        assert counts.accepted == len(rows)
        assert sum(each.queued for each in store.hosts()) == counts.queued
        now = time.time() + 10
        hosts = [host_of(address(n)) for n in range(5)]
        given: list[str] = []
        while some := [each.key for host in hosts for each in store.next_of(host, 500, now=now)]:
            given += some
        assert Counter(given) == Counter(k for k, row in rows.items() if row.state is State.QUEUED)
    done = Counter(url(each) for each, row in rows.items() if row.state is State.DONE)
    assert acknowledged <= set(done)
    assert Counter((place / "crawl.log").read_text().splitlines()) == done
    return done


def check_files(place: Path, done: Counter[str]) -> None:
    """All files are whole, and have every page that is done once."""
    read = [each for path in sorted((place / "warc").iterdir()) for each in records(path.read_bytes())]
    pages = [record for record, _ in read if record.rec_type == "response"]
    assert Counter(page.rec_headers.get_header("WARC-Target-URI") for page in pages) == done
    assert all(pq.read_table(path).num_rows for path in place.rglob("*.parquet"))
    summaries = ds.dataset(place / "summaries", format="parquet").to_table(["url"])
    assert Counter(summaries["url"].to_pylist()) == done
    links = ds.dataset(place / "links", format="parquet").to_table(["source"])
    assert Counter(links["source"].to_pylist()) == Counter(dict.fromkeys(done, 5))


def test_a_killed_process_loses_nothing_that_it_acknowledged(tmp_path: Path) -> None:
    """After SIGKILL at any moment all parts of the store agree: nothing torn, nothing lost, nothing twice."""
    random = Random(7)
    acknowledged: set[str] = set()
    for number in range(KILLS):
        acknowledged |= killed_at_random(tmp_path / "store", number, random)
        done = check(tmp_path / "store", acknowledged)
        if number % 5 == 4:
            check_files(tmp_path / "store", done)
    assert len(acknowledged) > KILLS
    assert len(list((tmp_path / "store" / "warc").iterdir())) > 1


if __name__ == "__main__":
    crawl(Path(sys.argv[1]), int(sys.argv[2]))
