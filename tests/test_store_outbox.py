"""What a store keeps for other gatherers until they have it, and what it remembers of them.

python -m tests.test_store_outbox DIR SEED     the process that is killed: two stores that exchange URLs
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from gcs import config
from gcs.core.urls import key
from gcs.store import mail, moving
from gcs.store.database import OUTBOX, Database
from gcs.store.errors import DiskFull
from gcs.store.mail import Letter
from gcs.store.ranges import Which
from gcs.store.records import VIAS, Batch, Counts, Finished, Found, Outbox, Passed, Row, State, host_of
from gcs.store.store import Store

SETTINGS = config.Store(keep_free_bytes=0)
OTHER = "0123456789ab"
KILLS = 6


def k(path: str, host: str = "a.com") -> str:
    """The key of a path on a host."""
    return key(f"http://{host}/{path}")


def opened(place: Path, *, resume: bool = False) -> Store:
    """A store that does not mind how full the disk is."""
    return Store.open(place, SETTINGS, resume=resume)


def letters(store: Store, to: str = OTHER, after: int = 0) -> list[Letter]:
    """What waits for a receiver."""
    return [mail.unpack(piece) for _, piece in store.outgoing(to, after, 1 << 30)]


def test_a_store_has_an_identity_for_ever(tmp_path: Path) -> None:
    """Two stores have different identities, and each keeps its own, also if it never wrote anything."""
    with opened(tmp_path / "a") as store, opened(tmp_path / "b") as other:
        identity = store.identity
        assert re.fullmatch("[0-9a-f]{12}", identity)
        assert identity != other.identity
    with opened(tmp_path / "a", resume=True) as store:
        assert store.identity == identity


def test_what_is_passed_on_waits_in_the_outbox_and_is_known(tmp_path: Path) -> None:
    """A URL of another gatherer is sent once; it is known here, but neither accepted nor handed out."""
    found = [Found(k(str(n)), 2, k("page"), "redirect", 3) for n in range(5)]
    passed = [Passed(OTHER, each) for each in found]
    with opened(tmp_path) as store:
        assert store.commit(Batch(passed=passed[:3])).new == []
        store.commit(Batch(passed=passed))
        store.commit(Batch(passed=passed))
        assert letters(store) == [Letter("found", found[:3], b""), Letter("found", found[3:], b"")]
        assert store.counts() == Counts(passed=5)
        assert store.counts().accepted == 0
        assert store.host(host_of(k(""))).passed == 5
        assert store.get(k("0")) == Row(State.PASSED, 0, "", 2, "redirect", k("page"), 0.0, 0, 3, b"")
        assert store.seen([k("0"), k("x")]) == [True, False]
        assert store.next_of(host_of(k("")), 9, now=0.0) == []
        assert store.founds([k("4"), k("x"), k("0")]) == [found[4], found[0]]
        assert store.ledger().sent == {OTHER: 5}


def test_what_is_here_is_not_passed_on(tmp_path: Path) -> None:
    """A URL that has a row, or gets one with the same batch, goes nowhere, even if it is asked for always."""
    with opened(tmp_path) as store:
        done = Finished(key=k("done"), state=State.DONE, status=200, at=0.0, attempts=1)
        store.commit(Batch([done], [Found(k("queued"))]))
        every = [Found(k(each)) for each in ("done", "queued", "new", "ended")]
        ended = Finished(key=k("ended"), state=State.DROPPED, status=-1, at=0.0, attempts=1)
        passed = [Passed(OTHER, each, always) for each in every for always in (False, True)]
        assert store.commit(Batch([ended], [Found(k("new"))], passed=passed)).new == [Found(k("new"))]
        assert store.outboxes() == {}
        assert store.counts() == Counts(queued=2, done=1, dropped=1)


def test_what_was_passed_on_can_be_sent_again(tmp_path: Path) -> None:
    """A URL is sent again when that is asked for; its row stays as it was."""
    first, again = Found(k("x"), 1, k("p")), Found(k("x"), 9, k("q"))
    with opened(tmp_path) as store:
        store.commit(Batch(passed=[Passed("lost", first)]))
        store.commit(Batch(passed=[Passed(OTHER, again, always=True)], withdrawn={"lost": 1}))
        assert letters(store) == [Letter("found", [again], b"")]
        assert store.founds([k("x")]) == [first]
        assert [to for to, box in store.outboxes().items() if box.next > box.first] == [OTHER]
        assert store.ledger().sent == {"lost": 1, OTHER: 1}
        assert store.ledger().withdrawn == {"lost": 1}


def test_a_url_that_was_passed_on_may_become_ours(tmp_path: Path) -> None:
    """Found in a range that came to us since, it is new and queued, with the origin that was found now."""
    with opened(tmp_path) as store:
        store.commit(Batch(passed=[Passed(OTHER, Found(k("x"), 1, k("p")))]))
        ours = Found(k("x"), 3, k("q"), "sitemap", 0)
        assert store.commit(Batch(found=[ours])).new == [ours]
        assert store.commit(Batch(found=[ours])).new == []
        assert store.counts() == Counts(queued=1)
        (queued,) = store.next_of(host_of(k("")), 9, now=0.0)
        assert queued == (k("x"), 3, "sitemap", 0, 0.0, k("q"), 0)
        assert store.ledger().accepted == 1


def test_pieces_are_numbered_and_acknowledged(tmp_path: Path) -> None:
    """Numbers go up by one and never repeat; what is acknowledged is gone, and the rest is known by size."""
    with opened(tmp_path) as store:
        for n in range(5):
            store.commit(Batch(passed=[Passed(OTHER, Found(k(f"{n}-{m}"))) for m in range(n + 1)]))
        pieces = store.outgoing(OTHER, 0, 1 << 30)
        assert [number for number, _ in pieces] == [1, 2, 3, 4, 5]
        sizes = [len(piece) for _, piece in pieces]
        assert store.outboxes() == {OTHER: Outbox(1, 6, sum(sizes), 15)}
        store.commit(Batch(acked={OTHER: 2, "unknown": 7}))
        assert store.outboxes() == {OTHER: Outbox(3, 6, sum(sizes[2:]), 12)}
        store.commit(Batch(acked={OTHER: 1}))
        assert store.outgoing(OTHER, 0, 1 << 30) == pieces[2:]
        assert store.outgoing(OTHER, 3, 1 << 30) == pieces[3:]
        assert store.outgoing(OTHER, 3, 0) == pieces[3:4]
        assert store.outgoing(OTHER, 2, sum(sizes[2:4])) == pieces[2:4]
        assert store.outgoing(OTHER, 5, 1 << 30) == store.outgoing("unknown", 0, 9) == []
        store.commit(Batch(acked={OTHER: 99}))
        assert store.outboxes() == {OTHER: Outbox(6, 6, 0, 0)}
    with opened(tmp_path, resume=True) as store:
        store.commit(Batch(mail=[(OTHER, b"x")], acked={OTHER: 99}))
        assert [number for number, _ in store.outgoing(OTHER, 0, 1)] == [6]
    database = Database(tmp_path / "db")
    assert len(list(database.scan(OUTBOX, b""))) == 1
    database.close()


def test_the_order_of_pieces(tmp_path: Path) -> None:
    """In a commit URLs come first, then rows, then mail; very many URLs are split."""
    with opened(tmp_path) as store:
        store.commit(Batch(found=[Found(k("x"))]))
        chunk, rows, _ = store.chunk("", None)
        store.commit(
            Batch(
                passed=[Passed(OTHER, Found(k(str(n)))) for n in range(4_500)],
                rows=[(OTHER, chunk)],
                mail=[(OTHER, b"one"), ("third", b"t"), (OTHER, b"two")],
            )
        )
        read = letters(store)
        assert [each.kind for each in read] == ["found", "found", "found", "rows", "mail", "mail"]
        assert [len(each.found) for each in read] == [2_000, 2_000, 500, 0, 0, 0]
        assert [each.data for each in read[3:]] == [chunk, b"one", b"two"]
        assert store.outboxes()[OTHER].entries == 4_500 + rows
        assert store.ledger().sent == {OTHER: 4_500 + rows}
        assert store.outboxes()["third"].entries == 0


def test_what_was_taken_in_is_remembered(tmp_path: Path) -> None:
    """The number of a sender never goes down; what came from it adds up."""
    with opened(tmp_path) as store:
        store.commit(Batch(applied={"s": 3, "t": 1}, received={"s": 10}))
        store.commit(Batch(applied={"s": 2}, received={"s": 5, "t": 1}))
        store.commit(Batch(applied={"t": 4}))
    with opened(tmp_path, resume=True) as store:
        assert store.applied() == {"s": 3, "t": 4}
        assert store.ledger().received == {"s": 15, "t": 1}


def test_urls_are_small_on_their_way() -> None:
    """The links of a site's pages take a fraction of their keys; all that is known of them comes back."""
    random = Random(1)
    found = [
        Found(
            k(f"{random.choice(['news', 'shop'])}/{n % 30}/article-{random.randrange(10**6)}.html"),
            n % 4,
            k(f"page/{n // 40}"),
            VIAS[n % 2],
            n % 3,
        )
        for n in range(1_000)
    ]
    piece = mail.pack_found(found)
    assert sorted(mail.unpack(piece).found) == sorted(found)
    assert len(piece) < 20 * len(found)


@pytest.mark.parametrize("piece", [mail.pack_found([Found(k("x"))]), mail.pack_mail(b"letter")])
def test_damaged_pieces_are_refused(piece: bytes) -> None:
    """A piece that was cut, or of which any bit is wrong, is a ValueError and nothing else."""
    for length in range(len(piece)):
        with pytest.raises(ValueError, match="damaged"):
            mail.unpack(piece[:length])
    for at in range(len(piece)):
        with pytest.raises(ValueError, match="damaged"):
            mail.unpack(piece[:at] + bytes([piece[at] ^ 4]) + piece[at + 1 :])


def test_urls_that_make_no_sense_are_refused() -> None:
    """What another program may have packed is a ValueError too."""
    whole = mail.pack_found([Found(k("x"))])
    for body in (b"", b"\x01nonsense", whole[5:-1]):
        with pytest.raises(ValueError, match="make no sense"):
            mail.unpack(mail._piece("found", body))


def test_a_commit_that_failed_sends_nothing_and_can_be_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Outbox, numbers and rows change together, or not at all."""
    with opened(tmp_path) as store:
        store.commit(Batch(mail=[(OTHER, b"first")]))
        batch = Batch(passed=[Passed(OTHER, Found(k("x")))], acked={OTHER: 1}, applied={"s": 4})

        def full(_: object) -> None:
            raise DiskFull("full")

        monkeypatch.setattr(store._database, "write", full)
        with pytest.raises(DiskFull):
            store.commit(batch)
        monkeypatch.undo()
        assert letters(store) == [Letter("mail", [], b"first")]
        assert store.applied() == {}
        store.commit(batch)
        assert letters(store) == [Letter("found", [Found(k("x"))], b"")]
        assert store.applied() == {"s": 4}
        assert store.ledger().sent == {OTHER: 1}


def test_outboxes_are_read_while_commits_run(tmp_path: Path) -> None:
    """One thread puts pieces in and takes them out, another reads: it sees pieces in order, and whole."""
    with opened(tmp_path) as store:
        stop = threading.Event()
        broken: list[object] = []

        def read() -> None:
            while not stop.is_set():
                pieces = store.outgoing(OTHER, 0, 1 << 20)
                numbers = [number for number, _ in pieces]
                said = [int(mail.unpack(piece).data) for _, piece in pieces]
                if said != numbers or numbers != sorted(numbers):
                    broken.append(pieces)
                store.outboxes()

        thread = threading.Thread(target=read)
        thread.start()
        for n in range(1, 200):
            store.commit(Batch(mail=[(OTHER, str(n).encode())], acked={OTHER: n - 5}))
        stop.set()
        thread.join()
        assert not broken


def exchange(place: Path, seed: int) -> None:
    """Two stores find URLs, pass them on, take them in and hand them over, for ever."""
    random = Random(seed)
    stores = [Store.open(place / name, SETTINGS, resume=True) for name in ("one", "two")]
    number = max(int(each.rpartition("\4")[2]) for s in stores for each in ["\x040", *dict(s.scan(""))])
    while True:
        store, other = random.sample(stores, 2)
        found = [Found(k(str(number + 1 + n)), parent=k("0")) for n in range(random.randrange(40))]
        number += len(found)
        ours = len(found) // 2
        done = [
            Finished(key=each.key, state=State.DONE, status=200, at=time.time(), attempts=1)
            for each in store.next_of(host_of(k("")), random.randrange(20), now=0.0)
        ]
        acked = other.applied().get(store.identity, 0)
        passed = [Passed(other.identity, each) for each in found[ours:]]
        store.commit(Batch(done, found[:ours], passed=passed, acked={other.identity: acked}))
        if random.random() < 0.3:
            start = k(str(random.randrange(number + 1)))
            keys, _ = store.keys(start, None, 20, Which.HELD)
            chunk, _, _ = store.chunk(start, None, 20)
            store.commit(Batch(released=keys, rows=[(other.identity, chunk)] if keys else []))
        take_in(store, other, random.randrange(2_000))
        os.write(1, f"{number}\n".encode())


def take_in(store: Store, other: Store, max_bytes: int) -> None:
    """Take in what waits for a store in another's outbox."""
    batch = Batch()
    for at, piece in other.outgoing(store.identity, store.applied().get(other.identity, 0), max_bytes):
        letter = mail.unpack(piece)
        if letter.kind == "rows":
            batch.moved.append(letter.data)
        batch.found += letter.found
        batch.applied[other.identity] = at
        count = batch.received.get(other.identity, 0)
        batch.received[other.identity] = count + mail.entries_of(piece)
    store.commit(batch)


def check(place: Path, said: int) -> None:
    """Every URL is in one place: accepted by one store, or on its way; ledgers and counts agree."""
    stores = [Store.open(place / name, SETTINGS, resume=True) for name in ("one", "two")]
    places: Counter[str] = Counter()
    for store, other in (stores, stores[::-1]):
        ledger, counts = store.ledger(), store.counts()
        assert ledger.accepted + ledger.moved_in - ledger.moved_out - ledger.erased == counts.accepted
        after = other.applied().get(store.identity, 0)
        pieces = store.outgoing(other.identity, after, 1 << 30)
        waiting = [key for _, piece in pieces for key in keys_in(piece)]
        outbox = store.outboxes().get(other.identity, Outbox(1, 1, 0, 0))
        assert [number for number, _ in pieces] == list(range(max(outbox.first, after + 1), outbox.next))
        received = other.ledger().received.get(store.identity, 0)
        assert ledger.sent.get(other.identity, 0) == received + len(waiting)
        here, _ = store.keys("", None, 10**6, Which.HELD)
        assert len(here) == counts.accepted
        places.update([*here, *waiting])
        given = [each.key for each in store.next_of(host_of(k("")), 10**6, now=0.0)]
        assert sorted(given) == [key for key, row in store.scan("") if row.state is State.QUEUED]
    assert set(places.values()) <= {1}
    assert {k(str(n)) for n in range(1, said + 1)} <= set(places)
    for store in stores:
        store.close()


def keys_in(piece: bytes) -> list[str]:
    """The keys of the URLs in a piece."""
    letter = mail.unpack(piece)
    return moving.unpack(letter.data).keys if letter.kind == "rows" else [each.key for each in letter.found]


def test_a_killed_process_loses_nothing_that_it_passed_on(tmp_path: Path) -> None:
    """After SIGKILL at any moment every URL is on one of the disks, or waits in the other's outbox, once."""
    random = Random(5)
    said = 0
    for seed in range(KILLS):
        command = [sys.executable, "-m", "tests.test_store_outbox", str(tmp_path), str(seed)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            first = process.stdout.readline()
            timer = threading.Timer(random.uniform(0, 0.3), process.send_signal, [signal.SIGKILL])
            timer.start()
            lines = (first + process.stdout.read()).split(b"\n")[:-1]
        said = max([said, *map(int, lines)])
        check(tmp_path, said)
    assert said > 100


if __name__ == "__main__":
    exchange(Path(sys.argv[1]), int(sys.argv[2]))
