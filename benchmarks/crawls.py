"""Crawls of a synthetic web with very many links, as stores would have kept them.

Pages have 200 links (004, table 5.1), three quarters of them to their own site, popular pages more often. One
page in ten was visited twice: half of these had changed, half had not.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

LINKS_OF_PAGE = 200
PAGES_AT_ONCE = 500
BEGAN_US = 1_700_000_000_000_000
_OWN = 0.75
_SEGMENT_PAGES = 25_000
_WEB = 40
"""So many times as many pages as are visited are named."""

Numbers = NDArray[np.int64]


def written(place: Path, links: int, *, seed: int = 3) -> int:
    """Write the segments of a crawl with about so many links into a directory, and say how many there are."""
    pages = max(-(-links * 20 // 21 // LINKS_OF_PAGE), 20)
    web = _Web(pages, np.random.default_rng(seed))
    for kind in ("summaries", "links"):
        (place / kind).mkdir(parents=True)
    count = 0
    for number, first in enumerate(range(0, pages, _SEGMENT_PAGES)):
        name = f"part-{number:012}-{number:012}.parquet"
        chosen = np.arange(first, min(first + _SEGMENT_PAGES, pages))
        pq.write_table(web.summaries(chosen), place / "summaries" / name)
        count += _write(place / "links" / name, web.links(chosen))
    return count


def _write(file: Path, groups: Iterator[pa.Table]) -> int:
    """As `gcs.store.parquet` writes them: every URL of a row group is in it once."""
    first = next(groups)
    count: int = first.num_rows
    with pq.ParquetWriter(
        file,
        first.schema,
        compression="zstd",
        compression_level=1,
        dictionary_pagesize_limit=16 << 20,
        write_statistics=False,
        store_schema=False,
    ) as writer:
        writer.write_table(first)
        for group in groups:
            writer.write_table(group)
            count += group.num_rows
    return count


class _Web:
    """Pages by number."""

    def __init__(self, pages: int, random: np.random.Generator) -> None:
        self._pages, self._random = pages, random
        self._sites = max(10, pages // 50)

    def _urls(self, numbers: Numbers) -> pa.Array:
        site, section = _digits(numbers % self._sites), _digits(numbers % 97)
        page = _digits(numbers)
        parts = ("https://www.site-", site, ".example/section-", section, "/articles/page-", page, ".html")
        return pc.binary_join_element_wise(*parts, "")

    def summaries(self, pages: Numbers) -> pa.Table:
        """All visits of some pages."""
        again = pages[pages % 10 == 0]
        every = np.concatenate([pages, again])
        is_first = np.arange(len(every)) < len(pages)
        unchanged = ~is_first & (every % 20 == 0)
        return pa.table(
            {
                "url": self._urls(every),
                "fetched_at": pa.array(_at_us(every, ~is_first), pa.timestamp("us", "UTC")),
                "epoch": np.zeros(len(every), np.int64),
                "status": np.full(len(every), 200, np.int16),
                "change": np.where(is_first, 1.0, np.where(unchanged, 0.0, 0.5)),
                "unchanged": unchanged,
                "via": np.full(len(every), "link"),
            }
        )

    def links(self, pages: Numbers) -> Iterator[pa.Table]:
        """The links of all visits of some pages that found other ones, some pages at a time."""
        again = pages[pages % 20 == 10]
        for visited, second in ((pages, False), (again, True)):
            for at in range(0, len(visited), PAGES_AT_ONCE):
                yield self._group(visited[at : at + PAGES_AT_ONCE], second=second)

    def _group(self, pages: Numbers, *, second: bool) -> pa.Table:
        count = len(pages) * LINKS_OF_PAGE
        place = np.repeat(np.arange(len(pages)), LINKS_OF_PAGE)
        source, random = pages[place], self._random
        own = source % self._sites + self._sites * (random.random(count) ** 3 * 400).astype(np.int64)
        other = (random.random(count) ** 4 * self._pages * _WEB).astype(np.int64)
        target = np.where(random.random(count) < _OWN, own, other)
        named, codes = np.unique(target, return_inverse=True)
        return pa.table(
            {
                "source": pa.DictionaryArray.from_arrays(place.astype(np.int32), self._urls(pages)),
                "target": pa.DictionaryArray.from_arrays(codes.astype(np.int32), self._urls(named)),
                "fetched_us": _at_us(source, np.full(count, second)),
                "repeated": _repeated(place * len(named) + codes),
            }
        )


def _digits(numbers: Numbers) -> pa.Array:
    return pa.array(numbers).cast(pa.string())


def _at_us(pages: Numbers, again: NDArray[np.bool_]) -> Numbers:
    return BEGAN_US + pages * 1_000 + again * 86_400_000_000


def _repeated(pairs: Numbers) -> NDArray[np.bool_]:
    """Which of some numbers were there before."""
    order = np.argsort(pairs, kind="stable")
    found = np.zeros(len(pairs), bool)
    found[order[1:]] = pairs[order[1:]] == pairs[order[:-1]]
    return found
