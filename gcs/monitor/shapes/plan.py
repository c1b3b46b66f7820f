"""Who owns what, who is fast for what, and what plans have moved."""

from __future__ import annotations

from typing import Literal, TypedDict

from gcs.operate.facts import PlanMade


class TreeNode(TypedDict):
    """A node of the URL tree, or a superpage: the number of its parent, weights by owner, hot tokens."""

    parent: int | None
    kind: Literal["node", "superpage"]
    label: str
    name: str
    weight: float
    queued: float
    done: float
    owners: dict[str, float]
    hot: list[tuple[str, float]]


class Tree(TypedDict):
    """The URL tree of the plan in force, parents before children."""

    epoch: int
    at: float | None
    strategy: str
    superpages: int
    weight: float
    nodes: list[TreeNode]


class PlanTime(TypedDict):
    """T of a gatherer before and after a plan; before only if that was seen."""

    gatherer: str
    after_s: float
    before_s: float | None
    before_queued: int | None


PlanMove = TypedDict("PlanMove", {"from": str | None, "to": str, "ranges": int})
PlanMove.__doc__ = "Ranges that went from one gatherer, or from nobody, to another."


class PlanSeen(PlanMade):
    """A plan, why it was made, and what it has moved; None and nothing for what was not seen."""

    because: str
    strategy: str
    method: str
    bound_s: float | None
    longest_s: float | None
    over_bound: float | None
    links_cut: float | None
    superpages: int | None
    times: list[PlanTime]
    moves: list[PlanMove]


class PlansSeen(TypedDict):
    """The last plans, the newest first."""

    plans: list[PlanSeen]


class SiteRates(TypedDict):
    """How fast each gatherer is for a site, in the order of their names; None if it has not tried."""

    site: str
    weight: float
    owner: str
    pages_per_s: list[float | None]


class Rates(TypedDict):
    """Who is fast for what: the heaviest sites first."""

    gatherers: list[str]
    sites: list[SiteRates]
