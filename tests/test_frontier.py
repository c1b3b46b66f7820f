"""What to fetch next: hosts that wake, sleep and wait, over a real store."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from gcs.config import Store as Settings
from gcs.core.politeness import Workbench
from gcs.core.urls import key
from gcs.fetch.outcome import Origin
from gcs.fetch.robots import Inquiry
from gcs.gatherer.frontier import Frontier
from gcs.gatherer.territory import Alone
from gcs.gatherer.under_way import UnderWay
from gcs.store.records import Batch, Finished, Found, State, host_of
from gcs.store.store import Store
from gcs.world import World

Parts = tuple[Store, Workbench]


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Parts]:
    """A store and a workbench without delays."""
    with Store.open(tmp_path / "store", Settings(keep_free_bytes=0), resume=False) as store:
        yield store, Workbench(1, 1, 0.0, 0.0, 1.0)


def queue(store: Store, *urls: str) -> list[str]:
    """Queue URLs, and say which hosts they have."""
    committed = store.commit(Batch(found=[Found(key(url)) for url in urls]))
    return list(dict.fromkeys(host_of(found.key) for found in committed.new))


def fetch_all(frontier: Frontier, bench: Workbench, store: Store) -> list[str]:
    """Take turns until nothing is left, and say what was fetched."""
    fetched: list[str] = []
    for now in range(1000):
        frontier.wake_due(float(now))
        while (site := frontier.unlocated()) is not None:
            frontier.located(site, (), float(now))
        taken = frontier.take(float(now))
        if taken is None:
            return fetched
        turn, site = taken
        job = frontier.next_job(site, float(now))
        assert job is not None
        fetched.append(job.url)
        bench.done(turn, float(now))
        done = Finished(key=job.queued.key, state=State.DONE, status=200, at=float(now), attempts=1)
        store.commit(Batch(finished=[done]))
    raise AssertionError("it does not end")


class Slow(World):
    """A world in which every look at the clock takes a hundredth of a second."""

    def __init__(self) -> None:
        super().__init__()
        self._seconds = 0.0

    def timer(self) -> float:
        self._seconds += 0.01
        return self._seconds


def test_hosts_are_woken_for_a_while_and_the_rest_later(parts: Parts) -> None:
    """Who is called when the time is over is found again in the store, and nobody is forgotten."""
    store, bench = parts
    frontier = Frontier(store, bench, rouse_s=0.035, world=Slow())
    hosts = queue(store, *[f"http://h{n}.test/" for n in range(20)])
    frontier.wake(hosts, 0.0)
    awake = [[host for host in hosts if frontier.site(host)]]
    for _ in range(20):
        frontier.wake_due(0.0)
        awake.append([host for host in hosts if frontier.site(host)])
    assert len(awake[0]) == 3
    assert all(len(later) - len(earlier) <= 3 for earlier, later in pairwise(awake))
    assert awake[-1] == hosts
    assert len(fetch_all(frontier, bench, store)) == 20


class TestErrands:
    """What a host is asked for the sake of others."""

    @staticmethod
    def _errand(target: str = "/robots.txt") -> Inquiry:
        asked = Origin("http", "b.test", 80)
        return Inquiry(Origin("http", "a.test", 80), asked, target)

    @staticmethod
    def _locate(frontier: Frontier) -> None:
        while (site := frontier.unlocated()) is not None:
            frontier.located(site, (), 0.0)

    def test_a_host_with_nothing_else_to_do_wakes_for_one(self, parts: Parts) -> None:
        """It has a turn for it, and sleeps afterwards; errands about the same are done at once."""
        store, bench = parts
        frontier = Frontier(store, bench)
        first, other, same = self._errand(), self._errand("/x"), self._errand()
        host = host_of(key("http://b.test/"))
        assert all(frontier.send(each, host, 0.0) for each in (first, other, same))
        self._locate(frontier)
        done = []
        while (taken := frontier.take(0.0)) is not None:
            turn, site = taken
            done.append(frontier.errands(site))
            bench.done(turn, 0.0)
            frontier.settle(site, 0.0)
        assert done == [[first, same], [other]]
        assert frontier.site(host) is None

    def test_one_that_is_dropped_keeps_nobody_awake(self, parts: Parts) -> None:
        store, bench = parts
        frontier = Frontier(store, bench)
        errand, host = self._errand(), host_of(key("http://b.test/"))
        frontier.send(errand, host, 0.0)
        frontier.drop(errand, host, 0.0)
        self._locate(frontier)
        assert frontier.take(0.0) is None

    def test_a_host_that_had_no_place_sleeps_again_and_is_not_forgotten(self, parts: Parts) -> None:
        """After its errand it does not stay awake beside those that may; it wakes when there is a place."""
        store, bench = parts
        frontier = Frontier(store, bench, awake=1)
        frontier.wake(queue(store, "http://a.test/1", "http://b.test/1"), 0.0)
        host = host_of(key("http://b.test/"))
        frontier.send(self._errand(), host, 0.0)
        site = frontier.site(host)
        assert site is not None
        frontier.errands(site)
        frontier.settle(site, 0.0)
        assert frontier.site(host) is None
        assert sorted(fetch_all(frontier, bench, store)) == ["http://a.test/1", "http://b.test/1"]

    def test_they_outlast_what_a_host_has_queued(self, parts: Parts) -> None:
        """Also when its URLs may not be fetched here any more."""
        store, bench = parts
        frontier = Frontier(store, bench)
        hosts = queue(store, "http://b.test/1")
        frontier.wake(hosts, 0.0)
        errand = self._errand()
        frontier.send(errand, hosts[0], 0.0)
        frontier.release([("", None)])
        self._locate(frontier)
        taken = frontier.take(0.0)
        assert taken is not None
        assert frontier.errands(taken[1]) == [errand]

    def test_a_host_that_is_set_aside_does_none(self, parts: Parts) -> None:
        """Those that wait come back when that is for long, and others are refused."""
        store, bench = parts
        frontier = Frontier(store, bench)
        errand, host = self._errand(), host_of(key("http://b.test/"))
        frontier.send(errand, host, 0.0)
        site = frontier.site(host)
        assert site is not None
        assert frontier.set_aside(site, 1.0, 0.0) == []
        assert frontier.set_aside(site, 1000.0, 0.0) == [errand]
        assert not frontier.send(errand, host, 0.0)

    def test_a_host_that_is_held_has_no_turn(self, parts: Parts) -> None:
        """But for errands, until it is resumed."""
        store, bench = parts
        frontier = Frontier(store, bench)
        frontier.wake(queue(store, "http://b.test/1"), 0.0)
        self._locate(frontier)
        taken = frontier.take(0.0)
        assert taken is not None
        turn, site = taken
        bench.give_back(turn, 0.0)
        frontier.hold(site)
        assert frontier.take(0.0) is None
        frontier.resume(site, 0.0)
        self._locate(frontier)
        assert frontier.take(0.0) is not None


def test_a_host_that_is_set_aside_gives_its_place_to_others(parts: Parts) -> None:
    """While a host must not be asked for long another has its place; then it goes on where it was."""
    store, bench = parts
    frontier = Frontier(store, bench, awake=1)
    frontier.wake(queue(store, "http://a.test/1", "http://a.test/2"), 0.0)
    site = frontier.unlocated()
    assert site is not None
    frontier.located(site, (), 0.0)
    taken = frontier.take(0.0)
    assert taken is not None
    bench.done(taken[0], 0.0)
    frontier.set_aside(site, 500.0, 0.0)
    # What is found meanwhile does not wake it.
    frontier.wake(queue(store, "http://a.test/3", "http://b.test/"), 0.0)
    assert fetch_all(frontier, bench, store) == ["http://b.test/"]
    frontier.wake_due(499.0)
    assert frontier.unlocated() is None
    frontier.wake_due(500.0)
    site = frontier.unlocated() or frontier.site(site.host)
    assert site is not None
    assert [queued.key for queued in site.window] == [key(f"http://a.test/{n}") for n in (1, 2, 3)]


def test_a_short_rest_keeps_the_place(parts: Parts) -> None:
    """A host that may be asked again soon stays awake, and is not asked before."""
    store, bench = parts
    frontier = Frontier(store, bench, awake=1)
    frontier.wake(queue(store, "http://a.test/1"), 0.0)
    site = frontier.unlocated()
    assert site is not None
    frontier.located(site, (), 0.0)
    frontier.set_aside(site, 5.0, 0.0)
    assert frontier.site(site.host) is site
    assert frontier.take(4.0) is None
    assert frontier.take(5.0) is not None


def test_more_hosts_than_may_be_awake(parts: Parts) -> None:
    """Hosts for which there was no room are found again, wherever they are in the order of keys."""
    store, bench = parts
    frontier = Frontier(store, bench, awake=2)
    urls = [f"http://{name}.test/{n}" for name in ("m", "z", "c") for n in range(3)]
    frontier.wake(queue(store, *urls), 0.0)
    frontier.wake_due(0.0)
    more = [f"http://{name}.test/" for name in ("a", "b", "y")]
    frontier.wake(queue(store, *more), 0.0)
    assert sorted(fetch_all(frontier, bench, store)) == sorted(urls + more)
    assert store.counts().queued == 0


def test_a_host_that_fell_asleep_during_a_fetch(parts: Parts) -> None:
    """Who holds on to a host that slept and woke again gets none of its URLs, and takes none from it."""
    store, bench = parts
    frontier = Frontier(store, bench)
    frontier.wake(queue(store, "http://h.test/1"), 0.0)
    held = frontier.unlocated()
    assert held is not None
    frontier.located(held, (), 0.0)
    taken = frontier.take(0.0)
    assert taken is not None
    assert frontier.next_job(held, 0.0) is not None
    assert frontier.site(held.host) is None
    frontier.wake(queue(store, "http://h.test/2"), 0.0)
    assert frontier.next_job(held, 0.0) is None
    current = frontier.site(held.host)
    assert current is not None
    assert current is not held
    bench.done(taken[0], 0.0)
    assert fetch_all(frontier, bench, store) == ["http://h.test/2"]


def test_what_was_not_fetched_is_given_back(parts: Parts) -> None:
    """URLs that were taken off the queue and not fetched are in it again."""
    store, bench = parts
    frontier = Frontier(store, bench)
    hosts = queue(store, *(f"http://h.test/{n}" for n in range(5)))
    frontier.wake(hosts, 0.0)
    frontier.give_back()
    assert len(store.next_of(hosts[0], 10, now=0.0)) == 5


class Shrinking(Alone):
    """A territory from which one URL can be taken away."""

    lost = ""

    def may_fetch(self, key: str) -> bool:
        """All but that one."""
        return key != self.lost


def test_what_is_put_back_is_not_next_once_it_belongs_to_others(parts: Parts) -> None:
    """A URL that was taken is the next of its host again, unless it may not be fetched here by then."""
    store, bench = parts
    territory = Shrinking()
    frontier = Frontier(store, bench, territory=territory)
    frontier.wake(queue(store, "http://a.test/1", "http://a.test/2", "http://a.test/3"), 0.0)
    while (site := frontier.unlocated()) is not None:
        frontier.located(site, (), 0.0)
    taken = frontier.take(0.0)
    assert taken is not None
    first, second = (frontier.next_job(taken[1], 0.0) for _ in range(2))
    assert first is not None
    assert second is not None
    territory.lost = first.queued.key
    assert not frontier.put_first(first)
    assert frontier.put_first(second)
    again = frontier.next_job(taken[1], 0.0)
    assert again is not None
    assert again.queued.key == second.queued.key


def test_what_is_put_back_wakes_no_host_for_which_there_is_no_place(parts: Parts) -> None:
    """A host that is awake for an errand only gets a URL back when others leave it a place."""
    store, bench = parts
    frontier = Frontier(store, bench, awake=1)
    (host,) = queue(store, "http://a.test/1")
    frontier.wake([host], 0.0)
    site = frontier.site(host)
    assert site is not None
    job = frontier.next_job(site, 0.0)
    assert job is not None
    frontier.wake(queue(store, "http://b.test/1"), 0.0)
    errand = Inquiry(Origin("http", "c.test", 80), Origin("http", "a.test", 80))
    assert frontier.send(errand, host, 0.0)
    assert not frontier.put_first(job)
    store.give_back([job.queued.key])
    frontier.drop(errand, host, 0.0)
    assert sorted(fetch_all(frontier, bench, store)) == ["http://a.test/1", "http://b.test/1"]


def test_what_is_taken_again_before_it_is_settled_stays_under_way(parts: Parts) -> None:
    """It is queued again as soon as a batch is written, of which nobody may know yet."""
    store, bench = parts
    frontier = Frontier(store, bench)
    visitor: Any = None
    under_way = UnderWay(store, frontier, visitor, lambda _: None, budget=None, epoch=int, clock=float)
    (host,) = queue(store, "http://a.test/1")
    url = key("http://a.test/1")
    for now in (0.0, 1.0):
        frontier.wake([host], now)
        while (found := frontier.unlocated()) is not None:
            frontier.located(found, (), now)
        taken = frontier.take(now)
        assert taken is not None
        turn, site = taken
        assert under_way.next_job(site, now) is not None
        bench.done(turn, now)
        store.commit(Batch(finished=[Finished(key=url, state=State.QUEUED, status=503, at=now, attempts=1)]))
    under_way.settled([url])
    assert list(under_way) == [url]
    for _ in range(2):  # what was not taken here may be settled too
        under_way.settled([url])
        assert not list(under_way)


def test_what_somebody_else_has_done_meanwhile_is_not_asked_for(parts: Parts, tmp_path: Path) -> None:
    """Its row comes with a range, or from one that was thought lost, when the URL is next of its host."""
    store, bench = parts
    frontier = Frontier(store, bench)
    urls = [f"http://a.test/{number}" for number in range(3)]
    frontier.wake(queue(store, *urls), 0.0)
    with Store.open(tmp_path / "other", Settings(keep_free_bytes=0), resume=False) as other:
        queue(other, *urls)
        for url, state in zip(urls, (State.DONE, State.DROPPED), strict=False):
            other.commit(
                Batch(finished=[Finished(key=key(url), state=state, status=200, at=1.0, attempts=1)])
            )
        packed, _, _ = other.chunk("", None)
    store.commit(Batch(moved=[packed]))
    assert fetch_all(frontier, bench, store) == urls[2:]
