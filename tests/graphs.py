"""Crawls for tests of graphs and rankings: what stores would have kept of some visits, as files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from gcs.config import Rank
from gcs.core.urls import key
from gcs.graph import engine as engines
from gcs.graph import filed
from gcs.graph.engine import Engine
from gcs.store import directory as directories
from gcs.summary import formats
from gcs.summary.records import Edge, Summary

MEMORY_BYTES = 512 << 20


@dataclass(frozen=True)
class Visit:
    """A page that was visited, and what links it had then."""

    url: str
    at_us: int
    links: Sequence[str] = ()
    change: float = 1.0
    unchanged: bool = False
    epoch: int = 0


def keep(place: Path, visits: Iterable[Visit], *, part: int = 0) -> Path:
    """Write what a store keeps of some visits."""
    made = list(visits)
    for kind in ("summaries", "links"):
        (place / kind).mkdir(parents=True, exist_ok=True)
    (place / "format").write_text(directories.format_line())
    name = f"part-{part:012}-{part:012}.parquet"
    pq.write_table(_summaries(made), place / "summaries" / name)
    edges = [edge for visit in made if not visit.unchanged for edge in _edges(visit)]
    pq.write_table(formats.links_table(edges), place / "links" / name)
    return place


def _summaries(visits: Sequence[Visit]) -> pa.Table:
    table = formats.summaries_table(
        [
            Summary(
                url=each.url, key=key(each.url), fetched_at=each.at_us / 1e6, status=200, epoch=each.epoch
            )
            for each in visits
        ]
    )
    return pa.table(
        {
            **{name: table[name] for name in table.column_names},
            "change": pa.array([each.change for each in visits], pa.float64()),
            "unchanged": pa.array([each.unchanged for each in visits], pa.bool_()),
        }
    )


def _edges(visit: Visit) -> Iterator[Edge]:
    seen: set[str] = set()
    for target in visit.links:
        yield Edge(visit.url, target, fetched_us=visit.at_us, repeated=target in seen)
        seen.add(target)


@contextmanager
def loaded(place: Path, *stores: Path) -> Iterator[Engine]:
    """DuckDB with the tables of some stores."""
    with engines.opened(Rank(memory_bytes=MEMORY_BYTES), place) as engine:
        filed.load(engine, stores)
        yield engine
