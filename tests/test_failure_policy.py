"""The failure policy: what every outcome leads to, for its URL and its host."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcs.core import failures
from gcs.core.failures import Cause, Verdict, decide, retry_after
from gcs.core.politeness import Workbench
from gcs.fetch.outcome import Reason

NOW = datetime(2026, 11, 16, 7, 28, 0, tzinfo=UTC).timestamp()


def test_every_reason_has_a_row() -> None:
    """The table knows every reason of a failed fetch and every cause of its own, and no others."""
    assert set(failures.POLICIES) == {*Reason, *Cause}


@pytest.mark.parametrize(
    ("cause", "code"),
    [
        (Reason.DNS, -1),
        (Reason.CONNECT, -2),
        (Reason.DISCONNECTED, -3),
        (Reason.TIMEOUT, -4),
        (Reason.REQUEST, -7),
        (Cause.HOST, -8),
        (Cause.ROBOTS_UNREACHABLE, -61),
        (Cause.TRAP, -4000),
        (Cause.DEPTH, -4001),
        (Cause.SCOPE, -5000),
        (Cause.BLOCKED, -5001),
        (Cause.BUDGET, -5003),
        (Cause.TIME, -5004),
        (Cause.DELETED, -6000),
        (Cause.ROBOTS, -9998),
        (200, 200),
        (503, 503),
    ],
)
def test_codes_are_those_of_heritrix(cause: str | int, code: int) -> None:
    """Tools for Heritrix's crawl log understand ours."""
    assert failures.code_of(cause) == code
    assert decide(cause, 1, 0).code == code


@pytest.mark.parametrize(
    "status", [200, 204, 206, 301, 304, 400, 401, 403, 404, 410, 451, 501, 505, 600, 999]
)
def test_answers_are_no_failures(status: int) -> None:
    """A page that is not there was answered for, which ends a row of failures of its host."""
    assert decide(status, 1, 7) == Verdict(status)


@pytest.mark.parametrize(
    ("cause", "waits"),
    [
        (Reason.DNS, [60.0, 120.0, 240.0]),
        (Reason.CONNECT, [30.0, 60.0, 120.0]),
        (Reason.TLS, [300.0]),
        (Reason.TIMEOUT, [60.0, 120.0]),
        (Reason.ADDRESS, []),
        (Reason.PORT, []),
        (Reason.HEADERS, []),
        (Reason.RATIO, []),
        (Cause.ROBOTS, []),
        (408, [30.0, 60.0]),
        (500, [60.0, 120.0]),
        (502, [60.0, 120.0, 240.0]),
        (522, [60.0, 120.0, 240.0]),
        (507, [300.0]),
    ],
)
def test_a_failure_is_tried_again_so_often(cause: str | int, waits: list[float]) -> None:
    """Each cause has its number of attempts, with ever longer times between them, and then a reason."""
    for attempts, wait_s in enumerate(waits, start=1):
        verdict = decide(cause, attempts, 0)
        assert (verdict.retry_after_s, verdict.dropped) == (wait_s, "")
    verdict = decide(cause, len(waits) + 1, 0)
    assert verdict.retry_after_s is None
    assert verdict.dropped.startswith(failures.because(cause))
    assert verdict.dropped.endswith(f"{len(waits) + 1} times") is bool(waits)
    assert not verdict.host_given_up


def test_a_host_that_fails_is_set_aside_and_then_given_up() -> None:
    """From the third failure in a row on pauses double, and after the twelfth the host is given up."""
    found = [decide(Reason.CONNECT, 1, before) for before in range(12)]
    pauses = [verdict.host_pause_s for verdict in found]
    assert pauses == [0, 0, 60, 120, 240, 480, 960, 1920, 3600, 3600, 3600, 3600]
    assert [verdict.host_given_up for verdict in found] == [False] * 11 + [True]
    assert found[-1].dropped == "no connection could be made"
    assert all(verdict.host_failed for verdict in found)


def test_a_page_that_fails_does_not_count_against_its_host() -> None:
    """What is the page's own fault leaves the host alone, however many failures it had."""
    for cause in (500, Reason.CODING, Reason.RATIO, Reason.PROXY):
        verdict = decide(cause, 1, 50)
        assert (verdict.host_failed, verdict.host_pause_s, verdict.host_given_up) == (False, 0.0, False)


def test_a_host_that_asks_for_less_gets_a_pause_at_once() -> None:
    """429 and 503 double a pause from the first one on, and Retry-After is obeyed when it is longer."""
    assert [decide(429, 1, before).host_pause_s for before in range(9)] == [
        30, 60, 120, 240, 480, 960, 1920, 3600, 3600,
    ]  # fmt: skip
    verdict = decide(503, 1, 0, retry_after_s=500.0)
    assert (verdict.host_pause_s, verdict.retry_after_s) == (500.0, 500.0)
    assert decide(503, 1, 4, retry_after_s=5.0).host_pause_s == 480.0
    assert decide(503, 9, 4).dropped == "the host asks for less (status 503), 9 times"


@given(st.sampled_from([*Reason, *Cause, *range(100, 600)]), st.integers(1, 50), st.integers(0, 500))
def test_every_verdict_is_one_of_three(cause: str | int, attempts: int, before: int) -> None:
    """A URL is tried again, dropped or done, never two of these, and all times are bounded."""
    verdict = decide(cause, attempts, before)
    assert verdict.retry_after_s is None or not verdict.dropped
    assert 0 <= verdict.host_pause_s <= failures.MAX_WAIT_S
    assert verdict.retry_after_s is None or 0 < verdict.retry_after_s <= 3600
    assert not verdict.host_given_up or verdict.dropped
    assert failures.because(cause)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("120", 120.0),
        (" 0 ", 0.0),
        ("999999999", 86_400.0),
        ("Mon, 16 Nov 2026 07:30:00 GMT", 120.0),
        ("Monday, 16-Nov-26 07:30:00 GMT", 120.0),
        ("Mon, 16 Nov 2026 07:30:00", 120.0),
        ("Mon Nov 16 07:30:00 2026", 120.0),
        ("Mon, 16 Nov 2020 07:30:00 GMT", 0.0),
        ("Mon, 16 Nov 2099 07:30:00 GMT", 86_400.0),
        ("-5", None),
        ("soon", None),
        ("", None),
        ("Mon, 99 Nov 2026 99:30:00 GMT", None),
        ("²", None),
    ],
)
def test_retry_after(value: str, expected: float | None) -> None:
    """Retry-After is seconds or a date, at most a day away; anything else says nothing."""
    assert retry_after(value, NOW) == expected


@given(st.text(max_size=60))
def test_retry_after_never_fails(value: str) -> None:
    """Whatever a server sends, reading it does not fail."""
    found = retry_after(value, NOW)
    assert found is None or 0 <= found <= failures.MAX_RETRY_AFTER_S


def test_a_dead_host_is_given_up_after_some_hours() -> None:
    """Policy and workbench together end with a host that never answers, and ask it twelve times."""
    workbench = Workbench(1, 4, 1.0, 3.0, 60.0)
    workbench.wake("dead", 0.0)
    now, asked = 0.0, 0
    while True:
        turn = workbench.take(now)
        if turn is None:
            following = workbench.next_at()
            assert following is not None
            now = following
            continue
        asked += 1
        verdict = decide(Reason.CONNECT, 1, workbench.failures("dead"))
        workbench.done(turn, now, failed=verdict.host_failed, pause_s=verdict.host_pause_s)
        if verdict.host_given_up:
            break
    assert asked == 12
    assert 3 * 3600 < now < 5 * 3600
