"""What goes into a round of planning and what comes out of it, as frozen records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from gcs.core import superpages
from gcs.core.placement import Plan, Probe

STRATEGIES: Final = ("superpage", "hash", "proximity", "twoma", "oma")
METHODS: Final = ("auto", "I", "II")


@dataclass(frozen=True, slots=True)
class Report:
    """What one gatherer says when the leader asks.

    `expansion` is what it has counted since the last plan, in a fresh copy of that plan's expansion, with the
    levels `queued` and `done` of what it holds now. `paces` are pages and seconds of each site that it has
    fetched from since then, its own or as a probe. `crossing` is how many links of others it has handled, and
    the seconds that took. `delays` serve proximity, `together` OMA. `cap` is how many rows it has room for.
    """

    gatherer: str
    expansion: bytes
    paces: Mapping[str, tuple[float, float]]
    crossing: tuple[float, float] = (0.0, 0.0)
    delays: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    together: Sequence[tuple[str, str]] = ()
    cap: float | None = None


@dataclass(frozen=True, slots=True)
class Terms:
    """By which rules to plan.

    `split_hosts` says whether one host may be cut between gatherers. A new plan has to beat today's by the
    share `worth`.
    """

    strategy: str = "superpage"
    method: str = "auto"
    split_hosts: bool = False
    delta: float = superpages.DELTA
    worth: float = 0.05

    def __post_init__(self) -> None:
        if self.strategy not in STRATEGIES:
            raise ValueError(f"the strategy is one of {', '.join(STRATEGIES)}, not {self.strategy!r}")
        if self.method not in METHODS:
            raise ValueError(f"the method is one of {', '.join(METHODS)}, not {self.method!r}")


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a plan promises.

    `times` is T in seconds for each gatherer, its remaining work by its rates; `bound` is what the largest of
    them cannot be below. `moved` is how many known URLs change hands, `cut_links` how many of the links
    counted so far lead from one gatherer to another. `method` is I or II, or the name of another strategy.
    """

    times: Mapping[str, float]
    bound: float
    moved: float
    cut_links: float
    method: str
    superpages: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """A plan, all that the next leader needs, and what gatherers count in and probe from now on."""

    plan: Plan
    state: bytes
    expansion: bytes
    forecast: Forecast
    probes: Sequence[Probe]
