"""`gcs graph stats` and `gcs graph degree`: figures of a graph beside those of the paper."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from gcs.graph import figures, places
from gcs.graph.engine import Engine
from gcs.graph.tables import edges, nodes, summaries, visits
from gcs.operate.asking import counted
from gcs.simulate.report import Figure, Report, Series, Table, Value

_DAY_S: Final = 86_400
_SHOWN: Final = 20
_NAMES: Final = {"in": "in-degree", "out": "out-degree"}


def stats(engine: Engine, *, until_us: int | None, period: str, top: int) -> Report:
    """How large the graph is, how its links lead between domains and countries, and how it grew."""
    every = engine.keep("nodes", nodes(until_us))
    links = engine.keep("edges", edges(visits(until_us)))
    known = places.places(engine, every.select("url"))
    size = figures.size(engine, every)
    tables = [_of_size(size)]
    findings = []
    for what in ("domain", "country"):
        flows = engine.keep(f"{what}_flows", places.between(links, known, what))
        within, total = figures.inside(engine, flows)
        share = within / total if total else 0.0
        findings.append(f"{share:.1%} of {total:,} links stay within one {what}.")
        tables.append(
            Table(
                f"Links from {what} to {what}", ["from", "to", "links"], figures.largest(engine, flows, top)
            )
        )
    grown = [
        (_named(period, at), seen, first)
        for at, seen, first in figures.by_period(engine, summaries(until_us), period)
    ]
    tables.append(Table(f"Visits by {period}", [period, "visits", "first visits"], grown))
    return Report("stats", "The graph of the crawl", {}, tables=tables, findings=findings)


def _named(period: str, number: int) -> Value:
    return number if period == "epoch" else datetime.fromtimestamp(number * _DAY_S, UTC).date().isoformat()


def _of_size(size: figures.Size) -> Table:
    rows: list[Sequence[Value]] = [
        ("nodes: pages that were visited, and URLs that they name", size.nodes, None),
        ("pages that were visited", size.visited, figures.PAPER_NODES),
        ("edges", size.edges, figures.PAPER_EDGES),
        ("mean out-degree of pages that were visited", size.mean_out, figures.PAPER_MEAN),
        ("median", size.median_out, figures.PAPER_MEDIAN),
        ("largest", size.largest_out, None),
        ("pages that name nothing", size.without_links, None),
        ("mean in-degree of nodes", size.mean_in, None),
        ("largest", size.largest_in, None),
    ]
    return Table("Sizes", ["", "here", "004, table 5.1"], rows)


def degree(engine: Engine, *, way: str, until_us: int | None) -> Report:
    """How many nodes have which degree (figure 5.2)."""
    every = engine.keep("nodes", nodes(until_us))
    counts = figures.distribution(engine, every, way)
    name = _NAMES[way]
    whose = "pages" if way == "out" else "nodes"
    by_count = sorted(counts, key=lambda each: (-each[1], each[0]))[:_SHOWN]
    without = sum(count for at, count in counts if not at)
    series = Series(whose, [at for at, _ in counts], [count for _, count in counts])
    figure = Figure(
        f"{whose.capitalize()} by {name}", name, whose, [series], log_x=True, log_y=True, as_points=True
    )
    return Report(
        "degree",
        f"The {name} of {sum(count for _, count in counts):,} {whose}",
        {"mean": figures.mean(counts), "median": figures.median(counts)},
        tables=[
            Table(f"The most frequent values of the {name}", [name, whose], by_count),
        ],
        figures=[figure],
        findings=[_left_out(without, way)] if without else [],
    )


def _left_out(count: int, way: str) -> str:
    """That a logarithmic axis has no 0."""
    nodes = counted(count, "page" if way == "out" else "node")
    return f"{nodes} with an {_NAMES[way]} of 0 {'is' if count == 1 else 'are'} not in the figure."
