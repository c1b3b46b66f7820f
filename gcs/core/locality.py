"""Physical locality: whether another gatherer reaches a site much faster than the one that owns it.

003 names poor physical locality as a reason to repartition, and nobody knows of it who never tries. So a plan
names sites and gatherers whose pace there is worth knowing; of each such site some pages are fetched by that
gatherer in the owner's place, and the owner compares.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

PAGES_EACH: Final = 3
"""Pages of a site that a gatherer has to have tried before it is compared."""
TRIES_EACH: Final = 5
"""Pages that it is given for that after a plan: some get no answer."""
LEAST_GAIN_S: Final = 0.05
"""Less than this is no reason to move anything."""


class Locality:
    """What is to be tried elsewhere, and what came of it, from one plan to the next."""

    def __init__(self, factor: float) -> None:
        """Another gatherer has to be so many times as fast."""
        self._factor = factor
        self._left: dict[str, dict[str, int]] = {}
        self._own: dict[str, list[float]] = {}
        self._tried: dict[str, dict[str, list[float]]] = {}

    def begin(self, probes: Iterable[tuple[str, str]], me: str) -> None:
        """There is a new plan, and this is what it wants to be known: (site, gatherer)."""
        self._left, self._own, self._tried = {}, {}, {}
        for site, gatherer in probes:
            if gatherer != me:
                self._left.setdefault(site, {})[gatherer] = TRIES_EACH
                self._own[site] = [0, 0.0]

    @property
    def is_curious(self) -> bool:
        """Whether anything is still to be tried or measured."""
        return bool(self._own)

    def wanted(self, site: str) -> str | None:
        """The gatherer that should try the next page of a site."""
        left = self._left.get(site)
        return max(left, key=left.__getitem__) if left else None

    def given(self, site: str, gatherer: str) -> None:
        """A page of a site was given to a gatherer that should try one."""
        left = self._left.get(site, {})
        if gatherer in left:
            left[gatherer] -= 1
            if not left[gatherer]:
                del left[gatherer]

    def took(self, site: str, seconds: float) -> None:
        """The owner has fetched a page itself."""
        seen = self._own.get(site)
        if seen is not None:
            seen[0] += 1
            seen[1] += seconds

    def tried(self, site: str, gatherer: str, seconds: float) -> None:
        """Another one has."""
        if site in self._own:
            left = self._left.get(site, {})
            seen = self._tried.setdefault(site, {}).setdefault(gatherer, [0, 0.0])
            seen[0] += 1
            seen[1] += seconds
            if seen[0] >= PAGES_EACH:
                left.pop(gatherer, None)

    def far(self) -> list[str]:
        """The sites that others reach much faster, in order."""
        return sorted(site for site in self._tried if self._is_far(site))

    def _is_far(self, site: str) -> bool:
        pages, seconds = self._own[site]
        if pages < PAGES_EACH:
            return False
        own = seconds / pages
        others = (total / count for count, total in self._tried[site].values() if count >= PAGES_EACH)
        nearest = min(others, default=own)
        return own >= self._factor * nearest and own - nearest >= LEAST_GAIN_S
