"""The workbench: never too close, never too many, nobody starves, nothing is lost."""

from __future__ import annotations

import random
from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    precondition,
    rule,
)

from gcs.core.politeness import FAILURES_KEPT_S, Statistics, Turn, Workbench

HOSTS = [f"h{n}" for n in range(6)]
ADDRESSES = ["192.0.2.1", "192.0.2.2", "2001:db8::1"]


def bench(
    per_host: int = 1,
    per_address: int = 4,
    delay_s: float = 1.0,
    delay_factor: float = 3.0,
    max_delay_s: float = 60.0,
) -> Workbench:
    """A workbench with the default settings, unless said otherwise."""
    return Workbench(per_host, per_address, delay_s, delay_factor, max_delay_s)


def taken(workbench: Workbench, now: float) -> Turn:
    """A turn, which there must be."""
    turn = workbench.take(now)
    assert turn is not None
    return turn


def all_taken(workbench: Workbench, now: float) -> list[str]:
    """The hosts that may be asked now, in their order."""
    hosts = []
    while (turn := workbench.take(now)) is not None:
        hosts.append(turn.host)
    return hosts


def test_other_delays() -> None:
    """Delays that are set while hosts rest hold from the next request on."""
    workbench = bench()
    workbench.wake("h", 0.0)
    turn = taken(workbench, 0.0)
    workbench.sent(turn, 0.0)
    workbench.done(turn, 0.0, response_s=0.0, failed=False)
    workbench.set_delays(5.0, 0.0, 60.0)
    assert workbench.take(0.9) is None
    turn = taken(workbench, 1.1)
    workbench.sent(turn, 1.1)
    workbench.done(turn, 1.1, response_s=10.0, failed=False)
    assert workbench.take(6.0) is None
    assert workbench.take(6.2) is not None


def test_a_host_that_is_slowed_down() -> None:
    """A host that an operator slows down rests for longer, whatever its port; others do not."""
    slow, quick = "\x02org\x02a\x01http:8080", "\x02org\x02b\x01http"
    workbench = bench()
    workbench.set_host_delays({"\x02org\x02a\x01": 5.0})
    for host in (slow, quick):
        workbench.wake(host, 0.0)
        turn = taken(workbench, 0.0)
        workbench.sent(turn, 0.0)
        workbench.done(turn, 0.0, response_s=0.0, failed=False)
    assert all_taken(workbench, 4.9) == [quick]
    assert all_taken(workbench, 5.1) == [slow]


def test_a_host_rests_between_requests() -> None:
    """The next request starts a delay after the last one was sent, not after it was taken or done."""
    workbench = bench()
    workbench.wake("h", 0.0)
    workbench.wake("h", 0.0)
    turn = taken(workbench, 0.0)
    assert turn.host == "h"
    assert workbench.take(5.0) is None
    workbench.sent(turn, 5.0)
    workbench.done(turn, 5.2, response_s=0.1)
    assert workbench.take(5.9) is None
    assert workbench.next_at() == 6.0
    assert taken(workbench, 6.0).host == "h"


def test_a_request_that_had_to_be_repeated() -> None:
    """A request that was sent a second time, on a new connection, counts from then on."""
    workbench = bench()
    workbench.locate("h", ["1.1.1.1"])
    workbench.wake("h", 0.0)
    turn = taken(workbench, 0.0)
    workbench.sent(turn, 5.0)
    workbench.sent(turn, 5.5)
    workbench.done(turn, 5.6)
    assert workbench.take(6.4) is None
    assert taken(workbench, 6.5).host == "h"


@pytest.mark.parametrize(
    ("crawl_delay_s", "response_s", "expected_s"),
    [
        (None, 0.1, 1.0),
        (None, 2.0, 6.0),
        (None, 500.0, 60.0),
        (4.0, 1.0, 4.0),
        (4.0, 2.0, 6.0),
        (900.0, 0.0, 60.0),
    ],
)
def test_the_longest_delay_counts(crawl_delay_s: float | None, response_s: float, expected_s: float) -> None:
    """The delay is the largest of the configured one, the crawl-delay and a multiple of the response time."""
    workbench = bench()
    workbench.set_crawl_delay("h", crawl_delay_s)
    workbench.wake("h", 0.0)
    turn = taken(workbench, 0.0)
    workbench.sent(turn, 0.0)
    workbench.done(turn, 0.5, response_s=response_s)
    assert workbench.next_at() == expected_s


def test_a_configured_delay_may_exceed_the_longest() -> None:
    """The limit on delays is one on what hosts ask for, not on what was configured."""
    workbench = bench(delay_s=90.0)
    workbench.wake("h", 0.0)
    workbench.done(taken(workbench, 0.0), 0.0, response_s=100.0)
    assert workbench.next_at() == 90.0


def test_without_delay_only_the_number_counts() -> None:
    """With a delay of 0, hosts are asked as fast as they answer, and addresses do not count."""
    workbench = bench(per_host=2, per_address=1, delay_s=0.0)
    for host in ("a", "b"):
        workbench.locate(host, ["192.0.2.1"])
        workbench.wake(host, 0.0)
    assert all_taken(workbench, 0.0) == ["a", "b", "a", "b"]
    assert workbench.next_at() is None
    assert workbench.statistics() == Statistics(hosts=2, awake=2, addresses=0, under_way=4, taken=4)


def test_without_delay_a_crawl_delay_is_kept() -> None:
    """What robots.txt asks for counts also when nothing was configured."""
    workbench = bench(delay_s=0.0)
    workbench.set_crawl_delay("h", 2.0)
    workbench.wake("h", 0.0)
    turn = taken(workbench, 0.0)
    workbench.sent(turn, 0.25)
    workbench.done(turn, 0.5, response_s=30.0)
    assert workbench.next_at() == 2.25


def test_names_on_one_address_do_not_add_up() -> None:
    """Two hosts on one address are a delay apart, and no more are under way than one address may have."""
    workbench = bench(per_address=2)
    for host in "abcd":
        workbench.locate(host, ["192.0.2.1"])
        workbench.wake(host, 0.0)
    first = taken(workbench, 0.0)
    assert workbench.take(3.0) is None
    workbench.sent(first, 3.0)
    assert workbench.take(3.9) is None
    second = taken(workbench, 4.0)
    workbench.sent(second, 4.0)
    assert workbench.take(9.0) is None
    workbench.done(first, 9.0)
    assert taken(workbench, 9.0).host == "c"


def test_a_host_counts_at_all_its_addresses() -> None:
    """A host with two addresses keeps both from others, and waits for both."""
    workbench = bench()
    for host, addresses in (("a", "12"), ("b", "32"), ("c", "3"), ("d", "1")):
        workbench.locate(host, addresses)
        workbench.wake(host, 0.0)
    both = taken(workbench, 0.0)
    assert both.host == "a"
    assert all_taken(workbench, 0.0) == ["c"]
    workbench.sent(both, 0.0)
    assert all_taken(workbench, 1.0) == ["d"]


def test_a_host_holds_an_address_while_it_waits_for_another() -> None:
    """Hosts with one address do not keep out one with two, which lets go when it sleeps."""
    workbench = bench()
    for host, addresses in (("x", "2"), ("both", "12"), ("y", "1")):
        workbench.locate(host, addresses)
        workbench.wake(host, 0.0)
    first = taken(workbench, 0.0)
    assert first.host == "x"
    assert workbench.take(0.5) is None
    workbench.sent(first, 1.0)
    assert all_taken(workbench, 1.5) == []
    workbench.sleep("both")
    assert taken(workbench, 1.5).host == "y"
    workbench.locate("both", "12")
    workbench.wake("both", 1.5)
    assert workbench.take(2.0) is None
    workbench.locate("both", "2")
    assert all_taken(workbench, 2.0) == ["both"]


def test_hosts_are_served_in_the_order_in_which_they_became_ready() -> None:
    """A host with many URLs waits for all that were ready before it comes again."""
    workbench = bench(delay_s=0.0)
    served = Counter[str]()
    for host in HOSTS:
        workbench.wake(host, 0.0)
    for step in range(60):
        turn = taken(workbench, step / 10)
        served[turn.host] += 1
        workbench.done(turn, step / 10)
        assert max(served.values()) - min(served[host] for host in HOSTS) <= 1


def test_failures_in_a_row_are_counted_and_forgotten() -> None:
    """A success ends a row of failures, and so does a long sleep."""
    workbench = bench()
    assert workbench.failures("h") == 0
    workbench.wake("h", 0.0)
    for n in range(3):
        workbench.done(taken(workbench, n * 10.0), n * 10.0, failed=True)
    assert workbench.failures("h") == 3
    workbench.done(taken(workbench, 30.0), 30.0)
    assert workbench.failures("h") == 0
    workbench.done(taken(workbench, 40.0), 40.0, failed=True)
    workbench.sleep("h")
    assert workbench.take(40.0 + FAILURES_KEPT_S) is None
    assert workbench.failures("h") == 1
    assert workbench.take(41.0 + FAILURES_KEPT_S) is None
    assert "h" not in workbench


def test_pauses() -> None:
    """A host that gets a pause, or is set aside at any other moment, is not asked before that is over."""
    workbench = bench()
    workbench.wake("h", 0.0)
    workbench.done(taken(workbench, 0.0), 0.0, pause_s=50.0)
    assert workbench.take(49.0) is None
    workbench.set_aside("h", 80.0)
    workbench.set_aside("h", 60.0)
    assert workbench.take(50.0) is None
    assert workbench.next_at() == 80.0
    turn = taken(workbench, 80.0)
    workbench.set_aside("h", 100.0)
    workbench.done(turn, 81.0)
    assert workbench.next_at() == 100.0
    workbench.set_aside("unknown", 200.0)
    workbench.wake("unknown", 100.0)
    assert all_taken(workbench, 100.0) == ["h"]
    assert all_taken(workbench, 200.0) == ["unknown"]


def test_a_host_that_is_ready_can_be_set_aside() -> None:
    """Also who stands in line already goes away until then."""
    workbench = bench()
    for host in "ab":
        workbench.locate(host, ["192.0.2.1"])
        workbench.wake(host, 0.0)
    first = taken(workbench, 0.0)
    assert workbench.take(0.0) is None
    workbench.set_aside("b", 30.0)
    workbench.done(first, 0.0)
    assert taken(workbench, 1.0).host == "a"
    assert workbench.take(29.0) is None


def test_hosts_that_sleep_are_forgotten() -> None:
    """Of a host that sleeps and has rested nothing is kept, nor of its address."""
    workbench = bench()
    for n in range(100):
        workbench.locate(f"h{n}", [f"192.0.2.{n}"])
        workbench.wake(f"h{n}", 0.0)
    turns = [taken(workbench, 0.0) for _ in range(100)]
    for turn in turns:
        workbench.sleep(turn.host)
        workbench.sleep(turn.host)
        workbench.done(turn, 0.5)
    workbench.sleep("never heard of")
    assert workbench.statistics().hosts == 100
    assert workbench.take(1.5) is None
    assert workbench.take(1.5) is None
    assert workbench.statistics() == Statistics(hosts=0, awake=0, addresses=0, under_way=0, taken=100)
    assert workbench.next_at() is None


def test_a_host_that_was_told_about_but_never_woken_can_sleep() -> None:
    """What was told about a host is kept until it is woken or sleeps."""
    workbench = bench()
    workbench.locate("h", ["192.0.2.1"])
    assert workbench.take(100.0) is None
    assert "h" in workbench
    workbench.sleep("h")
    assert workbench.take(100.0) is None
    assert "h" not in workbench
    assert workbench.statistics().addresses == 0


def test_a_host_can_move() -> None:
    """A host that moves in line waits at its new address, and the old one is forgotten when it is free."""
    workbench = bench()
    for host in "ab":
        workbench.locate(host, ["192.0.2.1"])
        workbench.wake(host, 0.0)
    turn = taken(workbench, 0.0)
    assert workbench.take(0.0) is None
    workbench.locate("b", ["192.0.2.2"])
    workbench.locate("b", ["192.0.2.2"])
    assert taken(workbench, 0.0).host == "b"
    workbench.locate("a", [])
    assert workbench.statistics().addresses == 2
    workbench.done(turn, 0.0)
    workbench.locate("c", ["192.0.2.1"])
    workbench.wake("c", 0.0)
    assert workbench.take(0.5) is None
    assert taken(workbench, 1.0).host in "ac"


@pytest.mark.parametrize("asked_when", [False, True])
def test_who_moves_keeps_its_place_by_age(asked_when: bool) -> None:
    """A host that moves to another line comes before those there that became ready later."""
    workbench = bench()
    for host, address, at in (("a", "1", 0.0), ("c", "1", 0.5), ("b", "2", 1.0)):
        workbench.locate(host, [address])
        workbench.wake(host, at)
    assert taken(workbench, 1.0).host == "a"
    workbench.locate("c", ["2"])
    assert workbench.next_at() == 0.5
    assert taken(workbench, 1.0).host == "c"
    assert not asked_when or workbench.next_at() is None
    assert workbench.take(1.0) is None


def test_a_host_may_get_a_pause_in_line() -> None:
    """A host that is ready for its second request is not taken when the first one brings a pause."""
    workbench = bench(per_host=2, delay_s=0.0)
    workbench.wake("h", 0.0)
    turn = taken(workbench, 0.0)
    workbench.done(turn, 1.0, pause_s=5.0)
    assert workbench.take(1.0) is None
    assert workbench.next_at() == 6.0


def test_a_host_may_fall_asleep_in_line() -> None:
    """A host that is ready and goes to sleep is not taken."""
    workbench = bench()
    for host, address in (("a", "1"), ("b", "2")):
        workbench.locate(host, [address])
        workbench.wake(host, 0.0)
    assert taken(workbench, 0.0).host == "a"
    workbench.sleep("b")
    assert workbench.take(0.0) is None
    assert "b" not in workbench


def test_an_address_that_everybody_left_keeps_its_distance() -> None:
    """An address without hosts is kept until its distance has passed, also when a request ends late."""
    workbench = bench()
    workbench.locate("a", ["192.0.2.1"])
    workbench.wake("a", 0.0)
    turn = taken(workbench, 0.0)
    workbench.sent(turn, 0.0)
    workbench.locate("a", [])
    assert workbench.take(5.0) is None
    workbench.done(turn, 5.0)
    workbench.sleep("a")
    assert workbench.take(5.0) is None
    assert workbench.take(9.0) is None
    assert workbench.statistics().addresses == 0


def test_a_host_is_not_forgotten_while_it_is_asked() -> None:
    """A host that sleeps and has rested stays known while a request to it is under way."""
    workbench = bench(per_host=2)
    workbench.wake("h", 0.0)
    turn = taken(workbench, 0.0)
    workbench.sent(turn, 0.0)
    workbench.sleep("h")
    assert workbench.take(5.0) is None
    assert "h" in workbench
    workbench.done(turn, 6.0)
    assert workbench.take(7.0) is None
    assert "h" not in workbench


def test_a_turn_is_done_once() -> None:
    """A turn that was done cannot be done again, nor sent."""
    workbench = bench()
    workbench.wake("h", 0.0)
    turn = taken(workbench, 0.0)
    workbench.done(turn, 0.0)
    workbench.sent(turn, 5.0)
    assert workbench.next_at() == 1.0
    with pytest.raises(ValueError, match="this turn of h was done already"):
        workbench.done(turn, 0.0)


def test_a_turn_can_be_given_back() -> None:
    """A turn in which nothing was sent keeps nobody waiting, and ends no row of failures."""
    workbench = bench()
    for host in "ab":
        workbench.locate(host, ["192.0.2.1"])
        workbench.wake(host, 0.0)
    workbench.done(taken(workbench, 0.0), 0.0, failed=True)
    turn = taken(workbench, 1.0)
    assert turn.host == "b"
    assert workbench.take(1.0) is None
    workbench.give_back(turn, 1.0)
    turn = taken(workbench, 1.0)
    assert turn.host == "a"
    workbench.give_back(turn, 1.0)
    assert workbench.failures("a") == 1
    with pytest.raises(ValueError, match="this turn of a was used already"):
        workbench.give_back(turn, 1.0)
    assert all_taken(workbench, 1.0) == ["b"]


def test_hosts_that_share_a_name() -> None:
    """Two ports of one name are asked one at a time, as far apart as the slower of them asks for."""
    workbench = bench()
    for host in ("http", "https"):
        workbench.locate(host, ["192.0.2.1"], "example.org")
        workbench.wake(host, 0.0)
    workbench.locate("other", ["192.0.2.1"], "other.example.org")
    workbench.set_crawl_delay("http", 5.0)
    first = taken(workbench, 0.0)
    assert first.host == "http"
    workbench.sent(first, 0.0)
    workbench.wake("other", 0.5)
    assert workbench.take(0.9) is None
    # Who waits for the name does not keep others from the address.
    other = taken(workbench, 1.0)
    assert other.host == "other"
    workbench.done(other, 1.0)
    workbench.sleep("other")
    assert workbench.take(4.9) is None
    workbench.done(first, 4.9)
    assert taken(workbench, 5.0).host == "https"


def test_a_shared_name_is_forgotten() -> None:
    """Nothing is kept of a name when its hosts are asleep and have rested."""
    workbench = bench()
    for host in ("http", "https"):
        workbench.locate(host, [], "example.org")
        workbench.wake(host, 0.0)
        workbench.sleep(host)
    assert workbench.take(10.0) is None
    assert workbench.statistics().hosts == 0
    assert not workbench._names


def test_a_host_that_holds_its_name_may_be_sent_to_rest() -> None:
    """What a host lets go when it has to rest others have, and it comes again."""
    workbench = Workbench(1, 4, 1.0, 0.0, 10.0)
    workbench.locate("z", ["a"], "z")
    workbench.locate("h1", ["a"], "n")
    workbench.locate("h2", ["b"], "n")
    workbench.wake("z", 0.0)
    first = taken(workbench, 0.0)
    workbench.wake("h1", 0.1)
    assert workbench.take(0.1) is None
    workbench.wake("h2", 0.2)
    assert workbench.take(0.2) is None
    workbench.set_aside("h1", 2.3)
    workbench.done(first, 0.4)
    workbench.sleep("z")
    second = taken(workbench, 2.3)
    workbench.done(second, 2.3)
    assert {second.host, taken(workbench, 3.3).host} == {"h1", "h2"}


@pytest.mark.parametrize("seed", range(300))
def test_nobody_waits_for_ever(seed: int) -> None:
    """Whatever names and addresses hosts share, all of their requests come, at most so many at a time."""
    rng = random.Random(seed)
    per_host, per_address = rng.choice([1, 1, 2]), rng.choice([1, 2, 4])
    workbench = Workbench(per_host, per_address, 1.0, rng.choice([0.0, 2.0]), 10.0)
    left, names, addresses = {}, {}, {}
    for host in map(str, range(rng.randint(2, 8))):
        names[host], addresses[host] = f"n{rng.randint(0, 3)}", rng.sample("abcd", rng.randint(0, 3))
        left[host] = rng.randint(1, 6)
        workbench.locate(host, addresses[host], names[host])
        workbench.wake(host, 0.0)
    turns: list[tuple[float, float, Turn]] = []
    now = 0.0
    while any(left.values()) or turns:
        while (turn := workbench.take(now)) is not None:
            turns.append((now + 3 * rng.random(), now + 3 + 3 * rng.random(), turn))
            left[turn.host] -= 1
            if not left[turn.host]:
                workbench.sleep(turn.host)
            under_way = [each.host for _, _, each in turns]
            assert max(Counter(names[host] for host in under_way).values()) <= per_host
            assert (
                max(Counter(a for host in under_way for a in addresses[host]).values(), default=0)
                <= per_address
            )
        for sent, ended, turn in turns:
            if sent <= now and turn.sent_at is None:
                workbench.sent(turn, now)
            if ended <= now:
                workbench.done(turn, now, response_s=rng.random(), pause_s=rng.choice([0, 0, 0, 5]))
        turns = [each for each in turns if each[1] > now]
        now += 0.1
        assert now < 400


class Polite(RuleBasedStateMachine):
    """A workbench against the rules themselves, checked by looking at everything."""

    turns: Bundle[Turn] = Bundle("turns")

    @initialize(
        per_host=st.integers(1, 2),
        per_address=st.integers(1, 3),
        delay_s=st.sampled_from([0.0, 1.0, 2.5]),
        factor=st.sampled_from([0.0, 3.0]),
        at_most=st.integers(1, 2),
    )
    def begin(self, per_host: int, per_address: int, delay_s: float, factor: float, at_most: int) -> None:
        # A host with several addresses holds some while it waits for others, which only it knows.
        self.at_most = at_most
        self.per_host, self.per_address = per_host, per_address
        self.delay_s, self.factor, self.max_delay_s = delay_s, factor if delay_s else 0.0, 10.0
        self.bench = Workbench(per_host, per_address, delay_s, factor, self.max_delay_s)
        self.now = 100.0
        self.awake: dict[str, float] = {}
        self.addresses: dict[str, tuple[str, ...]] = {}
        self.open: dict[Turn, tuple[str, ...]] = {}
        self.crawl_delay: Counter[str] = Counter()
        self.pace: dict[str, float] = {}
        self.free_at: dict[str, float] = {}
        self.address_free_at: dict[str, float] = {}
        self.waited: dict[str, set[str]] = {}

    def told(self, host: str) -> None:
        """A host that was forgotten has to be told again what it had been told."""
        if host not in self.bench:
            self.bench.locate(host, self.addresses.get(host, ()))
            self.bench.set_crawl_delay(host, self.crawl_delay[host])

    def delay(self, host: str) -> float:
        return max(self.delay_s, self.crawl_delay[host], self.pace.get(host, 0.0))

    def busy(self, host: str) -> bool:
        mine = [turn for turn in self.open if turn.host == host]
        return len(mine) >= self.per_host or any(t.sent_at is None and self.delay(host) > 0 for t in mine)

    def address_open(self, address: str) -> bool:
        here = [turn for turn, addresses in self.open.items() if address in addresses]
        return (
            len(here) < self.per_address
            and all(turn.sent_at is not None for turn in here)
            and self.address_free_at.get(address, 0.0) <= self.now
        )

    def may_be_asked(self, host: str) -> bool:
        return (
            host in self.awake
            and not self.busy(host)
            and self.free_at.get(host, 0.0) <= self.now
            and (not self.delay_s or all(map(self.address_open, self.addresses.get(host, ()))))
        )

    @rule(
        host=st.sampled_from(HOSTS), addresses=st.lists(st.sampled_from(ADDRESSES), max_size=2, unique=True)
    )
    def locate(self, host: str, addresses: list[str]) -> None:
        self.told(host)
        # Among hosts that became ready at the same moment, one that moves is the last.
        self.waited.pop(host, None)
        self.addresses[host] = tuple(addresses[: self.at_most])
        self.bench.locate(host, self.addresses[host])

    @rule(host=st.sampled_from(HOSTS), seconds=st.sampled_from([0.0, 0.5, 4.0, 50.0]))
    def crawl_delay_is(self, host: str, seconds: float) -> None:
        if not any(turn.host == host for turn in self.open):
            self.crawl_delay[host] = min(seconds, self.max_delay_s)  # type: ignore[assignment]
            self.told(host)
            self.bench.set_crawl_delay(host, seconds)

    @rule(host=st.sampled_from(HOSTS))
    def wake(self, host: str) -> None:
        self.told(host)
        self.awake.setdefault(host, self.now)
        self.bench.wake(host, self.now)

    @rule(host=st.sampled_from(HOSTS))
    def sleep(self, host: str) -> None:
        self.awake.pop(host, None)
        self.waited.pop(host, None)
        self.bench.sleep(host)

    @rule(seconds=st.sampled_from([0.1, 1.0, 2.5, 7.0]))
    def pass_time(self, seconds: float) -> None:
        self.now += seconds

    @rule(host=st.sampled_from(HOSTS), seconds=st.sampled_from([1.0, 20.0]))
    def set_aside(self, host: str, seconds: float) -> None:
        self.told(host)
        self.waited.pop(host, None)
        self.free_at[host] = max(self.free_at.get(host, 0.0), self.now + seconds)
        self.bench.set_aside(host, self.now + seconds)

    @rule(target=turns)
    def take(self) -> Any:
        able = [host for host in HOSTS if self.may_be_asked(host)]
        turn = self.bench.take(self.now)
        if turn is None:
            assert not able or self.at_most > 1
            following = self.bench.next_at()
            assert following is None or following > self.now
            return Turn.__new__(Turn)
        assert turn.host in able
        # Nobody who could be served now was passed over for this host before.
        assert self.at_most > 1 or not any(turn.host in self.waited.get(other, ()) for other in able)
        for other in able:
            if other != turn.host:
                self.waited.setdefault(other, set()).add(turn.host)
        self.waited[turn.host] = set()
        self.open[turn] = self.addresses.get(turn.host, ()) if self.delay_s else ()
        return turn

    def note_sent(self, turn: Turn, at: float) -> None:
        host = turn.host
        self.waited.pop(host, None)
        self.free_at[host] = max(self.free_at.get(host, 0.0), at + self.delay(host))
        for address in self.open[turn]:
            self.address_free_at[address] = max(self.address_free_at.get(address, 0.0), at + self.delay_s)

    @rule(turn=turns)
    def send(self, turn: Turn) -> None:
        if turn in self.open and turn.sent_at is None:
            self.note_sent(turn, self.now)
            self.bench.sent(turn, self.now)

    @rule(
        turn=consumes(turns),
        response_s=st.sampled_from([0.0, 0.3, 2.0, 9.0]),
        pause_s=st.sampled_from([0.0, 5.0]),
    )
    def finish(self, turn: Turn, response_s: float, pause_s: float) -> None:
        if turn not in self.open:
            return
        self.pace[turn.host] = min(self.factor * response_s, self.max_delay_s)
        self.note_sent(turn, self.now if turn.sent_at is None else turn.sent_at)
        self.bench.done(turn, self.now, response_s=response_s, pause_s=pause_s)
        if pause_s:
            self.free_at[turn.host] = max(self.free_at[turn.host], self.now + pause_s)
        del self.open[turn]

    @rule(turn=consumes(turns))
    def give_back(self, turn: Turn) -> None:
        if turn not in self.open:
            return
        if turn.sent_at is not None:
            self.note_sent(turn, turn.sent_at)
            self.pace[turn.host] = 0.0
            self.bench.done(turn, self.now)
        else:
            self.waited.pop(turn.host, None)
            self.bench.give_back(turn, self.now)
        del self.open[turn]

    @precondition(lambda self: hasattr(self, "bench"))
    @invariant()
    def the_account_balances(self) -> None:
        found = self.bench.statistics()
        assert (found.awake, found.under_way) == (len(self.awake), len(self.open))
        assert all(host in self.bench for host in self.awake)

    def teardown(self) -> None:
        if not hasattr(self, "bench"):
            return
        # Everybody awake is served in the end, and nobody is known when all have gone to sleep.
        for turn in list(self.open):
            self.bench.done(turn, self.now)
        left = set(self.awake)
        while left:
            following = self.bench.next_at()
            assert following is not None
            self.now = max(self.now, following)
            while (served := self.bench.take(self.now)) is not None:
                left.discard(served.host)
                self.bench.sleep(served.host)
                self.bench.done(served, self.now)
        for host in HOSTS:
            self.bench.sleep(host)
        self.bench.take(self.now + 1e6)
        self.bench.take(self.now + 1e6)
        assert self.bench.statistics().hosts == 0
        assert self.bench.statistics().addresses == 0


TestPolite = Polite.TestCase
TestPolite.settings = settings(max_examples=120, stateful_step_count=50, deadline=None)


def test_a_busy_web_keeps_all_distances() -> None:
    """In a long crawl of hosts that share addresses, requests keep their distance and all have a share."""
    random = Random(3)
    workbench = bench(per_host=2, per_address=2, delay_s=1.0, delay_factor=0.5)
    where = {
        f"h{n}": random.sample([f"192.0.2.{a}" for a in range(12)], random.choice([1, 1, 2]))
        for n in range(60)
    }
    for host, addresses in where.items():
        workbench.locate(host, addresses)
        workbench.wake(host, 0.0)
    now, served = 0.0, Counter[str]()
    last: dict[str, float] = {}
    events: list[tuple[float, int, str, Turn]] = []
    while now < 200.0:
        while (turn := workbench.take(now)) is not None:
            events.append((now + random.random() / 2, len(served), "send", turn))
        events.sort(key=lambda event: event[:2])
        following = workbench.next_at()
        if events and (following is None or events[0][0] <= following):
            now, _, what, turn = events.pop(0)
            if what == "send":
                for name in (turn.host, *where[turn.host]):
                    assert now - last.get(name, -9.0) >= 1.0
                    last[name] = now
                served[turn.host] += 1
                workbench.sent(turn, now)
                events.append((now + random.random() * 3, served.total(), "done", turn))
            else:
                workbench.done(turn, now, response_s=random.random())
        else:
            assert following is not None
            now = max(now, following)
    assert set(served) == set(where)
    assert min(served.values()) > served.total() / len(where) / 4


def test_a_host_that_failed_and_slept_is_asked_again() -> None:
    """That the failures of a sleeping host are remembered for an hour does not hold it up when it wakes."""
    bench = Workbench(1, 1, 1.0, 0.0, 60.0)
    bench.locate("h", ["a"])
    bench.wake("h", 0.0)
    turn = bench.take(0.0)
    assert turn is not None
    bench.sleep("h")
    bench.done(turn, 0.5, failed=True)
    assert bench.take(2.0) is None
    bench.wake("h", 3.0)
    assert bench.failures("h") == 1
    again = bench.take(3.0)
    assert again is not None
    bench.done(again, 3.5)
