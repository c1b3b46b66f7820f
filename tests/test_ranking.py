"""Ranking: the paper's formulas, the floor, and the share of new pages."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcs.core import ranking

LINKS = st.frozensets(st.sampled_from("abcdefgh"))
DEGREES = st.integers(0, 10_000)


class TestFormulas:
    """(4.1) to (4.4)."""

    def test_new_pages_by_in_degree(self) -> None:
        """P_new = I."""
        assert ranking.p_new(7) == 7

    def test_old_pages(self) -> None:
        """P_old = C·T·(I + O)."""
        assert ranking.p_old(0.5, 0.25, 30, 50) == 0.5 * 0.25 * 80

    def test_change(self) -> None:
        """Of four links in all, two are in both: C = 1 − 2/4. Without links at all C = 1."""
        assert ranking.change({"a", "b", "c"}, ["b", "c", "d"]) == 0.5
        assert ranking.change([], []) == 1
        assert ranking.change(["a"], []) == 1
        assert ranking.change(["a", "b"], ["b", "a", "a"]) == 0

    @given(LINKS, LINKS)
    def test_change_is_a_distance(self, one: frozenset[str], two: frozenset[str]) -> None:
        """C is between 0 and 1, the same either way, and 0 exactly for links that are there and the same."""
        c = ranking.change(one, two)
        assert 0 <= c <= 1
        assert c == ranking.change(two, one)
        assert (c == 0) == (one == two and bool(one))

    def test_age(self) -> None:
        """T is the time since the last visit in units of six months, or of what is given."""
        assert ranking.age(ranking.T_CRAWL_S) == 1
        assert ranking.age(86_400 * 90) == 0.5
        assert ranking.age(5, crawl_s=10) == 0.5

    def test_age_refuses(self) -> None:
        """A visit in the future and a crawl of no time make no sense."""
        with pytest.raises(ValueError, match="in the future"):
            ranking.age(-1)
        with pytest.raises(ValueError, match="positive time"):
            ranking.age(1, crawl_s=0)

    @given(st.floats(0, 1), st.floats(0, 10), DEGREES, DEGREES)
    def test_more_of_anything_is_never_less(self, c: float, t: float, i: int, o: int) -> None:
        """A page that changed more, is older, or better connected, has at least the same priority."""
        least = ranking.p_old(c, t, i, o)
        assert ranking.p_old(min(1, c + 0.1), t, i, o) >= least
        assert ranking.p_old(c, t + 1, i, o) >= least
        assert ranking.p_old(c, t, i + 1, o) >= least
        assert ranking.p_old(c, t, i, o + 1) >= least


class TestFloor:
    """A page that did not change once is not forgotten."""

    def test_the_formula_forgets(self) -> None:
        """P_old of a page without a change is 0, however old."""
        assert ranking.p_old(0, 1e9, 100, 100) == 0

    def test_the_policy_does_not(self) -> None:
        """With the floor it grows with age, and one day passes any page that changes."""

        def asleep(days: float) -> float:
            return ranking.revisit_priority(0, days * 86_400, 10, 10)

        assert 0 < asleep(1) < asleep(100)
        assert asleep(100) > ranking.revisit_priority(1.0, 86_400, 10, 10)

    @given(st.floats(0, 1), st.floats(0, 1e9), DEGREES, DEGREES)
    def test_above_the_floor_it_is_the_formula(self, c: float, since_s: float, i: int, o: int) -> None:
        """Only C below the floor is touched."""
        found = ranking.revisit_priority(c, since_s, i, o, floor=0.1)
        assert found == ranking.p_old(max(c, 0.1), ranking.age(since_s), i, o)


class TestShare:
    """α of what is visited is new."""

    @given(st.integers(0, 100), st.integers(0, 300))
    def test_exactly_the_share_at_every_length(self, percent: int, n: int) -> None:
        """Of the first n exactly ⌈αn⌉ are new, for every n."""
        alpha = percent / 100
        mixed = ranking.interleave(["new"] * n, ["old"] * n, alpha=alpha)
        for length, kind_so_far in enumerate(_running(list(mixed)[:n]), start=1):
            assert kind_so_far == math.ceil(Fraction(percent, 100) * length)

    def test_nine_of_ten(self) -> None:
        """With the paper's α the tenth page is an old one."""
        assert list(ranking.interleave("nnnnnnnnn", "o")) == list("nnnnnnnnno")

    @given(st.lists(st.integers()), st.lists(st.integers()), st.floats(0, 1))
    def test_nothing_is_lost_and_both_keep_their_order(
        self, new: list[int], old: list[int], alpha: float
    ) -> None:
        """Every page comes up once; new ones among themselves, and old ones, in the order given."""
        mixed = list(ranking.interleave([("n", x) for x in new], [("o", x) for x in old], alpha=alpha))
        assert [x for kind, x in mixed if kind == "n"] == new
        assert [x for kind, x in mixed if kind == "o"] == old

    def test_one_of_both_runs_out(self) -> None:
        """Without old pages all are new, and the other way round."""
        assert list(ranking.interleave("abc", "")) == ["a", "b", "c"]
        assert list(ranking.interleave("", "abc")) == ["a", "b", "c"]

    @pytest.mark.parametrize("alpha", [-0.1, 1.1, math.nan])
    def test_shares_that_are_none(self, alpha: float) -> None:
        """α is between 0 and 1."""
        with pytest.raises(ValueError, match="between 0 and 1"):
            list(ranking.interleave("a", "b", alpha=alpha))

    def test_selection(self) -> None:
        """The best of each kind come first, equal ones as given, and no more than asked for."""
        new = [("n1", 1.0), ("n3", 3.0), ("n2", 2.0), ("m2", 2.0)]
        old = [("o1", 0.1), ("o9", 0.9)]
        assert ranking.select(new, old, 4, alpha=0.5) == ["n3", "o9", "n2", "o1"]
        assert ranking.select(new, old, 3, alpha=1.0) == ["n3", "n2", "m2"]
        assert ranking.select(new, old, 10, alpha=0.9) == ["n3", "n2", "m2", "n1", "o9", "o1"]
        assert ranking.select(new, [], 0) == []


def _running(kinds: list[str]) -> list[int]:
    """How many new ones there are up to each place."""
    count, counts = 0, []
    for kind in kinds:
        count += kind == "new"
        counts.append(count)
    return counts
