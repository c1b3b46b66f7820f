"""How pages are visited again in a run: not at all, for ever by a policy, or each once more in a round."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final

from gcs.core.revisits.timetable import POLICIES

LEAST_S: Final = 12.0
_EVERY_S: Final = (100.0, 600.0)
"""So that there is always something to visit, or that there are times without."""
_MOST: Final = 20
_STANDING, _ROUND = 0.08, 0.08
"""Of all runs, the share with a policy, and that with a round."""


@dataclass(frozen=True, slots=True)
class Habit:
    """How pages are visited again."""

    policy: str = "none"
    every_s: float = 0.0
    alpha: float = 0.9
    has_round: bool = False
    """Whether all is begun once more when it has ended, to visit every page again."""
    remembers: bool = False
    """Whether what a round needs is remembered before anybody has asked for one."""

    @property
    def is_standing(self) -> bool:
        """Whether pages are visited for ever."""
        return self.policy != "none"

    @property
    def is_any(self) -> bool:
        """Whether pages are visited again."""
        return self.is_standing or self.has_round

    def settings(self) -> list[str]:
        """Those of gatherers."""
        if self.is_standing:
            return [
                f"revisit.policy={self.policy}",
                f"revisit.every={self.every_s:.0f}s",
                f"revisit.least={LEAST_S:.0f}s",
                f"revisit.most={_MOST * self.every_s:.0f}s",
                f"revisit.alpha={self.alpha}",
            ]
        return ["revisit.once=true"] if self.remembers else []


def drawn(random: Random) -> Habit:
    """That of one run."""
    chance = random.random()
    if chance < _STANDING:
        policy, every_s = random.choice(POLICIES), random.choice(_EVERY_S)
        return Habit(policy=policy, every_s=every_s, alpha=random.choice([0.5, 0.9]))
    if chance < _STANDING + _ROUND:
        return Habit(has_round=True, remembers=random.random() < 0.5)
    return Habit()
