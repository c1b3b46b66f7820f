"""The statistics that a gatherer publishes with every heartbeat, by name."""

from __future__ import annotations

from typing import TypedDict


class Figures(TypedDict):
    """What a gatherer counts and measures."""

    pages: int
    bytes: int
    failed: int
    queued: int
    done: int
    dropped: int
    passed: int
    under_way: int
    lent: int
    helped: int
    visited_again: int
    """Visits to pages that had been fetched before."""
    changed: int
    """Those that found another page."""
    round_at: float | None
    """When it was begun to visit every page once more, in Unix time; None if that is not done."""
    returns: bool
    """Whether pages are visited again for ever, by a policy."""
    next_visit_at: float | None
    """When the next page is due again, in Unix time; not after now if one is due. None if there is none."""
    outbox: int
    outbox_bytes: int
    outbox_is_full: bool
    waits_for_room: bool
    unanswered_s: float
    rest_s: float | None
    resting: int
    barred: list[str]
    ignored: dict[str, str]
    rate: float
    remaining_s: float
    moved: int
    held: int
    overhead_percent: float


class Statistics(Figures):
    """The same, and how long its heartbeat took before."""

    beat_s: float
