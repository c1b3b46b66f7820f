"""Groups: superpages, but all that lie inside one host together unless hosts may be split.

Where a host is cut by superpages, its whole range is one group; what is left of the superpages around it are
groups of their own. A superpage with parts in several groups is divided by its points (`ground`).
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gcs.core.placement import Sites
from gcs.core.placement.learned import Learned
from gcs.core.placement.paces import IntArray
from gcs.core.rounds.sides import cut_hosts, uncut
from gcs.core.tree import Expansion


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """A flat list: from `starts[i]` up to the next start, keys are in the group `number[i]`."""

    starts: Sequence[str]
    number: Sequence[int]
    inside: IntArray
    """The site that each group is part of, or NONE."""

    def of(self, key: str) -> int:
        """The group of a key."""
        return self.number[bisect.bisect_right(self.starts, key) - 1]

    def __len__(self) -> int:
        return len(self.inside)


def grouped(expansion: Expansion, learned: Learned, sites: Sites, *, split_hosts: bool) -> Groups:
    """The groups of an expansion."""
    pieces = expansion.boundaries()
    prefixes = [superpage.prefix for superpage in expansion.superpages]
    if not split_hosts:
        cut = cut_hosts(start for start, _ in pieces)
        pieces = uncut(
            pieces, {host: n for n, host in enumerate(cut, start=len(prefixes))}, expansion.locate_index
        )
        prefixes += cut
    used = sorted({number for _, number in pieces})
    place = {number: at for at, number in enumerate(used)}
    inside = [learned.around(prefixes[number], sites) for number in used]
    return Groups(
        [start for start, _ in pieces],
        [place[number] for _, number in pieces],
        np.array(inside, dtype=np.int64),
    )
