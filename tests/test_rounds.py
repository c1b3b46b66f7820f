"""Rounds: what a leader decides from the last plan's state and what gatherers report."""

from __future__ import annotations

import bisect
import zlib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gcs.core.placement import Plan, Sites, rendezvous
from gcs.core.placement.learned import NONE, Learned
from gcs.core.placement.units import Known, single_out
from gcs.core.rounds import Outcome, Report, Terms, replan
from gcs.core.rounds.knowledge import Knowledge
from gcs.core.rounds.records import STRATEGIES
from gcs.core.rounds.sides import cut_hosts, end_of_host, host_of, whole_hosts
from gcs.core.tree import Expansion
from gcs.core.urls import key
from tests.effort import examples

EMPTY = Expansion().to_bytes()
ALL = ("a", "b", "c", "d", "e", "f")


def last_two(host: str) -> str:
    """A domain function without a suffix list."""
    return ".".join(host.split(".")[-2:])


SITES = Sites(last_two)


def page(host: int, number: int, *, scheme: str = "http") -> str:
    """The key of a page of one of many hosts; every third site has two of them."""
    name = f"h{host}" if host % 3 else "www"
    return key(f"{scheme}://{name}.s{host // 2 * 2}.t{host % 5}/{'xyz'[number % 3]}/{number}")


def site(host: int) -> str:
    """The site of a host."""
    return SITES.of(page(host, 0))


def report(
    gatherer: str,
    expansion: bytes,
    keys: Sequence[str],
    *,
    held: Sequence[str] | None = None,
    pace: float = 1.0,
    crossing: tuple[float, float] = (0.0, 0.0),
    cap: float | None = None,
) -> Report:
    """What a gatherer says that has accepted these keys, and fetched one page of each of their sites."""
    counted = Expansion.from_bytes(expansion)
    counted.visit_many(sorted(keys), Random(gatherer))
    for k in keys if held is None else held:
        counted.queued[counted.locate_index(k)] += 1
    paces = {SITES.of(k): (1.0, pace) for k in keys}
    return Report(gatherer, counted.to_bytes(), paces, crossing, cap=cap)


@dataclass
class Crawl:
    """Gatherers that accept new URLs by the plan, hold what they own, and report at every round."""

    members: list[str]
    terms: Terms = field(default_factory=Terms)
    state: bytes | None = None
    expansion: bytes = EMPTY
    plan: Plan | None = None
    keys: set[str] = field(default_factory=set)
    number: int = 0
    paces: Mapping[str, float] = field(default_factory=dict)

    def holder(self, k: str) -> str:
        """Who holds a key: at first all begins with one."""
        return self.plan.owner(k) if self.plan else self.members[0]

    def reports(self, found: Collection[str], *, silent: Collection[str] = ()) -> list[Report]:
        """New URLs are found, and everyone who is asked reports."""
        fresh = {*found} - self.keys
        self.keys |= fresh
        told = []
        for gatherer in self.members:
            held = [k for k in self.keys if self.holder(k) == gatherer]
            new = [k for k in sorted(fresh) if self.holder(k) == gatherer]
            if gatherer not in silent:
                pace = self.paces.get(gatherer, 1.0)
                told.append(report(gatherer, self.expansion, new, held=held, pace=pace))
        return told

    def round(
        self,
        reports: Sequence[Report],
        *,
        members: Sequence[str] | None = None,
        pinned: Collection[str] = (),
        leaving: Collection[str] = (),
    ) -> Outcome:
        """A leader decides, and everyone follows."""
        asked = self.members if members is None else members
        outcome = replan(
            self.terms,
            self.state,
            asked,
            reports,
            self.plan,
            seed=self.number,
            domain=last_two,
            pinned=pinned,
            leaving=leaving,
        )
        self.members = sorted({*asked, *pinned} - ({*leaving} - {*pinned}))
        self.state, self.expansion, self.plan = outcome.state, outcome.expansion, outcome.plan
        self.number += 1
        return outcome

    def times(self, left: Sequence[str], pace: Mapping[str, float]) -> list[float]:
        """What everyone takes for the work that is left, if that is known for certain."""
        work = Counter(self.holder(k) for k in left)
        return [work[gatherer] * pace[gatherer] for gatherer in self.members]


@dataclass(frozen=True)
class Case:
    """The arguments of one round in the middle of a crawl."""

    terms: Terms
    state: bytes | None
    members: Sequence[str]
    reports: Sequence[Report]
    holdings: Plan
    pinned: Collection[str]
    leaving: Collection[str]

    def run(self, reports: Sequence[Report] | None = None) -> Outcome:
        """The round."""
        return replan(
            self.terms,
            self.state,
            self.members,
            self.reports if reports is None else reports,
            self.holdings,
            seed=7,
            domain=last_two,
            pinned=self.pinned,
            leaving=self.leaving,
        )

    @property
    def free(self) -> set[str]:
        """Those whom the plan is for."""
        return {*self.members} - {*self.pinned} - {*self.leaving}


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """A crawl of a few rounds; then some join, leave, are lost or silent, and holdings are as they may be."""
    random = Random(draw(st.integers(0, 2**20)))
    split = draw(st.booleans())
    terms = Terms(
        draw(st.sampled_from(STRATEGIES)),
        draw(st.sampled_from(["auto", "I", "II"])),
        split_hosts=split,
        delta=draw(st.sampled_from([1, 5, 20])),
    )
    crawl = Crawl(
        list(ALL[: draw(st.integers(1, 4))]), replace(terms, strategy=draw(st.sampled_from(STRATEGIES)))
    )
    hosts = draw(st.integers(1, 12))
    for _ in range(draw(st.integers(0, 2))):
        crawl.round(crawl.reports(pages(random, hosts)))
    holdings = crawl.plan or Plan(("",), (crawl.members[0],))
    if draw(st.booleans()):
        holdings = shaken(random, holdings, sorted(crawl.keys))
    crawl.plan = holdings
    roles = {who: draw(st.sampled_from("mmmplx")) for who in ALL}
    members = [who for who in ALL if roles[who] in "mp"] + [ALL[0]] * (roles[ALL[0]] not in "mp")
    pinned = {who for who in ALL[1:] if roles[who] == "p"}
    leaving = {who for who in ALL[1:] if roles[who] == "l"}
    crawl.members = sorted({*crawl.members, *members, *leaving})
    reports = [
        replace(
            told,
            expansion=draw(st.sampled_from([told.expansion, told.expansion, EMPTY, b"?"])),
            crossing=(random.random() * 1000, 1.0) if random.random() < 0.5 else (0.0, 0.0),
            delays={site(h): random.random() for h in range(hosts)},
            together=[(page(0, 0), page(hosts - 1, 0))],
            cap=random.choice([None, 5.0, 1000.0]),
        )
        for told in crawl.reports(pages(random, hosts), silent=pinned)
    ]
    state = crawl.state if draw(st.booleans()) else None
    return Case(terms, state, members, reports, holdings, pinned, leaving)


def pages(random: Random, hosts: int) -> list[str]:
    """Some pages, most of them of the first hosts."""
    count = random.choice([0, 3, 200])
    return [page(int(random.random() ** 3 * hosts), random.randrange(500)) for _ in range(count)]


def shaken(random: Random, plan: Plan, keys: Sequence[str]) -> Plan:
    """Holdings with boundaries anywhere, also inside of hosts, and with ranges that nobody holds."""
    starts = sorted({*plan.starts, *random.sample(keys, min(len(keys), 5)), page(3, 1)[:-2]})
    return Plan.of((s, random.choice([plan.owner(s), *ALL, ""])) for s in starts)


@pytest.mark.uncounted
class TestEveryPlan:
    """What holds for every strategy, whatever happened before."""

    @given(cases())
    @settings(max_examples=examples(75), deadline=None)
    def test_respects_everyone(self, case: Case) -> None:
        """Only the free and the pinned own anything, and the pinned exactly what they hold."""
        plan = case.run().plan
        assert {*plan.owners} <= case.free | {*case.pinned}
        held = Plan.of(case.holdings)
        for who in case.pinned:
            assert plan.ranges(who) == held.ranges(who)

    @given(cases())
    @settings(max_examples=examples(50), deadline=None)
    def test_keeps_hosts_whole(self, case: Case) -> None:
        """Unless hosts may be split, one gatherer owns all of a host that the pinned do not hold."""
        if case.terms.split_hosts:
            return
        plan = case.run().plan
        for host in cut_hosts(plan.starts):
            end = bisect.bisect_left(plan.starts, end_of_host(host))
            inside = {plan.owner(host), *plan.owners[bisect.bisect_right(plan.starts, host) : end]}
            assert inside & {*case.pinned}
            assert len(inside - {*case.pinned}) <= 1

    @given(cases(), st.randoms(use_true_random=False))
    @settings(max_examples=examples(30), deadline=None)
    def test_is_the_same_whoever_leads(self, case: Case, random: Random) -> None:
        """The same arguments give the same outcome, in whichever order the reports have come."""
        shuffled = [*case.reports]
        random.shuffle(shuffled)
        assert case.run() == case.run(shuffled)

    @given(cases())
    @settings(max_examples=examples(50), deadline=None)
    def test_forecasts_what_can_be(self, case: Case) -> None:
        """Times are those of everyone who stays, finite, and never all below the bound."""
        forecast = case.run().forecast
        assert forecast.times.keys() == case.free | {*case.pinned}
        assert all(0 <= seconds < np.inf for seconds in forecast.times.values())
        assert 0 <= forecast.bound <= max(forecast.times.values()) * (1 + 1e-6)
        assert forecast.moved >= 0
        assert forecast.cut_links >= 0

    @given(cases())
    @settings(max_examples=examples(30), deadline=None)
    def test_hands_on_a_state_that_restores_exactly(self, case: Case) -> None:
        """What the next leader reads is what this one knew, and gatherers begin to count at nothing."""
        outcome = case.run()
        assert Knowledge.from_bytes(outcome.state).to_bytes() == outcome.state
        counting = Expansion.from_bytes(outcome.expansion)
        merged = Knowledge.from_bytes(outcome.state).expansion
        assert counting.total() == 0
        assert counting.boundaries() == merged.boundaries()
        assert outcome.forecast.superpages == len(merged.superpages)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.uncounted
class TestEveryStrategy:
    """What each strategy does in a crawl without disasters."""

    def test_counts_everything_once(self, strategy: str) -> None:
        """The visits of all rounds add up, whoever reported them, under whichever strategy."""
        crawl = Crawl(["a", "b", "c"], Terms(strategy))
        for n in range(3):
            crawl.round(crawl.reports([page(h, i) for h in range(30) for i in range(n * 10, n * 10 + 10)]))
        assert crawl.state is not None
        assert Knowledge.from_bytes(crawl.state).expansion.total() == pytest.approx(900)

    def test_uses_everyone(self, strategy: str) -> None:
        """With sites that are known everyone gets something."""
        crawl = Crawl(["a", "b", "c"], Terms(strategy))
        crawl.round(crawl.reports([page(h, n) for h in range(60) for n in range(10)]))
        random = Random(1)
        told = [replace(r, delays={site(h): random.random() for h in range(60)}) for r in crawl.reports([])]
        outcome = crawl.round(told)
        assert {*outcome.plan.owners} == {"a", "b", "c"}
        assert sum(outcome.forecast.times.values()) > 0

    def test_goes_on_from_the_state_of_another(self, strategy: str) -> None:
        """A state that another strategy has left gives its statistics, and the next rounds go on with it."""
        for before in STRATEGIES:
            crawl = Crawl(["a", "b"], Terms(before))
            crawl.round(crawl.reports([page(h, i) for h in range(20) for i in range(10)]))
            crawl.terms = Terms(strategy)
            crawl.round(crawl.reports([page(h, i) for h in range(20) for i in range(10, 20)]))
            outcome = crawl.round(crawl.reports([]))
            assert Knowledge.from_bytes(outcome.state).expansion.total() == pytest.approx(400)
            assert outcome.forecast.method in (["I", "II"] if strategy == "superpage" else [strategy])

    def test_nothing_seen_leaves_everything_where_it_is(self, strategy: str) -> None:
        """A first plan without statistics is the holdings; what nobody holds goes to the first by name."""
        terms = Terms(strategy)
        none = replan(terms, None, ["c", "b"], [], None, seed=1, domain=last_two)
        assert list(none.plan) == [("", "b")]
        holdings = Plan(("", "\x02com", "\x02de"), ("c", "lost", "b"))
        kept = replan(terms, None, ["c", "b"], [], holdings, seed=1, domain=last_two)
        assert list(kept.plan) == [("", "c"), ("\x02com", "b")]

    def test_sites_without_visits_are_dealt(self, strategy: str) -> None:
        """When no counts came through but sites are known by their paces, a first plan is made of these."""
        told = Report("a", b"?", {site(h): (1.0, 1.0) for h in range(40)})
        outcome = replan(Terms(strategy), None, ["a", "b"], [told], None, seed=1, domain=last_two)
        assert {*outcome.plan.owners} == ({"a"} if strategy == "proximity" else {"a", "b"})


def skewed(seed: int, count: int) -> list[str]:
    """Pages of hosts of very different sizes."""
    rng = np.random.default_rng(seed)
    shares = np.minimum((1 - rng.random(400)) ** (-1 / 1.1), 40)
    return [
        page(int(h), int(n))
        for h, n in zip(
            rng.choice(400, count, p=shares / shares.sum()), rng.integers(10**6, size=count), strict=True
        )
    ]


class TestSuperpages:
    """The strategy of 003."""

    def test_balances_what_a_hash_cannot(self) -> None:
        """With gatherers of different pace the largest T is near the mean from the second round on."""
        pace = {"a": 1.0, "b": 1.5, "c": 2.0, "d": 3.0}
        excess = {}
        for strategy in ("superpage", "hash"):
            crawl = Crawl(list(pace), Terms(strategy), paces=pace)
            for n in range(3):
                foreseen = crawl.round(crawl.reports(skewed(n, 4000))).forecast.times
                times = crawl.times(sorted(crawl.keys), pace)
                excess[strategy, n] = max(times) / np.mean(times) - 1
                assert n == 0 or times == pytest.approx([foreseen[gatherer] for gatherer in pace], rel=0.25)
        for n in (1, 2):
            assert excess["superpage", n] <= 0.10
            assert excess["hash", n] >= 3 * excess["superpage", n]

    def test_moves_nothing_without_a_reason(self) -> None:
        """When nothing new is found, a round moves nothing."""
        crawl = Crawl(["a", "b", "c"])
        for n in range(2):
            crawl.round(crawl.reports(skewed(n, 3000)))
        before = crawl.plan
        outcome = crawl.round(crawl.reports([]))
        assert outcome.forecast.moved <= 0.02 * len(crawl.keys)
        assert before is not None
        again = crawl.round(crawl.reports([]))
        assert again.forecast.moved <= 0.01 * len(crawl.keys)

    def test_a_newcomer_gets_its_share_where_there_is_work(self) -> None:
        """Who joins gets a part of the work, and nothing moves when hardly anything is queued."""
        crawl = Crawl(["a", "b"])
        for n in range(2):
            crawl.round(crawl.reports(skewed(n, 3000)))
        outcome = crawl.round(crawl.reports([]), members=["a", "b", "c"])
        times = outcome.forecast.times
        assert times["c"] > 0.7 * max(times.values())
        few = Crawl(["a", "b"])
        few.round(few.reports([page(h, 0) for h in range(12)]))
        before = few.plan
        assert few.round(few.reports([page(12, 0)]), members=["a", "b", "c"]).plan == before

    def test_who_leaves_and_who_is_lost_own_nothing(self) -> None:
        """What they had is shared by the others; only what the leaver has is moved."""
        crawl = Crawl(["a", "b", "c", "d"])
        for n in range(2):
            crawl.round(crawl.reports(skewed(n, 3000)))
        held = Counter(map(crawl.holder, crawl.keys))
        outcome = crawl.round(crawl.reports([], silent="d"), members=["a", "b", "c"], leaving=["c"])
        assert {*outcome.plan.owners} == {"a", "b"}
        times = list(outcome.forecast.times.values())
        assert max(times) / np.mean(times) < 1.1
        assert outcome.forecast.moved == pytest.approx(held["c"], rel=0.4)

    def test_the_pinned_count_with_what_was_last_known_of_them(self) -> None:
        """Who is silent keeps its ranges; its T is foreseen from the last round, and the others balance."""
        crawl = Crawl(["a", "b", "c", "d"])
        for n in range(2):
            crawl.round(crawl.reports(skewed(n, 3000)))
        assert crawl.plan is not None
        before, had = crawl.plan, Counter(map(crawl.holder, crawl.keys))["c"]
        outcome = crawl.round(crawl.reports(skewed(5, 3000), silent="c"), pinned="c")
        assert outcome.plan.ranges("c") == before.ranges("c")
        assert outcome.forecast.times["c"] == pytest.approx(had, rel=0.3)
        others = [outcome.forecast.times[gatherer] for gatherer in "abd"]
        assert max(others) / np.mean(others) < 1.1

    def test_counts_in_another_expansion_are_left_out(self) -> None:
        """A report from before the last plan does not fail the round; its paces count."""
        crawl = Crawl(["a", "b"])
        crawl.round(crawl.reports(skewed(1, 3000)))
        late = report("b", EMPTY, [page(777, n) for n in range(50)], pace=9.0)
        outcome = crawl.round([*crawl.reports([], silent="b"), late])
        known = Knowledge.from_bytes(outcome.state)
        assert known.expansion.total() == pytest.approx(len(crawl.keys))
        assert site(777) in known.learned.names

    def test_without_a_state_goes_on_in_the_expansion_that_all_count_in(self) -> None:
        """When the last state cannot be read, only what was counted before is lost."""
        crawl = Crawl(["a", "b"])
        for n in range(2):
            crawl.round(crawl.reports(skewed(n, 3000)))
        before, crawl.state = crawl.plan, None
        outcome = crawl.round(crawl.reports(skewed(2, 3000)))
        assert Knowledge.from_bytes(outcome.state).expansion.total() > 2000
        assert before is not None
        moved = sum(before.owner(k) != outcome.plan.owner(k) for k in crawl.keys)
        assert moved < 0.3 * len(crawl.keys)

    def test_big_hosts_are_split_only_when_they_may_be(self) -> None:
        """One host with most of the pages has one owner, http and https together, unless it may be split."""
        keys = [page(1, n, scheme=s) for n in range(1000) for s in ("http", "https")]
        keys += [page(h, n) for h in range(2, 40) for n in range(10)]
        owners = {}
        for split in (False, True):
            crawl = Crawl(["a", "b"], Terms(split_hosts=split))
            for half in (keys[::2], keys[1::2]):
                crawl.round(crawl.reports(half))
            owners[split] = {
                crawl.holder(page(1, n, scheme=s)) for n in range(1000) for s in ("http", "https")
            }
        assert len(owners[False]) == 1
        assert len(owners[True]) == 2

    def test_a_cap_is_kept(self) -> None:
        """Who has room for few rows gets few."""
        crawl = Crawl(["a", "b"])
        crawl.round(crawl.reports(skewed(1, 3000)))
        told = [replace(r, cap=500.0 if r.gatherer == "b" else None) for r in crawl.reports(skewed(2, 1000))]
        crawl.round(told)
        assert Counter(map(crawl.holder, crawl.keys))["b"] < 600

    def test_probes_are_for_those_who_stay(self) -> None:
        """Probes name known sites and gatherers that are not leaving, and never the owner."""
        crawl = Crawl(["a", "b", "c"])
        crawl.round(crawl.reports(skewed(1, 3000)))
        outcome = crawl.round(crawl.reports(skewed(2, 3000)), leaving=["c"])
        assert outcome.probes
        for probe in outcome.probes:
            assert probe.gatherer in "ab"
            assert outcome.plan.owner(probe.site) != probe.gatherer


class TestLinks:
    """Partition I or II."""

    @staticmethod
    def outcome(method: str, crossing: tuple[float, float]) -> Outcome:
        """Two rounds over hosts of which the even link to each other, and the odd."""
        crawl = Crawl(["a", "b"], Terms(method=method))
        crawl.round(crawl.reports([page(h, n) for h in range(40) for n in range(20)]))
        told = []
        for each in crawl.reports([]):
            counted = Expansion.from_bytes(each.expansion)
            for h in range(38):
                one, other = (counted.locate_index(page(n, 0)) for n in (h, h + 2))
                if counted.queued[one]:
                    counted.add_links(one, {other: 50})
            told.append(replace(each, expansion=counted.to_bytes(), crossing=crossing))
        return crawl.round(told)

    def test_the_second_is_for_links_that_cost(self) -> None:
        """Cheap links are left to Partition I, dear ones get II, which cuts fewer and counts them in T."""
        cheap, dear = self.outcome("auto", (1e9, 1.0)), self.outcome("auto", (1.0, 1.0))
        assert (cheap.forecast.method, dear.forecast.method) == ("I", "II")
        assert dear.forecast.cut_links < cheap.forecast.cut_links
        assert max(dear.forecast.times.values()) > max(cheap.forecast.times.values())

    def test_the_method_can_be_fixed(self) -> None:
        """I is I however dear links are, and II is II however cheap; without any rate it is I."""
        assert self.outcome("I", (10.0, 1.0)).forecast.method == "I"
        assert self.outcome("II", (1e9, 1.0)).forecast.method == "II"
        assert self.outcome("II", (0.0, 0.0)).forecast.method == "I"

    def test_links_to_the_pinned_count(self) -> None:
        """Partition II works around what a pinned gatherer holds."""
        crawl = Crawl(["a", "b", "c"], Terms(method="II"))
        crawl.round(crawl.reports([page(h, n) for h in range(40) for n in range(20)]))
        assert crawl.plan is not None
        before, told = crawl.plan, []
        for each in crawl.reports([], silent="c"):
            counted = Expansion.from_bytes(each.expansion)
            for h in range(39):
                counted.add_links(counted.locate_index(page(h, 0)), {counted.locate_index(page(h + 1, 0)): 9})
            told.append(replace(each, expansion=counted.to_bytes(), crossing=(100.0, 1.0)))
        outcome = crawl.round(told, pinned="c")
        assert outcome.forecast.method == "II"
        assert outcome.plan.ranges("c") == before.ranges("c")


class TestSites:
    """The strategies by site."""

    def test_hash_is_the_hash(self) -> None:
        """Known sites are where the hash of their names says, and stay there when one is silent."""
        crawl = Crawl(["a", "b", "c"], Terms("hash"))
        keys = [page(h, n) for h in range(60) for n in range(4)]
        outcome = crawl.round(crawl.reports(keys))
        assert all(outcome.plan.owner(k) == rendezvous(SITES.of(k), "abc") for k in keys)
        assert crawl.round(crawl.reports([], silent="b"), pinned="b").plan == outcome.plan

    def test_proximity_decides_when_all_have_measured(self) -> None:
        """New sites wait with who announces them and are to be measured by all; then the nearest has them."""
        near = {site(h): "abc"[h // 2 % 3] for h in range(30)}
        crawl = Crawl(["a", "b", "c"], Terms("proximity"))
        first = crawl.round(crawl.reports([page(h, 0) for h in range(30)]))
        assert {*first.plan.owners} == {"a"}
        assert {(p.site, p.gatherer) for p in first.probes} == {(s, g) for s in near for g in "abc"}
        delays = {g: {s: 0.01 if near[s] == g else 0.1 for s in near} for g in "abc"}
        second = crawl.round([replace(r, delays=delays[r.gatherer]) for r in crawl.reports([])])
        assert {s: second.plan.owner(s) for s in near} == near
        assert not second.probes
        assert crawl.round(crawl.reports([])).plan == second.plan

    def test_twoma_brings_sites_to_who_is_near(self) -> None:
        """From round to round, each by another leader, sites move to where they take less."""
        near = {site(h): "ab"[h // 2 % 2] for h in range(60)}
        crawl = Crawl(["a", "b"], Terms("twoma"))
        crawl.keys = {page(h, 0) for h in range(60)}
        for _ in range(40):
            told = [
                Report(
                    g, EMPTY, {s: (1.0, 1.0 if near[s] == g else 3.0) for s in near if crawl.holder(s) == g}
                )
                for g in crawl.members
            ]
            crawl.round(told)
        assert sum(crawl.holder(s) == near[s] for s in near) >= 0.9 * len(near)

    def test_oma_brings_pairs_together(self) -> None:
        """Sites that are wanted together end with one gatherer, and the numbers of sites stay."""
        halves = [[h for h in range(0, 80, 2) if h % 4 == n][:20] for n in (0, 2)]
        crawl = Crawl(["a", "b"], Terms("oma"))
        random = Random(1)
        for _ in range(150):
            for half in halves:
                random.shuffle(half)
            pairs = [
                (page(a, 0), page(b, 0))
                for half in halves
                for a, b in zip(half[::2], half[1::2], strict=True)
            ]
            sites = [site(h) for half in halves for h in half]
            told = [
                Report(g, EMPTY, {s: (1.0, 1.0) for s in sites if crawl.holder(s) == g}, together=pairs)
                for g in crawl.members
            ]
            crawl.round(told)
        most = [max(Counter(crawl.holder(site(h)) for h in half).values()) for half in halves]
        assert sum(most) >= 36

    @pytest.mark.parametrize("strategy", ["proximity", "twoma", "oma"])
    def test_begin_with_who_holds_what(self, strategy: str) -> None:
        """When the state is lost, or of another strategy, sites begin where they are."""
        crawl = Crawl(["a", "b", "c"])
        for n in range(2):
            crawl.round(crawl.reports([page(h, n * 100 + i) for h in range(60) for i in range(10)]))
        before, crawl.terms = crawl.plan, Terms(strategy)
        outcome = crawl.round(crawl.reports([]))
        assert before is not None
        moved = [h for h in range(60) if before.owner(site(h)) != outcome.plan.owner(site(h))]
        assert len(moved) <= (0 if strategy != "twoma" else 20)


class TestSingles:
    """What is singled out."""

    def test_who_is_out_comes_first(self) -> None:
        """Where not all that would gain can be out, those stay out that are, unless others gain twice."""
        pace = np.array([[1.0, 9.0]] * 4 + [[9.0, 1.0]] * 2)
        known = Known(np.zeros(6, np.int64), np.array([NONE]), np.array([9.0, 9, 9, 9, 3, 2]), pace)
        work = np.array([41.0])
        assert single_out(work, known, np.ones(2), 1).singled.tolist() == [4]
        known = replace(known, already=np.arange(6) == 5)
        assert single_out(work, known, np.ones(2), 1).singled.tolist() == [5]

    def test_only_for_those_who_have_tried(self) -> None:
        """That a site is faster elsewhere has to have been seen, on both sides."""
        pace = np.array([[1.0, 9.0]] * 4 + [[9.0, 1.0]])
        for there, here in ((False, True), (True, False), (True, True)):
            tried = np.array([[True, True]] * 4 + [[there, here]])
            known = Known(np.zeros(5, np.int64), np.array([NONE]), np.ones(5), pace, tried)
            singled = single_out(np.array([5.0]), known, np.ones(2), 9).singled.tolist()
            assert singled == ([4] if there and here else [])


class TestHosts:
    """Hosts are kept whole."""

    def test_a_host_is_its_name_with_all_schemes_and_ports(self) -> None:
        """Its range has all of its pages and nothing of the hosts below its name."""
        host = host_of(key("https://x.com/a"))
        assert host is not None
        inside = ["http://x.com/", "https://x.com:8443/z?q"]
        outside = ["http://www.x.com/", "http://y.com/", "http://w.com/"]
        assert all(host <= key(u) < end_of_host(host) for u in inside)
        assert not any(host <= key(u) < end_of_host(host) for u in outside)
        assert host_of("\x02com\x02x") is None

    def test_goes_to_who_has_most_of_it(self) -> None:
        """By sampled keys first, and by ranges where none was sampled."""
        low, middle, high = key("http://x.com/a"), key("http://x.com/m"), key("http://x.com/t")
        plan = Plan(("", low, middle, high), ("a", "b", "c", "b"))
        host = host_of(low)
        assert host is not None
        after = end_of_host(host)
        assert list(whole_hosts(plan, [middle + "1", middle + "2", high + "1"])) == [
            ("", "a"),
            (host, "c"),
            (after, "b"),
        ]
        assert whole_hosts(plan, []).owner(low) == "b"


class TestState:
    """What is handed on."""

    def test_is_refused_when_it_is_none(self) -> None:
        """Other bytes, another version and damaged parts are told from a state."""
        outcome = replan(Terms(), None, ["a"], [], None, seed=1, domain=last_two)
        packed = msgpack.packb({"version": 99})
        damaged = msgpack.unpackb(zlib.decompress(outcome.state))
        damaged["queued"] = b"12345678" * 3
        for bad, why in (
            (b"x", "not the bytes"),
            (zlib.compress(packed), "version 99"),
            (zlib.compress(msgpack.packb(damaged)), "damaged"),
        ):
            with pytest.raises(ValueError, match=why):
                replan(Terms(), bad, ["a"], [], None, seed=1, domain=last_two)

    def test_the_lightest_sites_are_forgotten_first(self) -> None:
        """The tables are bounded: what few pages were fetched of goes, with its paces."""
        learned = Learned(["a", "b"])
        for n in range(10):
            learned.observe(f"\x02{n}", "a", 1.0 + n, pages=1 + n % 5)
        learned.learn()
        learned.keep(4)
        assert learned.names == ["\x023", "\x024", "\x028", "\x029"]
        assert [learned.number(name) for name in learned.names] == [0, 1, 2, 3]
        assert len(learned.paces) == len(learned.weight) == 4
        again = Learned.restored(learned.state())
        assert again.state() == learned.state()

    def test_needs_someone_to_plan_for(self) -> None:
        """Without a member that answered and stays, there is nothing to decide."""
        for members, pinned, leaving in (
            ([], [], []),
            (["a"], ["a"], []),
            (["a"], [], ["a"]),
            ([""], [], []),
        ):
            with pytest.raises(ValueError, match="needs a member"):
                replan(
                    Terms(), None, members, [], None, seed=1, domain=last_two, pinned=pinned, leaving=leaving
                )

    @pytest.mark.parametrize("bad", [{"strategy": "best"}, {"method": "III"}])
    def test_terms_are_checked(self, bad: Mapping[str, str]) -> None:
        """A strategy or method that does not exist is refused at once."""
        with pytest.raises(ValueError, match="one of"):
            Terms(**bad)  # type: ignore[arg-type]
