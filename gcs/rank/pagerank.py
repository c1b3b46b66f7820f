"""PageRank of the nodes of any graph of tables, to the same digits on every engine.

Ranks are whole numbers, in units of which a node has `UNIT` on average: sums of doubles depend on the order
in which they are added, sums of integers do not. What a node passes on is rounded down; what is not passed on
along edges (by nodes without any, by damping, by rounding) is spread evenly, so that the sum stays.
"""

from __future__ import annotations

from typing import Final

import ibis
from ibis.expr.types import Table

from gcs.graph.engine import Engine

UNIT: Final = 1 << 30
DAMPING: Final = 0.85
ROUNDS: Final = 20


def pagerank(
    engine: Engine, names: Table, edges: Table, *, rounds: int = ROUNDS, damping: float = DAMPING
) -> Table:
    """The rank of each node as `rank`, 1 on average, beside its `name`.

    `names` has a row for each node in its column `name`; `edges` has `source` and `target`, each pair once.
    """
    nodes = engine.keep("rank_nodes", names.select("name"))
    links = engine.keep("rank_edges", edges.select("source", "target"))
    sources = engine.keep(
        "rank_sources", links.group_by(name=links.source).aggregate(out_degree=links.count())
    )
    count = engine.rows(nodes.aggregate(n=nodes.count()))[0][0]
    # Those that have been passed nothing are not in this table: all of them have the same.
    received = engine.keep("rank_0", nodes.select("name", received=ibis.literal(0, "int64")).limit(0))
    base = UNIT
    for number in range(1, rounds + 1):
        passed = _passed(sources, links, received, base, damping)
        received = engine.keep(f"rank_{number % 2}", passed)
        sent = engine.rows(received.aggregate(sent=received.received.sum()))[0][0]
        base = (count * UNIT - int(sent or 0)) // count if count else 0
    joined = nodes.left_join(received, nodes.name == received.name)
    rank = (received.received.fill_null(0) + base).cast("float64") / float(UNIT)
    return joined.select(nodes.name, rank=rank)


def _passed(sources: Table, links: Table, received: Table, base: int, damping: float) -> Table:
    """What each node gets along its edges in one round."""
    ranked = sources.left_join(received, sources.name == received.name).select(
        sources.name,
        share=(
            (received.received.fill_null(0) + base).cast("float64")
            * damping
            / sources.out_degree.cast("float64")
        )
        .floor()
        .cast("int64"),
    )
    along = links.join(ranked, links.source == ranked.name)
    return along.group_by(name=along.target).aggregate(received=along.share.sum().cast("int64"))
