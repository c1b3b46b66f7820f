"""What a benchmark has found out."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One line of the result."""

    what: str
    ours: str
    compared_with: str
    ratio: float | None
    goal: str = ""
    reached: bool = True
