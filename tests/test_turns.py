"""Turns: lines that several gatherers share are asked as one gatherer would ask them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, Protocol, cast

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from gcs.board import Board
from gcs.config import Fetch
from gcs.core.holdings import Charter, Holdings
from gcs.core.placement import Plan
from gcs.core.politeness import OPEN_REQUESTS, OPEN_S, Manner, Workbench
from gcs.core.traps import Fingerprint, Novelty
from gcs.core.turns import NOBODY, LastUse, doubtful_s, is_shared, name_range, overlaps, rest_s
from gcs.core.urls import AFTER, PATH, key
from gcs.gatherer.exchange import Exchange, end_marker, manners, traps
from gcs.gatherer.manners import Hosts
from gcs.gatherer.node import Node, Received
from gcs.gatherer.turns import SPARE_S, Turns, say_private
from gcs.store.records import host_of
from tuplespace import Space, Unavailable, memory
from tuplespace.backend import Fence, Grant, Terms
from tuplespace.bag import Bag
from tuplespace.fields import Item
from tuplespace.memory import MemoryBackend

INDEX = {"turn": (1, 2), "mark": (1, 2)}
DELAY_S = 1.0
FETCH = replace(Fetch(), delay_s=DELAY_S, delay_factor=0.0, connect_timeout_s=1.0)
LEASE_S = 2 * (FETCH.connect_timeout_s + SPARE_S)


# The pure part

HOST = host_of(key("http://example.org/"))
KEYS = [
    key(url)
    for url in (
        "http://example.com/",
        "http://example.org/",
        "http://example.org/a",
        "http://example.org/b?c",
        "http://example.org:8080/",
        "https://example.org/",
        "http://www.example.org/",
        "http://example.orgs/",
    )
]


def test_a_name_has_all_its_schemes_and_ports() -> None:
    """The range of a name has the URLs at all its schemes and ports, and none of another name."""
    start, end = name_range("example.org")
    inside = [each for each in KEYS if start <= each < end]
    assert inside == [each for each in KEYS if each.startswith(HOST.partition("\x01")[0] + "\x01")]
    assert len(inside) == 5


@given(st.lists(st.sampled_from(KEYS), unique=True), st.data())
def test_a_name_is_shared_unless_all_of_it_is_held(borders: list[str], data: st.DataObject) -> None:
    """A name is one gatherer's own exactly if no other owns a part of it."""
    starts = sorted({"", *borders})
    owners = [data.draw(st.sampled_from("ab")) for _ in starts]
    plan = Plan.of(zip(starts, owners, strict=True))
    charter = Charter(epoch=1, owners=plan, sources=Plan(("",), (NOBODY,)), members={"a": "a", "b": "b"})
    holdings = Holdings().adopted(charter, "a")
    start, end = name_range("example.org")
    probes = [start, *(each for each in starts if start <= each < end)]
    assert is_shared("example.org", holdings) == any(plan.owner(each) != "a" for each in probes)
    assert is_shared("@192.0.2.1", holdings)


@given(
    st.builds(LastUse, st.sampled_from(["", "a", "b"]), st.floats(0, 1e4), st.floats(0, 100)),
    st.booleans(),
    st.floats(0, 1e4),
)
def test_a_turn_from_another_begins_with_the_whole_distance(last: LastUse, again: bool, now: float) -> None:
    """Only who used a line last, and knows it, may go on at once."""
    rest = rest_s(last, "a", now, again=again, delay_s=DELAY_S)
    if last.by == "a" and not again:
        assert rest == 0.0
    else:
        assert rest >= max(DELAY_S, last.distance_s)
        assert now + rest >= last.free_at - 1e-6


@pytest.mark.parametrize(
    ("started_s", "planned_s", "from_nothing", "expected"),
    [
        (5.0, 60.0, False, 25.0),
        (31.0, 60.0, False, 0.0),
        (5.0, 3.0, True, 0.0),
        (5.0, 60.0, True, 25.0),
    ],
    ids=["started again", "long ago", "for the first time", "without all that there was"],
)
def test_a_server_that_was_started_may_have_forgotten(
    started_s: float, planned_s: float, from_nothing: bool, expected: float
) -> None:
    """Until a lease has passed since, unless there was nothing to forget."""
    assert doubtful_s(started_s, planned_s, 30.0, from_nothing=from_nothing) == expected


@given(st.sampled_from(KEYS), st.sampled_from(KEYS))
def test_a_host_overlaps_the_ranges_that_have_keys_of_it(start: str, end: str) -> None:
    """A range is about a host if keys of the host can lie in it."""
    possible = [HOST + PATH, *(each for each in KEYS if host_of(each) == HOST), start]
    some = any(start <= each < end and HOST + PATH <= each < HOST + AFTER for each in possible)
    assert overlaps(HOST, start, end) == some or start >= end


# The workbench


@dataclass
class Noted:
    """Permits that share everything, and note what the workbench says."""

    wanted: list[str] = field(default_factory=list)
    is_spent: list[str] = field(default_factory=list)
    shared: bool = True

    def is_shared(self, line: str) -> bool:
        return self.shared

    def want(self, line: str) -> None:
        self.wanted.append(line)

    def spent(self, line: str) -> None:
        self.is_spent.append(line)


def bench(permits: Noted, *, delay_s: float = DELAY_S) -> Workbench:
    """A workbench with one host, which is awake."""
    made = Workbench(1, 4, delay_s, 0.0, 60.0, permits=permits)
    made.locate("h", ["192.0.2.1"], "example.org")
    made.wake("h", 0.0)
    return made


def use(workbench: Workbench, now: float) -> None:
    """Make one request."""
    turn = workbench.take(now)
    assert turn is not None
    workbench.sent(turn, now)
    workbench.done(turn, now)


def test_a_shared_line_is_shut_until_it_is_opened() -> None:
    """A host waits for its name first, then for its address; each is wanted once, and rests when opened."""
    permits = Noted()
    workbench = bench(permits)
    assert workbench.take(0.0) is None
    assert workbench.take(1.0) is None
    assert permits.wanted == ["example.org"]
    assert workbench.open("example.org", 1.0, rest_s=2.0, sure_until=100.0)
    assert workbench.take(2.9) is None
    assert workbench.take(3.0) is None
    assert permits.wanted == ["example.org", "@192.0.2.1"]
    assert workbench.open("@192.0.2.1", 3.0, rest_s=1.0, sure_until=100.0)
    assert workbench.take(3.9) is None
    use(workbench, 4.0)
    assert not permits.is_spent


def test_a_line_is_open_for_some_requests() -> None:
    """After so many requests, or so long, nothing more is begun, and the line is spent."""
    for step_s, expected in ((0.1, OPEN_REQUESTS), (2.0, 3)):
        permits = Noted()
        workbench = bench(permits, delay_s=0.1)
        workbench.take(0.0)
        workbench.open("example.org", 0.0, rest_s=0.0, sure_until=1e9)
        workbench.take(0.0)
        workbench.open("@192.0.2.1", 0.0, rest_s=0.0, sure_until=1e9)
        now, count = 0.0, 0
        while not workbench.is_overdue("example.org", now) and (turn := workbench.take(now)) is not None:
            workbench.done(turn, now)
            count += 1
            now += step_s
        assert count == expected
        workbench.retire("example.org", now)
        assert "example.org" in permits.is_spent
        free_at, distance_s = workbench.shut("example.org", now)
        assert free_at >= now
        assert distance_s == 0.1
        before = len(permits.wanted)
        workbench.offer("example.org", now + 1)
        workbench.take(now + 1)
        assert permits.wanted[before:].count("example.org") == 1


def test_nothing_is_begun_when_a_lease_may_have_ended() -> None:
    """Past the time until which it is sure, a line is not used, although it is open."""
    permits = Noted()
    workbench = bench(permits)
    workbench.take(0.0)
    workbench.open("example.org", 0.0, rest_s=0.0, sure_until=3.0)
    workbench.take(0.0)
    workbench.open("@192.0.2.1", 0.0, rest_s=0.0, sure_until=100.0)
    use(workbench, 1.0)
    assert workbench.take(3.0) is None
    assert workbench.is_overdue("example.org", 3.0)


def test_a_line_that_becomes_shared_is_sought_while_it_is_used() -> None:
    """Others must not have the turn of a line on which a request is still under way here."""
    permits = Noted(shared=False)
    workbench = bench(permits)
    turn = workbench.take(0.0)
    assert turn is not None
    permits.shared = True
    workbench.review(0.0)
    assert set(permits.wanted) == {"example.org", "@192.0.2.1"}
    assert workbench.open("example.org", 0.5, rest_s=1.0, sure_until=100.0)
    workbench.sleep("h")
    assert not permits.is_spent
    workbench.done(turn, 2.0)
    assert permits.is_spent == ["example.org"]


def test_a_line_that_is_shared_no_longer_is_free() -> None:
    """A name that is all this gatherer's own needs no turn."""
    permits = Noted()
    workbench = bench(permits)
    assert workbench.take(0.0) is None
    permits.shared = False
    workbench.review(1.0)
    use(workbench, 1.0)
    assert not workbench.open("example.org", 1.0, rest_s=0.0, sure_until=100.0)


def test_a_line_is_not_kept_for_a_host_that_waits_for_another() -> None:
    """An address is put back when all that could use it wait for their names."""
    permits = Noted()
    workbench = bench(permits)
    workbench.take(0.0)
    assert permits.wanted == ["example.org"]
    assert not workbench.open("@192.0.2.1", 0.0, rest_s=0.0, sure_until=100.0)


def test_without_a_delay_nothing_is_shared() -> None:
    """With a delay of 0 there is no distance to keep, and nobody is asked for anything."""
    permits = Noted()
    workbench = bench(permits, delay_s=0.0)
    workbench.review(0.0)
    use(workbench, 0.0)
    use(workbench, 0.0)
    assert not permits.wanted
    assert workbench.asked() == []


def test_manners_go_with_a_host() -> None:
    """What a host is owed, another workbench keeps to: its rest, its crawl-delay and its failures."""
    one, two = Workbench(1, 4, 1.0, 0.0, 60.0), Workbench(1, 4, 1.0, 0.0, 60.0)
    one.locate("h", ["192.0.2.1"], "example.org")
    one.set_crawl_delay("h", 7.0)
    one.wake("h", 0.0)
    turn = one.take(0.0)
    assert turn is not None
    one.sent(turn, 0.0)
    assert one.asked() == ["h"]
    one.done(turn, 0.5, failed=True, pause_s=20.0)
    assert one.asked() == []
    assert one.manners(1.5) == [Manner("h", 19.0, 7.0, 1)]
    two.recall(Manner("h", 19.0, 7.0, 1), 100.0)
    two.locate("h", ["192.0.2.1"], "example.org")
    two.wake("h", 100.0)
    assert two.take(118.9) is None
    assert two.failures("h") == 1
    use(two, 119.0)
    assert two.next_at() == 126.0


def test_manners_are_those_of_the_range() -> None:
    """A range that leaves waits for its hosts' requests, and takes along what concerns them."""
    now = 0.0
    one, two = Workbench(1, 4, 1.0, 0.0, 60.0), Workbench(1, 4, 1.0, 0.0, 60.0)
    names = {"example.org": HOST, "example.com": host_of(key("http://example.com/"))}
    for name, host in names.items():
        one.locate(host, [name], name)
        one.wake(host, now)
    turns = [one.take(now), one.take(now)]
    asking: list[str] = []
    novelty = Novelty()
    for number in range(10):
        for host in ("example.com", "example.org"):
            novelty.seen(key(f"http://{host}/endless/{number}"), Fingerprint(1, 2))
    hosts = Hosts(one, novelty, lambda: now, asking)
    assert hosts.are_asked(HOST + PATH, None)
    for turn in turns:
        assert turn is not None
        one.done(turn, now, pause_s=10.0)
    asking.append(HOST)  # for its rules, which have no row
    hosts.look_again()
    assert hosts.are_asked(HOST + PATH, None)
    asking.clear()
    hosts.look_again()
    assert not hosts.are_asked(HOST + PATH, None)
    known = hosts.manners(HOST + PATH + "m", None)
    assert known == [Manner(HOST, 10.0, 0.0, 0)]
    dry = hosts.traps(HOST + PATH + "m", None)
    assert {each.host for each in dry} == {HOST}
    assert max(each.exact for each in dry) >= 9
    heard: list[Manner] = []
    crawl = SimpleNamespace(recall=heard.extend, novelty=Novelty())
    store = SimpleNamespace(applied=dict)
    exchange = Exchange(cast(Node, SimpleNamespace(store=store, crawl=crawl)), cast(Board, None))
    received = Received()
    for letter in (*manners(known), *traps(dry), end_marker(HOST + PATH + "m", None, 0.0)):
        exchange._heed("sender", letter, received, is_lost=False)
    assert received.ends == [("sender", (HOST + PATH + "m", None))]
    assert list(crawl.novelty.dry()) == dry
    for manner in heard:
        two.recall(manner, 50.0)
    two.wake(HOST, 50.0)
    assert two.next_at() == 60.0


# Several gatherers


@dataclass
class Gatherer:
    """A workbench with turns, and what it has asked for."""

    name: str
    turns: Turns
    bench: Workbench
    log: list[tuple[float, str, str]]
    work: dict[str, int]

    async def crawl(self) -> None:
        """Ask until nothing is left."""
        while any(self.work.values()):
            turn = self.bench.take(trio.current_time())
            if turn is None:
                await trio.sleep(0.05)
                continue
            self.log.append((trio.current_time(), turn.host, self.name))
            self.bench.sent(turn, trio.current_time())
            await trio.sleep(0.01)
            self.work[turn.host] -= 1
            if not self.work[turn.host]:
                self.bench.sleep(turn.host)
            self.bench.done(turn, trio.current_time())


class Make(Protocol):
    """Makes a gatherer that has some work, in a nursery of its own if one is given."""

    def __call__(
        self,
        name: str,
        work: dict[str, int],
        addresses: dict[str, list[str]],
        *,
        nursery: trio.Nursery | None = None,
    ) -> Gatherer:
        """Make one."""


@asynccontextmanager
async def together(
    met: Mapping[str, int] = {}, *, had_life: bool = False
) -> AsyncIterator[tuple[Make, trio.Nursery, list[tuple[float, str, str]], Space]]:
    """How to make gatherers on one space, a nursery for them, their log, and the space.

    `met` is which start of the server each of them says to have met.
    """
    log: list[tuple[float, str, str]] = []
    async with memory.connect() as client:
        space = client.space("turns", index=INDEX)

        def make(
            name: str,
            work: dict[str, int],
            addresses: dict[str, list[str]],
            *,
            nursery: trio.Nursery | None = None,
        ) -> Gatherer:
            now = trio.current_time
            turns = Turns(
                *(space, FETCH, name, lambda _: True),
                clock=now,
                planned_s=now,
                have_met=lambda start, _: bool(met) and set(met.values()) == {start},
                had_life=had_life,
            )
            workbench = Workbench(1, 4, DELAY_S, 0.0, 60.0, permits=turns)
            turns.attach(workbench, lambda: None)
            for host in work:
                workbench.locate(host, addresses[host], host.partition(" ")[0])
                workbench.wake(host, trio.current_time())
            (nursery or all_of_them).start_soon(turns.run)
            return Gatherer(name, turns, workbench, log, work)

        async with trio.open_nursery() as all_of_them:
            yield make, all_of_them, log, space
            all_of_them.cancel_scope.cancel()


def check(log: list[tuple[float, str, str]], addresses: dict[str, list[str]]) -> None:
    """Requests to a host, and to an address, keep the delay, whoever makes them."""
    for names in (
        lambda host: [host.partition(" ")[0]],
        lambda host: addresses[host],
    ):
        at: dict[str, list[float]] = {}
        for when, host, _ in log:
            for name in names(host):
                at.setdefault(name, []).append(when)
        for times in at.values():
            assert min((b - a for a, b in pairwise(times)), default=DELAY_S) >= DELAY_S - 1e-6


@pytest.mark.virtual_time
@pytest.mark.parametrize("count", [1, 2, 3])
async def test_hosts_and_addresses_of_several(count: int) -> None:
    """However hosts share names and addresses, all gatherers together keep the delay, and all finish."""
    addresses = {
        "a.test": ["1"],
        "b.test": ["1", "2"],
        "c.test": ["2", "3"],
        "c.test https": ["3"],
        "d.test": ["1", "2", "3"],
    }
    async with together() as (make, _, log, _), trio.open_nursery() as crawls:
        for number in range(count):
            work = {host: 8 for place, host in enumerate(addresses) if (place + number) % 3}
            crawls.start_soon(make(f"g{number}", work, addresses).crawl)
    check(log, addresses)
    assert {name for _, _, name in log} == {f"g{number}" for number in range(count)}


@pytest.mark.virtual_time
async def test_alone_at_a_shared_line() -> None:
    """Who has a turn again after itself goes on without a further rest."""
    async with together() as (make, _, log, space):
        await make("a", {"h": 30}, {"h": ["1"]}).crawl()
        await trio.sleep(1)
        assert (await space.statistics()).leased == 0
        assert await space.count("turn", "h", "a", str, float, float) == 1
    times = [when for when, _, _ in log]
    check(log, {"h": ["1"]})
    # A new turn begins with a rest, for the name and then for the address.
    assert times[-1] - times[0] < 31 * DELAY_S


@pytest.mark.virtual_time
async def test_turns_are_made_once() -> None:
    """When many make the same turn at once one remains, which all take."""
    async with together() as (make, _, log, space):
        async with trio.open_nursery() as crawls:
            for number in range(5):
                crawls.start_soon(make(f"g{number}", {"h": 3}, {"h": ["1"]}).crawl)
        assert await space.count("mark", "h", str) == 1
        assert await space.count("mark", "@1", str) == 1
        await trio.sleep(30)
        statistics = await space.statistics()
        assert (statistics.waiting, statistics.leased) == (4, 0)
    check(log, {"h": ["1"]})
    assert len(log) == 15


@pytest.mark.virtual_time
async def test_a_holder_that_dies() -> None:
    """The turn of one that died comes back when its lease ends, and its next holder rests, whoever it is."""
    async with together() as (make, _, log, space):
        await space.out("mark", "h", "a")
        await space.out("turn", "h", "a", "a", 0.0, 3.0)
        template = space._compile(("turn", "h", "a", str, float, float))
        # Nobody renews what was taken past the space.
        assert await space.backend.take(template, 1, Terms(20.0), wait=False) is not None
        began = trio.current_time()
        await make("a", {"h": 2}, {"h": ["1"]}).crawl()
    assert log[0][0] - began >= 20.0 + 3.0
    check(log, {"h": ["1"]})


@pytest.mark.virtual_time
@pytest.mark.parametrize("is_lent", [True, False])
async def test_a_holder_that_ends(is_lent: bool) -> None:
    """A helper may still ask for it: then the turn comes back when the lease ends, and at once otherwise."""
    async with together() as (make, _, log, _):
        other = make("b", {"h": 1}, {"h": ["1"]})
        async with trio.open_nursery() as ends:
            lender = make("a", {"h": 1}, {"h": ["1"]}, nursery=ends)
            while (turn := lender.bench.take(trio.current_time())) is None:  # noqa: ASYNC110 - as `crawl` does
                await trio.sleep(0.05)
            lender.bench.sent(turn, trio.current_time())
            await trio.sleep(1.0)
            if not is_lent:
                lender.bench.done(turn, trio.current_time())
            began = trio.current_time()
            ends.cancel_scope.cancel()
        await other.crawl()
    assert (log[0][0] - began >= lender.turns._lease_s / 2) is is_lent


@pytest.mark.virtual_time
async def test_a_server_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """While leases cannot be renewed nothing is asked for that could be sent after them; then it goes on."""
    async with together() as (make, nursery, log, space):
        gatherer = make("a", {"h": 40}, {"h": ["1"]})
        nursery.start_soon(gatherer.crawl)
        await trio.sleep(4)
        assert len(log) > 1

        async def away(*_: object, **__: object) -> None:
            await trio.lowlevel.checkpoint()
            raise Unavailable("away")

        with monkeypatch.context() as patch:
            for step in ("take", "renew", "commit", "read", "out"):
                patch.setattr(space.backend, step, away)
            left_at = trio.current_time()
            await trio.sleep(30)
        assert max(when for when, _, _ in log) < left_at + OPEN_S
        before = len(log)
        await trio.sleep(20)
        assert len(log) > before + 5
    check(log, {"h": ["1"]})


@pytest.mark.virtual_time
@pytest.mark.parametrize("is_made", [True, False], ids=["who has a turn", "that there is a turn"])
async def test_what_a_server_has_forgotten(is_made: bool) -> None:
    """Nobody asks where another one may think that it has the turn, until its lease has ended in any case."""
    addresses = {"h": ["1"]}
    async with together() as (make, nursery, log, space):
        bag = cast(MemoryBackend, space.backend)._bag
        if is_made:
            for line in ("h", "@1"):
                await space.out_many([("mark", line, "x"), ("turn", line, "x", NOBODY, 0.0, DELAY_S)])
        one, two = (make(name, {"h": 60}, addresses) for name in "ab")
        await trio.sleep(2 * LEASE_S)
        kept = bag.snapshot()
        nursery.start_soon(one.crawl)
        await trio.sleep(3)
        bag.restore(kept)
        bag.start(started := trio.current_time())
        nursery.start_soon(two.crawl)
        await trio.sleep(2 * LEASE_S)
    check(log, addresses)
    assert [when for when, _, name in log if name == "a" and when > started]
    assert next(when for when, _, name in log if name == "b") >= started + LEASE_S


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    "had_life", [False, True], ids=["from the beginning", "and was started shortly before"]
)
async def test_a_server_that_all_have_met_since_it_has_forgotten(had_life: bool) -> None:
    """Nobody waits for leases on which nobody relies; who was just started may have lent something before."""
    addresses = {"h": ["1"]}
    met: dict[str, int] = {}
    async with together(met, had_life=had_life) as (make, nursery, log, space):
        bag = cast(MemoryBackend, space.backend)._bag
        for line in ("h", "@1"):
            await space.out_many([("mark", line, "x"), ("turn", line, "x", NOBODY, 0.0, DELAY_S)])
        bag.start(trio.current_time())
        began = trio.current_time()
        one, two = (make(name, {"h": 60}, addresses) for name in "ab")
        await trio.sleep(LEASE_S - 4)

        async def meet(gatherer: Gatherer) -> None:
            while True:
                met[gatherer.name] = await gatherer.turns.meet()
                await trio.sleep(1)

        for each in (one, two):
            nursery.start_soon(meet, each)
        kept = bag.snapshot()
        nursery.start_soon(one.crawl)
        await trio.sleep(3 if had_life else 8)
        assert bool(log) != had_life
        bag.restore(kept)
        bag.start(started := trio.current_time())
        nursery.start_soon(two.crawl)
        await trio.sleep(2 * LEASE_S)
    check(log, addresses)
    first = next(when for when, _, name in log if name == "b")
    assert first < started + LEASE_S - 1
    assert not had_life or first >= began + LEASE_S


@pytest.mark.virtual_time
async def test_who_relies_on_a_forgotten_lease_has_not_met_the_server() -> None:
    """It says so when nothing is under way there any more, and begins nothing more until then."""
    async with together() as (make, nursery, log, space):
        bag = cast(MemoryBackend, space.backend)._bag
        for line in ("h", "@1"):
            await space.out_many([("mark", line, "x"), ("turn", line, "x", NOBODY, 0.0, DELAY_S)])
        kept = bag.snapshot()
        one = make("a", {"h": 60}, {"h": ["1"]})
        nursery.start_soon(one.crawl)
        await trio.sleep(3)
        start = await one.turns.meet()
        assert start == (await space.tenure()).start
        turn = one.bench.take(trio.current_time() + DELAY_S)
        assert turn is not None
        bag.restore(kept)
        bag.start(trio.current_time())
        asked = len(log)
        assert await one.turns.meet() == 0
        await trio.sleep(2)
        assert (await one.turns.meet(), len(log)) == (0, asked)
        one.bench.done(turn, trio.current_time())
        await trio.sleep(0.1)
        assert await one.turns.meet() == (await space.tenure()).start != start


@pytest.mark.virtual_time
@pytest.mark.parametrize("waits", [False, True])
async def test_a_turn_that_was_taken_before_a_start_that_was_met_meanwhile(
    monkeypatch: pytest.MonkeyPatch, waits: bool
) -> None:
    """An answer from before the start that comes after it was met lets nobody ask for anything."""
    async with together() as (make, nursery, log, space):
        backend = cast(MemoryBackend, space.backend)
        for line in ("h", "@1"):
            await space.out_many([("mark", line, "x"), ("turn", line, "x", NOBODY, 0.0, DELAY_S)])
        kept = backend._bag.snapshot()
        await trio.sleep(1)
        one = make("a", {"h": 60}, {"h": ["1"]})
        await one.turns.meet()
        step, held_up, answered = ("renew" if waits else "take"), trio.Event(), trio.Event()
        real: Any = getattr(backend, step)

        async def late(*given: Any, **more: Any) -> Any:
            result = await real(*given, **more)
            if given[0] and not held_up.is_set():
                held_up.set()
                await answered.wait()
            return result

        if waits:
            # What was waited for is renewed, and that is answered late.
            first = await space.take("turn", "h", "x", str, float, float).__aenter__()
            nursery.start_soon(one.crawl)
            await trio.sleep(1)
            monkeypatch.setattr(backend, step, late)
            await first.commit(out=[("turn", "h", "x", NOBODY, 0.0, DELAY_S)])
        else:
            monkeypatch.setattr(backend, step, late)
            nursery.start_soon(one.crawl)
        await held_up.wait()
        await trio.sleep(0.1)
        backend._bag.restore(kept)
        backend._bag.start(trio.current_time())
        start = await one.turns.meet()
        assert start == (await space.tenure()).start
        answered.set()
        await trio.sleep(0.1)
        assert not one.turns._held
        assert await one.turns.meet() == start
        assert log == []


@pytest.mark.virtual_time
async def test_who_asks_without_a_lease_has_not_met_the_server() -> None:
    """A line that becomes shared while something is under way there is nobody else's yet."""
    async with together() as (make, _, __, space):
        bag = cast(MemoryBackend, space.backend)._bag
        await space.out("x")
        bag.start(trio.current_time())
        one = make("a", {"h": 2}, {"h": ["1"]})
        one.turns.is_shared = lambda _: False
        one.bench.review(trio.current_time())
        turn = one.bench.take(trio.current_time())
        assert turn is not None
        assert await one.turns.meet()
        one.turns.is_shared = lambda _: True
        one.bench.review(trio.current_time())
        assert await one.turns.meet() == 0
        one.bench.done(turn, trio.current_time())
        assert await one.turns.meet()


@pytest.mark.virtual_time
@pytest.mark.parametrize("is_held", [False, True])
async def test_what_was_learned_is_said_again_if_the_server_may_have_forgotten_it(is_held: bool) -> None:
    """Others keep to a pause, though the turn was, or could not be, put back with it."""
    async with together() as (make, _, __, space):
        bag = cast(MemoryBackend, space.backend)._bag
        for line in ("h", "@1"):
            await space.out_many([("mark", line, "x"), ("turn", line, "x", NOBODY, 0.0, DELAY_S)])
        kept = bag.snapshot()
        one = make("a", {"h": 60}, {"h": ["1"]})
        await one.turns.meet()
        while (turn := one.bench.take(trio.current_time())) is None:  # noqa: ASYNC110 - nothing says so
            await trio.sleep(0.1)
        one.bench.sent(turn, trio.current_time())
        one.bench.set_crawl_delay("h", 20.0)
        if not is_held:
            one.bench.done(turn, trio.current_time())
            await trio.sleep(1)
            assert not one.turns._held
        bag.restore(kept)
        bag.start(trio.current_time())
        if is_held:
            assert await one.turns.meet() == 0
            one.bench.done(turn, trio.current_time())
            await trio.sleep(1)
        assert await one.turns.meet() == (await space.tenure()).start
        found = await space.rdp("turn", "h", "x", str, float, float)
        assert found is not None
        assert found[5] == 20.0


@pytest.mark.virtual_time
async def test_who_comes_after_a_server_has_forgotten_everything() -> None:
    """It cannot know that there was anything but by the plan, which is older than the server."""
    addresses = {"h": ["1"]}
    async with together() as (make, nursery, log, space):
        bag = cast(MemoryBackend, space.backend)._bag
        kept = bag.snapshot()
        await trio.sleep(LEASE_S)
        nursery.start_soon(make("a", {"h": 60}, addresses).crawl)
        await trio.sleep(3)
        bag.restore(kept)
        bag.start(started := trio.current_time())
        await trio.sleep(1)
        nursery.start_soon(make("b", {"h": 60}, addresses).crawl)
        await trio.sleep(2 * LEASE_S)
    check(log, addresses)
    assert next(when for when, _, name in log if name == "b") >= started + LEASE_S


@pytest.mark.virtual_time
async def test_a_turn_is_put_back_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that has forgotten it lets it be put back again, though another one has taken it between."""
    addresses = {"h": ["1"]}
    async with together() as (make, nursery, log, space):
        backend = cast(MemoryBackend, space.backend)
        for line in ("h", "@1"):
            await space.out_many([("mark", line, "x"), ("turn", line, "x", NOBODY, 0.0, DELAY_S)])
        one, two = (make(name, {"h": 60}, addresses) for name in "ab")
        await trio.sleep(2 * LEASE_S)
        commit, is_back = backend.commit, trio.Event()
        kept: list[Bag] = []

        async def unheard(
            grant: Grant, items: Sequence[Item], fence: Fence | None, *, patience_s: float
        ) -> None:
            is_mine = any(item.fields[0] == "turn" and item.fields[3] == "a" for item in items)
            if is_mine and not is_back.is_set():
                kept.append(backend._bag.snapshot())
                await commit(grant, items, fence, patience_s=patience_s)
                await is_back.wait()
            await commit(grant, items, fence, patience_s=patience_s)

        monkeypatch.setattr(backend, "commit", unheard)
        nursery.start_soon(one.crawl)
        nursery.start_soon(two.crawl)
        while not kept:  # noqa: ASYNC110 - nothing says so
            await trio.sleep(0.05)
        await trio.sleep(1.5)
        backend._bag.restore(kept[0])
        backend._bag.start(trio.current_time())
        is_back.set()
        await trio.sleep(2 * LEASE_S)
    check(log, addresses)
    assert {name for _, _, name in log} == {"a", "b"}


@pytest.mark.virtual_time
@pytest.mark.parametrize("is_private", [True, False])
async def test_a_server_that_nobody_outlives(is_private: bool) -> None:
    """When it is started again, those who used it before are gone; of others that is not known."""
    async with together() as (make, nursery, log, space):
        await space.out_many([("mark", "h", "x"), ("turn", "h", "x", "x", 0.0, DELAY_S)])
        if is_private:
            await say_private(space)
            await say_private(space)
        cast(MemoryBackend, space.backend)._bag.start(started := trio.current_time())
        nursery.start_soon(make("a", {"h": 1}, {"h": ["1"]}).crawl)
        await trio.sleep(2 * LEASE_S)
    assert (log[0][0] < started + LEASE_S) == is_private


@pytest.mark.virtual_time
async def test_a_turn_is_not_held_through_a_long_pause() -> None:
    """What is paused for long is put back at once, and all gatherers wait for the end of the pause."""
    addresses = {"h": ["1"]}
    async with together() as (make, _, log, space):
        await space.out("mark", "h", "x")
        await space.out("turn", "h", "x", "x", trio.current_time() + 100, DELAY_S)
        began = trio.current_time()
        async with trio.open_nursery() as crawls:
            crawls.start_soon(make("a", {"h": 2}, addresses).crawl)
            crawls.start_soon(make("b", {"h": 2}, addresses).crawl)
            await trio.sleep(50)
            assert await space.count("turn", "h", "x", str, float, float) == 1
    check(log, addresses)
    assert log[0][0] - began >= 100


@pytest.mark.virtual_time
async def test_turns_that_the_server_has_lost() -> None:
    """When a turn and its mark are gone, whoever wants it makes it again after a while."""
    async with together() as (make, _, log, space):
        gatherer = make("a", {"h": 2}, {"h": ["1"]})
        await gatherer.crawl()
        await trio.sleep(1)
        for line in ("h", "@1"):
            assert await space.inp("turn", line, "a", str, float, float) is not None
            assert await space.inp("mark", line, str) is not None
        gatherer.work["h"] = 2
        gatherer.bench.locate("h", ["2"], "h")
        gatherer.bench.wake("h", trio.current_time())
        await gatherer.crawl()
    assert len(log) == 4
    check(log, {"h": ["1"]})
