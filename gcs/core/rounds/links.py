"""Links between groups, as the work that is left will bring them, and what it costs that they cross."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gcs.core.partition.problem import summed
from gcs.core.placement.learned import NONE
from gcs.core.placement.paces import FloatArray, IntArray
from gcs.core.rounds.knowledge import Knowledge
from gcs.core.rounds.sides import Sides


@dataclass(frozen=True, slots=True, eq=False)
class Links:
    """Rows of from, to and count; what each group has to the pinned; and links a second for each gatherer."""

    between: FloatArray
    to_pinned: FloatArray
    rates: FloatArray

    def cost(self, owner: IntArray) -> FloatArray:
        """Seconds that each gatherer takes for the links that cross its border, B_i/c_i."""
        border = summed(owner, self.to_pinned, len(self.rates))
        ends, counts = owner[self.between[:, :2].astype(np.int64)], self.between[:, 2]
        crossing = ends[:, 0] != ends[:, 1]
        for end in (0, 1):
            border += summed(ends[crossing, end], counts[crossing], len(self.rates))
        cost: FloatArray = border / self.rates
        return cost


def links_between(knowledge: Knowledge, sides: Sides, group_of_page: IntArray, groups: int) -> Links | None:
    """The links of all superpages, given the group of each, or NONE for one that the pinned hold.

    They were counted in what has been fetched, and what is left to fetch will bring as many for each page. A
    gatherer that has not handled any is taken to be as fast as the others; None where nobody has.
    """
    expansion = knowledge.expansion
    measured = [expansion.communication[gatherer].per_second for gatherer in sides.free]
    known = [rate for rate in measured if rate]
    if not known or not expansion.links:
        return None
    pairs = np.array([(a, b, n) for (a, b), n in expansion.links.items()])
    fetched = knowledge.done.sum() or expansion.total()
    counts = pairs[:, 2] * knowledge.work.sum() / max(fetched, 1.0)
    ends = group_of_page[pairs[:, :2].astype(np.int64)]
    free = ends != NONE
    to_pinned = np.zeros(groups)
    for mine, other in ((0, 1), (1, 0)):
        crossing = free[:, mine] & ~free[:, other]
        to_pinned += summed(ends[crossing, mine], counts[crossing], groups)
    between = np.column_stack([ends, counts])[free.all(axis=1)]
    return Links(between, to_pinned, np.array([rate or sum(known) / len(known) for rate in measured]))
