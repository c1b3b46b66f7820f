"""Summaries and links in files: JSON lines and Parquet (`gcs.summary.sml` has the third format).

Invariant: what was written is read back exactly, of each format. In JSON the time of a fetch is written for
people (`2001-02-03T04:05:06.789012+00:00`); in Parquet it is a timestamp.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from gcs.summary.records import Detail, Edge, Summary, instant
from gcs.summary.schema import SCHEMA


def to_json(summary: Summary) -> str:
    """A summary as one line of JSON, without the line's end."""
    row = summary.to_row()
    row["fetched_at"] = instant(summary.fetched_at).isoformat()
    row["headings"] = [{"level": level, "text": text} for level, text in summary.headings]
    row["details"] = [{"name": each.name, "value": each.value} for each in summary.details]
    return json.dumps(row, ensure_ascii=False, separators=(",", ":"))


def from_json(line: str) -> Summary:
    """The inverse of `to_json`; raises ValueError for what is no summary, NewerRecord for a newer one."""
    row: dict[str, Any] = json.loads(line)
    try:
        read = {
            "fetched_at": datetime.fromisoformat(row["fetched_at"]),
            "details": [Detail.of(each["name"], each["value"]) for each in row.get("details", ())],
        }
        return Summary.from_row(row | read)
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a summary: {error!r}") from error


def write_json_lines(summaries: Iterable[Summary], stream: IO[str]) -> None:
    """Write each summary as a line."""
    for summary in summaries:
        stream.write(to_json(summary) + "\n")


def read_json_lines(stream: Iterable[str]) -> Iterator[Summary]:
    """The summaries of lines; empty lines are left out."""
    return (from_json(line) for line in stream if line.strip())


def summaries_table(summaries: Sequence[Summary]) -> pa.Table:
    """Summaries as an Arrow table."""
    return pa.Table.from_pylist([each.to_row() for each in summaries], schema=SCHEMA["summaries"])


def links_table(edges: Sequence[Edge]) -> pa.Table:
    """Links as an Arrow table; column by column, for there are many of them."""
    columns = zip(*edges, strict=True) if edges else ((),) * len(Edge._fields)
    schema = SCHEMA["links"]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def write_parquet(table: pa.Table, stream: IO[bytes]) -> None:
    """Write a table of summaries or links."""
    pq.write_table(table, stream, compression="zstd")


def read_parquet(stream: IO[bytes]) -> Iterator[Summary]:
    """The summaries of a Parquet file."""
    for batch in pq.ParquetFile(stream).iter_batches():
        yield from map(Summary.from_row, batch.to_pylist())


def read_parquet_links(stream: IO[bytes]) -> Iterator[Edge]:
    """The links of a Parquet file."""
    for batch in pq.ParquetFile(stream).iter_batches():
        yield from (Edge(*row.values()) for row in batch.to_pylist())
