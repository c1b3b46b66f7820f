"""The horizon of loans: until when helpers may be asking, as a gatherer that starts again finds it."""

from __future__ import annotations

import math

from gcs.gatherer.horizon import LENT, SPARE_S, STEP_S, Horizon


def written(horizon: Horizon, now: float) -> bytes:
    """Have what has changed written."""
    meta = horizon.changed(now)
    horizon.written(meta)
    return meta[LENT]


def test_nothing_is_lent_before_it_is_on_disk() -> None:
    horizon = Horizon(None, 100.0, counts=True)
    assert not horizon.changed(100.0)
    assert not horizon.covers(120.0)
    meta = horizon.changed(100.0)
    assert not horizon.covers(120.0)
    horizon.written(meta)
    assert horizon.covers(120.0)
    assert not horizon.changed(100.0)


def test_it_moves_on_while_it_still_covers_what_is_lent() -> None:
    horizon = Horizon(None, 100.0, counts=True)
    assert not horizon.covers(120.0)
    written(horizon, 100.0)
    assert horizon.covers(120.0 + STEP_S)
    assert horizon.changed(101.0)


def test_the_next_process_asks_nobody_until_then() -> None:
    horizon = Horizon(None, 100.0, counts=True)
    horizon.covers(120.0)
    kept = written(horizon, 100.0)
    for found_at, counts in ((101.0, True), (115.0, False)):
        assert Horizon(kept, found_at, counts=counts).quiet_until == 120.0 + SPARE_S + STEP_S


def test_a_clock_that_went_back_does_not_make_it_long() -> None:
    horizon = Horizon(None, 100_000.0, counts=True)
    horizon.covers(100_020.0)
    kept = written(horizon, 100_000.0)
    assert Horizon(kept, 50.0, counts=True).quiet_until == 70.0 + SPARE_S + STEP_S


def test_who_ends_in_order_leaves_none() -> None:
    horizon = Horizon(None, 100.0, counts=True)
    assert not horizon.ended()
    horizon.covers(120.0)
    written(horizon, 100.0)
    assert Horizon(horizon.ended()[LENT], 101.0, counts=True).quiet_until == -math.inf


def test_without_helpers_nothing_is_written() -> None:
    horizon = Horizon(None, 100.0, counts=False)
    assert horizon.covers(120.0)
    assert not horizon.changed(100.0)
