"""What runs an expression over the tables of a crawl: DuckDB inside this process, or Apache Spark.

An engine knows the tables `summaries` and `links` from `load` on. It is asked for the rows of an expression,
to write them to a directory as Parquet, or to keep them as a table for other expressions. All engines give
the same rows; in which order is not said, unless the expression says it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from ibis.expr.types import Table

from gcs.config import Rank

DUCKDB: Final = "duckdb"
SPARK: Final = "spark"


@dataclass(frozen=True, slots=True)
class Segments:
    """The Parquet files of some stores."""

    summaries: Sequence[Path]
    links: Sequence[Path]


class Engine(Protocol):
    """Runs expressions."""

    scratch: Path
    """A directory that is thrown away in the end; with Spark, the whole cluster sees it."""

    def load(self, segments: Segments) -> None:
        """Let the tables `summaries` and `links` be what is in some files."""

    def rows(self, table: Table) -> list[tuple[Any, ...]]:
        """All rows; for few."""

    def keep(self, name: str, table: Table) -> Table:
        """The same rows, computed once, as a table of that name."""

    def write(self, table: Table, directory: Path) -> None:
        """Write the rows as Parquet into a directory that does not exist yet."""

    def read(self, name: str, files: Sequence[Path], schema: Mapping[str, str]) -> Table:
        """Rows of Parquet files, as a table of that name."""


@contextmanager
def opened(settings: Rank, scratch: Path | None = None) -> Iterator[Engine]:
    """The engine that the configuration names; what it needs no memory for is below `scratch` meanwhile.

    Raises UsageError when it cannot be started.
    """
    # Each is loaded only when it is wanted: they take long, and Spark may not be installed.
    with tempfile.TemporaryDirectory(prefix=".ranking-", dir=scratch, ignore_cleanup_errors=True) as place:
        if settings.engine == SPARK:
            from gcs.graph import spark

            with spark.opened(settings, Path(place)) as engine:
                yield engine
        else:
            from gcs.graph import duckdb

            with duckdb.opened(settings, Path(place)) as local:
                yield local


PAGES: Final = "via <> 'member'"
"""Rows of the summaries that are about pages: what was inside of one is no node."""
_COLUMNS: Final[Mapping[str, Mapping[str, str]]] = {
    "summaries": {
        "url": "url",
        "fetched_us": "{us}(fetched_at)",
        "epoch": "epoch",
        "status": "CAST(status AS BIGINT)",
        "change": "change",
        "unchanged": "unchanged",
    },
    "links": {"source": "source", "target": "target", "fetched_us": "fetched_us", "repeated": "repeated"},
}


def columns(name: str, *, us: str) -> str:
    """What to select from files for one of the tables; `us` is the function from a time to microseconds."""
    return ", ".join(f"{said.format(us=us)} AS {column}" for column, said in _COLUMNS[name].items())
