"""TWOMA and OMA: their tables against the papers' rules, their invariants, and examples by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcs.core.automata import (
    BOUNDARY,
    LEAVES,
    ORIGINAL,
    TWOMA,
    Duration,
    Exchange,
    FloatArray,
    IntArray,
    Oma,
    Pair,
    Twoma,
    compared,
    dealt,
    pairs_within,
    step,
    transitions,
    variant,
)


def ints(*values: int) -> IntArray:
    """An array of whole numbers."""
    return np.array(values, dtype=np.int64)


def floats(*values: float) -> FloatArray:
    """An array of durations."""
    return np.array(values, dtype=np.float64)


def source(seed: int = 0) -> np.random.Generator:
    """A random source."""
    return np.random.default_rng(seed)


@dataclass(frozen=True)
class Case:
    """An automaton somewhere on its way, and what happens next."""

    arms: int
    states: int
    arm: IntArray
    state: IntArray
    groups: IntArray
    durations: FloatArray
    seed: int

    def twoma(self) -> Twoma:
        """TWOMA as it stands."""
        rng = source(self.seed)
        return Twoma(len(self.arm), self.arms, states=self.states, arm=self.arm, state=self.state, rng=rng)

    def oma(self, exchange: Exchange = Exchange.MOVE, jump: int = 2) -> Oma:
        """OMA as it stands."""
        return Oma(
            len(self.arm),
            self.arms,
            states=self.states,
            arm=self.arm,
            state=self.state,
            rules=variant(jump),
            exchange=exchange,
            rng=source(self.seed),
        )


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Anything an automaton can be and see, ties and unmeasured sites among it."""
    arms, states, sites = draw(st.integers(2, 4)), draw(st.integers(1, 5)), draw(st.integers(0, 24))

    def each(values: st.SearchStrategy[int]) -> IntArray:
        return ints(*draw(st.lists(values, min_size=sites, max_size=sites)))

    lengths = st.sampled_from([0.1, 1.0, 3.0, float("nan")])
    return Case(
        arms,
        states,
        each(st.integers(0, arms - 1)),
        each(st.integers(0, states - 1)),
        each(st.integers(0, arms - 1)),
        floats(*draw(st.lists(lengths, min_size=sites, max_size=sites))),
        draw(st.integers(0, 1000)),
    )


EXCHANGES = st.sampled_from(Exchange)


def legal(automaton: Twoma | Oma) -> bool:
    """Whether every site is in one arm and in one of its states."""
    states = automaton.table.shape[1]
    within = (automaton.arm >= 0) & (automaton.arm < automaton.arms)
    return bool((within & (automaton.state >= BOUNDARY) & (automaton.state < states)).all())


class TestTables:
    """The papers' rules, line by line."""

    def test_twoma(self) -> None:
        """TWOMA moves one state either way, stops at the innermost, and leaves from the boundary only."""
        assert transitions([TWOMA], 5).tolist() == [
            [1, 2, 3, 4, 4],  # less than the mean
            [0, 1, 2, 3, 4],  # a tie
            [LEAVES, 0, 1, 2, 3],  # more than the mean
        ]

    def test_original(self) -> None:
        """The original OMA does not look at durations."""
        table = transitions([ORIGINAL[pair] for pair in Pair], 4)
        assert table[:3].tolist() == [[LEAVES, 0, 1, 2]] * 3
        assert table[3:].tolist() == [[1, 2, 3, 3]] * 3

    def test_variant(self) -> None:
        """Actions 1 to 4 of 001, with eight states: a jump ends at the boundary or at the innermost one."""
        table = transitions([variant()[pair] for pair in Pair], 8)
        assert table[len(Duration) * Pair.TOGETHER + Duration.LESS].tolist() == [2, 3, 4, 5, 6, 7, 7, 7]
        assert table[len(Duration) * Pair.TOGETHER + Duration.MORE].tolist() == [1, 2, 3, 4, 5, 6, 7, 7]
        assert table[len(Duration) * Pair.APART + Duration.MORE].tolist() == [LEAVES, 0, 0, 1, 2, 3, 4, 5]
        assert table[len(Duration) * Pair.APART + Duration.LESS].tolist() == [LEAVES, 0, 1, 2, 3, 4, 5, 6]

    def test_a_jump_over_one_state_is_the_original(self) -> None:
        """The variant is the original OMA with a second length of jump."""
        assert variant(1) == ORIGINAL

    @given(st.integers(1, 4), st.integers(1, 12))
    def test_complete(self, jump: int, states: int) -> None:
        """Every situation has an answer in every state: a state, or leaving, and that from the boundary."""
        rules = [TWOMA, *ORIGINAL.values(), *variant(jump).values()]
        table = transitions(rules, states)
        assert table.shape == (len(rules) * len(Duration), states)
        assert set(np.unique(table)) <= {LEAVES, *range(states)}
        assert (table[:, 1:] != LEAVES).all()
        moves = np.array([moves[how] for moves in rules for how in Duration])
        assert ((table[:, BOUNDARY] == LEAVES) == (moves < 0)).all()

    def test_step(self) -> None:
        """A step looks up all sites at once; who may leave is at the boundary."""
        state, leaves = step(transitions([TWOMA], 3), ints(0, 1, 2, 2), ints(1, 1, 1, 0))
        assert state.tolist() == [2, 1, 0, 0]
        assert leaves.tolist() == [False, False, False, True]

    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (lambda: variant(0), "a jump is over one state or more, not 0"),
            (lambda: transitions([TWOMA], 0), "an arm has one state or more, not 0"),
            (lambda: Twoma(3, 1, rng=source()), "two arms or more, not 1"),
            (lambda: Oma(3, 2, arm=ints(0, 1), rng=source()), "3 numbers from 0 to 1 are needed"),
            (lambda: Twoma(2, 2, state=ints(0, 5), rng=source()), "2 numbers from 0 to 4 are needed"),
            (lambda: Twoma(2, 2, state=ints(-1, 0), rng=source()), "2 numbers from 0 to 4 are needed"),
            (lambda: Twoma(3, 2, rng=source()).step(floats(1)), "3 durations are needed"),
            (lambda: Oma(3, 2, rng=source()).step(floats(1, 1, 1), ints(0, 0)[None]), "one pair at most"),
        ],
    )
    def test_nonsense(self, make: Callable[[], object], message: str) -> None:
        """What makes no sense is refused with a sentence."""
        with pytest.raises(ValueError, match=message):
            make()


class TestCompared:
    """Durations against the mean of the arm."""

    def test_by_arm(self) -> None:
        """A site is compared with its own arm only."""
        result = compared(floats(1, 3, 10, 30, 5), ints(0, 0, 1, 1, 2), 4)
        assert result.tolist() == [Duration.LESS, Duration.MORE, Duration.LESS, Duration.MORE, Duration.EQUAL]

    @given(st.floats(1e-6, 1e6), st.integers(1, 300))
    def test_rounding(self, duration: float, sites: int) -> None:
        """Equal durations are tied with their mean, although a mean of equal floats is rarely exact."""
        result = compared(np.full(sites, duration), np.zeros(sites, dtype=np.int64), 1)
        assert (result == Duration.EQUAL).all()

    def test_not_accessed(self) -> None:
        """A site that was not accessed is no part of the mean."""
        result = compared(floats(1, np.nan, 3, np.nan), ints(0, 0, 0, 1), 2)
        assert result.tolist() == [Duration.LESS, Duration.EQUAL, Duration.MORE, Duration.EQUAL]


class TestDealing:
    """Where sites begin, and with whom they are accessed."""

    @given(st.integers(0, 50), st.integers(2, 7), st.integers(0, 99))
    def test_arms_are_of_equal_size(self, sites: int, arms: int, seed: int) -> None:
        """The sizes of the arms differ by one at most."""
        sizes = np.bincount(dealt(sites, arms, source(seed)), minlength=arms)
        assert sizes.sum() == sites
        assert sizes.max() - sizes.min() <= 1

    @given(st.lists(st.integers(0, 4), max_size=40), st.integers(0, 99))
    def test_pairs(self, groups: list[int], seed: int) -> None:
        """Every site is in one pair, with one of its group; of an odd group one is left out."""
        pairs = pairs_within(ints(*groups), source(seed))
        assert pairs.shape == (sum(groups.count(group) // 2 for group in set(groups)), 2)
        assert len(np.unique(pairs)) == pairs.size
        assert all(groups[a] == groups[b] for a, b in pairs.tolist())

    def test_beginnings(self) -> None:
        """TWOMA begins in random states, OMA in the most internal one."""
        twoma, oma = Twoma(1000, 4, rng=source()), Oma(1000, 4, rng=source())
        assert set(twoma.state.tolist()) == set(range(5))
        assert set(oma.state.tolist()) == {7}

    def test_what_is_given_stays_the_callers(self) -> None:
        """An automaton that begins where it is told does not change the caller's arrays."""
        arm, state = ints(0, 0, 1), ints(0, 0, 0)
        Twoma(3, 2, arm=arm, state=state, rng=source()).step(floats(1, 3, 1))
        assert (arm.tolist(), state.tolist()) == ([0, 0, 1], [0, 0, 0])


class TestTwoma:
    """000, section 3."""

    def test_by_hand(self) -> None:
        """The five rules, one site each, in an arm of three states whose mean is 3."""
        automaton = Twoma(5, 3, states=3, arm=ints(0, 0, 0, 0, 0), state=ints(1, 1, 0, 2, 1), rng=source())
        moved = automaton.step(floats(1, 5, 5, 1, 3))
        assert automaton.state.tolist() == [2, 0, BOUNDARY, 2, 1]
        assert moved.tolist() == [2]
        assert automaton.arm[2] in {1, 2}
        assert automaton.arm[[0, 1, 3, 4]].tolist() == [0, 0, 0, 0]

    def test_two_arms(self) -> None:
        """With two arms a site that leaves has one place to go, and is there after as many runs as states."""
        best = ints(0, 0, 0, 1, 1, 1)
        automaton = Twoma(6, 2, arm=ints(0, 0, 1, 1, 1, 0), state=ints(0, 4, 4, 0, 2, 3), rng=source())
        wrong = []
        for _ in range(6):
            wrong.append(int((automaton.arm != best).sum()))
            automaton.step(np.where(automaton.arm == best, 1.0, 3.0))
        assert wrong == [2, 2, 2, 2, 1, 0]

    def test_deadlock(self) -> None:
        """Equal sites in a slow arm are all equal to their mean, and stay there for ever."""
        automaton = Twoma(100, 4, state=np.zeros(100, dtype=np.int64), rng=source())
        for _ in range(50):
            assert not len(automaton.step(np.where(automaton.arm == 0, 0.1, 0.3)))

    def test_other_arms_are_equally_likely(self) -> None:
        """A site that leaves goes to each of the other arms alike."""
        sites = 40_000
        arm, state = np.full(sites, 2, dtype=np.int64), np.zeros(sites, dtype=np.int64)
        automaton = Twoma(sites, 5, arm=arm, state=state, rng=source())
        moved = automaton.step(np.where(np.arange(sites) < sites // 2, 1.0, 3.0))
        counts = np.bincount(automaton.arm[moved], minlength=5)
        assert counts[2] == 0
        assert np.abs(counts[[0, 1, 3, 4]] - 5000).max() < 5 * np.sqrt(5000)

    @given(cases())
    def test_invariant(self, case: Case) -> None:
        """Every site stays in one arm and in a legal state, and moves one state at most."""
        automaton = case.twoma()
        moved = automaton.step(case.durations)
        assert legal(automaton)
        assert moved.tolist() == np.flatnonzero(automaton.arm != case.arm).tolist()
        assert (automaton.state[moved] == BOUNDARY).all()
        assert (np.abs(automaton.state - case.state) <= 1).all()
        assert not np.isnan(case.durations[moved]).any()

    @given(cases())
    def test_deterministic(self, case: Case) -> None:
        """The same random source gives the same step."""
        one, other = case.twoma(), case.twoma()
        one.step(case.durations)
        other.step(case.durations)
        assert (one.arm.tolist(), one.state.tolist()) == (other.arm.tolist(), other.state.tolist())


class TestOma:
    """000, section 2.1, and 001, section 4."""

    def test_actions_by_hand(self) -> None:
        """Actions 1 to 4 of 001: the pair decides between reward and penalty, the duration how far."""
        automaton = Oma(6, 2, arm=ints(0, 0, 0, 1, 1, 1), state=ints(3, 3, 5, 5, 3, 3), rng=source())
        durations = floats(1, 3, 3, 1, 3, 3)  # the means are 7/3 in both arms
        automaton.step(durations, np.stack([ints(0, 1), ints(2, 3)]))
        assert automaton.state.tolist() == [5, 4, 3, 4, 3, 3]
        assert automaton.arm.tolist() == [0, 0, 0, 1, 1, 1]

    def test_action_5_by_hand(self) -> None:
        """The site at the boundary joins its partner; who is nearest the boundary there takes its place."""
        automaton = Oma(6, 2, arm=ints(0, 0, 0, 1, 1, 1), state=ints(0, 5, 5, 4, 2, 3), rng=source())
        moved = automaton.step(np.ones(6), ints(0, 3)[None])
        assert moved.tolist() == [0, 4]
        assert automaton.arm.tolist() == [1, 0, 0, 1, 0, 1]
        assert automaton.state.tolist() == [BOUNDARY, 5, 5, 3, BOUNDARY, 3]

    def test_action_5_to_the_letter(self) -> None:
        """Both switch arms, and nobody else is concerned."""
        automaton = Oma(
            4, 2, arm=ints(0, 0, 1, 1), state=ints(0, 5, 4, 0), exchange=Exchange.SWITCH, rng=source()
        )
        assert automaton.step(np.ones(4), ints(0, 2)[None]).tolist() == [0, 2]
        assert automaton.arm.tolist() == [1, 0, 0, 1]
        assert automaton.state.tolist() == [0, 5, 3, 0]

    def test_both_at_the_boundary(self) -> None:
        """One of the two moves, either as often as the other."""
        movers = []
        for seed in range(200):
            automaton = Oma(4, 2, arm=ints(0, 0, 1, 1), state=ints(0, 3, 0, 3), rng=source(seed))
            moved = automaton.step(np.ones(4), ints(0, 2)[None]).tolist()
            assert moved in ([0, 3], [1, 2])
            movers.append(moved[0])
        assert 70 < sum(movers) < 130

    def test_brought_together_by_an_earlier_pair(self) -> None:
        """A pair that an earlier exchange has brought together exchanges nothing."""
        automaton = Oma(4, 2, arm=ints(0, 1, 1, 0), state=ints(0, 3, 0, 3), rng=source())
        moved = automaton.step(np.ones(4), np.stack([ints(0, 1), ints(2, 3)]))
        assert moved.tolist() == [0, 2]
        assert automaton.arm.tolist() == [1, 1, 0, 0]

    def test_a_partner_alone_in_its_arm(self) -> None:
        """Nobody could take the free place, so nobody moves."""
        automaton = Oma(3, 2, arm=ints(0, 0, 1), state=ints(0, 2, 2), rng=source())
        assert not len(automaton.step(np.ones(3), ints(0, 2)[None]))

    def test_who_is_displaced(self) -> None:
        """Chance chooses among those equally near the boundary, and never the partner."""
        displaced = []
        for seed in range(300):
            state = ints(0, 1, 0, 0, 0, 7)
            automaton = Oma(6, 2, arm=ints(0, 1, 1, 1, 1, 1), state=state, rng=source(seed))
            displaced += [site for site in automaton.step(np.ones(6), ints(0, 1)[None]).tolist() if site]
        assert {site: displaced.count(site) for site in set(displaced)} == pytest.approx(
            {2: 100, 3: 100, 4: 100}, abs=30
        )

    @given(cases(), EXCHANGES, st.integers(1, 4))
    def test_invariant(self, case: Case, exchange: Exchange, jump: int) -> None:
        """Sites stay in one arm and in a legal state, and every arm keeps its size."""
        automaton = case.oma(exchange, jump)
        before = np.bincount(case.arm, minlength=case.arms).tolist()
        rng = source(case.seed)
        for _ in range(5):
            automaton.step(case.durations, pairs_within(case.groups, rng))
            assert legal(automaton)
            assert np.bincount(automaton.arm, minlength=case.arms).tolist() == before

    @given(cases(), EXCHANGES)
    def test_deterministic(self, case: Case, exchange: Exchange) -> None:
        """The same random source gives the same step."""
        pairs = pairs_within(case.groups, source(case.seed))
        one, other = case.oma(exchange), case.oma(exchange)
        one.step(case.durations, pairs)
        other.step(case.durations, pairs)
        assert (one.arm.tolist(), one.state.tolist()) == (other.arm.tolist(), other.state.tolist())

    @given(cases())
    def test_who_is_concerned(self, case: Case) -> None:
        """A site that is in no pair, and takes nobody's place, stays as it is."""
        automaton, pairs = case.oma(), pairs_within(case.groups, source(case.seed))
        moved = automaton.step(case.durations, pairs)
        still = np.setdiff1d(np.arange(len(case.arm)), np.union1d(pairs, moved))
        changed = still[automaton.state[still] != case.state[still]]
        # A site may be carried away and back in one run: it is at the boundary then, and not where it was.
        assert (automaton.state[changed] == BOUNDARY).all()

    @given(cases())
    def test_nearest_the_boundary(self, case: Case) -> None:
        """With one pair, the site that takes the free place is one of those nearest the boundary."""
        automaton, pairs = case.oma(), pairs_within(case.groups, source(case.seed))[:1]
        moved = automaton.step(case.durations, pairs).tolist()
        if moved:
            (displaced,) = set(moved) - set(pairs.ravel().tolist())
            (leaver,) = set(moved) - {displaced}
            (partner,) = set(pairs.ravel().tolist()) - {leaver}
            there = (case.arm == case.arm[partner]) & (np.arange(len(case.arm)) != partner)
            assert case.state[displaced] == case.state[there].min()
            assert automaton.arm[leaver] == automaton.arm[partner]
            assert automaton.arm[displaced] == case.arm[leaver]
            assert automaton.state[displaced] == automaton.state[leaver] == BOUNDARY

    @given(cases())
    def test_to_the_letter_nothing_is_learnt(self, case: Case) -> None:
        """When pairs switch arms, the number of each group in each arm never changes."""

        def counts(arm: IntArray) -> IntArray:
            return np.bincount(arm * case.arms + case.groups, minlength=case.arms**2)

        automaton, rng = case.oma(Exchange.SWITCH), source(case.seed)
        for _ in range(10):
            automaton.step(case.durations, pairs_within(case.groups, rng))
        assert counts(automaton.arm).tolist() == counts(case.arm).tolist()

    @given(st.integers(0, 99))
    def test_at_rest(self, seed: int) -> None:
        """Once each group is together, nothing moves any more, whichever arms they are in."""
        groups = ints(*[0, 1, 2] * 6)
        automaton = Oma(18, 3, arm=(groups + 1) % 3, state=np.zeros(18, dtype=np.int64), rng=source(seed))
        for _ in range(20):
            assert not len(automaton.step(source(seed).random(18), pairs_within(groups, source(seed))))
