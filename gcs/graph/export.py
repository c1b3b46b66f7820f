"""`gcs graph export`: nodes and edges in files that others read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import IO, Final

import pyarrow as pa
import pyarrow.parquet as pq
from ibis.expr.types import Table

from gcs.errors import UsageError
from gcs.graph import places
from gcs.graph.engine import Engine
from gcs.graph.tables import edges, nodes, visits

_AT_ONCE: Final = 50_000


def to_parquet(engine: Engine, directory: Path, until_us: int | None) -> dict[str, int]:
    """Nodes and edges as two directories of Parquet; how many there are of each."""
    counts = {}
    for name, table in (("nodes", nodes(until_us)), ("edges", edges(visits(until_us)))):
        place = directory / name
        if place.exists():
            raise UsageError(f"{place} is there already; choose another directory.")
        engine.write(table, place)
        counts[name] = sum(pq.read_metadata(file).num_rows for file in place.glob("*.parquet"))
    return counts


def _edges(_: Engine, until_us: int | None) -> Table:
    return edges(visits(until_us))


def _between(what: str) -> Callable[[Engine, int | None], Table]:
    def flows(engine: Engine, until_us: int | None) -> Table:
        every = engine.keep("nodes", nodes(until_us))
        known = places.places(engine, every.select("url"))
        return places.between(edges(visits(until_us)), known, what)

    return flows


LISTS: Final[Mapping[str, Callable[[Engine, int | None], Table]]] = MappingProxyType(
    {"edges": _edges, "domains": _between("domain"), "countries": _between("country")}
)
"""What can be written as lines."""


def to_lines(engine: Engine, kind: str, stream: IO[bytes], until_us: int | None) -> int:
    """Write an edge, or a pair of places and how many edges it has, to a line, with tabs; how many lines."""
    place = engine.scratch / "lines"
    engine.write(LISTS[kind](engine, until_us), place)
    count = 0
    for batch in _batches(place):
        columns = [map(str, column.to_pylist()) for column in batch.columns]
        stream.writelines(("\t".join(row) + "\n").encode() for row in zip(*columns, strict=True))
        count += batch.num_rows
    return count


def _batches(place: Path) -> Iterator[pa.RecordBatch]:
    for file in sorted(place.glob("*.parquet")):
        yield from pq.ParquetFile(file).iter_batches(_AT_ONCE)
