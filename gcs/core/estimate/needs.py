"""What crawling so many pages in some time takes, from what a crawl has measured (004, sections 5.2 and 5.3).

Each need stands beside what the paper's way of estimating gives for the same pages and the same time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from gcs.core.estimate import web
from gcs.core.estimate.pending_list import peak

ENOUGH_EDGES: Final = 10_000_000
"""Of fewer, a ranking takes its time to begin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a crawl has found out; None for what it could not."""

    pages: int
    gatherers: int
    pages_per_s: float
    """Of one gatherer, while it had anything to do, without helpers."""
    fetched_bytes: float
    """For each page, with all that was asked for beside it."""
    stored_bytes: float
    """For each page, everything."""
    links: float
    """Other URLs that a page names."""
    pages_per_host: float
    edges: int
    """Ranked to measure the following."""
    edges_per_s: float
    helper_pages_per_s: float | None = None
    redis_bytes_per_host: float | None = None


@dataclass(frozen=True, slots=True)
class Need:
    """One number, the paper's beside it, and what it rests on."""

    name: str
    unit: str
    here: float | None
    paper: float | None
    note: str = ""


def needs(measured: Measured, pages: float, seconds: float, *, alpha: float) -> Iterator[Need]:
    """All needs; of what is fetched, the share α is new. Raises ValueError for what cannot be crawled."""
    rate = web.crawl_rate(pages, seconds, alpha=alpha)
    printed_rate = web.crawl_rate(pages, seconds)
    yield Need(
        "pages a second, all together", "pages/s", rate, printed_rate, f"α = {alpha:g}; in the paper 1"
    )
    yield Need(
        "gatherers",
        "",
        math.ceil(rate / measured.pages_per_s),
        None,
        f"one fetches {measured.pages_per_s:,.1f} pages/s here",
    )
    yield _helpers(measured, rate, printed_rate)
    yield from _volumes(measured, pages, seconds, rate)
    yield _redis(measured, pages)
    yield from _analysis(measured, pages, seconds)


def _helpers(measured: Measured, rate: float, printed_rate: float) -> Need:
    each = measured.helper_pages_per_s
    paper = web.participants(printed_rate, 1 / (web.OUT_DEGREE * web.LINK_S))
    if each is None:
        return Need("helpers, if they fetched everything", "", None, paper, "no helper was seen at work here")
    count = math.ceil(web.participants(rate, each))
    return Need(
        "helpers, if they fetched everything", "", count, paper, f"one fetches {each:,.2f} pages/s here"
    )


def _volumes(measured: Measured, pages: float, seconds: float, rate: float) -> Iterator[Need]:
    yield Need(
        "bandwidth from the web",
        "MB/s",
        rate * measured.fetched_bytes / 1e6,
        None,
        f"{measured.fetched_bytes:,.0f} bytes a page; the paper counts only what server and clients exchange",
    )
    up = web.OUT_DEGREE * web.URL_BYTES + web.HEADER_BYTES
    yield Need("results of volunteers", "MB/s", None, web.bandwidth(pages, up, seconds) / 1e6, "uncompressed")
    yield Need(
        "storage",
        "GB",
        pages * measured.stored_bytes / 1e9,
        web.storage_bytes(pages) / 1e9,
        f"{measured.stored_bytes:,.0f} bytes a page, once; the paper keeps URLs only, three times",
    )


def _redis(measured: Measured, pages: float) -> Need:
    hosts = pages / measured.pages_per_host
    if measured.redis_bytes_per_host is None:
        return Need("memory of Redis", "GB", None, None, "measured where redis.url is set")
    size = hosts * measured.redis_bytes_per_host / 1e9
    note = f"{measured.redis_bytes_per_host:,.0f} bytes a host, {measured.pages_per_host:,.1f} pages a host"
    return Need("memory of Redis", "GB", size, None, note)


def _analysis(measured: Measured, pages: float, seconds: float) -> Iterator[Need]:
    edges = pages * measured.links
    ranking_s = web.ranking_s(edges, measured.edges_per_s)
    printed_s = web.ranking_s(pages, web.RANKED_PER_S)
    yield Need(
        "ranking everything once",
        "s",
        ranking_s,
        printed_s,
        _ranked(measured),
    )
    yield Need("ranking, of the whole time", "%", 100 * ranking_s / seconds, 100 * printed_s / seconds)
    if 1 < measured.links < pages - 1:
        longest = peak(pages, measured.links).p_max
        yield Need(
            "longest list of pending URLs",
            "URLs",
            longest,
            peak(pages, web.OUT_DEGREE).p_max if pages > web.OUT_DEGREE + 1 else None,
            "by the corrected formula (5.3)",
        )


def _ranked(measured: Measured) -> str:
    said = (
        f"{measured.edges_per_s:,.0f} edges/s here, {measured.links:,.1f} a page; in the paper 10,000 URLs/s"
    )
    return (
        said if measured.edges >= ENOUGH_EDGES else f"{said}. Of {measured.edges:,} edges, too few to judge"
    )
