"""A place in a timetable: everybody may know of it without knowing how timetables are made."""

from __future__ import annotations

from typing import Final, NamedTuple

APPOINTED: Final = 255
"""The line of those who were told a date."""


class Standing(NamedTuple):
    """A place in a line."""

    grade: int
    since: float
    """From when its interval counts; in the line of dates, the date."""
