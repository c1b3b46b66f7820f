"""Estimates: the paper's formulas and tables, its slips, and how far a crawl has come."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gcs.core import estimate
from gcs.core.estimate.web import NODES, SIX_MONTHS_S
from gcs.simulate.frontier import PRINTED, crawl, ranking_speeds

CORRECTED = (26_491_585, 52_983_172, 79_474_758, 105_966_345, 132_457_932)
WEBS = st.tuples(st.integers(100, 10**12), st.floats(1.5, 50))


class TestPendingList:
    """P(n), its growth and its peak."""

    @given(st.integers(50, 400), st.floats(1.5, 20), st.integers(1, 60))
    def test_solves_the_recurrence(self, nodes: int, links: float, pages: int) -> None:
        """(5.3) is the solution of (5.2) with +1, and the printed −1 has one that is up to 2 below."""
        right = wrong = links
        for n in range(2, pages + 1):
            right += links * (nodes - (right + n) + 1) / nodes - 1
            wrong += links * (nodes - (wrong + n) - 1) / nodes - 1
        assert estimate.pending(pages, nodes, links) == pytest.approx(right, abs=1e-6)
        assert estimate.pending_as_printed(pages, nodes, links) == pytest.approx(wrong, abs=1e-6)

    @given(WEBS)
    def test_begins_with_one_page_and_ends_with_none(self, web: tuple[int, float]) -> None:
        """After the first page S URLs wait; after all N, hardly any do when pages have many links."""
        nodes, links = web
        assert estimate.pending(1, nodes, links) == pytest.approx(links)
        assert (
            abs(estimate.pending(nodes, nodes, links))
            <= nodes * math.exp(-links * (nodes - 1) / nodes) + 1e-3
        )

    @given(WEBS, st.floats(0.001, 0.999))
    def test_growth_is_the_derivative(self, web: tuple[int, float], part: float) -> None:
        """D(n) is by how much P grows at n."""
        nodes, links = web
        n, step = 1 + part * (nodes - 1), nodes * 1e-5
        slope = (estimate.pending(n + step, nodes, links) - estimate.pending(n - step, nodes, links)) / (
            2 * step
        )
        assert estimate.growth(n, nodes, links) == pytest.approx(slope, abs=2e-4)

    @given(WEBS)
    def test_the_peak_is_the_largest(self, web: tuple[int, float]) -> None:
        """Nowhere is the list longer than at the peak, where it stops growing."""
        nodes, links = web
        n1, p_max = estimate.peak(nodes, links)
        around = [n1 * factor for factor in (0.5, 0.9, 0.99, 1.01, 1.1, 2)]
        assert max(estimate.pending(max(1.0, n), nodes, links) for n in around) <= p_max + 1
        assert n1 == 1 or estimate.growth(n1, nodes, links) == pytest.approx(0, abs=links / nodes + 1e-9)

    @pytest.mark.parametrize(("row", "n1"), list(enumerate(CORRECTED)))
    def test_corrected_peaks(self, row: int, n1: int) -> None:
        """For S = 200 the peaks of N = 10⁹ to 5·10⁹ are these, and n1/N is ln(S)/S throughout."""
        nodes = (row + 1) * 10**9
        found = estimate.peak(nodes, 200)
        assert abs(found.n1 - n1) <= 4
        assert found.n1 / nodes == pytest.approx(math.log(200) / 200, rel=1e-5)
        assert found.p_max / nodes == pytest.approx(1 - (1 + math.log(200)) / 200, rel=1e-5)

    def test_the_first_row_of_the_table(self) -> None:
        """968,508,416 URLs wait in a web of a thousand million pages."""
        assert estimate.peak(10**9, 200) == (26_491_585, 968_508_416)

    @pytest.mark.parametrize(("nodes", "p_max", "n1"), PRINTED)
    def test_the_table_as_printed(self, nodes: int, p_max: int, n1: int) -> None:
        """With a = 1 − 2·10⁻⁷ kept in every row, table 5.3 comes out as printed."""
        found = estimate.peak_as_printed(nodes, 200)
        assert abs(found.n1 - n1) <= 4
        assert abs(found.p_max - p_max) <= 4

    @given(WEBS, st.floats(0, 1))
    def test_the_derivative_as_printed_is_never_zero(self, web: tuple[int, float], part: float) -> None:
        """(5.4) as printed is negative everywhere, so by it the list never grows."""
        nodes, links = web
        assert estimate.growth_as_printed(1 + part * (nodes - 1), nodes, links) <= -1

    @pytest.mark.parametrize(
        ("nodes", "links"), [(10, 1), (10, 0), (10, 9), (10, 100), (0, 5), (math.nan, 2)]
    )
    def test_webs_that_are_none(self, nodes: float, links: float) -> None:
        """A page links to more than one page, and to fewer than there are."""
        for function in (estimate.peak, estimate.peak_as_printed):
            with pytest.raises(ValueError, match="not a web that can be crawled"):
                function(nodes, links)

    def test_a_web_where_everything_is_found_at_once(self) -> None:
        """The list is longest after the first page where that links to nearly all."""
        assert estimate.peak(100, 98.5) == (1, 98)


class TestWholeWeb:
    """Section 5.3."""

    def test_printed_and_corrected(self) -> None:
        """Each estimate is the paper's, and what its own data give."""
        found = {e.name: (e.printed, e.corrected) for e in estimate.whole_web()}
        assert found == {
            "pages in the web at the end of 2011": (4e9, None),
            "crawl rate for six months, nothing revisited": (257, pytest.approx(257.2, abs=0.01)),
            "participants for that": (5_140, pytest.approx(111_111, abs=1)),
            "storage": (1_200, pytest.approx(241_200)),
            "download from the server": (0.183, pytest.approx(0.1878, abs=1e-4)),
            "upload to the server": (5, pytest.approx(5.152, abs=1e-3)),
            "download, compressed 10:1": (0.0183, pytest.approx(0.01878, abs=1e-5)),
            "upload, compressed 10:1": (0.5, pytest.approx(0.5152, abs=1e-4)),
            "ranking all URLs": (400_000, 400_000),
            "ranking, as a share of six months": (0.2, pytest.approx(2.572, abs=1e-3)),
        }

    def test_units_mixed(self) -> None:
        """0.183 megabytes per second is what dividing by 1,000 and by 1,024 gives."""
        assert round(estimate.bandwidth(NODES, 730, SIX_MONTHS_S) / 1000 / 1024, 3) == 0.183

    def test_storage_without_links(self) -> None:
        """1,200 GB is the space of the pages' own URLs."""
        assert estimate.storage_bytes(NODES) == 1_200e9

    def test_revisits_take_time(self) -> None:
        """With α = 0.9, a tenth of all visits is no progress."""
        assert estimate.crawl_rate(NODES, SIX_MONTHS_S, alpha=0.9) == pytest.approx(285.8, abs=0.05)

    def test_ranking_speeds(self) -> None:
        """Table 5.2 gives, read in two ways, a third and nearly four times what the paper assumes."""
        extrapolated, further = ranking_speeds()
        assert round(extrapolated, -2) == 3_200
        assert round(further, -3) == 37_000


def history(accepted: npt.NDArray[np.int64], done: int) -> list[tuple[int, int]]:
    """What a crawl has seen when so many pages are done."""
    return list(enumerate(accepted[: done + 1].tolist()))


class TestHalfway:
    """Are we halfway there?"""

    @pytest.mark.parametrize("links", [5.0, 15.0])
    @pytest.mark.parametrize("popularity", ["equal", "log-normal", "pareto"])
    def test_the_interval_holds_the_truth(self, popularity: str, links: float) -> None:
        """At every stage the true total is in the interval, and no verdict is wrong, whatever is popular."""
        rng = np.random.default_rng(1)
        weights = {
            "equal": np.ones(6_000),
            "log-normal": rng.lognormal(0, 1, 6_000),
            "pareto": rng.pareto(1.2, 6_000) + 1,
        }[popularity]
        done = crawl(weights, links, rng)
        for part in (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9):
            found = estimate.halfway(history(done.accepted, round(part * done.total)))
            assert found.low <= done.total <= (found.high or math.inf)
            assert found.halfway in (None, part >= 0.5)
            if part >= 0.3:
                assert found.total == pytest.approx(done.total, rel=0.2)
                assert found.share == pytest.approx(part, rel=0.2)

    def test_verdicts(self) -> None:
        """Well before the middle the answer is no, and well after it yes."""
        done = crawl(np.ones(6_000), 10.0, np.random.default_rng(2))
        said = [
            estimate.halfway(history(done.accepted, round(p * done.total))).halfway for p in (0.1, 0.4, 0.6)
        ]
        assert said == [False, False, True]

    def test_growing_until_the_peak(self) -> None:
        """The pending list grows until about n1, and shrinks from there."""
        done = crawl(np.ones(10_000), 10.0, np.random.default_rng(3))
        n1 = estimate.peak(10_000, 10).n1
        assert estimate.halfway(history(done.accepted, n1 // 2)).growing
        assert not estimate.halfway(history(done.accepted, n1 * 2)).growing

    def test_an_endless_site_has_no_upper_end(self) -> None:
        """Where every page brings as many new ones as the first, nobody can say how many there are."""
        found = estimate.halfway([(n, 10 + 3 * n) for n in range(1000)])
        assert found.high is None
        assert found.halfway is not True
        assert found.shares[0] == 0

    def test_too_young(self) -> None:
        """After a handful of pages there is no estimate, and no claim to be halfway."""
        found = estimate.halfway([(0, 5), (1, 12), (2, 20)])
        assert (found.total, found.low, found.high, found.share) == (None, 20, None, None)
        assert found.growing
        assert found.halfway is False
        assert estimate.halfway([(0, 3)]).halfway is False
        assert estimate.halfway([(n, 50) for n in range(20)]).total is None

    def test_the_end(self) -> None:
        """A crawl with nothing left is done, exactly."""
        found = estimate.halfway([(0, 1), (1, 3), (3, 3)])
        assert found.shares == (1.0, 1.0)
        assert (found.halfway, found.growing) == (True, False)
        assert estimate.halfway([(0, 0)]).share == 0

    @settings(max_examples=50, deadline=None)
    @given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 200)), min_size=1, max_size=60))
    def test_any_history_has_an_answer(self, steps: list[tuple[int, int]]) -> None:
        """Whatever happened, known ≤ low ≤ high, and the shares are shares."""
        done, known, points = 0, 1, [(0, 1)]
        for pages, new in steps:
            done = min(done + pages, known)
            known += new
            points.append((done, known))
        found = estimate.halfway(points)
        assert known <= found.low <= (found.high or math.inf)
        assert 0 <= found.shares[0] <= found.shares[1] <= 1
        if found.total is not None:
            assert known <= found.total

    @pytest.mark.parametrize(
        "points", [[], [1, 2], [(1, 2, 3)], [(2, 5), (1, 6)], [(1, 5), (2, 4)], [(3, 2)]]
    )
    def test_histories_that_are_none(self, points: list[tuple[int, int]]) -> None:
        """What is done and accepted never falls, and what is done was accepted."""
        with pytest.raises(ValueError, match=r"history has|never fall"):
            estimate.halfway(points)
