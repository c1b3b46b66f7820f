"""Apache Spark: a ranking on many machines, which all have to see the directories of the crawl.

pyspark is an extra (`gcs[spark]`), and needs Java.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ibis
from ibis.expr.types import Table

from gcs.config import Rank
from gcs.errors import UsageError
from gcs.graph.engine import PAGES, SPARK, Segments, columns
from gcs.graph.sql import written

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class OnSpark:
    """An engine: one session on a cluster."""

    def __init__(self, session: SparkSession, place: Path) -> None:
        """What is kept is below a directory that the whole cluster sees."""
        self._session, self.scratch = session, place
        self._kept = 0

    def load(self, segments: Segments) -> None:
        """Let the tables `summaries` and `links` be what is in some files."""
        for name, files in (("summaries", segments.summaries), ("links", segments.links)):
            chosen = columns(name, us="unix_micros")
            self._files(files).createOrReplaceTempView(f"{name}_in_files")
            where = PAGES if name == "summaries" else "true"
            rows = self._session.sql(f"SELECT {chosen} FROM {name}_in_files WHERE {where}")  # noqa: S608 - our own words
            rows.createOrReplaceTempView(name)

    def read(self, name: str, files: Sequence[Path], schema: Mapping[str, str]) -> Table:
        """Rows of Parquet files, as a table of that name."""
        self._files(files).select(*schema).createOrReplaceTempView(name)
        return ibis.table(schema, name=name)

    def _files(self, files: Sequence[Path]) -> DataFrame:
        return self._session.read.parquet(*(str(path.absolute()) for path in files))

    def rows(self, table: Table) -> list[tuple[Any, ...]]:
        """All rows; for few."""
        return [tuple(row) for row in self._run(table).collect()]

    def keep(self, name: str, table: Table) -> Table:
        """The same rows, computed once, as a table of that name."""
        # The rows of that name may be what the new ones are computed from.
        self._kept += 1
        kept = self.scratch / f"{name}-{self._kept}"
        self.write(table, kept)
        self._session.read.parquet(str(kept)).createOrReplaceTempView(name)
        return ibis.table(table.schema(), name=name)

    def write(self, table: Table, directory: Path) -> None:
        """Write the rows as Parquet into a directory that does not exist yet."""
        self._run(table).write.parquet(str(directory.absolute()))

    def _run(self, table: Table) -> DataFrame:
        return self._session.sql(written(table, SPARK))


@contextmanager
def opened(settings: Rank, place: Path) -> Iterator[OnSpark]:
    """An engine on the configured cluster; raises UsageError when there is none."""
    try:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    except ImportError:
        raise UsageError(
            'Spark is not installed: pip install "gcs[spark]", or rank.engine = "duckdb".'
        ) from None
    memory = f"{settings.memory_bytes >> 20}m"
    if settings.spark_master.startswith("local"):
        # Nobody else is to reach it, and the name of this machine may lead nowhere.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    try:
        session = (
            SparkSession.builder.appName("gcs rank")
            .master(settings.spark_master)
            .config("spark.driver.memory", memory)
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.sql.session.timeZone", "UTC")
            .getOrCreate()
        )
    except (PySparkException, Py4JError, OSError) as error:
        raise UsageError(
            f"Spark cannot be started with {settings.spark_master}: {_sentence(error)}"
        ) from None
    try:
        yield OnSpark(session, place)
    except (PySparkException, Py4JError) as error:
        raise UsageError(f"Spark cannot go on: {_sentence(error)}") from None
    finally:
        session.stop()


def _sentence(error: Exception) -> str:
    """What Java says is behind what Python says of where it was said."""
    return str(getattr(error, "java_exception", error)).splitlines()[0]
