"""The experiments of 000 and 001, small, and what they must show."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from gcs.core.automata import Exchange
from gcs.simulate import oma, sites, twoma
from gcs.simulate.report import Report

pytestmark = pytest.mark.uncounted


def column(report: Report, table: int, name: str) -> list[Any]:
    """One column of a table."""
    found = report.tables[table]
    return [row[list(found.columns).index(name)] for row in found.rows]


def rectangular(report: Report) -> bool:
    """Whether all rows have as many values as columns, and all lines as many x as y."""
    tables = all(len(row) == len(table.columns) for table in report.tables for row in table.rows)
    lines = [series for figure in report.figures for series in figure.series]
    return tables and all(len(line.x) == len(line.y) == len(line.spread or line.y) for line in lines)


class Watcher:
    """Keeps what an experiment says of its progress."""

    def __init__(self) -> None:
        """Nothing heard yet."""
        self.heard: list[float] = []

    def __call__(self, done: float) -> None:
        """Hear it."""
        self.heard.append(done)

    @property
    def content(self) -> bool:
        """Whether progress went up, step by step, to the end."""
        return self.heard == sorted(self.heard) and self.heard[-1] == 1 and self.heard[0] > 0


def ignored(done: float) -> None:
    """Progress that nobody looks at."""


@pytest.fixture(scope="module")
def twoma_report() -> Report:
    """Figures 2 and 3 with the paper's numbers but fewer repeats, and a small figure 4."""
    return twoma.run(
        seed=1, progress=ignored, repeats=2, changes=2, arm_counts=(2, 4), site_counts=(50, 1000)
    )


class TestTwoma:
    """000."""

    def test_half_of_uniform(self, twoma_report: Report) -> None:
        """After 50 runs TWOMA takes less than half of the uniform distribution's time."""
        ratio = dict(
            zip(column(twoma_report, 0, "run"), column(twoma_report, 0, "TWOMA/uniform"), strict=True)
        )
        assert ratio[0] == pytest.approx(1, abs=0.02)
        assert ratio[50] <= 0.5
        assert "As published (figure 2" in twoma_report.findings[0]

    def test_recovers(self, twoma_report: Report) -> None:
        """Within 30 runs of each change it is back under half, in every repeat."""
        slowest = column(twoma_report, 1, "slowest")
        assert len(slowest) == 3
        assert max(slowest) <= 30
        assert "4 of 4 changes" in twoma_report.findings[1]

    def test_runs_needed(self, twoma_report: Report) -> None:
        """The runs to the optimum are near their expectation, and arms count for more than sites."""
        for runs, expected in zip(
            column(twoma_report, 2, "runs"), column(twoma_report, 2, "expected"), strict=True
        ):
            assert runs == pytest.approx(expected, rel=0.4)
        assert column(twoma_report, 2, "3+(R−1)·ln|Ω|")[-1] == pytest.approx(3 + 3 * math.log(1000))
        assert "As published (figure 4" in twoma_report.findings[2]

    def test_limits(self, twoma_report: Report) -> None:
        """Different sizes keep it near three quarters of uniform; that an arm is fast it never learns."""
        equal, sized, fast, quiet = column(twoma_report, 3, "TWOMA")
        assert equal <= 0.42
        assert sized == pytest.approx(0.73, abs=0.03)
        assert fast == pytest.approx(1, abs=0.02)
        assert quiet == 1
        assert column(twoma_report, 3, "sites that move in a run")[3] == 0

    def test_report(self, twoma_report: Report) -> None:
        """There is a table for each figure and one for the limits, and all of it is valid JSON."""
        assert [table.title[:8] for table in twoma_report.tables[:3]] == ["Figure 2", "Figure 3", "Figure 4"]
        assert len(twoma_report.tables) == 4
        assert len(twoma_report.figures) == 3
        assert rectangular(twoma_report)
        assert json.loads(twoma_report.to_json())["parameters"]["sites"] == 10_000

    def test_what_is_not_as_published_is_said(self) -> None:
        """A slowdown of 1.2 leaves nothing to halve, and 30 sites in 16 arms are stuck: both are reported."""
        watcher = Watcher()
        report = twoma.run(
            seed=1,
            progress=watcher,
            sites=400,
            repeats=2,
            runs=20,
            period=10,
            changes=1,
            slowdown=1.2,
            arm_counts=(16,),
            site_counts=(30,),
        )
        assert watcher.content
        assert report.findings[0].startswith("Not as published")
        assert report.findings[1].startswith("Not as published")
        assert "cannot be judged" in report.findings[2]
        assert "2 with 16 arms and 30 sites" in report.findings[3]
        assert column(report, 1, "slowest") == [None, None]
        assert rectangular(report)

    def test_same_seed(self) -> None:
        """The same seed gives the same report, and another seed another."""

        def small(seed: int) -> Report:
            return twoma.run(
                seed=seed, progress=ignored, sites=100, repeats=2, runs=5, changes=1, site_counts=(50,)
            )

        assert small(1) == small(1)
        assert small(1).tables != small(2).tables

    @pytest.mark.parametrize(("sites", "arms", "expected"), [(10_000, 2, 5.0), (1, 2, 0.5 * 3)])
    def test_expected_runs(self, sites: int, arms: int, expected: float) -> None:
        """With two arms the last of many sites needs five runs, and one that is misplaced three in mean."""
        assert twoma.expected_runs(sites, arms, 5) == pytest.approx(expected, rel=1e-6)

    def test_by_half_needs_a_slowdown(self) -> None:
        """Half of uniform is the optimum at a slowdown of 15/7 with eight arms."""
        report = twoma.run(
            seed=1, progress=ignored, sites=64, repeats=1, runs=1, slowdown=15 / 7, site_counts=(10,)
        )
        assert column(report, 3, "optimum") == pytest.approx([0.5] * 4)

    def test_no_change(self) -> None:
        """Where nothing changes, nothing is said of recovering."""
        report = twoma.run(
            seed=1, progress=ignored, sites=64, repeats=1, runs=1, changes=0, site_counts=(10,)
        )
        assert report.findings[1] == "Figure 3 cannot be judged: nothing changed."


class TestWorld:
    """The environment of 000, section 3.1."""

    def test_durations(self) -> None:
        """A site takes its size in its perfect arm and longer elsewhere."""
        world = sites.World(np.array([0, 1]), np.array([1.0, 2.0]), 3.0, 0.0, np.random.default_rng(0))
        assert world.durations(np.array([0, 0])).tolist() == [1, 6]

    def test_noise(self) -> None:
        """Noise is around the mean, and no duration is negative."""
        world = sites.equal_sites(20_000, 2, 1.0, 0.5, np.random.default_rng(0))
        durations = world.durations(world.best)
        assert durations.mean() == pytest.approx(1, abs=0.02)
        assert durations.min() > 0

    def test_change(self) -> None:
        """After a change every site has another perfect arm."""
        world = sites.equal_sites(500, 3, 3.0, 0.0, np.random.default_rng(0))
        before = world.best
        world.change(3)
        assert (world.best != before).all()
        assert set(world.best.tolist()) == {0, 1, 2}


@pytest.fixture(scope="module")
def oma_report() -> Report:
    """The paper's numbers, with fewer repeats, objects and arms."""
    return oma.run(seed=1, progress=ignored, repeats=4, limit=150, object_counts=(30, 90), arm_counts=(2, 3))


def settings(**changes: Any) -> oma.Setting:
    """The paper's setting, but for the changes."""
    return oma.Setting(**{"objects": 270, "arms": 3, "states": 8, "slowdown": 3.0, "noise": 0.0, **changes})


def trials(iterations: Sequence[int | None], **changes: Any) -> oma.Trials:
    """Repeats that came to the optimum after so many iterations."""
    outcomes = [oma.Outcome([2.0, 1.0], count, optimal=count is not None) for count in iterations]
    return oma.Trials(settings(**changes), outcomes)


class TestOma:
    """001."""

    def test_reaches_the_optimum(self, oma_report: Report) -> None:
        """The variant of 001 brings every object to its perfect arm, within the paper's 40 iterations."""
        assert column(oma_report, 0, "objects") == [90, 100, 270]
        assert column(oma_report, 0, "reached")[-1] == "4 of 4"
        assert 10 < column(oma_report, 0, "iterations")[-1] < 40
        assert column(oma_report, 0, "time, of the first")[-1] == pytest.approx(3 / 7, abs=0.03)

    def test_rules(self, oma_report: Report) -> None:
        """The original OMA finds the groups but not their arms; action 5 to the letter finds nothing."""
        together, reached = (column(oma_report, 1, name) for name in ("groups together", "optimum reached"))
        assert together == ["4 of 4", "4 of 4", "0 of 4"]
        assert reached[0] == "4 of 4"
        assert int(reached[1][0]) < 4
        assert reached[2] == "0 of 4"
        assert column(oma_report, 1, "time, of the first")[2] == pytest.approx(1)

    def test_longer_jumps_are_quicker(self, oma_report: Report) -> None:
        """That jumps over 2 states beat 3 and 4 does not come out, and the report says so."""
        two, three, four = (column(oma_report, 2, f"jump {jump}")[0] for jump in (2, 3, 4))
        assert two > three > four
        assert oma_report.findings[3].startswith("Not as published (figure 4")

    def test_report(self, oma_report: Report) -> None:
        """There are tables and figures for all of the paper's, and all of it is valid JSON."""
        titles = [table.title for table in oma_report.tables]
        assert [title[:8] for title in titles] == ["Figure 3", "The rule", "Figure 4", "Figure 5", "Figure 6"]
        assert [figure.title[:8] for figure in oma_report.figures] == [f"Figure {n}" for n in (3, 4, 5, 6)]
        assert rectangular(oma_report)
        assert json.loads(oma_report.to_json())["name"] == "oma"

    def test_same_seed(self) -> None:
        """The same seed gives the same report, and progress goes from nothing to all."""
        watcher = Watcher()

        def small(seed: int) -> Report:
            return oma.run(
                seed=seed,
                progress=watcher,
                objects=12,
                repeats=1,
                limit=20,
                object_counts=(6,),
                arm_counts=(2,),
            )

        first = small(1)
        assert watcher.content
        assert first == small(1)
        assert first.tables != small(2).tables

    def test_given_up(self) -> None:
        """A repeat that does not come to rest is given up, and figures that lack a corner are not judged."""
        report = oma.run(
            seed=1, progress=ignored, repeats=1, limit=1, object_counts=(30, 60), arm_counts=(2, 3)
        )
        assert set(column(report, 4, "reached")) == {"0 of 1"}
        assert report.findings[0].startswith("Not as published (figure 3")
        assert "never with 2" in report.findings[3]
        assert all("cannot be judged" in finding for finding in report.findings[4:])
        assert rectangular(report)

    def test_together(self) -> None:
        """Groups are together when none is in two arms."""
        groups = np.array([0, 0, 1, 1])
        assert oma._together(groups, np.array([1, 1, 0, 0]))
        assert not oma._together(groups, np.array([1, 0, 0, 1]))

    def test_course(self) -> None:
        """At rest the time stays what it was."""
        assert trials([1]).course(4).tolist() == [[2, 1, 1, 1]]

    @pytest.mark.parametrize(
        ("fewer", "more", "clear"),
        [
            ([10, 11, 12], [20, 21, 22], True),
            ([10, 20, 30], [11, 22, 33], False),
            ([20, 21, 22], [10, 11, 12], False),
            ([10], [20], False),
            ([None, None], [20, 21], False),
        ],
    )
    def test_clearly_fewer(self, fewer: list[int | None], more: list[int | None], clear: bool) -> None:
        """A difference counts when it is more than two standard errors."""
        assert oma._clearly_fewer(trials(fewer), trials(more)) is clear

    def test_judgements(self) -> None:
        """Findings follow from the numbers, also where these are as published."""
        assert "As published (after about 40" in oma._course_finding(trials([39, 41]))
        assert oma._jumps_finding({"a": [trials([9, 10]), trials([20, 21]), trials([30, 31])]}).startswith(
            "As"
        )
        more = oma._objects_finding([trials([9, 10], objects=30), trials([30, 31], objects=90)])
        assert more.startswith("As published (figure 5")
        corners = [
            trials([10], arms=arms, objects=objects)
            if arms == 2
            else trials([30], arms=arms, objects=objects)
            for arms in (2, 8)
            for objects in (30, 90)
        ]
        assert oma._arms_finding(corners).startswith("As published (figure 6")

    def test_settings(self) -> None:
        """A setting makes its world and automaton: users that differ, the original rules, the letter."""
        rng = np.random.default_rng(0)
        assert len(set(settings(sigma=1.0).world(rng).size.tolist())) == 270
        assert set(settings().world(rng).size.tolist()) == {1.0}
        automaton = settings(jump=None, exchange=Exchange.SWITCH).automaton(rng)
        assert automaton.exchange is Exchange.SWITCH
        assert (automaton.table[0] == automaton.table[2]).all()
