"""Visits before their time, since somebody says that a page has changed: within the budget of all visits.

A sitemap may say so of every page, every hour. So hints have an allowance: as much as half of the budget, a
little of which can be saved up, and what they use is taken off what is shared out by the timetable. Who is
refused is visited when it is due, or when the sitemap is read again and there is something left.
"""

from __future__ import annotations

import math
from typing import Final

from gcs.core.revisits.timetable import Timetable

SHARE: Final = 0.5
"""Of the budget, what hints may use."""
SAVED: Final = 1 / 16
"""What can be saved up, as a share of all pages."""


class Hints:
    """The allowance of one timetable."""

    def __init__(self, table: Timetable, now: float) -> None:
        """At first there is enough for one page."""
        self._table, self._at = table, now
        self._left, self._per_s = 1.0, 0.0

    def allow(self, now: float) -> bool:
        """Whether a page may be visited before its time; if so, that is used."""
        self.pass_time(now)
        if self._left < 1:
            return False
        self._left -= 1
        self._per_s += 1 / self._table.every_s
        return True

    def pass_time(self, now: float) -> None:
        """Let the allowance grow, and leave to the timetable what was not used of late."""
        table, passed_s = self._table, max(0.0, now - self._at)
        self._at = max(now, self._at)
        most = max(1.0, SAVED * table.pages)
        self._left = min(most, self._left + SHARE * passed_s * table.pages / table.every_s)
        # The mean over the interval of the budget, in which what is long ago counts less.
        self._per_s *= math.exp(-passed_s / table.every_s)
        table.leave_room(min(self._per_s, SHARE * table.pages / table.every_s))
