"""What a plan promises: the work that is left, by what it takes whoever gets it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from gcs.core import partition
from gcs.core.placement.learned import NONE
from gcs.core.placement.paces import Belief, FloatArray, IntArray
from gcs.core.placement.units import averaged
from gcs.core.rounds.sides import Sides

_CELLS: Final = 20_000
"""Up to so many pairs the linear program is solved for the bound; beyond, prices give nearly the same."""


@dataclass(frozen=True, slots=True)
class Foreseen:
    """T per gatherer, what the largest of them cannot be below, and by which method that was planned."""

    times: Mapping[str, float]
    bound: float
    method: str


def nothing_to_do(method: str, sides: Sides) -> Foreseen:
    """Where nothing was seen, no time is foreseen."""
    return Foreseen(dict.fromkeys(sides.staying, 0.0), 0.0, method)


def bound_of(weights: FloatArray, paces: FloatArray) -> float:
    """What the largest T cannot be below, with a row of paces for each weight."""
    return partition.lower_bound(weights, 1 / paces.T, cells=_CELLS).value


def point_paces(
    site: IntArray, group: IntArray, group_of_site: IntArray, belief: Belief, groups: int
) -> FloatArray:
    """The pace at each point for each gatherer: its site's, or the mean of its group's sites."""
    pace = belief.pace
    around = averaged(np.ones(len(pace)), pace, group_of_site, groups)[group]
    return np.where((site != NONE)[:, np.newaxis], pace[site], around) if len(pace) else around
