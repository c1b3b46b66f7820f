"""A price per gatherer: the dual of the partition problem, for a bound and for good first choices.

Let a second of gatherer i have the price λ_i ≥ 0, with prices that add up to 1. In any partition the makespan
is at least the average Σ λ_i T_i, which is at least Σ_j min_i λ_i c_ij: every superpage where it is cheapest.
So any prices give a lower bound; the best prices give that of the linear program, and at those prices nearly
every superpage is where a good partition has it. They are found by raising the price of whoever would get too
much and lowering that of whoever would get too little: further each time while it goes the same way, less far
when it has gone too far, and with some inertia, since gatherers of one region rise and fall together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from gcs.core.partition.problem import BoolArray, FloatArray

_STEP: Final = 0.2
_INERTIA: Final = 0.7
_FASTER: Final = 1.1
_SLOWER: Final = 0.6
_FASTEST: Final = 6.0
_PATIENCE: Final = 20
_CHEAPEST: Final = -50.0
"""The logarithm of the lowest price, beside the highest: any lower, and it might become 0."""


@dataclass(frozen=True, slots=True, eq=False)
class Prices:
    """Prices that add up to 1, and the bound that they prove."""

    each: FloatArray
    bound: float

    def near(self, costs: FloatArray, slack: float) -> BoolArray:
        """Which gatherers are, for a superpage, at most this share dearer than the cheapest."""
        priced = costs * self.each
        near: BoolArray = priced <= priced.min(axis=1, keepdims=True) * (1 + slack)
        return near & np.isfinite(priced)


def find(costs: FloatArray, *, rounds: int, enough: float = 1e-5) -> Prices:
    """The best prices of so many rounds at most.

    It ends early when they are proved to be within the share `enough` of the best, or the bound has not risen
    by as much in 20 rounds.
    """
    m, k = costs.shape
    logs, rows, priced = _first(costs), np.arange(m), np.empty_like(costs)
    speed, gain, before = np.zeros(k), np.ones(k), np.zeros(k)
    best = Prices(np.exp(logs), 0.0)
    mark = 0.0
    for turn in range(rounds):
        if turn % _PATIENCE == _PATIENCE - 1:
            if best.bound <= mark * (1 + enough):
                break
            mark = best.bound
        each = np.exp(logs)
        each /= each.sum()
        np.multiply(costs, each, out=priced)
        choice = priced.argmin(axis=1)
        bound = float(priced[rows, choice].sum())
        if bound >= best.bound:
            best = Prices(each, bound)
        loads = np.bincount(choice, costs[rows, choice], k)
        if loads.max() <= best.bound * (1 + enough):
            break
        excess = np.minimum(loads / (loads.sum() / k) - 1, 1)  # and never below -1
        gain = np.minimum(gain * np.where(excess * before < 0, _SLOWER, _FASTER), _FASTEST)
        speed = _INERTIA * speed + _STEP * gain * excess
        logs = logs + speed
        logs = np.maximum(logs - logs.max(), _CHEAPEST)
        before = excess
    return best


def _first(costs: FloatArray) -> FloatArray:
    """The logarithms of prices that would be right if gatherers differed in their speed only."""
    known = np.isfinite(costs) & (costs > 0)
    each = np.log(costs, out=np.zeros_like(costs), where=known)
    count = known.sum(axis=0)
    slowness = each.sum(axis=0) / np.maximum(count, 1)
    # A gatherer without any cost is as good as the slowest; and only ratios matter, so nothing overflows.
    slowness[count == 0] = slowness.max()
    logs: FloatArray = np.maximum(slowness.min() - slowness, _CHEAPEST)
    return logs
