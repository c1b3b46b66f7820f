"""P_new and P_old of every node of the graph, as one expression (004, section 4.3.3).

The formulas are those of `gcs.core.ranking`, applied to columns instead of numbers. Every operation is on
integers, or on doubles in a given order, so that every engine gives the same bits.
"""

from __future__ import annotations

from typing import Final

import ibis
from ibis.expr.types import Table

from gcs.core import ranking

COLUMNS: Final = {
    "url": "string",
    "in_degree": "int64",
    "out_degree": "int64",
    "visited_us": "int64",
    "change": "float64",
    "p_new": "float64",
    "p_old": "float64",
}
"""What a ranking says of a URL. `p_new` is null for one that was visited, `p_old` for one that was not."""


def priorities(nodes: Table, now_us: int, *, crawl_s: float = ranking.T_CRAWL_S) -> Table:
    """The priorities of nodes at a moment."""
    visited = nodes.visited_us.notnull()
    in_degree, out_degree = nodes.in_degree.cast("float64"), nodes.out_degree.cast("float64")
    # A clock may be ahead of the one here.
    since_us = ibis.greatest(now_us - nodes.visited_us, 0)
    age = since_us.cast("float64") / (crawl_s * 1e6)
    return nodes.mutate(
        p_new=ibis.ifelse(visited, ibis.null("float64"), ranking.p_new(in_degree)),
        p_old=ranking.p_old(nodes.change, age, in_degree, out_degree),
    ).select(*COLUMNS)
