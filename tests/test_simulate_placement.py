"""The experiments with placements, small: what they claim, with fixed seeds."""

from __future__ import annotations

import numpy as np
import pytest

from gcs.simulate import distribution, hotpages, placement
from gcs.simulate.report import Report

pytestmark = pytest.mark.uncounted


def ignore(_: float) -> None:
    """No progress bar."""


def column(report: Report, setting: str, name: str) -> dict[str, float]:
    """One column of the table of a setting, by placement."""
    table = next(t for t in report.tables if t.title.startswith(setting + ":"))
    index = list(table.columns).index(name)
    return {str(row[0]): float(row[index] or 0) for row in table.rows}


@pytest.fixture(scope="module")
def static() -> Report:
    """Equal and log-normal sites."""
    chosen = [s for s in placement.SETTINGS if s.name in ("equal sites", "log-normal sites")]
    return placement.run(seed=1, progress=ignore, sites=400, runs=40, repeats=1, settings=chosen)


class TestPlacement:
    """All placements side by side."""

    def test_superpages_come_within_a_tenth_of_the_optimum(self, static: Report) -> None:
        """In static worlds the makespan is within 1.10 of the bound; with equal sites so is the duration."""
        for setting in ("equal sites", "log-normal sites"):
            assert column(static, setting, "makespan")["superpages"] <= 1.10
        assert column(static, "equal sites", "duration")["superpages"] <= 1.10

    def test_twoma_is_good_with_equal_sites_and_not_with_others(self, static: Report) -> None:
        """TWOMA takes size for slowness: big sites never settle."""
        equal, sized = (column(static, s, "duration") for s in ("equal sites", "log-normal sites"))
        assert equal["TWOMA"] < 0.55 * equal["uniform"]
        assert sized["TWOMA"] > 0.65 * sized["uniform"]

    def test_hash_and_uniform_learn_nothing(self, static: Report) -> None:
        """Neither moves anything, and both take (1 + 7 · 3)/8 times the optimum."""
        for setting in ("equal sites", "log-normal sites"):
            for name in ("hash", "uniform"):
                assert column(static, setting, "moves")[name] == 0
                assert column(static, setting, "duration")[name] == pytest.approx(2.75, abs=0.15)

    def test_superpages_are_best_where_the_world_changes(self) -> None:
        """After a change superpages are soon back, and the best of all over the whole time."""
        changing = placement.Setting("changing", sigma=1.0, period=15)
        report = placement.run(seed=1, progress=ignore, sites=200, runs=45, repeats=1, settings=[changing])
        duration = column(report, "changing", "duration")
        assert min(duration, key=lambda name: duration[name]) == "superpages"
        assert report.findings[-1].startswith("changing: best to worst by duration: superpages")

    def test_one_fast_gatherer_is_shared(self) -> None:
        """Proximity drowns the gatherer that is near to all; superpages balance, TWOMA cannot learn it."""
        fast = placement.Setting("fast", one_fast=True)
        report = placement.run(seed=1, progress=ignore, sites=200, runs=20, repeats=1, settings=[fast])
        makespan = column(report, "fast", "makespan")
        assert makespan["superpages"] < 1.12
        assert makespan["TWOMA"] > 1.2
        assert makespan["proximity"] > 3

    def test_the_same_seed_gives_the_same_report(self) -> None:
        """An experiment is reproducible."""
        chosen = [placement.Setting("tiny", neighbours=True)]
        one, other = (
            placement.run(seed=3, progress=ignore, sites=60, runs=4, repeats=2, settings=chosen)
            for _ in range(2)
        )
        assert one.to_json() == other.to_json()

    def test_noise_keeps_the_mean(self) -> None:
        """Durations with noise are right on average."""
        rng = np.random.default_rng(1)
        for noise in (placement.normal_noise, placement.exponential_noise):
            assert noise(rng, (500, 100)).mean() == pytest.approx(1.0, abs=0.02)


@pytest.fixture(scope="module")
def distributed() -> Report:
    """002's comparison on a small web."""
    return distribution.run(
        seed=1,
        progress=ignore,
        more_countries=("th", "jp", "kr"),
        repeats=1,
        domains=150,
        hours=0.15,
        connections=2,
        replan=90.0,
    )


class TestDistribution:
    """Hash, proximity and superpages on a web of countries."""

    def test_hash_divides_evenly_and_proximity_by_country(self, distributed: Report) -> None:
        """Figures 3 and 4 come out as published, and superpages learn the same by themselves."""
        rows = {
            (str(row[0]), str(row[1])): [float(v or 0) for v in row[2:]] for row in distributed.tables[1].rows
        }
        for number, country in enumerate((".th", ".jp")):
            assert 35 < rows["hash", country][number] < 65
            assert rows["proximity", country][number] > 85
            assert rows["superpages", country][number] > 70

    def test_overhead_is_small_and_larger_for_proximity(self, distributed: Report) -> None:
        """Figure 5 comes out as published: proximity needs more than hash, and both under 3%."""
        overhead = {str(row[0]): float(row[-1] or 0) for row in distributed.tables[0].rows}
        assert overhead["hash"] < overhead["proximity"] < 3

    def test_nearness_saves_time(self, distributed: Report) -> None:
        """A fetch is faster by proximity and by superpages than by hash, in two countries and in three."""
        for table in (distributed.tables[0], distributed.tables[2]):
            seconds = {str(row[0]): float(row[3] or 0) for row in table.rows}
            assert seconds["proximity"] < seconds["hash"]
            assert seconds["superpages"] < seconds["hash"]

    def test_no_page_is_fetched_twice(self) -> None:
        """However often owners change, what is accepted is fetched, and once only."""
        size = distribution.Size(domains=30, pages=5, hours=0.3, replan_s=20.0)
        for method in distribution.METHODS:
            web = distribution.make_web(("th", "jp"), size, np.random.default_rng(1))
            crawl = distribution.Crawl(web, size, method, np.random.default_rng(2))
            course = crawl.run(100, lambda: None)
            assert int(course.matrix.sum()) == len(crawl.known)
            assert len(crawl.known) > 0.5 * len(web.keys)


class TestHotPagesExperiment:
    """Queue and crossing links with tables of several sizes."""

    def test_a_larger_table_saves_more(self) -> None:
        """Queue and links that are sent shrink as the table grows, and nothing goes unvisited for it."""
        report = hotpages.run(
            seed=1, progress=ignore, pages=2_000, gatherers=4, tables=(0.0, 0.01, 0.1, 1.0), repeats=2
        )
        sent = [float(row[3] or 0) for row in report.tables[1].rows]
        peak = [float(row[5] or 0) for row in report.tables[0].rows]
        assert sent[0] == 1.0
        assert sent == sorted(sent, reverse=True)
        assert peak == sorted(peak, reverse=True)
        assert len(report.findings) == 3

    def test_every_table_visits_the_same_pages(self) -> None:
        """Forgetting costs repetitions, never pages."""
        links = hotpages.scale_free(1_000, 8, 2.1, 0.3, np.random.default_rng(1))
        fetched = {hotpages.crawl(links, 3, capacity, [1, 2]).fetches for capacity in (0, 5, 50, 5_000)}
        assert len(fetched) == 1

    def test_in_degrees_are_scale_free(self) -> None:
        """One page in a hundred has more than a third of the links that leave their site."""
        links = np.concatenate(hotpages.scale_free(5_000, 10, 2.1, 0.0, np.random.default_rng(1)))
        degrees = np.sort(np.bincount(links, minlength=5_000))[::-1]
        assert degrees[:50].sum() > degrees.sum() / 3
