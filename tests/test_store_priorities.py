"""What rankings say is kept for the URLs that are here, and for no others."""

from __future__ import annotations

from pathlib import Path

import pytest

from gcs import config
from gcs.core.ranking import Priority
from gcs.core.urls import key
from gcs.store.queue import Bounds
from gcs.store.records import Batch, Finished, Found, Passed, State, host_of
from gcs.store.store import Store

SETTINGS = config.Store(keep_free_bytes=0)
A, B, C, D = (key(f"http://a.com/{name}") for name in "abcd")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store that has queued A and B, and passed C on."""
    store = Store.open(tmp_path / "store", SETTINGS, resume=False)
    store.commit(Batch(found=[Found(A), Found(B)], passed=[Passed("0123456789ab", Found(C))]))
    return store


def test_priorities_of_what_is_here(store: Store, tmp_path: Path) -> None:
    """They outlive the process; what was passed on and what is unknown gets none."""
    given = [Priority(each, 3.0, 7.5) for each in (A, C, D)]
    store.commit(Batch(priorities=given))
    store.close()
    with Store.open(tmp_path / "store", SETTINGS, resume=True) as again:
        assert again.priorities([D, C, B, A]) == [None, None, None, Priority(A, 3.0, 7.5)]


def test_the_last_ranking_counts(store: Store) -> None:
    """What a later batch says replaces what was said before."""
    with store:
        store.commit(Batch(priorities=[Priority(A, 1.0, 1.0), Priority(B, 2.0, 2.0)]))
        store.commit(Batch(priorities=[Priority(A, 9.0, 10.0)]))
        assert store.priorities([A, B]) == [Priority(A, 9.0, 10.0), Priority(B, 2.0, 2.0)]


@pytest.mark.parametrize("how", ["erased", "released"])
def test_gone_with_the_row(store: Store, how: str) -> None:
    """A URL that is erased, or released to another gatherer, has no priority any more, nor gets one then."""
    with store:
        store.commit(Batch(priorities=[Priority(A, 1.0, 1.0)]))
        gone = Batch(erased=[A, B]) if how == "erased" else Batch(released=[A, B])
        gone.priorities.append(Priority(B, 1.0, 1.0))
        store.commit(gone)
        assert store.priorities([A, B]) == [None, None]


def test_priorities_change_hands(store: Store, tmp_path: Path) -> None:
    """What was said of a URL goes with its row, unless its new owner was told something itself."""
    given = [Priority(A, 3.0, 7.5), Priority(B, 2.0, 4.0)]
    with store, Store.open(tmp_path / "other", SETTINGS, resume=False) as other:
        store.commit(Batch(priorities=given))
        done = Finished(key=B, state=State.DONE, status=200, at=1.0, attempts=1)
        store.commit(Batch(finished=[done]))
        other.commit(Batch(found=[Found(B)]))
        other.commit(Batch(priorities=[Priority(B, 9.0, 9.0)]))
        chunk, count, _ = store.chunk("", None)
        committed = other.commit(Batch(moved=[chunk]))
        assert (count, set(committed.ranked)) == (2, {A, B})
        assert other.priorities([A, B]) == [Priority(A, 3.0, 7.5), Priority(B, 9.0, 9.0)]
        assert other.has_priorities
        other.commit(Batch(moved=[chunk], erased=[A]))
        assert other.priorities([A]) == [None]


def test_what_is_wanted_most_is_fetched_first(tmp_path: Path) -> None:
    """Those of a host that are ranked above the mean come first, in order, then the others; each once."""
    keys = [key(f"http://a.com/{number}") for number in range(40)]
    store = Store.open(tmp_path / "other", SETTINGS, resume=False)
    store.commit(Batch(found=[Found(each) for each in keys[:20]]))
    store.commit(Batch(found=[Found(each) for each in keys[20:]]))
    host = host_of(keys[0])
    (taken,) = store.next_of(host, 1, now=0.0)
    ranked = {keys[0]: 100.0, keys[7]: 30.0, keys[33]: 50.0}
    store.commit(Batch(priorities=[Priority(each, ranked.get(each, 1.0), 1.0) for each in keys]))
    before = store.counts()
    first = [each.key for each in store.next_of(host, 10, now=0.0)]
    assert taken.key == keys[0]
    assert first[:3] == [keys[33], keys[7], keys[1]]
    store.close()
    with Store.open(tmp_path / "other", SETTINGS, resume=True) as again:
        assert again.counts() == before
        every = [each.key for each in again.next_of(host, 100, now=0.0)]
        assert every[:2] == [keys[33], keys[7]]
        assert sorted(every) == sorted(keys)


def test_what_was_not_in_memory_is_fetched_first_too(tmp_path: Path) -> None:
    """A URL that waits on disk only is found in its new place, and not in its old one."""
    keys = [key(f"http://a.com/{number:03}") for number in range(100)]
    bounds = Bounds(window=10, band_window=10)
    with Store.open(tmp_path / "other", SETTINGS, resume=False, bounds=bounds) as store:
        for start in range(0, 100, 10):
            store.commit(Batch(found=[Found(each) for each in keys[start : start + 10]]))
        store.commit(Batch(priorities=[Priority(each, float(each == keys[90]), 0.0) for each in keys]))
        every: list[str] = []
        while some := store.next_of(host_of(keys[0]), 7, now=0.0):
            every += [each.key for each in some]
        assert every[0] == keys[90]
        assert sorted(every) == keys
