"""Links between superpages, counted on some pages for all.

Finding the superpage of a link takes about as long as following it. Of every few pages one is chosen by
chance, and its links count that many times.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Final

from gcs.core.tree import Expansion
from gcs.gatherer.job import Visit

_PAIRS: Final = 200_000
"""Pairs of superpages that are counted; what comes later counts only for those that are known."""
_TOGETHER: Final = 2_000


class Census:
    """What pages link to, beyond their own hosts."""

    def __init__(self, random: Random, *, every: int) -> None:
        """Count the links of one page in `every`; of none if that is 0."""
        self._random, self._every = random, every
        self.together: list[tuple[str, str]] = []
        """Keys of pages and of what they link to on other hosts: what is wanted together."""

    def saw(self, visit: Visit, expansion: Expansion) -> None:
        """Count the links of a page, if it is chosen."""
        if not self._every or not visit.targets or self._random.random() * self._every >= 1:
            return
        here = visit.job.queued.key
        source = expansion.locate_index(here)
        keys = [target.key for target in visit.targets if target is not None]
        counts = Counter(map(expansion.locate_index, keys))
        full = len(expansion.links) >= _PAIRS
        expansion.add_links(
            source,
            {
                target: count * self._every
                for target, count in counts.items()
                if not full or (source, target) in expansion.links
            },
        )
        abroad = [each for each in keys if not each.startswith(visit.job.host)]
        if abroad and len(self.together) < _TOGETHER:
            self.together.append((here, self._random.choice(abroad)))

    def clear(self) -> None:
        """Begin anew, after a plan."""
        self.together = []
