"""How far a crawl is, how long it will still take, and how it is, each in a plain sentence.

What is left is what the estimate of `gcs.core.estimate` expects beyond what is done, at the pace of late. The
ends of its interval give the least and the most time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from gcs.core.dates import for_people
from gcs.core.estimate import Progress
from gcs.monitor.shapes.crawl import Outlook
from gcs.operate.asking import counted
from gcs.operate.condition import Condition, State
from gcs.settings import duration

_TOO_LONG_S: Final = 10 * 365 * 86_400.0
_STEPS: Final = ((86_400, 3_600), (3_600, 60), (600, 10))
"""A time of at least so long is told to so many seconds."""


def outlook(totals: Mapping[str, Any], progress: Progress | None, per_s: float) -> Outlook:
    """How far it is, with the least and the most that this may be; None for what cannot be said.

    `per_s` is how many URLs are done, one way or the other, in a second of late.
    """
    done = totals["done"] + totals["dropped"]
    known = done + totals["queued"]
    low = high = expected = None
    if progress is not None and progress.total is not None:
        expected, low, high = max(progress.total, known), max(progress.low, known), progress.high
        high = None if high is None else max(high, expected)
    share, least, most = (_share(done, each) for each in (expected, high, low))
    likely_s, least_s, most_s = (_time(each, done, per_s) for each in (expected, low, high))
    return {
        "done": done,
        "known": known,
        "expected": expected,
        "expected_low": low,
        "expected_high": high,
        "share": share,
        "share_low": least,
        "share_high": most,
        "remaining_s": likely_s,
        "remaining_low_s": least_s,
        "remaining_high_s": most_s,
        "sentence": _sentence(done, known, share, (likely_s, least_s, most_s)),
    }


def _share(done: int, of: float | None) -> float | None:
    return None if of is None else min(1.0, done / of) if of > 0 else 1.0


def _time(until: float | None, done: int, per_s: float) -> float | None:
    if until is None:
        return None
    left = max(0.0, until - done)
    if not left:
        return 0.0
    return left / per_s if per_s > 0 and left / per_s < _TOO_LONG_S else None


def _sentence(done: int, known: int, share: float | None, times: Sequence[float | None]) -> str:
    if not known:
        return "Nothing is known yet."
    if done == known:
        return "All that is known is done."
    if share is None:
        return f"{_percent(done / known)} of the known URLs are done; how many more there are is not known."
    said = f"About {_percent(share)} of what is reachable"
    likely, least, most = times
    if likely is None or least is None:
        return f"{said}."
    span = f"at least {lasting(least)}" if most is None else f"between {lasting(least)} and {lasting(most)}"
    return f"{said}, {lasting(likely)} to go, {span}."


def _percent(share: float) -> str:
    return f"{min(share, 0.99):.0%}"


def lasting(seconds: float) -> str:
    """A length of time for people, to two units."""
    whole = round(seconds)
    step = next((step for above, step in _STEPS if whole >= above), 1)
    return duration(whole - whole % step)


def sentence(
    condition: Condition | None,
    totals: Mapping[str, Any],
    present: int,
    resting: int,
    *,
    finished_at: float = 0.0,
) -> str:
    """How a crawl is, in a sentence; `resting` hosts wait for their turn."""
    if condition is None:
        return "Nothing has been seen of the crawl yet."
    state, why = condition.state, condition.why
    if state is State.FINISHED and finished_at:
        return f"Finished at {for_people(finished_at)}: {why}."
    if state is State.CAUGHT_UP:
        return f"Caught up, {why}."
    if state is State.WAITING and resting:
        return f"Waiting for politeness on {counted(resting, 'host')}: {why}."
    if state is not State.CRAWLING:
        return f"{state.value.capitalize()}: {why}."
    queued, _, asides = why.partition("; ")
    said = f"Crawling: {totals['pages_per_s']:,.1f} pages/s by {counted(present, 'gatherer')}, {queued}"
    if resting:
        said += f"; {counted(resting, 'host rests', 'hosts rest')} between requests, for politeness"
    return f"{said}{'; ' if asides else ''}{asides}."
