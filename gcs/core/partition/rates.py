"""A rate for every gatherer and superpage, from the few pairs that were observed."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from gcs.core.partition.problem import FloatArray, IntArray

_ROUNDS: Final = 50
_SETTLED: Final = 1e-4


def complete_rates(observed: npt.ArrayLike, counts: npt.ArrayLike, *, prior: float = 5.0) -> FloatArray:
    """The table of rates, with a gatherer per row, filled from each gatherer's and superpage's own means.

    A rate is taken to be a general mean, times how fast the gatherer is, times how fast the superpage's
    servers are. An observed rate counts the more, the more pages it is the mean of: with `prior` pages it
    counts half, and is itself drawn half-way to what the factors say, since one slow page is no slow
    superpage. Factors are drawn towards 1 as if one more, certain, rate had shown no difference; a row or
    column that was never observed has the factor 1, so a new gatherer is taken for an average one. With
    nothing observed at all, every rate is 1. Cells of no pages, or without a positive rate, are unobserved.
    """
    seen, pages = np.asarray(observed, float), np.asarray(counts, float)
    if seen.ndim != 2 or seen.shape != pages.shape:
        raise ValueError(f"rates and counts have the same two dimensions, not {seen.shape} and {pages.shape}")
    if not prior > 0:
        raise ValueError(f"the prior is a positive number of observations, not {prior}")
    rows, columns = np.nonzero((pages > 0) & np.isfinite(pages) & np.isfinite(seen) & (seen > 0))
    if not len(rows):
        return np.ones(seen.shape)
    logs, trust = np.log(seen[rows, columns]), pages[rows, columns] / (pages[rows, columns] + prior)
    mean, by_row, by_column = _factors(rows, columns, logs, trust, seen.shape)
    filled = mean + by_row[:, np.newaxis] + by_column
    filled[rows, columns] += trust * (logs - filled[rows, columns])
    return np.exp(filled)


def _factors(
    rows: IntArray, columns: IntArray, logs: FloatArray, trust: FloatArray, shape: tuple[int, int]
) -> tuple[float, FloatArray, FloatArray]:
    """Mean, row effects and column effects of the logarithms, by alternating ridge regressions."""
    mean = float(np.average(logs, weights=trust))
    by_row, by_column = np.zeros(shape[0]), np.zeros(shape[1])
    row_trust = np.bincount(rows, trust, shape[0]) + 1
    column_trust = np.bincount(columns, trust, shape[1]) + 1
    for _ in range(_ROUNDS):
        before = by_row
        by_row = np.bincount(rows, trust * (logs - mean - by_column[columns]), shape[0]) / row_trust
        by_column = np.bincount(columns, trust * (logs - mean - by_row[rows]), shape[1]) / column_trust
        if np.abs(by_row - before).max() < _SETTLED:
            break
    return mean, by_row, by_column
