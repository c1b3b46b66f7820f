"""Where weight lies: every superpage's, at points that stand for it.

The points of a superpage are the keys of the sample that fall into it, and its pieces' first keys where there
are none; each stands for an equal part. So any range, site or host can be weighed, as well as the sample
allows, and what lies in one superpage is weighed exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from gcs.core.partition.problem import summed
from gcs.core.placement.paces import FloatArray, IntArray
from gcs.core.plan import Plan
from gcs.core.tree import Expansion


class Ground:
    """The points of an expansion, in order."""

    def __init__(self, expansion: Expansion) -> None:
        keys = sorted(expansion.keys)
        count = len(expansion.superpages)
        pages = [expansion.locate_index(key) for key in keys]
        sampled = set(pages)
        bare = [(start, page) for start, page in expansion.boundaries() if page not in sampled]
        points = sorted([*zip(keys, pages, strict=True), *bare])
        self.keys = [key for key, _ in points]
        self.page: IntArray = np.array([page for _, page in points], dtype=np.int64)
        self.superpages = count
        self.part: FloatArray = 1 / np.bincount(self.page, minlength=count)[self.page]

    def spread(self, amounts: Sequence[float] | FloatArray) -> FloatArray:
        """What each point stands for, of an amount for each superpage."""
        return np.asarray(amounts, float)[self.page] * self.part

    def share(self, of: Callable[[str], bool]) -> FloatArray:
        """The share of each superpage that lies where a key is so."""
        chosen = np.array([of(key) for key in self.keys], dtype=bool)
        return summed(self.page[chosen], self.part[chosen], self.superpages)

    def owners(self, plan: Plan) -> list[str]:
        """Who owns each point."""
        return [plan.owner(key) for key in self.keys]
