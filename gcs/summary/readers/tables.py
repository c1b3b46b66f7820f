"""Tables: CSV with its columns, their kinds and some rows; Parquet with its schema."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from typing import Final

from gcs.summary.limits import Limits
from gcs.summary.plugins import Part
from gcs.summary.readers.saying import Said, document, text_of
from gcs.summary.records import Document

_READ: Final = 1 << 20
_SAMPLES: Final = 5
_LOOKED_AT: Final = 200
_CELL: Final = 60
_KINDS: Final = (
    ("integer", re.compile(r"[+-]?\d{1,18}\Z")),
    ("number", re.compile(r"[+-]?(\d+[.,]?\d*|[.,]\d+)([eE][+-]?\d+)?\Z")),
    ("date", re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d)?.{0,8})?\Z")),
    ("truth", re.compile(r"(true|false|yes|no)\Z", re.IGNORECASE)),
)


def read_csv(part: Part, _: Limits) -> Document:
    """What a table in text says."""
    text, charset = text_of(part, most=_READ)
    separator = "\t" if part.media_type == "text/tab-separated-values" else _separator(text)
    rows = []
    for row in csv.reader(io.StringIO(text), delimiter=separator):
        if row:
            rows.append(row)
        if len(rows) > _LOOKED_AT:
            break
    has_header = len(rows) > 1 and _is_header(rows[0], rows[1:])
    header = rows[0] if has_header else [str(number + 1) for number in range(len(rows[0]) if rows else 0)]
    values = rows[1:] if has_header else rows
    columns = [
        f"{name.strip()}: {_kind([row[at] for row in values if at < len(row)])}"
        for at, name in enumerate(header)
    ]
    shown = [" | ".join(cell[:_CELL] for cell in row) for row in values[:_SAMPLES]]
    facts = {
        "columns": columns,
        "rows": max(0, part.body.count(b"\n") + (not part.body.endswith(b"\n")) - has_header),
        "separator": {"\t": "tab"}.get(separator, separator),
        "samples": shown,
    }
    named = " ".join(header) if has_header else ""
    return document(part, Said(text="\n".join([named, *shown]), charset=charset, facts=facts))


def _separator(text: str) -> str:
    """What separates cells: what is in the first lines equally often, and most often."""
    lines = [line for line in text[:8192].splitlines() if line][:10]
    best, most = ",", 0
    for each in ",;\t|":
        counts = {line.count(each) for line in lines[:-1] or lines}
        if len(counts) == 1 and (count := counts.pop()) > most:
            best, most = each, count
    return best


def _is_header(first: Sequence[str], others: Sequence[Sequence[str]]) -> bool:
    """Whether a first row has names: all of them texts, and different ones."""
    names = [cell.strip() for cell in first]
    return (
        bool(others)
        and all(names)
        and len(set(names)) == len(names)
        and all(_kind([name]) == "text" for name in names)
    )


def _kind(cells: Sequence[str]) -> str:
    filled = [cell.strip() for cell in cells if cell.strip()]
    if not filled:
        return "empty"
    return next((name for name, pattern in _KINDS if all(map(pattern.match, filled))), "text")


def read_parquet(part: Part, _: Limits) -> Document:
    """What a table in Parquet says; only the first rows of its first group are read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pq.ParquetFile(pa.BufferReader(part.body)) as file:
        schema, meta = file.schema_arrow, file.metadata
        columns = [f"{field.name}: {field.type}" for field in schema]
        rows = next(file.iter_batches(_SAMPLES, use_threads=False), None) if meta.num_rows else None
        found = [] if rows is None else rows.to_pylist()
        shown = [" | ".join(str(value)[:_CELL] for value in row.values()) for row in found]
        facts = {
            "columns": columns,
            "rows": meta.num_rows,
            "row_groups": meta.num_row_groups,
            "created_by": meta.created_by or "",
            "samples": shown,
        }
    return document(part, Said(text="\n".join([" ".join(schema.names), *shown]), facts=facts))
