"""DuckDB inside this process: a ranking on one machine, within a given memory.

What does not fit into memory is on disk meanwhile, so a graph may be larger than memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import duckdb
import ibis
from ibis.expr.types import Table

from gcs.config import Rank
from gcs.errors import UsageError
from gcs.graph.engine import DUCKDB, PAGES, Segments, columns
from gcs.graph.sql import written

_OF_MEMORY: Final = 0.75
"""What of the memory DuckDB may count as its own: it does not count all that it allocates."""


class InProcess:
    """An engine: one connection to a database that is thrown away in the end."""

    def __init__(self, settings: Rank, place: Path) -> None:
        self.scratch = place
        self._db = duckdb.connect(
            str(place / "ranking.duckdb"),
            config={
                "memory_limit": f"{int(settings.memory_bytes * _OF_MEMORY)}B",
                "temp_directory": str(place / "spilled"),
                "preserve_insertion_order": False,
            },
        )
        self._db.execute("SET enable_progress_bar = false")

    def load(self, segments: Segments) -> None:
        """Let the tables `summaries` and `links` be what is in some files."""
        for name, files in (("summaries", segments.summaries), ("links", segments.links)):
            chosen = columns(name, us="epoch_us")
            self._view(name, chosen, files, PAGES if name == "summaries" else "true")

    def read(self, name: str, files: Sequence[Path], schema: Mapping[str, str]) -> Table:
        """Rows of Parquet files, as a table of that name."""
        self._view(name, ", ".join(f'"{column}"' for column in schema), files)
        return ibis.table(schema, name=name)

    def _view(self, name: str, chosen: str, files: Sequence[Path], where: str = "true") -> None:
        paths = ", ".join(_quoted(str(path)) for path in files)
        with _translated():
            said = f"SELECT {chosen} FROM read_parquet([{paths}]) WHERE {where}"  # noqa: S608 - our own words, and quoted paths
            self._db.execute(f'CREATE VIEW "{name}" AS {said}')

    def rows(self, table: Table) -> list[tuple[Any, ...]]:
        """All rows; for few."""
        with _translated():
            return self._db.execute(_query(table)).fetchall()

    def keep(self, name: str, table: Table) -> Table:
        """The same rows, computed once, as a table of that name."""
        with _translated():
            self._db.execute(f'CREATE OR REPLACE TABLE "{name}" AS {_query(table)}')
        return ibis.table(table.schema(), name=name)

    def write(self, table: Table, directory: Path) -> None:
        """Write the rows as Parquet into a directory that does not exist yet."""
        directory.mkdir(parents=True)
        to = _quoted(str(directory / "part-0.parquet"))
        with _translated():
            self._db.execute(
                f"COPY ({_query(table)}) TO {to} (FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1)"
            )

    def close(self) -> None:
        """Let the database go."""
        self._db.close()


@contextmanager
def opened(settings: Rank, place: Path) -> Iterator[InProcess]:
    """An engine that keeps what it has below a directory."""
    engine = InProcess(settings, place)
    try:
        yield engine
    finally:
        engine.close()


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except (duckdb.OutOfMemoryException, duckdb.IOException) as error:
        first = str(error).splitlines()[0]
        raise UsageError(f"DuckDB cannot go on: {first}; give it more of rank.memory, or of disk.") from None


def _query(table: Table) -> str:
    """The expression in SQL, with the types that it has for all engines: DuckDB adds up in 128 bits."""
    columns = (
        f'CAST("{name}" AS BIGINT) AS "{name}"' if kind.is_int64() else f'"{name}"'
        for name, kind in table.schema().items()
    )
    return f"SELECT {', '.join(columns)} FROM ({written(table, DUCKDB)})"  # noqa: S608 - our own words


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
