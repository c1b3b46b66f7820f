"""Moderation: fetch only some of what could be fetched, for as long as something else needs the processor.

What a gatherer fetches when nothing else is to be done is measured all the time. While it is moderated, it
begins a share of that, evenly: no burst and no pause. When the processor is not what limits fetching, because
hosts must not be asked more often or answer slowly, nothing is gained by that, and nothing is held back. How
late a task runs that was to be woken at a time says whether there is enough of it, whoever uses it.
"""

from __future__ import annotations

from typing import Final

LATE_S: Final = 0.002
"""Who is woken so late, on average, lacks the processor."""
KEPT_S: Final = 2.0
"""What is in force stays so for this long, though it has made things better."""
UNKNOWN: Final = 400.0
"""Fetches a second that one could begin that has never had nothing else to do."""
_AHEAD_S: Final = 0.05
"""What was not begun for so long may be made up for."""
_WINDOW_S: Final = 0.5
_WEIGHT: Final = 0.2


class Moderation:
    """How many fetches may begin, of one gatherer."""

    def __init__(self, now: float) -> None:
        self._at, self._begun = now, 0
        self._usual = self._late_s = self._allowed = 0.0
        self._share = 1.0
        self._until = self._seen_at = now

    @property
    def is_in_force(self) -> bool:
        """Whether fewer fetches begin than could."""
        return self._share < 1.0 and self._seen_at < self._until

    def look(self, now: float, late_s: float, share: float) -> None:
        """Note how late this was asked, and which share of fetches is wanted from now on."""
        self._late_s += (late_s - self._late_s) * _WEIGHT
        if share != self._share:
            self._at, self._begun, self._share = now, 0, share
        elif now - self._at >= _WINDOW_S:
            rate = self._begun / (now - self._at)
            if share == 1.0:
                self._usual += (rate - self._usual) * (_WEIGHT if self._usual else 1.0)
            self._at, self._begun = now, 0
        if self._late_s >= LATE_S:
            self._until = now + KEPT_S

    def may_begin(self, now: float) -> bool:
        """Whether another fetch may begin."""
        passed_s, self._seen_at = now - self._seen_at, now
        if not self.is_in_force:
            return True
        rate = (self._usual or UNKNOWN) * self._share
        self._allowed = min(self._allowed + passed_s * rate, max(1.0, rate * _AHEAD_S))
        return self._allowed >= 1.0

    def began(self) -> None:
        """One has begun."""
        self._begun += 1
        self._allowed = max(0.0, self._allowed - 1.0)
