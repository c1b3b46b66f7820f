"""Whether the parts of a daemon are well: each of them answers, again and again.

A part that waits for something, and knows how long that may take, says so when it answers: a disk that is
full or a Redis that is away is no illness. A part that is silent for longer than it said is ill.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

UNWATCHED_S: Final = 10.0
"""Within so long each part has to answer, if no watchdog says how long."""


class Sign:
    """The signs of life of one part; of one that has not begun nothing is expected."""

    __slots__ = ("due",)

    def __init__(self) -> None:
        self.due = math.inf
        """When it is expected to answer again, at the latest."""

    def answered(self, now: float, *, rest_s: float = 0.0) -> None:
        """It is well now, and may be silent for a rest."""
        self.due = now + rest_s


def silent(signs: Mapping[str, Sign], now: float, within_s: float) -> list[str]:
    """The parts that should have answered, and have not done so within an interval."""
    return [name for name, sign in signs.items() if now - sign.due > within_s]


def trouble(signs: Mapping[str, Sign], now: float, within_s: float) -> str:
    """Which parts are silent, in words; "" while all is well."""
    ill = silent(signs, now, within_s)
    return f"{', '.join(ill)} hung" if ill else ""
