"""From an expression to the SQL of an engine."""

from __future__ import annotations

import ibis
import ibis.backends.sql.compilers as compilers
from ibis.expr.types import Table

from gcs.graph.engine import DUCKDB, SPARK


class _SparkOptions(ibis.config.Config):  # type: ignore[misc] # it is not annotated
    """What the compiler for Spark asks for; ibis has it only where its own connection to Spark is loaded."""

    treat_nan_as_null: bool = False


_COMPILERS = {DUCKDB: compilers.duckdb.compiler, SPARK: compilers.pyspark.compiler}


def written(table: Table, engine: str) -> str:
    """The expression in the words of an engine."""
    if engine == SPARK and ibis.options.pyspark is None:
        ibis.options.pyspark = _SparkOptions()
    compiler = _COMPILERS[engine]
    text: str = compiler.to_sqlglot(table).sql(dialect=compiler.dialect)
    return text
