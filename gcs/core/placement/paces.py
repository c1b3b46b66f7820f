"""How long a page of each site takes each gatherer: learned, shared among neighbours, and forgotten.

Owns one number for each site and gatherer, the *pace* in seconds a page, and how sure it is. (It is the
inverse of the processing rate r_ij of 003, section 4.5.) Three things are learned together:

- The noise: durations are taken to be gamma-distributed around their mean, with a relative deviation c, the
  `variation`, that is the same for all. Then the logarithm of a pace, after n observations with the mean m,
  has the expectation ln m + ln a − ψ(a) and the variance ψ′(a) with a = n/c², which is about c²/n. (c = 1 is
  the exponential distribution. The correction ln a − ψ(a) matters: of few observations the mean looks too
  good.)
- What neighbours have in common: sites of one superpage are near to each other, so what is known of the
  others is the first guess for a site. How much that is worth is learned too: the `spread` τ of sites around
  their superpage. Guess and observation are averaged, each by its precision (empirical Bayes). Where
  neighbours have nothing in common, τ is large and the guess soon outvoted; where they are alike, few
  observations serve all.
- When to forget. Observations lose weight slowly, as exp(−rounds/memory), for changes that nobody notices.
  For those that are noticed there is Page's test: the evidence that a site now takes its gatherer `FACTOR`
  times as long (the log-likelihood ratio of gamma distributions with the learned variation) is added up from
  where it was smallest, and beyond `surprise` all that was known of the site is forgotten at once. No test
  with as few false alarms, about one in exp(surprise) observations, notices faster.

Observations of one round count as one, for they share the weather of the moment.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

FACTOR: Final = 2.0
"""How much slower a site has to become to be worth noticing at once."""

_FIRST_VARIATION: Final = 0.5
_FIRST_SPREAD: Final = 0.7
_TRUST: Final = 20.0
"""The first guesses of variation and spread count like so many observations."""
_LEAST_VARIATION: Final = 0.02
_LEAST_SPREAD: Final = 0.5
_LEARNING: Final = 0.5
_OUTLIER: Final = 4.0
"""What is further from the mean, relatively, counts as if it were only so far."""
_SETTLED: Final = 1.5
"""Observations that a mean takes before it serves to measure the noise around it."""
_FORGOTTEN: Final = 1e-30
"""Observations that have lost all but this weight are as good as none, and their variance as infinite."""
_TABLES: Final = ("_count", "_total", "_evidence")
_SHIFT: Final = 6
"""The asymptotic series are used from here on."""


@dataclass(frozen=True, slots=True, eq=False)
class Belief:
    """The logarithm of each pace and its standard deviation: a row per site, a column per gatherer."""

    log_pace: FloatArray
    deviation: FloatArray

    @property
    def pace(self) -> FloatArray:
        """Seconds a page."""
        paces: FloatArray = np.exp(self.log_pace)
        return paces

    def drawn(self, rng: np.random.Generator) -> FloatArray:
        """Paces that might be true, drawn by how likely they are (Thompson sampling)."""
        drawn: FloatArray = np.exp(self.log_pace + self.deviation * rng.standard_normal(self.log_pace.shape))
        return drawn


class Paces:
    """Observations of all sites by all gatherers, the older the less they count."""

    def __init__(self, gatherers: int, *, memory: float = 100.0, surprise: float = 7.0) -> None:
        self.variation = _FIRST_VARIATION
        self._kept = math.exp(-1 / memory)
        self._surprise = surprise
        self._count = np.zeros((0, gatherers))
        self._total = np.zeros((0, gatherers))
        self._evidence = np.zeros((0, gatherers))

    def __len__(self) -> int:
        return len(self._count)

    def grow(self, sites: int) -> None:
        """Make room for sites up to this number."""
        more = ((0, max(0, sites - len(self))), (0, 0))
        self._count, self._total, self._evidence = (
            np.pad(array, more) for array in (self._count, self._total, self._evidence)
        )

    def regroup(self, columns: IntArray) -> None:
        """Other gatherers: each takes over the column of that number, or begins with nothing (−1)."""
        fresh = columns < 0
        for name in _TABLES:
            taken = getattr(self, name)[:, columns]
            taken[:, fresh] = 0.0
            setattr(self, name, taken)

    def keep(self, sites: IntArray) -> None:
        """Only these sites, in this order."""
        for name in _TABLES:
            setattr(self, name, getattr(self, name)[sites])

    def means(self) -> FloatArray:
        """The seconds that a page was seen to take; not a number where none was."""
        seen = self._count > _FORGOTTEN
        means: FloatArray = np.where(seen, self._total / np.where(seen, self._count, 1.0), np.nan)
        return means

    def state(self) -> tuple[float, Sequence[bytes]]:
        """All of it as plain values, but for memory and surprise, which the caller chooses."""
        return self.variation, [getattr(self, name).tobytes() for name in _TABLES]

    @classmethod
    def restored(cls, gatherers: int, state: tuple[float, Sequence[bytes]]) -> Paces:
        """What `state` was taken of; raises ValueError for tables of another shape."""
        made = cls(gatherers)
        made.variation, tables = float(state[0]), state[1]
        for name, table in zip(_TABLES, tables, strict=True):
            setattr(made, name, np.frombuffer(table).reshape(-1, gatherers).copy())
        if not len(made._count) == len(made._total) == len(made._evidence):
            raise ValueError("a count, a total and some evidence for each site and gatherer")
        return made

    def learn(self, site: IntArray, gatherer: IntArray, pace: FloatArray) -> IntArray:
        """Take in a round of observations, a pair at most once; returns the sites that were forgotten."""
        self._count *= self._kept
        self._total *= self._kept
        count = self._count[site, gatherer]
        known = count >= 0.5
        ratio = np.ones(len(site))
        np.divide(pace * count, self._total[site, gatherer], out=ratio, where=known)
        surprised = self._tested(site[known], gatherer[known], ratio[known], count[known])
        usual = (count >= _SETTLED) & ~np.isin(site, surprised)
        self._vary(ratio[usual], count[usual])
        for array in (self._count, self._total, self._evidence):
            array[surprised] = 0.0
        self._count[site, gatherer] += 1
        self._total[site, gatherer] += pace
        return surprised

    @property
    def tried(self) -> BoolArray:
        """Which gatherers have observed which sites."""
        tried: BoolArray = self._count > _FORGOTTEN
        return tried

    def belief(self, group: IntArray) -> Belief:
        """What is known of each site, given which are neighbours; an unobserved pair takes their pace."""
        groups = int(group.max(initial=-1)) + 1
        observed = self.tried
        shape = np.where(observed, self._count, 1.0) / self.variation**2
        logs = np.log(np.divide(self._total, self._count, out=np.ones_like(self._total), where=observed))
        logs += np.log(shape) - digamma(shape)
        noise = np.where(observed, trigamma(shape), np.inf)
        guess = _guesses(logs, 1 / (noise + _FIRST_SPREAD**2), group, groups)[group]
        spread = _spread(logs - guess, noise)
        precision = 1 / spread + 1 / noise
        return Belief((guess / spread + logs / noise) / precision, 1 / np.sqrt(precision))

    def _tested(self, site: IntArray, gatherer: IntArray, ratio: FloatArray, count: FloatArray) -> IntArray:
        """Page's test on those whose pace was known."""
        shape = 1 / (self.variation**2 * (1 + 1 / count))
        gained = shape * (ratio * (1 - 1 / FACTOR) - math.log(FACTOR))
        evidence = np.maximum(0.0, self._evidence[site, gatherer] + gained)
        self._evidence[site, gatherer] = evidence
        return np.unique(site[evidence > self._surprise])

    def _vary(self, ratio: FloatArray, count: FloatArray) -> None:
        """Learn the noise from observations relative to the mean of `count` earlier ones."""
        if len(ratio):
            squares = np.minimum(np.abs(ratio - 1), _OUTLIER) ** 2 / (1 + 1 / count)
            trust = _LEARNING * len(ratio) / (len(ratio) + _TRUST)
            variance = (1 - trust) * self.variation**2 + trust * float(squares.mean())
            self.variation = max(_LEAST_VARIATION, math.sqrt(variance))


def _guesses(logs: FloatArray, trust: FloatArray, group: IntArray, groups: int) -> FloatArray:
    """The pace of each group for each gatherer; where little was seen, from the means of both."""
    weight, total = (np.zeros((groups, logs.shape[1])) for _ in range(2))
    np.add.at(weight, group, trust)
    np.add.at(total, group, trust * logs)
    overall = total.sum() / max(weight.sum(), 1.0)
    by_gatherer = (total.sum(axis=0) + overall) / (weight.sum(axis=0) + 1) - overall
    by_group = (total.sum(axis=1) + overall) / (weight.sum(axis=1) + 1)
    expected = by_group[:, np.newaxis] + by_gatherer
    guesses: FloatArray = (total + expected) / (weight + 1)
    return guesses


def _spread(residual: FloatArray, noise: FloatArray) -> float:
    """The variance of sites around the guess for them, beyond what is noise."""
    trust = 1 / (noise + _FIRST_SPREAD**2) ** 2
    first = _TRUST / _FIRST_SPREAD**4
    seen = np.isfinite(noise)
    excess = float((trust[seen] * (residual[seen] ** 2 - noise[seen])).sum())
    spread = (excess + first * _FIRST_SPREAD**2) / (float(trust.sum()) + first)
    return max(spread, _LEAST_SPREAD**2)


def digamma(x: FloatArray) -> FloatArray:
    """The derivative of the logarithm of the gamma function, for positive x, to about nine digits."""
    shifted = x + _SHIFT
    inverse = 1 / shifted**2
    series = np.log(shifted) - 0.5 / shifted - inverse * (1 / 12 - inverse * (1 / 120 - inverse / 252))
    result: FloatArray = series - sum(1 / (x + n) for n in range(_SHIFT))
    return result


def trigamma(x: FloatArray) -> FloatArray:
    """The derivative of `digamma`, for positive x, to about nine digits."""
    shifted = x + _SHIFT
    inverse = 1 / shifted**2
    series = (1 + 0.5 / shifted + inverse * (1 / 6 - inverse * (1 / 30 - inverse / 42))) / shifted
    result: FloatArray = series + sum(1 / (x + n) ** 2 for n in range(_SHIFT))
    return result
