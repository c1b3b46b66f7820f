"""The columns of summaries and links as Parquet has them.

Apart from the records themselves: helpers make records and write none, and need no Parquet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

import pyarrow as pa

from gcs.summary.records import NAMES, VERSION, Edge

_TYPES: Final[Mapping[str, pa.DataType]] = MappingProxyType(
    {
        "depth": pa.int32(),
        "status": pa.int16(),
        "fetched_at": pa.timestamp("us", "UTC"),
        "fetch_s": pa.float64(),
        "bytes": pa.int64(),
        "epoch": pa.int64(),
        "change": pa.float64(),
        "unchanged": pa.bool_(),
        "keywords": pa.list_(pa.string()),
        "headings": pa.list_(pa.struct([("level", pa.int8()), ("text", pa.string())])),
        "details": pa.list_(
            pa.struct(
                [
                    ("name", pa.string()),
                    ("text", pa.string()),
                    ("number", pa.float64()),
                    ("items", pa.list_(pa.string())),
                ]
            )
        ),
        "language_confidence": pa.float64(),
        "links_out": pa.int32(),
        "noindex": pa.bool_(),
        "nofollow": pa.bool_(),
        "fetched_us": pa.int64(),
        "repeated": pa.bool_(),
        "version": pa.int16(),
    }
)


def _schema(names: Sequence[str], kind: str) -> pa.Schema:
    metadata = {"gcs.record": kind, "gcs.version": str(VERSION)}
    columns = [pa.field(name, _TYPES.get(name, pa.string()), nullable=False) for name in names]
    return pa.schema(columns, metadata=metadata)


SCHEMA: Final[Mapping[str, pa.Schema]] = MappingProxyType(
    {"summaries": _schema(NAMES, "summary"), "links": _schema(Edge._fields, "link")}
)
"""What a segment of Parquet holds: `Summary.to_row()` in one file, `Edge` in the other."""
