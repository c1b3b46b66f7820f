"""The world of 000 and 001: sites with a perfect arm each, from which all other arms are slower."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gcs.core.automata import FloatArray, IntArray, dealt

SHORTEST = 0.01
"""No access is quicker than this part of its mean, however far out the noise is."""


@dataclass(slots=True)
class World:
    """How long each site takes in each arm; sizes and noise as given, and changing only when told to."""

    best: IntArray
    size: FloatArray
    slowdown: float
    noise: float
    rng: np.random.Generator

    def durations(self, arm: IntArray) -> FloatArray:
        """One access of each site, where it is."""
        mean = self.size * np.where(arm == self.best, 1.0, self.slowdown)
        if not self.noise:
            return mean
        return mean * np.maximum(SHORTEST, 1 + self.noise * self.rng.standard_normal(len(mean)))

    def change(self, arms: int) -> None:
        """From now on another arm is the perfect one, for every site."""
        self.best = (self.best + self.rng.integers(1, arms, len(self.best))) % arms


def equal_sites(sites: int, arms: int, slowdown: float, noise: float, rng: np.random.Generator) -> World:
    """The paper's world: each site has a perfect arm of its own, and all are of the same size."""
    return World(dealt(sites, arms, rng), np.ones(sites), slowdown, noise, rng)
