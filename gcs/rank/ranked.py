"""A ranking: the priorities of all URLs of a crawl as a table in files, and what is best in it."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import ibis
from ibis.expr.types import Table

from gcs.errors import UsageError
from gcs.graph import places
from gcs.graph.engine import Engine
from gcs.graph.tables import edges, nodes, visits
from gcs.rank.pagerank import pagerank
from gcs.rank.priorities import COLUMNS, priorities

IN_DEGREE: Final = "in-degree"
PAGERANK: Final = "pagerank"
DOMAIN: Final = "domain"
_DELIVERED: Final = {"url": "string", "new": "float64", "old": "float64"}


@dataclass(frozen=True, slots=True)
class Ranking:
    """Where a ranking is, and what it says."""

    directory: Path
    table: Table
    by: str

    def sizes(self, engine: Engine) -> tuple[int, int, int]:
        """How many URLs were never visited, how many were, and how many edges there are."""
        table = self.table
        found = table.aggregate(new=table.p_new.count(), old=table.p_old.count(), edges=table.in_degree.sum())
        new, old, count = engine.rows(found)[0]
        return int(new), int(old), int(count or 0)

    def best(self, engine: Engine, kind: str, count: int) -> list[tuple[str, float]]:
        """The URLs to visit first, of those that are "new" or "old", each with its priority."""
        table = self.table
        column = "rank" if kind == "new" and self.by != IN_DEGREE else f"p_{kind}"
        chosen = table.filter(table[f"p_{kind}"].notnull()).order_by(ibis.desc(column), "url").limit(count)
        return [(str(url), float(value)) for url, value in engine.rows(chosen.select("url", column))]

    def delivery(self, engine: Engine) -> list[Path]:
        """Files with what owners are told, URLs in order: those of a host come together."""
        table = self.table
        in_degree = table.in_degree.cast("float64")
        said = table.select(
            url=table.url,
            new=in_degree if self.by == IN_DEGREE else table["rank"],
            old=in_degree + table.out_degree.cast("float64"),
        )
        place = engine.scratch / "delivery"
        engine.write(said.select(*_DELIVERED).order_by("url"), place)
        return sorted(place.glob("*.parquet"))


def rank(engine: Engine, *, by: str, now_us: int, directory: Path) -> Ranking:
    """Rank all URLs, and let that be the ranking in a directory, in place of one that was there.

    Raises UsageError where there is something else.
    """
    if directory.exists() and not _is_table(directory):
        raise UsageError(f"{directory} has something else in it than a ranking; choose another directory.")
    ranked = priorities(nodes(), now_us)
    columns: Mapping[str, Any] = COLUMNS
    if by != IN_DEGREE:
        kept = engine.keep("ranked", ranked)
        ranks = _pageranks(engine, kept) if by == PAGERANK else _domain_ranks(engine, kept)
        ranked = kept.join(ranks, kept.url == ranks.name).select(kept, ranks["rank"])
        columns = {**COLUMNS, "rank": "float64"}
    made = engine.scratch / "ranking"
    engine.write(ranked, made)
    if directory.exists():
        shutil.move(directory, engine.scratch / "former")
    shutil.move(made, directory)
    files = sorted(directory.glob("*.parquet"))
    return Ranking(directory, engine.read("ranking", files, columns), by)


def _is_table(directory: Path) -> bool:
    """Whether there is nothing but a table in files, as engines write them."""
    return directory.is_dir() and all(
        each.suffix in (".parquet", ".crc") or each.name == "_SUCCESS" for each in directory.iterdir()
    )


def _pageranks(engine: Engine, kept: Table) -> Table:
    return pagerank(engine, kept.select(name=kept.url), edges(visits()))


def _domain_ranks(engine: Engine, kept: Table) -> Table:
    """For each URL the PageRank of its domain; a domain links to another if any of its pages does."""
    known = places.places(engine, kept.select("url"))
    flows = places.between(edges(visits()), known, "domain")
    across = engine.keep("domain_edges", flows.filter(flows.source != flows.target))
    ranks = pagerank(engine, known.select(name=known.domain).distinct(), across)
    hosts = kept.select(name=kept.url, host=places.host_of(kept.url))
    domains = hosts.join(known, hosts.host == known.host).select(hosts.name, known.domain)
    return domains.join(ranks, domains.domain == ranks.name).select(domains.name, ranks["rank"])
