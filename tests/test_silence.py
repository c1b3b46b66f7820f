"""Who was not heard for long goes on only when no plan without it can be on its way."""

from __future__ import annotations

from gcs.core.silence import CALLED_S, SHARE, Silence

FORGOTTEN_S = 100.0
LONG_S = SHARE * FORGOTTEN_S


def heard() -> Silence:
    """One that is heard at 0."""
    silence = Silence(0.0)
    silence.said(0.0, 0.0, FORGOTTEN_S, is_called=False)
    return silence


def test_who_is_silent_goes_on_for_a_share_of_the_time() -> None:
    silence = heard()
    assert silence.is_short(LONG_S - 1, FORGOTTEN_S)
    assert not silence.is_short(LONG_S, FORGOTTEN_S)
    silence.said(LONG_S - 1, LONG_S - 1, FORGOTTEN_S, is_called=True)
    assert silence.is_short(LONG_S, FORGOTTEN_S)


def test_what_others_were_told_last_counts_if_it_is_less() -> None:
    silence = heard()
    assert not silence.is_short(LONG_S, 2 * FORGOTTEN_S)
    assert not silence.is_short(LONG_S / 2, FORGOTTEN_S / 2)


def test_who_is_back_goes_on_at_once_if_nobody_makes_a_plan() -> None:
    silence = heard()
    silence.said(LONG_S, LONG_S, FORGOTTEN_S, is_called=False)
    assert silence.is_short(LONG_S, FORGOTTEN_S)


def test_who_is_back_waits_for_a_plan_that_is_being_made() -> None:
    silence = heard()
    for later_s in (0.0, 1.0, CALLED_S - 1):
        silence.said(LONG_S + later_s, LONG_S + later_s, FORGOTTEN_S, is_called=True)
        assert not silence.is_short(LONG_S + later_s, FORGOTTEN_S)
    silence.counted_on()
    silence.said(LONG_S + CALLED_S - 0.5, LONG_S + CALLED_S - 0.5, FORGOTTEN_S, is_called=True)
    assert silence.is_short(LONG_S + CALLED_S - 0.5, FORGOTTEN_S)


def test_who_called_long_ago_is_waited_for_no_more() -> None:
    silence = heard()
    silence.said(LONG_S, LONG_S, FORGOTTEN_S, is_called=True)
    silence.said(LONG_S + CALLED_S, LONG_S + CALLED_S, FORGOTTEN_S, is_called=True)
    assert silence.is_short(LONG_S + CALLED_S, FORGOTTEN_S)


def test_who_is_silent_again_waits_again() -> None:
    silence = heard()
    silence.said(LONG_S, LONG_S, FORGOTTEN_S, is_called=True)
    silence.said(3 * LONG_S, 3 * LONG_S, FORGOTTEN_S, is_called=True)
    assert not silence.is_short(3 * LONG_S, FORGOTTEN_S)


def test_one_that_was_started_after_long_was_silent_for_so_long() -> None:
    silence = Silence(1000.0, LONG_S)
    assert not silence.is_short(1000.0, FORGOTTEN_S)
    silence.said(1000.0, 1000.0, FORGOTTEN_S, is_called=True)
    assert not silence.is_short(1000.0, FORGOTTEN_S)
    silence.said(1001.0, 1001.0, FORGOTTEN_S, is_called=False)
    assert silence.is_short(1001.0, FORGOTTEN_S)


def test_what_takes_long_to_be_said_is_a_silence_too() -> None:
    """A machine may stand still just when it says that it is here."""
    silence = heard()
    silence.said(LONG_S - 1, LONG_S + 20, FORGOTTEN_S, is_called=True)
    assert not silence.is_short(LONG_S + 20, FORGOTTEN_S)
    silence.said(LONG_S + 21, LONG_S + 21, FORGOTTEN_S, is_called=True)
    assert not silence.is_short(LONG_S + 21, FORGOTTEN_S)
    silence.said(LONG_S + 22, LONG_S + 22, FORGOTTEN_S, is_called=False)
    assert silence.is_short(LONG_S + 22, FORGOTTEN_S)
