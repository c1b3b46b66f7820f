"""New pages and old ones in the proportion α (004): whose turn it is.

An account is kept: every new page that is fetched while old ones are due puts 1 - α to their credit, and
every old one that is fetched while new ones could be takes α from it. When there is enough for one, an old
one is next. What could not be used for long is not saved up, so that of any 10,000 fetches during which
both kinds are due the share of new ones is α, but for some 30 on either side.
"""

from __future__ import annotations

from typing import Final

from gcs.core.ranking import ALPHA

MOST: Final = 32.0
"""What can be saved up, or owed, in pages."""


class Share:
    """The account of old pages."""

    def __init__(self, alpha: float = ALPHA) -> None:
        self.credit = 0.0
        self.alpha = alpha

    @property
    def alpha(self) -> float:
        """The share of new pages, of what is fetched."""
        return self._alpha

    @alpha.setter
    def alpha(self, alpha: float) -> None:
        if not 0 <= alpha <= 1:
            raise ValueError(f"the share of new pages is between 0 and 1, not {alpha}")
        self._alpha = alpha
        self.credit = 0.0

    @property
    def owed(self) -> int:
        """How many old pages are to be fetched before the next new one."""
        if self._alpha == 0:
            return int(MOST)
        return max(0, int((self.credit + 1e-9) / self._alpha))

    def took_new(self) -> None:
        """A new page is fetched while old ones are due."""
        self.credit = min(MOST, self.credit + 1 - self._alpha)

    def took_old(self) -> None:
        """An old page is fetched while new ones could be."""
        self.credit = max(-MOST, self.credit - self._alpha)
