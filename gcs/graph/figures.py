"""What the graph of a crawl says of itself: sizes, degrees, their distributions (004, section 5.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import ibis
from ibis.expr.types import Table

from gcs.graph.engine import Engine

PAPER_EDGES: Final = 86_438_305
PAPER_NODES: Final = 420_989
PAPER_MEAN: Final = 205.322
PAPER_MEDIAN: Final = 202
"""Table 5.1, and the text below figure 5.2."""
_DAY_US: Final = 86_400_000_000
PERIODS: Final = ("epoch", "day")


@dataclass(frozen=True, slots=True)
class Size:
    """How large a graph is; degrees out of a page are those of pages that were visited."""

    nodes: int
    visited: int
    edges: int
    without_links: int
    """Visited pages that name nothing."""
    mean_out: float
    median_out: float
    largest_out: int
    mean_in: float
    largest_in: int


def size(engine: Engine, nodes: Table) -> Size:
    """The figures of a graph, with those of table 5.1 among them."""
    is_visited = nodes.visited_us.notnull()
    found = nodes.aggregate(
        nodes=nodes.count(),
        visited=nodes.count(where=is_visited),
        edges=nodes.out_degree.sum(),
        without_links=nodes.count(where=is_visited & (nodes.out_degree == 0)),
        mean_out=nodes.out_degree.mean(where=is_visited),
        largest_out=nodes.out_degree.max(),
        mean_in=nodes.in_degree.mean(),
        largest_in=nodes.in_degree.max(),
    )
    count, visited, edges, without, mean_out, largest_out, mean_in, largest_in = engine.rows(found)[0]
    middle = median(distribution(engine, nodes, "out"))
    return Size(
        nodes=count,
        visited=visited,
        edges=edges or 0,
        without_links=without,
        mean_out=mean_out or 0.0,
        median_out=middle,
        largest_out=largest_out or 0,
        mean_in=mean_in or 0.0,
        largest_in=largest_in or 0,
    )


def distribution(engine: Engine, nodes: Table, way: str) -> list[tuple[int, int]]:
    """How many nodes have which degree, by degree (figure 5.2); links out of pages that were visited only."""
    counted = nodes.filter(nodes.visited_us.notnull()) if way == "out" else nodes
    degree = counted[f"{way}_degree"]
    return [
        (int(degree), int(count))
        for degree, count in engine.rows(
            counted.group_by(degree=degree).aggregate(nodes=counted.count()).order_by("degree")
        )
    ]


def median(counts: Sequence[tuple[int, int]]) -> float:
    """The middle of a distribution, which is in order; 0 if it is empty."""
    total = sum(count for _, count in counts)
    passed, found = 0, list[int]()
    for degree, count in counts:
        before, passed = passed, passed + count
        found += [degree for place in ((total - 1) // 2, total // 2) if before <= place < passed]
    return sum(found) / len(found) if found else 0.0


def mean(counts: Sequence[tuple[int, int]]) -> float:
    """The mean of a distribution."""
    total = sum(count for _, count in counts)
    return sum(degree * count for degree, count in counts) / total if total else 0.0


def by_period(engine: Engine, summaries: Table, period: str) -> list[tuple[int, int, int]]:
    """By epoch, or by day since 1970: visits, and how many of them were a page's first."""
    first = summaries.group_by("url").aggregate(first_us=summaries.fetched_us.min())
    at = summaries.epoch if period == "epoch" else (summaries.fetched_us // _DAY_US).cast("int64")
    named = summaries.mutate(period=at)
    joined = named.join(first, named.url == first.url)
    is_first = (joined.fetched_us == joined.first_us).cast("int64")
    grouped = joined.group_by("period").aggregate(visits=joined.count(), first=is_first.sum())
    return [(int(a), int(b), int(c)) for a, b, c in engine.rows(grouped.order_by("period"))]


def largest(engine: Engine, flows: Table, count: int) -> list[tuple[str, str, int]]:
    """The pairs of places with most edges between them, those within one left out."""
    across = flows.filter(flows.source != flows.target)
    chosen = across.order_by(ibis.desc("edges"), "source", "target").limit(count)
    return [(str(a), str(b), int(c)) for a, b, c in engine.rows(chosen.select("source", "target", "edges"))]


def inside(engine: Engine, flows: Table) -> tuple[int, int]:
    """How many edges stay within one place, and how many there are."""
    stays = flows.edges.sum(where=flows.source == flows.target)
    within, every = engine.rows(flows.aggregate(within=stays, every=flows.edges.sum()))[0]
    return int(within or 0), int(every or 0)
