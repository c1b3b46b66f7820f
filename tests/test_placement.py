"""Placement: one kind of plan from five ways to decide, and what each of them promises."""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcs.core.placement import (
    HashPlacement,
    OmaPlacement,
    Placement,
    Plan,
    Probe,
    ProximityPlacement,
    Sites,
    SuperpagePlacement,
    TwomaPlacement,
    rendezvous,
)
from gcs.core.placement.paces import Paces, digamma, trigamma
from gcs.core.plan import by_site, compiled, end_of
from gcs.core.tree import Expansion
from gcs.core.urls import canonical, key
from gcs.domains import registered_domain

GATHERERS = ("a", "b", "c", "d")
LABEL = st.sampled_from(["com", "jp", "co", "ibm", "www", "x", "x-y", "0"])
PREFIX = st.lists(LABEL, min_size=1, max_size=4).map(
    lambda labels: "".join("\x02" + label for label in labels)
)
KEY = st.builds(
    lambda prefix, path: f"{prefix}\x01http\x04{path}", PREFIX, st.sampled_from(["", "a", "z\x04b"])
)
OWNERS = st.dictionaries(PREFIX, st.sampled_from(GATHERERS), max_size=12)


def last_two(host: str) -> str:
    """A domain function without a suffix list."""
    return ".".join(host.split(".")[-2:])


def site_key(number: int) -> str:
    """The key of a page of one of many sites."""
    return key(f"http://www.s{number}.t{number % 7}/index.html")


ALL: dict[str, Callable[[Sequence[str], np.random.Generator], Placement]] = {
    "hash": lambda names, _: HashPlacement(names, domain=last_two),
    "proximity": lambda names, _: ProximityPlacement(names, domain=last_two),
    "twoma": lambda names, rng: TwomaPlacement(names, domain=last_two, rng=rng),
    "oma": lambda names, rng: OmaPlacement(names, domain=last_two, rng=rng),
    "superpage": lambda names, rng: SuperpagePlacement(names, domain=last_two, rng=rng),
}


def one(name: str) -> Placement:
    """A placement for the usual gatherers."""
    return ALL[name](GATHERERS, np.random.default_rng(1))


def crawled(placement: Placement, sites: int, near: Mapping[int, str], rounds: int) -> Plan:
    """Let sites be crawled for some rounds; a page takes 1 s from the gatherer that is near, else 3 s."""
    keys = [site_key(n) for n in range(sites)]
    names = {Sites(last_two).of(k): n for n, k in enumerate(keys)}
    if isinstance(placement, SuperpagePlacement):
        placement.expansion.visit_many([k + f"{i}" for k in keys for i in range(20)], Random(1))
        placement.expansion.queued = list(placement.expansion.visits)
    if isinstance(placement, ProximityPlacement):
        for n, k in enumerate(keys):
            placement.announce(k, GATHERERS[n % 4])
    plan = Plan(("",), (GATHERERS[0],))
    for _ in range(rounds):
        for probe in placement.probes():
            number = names[probe.site]
            placement.observe(keys[number], probe.gatherer, 1.0 if near[number] == probe.gatherer else 3.0)
        for n, k in enumerate(keys):
            owner = placement.owner(k)
            placement.observe(k, owner, 20.0 if near[n] == owner else 60.0, pages=20)
        if isinstance(placement, OmaPlacement):
            for n in range(0, sites - 4, 2):
                placement.together(keys[n], keys[n + 4])
        plan = placement.replan()
    return plan


class TestPlan:
    """A plan is one sorted list that covers everything."""

    @given(OWNERS, st.lists(KEY, min_size=1))
    def test_covers_every_key_exactly_once(self, owners: Mapping[str, str], keys: list[str]) -> None:
        """The ranges of all gatherers together hold each key once, and it is its owner's range that does."""
        plan = by_site(owners, otherwise="a")
        for k in keys:
            holders = [
                gatherer
                for gatherer in GATHERERS
                for low, high in plan.ranges(gatherer)
                if low <= k and (high is None or k < high)
            ]
            assert holders == [plan.owner(k)]

    @given(OWNERS, KEY)
    def test_the_innermost_site_owns_a_key(self, owners: Mapping[str, str], k: str) -> None:
        """A key belongs to the owner of the longest site that it lies in."""
        around = [site for site in owners if site <= k < end_of(site)]
        if around:
            assert by_site(owners, otherwise="a").owner(k) == owners[max(around, key=len)]

    @given(OWNERS, OWNERS, KEY)
    def test_sites_on_a_plan_change_nothing_else(
        self, before: Mapping[str, str], owners: Mapping[str, str], k: str
    ) -> None:
        """Outside of the sites that get owners of their own, the plan beneath them holds."""
        base = by_site(before, otherwise="a")
        if not any(site <= k < end_of(site) for site in owners):
            assert compiled(owners, base).owner(k) == base.owner(k)

    @given(OWNERS, OWNERS, KEY)
    def test_changes_are_exactly_what_moves(
        self, before: Mapping[str, str], after: Mapping[str, str], k: str
    ) -> None:
        """A key is in a changed range if and only if its owner has changed."""
        old, new = by_site(before, otherwise="a"), by_site(after, otherwise="b")
        changed = [(a, b) for low, high, a, b in old.changes(new) if low <= k and (high is None or k < high)]
        assert changed == ([(old.owner(k), new.owner(k))] if old.owner(k) != new.owner(k) else [])

    @given(OWNERS)
    def test_neighbours_of_one_owner_are_one_piece(self, owners: Mapping[str, str]) -> None:
        """No two pieces in a row have the same owner, and looking up is by the sorted starts."""
        plan = by_site(owners, otherwise="a")
        pieces = list(plan)
        assert len(pieces) == len(plan)
        assert all(a[1] != b[1] and a[0] < b[0] for a, b in pairwise(pieces))
        assert [plan.owner(start) for start, _ in pieces] == [owner for _, owner in pieces]
        assert bisect.bisect_right(plan.starts, "") == 1

    def test_the_last_word_about_a_start_counts(self) -> None:
        """Of two pieces with the same start the first is empty."""
        assert list(Plan.of([("", "a"), ("x", "b"), ("x", "a"), ("y", "b")])) == [("", "a"), ("y", "b")]

    @pytest.mark.parametrize(
        ("starts", "owners"),
        [((), ()), (("x",), ("a",)), (("", "x"), ("a",)), (("", "x", "x"), ("a", "b", "c"))],
    )
    def test_what_is_no_plan_is_refused(self, starts: tuple[str, ...], owners: tuple[str, ...]) -> None:
        """A plan that leaves keys out or is not sorted cannot be built."""
        with pytest.raises(ValueError, match="plan"):
            Plan(starts, owners)


class TestSites:
    """A site is a registered domain."""

    @pytest.mark.parametrize(
        ("url", "site"),
        [
            ("http://gcs.almaden.ibm.com/docs", "\x02com\x02ibm"),
            ("http://www.tcl.co.th/", "\x02th\x02co\x02tcl"),
            ("https://ibm.com:8080/", "\x02com\x02ibm"),
            ("http://192.0.2.7/", "\x02192\x020\x022\x027\x01"),
            ("http://[2001:db8::1]/", "\x02[2001:db8::1]\x01"),
            ("http://co.jp/", "\x02jp\x02co\x01"),
            ("http://localhost/", "\x02localhost\x01"),
            ("http://www.example.com./", "\x02\x02com\x02example"),
            ("http://www.tcl.co.th./", "\x02\x02th\x02co\x02tcl"),
            ("http://co.jp./", "\x02\x02jp\x02co\x01"),
        ],
    )
    def test_of_a_url(self, url: str, site: str) -> None:
        """All hosts of a registered domain are one site; what has none is a site by itself."""
        k = key(canonical(url))
        found = Sites(registered_domain).of(k)
        assert found == site
        assert found <= k < end_of(found)

    def test_a_bare_suffix_does_not_contain_what_is_registered_below_it(self) -> None:
        """`co.jp` as a host and `a.co.jp` are different sites, with ranges that do not meet."""
        assert not "\x02jp\x02co\x01" <= key("http://a.co.jp/") < end_of("\x02jp\x02co\x01")


class TestHash:
    """The hash of 002."""

    def test_moves_only_its_share_when_one_joins_or_leaves(self) -> None:
        """Whoever joins gets about its share, from all; nothing moves between those who were there."""
        placement = HashPlacement(GATHERERS, domain=last_two)
        keys = [site_key(n) for n in range(4000)]
        for k in keys:
            placement.observe(k, GATHERERS[0], 1.0)
        before = [placement.owner(k) for k in keys]
        joined = placement.replan([*GATHERERS, "e"])
        after = [joined.owner(k) for k in keys]
        moved = [(a, b) for a, b in zip(before, after, strict=True) if a != b]
        assert {b for _, b in moved} == {"e"}
        assert len(moved) / len(keys) == pytest.approx(1 / 5, abs=0.03)
        left = placement.replan(GATHERERS)
        assert [left.owner(k) for k in keys] == before

    def test_is_even(self) -> None:
        """Each gatherer has an equal share of the domains."""
        owners = [rendezvous(f"site {n}", GATHERERS) for n in range(8000)]
        for gatherer in GATHERERS:
            assert owners.count(gatherer) / 8000 == pytest.approx(1 / 4, abs=0.02)

    def test_keeps_a_domain_together(self) -> None:
        """All hosts and pages of a registered domain have the same owner."""
        placement = HashPlacement(GATHERERS, domain=registered_domain)
        urls = ("http://a.co.jp/", "https://www.a.co.jp/x?y", "http://b.c.a.co.jp:81/")
        assert len({placement.owner(key(u)) for u in urls}) == 1

    def test_is_the_same_everywhere(self) -> None:
        """Gatherers need no words to agree: the order in which they are named does not matter."""
        assert rendezvous("x", "abc") == rendezvous("x", "cba")


class TestProximity:
    """The network proximity of 002."""

    def test_the_announcer_decides_for_the_smallest_delay(self) -> None:
        """When all have answered, the owner is who measured the smallest delay, whoever announced."""
        placement = ProximityPlacement(GATHERERS, domain=last_two)
        k = site_key(1)
        assert placement.announce(k, "a") == "a"
        assert placement.owner(k) == "a"
        for gatherer, delay in zip(GATHERERS, (0.3, 0.2, 0.1, 0.4), strict=True):
            assert Probe(Sites(last_two).of(k), gatherer) in placement.probes()
            placement.observe(k, gatherer, delay)
        assert placement.owner(k) == "c"
        assert placement.probes() == []
        assert placement.replan().owner(k) == "c"

    @given(
        st.lists(st.sampled_from(GATHERERS), min_size=1, max_size=4),
        st.lists(st.floats(0.01, 1), min_size=4, max_size=4),
    )
    def test_all_agree_with_the_first_announcer(self, announcers: list[str], delays: list[float]) -> None:
        """Concurrent announcers are told who was first, and the outcome is what that one would decide."""
        placement = ProximityPlacement(GATHERERS, domain=last_two)
        answers = [placement.announce(site_key(1), who) for who in announcers]
        assert set(answers) == {announcers[0]}
        for gatherer, delay in zip(GATHERERS, delays, strict=True):
            placement.observe(site_key(1), gatherer, delay)
        nearest = [g for g, d in zip(GATHERERS, delays, strict=True) if d == min(delays)]
        expected = announcers[0] if announcers[0] in nearest else nearest[0]
        assert placement.owner(site_key(1)) == expected

    def test_later_delays_and_unknown_domains_do_not_count(self) -> None:
        """A decision stands, and nothing is learned of what nobody announced."""
        placement = ProximityPlacement("ab", domain=last_two)
        placement.observe(site_key(2), "a", 0.1)
        assert placement.probes() == []
        placement.announce(site_key(1), "a")
        placement.observe(site_key(1), "a", 0.2)
        placement.observe(site_key(1), "b", 0.3)
        placement.observe(site_key(1), "b", 0.001)
        assert placement.owner(site_key(1)) == "a"

    def test_a_delay_that_is_measured_again_counts_if_it_is_clearly_smaller(self) -> None:
        """At the next replan; what differs by little, or by a few milliseconds, moves nothing."""
        placement = ProximityPlacement("abc", domain=last_two)
        for n in (1, 2, 3):
            placement.announce(site_key(n), "a")
            placement.observe(site_key(n), "a", 0.2 if n < 3 else 0.008)
            placement.observe(site_key(n), "b", 0.3)
        placement.replan(["a", "b"])
        placement.measured(site_key(1), "c", 0.1)
        placement.measured(site_key(2), "c", 0.16)
        placement.measured(site_key(3), "c", 0.004)
        plan = placement.replan(["a", "b", "c"])
        assert [plan.owner(site_key(n)) for n in (1, 2, 3)] == ["c", "a", "a"]
        placement.measured(site_key(2), "a", 0.9)
        assert placement.replan().owner(site_key(2)) == "c"
        placement.measured(site_key(9), "a", 0.1)
        assert placement.probes() == []

    def test_decides_with_the_answers_that_came(self) -> None:
        """At a replan a missing answer is not waited for; without any, the announcer keeps the domain."""
        placement = ProximityPlacement(GATHERERS, domain=last_two)
        placement.announce(site_key(1), "a")
        placement.announce(site_key(2), "b")
        placement.observe(site_key(1), "d", 0.5)
        plan = placement.replan()
        assert (plan.owner(site_key(1)), plan.owner(site_key(2))) == ("d", "b")

    def test_what_a_lost_gatherer_had_goes_to_the_next_nearest(self) -> None:
        """The delays are remembered; of its announcements others take over."""
        placement = ProximityPlacement(GATHERERS, domain=last_two)
        placement.announce(site_key(1), "c")
        for gatherer, delay in zip(GATHERERS, (0.3, 0.2, 0.1, 0.4), strict=True):
            placement.observe(site_key(1), gatherer, delay)
        placement.announce(site_key(2), "a")
        plan = placement.replan(["a", "b", "d"])
        assert (plan.owner(site_key(1)), plan.owner(site_key(2))) == ("b", "a")


class TestAutomata:
    """TWOMA and OMA as placements."""

    def test_sites_end_with_who_is_near(self) -> None:
        """With equal sites TWOMA brings most to the gatherer that is near to them."""
        near = {n: GATHERERS[n * 7 % 4] for n in range(200)}
        plan = crawled(one("twoma"), 200, near, 60)
        assert sum(plan.owner(site_key(n)) == near[n] for n in near) > 190

    @pytest.mark.parametrize("name", ["twoma", "oma"])
    def test_a_newcomer_gets_its_share_and_a_leaver_keeps_nothing(self, name: str) -> None:
        """Membership changes move the share of the newcomer, and what the leaver had."""
        placement = one(name)
        crawled(placement, 400, dict.fromkeys(range(400), "a"), 1)
        before = placement.replan()
        after = placement.replan(["a", "b", "c", "e"])
        owners = [after.owner(site_key(n)) for n in range(400)]
        assert "d" not in owners
        assert 60 < owners.count("e") < 160
        kept = [n for n in range(400) if before.owner(site_key(n)) != "d" and owners[n] != "e"]
        assert sum(before.owner(site_key(n)) == owners[n] for n in kept) == len(kept)

    def test_only_the_owners_fetches_count(self) -> None:
        """What others took for a site does not move it."""
        placement = TwomaPlacement("ab", domain=last_two, rng=np.random.default_rng(1))
        owners = [placement.owner(site_key(n)) for n in range(40)]
        for _ in range(10):
            for n in range(40):
                other = "a" if placement.owner(site_key(n)) == "b" else "b"
                placement.observe(site_key(n), other, 1.0 + n)
            placement.replan()
        assert [placement.owner(site_key(n)) for n in range(40)] == owners

    def test_pairs_end_together(self) -> None:
        """OMA brings sites that are wanted together to one gatherer, and keeps its number of sites."""
        placement = OmaPlacement("ab", domain=last_two, rng=np.random.default_rng(1))
        rng = np.random.default_rng(2)
        plan = placement.replan()
        for _ in range(150):
            for half in (range(20), range(20, 40)):
                order = rng.permutation(list(half))
                for a, b in zip(order[::2], order[1::2], strict=True):
                    placement.together(site_key(a), site_key(b))
                    placement.together(site_key(a), site_key(a))
            for n in range(40):
                placement.observe(site_key(n), placement.owner(site_key(n)), 1.0)
            plan = placement.replan()
        first = [plan.owner(site_key(n)) for n in range(20)]
        second = [plan.owner(site_key(n)) for n in range(20, 40)]
        assert max(first.count(g) for g in "ab") + max(second.count(g) for g in "ab") >= 36


class TestSuperpages:
    """003 with learned rates."""

    def test_sites_end_with_who_is_near_even_if_their_neighbours_do_not(self) -> None:
        """Sites that differ from their superpage are singled out, and found by probing."""
        near = {n: GATHERERS[n * 7 % 4] for n in range(200)}
        plan = crawled(one("superpage"), 200, near, 25)
        assert sum(plan.owner(site_key(n)) == near[n] for n in near) >= 190

    def test_probes_cease_when_all_is_known(self) -> None:
        """There are many probes while little is known, never more than the budget, and few afterwards."""
        placement = SuperpagePlacement(GATHERERS, domain=last_two, rng=np.random.default_rng(1), probing=0.1)
        near = {n: GATHERERS[n * 7 % 4] for n in range(200)}
        crawled(placement, 200, near, 1)
        assert 100 < len(placement.probes()) <= 0.1 * 200 * 20 + 1
        crawled(placement, 200, near, 30)
        assert len(placement.probes()) < 40

    def test_all_to_one_who_is_alone(self) -> None:
        """A single gatherer owns everything, before the first plan and after it."""
        placement = SuperpagePlacement(["a"], domain=last_two, rng=np.random.default_rng(1))
        assert placement.owner(site_key(1)) == "a"
        assert list(placement.replan()) == [("", "a")]

    def test_a_newcomer_gets_work_and_a_leaver_keeps_none(self) -> None:
        """After a change of members the plan balances among those who are there."""
        placement = one("superpage")
        crawled(placement, 200, {n: GATHERERS[n % 4] for n in range(200)}, 5)
        placement.observe(site_key(1), "d", 1.0)
        plan = placement.replan(["a", "b", "c", "e", "f"])
        owners = [plan.owner(site_key(n)) for n in range(200)]
        assert set(owners) == {"a", "b", "c", "e", "f"}
        assert placement.replan(["a", "b", "c", "e", "f"]).owner(site_key(1)) in "abcef"

    def test_levels_are_those_of_the_last_report(self) -> None:
        """What is queued is said before each replan, which begins the next round with nothing queued."""
        placement = SuperpagePlacement("ab", domain=last_two, rng=np.random.default_rng(1))
        for _ in range(3):
            copy = placement.expansion.fresh()
            copy.visit_many([site_key(n) for n in range(40)], Random(1))
            copy.queued = [5.0] * len(copy.queued)
            placement.expansion.merge([copy])
            assert max(placement.expansion.queued) == 5
            placement.replan()
            assert not any(placement.expansion.queued)

    def test_strangers_are_ignored(self) -> None:
        """What someone reports who is not a member is not learned."""
        placement = SuperpagePlacement("ab", domain=last_two, rng=np.random.default_rng(1))
        placement.observe(site_key(1), "z", 1.0)
        placement.replan()
        assert len(placement.paces) == 0

    def test_a_big_site_is_cut_and_its_parts_have_its_pace(self) -> None:
        """A site heavier than a superpage is divided among gatherers by its paths."""
        placement = SuperpagePlacement(
            "ab", domain=last_two, rng=np.random.default_rng(1), expansion=Expansion()
        )
        keys = [f"{site_key(0)}\x04{n % 50:02}\x04{n}" for n in range(2000)]
        placement.expansion.visit_many([*keys, *map(site_key, range(1, 50))], Random(1))
        placement.expansion.queued = list(placement.expansion.visits)
        for _ in range(3):
            for gatherer in "ab":
                placement.observe(keys[0], gatherer, 1000.0, pages=1000)
            placement.replan()
        owners = [placement.owner(k) for k in keys]
        assert owners.count("a") / len(owners) == pytest.approx(0.5, abs=0.1)


class TestEveryPlacement:
    """What all five have in common."""

    @pytest.mark.parametrize("name", ALL)
    def test_its_plan_says_what_it_says(self, name: str) -> None:
        """From a replan on `owner` and the plan agree on every site, known or not, seen since or not."""
        placement = one(name)
        near = {n: GATHERERS[n % 4] for n in range(60)}
        plan = crawled(placement, 60, near, 4)
        keys = [site_key(n) for n in range(300)]
        assert [plan.owner(k) for k in keys] == [placement.owner(k) for k in keys]
        for k in keys:
            placement.observe(k, plan.owner(k), 1.0)
        assert [plan.owner(k) for k in keys] == [placement.owner(k) for k in keys]
        assert set(plan.owners) <= set(GATHERERS)
        assert plan.starts[0] == ""

    @pytest.mark.parametrize("name", ALL)
    def test_is_reproducible(self, name: str) -> None:
        """The same random source and the same observations give the same plan."""
        near = {n: GATHERERS[n % 4] for n in range(60)}
        assert crawled(one(name), 60, near, 5) == crawled(one(name), 60, near, 5)

    @pytest.mark.parametrize("name", ALL)
    def test_knows_no_gatherer_twice(self, name: str) -> None:
        """Gatherers without names of their own are refused, at first and later, and that changes nothing."""
        with pytest.raises(ValueError, match="name of its own"):
            ALL[name](("a", "a"), np.random.default_rng(1))
        near = {n: GATHERERS[n % 4] for n in range(60)}
        placement, other = one(name), one(name)
        for each in (placement, other):
            crawled(each, 60, near, 2)
            for n in near:
                each.observe(site_key(n), each.owner(site_key(n)), 1.0 + n)
        for gatherers in (["a", "a"], []):
            with pytest.raises(ValueError, match="name of its own"):
                placement.replan(gatherers)
        assert placement.replan() == other.replan()

    @pytest.mark.parametrize("name", ALL)
    def test_one_gatherer_owns_everything(self, name: str) -> None:
        """A gatherer that is alone, at first or after a loss, owns everything; others may come again."""
        alone = ALL[name](("a",), np.random.default_rng(1))
        left = one(name)
        near = {n: GATHERERS[n % 4] for n in range(60)}
        crawled(left, 60, near, 2)
        left.replan(["a"])
        for placement in (alone, left):
            for n in range(60):
                placement.observe(site_key(n), "a", 1.0)
            assert set(placement.replan().owners) == {"a"}
            assert placement.owner(site_key(70)) == "a"
        left.replan(["a", "b"])
        assert set(left.replan().owners) <= {"a", "b"}

    @pytest.mark.parametrize("name", ALL)
    def test_observations_of_nothing_do_no_harm(self, name: str) -> None:
        """Pages that took no time, and no pages at all, are observed without an error in any later replan."""
        placement = one(name)
        crawled(placement, 60, {n: GATHERERS[n % 4] for n in range(60)}, 2)
        if isinstance(placement, ProximityPlacement):
            placement.announce(site_key(99), "a")
        placement.observe(site_key(99), "a", 1.0, pages=0)
        placement.observe(site_key(1), "a", 0.0, pages=5)
        placement.observe(site_key(1), "b", 1.0, pages=0)
        for _ in range(3):
            assert set(placement.replan().owners) <= set(GATHERERS)


class TestMigrating:
    """The automata."""

    def test_a_new_site_counts_from_the_plan_on_that_names_it(self) -> None:
        """What a site took while it belonged to the range that it lay in does not move it anywhere."""
        placement = one("twoma")
        crawled(placement, 60, {n: GATHERERS[n % 4] for n in range(60)}, 2)
        news = [site_key(n) for n in range(100, 200)]
        for n, k in enumerate(news):
            placement.observe(k, placement.owner(k), 1.0 if n % 2 else 1e6)
        plan = placement.replan()
        sites = Sites(last_two)
        assert [plan.owner(k) for k in news] == [rendezvous(sites.of(k), GATHERERS) for k in news]


class TestPaces:
    """How long things take, learned."""

    def test_what_is_nearly_forgotten_is_no_error(self) -> None:
        """An observation that has lost all its weight leaves a pace that is a number."""
        paces = Paces(2, memory=0.01)
        paces.grow(2)
        none, site = np.empty(0, dtype=np.int64), np.array([0])
        paces.learn(site, site, np.array([2.0]))
        for _ in range(8):
            paces.learn(none, none, np.empty(0))
            belief = paces.belief(np.array([0, 0]))
            assert np.isfinite(belief.pace).all()
            assert np.isfinite(belief.deviation).all()

    def test_unobserved_pairs_take_the_pace_of_neighbours(self) -> None:
        """What one site of a superpage takes is the first guess for the others."""
        paces = Paces(2)
        paces.grow(4)
        for _ in range(5):
            paces.learn(np.array([0, 1, 2]), np.array([0, 0, 0]), np.array([1.0, 1.0, 9.0]))
        pace = paces.belief(np.array([0, 0, 1, 0])).pace
        assert pace[3, 0] == pytest.approx(1.0, rel=0.5)
        assert pace[2, 0] == pytest.approx(9.0, rel=0.2)
        assert pace[3, 0] < pace[2, 1]

    def test_the_noise_is_learned(self) -> None:
        """The variation comes near to that of the durations, normal (0.2) or exponential (1)."""
        rng = np.random.default_rng(1)
        normal, exponential = 1 + 0.2 * rng.standard_normal((30, 500)), rng.exponential(1, (30, 500))
        for expected, rounds in ((0.2, normal), (1.0, exponential)):
            paces = Paces(1, surprise=math.inf)
            paces.grow(500)
            for durations in rounds:
                paces.learn(np.arange(500), np.zeros(500, dtype=np.int64), np.maximum(0.01, durations))
            assert paces.variation == pytest.approx(expected, rel=0.15)

    def test_a_slowdown_is_noticed_and_forgotten_at_once(self) -> None:
        """A site that takes three times as long loses all that was known of it; the others lose nothing."""
        rng = np.random.default_rng(1)
        paces = Paces(2)
        paces.grow(100)
        everyone_, first = np.arange(100), np.zeros(100, dtype=np.int64)
        alarms = 0
        for _ in range(30):
            alarms += len(paces.learn(everyone_, first, 1 + 0.2 * rng.standard_normal(100)))
        durations = 1 + 0.2 * rng.standard_normal(100)
        durations[7] *= 3
        assert alarms <= 3
        assert 7 in paces.learn(everyone_, first, durations)
        assert paces.belief(first).pace[7, 0] == pytest.approx(durations[7], rel=0.4)

    def test_nothing_observed_is_no_error(self) -> None:
        """An empty round teaches nothing."""
        paces = Paces(2)
        none = np.empty(0, dtype=np.int64)
        assert len(paces.learn(none, none, np.empty(0))) == 0
        assert paces.belief(none).pace.shape == (0, 2)

    @given(st.floats(0.01, 1000))
    def test_digamma_and_trigamma_keep_their_recurrences(self, x: float) -> None:
        """ψ(x + 1) = ψ(x) + 1/x, ψ′(x + 1) = ψ′(x) − 1/x², and both have their known values at 1."""
        here, there = np.array([x]), np.array([x + 1])
        assert digamma(there) == pytest.approx(digamma(here) + 1 / x, abs=1e-6)
        assert trigamma(there) == pytest.approx(trigamma(here) - 1 / x**2, rel=1e-6, abs=1e-6)
        one = np.array([1.0])
        assert digamma(one) == pytest.approx(-0.5772156649, abs=1e-8)
        assert trigamma(one) == pytest.approx(math.pi**2 / 6, abs=1e-8)
