"""Fetching less for a while, evenly, and only where that helps."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from gcs.core.moderation import KEPT_S, LATE_S, Moderation

STEP_S = 0.005


def after(rate: float, late_s: float, seconds: float = 5.0) -> tuple[Moderation, float]:
    """A gatherer that could begin so many fetches a second, and has done so for a while."""
    moderation, now, owed = Moderation(0.0), 0.0, 0.0
    while now < seconds:
        now += STEP_S
        owed += rate * STEP_S
        while owed >= 1.0 and moderation.may_begin(now):
            moderation.began()
            owed -= 1.0
        moderation.look(now, late_s, 1.0)
    return moderation, now


def begun(moderation: Moderation, now: float, seconds: float, share: float, late_s: float) -> list[float]:
    """When fetches begin, if there is always one that could."""
    times, end = [], now + seconds
    while now < end:
        now += STEP_S
        moderation.look(now, late_s, share)
        for _ in range(1000):
            if not moderation.may_begin(now):
                break
            moderation.began()
            times.append(now)
    return times


@given(st.floats(20, 2000), st.floats(0.2, 0.9))
def test_a_share_of_the_usual_begins(rate: float, share: float) -> None:
    moderation, now = after(rate, 2 * LATE_S)
    times = begun(moderation, now, 3.0, share, 2 * LATE_S)
    assert 0.85 * rate * share - 2 <= len(times) / 3.0 <= 1.15 * rate * share + 2


def test_it_is_even() -> None:
    moderation, now = after(200, 2 * LATE_S)
    times = begun(moderation, now, 3.0, 0.5, 2 * LATE_S)
    assert max(later - earlier for earlier, later in pairwise(times)) < 0.05


def test_with_processor_to_spare_nothing_is_held_back() -> None:
    moderation, now = after(200, LATE_S / 10)
    assert len(begun(moderation, now, 0.05, 0.5, LATE_S / 10)) >= 1000 * 10


def test_it_stays_for_a_while_though_things_are_better() -> None:
    moderation, now = after(200, 2 * LATE_S)
    assert len(begun(moderation, now, KEPT_S / 2, 0.5, 0.0)) < 200
    assert moderation.is_in_force


def test_what_is_not_asked_for_is_not_in_force() -> None:
    moderation, now = after(200, 2 * LATE_S)
    seen = [moderation.is_in_force]
    for share in (0.5, 1.0):
        begun(moderation, now, 0.05, share, 2 * LATE_S)
        seen.append(moderation.is_in_force)
        now += 0.05
    assert seen == [False, True, False]
