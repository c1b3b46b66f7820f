"""`gcs export`: what a crawl has kept, in the formats that others read; also while it runs.

Everything comes from files that are never changed once they have their name, so nothing is locked.
"""

from __future__ import annotations

import csv
import io
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import IO, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gcs.gatherer import parts
from gcs.gatherer.findings import Findings, place_of_url
from gcs.monitor import kml
from gcs.monitor.found import Found
from gcs.summary import formats, sml
from gcs.summary.records import MEMBER, Edge, Summary
from gcs.summary.schema import SCHEMA

Writer = Callable[[Sequence[Path], IO[bytes]], int]


def export(directory: Path, kind: str, stream: IO[bytes]) -> int:
    """Write what a crawl has kept to a stream, and say how many records that were; raises UsageError."""
    return FORMATS[kind](parts.parts(directory), stream)


def tables(stores: Sequence[Path], kind: str) -> Iterator[pa.Table]:
    """The segments of a kind, store by store in the order in which they were written."""
    for store in stores:
        for path in sorted((store / kind).glob("part-*.parquet")):
            yield pq.read_table(path, schema=SCHEMA[kind])


def summaries(stores: Sequence[Path]) -> Iterator[Summary]:
    """All summaries."""
    for table in tables(stores, "summaries"):
        yield from (Summary.from_row(row) for row in table.to_pylist())


def links(stores: Sequence[Path]) -> Iterator[Edge]:
    """All links."""
    for table in tables(stores, "links"):
        for columns in zip(*(column.to_pylist() for column in table.columns), strict=True):
            yield Edge(*columns)


def _jsonl(stores: Sequence[Path], stream: IO[bytes]) -> int:
    count = 0
    for summary in summaries(stores):
        stream.write(formats.to_json(summary).encode() + b"\n")
        count += 1
    return count


def _sml(stores: Sequence[Path], stream: IO[bytes]) -> int:
    count = 0

    def entries() -> Iterator[sml.Entry]:
        nonlocal count
        for summary in summaries(stores):
            count += 1
            yield sml.Entry(summary)

    sml.write(entries(), stream)
    return count


def _parquet(stores: Sequence[Path], stream: IO[bytes]) -> int:
    count = 0
    with pq.ParquetWriter(stream, SCHEMA["summaries"], compression="zstd") as writer:
        for table in tables(stores, "summaries"):
            writer.write_table(table)
            count += table.num_rows
    return count


def _links_csv(stores: Sequence[Path], stream: IO[bytes]) -> int:
    text = io.TextIOWrapper(stream, encoding="utf-8", newline="", write_through=True)
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(Edge._fields)
    count = 0
    for edge in links(stores):
        writer.writerow(edge)
        count += 1
    text.detach()
    return count


def _warc(stores: Sequence[Path], stream: IO[bytes]) -> int:
    paths = [path for store in stores for path in sorted((store / "warc").glob("*.warc.*"))]
    stream.writelines(f"{path.absolute()}\n".encode() for path in paths)
    return len(paths)


def _kml(stores: Sequence[Path], stream: IO[bytes]) -> int:
    """Languages and pages by country, and all links between countries."""
    found, findings, pages = Found(), Findings(), 0
    said = ["url", "bytes", "language", "charset_declared", "charset_detected"]
    for both in tables(stores, "summaries"):
        table = both.filter(pc.field("via") != MEMBER)
        pages += table.num_rows
        columns = [table.column(name).to_pylist() for name in said]
        for url, size, language, declared, detected in zip(*columns, strict=True):
            place = place_of_url(url)
            findings.answered(place, size)
            findings.read(place, language, declared, detected)
    for table in tables(stores, "links"):
        ends = zip(table.column("source").to_pylist(), table.column("target").to_pylist(), strict=True)
        for (source, target), count in Counter((place_of_url(a), place_of_url(b)) for a, b in ends).items():
            findings.linked(source, target, count)
    found.add("", findings)
    said_of = found.countries()
    stream.write(kml.written(stores[0].absolute().name, time.time(), said_of["countries"], said_of["links"]))
    return pages


FORMATS: Final[Mapping[str, Writer]] = MappingProxyType(
    {"jsonl": _jsonl, "sml": _sml, "parquet": _parquet, "csv": _links_csv, "warc": _warc, "kml": _kml}
)
