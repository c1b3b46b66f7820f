"""The tables of a crawl, and the graph that they describe, as expressions.

`SUMMARIES` has one row for every visit of a page, `LINKS` one for every link that a visit found. A page's
links *in force* are those of its latest visit that found other ones than the visit before. An edge leads from
a page to a URL, once, however many links of the page name it (004, section 3.1.2; in-degree is the number of
nodes that refer to one, section 4.3.3). A node is a URL at either end, or a page that was visited.

An expression says what is wanted, not how; the same one is run by every engine.
"""

from __future__ import annotations

from typing import Final

import ibis
from ibis.expr.types import Table

SUMMARIES: Final = ibis.table(
    {
        "url": "string",
        "fetched_us": "int64",
        "epoch": "int64",
        "status": "int64",
        "change": "float64",
        "unchanged": "boolean",
    },
    name="summaries",
)
LINKS: Final = ibis.table(
    {"source": "string", "target": "string", "fetched_us": "int64", "repeated": "boolean"}, name="links"
)


def summaries(until_us: int | None = None) -> Table:
    """All visits, or those that were not after a time."""
    return SUMMARIES if until_us is None else SUMMARIES.filter(SUMMARIES.fetched_us <= until_us)


def visits(until_us: int | None = None) -> Table:
    """One row for each page that was visited, not after a time if one is given.

    `visited_us` is its latest visit, `change` how much that one found changed, and `links_us` the visit
    whose links are in force.
    """
    rows = summaries(until_us)
    return rows.group_by("url").aggregate(
        visited_us=rows.fetched_us.max(),
        change=rows.change.argmax(rows.fetched_us),
        epoch=rows.epoch.argmax(rows.fetched_us),
        links_us=rows.fetched_us.max(where=~rows.unchanged),
    )


def edges(pages: Table) -> Table:
    """The edges that are in force for some visits: `source` and `target`."""
    first = LINKS.filter(~LINKS.repeated)
    in_force = [first.source == pages.url, first.fetched_us == pages.links_us]
    return first.semi_join(pages, in_force).select("source", "target")


def in_degrees(links: Table) -> Table:
    """How many pages name a URL, for each that is named."""
    return links.group_by(url=links.target).aggregate(in_degree=links.count())


def with_out_degrees(pages: Table) -> Table:
    """Visits, each with how many URLs the page names.

    Links are counted by visit before visits are looked up: there are two hundred times as many of them. What
    is repeated is left out otherwise than in `edges`: an engine that saw the same filter twice kept all that
    came through it, on disk.
    """
    first = LINKS.count(where=~LINKS.repeated)
    found = LINKS.group_by(["source", "fetched_us"]).aggregate(out_degree=first)
    in_force = [pages.url == found.source, pages.links_us == found.fetched_us]
    joined = pages.left_join(found, in_force)
    return joined.select(pages, found.out_degree.fill_null(0).name("out_degree"))


def nodes(until_us: int | None = None) -> Table:
    """Every node with its degrees; what is about visits is null for one that was never visited."""
    pages = visits(until_us)
    ins, visited = in_degrees(edges(pages)), with_out_degrees(pages)
    joined = ins.outer_join(visited, ins.url == visited.url)
    return joined.select(
        url=ibis.coalesce(ins.url, visited.url),
        in_degree=ins.in_degree.fill_null(0),
        out_degree=visited.out_degree.fill_null(0),
        visited_us=visited.visited_us,
        change=visited.change,
        epoch=visited.epoch,
    )
