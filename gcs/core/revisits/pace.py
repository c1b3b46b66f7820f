"""How many visits are begun: no more than the budget has room for, however many pages are due at once.

Where intervals go by what is learnt, very many can be. With `anansi` a page that was visited once has C = 1,
and one that was then found unchanged a twentieth of that, so it is due much later. The more of those there
are, the more often all others have to be visited for the budget to be used, so they are due sooner, all of
them: half of a web in no time, and together again whenever their interval is over. 004 has no such level. It
visits as many old pages as there is room for, those with the largest P_old first; and so it is with a pace.
With `adaptive` it is much the same, if less so. `gcs.simulate.freshness` gives every policy such a budget.
"""

from __future__ import annotations

from typing import Final

from gcs.core.revisits.timetable import Timetable

FASTER: Final = 1.25
"""Than the budget: what has come too late is caught up with."""
SAVED: Final = 1 / 64
"""What can be saved up, as a share of all pages."""
_SAVED_S: Final = 60.0
"""And what is saved up in this time always can be: visits are begun some at a time."""


class Pace:
    """What may be begun of the visits of one timetable."""

    def __init__(self, table: Timetable, begun: int, now: float) -> None:
        """`begun` counts all visits that were ever begun, less those that were put off; one may be now."""
        self._table, self._begun, self._at = table, begun, now
        self._left = 1.0

    def room(self, begun: int, now: float) -> int:
        """How many visits may be begun now."""
        table, passed_s = self._table, max(0.0, now - self._at)
        self._at = max(now, self._at)
        most = max(1.0, SAVED * table.pages, _SAVED_S * self._per_s)
        self._left = min(most, self._left + passed_s * self._per_s - (begun - self._begun))
        self._begun = begun
        return max(0, int(self._left))

    def next_at(self, begun: int, now: float) -> float:
        """When there is room for a visit."""
        if self.room(begun, now):
            return now
        return now + (1 - self._left) / self._per_s if self._per_s else now

    @property
    def _per_s(self) -> float:
        return FASTER * self._table.pages / self._table.every_s
