"""Whether others still count on a gatherer that they may not have heard for long.

Who is not heard for some time is forgotten: a plan gives to others what it has. So it goes on only for a
share of that time by what it knew last. One that is back after that must not go on while such a plan may be
on its way. Who makes one calls all for reports first, and in the end looks once more who is there. So it goes
on when it has said that it is here and sees no call after that; if there is one, when a new plan counts on
it, or when whoever called must have died with that.
"""

from __future__ import annotations

import math
from typing import Final

SHARE: Final = 0.8
"""Of the time after which it is forgotten, a gatherer that cannot say anything goes on for this."""
CALLED_S: Final = 30.0
"""So long after somebody was back who had called before, and has not looked who is there since, is dead."""


class Silence:
    """That of one gatherer, by a clock that only goes on."""

    def __init__(self, now: float, lasted_s: float = 0.0) -> None:
        """It may have been silent for long when it was started."""
        self.known_at = self._said_at = now - lasted_s
        """When it last knew for sure what all others know; and when it last began to say something."""
        self._back_at = -math.inf
        self._forgotten_after_s = math.inf
        """What the others were told last: it counts until they have heard otherwise."""

    def said(self, at: float, by: float, forgotten_after_s: float, *, is_called: bool) -> None:
        """At a time it began to say that it is here, and after how long to forget it, and by another it had.

        Then it looked for calls.
        """
        if self._is_too_long(by - self._said_at, forgotten_after_s):
            self._back_at = by
        self._said_at = at
        if not is_called or at >= self._back_at + CALLED_S:
            self._back_at = -math.inf
            self.known_at, self._forgotten_after_s = at, forgotten_after_s

    def counted_on(self) -> None:
        """There is a new plan, made by somebody who knew that it is here."""
        self._back_at = -math.inf

    def is_short(self, now: float, forgotten_after_s: float) -> bool:
        """Whether nobody can have forgotten it, if it wants to be forgotten after this time from now on."""
        return not self._is_too_long(now - self.known_at, forgotten_after_s)

    def _is_too_long(self, silent_s: float, forgotten_after_s: float) -> bool:
        return silent_s >= SHARE * min(self._forgotten_after_s, forgotten_after_s)
