"""Ranking: the paper's formulas."""

from __future__ import annotations

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

    def test_what_did_not_change_is_forgotten(self) -> None:
        """P_old of a page without a change is 0, however old: why policies give C a floor."""
        assert ranking.p_old(0, 1e9, 100, 100) == 0
