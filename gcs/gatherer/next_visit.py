"""When a page is visited again, and why, in words: for `gcs why`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from gcs.config import Revisit
from gcs.core.revisits.course import Course, Courses
from gcs.core.revisits.memory import Memory
from gcs.core.revisits.standing import APPOINTED, Standing
from gcs.core.urls import PATH
from gcs.gatherer.revisiting import table_of
from gcs.settings import duration
from gcs.store.records import Remembered, host_of

_NEVER = "revisit.policy is none: `gcs crawl --revisit` visits all pages once more"
_GONE = "it is gone: its host has said so again and again"


def learnt(settings: Revisit, stored: bytes | None) -> Courses | None:
    """What was learnt of all pages, as a store has it; None for a crawl that comes back to none."""
    if stored is None or settings.policy == "none":
        return None
    return Courses.from_bytes(table_of(settings), stored)


def told(
    settings: Revisit, key: str, remembered: Remembered | None, courses: Courses | None
) -> dict[str, Any]:
    """How visits of a page went, when the next one is, and why then; empty if nothing is remembered of it."""
    if remembered is None:
        return {}
    was = Memory.from_bytes(remembered.memory)
    history, standing = was.course.history, remembered.standing
    next_at = courses.timetable.due_at(standing) if standing is not None and courses is not None else None
    return {
        "visits": len(history) + 1,
        "changes": sum(code & 1 for code in history),
        "changes_every": _every(courses.rate(was.course, ("", host_of(key) + PATH))) if courses else None,
        "link_change": round(was.course.change, 3),
        "gone": was.course.is_gone,
        "last_visit": _moment(was.visited_at),
        "next_visit": _moment(next_at) if next_at is not None else None,
        "because": _because(settings, was.course, standing),
    }


def _every(rate: float) -> str:
    """How long it is from one change to the next, roughly: it is a guess."""
    seconds = 1 / rate
    unit = next((each for each in (86_400, 3600, 60) if seconds >= 2 * each), 1)
    return f"about {duration(round(seconds / unit) * unit)}"


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")


def _because(settings: Revisit, course: Course, standing: Standing | None) -> str:
    if standing is None:
        return _GONE
    if settings.policy == "none":
        return _NEVER
    if standing.grade == APPOINTED:
        if course.missing:
            return f"it was missing {course.missing} times in a row, and is looked for again"
        if course.failed:
            return f"the last {course.failed} visits failed, and are repeated ever later"
        return "a sitemap or a feed says that it has changed"
    words = {
        "uniform": "all pages are visited as often",
        "anansi": f"C is {course.change:.2f}, and P_old = C·T·(I + O) reaches the level of all pages then",
        "adaptive": "by how often it and its neighbours have changed, a visit is worth its price then",
    }
    return words[settings.policy]
