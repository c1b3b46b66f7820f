"""Apache Spark gives the same rows as DuckDB."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gcs import config
from gcs.errors import UsageError
from gcs.graph import engine as engines

ROOT = Path(__file__).parent.parent
MISSING = [
    *([] if shutil.which("java") else ["Java (Debian: default-jre-headless)"]),
    *([] if importlib.util.find_spec("pyspark") else ["pyspark (make .venv/.spark)"]),
]
QUICK = (
    "spark.sql.shuffle.partitions 2",
    "spark.ui.enabled false",
    # There is little to calculate: compiling for speed takes longer than it saves.
    "spark.sql.codegen.wholeStage false",
    "spark.driver.extraJavaOptions -XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.extraJavaOptions -XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
)


@pytest.mark.skipif(
    bool(MISSING), reason=f"RANKINGS ON SPARK ARE NOT TESTED: there is no {' and no '.join(MISSING)}"
)
def test_spark_and_duckdb_agree_on_every_row(tmp_path: Path) -> None:
    """On a cluster of two executors, priorities and PageRank are what DuckDB gives, to the last bit."""
    (tmp_path / "spark-defaults.conf").write_text("\n".join(QUICK))
    ran = subprocess.run(
        [
            *(sys.executable, "-m", "benchmarks.rank", "--agree", "--edges=20000", "--rounds=1", "--json"),
            "--spark-master=local-cluster[2,1,1024]",
        ],
        cwd=ROOT,
        env={**os.environ, "SPARK_CONF_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert ran.returncode == 0, ran.stderr
    rows = json.loads(ran.stdout)
    assert [row["what"].split()[0] for row in rows] == ["priorities", "pageranks"]
    assert [(row["reached"], row["compared_with"].endswith(" 0 differ")) for row in rows] == [
        (True, True)
    ] * 2


def test_without_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where pyspark is not installed, one sentence says what to do."""
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    monkeypatch.setitem(sys.modules, "pyspark.errors", None)
    with (
        pytest.raises(UsageError, match="not installed"),
        engines.opened(config.Rank(engine="spark"), tmp_path),
    ):
        pytest.fail("it was opened")
