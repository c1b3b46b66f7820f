"""What is shared out: superpages, or groups of them, and sites that are singled out of these.

Physical locality is poorly achieved where the sites of one superpage have different nearest gatherers (the
fourth reason to repartition of 003). Such a site is *singled out*: it becomes a unit of its own, as by a
singleton expansion. So there are few units where neighbours are alike, and as many as sites where they have
nothing in common.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gcs.core.placement.learned import GAIN, NONE
from gcs.core.placement.paces import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Units:
    """Groups first, then sites that are singled out, which their groups lack."""

    weights: FloatArray
    paces: FloatArray
    singled: IntArray
    whole: IntArray
    """The group in which each singled-out site lies."""


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """What is known of sites: the group in which each lies, its pages, and its pace for each gatherer.

    `inside` has for each group the site that it is part of, or NONE: such a group has that site's pace, and
    of such a site there is more than one group, so it cannot be singled out. `tried` says which gatherers
    have observed a site: between others, which of them is faster is a guess from its neighbours, and no
    reason to single it out.
    """

    group: IntArray
    inside: IntArray
    pages: FloatArray
    pace: FloatArray
    tried: BoolArray | None = None
    already: BoolArray | None = None
    """Which sites are singled out today: where not all can be, they come first with half of others' gain."""


def single_out(work: FloatArray, known: Known, prices: FloatArray, most: int) -> Units:
    """Groups with their work and paces, and the sites that gain most by leaving them."""
    group, inside, pace = known.group, known.inside, known.pace
    count = len(work)
    # Sites share the work of their group by the pages that were fetched of them.
    fetched = np.bincount(group, known.pages, count)
    scale = np.divide(work, fetched, out=np.zeros(count), where=fetched > 0)
    weight = known.pages * scale[group]
    single = _singled_out(weight * (inside[group] == NONE), known, prices, count)[:most]
    left = np.where(np.isin(np.arange(len(group)), single), 0.0, weight)
    paces = averaged(left, pace, group, count)
    paces[inside != NONE] = pace[inside[inside != NONE]]
    gone = np.bincount(group[single], weight[single], count)
    return Units(
        np.concatenate([np.maximum(work - gone, 0.0), weight[single]]),
        np.concatenate([paces, pace[single]]),
        single,
        group[single],
    )


def _singled_out(weight: FloatArray, known: Known, prices: FloatArray, count: int) -> IntArray:
    """The sites that would gain by another owner than the one that is best for their group, most first.

    Best is who takes the fewest seconds, and who takes the cheapest ones: seconds of a gatherer that is
    wanted by all are dear. Either is a reason.
    """
    fewest = _gain(weight, known, known.pace, count)
    cheapest = _gain(weight, known, known.pace * prices, count)
    gain = np.maximum(fewest, cheapest)
    if known.already is not None:
        gain[known.already] *= 2
    worthwhile = np.flatnonzero(gain > 0)
    return worthwhile[np.argsort(-gain[worthwhile], kind="stable")]


def averaged(weight: FloatArray, pace: FloatArray, group: IntArray, count: int) -> FloatArray:
    """The pace of each group for each gatherer: that of its sites, by weight, or that of all sites."""
    total = np.zeros((count, pace.shape[1]))
    np.add.at(total, group, weight[:, np.newaxis] * pace)
    weights = np.bincount(group, weight, count)[:, np.newaxis]
    overall = pace.mean(axis=0) if len(pace) else np.ones(pace.shape[1])
    return np.where(weights > 0, total / np.where(weights > 0, weights, 1.0), overall)


def _gain(weight: FloatArray, known: Known, cost: FloatArray, count: int) -> FloatArray:
    """What each site would save with its own best gatherer; 0 if that is little, or a guess."""
    rows, group = np.arange(len(known.group)), known.group
    best = averaged(weight, cost, group, count).argmin(axis=1)[group]
    there = cost[rows, best][:, np.newaxis]
    if known.tried is not None:
        cost = np.where(known.tried & known.tried[rows, best][:, np.newaxis], cost, there)
    saved = (there - cost).max(axis=1, initial=0.0)
    return np.where(saved > GAIN * there[:, 0], weight * saved, 0.0)
