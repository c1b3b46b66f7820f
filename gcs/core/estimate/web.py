"""The estimates of 004, section 5.3, for crawling the whole web: what is printed, and what follows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

HOSTS: Final = 200_000_000
NODES: Final = 4_000_000_000
OUT_DEGREE: Final = 200
IN_DEGREE: Final = 10
SIX_MONTHS_S: Final = 15_552_000
URL_BYTES: Final = 100
HEADER_BYTES: Final = 30
TEMPLATE_BYTES: Final = 600
COPIES: Final = 3
LINK_S: Final = 0.1
RANKED_PER_S: Final = 10_000
MEASURED_PER_S: Final = 20_000 / 86_400 / 100
"""What one participant crawled: 100 of them came to 20,000 pages a day (section 5.1)."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """One number of the paper, the number that its own data give, and why they differ.

    `corrected` is None where the data give none.
    """

    name: str
    unit: str
    printed: float
    corrected: float | None
    note: str


def pages_of_hosts(hosts: float, out_degree: float, in_degree: float) -> float:
    """The number of pages that the links of one page per host would reach, if each page had so many."""
    return hosts * out_degree / in_degree


def crawl_rate(nodes: float, seconds: float, *, alpha: float = 1.0) -> float:
    """F = N/(αt): pages per second, of which the share α is new, that crawl so many pages in time (5.1)."""
    return nodes / (alpha * seconds)


def participants(rate: float, each: float) -> float:
    """How many volunteers crawl at a rate together, when each does so many pages per second."""
    return rate / each


def storage_bytes(urls: float, *, url_bytes: float = URL_BYTES, copies: int = COPIES) -> float:
    """The disk space of URLs in a file system that keeps copies."""
    return urls * url_bytes * copies


def bandwidth(nodes: float, bytes_per_node: float, seconds: float) -> float:
    """Bytes per second between server and participants (5.6, 5.7)."""
    return nodes * bytes_per_node / seconds


def ranking_s(records: float, per_second: float) -> float:
    """How long ranking so many records takes."""
    return records / per_second


def whole_web() -> tuple[Estimate, ...]:
    """Every estimate of section 5.3, in the paper's order."""
    rate = crawl_rate(NODES, SIX_MONTHS_S)
    down = bandwidth(NODES, TEMPLATE_BYTES + URL_BYTES + HEADER_BYTES, SIX_MONTHS_S) / 1e6
    up = bandwidth(NODES, OUT_DEGREE * URL_BYTES + HEADER_BYTES, SIX_MONTHS_S) / 1e6
    needed = participants(rate, MEASURED_PER_S)
    ranking = ranking_s(NODES, RANKED_PER_S)
    return (
        Estimate(
            "pages in the web at the end of 2011",
            "pages",
            pages_of_hosts(HOSTS, OUT_DEGREE, IN_DEGREE),
            None,
            "every link leaves one page and enters one, so in-degree and out-degree have the same mean; with "
            "200 for both the formula says one page per host. 4·10⁹ is kept below, as an assumption",
        ),
        Estimate(
            "crawl rate for six months, nothing revisited",
            "pages/s",
            257,
            rate,
            "rounded down although it is the least; with α = 0.9 of new pages it is "
            f"{crawl_rate(NODES, SIX_MONTHS_S, alpha=0.9):.1f}",
        ),
        Estimate(
            "participants for that",
            "participants",
            participants(257, 1 / (OUT_DEGREE * LINK_S)),
            needed,
            "supposes 0.05 pages/s each (200 links at 0.1 s, nothing else); measured were 20,000 pages by "
            f"100 participants, which is {MEASURED_PER_S:.5f} for a day's work, as figure 5.1 suggests",
        ),
        Estimate(
            "storage",
            "GB",
            1_200,
            storage_bytes(NODES * (1 + OUT_DEGREE)) / 1e9,
            "counts the pages' URLs only; the 200 links of each page, which are stored with it, are as long",
        ),
        Estimate(
            "download from the server",
            "MB/s",
            0.183,
            down,
            "divided by 1,000 once and by 1,024 once",
        ),
        Estimate("upload to the server", "MB/s", 5, up, ""),
        Estimate("download, compressed 10:1", "MB/s", 0.0183, down / 10, ""),
        Estimate("upload, compressed 10:1", "MB/s", 0.5, up / 10, ""),
        Estimate(
            "ranking all URLs",
            "s",
            400_000,
            ranking,
            "10,000 records/s is assumed. Table 5.2 would give 3,200 extrapolated to its "
            "compression rate of 1, or 37,000 by what each further record took",
        ),
        Estimate(
            "ranking, as a share of six months",
            "%",
            0.2,
            100 * ranking / SIX_MONTHS_S,
            "400,000 of 15,552,000 seconds",
        ),
    )
