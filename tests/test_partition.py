"""Partitions: worked examples, and what holds for all of them."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gcs.core import partition
from gcs.core.partition import Partition, Terms, bound, prices
from gcs.core.partition.problem import problem
from gcs.core.partition.search import _Search
from gcs.simulate.partition import World, links
from tests.effort import examples

FloatArray = npt.NDArray[np.float64]
CLOSE = 1 + 1e-6


@dataclass(frozen=True)
class Case:
    """A small problem, and its best makespan by trying everything."""

    weights: FloatArray
    rates: FloatArray
    links: FloatArray
    comm_rates: FloatArray
    terms: Terms

    @property
    def optimum(self) -> float:
        """The smallest makespan of Partition I, caps aside."""
        k, m = self.rates.shape
        costs = np.full((k, m), np.inf)
        np.divide(self.weights, self.rates, out=costs, where=self.rates > 0)
        all_owners = itertools.product(range(k), repeat=m)
        return min(
            max(sum(float(costs[i, j]) for j in range(m) if owner[j] == i) for i in range(k))
            for owner in all_owners
        )


@st.composite
def cases(draw: st.DrawFn, *, superpages: int = 12, gatherers: int = 5, holes: bool = True) -> Case:
    """Problems with few superpages and gatherers, with pairs that may not be."""
    k = draw(st.integers(1, gatherers))
    m = draw(st.integers(1, superpages))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    weights = rng.choice([0.0, 1.0, 1.0, 2.0, 7.5, 100.0], m) * rng.choice([1.0, rng.random()], m)
    rates = rng.choice([0.5, 1.0, 1.0, 3.0], (k, m)) * np.where(
        rng.random() < 0.5, 1.0, rng.random((k, m)) + 0.1
    )
    if holes:
        rates[rng.random((k, m)) < 0.2] = rng.choice([0.0, np.nan])
        rates[rng.integers(0, k, m), np.arange(m)] = 1.0
    table = np.stack(
        [rng.integers(0, m, 2 * m), rng.integers(0, m, 2 * m), rng.integers(0, 9, 2 * m)], axis=1
    )
    current = rng.integers(-1, k, m)
    terms = Terms(current=current, move_cost=float(rng.choice([0.0, 0.1])), sizes=rng.random(m))
    return Case(
        weights, rates, table.astype(float), rng.random(k) + 0.1, draw(st.sampled_from([terms, Terms()]))
    )


def is_sound(found: Partition, case: Case, *, linked: bool) -> bool:
    """Whether everything has one owner, who may own it, and the times are what they should be."""
    m = len(case.weights)
    owned = case.rates[found.owner, np.arange(m)]
    again = partition.evaluate(
        found.owner,
        case.weights,
        case.rates,
        links=case.links if linked else None,
        comm_rates=case.comm_rates if linked else None,
        terms=case.terms,
    )
    return bool(
        found.owner.shape == (m,)
        and (owned > 0).all()
        and found.makespan == found.times.max()
        and np.allclose(found.times, again.times)
        and found.cut_links == pytest.approx(again.cut_links)
    )


def test_wrong_times_are_not_sound() -> None:
    """A partition that leaves out the time of its links, or has that of links nobody told of, is found."""
    case = Case(np.ones(2), np.ones((2, 2)), np.array([[0.0, 1.0, 3.0]]), np.ones(2), Terms())
    alone = partition.evaluate([0, 1], case.weights, case.rates)
    linked = partition.evaluate(
        [0, 1], case.weights, case.rates, links=case.links, comm_rates=case.comm_rates
    )
    assert is_sound(alone, case, linked=False)
    assert is_sound(linked, case, linked=True)
    assert not is_sound(alone, case, linked=True)
    assert not is_sound(linked, case, linked=False)


class TestWorkedExamples:
    """Small problems computed by hand."""

    def test_partition_one(self) -> None:
        """Each superpage goes, in order of weight, to the smallest T_s + w_j/r_sj."""
        # w/r is  3 4 3 1  for gatherer 0 and  6 2 3 2  for gatherer 1.
        # P0: 3 or 6        -> 0, T = (3, 0)
        # P1: 3+4 or 0+2    -> 1, T = (3, 2)
        # P2: 3+3 or 2+3    -> 1, T = (3, 5)
        # P3: 3+1 or 5+2    -> 0, T = (4, 5)
        found = partition.greedy([6, 4, 3, 2], [[2, 1, 1, 2], [1, 2, 1, 1]])
        assert found.owner.tolist() == [0, 1, 1, 0]
        assert found.times.tolist() == [4, 5]
        assert found.makespan == 5

    def test_order_is_that_of_the_weights(self) -> None:
        """Superpages are placed from the heaviest, wherever they stand."""
        # By weight P3, P2, P1, P0 = 4, 3, 2, 1: to 0, 1, 1 (3+2 < 4+2), 0 (4+1 = 5+1-1 < 5+1).
        found = partition.greedy([1, 2, 3, 4], np.ones((2, 4)))
        assert found.owner.tolist() == [0, 1, 1, 0]
        assert found.times.tolist() == [5, 5]

    def test_partition_two(self) -> None:
        """A superpage with three links into U_0 goes there, though gatherer 1 has less to do."""
        # P0 = 4 -> 0, T = (4, 0).  P1 = 3: max(4+3, 0) or max(4, 3) -> 1, T = (4, 3).
        # P2 = 2, 3 links with P0:  in 0: T = (4+2, 3), max 6.
        #                           in 1: T = (4+3, 3+2+3), max 8.            -> 0
        found = partition.greedy_with_links([4, 3, 2], np.ones((2, 3)), [(0, 2, 3)], [1, 1])
        assert found.owner.tolist() == [0, 1, 0]
        assert found.times.tolist() == [6, 3]
        assert found.cut_links == 0

    def test_partition_one_seen_with_links(self) -> None:
        """Partition I of the same problem cuts the three links, which count at both ends."""
        # I gives P2 to 1 (3+2 < 4+2). B = (3, 3), so T = (4+3, 5+3).
        first = partition.greedy([4, 3, 2], np.ones((2, 3)))
        seen = partition.evaluate(
            first.owner, [4, 3, 2], np.ones((2, 3)), links=[(2, 0, 3)], comm_rates=[1, 1]
        )
        assert seen.times.tolist() == [7, 8]
        assert seen.cut_links == 3

    def test_the_smallest_time_breaks_ties(self) -> None:
        """Where another gatherer has the largest T in any case, the smallest T_s decides."""
        # P0 = 10 -> 0. P1 and P2 = 1: the largest stays 10. P2 in 1: T_1 = 2. In 2: T_2 = 1.
        found = partition.greedy_with_links([10, 1, 1], np.ones((3, 3)), [], [1, 1, 1])
        assert found.owner.tolist() == [0, 1, 2]

    def test_the_smallest_sum_breaks_the_ties_that_are_left(self) -> None:
        """Of equal T_s, the one decides after which all gatherers together have least to do."""
        # P2 has one link with P1. In 1: T = (10, 2, 0), sum 12. In 2: T = (10, 1+1, 1+1), sum 14.
        found = partition.greedy_with_links([10, 1, 1], np.ones((3, 3)), [(1, 2, 1)], [1, 1, 1])
        assert found.owner.tolist() == [0, 1, 1]

    def test_a_move_improves(self) -> None:
        """A superpage leaves the largest T when that lowers it."""
        start = partition.evaluate([0, 0, 0], [3, 2, 1], np.ones((2, 3)))
        for priced in (True, False):
            found = partition.improve(start, [3, 2, 1], np.ones((2, 3)), priced=priced)
            assert found.makespan == 3

    def test_a_swap_improves(self) -> None:
        """Where no move helps, two superpages change places."""
        # T = (5+4, 3+2) = (9, 5): any move makes 9 at least. 4 for 3, or 5 for 3: (8, 6), (7, 7).
        start = partition.evaluate([0, 0, 1, 1], [5, 4, 3, 2], np.ones((2, 4)))
        found = partition.improve(start, [5, 4, 3, 2], np.ones((2, 4)), priced=False)
        assert found.makespan == 7

    def test_superpages_that_alone_take_longest(self) -> None:
        """One superpage sets the makespan, and the others are shared evenly all the same."""
        weights = [100] + [1] * 30
        start = partition.evaluate([0] + [1] * 30, weights, np.ones((4, 31)))
        found = partition.improve(start, weights, np.ones((4, 31)), priced=False)
        assert sorted(found.times.tolist()) == [10, 10, 10, 100]

    def test_the_bound_leaves_out_what_takes_too_long(self) -> None:
        """One superpage on two gatherers: half of it each is no schedule, and the bound knows."""
        assert partition.lower_bound([6], [[1], [1]]).value == pytest.approx(6)
        assert partition.lower_bound([6, 6], [[1, 1], [1, 1]]).value == pytest.approx(6)
        # Two gatherers, and a third on which everything takes 100: dividing would give it a small part.
        found = partition.lower_bound([4, 4, 4], [[1.0] * 3, [1.0] * 3, [0.04] * 3])
        assert found.value == pytest.approx(6)
        assert found.exact


class TestAlways:
    """What holds for every problem."""

    @settings(max_examples=examples(50), deadline=None)
    @given(cases())
    def test_everything_has_one_owner_who_may_own_it(self, case: Case) -> None:
        """Every algorithm gives every superpage to one gatherer with a rate for it."""
        w, r, terms = case.weights, case.rates, case.terms
        first = partition.greedy(w, r, terms=terms)
        second = partition.greedy_with_links(w, r, case.links, case.comm_rates, terms=terms)
        for found in (
            first,
            partition.improve(first, w, r, terms=terms),
            partition.assign(w, r, terms=terms),
            partition.round_lp(w, r, terms=terms),
        ):
            assert is_sound(found, case, linked=False)
        for found in (
            second,
            partition.improve(second, w, r, links=case.links, comm_rates=case.comm_rates, terms=terms),
            partition.assign(w, r, links=case.links, comm_rates=case.comm_rates, terms=terms),
        ):
            assert is_sound(found, case, linked=True)

    @settings(max_examples=examples(50), deadline=None)
    @given(cases(), st.booleans(), st.booleans())
    def test_improvement_never_makes_worse(self, case: Case, linked: bool, priced: bool) -> None:
        """An improved partition has no larger makespan than the one it started from, whatever that was."""
        w, r = case.weights, case.rates
        table, comm = (case.links, case.comm_rates) if linked else (None, None)
        worst = [int(np.flatnonzero(r[:, j] > 0)[-1]) for j in range(len(w))]
        start = partition.evaluate(worst, w, r, links=table, comm_rates=comm, terms=case.terms)
        found = partition.improve(start, w, r, links=table, comm_rates=comm, terms=case.terms, priced=priced)
        assert found.makespan <= start.makespan

    @settings(max_examples=examples(50), deadline=None)
    @given(cases())
    def test_two_is_never_worse_than_one(self, case: Case) -> None:
        """On II's own objective Partition II is at most what Partition I comes to."""
        w, r = case.weights, case.rates
        first = partition.evaluate(
            partition.greedy(w, r).owner, w, r, links=case.links, comm_rates=case.comm_rates
        )
        assert partition.greedy_with_links(w, r, case.links, case.comm_rates).makespan <= first.makespan

    @settings(max_examples=examples(30), deadline=None)
    @given(cases(superpages=6, gatherers=3))
    def test_the_bound_is_below_the_optimum_and_rounding_within_twice_the_bound(self, case: Case) -> None:
        """bound ≤ optimum ≤ every partition, and LP rounding ≤ 2 · bound."""
        w, r = case.weights, case.rates
        least = partition.lower_bound(w, r)
        assert least.value <= case.optimum * CLOSE
        assert partition.lower_bound(w, r, cells=0).value <= least.value * CLOSE
        assert partition.round_lp(w, r).makespan <= 2 * least.value * CLOSE
        for found in (partition.greedy(w, r), partition.assign(w, r), partition.round_lp(w, r)):
            assert found.makespan * CLOSE >= case.optimum

    @settings(max_examples=examples(30), deadline=None)
    @given(cases(superpages=20))
    def test_the_bound_with_moving_costs_is_below_every_partition(self, case: Case) -> None:
        """What moves cost raises the bound too, and it still holds."""
        w, r, terms = case.weights, case.rates, case.terms
        least = partition.lower_bound(w, r, terms=terms).value
        rounded = partition.round_lp(w, r, terms=terms).makespan
        assert rounded <= 2 * least * CLOSE
        assert least <= min(rounded, partition.assign(w, r, terms=terms).makespan) * CLOSE

    @settings(max_examples=examples(30), deadline=None)
    @given(cases(holes=False), st.integers(0, 2**32))
    def test_caps_are_kept_where_there_is_room(self, case: Case, seed: int) -> None:
        """With as much room to spare as a superpage takes, at every gatherer, no cap is exceeded."""
        w, r = case.weights, case.rates
        rng = np.random.default_rng(seed)
        sizes = rng.random(len(w))
        parts = rng.dirichlet(np.ones(len(r)))
        terms = Terms(sizes=sizes, caps=parts * sizes.sum() + sizes.max(), current=case.terms.current)
        first = partition.greedy(w, r, terms=terms)
        for found in (
            first,
            partition.improve(first, w, r, terms=terms),
            partition.improve(first, w, r, terms=terms, priced=False),
            partition.assign(w, r, terms=terms),
            partition.greedy_with_links(w, r, case.links, case.comm_rates, terms=terms),
        ):
            used = np.bincount(found.owner, sizes, len(r))
            assert found.over_cap == 0
            assert (used <= np.asarray(terms.caps) * CLOSE).all()

    @settings(max_examples=examples(30), deadline=None)
    @given(cases(), st.floats(0.1, 1.0))
    def test_improvement_never_exceeds_caps_by_more(self, case: Case, room: float) -> None:
        """Where caps cannot all be kept, what is over them does not grow; else it is 0 before all else."""
        w, r = case.weights, case.rates
        sizes = np.linspace(1, 2, len(w))
        terms = Terms(sizes=sizes, caps=np.full(len(r), room * sizes.sum() / len(r)))
        first = partition.greedy(w, r, terms=terms)
        assert partition.improve(first, w, r, terms=terms).rank <= first.rank

    def test_the_same_arguments_give_the_same_partition(self) -> None:
        """There is no chance in it."""
        rng = np.random.default_rng(1)
        w, r = rng.random(200), rng.random((8, 200)) + 0.1
        one, two = (partition.assign(w, r) for _ in range(2))
        assert one.owner.tolist() == two.owner.tolist()

    def test_results_cannot_be_written(self) -> None:
        """What a partition says stays as it is."""
        found = partition.greedy([1, 2], np.ones((2, 2)))
        with pytest.raises(ValueError, match="read-only"):
            found.owner[0] = 1

    def test_nothing_to_share(self) -> None:
        """No superpages, or superpages of no weight, are a partition too."""
        for weights, rates in (([], np.empty((3, 0))), ([0, 0], np.ones((3, 2)))):
            assert partition.greedy(weights, rates).makespan == 0
            assert partition.assign(weights, rates).makespan == 0
            assert partition.round_lp(weights, rates).makespan == 0
            assert partition.lower_bound(weights, rates).value == 0


class TestTerms:
    """Owners of today, caps, and who may own what."""

    def test_a_mask_forbids(self) -> None:
        """A gatherer owns nothing that it is not allowed."""
        rng = np.random.default_rng(2)
        w, r = rng.random(50), rng.random((4, 50)) + 0.1
        allowed = np.ones((4, 50), bool)
        allowed[0] = False
        for found in (partition.assign(w, r, terms=Terms(allowed=allowed)),
                      partition.round_lp(w, r, terms=Terms(allowed=allowed))):  # fmt: skip
            assert 0 not in found.owner

    def test_moving_costs_the_new_owner(self) -> None:
        """What changes hands counts as moved, and costs its size at the new owner."""
        terms = Terms(current=[0, 0], move_cost=2.0, sizes=[3, 4])
        found = partition.evaluate([0, 1], [1, 1], np.ones((2, 2)), terms=terms)
        assert found.times.tolist() == [1, 1 + 2 * 4]
        assert found.moved == 4

    def test_dear_moves_are_not_made(self) -> None:
        """A move that costs more than it gains is left."""
        terms = Terms(current=[0, 0], move_cost=10.0)
        assert partition.assign([1, 1], np.ones((2, 2)), terms=terms).moved == 0

    def test_little_is_moved_for_little(self) -> None:
        """After a small change nearly all stays where it is, and the makespan is within 5% of a new one."""
        rng = np.random.default_rng(3)
        w, r = rng.lognormal(0, 0.5, 600), np.repeat(rng.uniform(0.5, 2, (8, 1)), 600, axis=1)
        before = partition.assign(w, r)
        drifted = w * rng.lognormal(0, 0.3, 600)
        terms = Terms(current=before.owner)
        kept, fresh = partition.assign(drifted, r, terms=terms), partition.assign(drifted, r)
        assert kept.makespan <= 1.05 * fresh.makespan * CLOSE
        assert kept.moved < 0.05 * drifted.sum()
        assert (fresh.owner != before.owner).mean() > 0.5

    def test_a_new_gatherer_gets_its_part(self) -> None:
        """One who joins many gets work, although that hardly lowers the makespan."""
        w, r = np.ones(2000), np.ones((41, 2000))
        before = partition.assign(w, r[:40])
        after = partition.assign(w, r, terms=Terms(current=before.owner))
        assert after.times[40] > 0.9 * after.times.mean()
        assert after.moved < 0.03 * w.sum()

    def test_who_leaves_has_nothing_left(self) -> None:
        """What was held by one who may own nothing any more is shared out, and the rest stays."""
        w, r = np.ones(400), np.ones((8, 400))
        before = partition.assign(w, r)
        r[7] = 0
        after = partition.assign(w, r, terms=Terms(current=before.owner))
        assert 7 not in after.owner
        assert after.moved == pytest.approx(50, abs=5)

    def test_a_new_beginning_where_keeping_is_bad(self) -> None:
        """Where moves and swaps do not lead from today's owners to a good partition, all begins anew."""
        rng = np.random.default_rng(5)
        w, r = rng.lognormal(0, 1, 300), rng.lognormal(0, 1.5, (12, 300))
        worst = r.argmin(axis=0)
        anew = partition.assign(w, r, terms=Terms(current=worst), worth=0.0)
        assert anew.makespan <= 1.05 * partition.lower_bound(w, r).value
        linked = partition.assign(
            w, r, links=links(w, rng), comm_rates=np.full(12, 1e3), terms=Terms(current=worst)
        )
        assert linked.moved > 0

    def test_caps_push_out(self) -> None:
        """A gatherer over its cap gives away what others have room for, by moves or by exchanges."""
        crowded = partition.evaluate([0, 0, 0, 1], [1, 1, 1, 1], np.ones((2, 4)), terms=Terms(caps=[2, None]))
        assert crowded.over_cap == 1
        found = partition.improve(crowded, [1, 1, 1, 1], np.ones((2, 4)), terms=Terms(caps=[2, None]))
        assert found.over_cap == 0
        # 3 and 3 fill gatherer 0 to 6, of 5 allowed; 1 has 2 and 1 in 4. 3 for 2 makes 5 and 4.
        terms = Terms(caps=[5, 4])
        start = partition.evaluate([0, 0, 1, 1], [3, 3, 2, 1], np.ones((2, 4)), terms=terms)
        swapped = partition.improve(start, [3, 3, 2, 1], np.ones((2, 4)), terms=terms, priced=False)
        assert start.over_cap == 1
        assert swapped.over_cap == 0

    def test_a_cap_of_nothing_empties(self) -> None:
        """A gatherer that has room for nothing gives everything away, and then is left alone."""
        terms = Terms(current=[0] * 3, sizes=[0.1, 0.2, 0.3], caps=[0, np.inf])
        found = partition.assign([1] * 3, np.ones((2, 3)), terms=terms)
        assert found.owner.tolist() == [1, 1, 1]
        assert found.over_cap == 0
        search = _Search(problem([1] * 3, np.ones((2, 3)), terms), found.owner, None)
        assert not search._send_away(0)

    def test_no_room_anywhere(self) -> None:
        """Where there is not room for all, the partition says how much is over its caps."""
        found = partition.assign([2, 2, 2], np.ones((2, 3)), terms=Terms(caps=[2, 2]))
        assert found.over_cap == 2
        alone = partition.assign([2, 2], np.ones((1, 2)), terms=Terms(caps=[1]))
        assert alone.over_cap == 3


class TestRefused:
    """Arguments that do not fit together are refused with a sentence."""

    @pytest.mark.parametrize(
        ("weights", "rates", "terms", "says"),
        [
            ([[1]], [[1]], Terms(), "weights are one number"),
            ([-1], [[1]], Terms(), "finite and not negative"),
            ([np.nan], [[1]], Terms(), "finite and not negative"),
            ([1, 2], [[1]], Terms(), "column per superpage"),
            ([1], np.empty((0, 1)), Terms(), "row per gatherer"),
            ([1], [[-1]], Terms(), "rates are finite"),
            ([1], [[np.inf]], Terms(), "rates are finite"),
            ([1, 1], [[1, 0], [1, np.nan]], Terms(), "no gatherer may own superpage 1"),
            ([1, 1e300], [[1, 1e-300]], Terms(), "no gatherer may own superpage 1"),
            ([1, 1], [[1, 1]], Terms(allowed=[[True, False]]), "no gatherer may own superpage 1"),
            ([1, 1], [[1, 1]], Terms(allowed=[True, False]), "shape of the rates"),
            ([1, 1], [[1, 1]], Terms(sizes=[1]), "sizes are one number"),
            ([1, 1], [[1, 1]], Terms(caps=[1, 1]), "caps are one number per gatherer"),
            ([1, 1], [[1, 1]], Terms(caps=[-1]), "not negative"),
            ([1, 1], [[1, 1]], Terms(current=[0]), "for each of 2 superpages"),
            ([1, 1], [[1, 1]], Terms(current=[0.5, 1]), "number of a gatherer"),
            ([1, 1], [[1, 1]], Terms(current=[0, 1]), "one of 1 gatherers"),
            ([1, 1], [[1, 1]], Terms(current=[0, -2]), "one of 1 gatherers"),
            ([1, 1], [[1, 1]], Terms(move_cost=-1), "finite number of seconds"),
            ([1, 1], [[1, 1]], Terms(move_cost=np.inf), "finite number of seconds"),
        ],
    )
    def test_problems(self, weights: npt.ArrayLike, rates: npt.ArrayLike, terms: Terms, says: str) -> None:
        """Every algorithm looks at what it is given first."""
        for algorithm in (partition.greedy, partition.assign, partition.round_lp, partition.lower_bound):
            with pytest.raises(ValueError, match=says):
                algorithm(weights, rates, terms=terms)

    @pytest.mark.parametrize(
        ("table", "comm_rates", "says"),
        [
            ([(0, 1, 1)], None, "together"),
            (None, [1, 1], "together"),
            ([(0, 1, 1)], [1], "one positive number per gatherer"),
            ([(0, 1, 1)], [1, 0], "one positive number per gatherer"),
            ([(0, 1)], [1, 1], "rows of from, to and count"),
            ([(0, 3, 1)], [1, 1], "two of 3 superpages"),
            ([(-1, 2, 1)], [1, 1], "two of 3 superpages"),
            ([(0, 1, -1)], [1, 1], "not negative"),
            ([(0, np.nan, 1)], [1, 1], "two of 3 superpages"),
        ],
    )
    def test_links(self, table: npt.ArrayLike | None, comm_rates: npt.ArrayLike | None, says: str) -> None:
        """Links name superpages that there are, and come with communication rates."""
        with pytest.raises(ValueError, match=says):
            partition.assign([1, 1, 1], np.ones((2, 3)), links=table, comm_rates=comm_rates)

    @pytest.mark.parametrize("owner", [[0], [0, 2], [0, -1]])
    def test_partitions_of_something_else(self, owner: list[int]) -> None:
        """A partition to improve has an owner, of these gatherers, for each of these superpages."""
        with pytest.raises(ValueError, match="each of 2 superpages to one of 2"):
            partition.evaluate(owner, [1, 1], np.ones((2, 2)))

    def test_owners_who_may_not(self) -> None:
        """A partition to improve gives nothing to one who may not own it."""
        with pytest.raises(ValueError, match="may not own"):
            partition.evaluate([0, 0], [1, 1], [[1, 0], [1, 1]])


class TestLinearProgram:
    """The bound and the rounding, beside the solver."""

    def test_the_solver_may_give_up(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Without a solution the bound is that of the prices, and rounding gives the greedy partition."""
        monkeypatch.setattr(bound._Master, "run", lambda _: None)
        rng = np.random.default_rng(1)
        w, r = rng.random(30), rng.random((3, 30)) + 0.5
        least = partition.lower_bound(w, r)
        assert not least.exact
        assert 0 < least.value <= partition.assign(w, r).makespan
        assert partition.round_lp(w, r).makespan == partition.greedy(w, r).makespan

    def test_the_solver_gives_up_over_what_is_impossible(self) -> None:
        """A program without columns, or with costs that the solver does not know, has no solution."""
        assert bound._Master(np.ones((2, 2))).run() is None
        beyond = bound._Master(np.full((2, 2), 1e30))
        beyond.add(np.arange(4))
        assert beyond.run() is None
        assert [len(part) for part in beyond.shares()] == [0, 0]

    def test_pairs_that_no_partition_would_have_are_left_out(self) -> None:
        """Costs twenty orders of magnitude apart neither stop the solver nor spoil the bound."""
        rates = np.array(
            [[1e-12, np.nan], [np.nan, 1], [1, 1e9], [1, 0], [0, 1e9], [1e9, 1e-12], [1e9, np.nan]]
        )
        found = partition.lower_bound([0.1, 1e-9], rates)
        assert found.value == pytest.approx(1e-10)
        assert found.exact
        assert partition.round_lp([0.1, 1e-9], rates).makespan == pytest.approx(1e-10)

    def test_turns_run_out(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A bound that is not yet exact holds too."""
        rng = np.random.default_rng(4)
        w, r = rng.lognormal(0, 1, 200), np.repeat(rng.uniform(0.2, 2, (40, 1)), 200, axis=1)
        exact = partition.lower_bound(w, r)
        monkeypatch.setattr(bound, "_TURNS", 1)
        early = partition.lower_bound(w, r)
        assert exact.exact
        assert early.value <= exact.value * CLOSE

    def test_matching_finds_a_way_round(self) -> None:
        """A superpage gives way when it has another gatherer to go to."""
        assert bound._matching({7: [0, 1], 8: [0]}) == {0: 8, 1: 7}
        assert bound._matching({7: [0], 8: [0]}) == {0: 7}

    def test_prices_of_gatherers_without_work(self) -> None:
        """A gatherer that may own nothing has a price, which does not spoil the others' bound."""
        costs = np.array([[5e6, np.inf], [7e6, np.inf]])
        assert prices.find(costs, rounds=200).bound == pytest.approx(12e6, rel=1e-3)


class TestRates:
    """A rate for every pair."""

    def test_products_of_gatherer_and_superpage_are_found_again(self) -> None:
        """From a third of the pairs of a table of products, the rest is found to within a few percent."""
        rng = np.random.default_rng(1)
        true = rng.lognormal(0, 0.7, (12, 1)) * rng.lognormal(0, 0.7, (1, 90))
        counts = np.where(rng.random(true.shape) < 0.3, 1000, 0)
        filled = partition.complete_rates(np.where(counts > 0, true, np.nan), counts)
        assert np.abs(np.log(filled / true)).mean() < 0.15
        known = counts > 0
        assert np.abs(np.log(filled[known] / true[known])).max() < 0.02

    def test_who_was_never_observed_is_average(self) -> None:
        """A new gatherer has the rates of an average one, and a new superpage those of its gatherers."""
        seen = np.array([[4.0, 4, 0, 4], [1, 1, 0, 1], [0, 0, 0, 0]])
        filled = partition.complete_rates(seen, np.where(seen > 0, 500, 0))
        assert filled[2] == pytest.approx([2, 2, 2, 2], rel=0.05)
        assert filled[0, 2] > 1.7 * filled[1, 2]
        assert filled[0, 2] == pytest.approx(4, rel=0.3)

    def test_one_page_is_not_believed(self) -> None:
        """A rate from one page is drawn most of the way to what others suggest; from many it stays."""
        seen = np.full((3, 20), 1.0)
        counts = np.full((3, 20), 200)
        seen[1, 7], counts[1, 7] = 100.0, 1
        assert partition.complete_rates(seen, counts)[1, 7] < 4
        counts[1, 7] = 10_000
        assert partition.complete_rates(seen, counts)[1, 7] == pytest.approx(100, rel=0.05)

    def test_nothing_observed(self) -> None:
        """With nothing observed all rates are 1, and so is what is observed as impossible."""
        assert (partition.complete_rates(np.full((2, 3), np.nan), np.ones((2, 3))) == 1).all()
        assert (partition.complete_rates(np.ones((2, 3)), np.zeros((2, 3))) == 1).all()

    @settings(max_examples=examples(25), deadline=None)
    @given(st.integers(1, 6), st.integers(1, 12), st.integers(0, 2**32))
    def test_all_rates_can_be_used(self, k: int, m: int, seed: int) -> None:
        """Whatever was observed, every rate is positive and within what was seen, give or take."""
        rng = np.random.default_rng(seed)
        seen = rng.lognormal(0, 3, (k, m))
        seen[rng.random((k, m)) < 0.5] = rng.choice([0, np.nan, np.inf])
        filled = partition.complete_rates(seen, rng.integers(0, 50, (k, m)))
        assert filled.shape == (k, m)
        assert (np.isfinite(filled) & (filled > 0)).all()

    def test_refused(self) -> None:
        """Rates and counts have the same shape, and the prior is positive."""
        with pytest.raises(ValueError, match="same two dimensions"):
            partition.complete_rates([1, 2], [1, 2])
        with pytest.raises(ValueError, match="same two dimensions"):
            partition.complete_rates([[1, 2]], [[1]])
        with pytest.raises(ValueError, match="positive number"):
            partition.complete_rates([[1]], [[1]], prior=0)


class TestLinked:
    """Searching with links."""

    @pytest.mark.parametrize("comm_rate", [30.0, 1000.0])
    def test_improvement_cuts_fewer_links(self, comm_rate: float) -> None:
        """Where links cost, II improved is better on its own objective than II, and than I improved."""
        rng = np.random.default_rng(1)
        world = World(regions=4, sigma=1.0, noise=0.2)
        w = world.weights(240, rng)
        r, table, comm = world.rates("speeds", 12, 240, rng), links(w, rng), np.full(12, comm_rate)
        two = partition.greedy_with_links(w, r, table, comm)
        better = partition.improve(two, w, r, links=table, comm_rates=comm)
        one = partition.improve(partition.greedy(w, r), w, r)
        seen = partition.evaluate(one.owner, w, r, links=table, comm_rates=comm)
        assert better.makespan < min(two.makespan, seen.makespan)
        assert better.cut_links < two.cut_links

    @settings(max_examples=examples(15), deadline=None)
    @given(cases(superpages=30))
    def test_the_search_keeps_its_books(self, case: Case) -> None:
        """Times that the search keeps while it moves and swaps are those of the partition it ends with."""
        given_ = problem(case.weights, case.rates, case.terms, case.links, case.comm_rates)
        first = partition.greedy(case.weights, case.rates, terms=case.terms)
        search = _Search(given_, first.owner, prices.find(given_.costs, rounds=20))
        for _ in range(50):
            if not search.relieve():
                break
        assert search.times == pytest.approx(given_.times(search.owner))

    def test_rank_prefers_even_times(self) -> None:
        """Of partitions with the same makespan, the more even one is the better."""
        even = partition.evaluate([0, 1, 2], [3, 1, 1], np.ones((3, 3)))
        uneven = partition.evaluate([0, 1, 1], [3, 1, 1], np.ones((3, 3)))
        assert even.makespan == uneven.makespan
        assert even.rank < uneven.rank
        assert replace(even, over_cap=1.0).rank > uneven.rank


class TestLarge:
    """What has to be shown, with fixed seeds."""

    @pytest.mark.parametrize("kind", ["regions", "pairs"])
    def test_within_two_percent_of_the_linear_program(self, kind: str) -> None:
        """At k = 64, m = 5,000 with rates that differ, Partition I improved is within 2% of the LP bound."""
        rng = np.random.default_rng(1)
        world = World(regions=6, sigma=1.0, noise=0.2)
        w, r = world.weights(5_000, rng), world.rates(kind, 64, 5_000, rng)
        least = partition.lower_bound(w, r)
        found = partition.improve(partition.greedy(w, r), w, r)
        assert least.exact
        assert found.makespan <= 1.02 * least.value
        assert partition.lower_bound(w, r, cells=0).value >= 0.998 * least.value
