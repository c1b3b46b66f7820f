"""The simulated month of revisits."""

from __future__ import annotations

import numpy as np
import pytest

from gcs.simulate import freshness
from gcs.simulate.report import Report

pytestmark = pytest.mark.uncounted


@pytest.fixture(scope="module")
def report() -> Report:
    """Two small webs."""
    return freshness.run(seed=3, progress=lambda part: None, pages=800, repeats=2)


def test_adaptive_is_near_the_best(report: Report) -> None:
    """At the same budget, adaptive is ahead of both others, and at 90% of the best or more."""
    rows = {row[0]: row[1:] for row in report.tables[0].rows}
    of_best = {name: row[2] for name, row in rows.items() if isinstance(row[2], float)}
    assert of_best["adaptive"] >= 0.9
    assert of_best["adaptive"] > max(of_best["uniform"], of_best["anansi"])
    assert of_best[freshness.BEST] == pytest.approx(1.0, abs=0.05)


def test_no_policy_is_given_more_than_its_budget(report: Report) -> None:
    """All policies use their budget, and none more."""
    for name in ("uniform", "anansi", "adaptive"):
        used = next(row[5] for row in report.tables[0].rows if row[0] == name)
        assert isinstance(used, float)
        assert 0.9 < used <= 1.0


def test_a_copy_is_current_until_the_page_changes() -> None:
    """The share of copies that are current is that of the time until each page's next change."""
    day = freshness.DAY_S
    world = freshness.World(
        np.array([1.0, 1.0]),
        [("", "", "")] * 2,
        [[2.5 * day], []],
        np.ones(2),
        np.ones(2),
        np.zeros(2),
    )
    copies = freshness.Copies(world)
    assert not copies.was_current(0, 0.0, 4 * day)
    assert copies.was_current(0, 4 * day, 5 * day)
    assert copies.was_current(1, 0.0, 30 * day)
    assert copies.by_day()[:6].tolist() == [1.0, 1.0, 0.75, 0.5, 1.0, 0.5]
