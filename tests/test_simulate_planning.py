"""The experiments on partitions and on the pending list."""

from __future__ import annotations

import json

import pytest

from gcs.simulate import frontier, partition
from gcs.simulate.report import Report

pytestmark = pytest.mark.uncounted


def told(report: Report, start: str) -> str:
    """The finding that begins like this."""
    (found,) = [finding for finding in report.findings if finding.startswith(start)]
    return found


@pytest.fixture(scope="module")
def partitions() -> Report:
    """A small run, with one case that is too large for the linear program."""
    shown: list[float] = []
    report = partition.run(
        seed=1,
        progress=shown.append,
        gatherers=40,
        superpages=30_000,
        repeats=1,
        sizes=((16, 320), (40, 1_000), (40, 26_000)),
    )
    assert shown == sorted(shown)
    assert shown[-1] == 1
    return report


@pytest.fixture(scope="module")
def frontiers() -> Report:
    """A run on smaller webs."""
    shown: list[float] = []
    report = frontier.run(seed=1, progress=shown.append, pages=10_000, degree=15.0)
    assert shown == sorted(shown)
    assert shown[-1] == 1
    return report


class TestPartition:
    """`gcs simulate partition`."""

    def test_improved_partitions_are_near_the_bound(self, partitions: Report) -> None:
        """No ratio is below 1, and with prices all are within 2%, better than without where rates differ."""
        for _, superpages, kind, greedy, searched, improved, rounded, bound, *_ in partitions.tables[0].rows:
            assert isinstance(improved, float)
            assert isinstance(greedy, float)
            assert 1 - 1e-9 <= improved <= 1.02
            assert improved <= greedy
            if superpages == 26_000:
                assert (searched, rounded, bound) == (None, None, "prices")
            else:
                assert isinstance(searched, float)
                assert isinstance(rounded, float)
                assert bound == "LP"
                assert 1 - 1e-9 <= searched <= greedy
                assert rounded <= 2 * (1 + 1e-6)
                assert kind == "speeds" or improved < searched

    def test_two_is_not_worse_than_one(self, partitions: Report) -> None:
        """With links, II is at most I, and improved at most II; I cuts nearly all links."""
        for _, _, one, two, improved, cut, *_ in partitions.tables[1].rows:
            assert isinstance(two, float)
            assert isinstance(improved, float)
            assert isinstance(cut, float)
            assert one == 1
            assert improved <= two <= 1
            assert cut > 0.8

    def test_what_is_kept(self, partitions: Report) -> None:
        """Keeping what can be kept moves less than a new beginning, for at most 5% more time."""
        for _, _, _, anew, moved_anew, kept, moved_kept in partitions.tables[2].rows:
            assert isinstance(anew, float)
            assert isinstance(kept, float)
            assert isinstance(moved_anew, float)
            assert isinstance(moved_kept, float)
            assert moved_kept <= moved_anew
            assert kept <= 1.05 * anew + 1e-9

    def test_report(self, partitions: Report) -> None:
        """It can be read by people and programs, and has a figure with a line per algorithm."""
        assert "Makespan, as a ratio" in partitions.to_text()
        assert json.loads(partitions.to_json())["name"] == "partition"
        assert [len(s.x) for s in partitions.figures[0].series] == [6] * 4
        assert "prices prove" in told(partitions, "At 40 gatherers")

    @pytest.mark.parametrize(("ratio", "says"), [(1.019, ": within 2%"), (1.021, ": NOT within 2%")])
    def test_the_promise(self, partitions: Report, ratio: float, says: str) -> None:
        """Whether Partition I improved is within 2% of the linear program at k = 64, m = 5,000 is said."""
        trial = partition.Trial(
            64, 5_000, "pairs", 1.2, 1.1, ratio, 1.3, exact=True, seconds=1, bound_seconds=1
        )
        found = partition.findings([trial], partitions.tables[1].rows, partitions.tables[2].rows)
        assert says in found[1]

    def test_too_small(self) -> None:
        """With fewer gatherers than any case has, there is nothing to try."""
        with pytest.raises(ValueError, match="smallest case"):
            partition.run(seed=1, progress=lambda _: None, gatherers=2)


class TestFrontier:
    """`gcs simulate frontier`."""

    def test_table_5_3(self, frontiers: Report) -> None:
        """The table with its slip is within 4 of what is printed, and only the first row is right."""
        for row, (nodes, p_max, n1, p_slip, n_slip, p_right, n_right, _) in enumerate(
            frontiers.tables[0].rows
        ):
            assert isinstance(p_slip, int)
            assert isinstance(n_slip, int)
            assert nodes == (row + 1) * 10**9
            assert abs(p_slip - p_max) <= 4  # type: ignore[operator]
            assert abs(n_slip - n1) <= 4  # type: ignore[operator]
            assert ((p_right, n_right) == (p_max, n1)) == (row == 0)

    def test_the_formula_is_what_happens(self, frontiers: Report) -> None:
        """Equally popular pages have the peak that (5.3) predicts; else it is lower and comes later."""
        (_, _, n1, p_max), (_, _, equal_n1, equal_p), (_, _, other_n1, other_p) = frontiers.tables[3].rows
        assert equal_n1 == pytest.approx(n1, rel=0.1)
        assert equal_p == pytest.approx(p_max, rel=0.01)
        assert isinstance(other_p, int)
        assert isinstance(other_n1, int)
        assert other_p < 0.9 * p_max  # type: ignore[operator]
        assert other_n1 > n1  # type: ignore[operator]

    def test_halfway(self, frontiers: Report) -> None:
        """Every interval held the truth and no verdict was wrong."""
        assert "interval 20 times" in told(frontiers, "Asked 20 times")
        assert "wrongly 0 times" in told(frontiers, "They said")

    def test_report(self, frontiers: Report) -> None:
        """It can be read by people and programs, and has figure 5.3, the crawls, and the answers."""
        assert "968,508,416" in frontiers.to_text()
        assert "2.572" in frontiers.to_text()
        assert len(json.loads(frontiers.to_json())["figures"]) == 3

    def test_the_same_seed_gives_the_same_report(self, frontiers: Report) -> None:
        """Chance comes from the seed alone."""
        again = frontier.run(seed=1, progress=lambda _: None, pages=10_000, degree=15.0)
        assert again.to_json() == frontiers.to_json()
