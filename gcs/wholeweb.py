"""`gcs plan`: what crawling so many pages takes, from what a crawl has measured, beside the paper's estimate.

Rates and sizes come from the latest lines of the crawl logs, what is stored from the disk, links from the
graph, and the time of a ranking from ranking this crawl once.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gcs import doctor
from gcs.config import Config
from gcs.core.estimate import Measured, needs
from gcs.errors import UsageError
from gcs.gatherer import parts
from gcs.graph import engine as engines
from gcs.graph import filed
from gcs.graph.places import host_of
from gcs.graph.tables import visits
from gcs.rank.ranked import rank
from gcs.simulate.report import Report, Table

MONTH_S: Final = 30 * 86_400.0
"""As the paper counts them."""
_LATEST_BYTES: Final = 64 << 20
_FIELDS: Final = 12
_SECOND: Final = len("2026-01-31T12:00:00")
_HELPER: Final = "helper:"


@dataclass(slots=True)
class Logged:
    """What the latest lines of the log of one gatherer say."""

    pages: int = 0
    bytes: int = 0
    seconds: set[str] = field(default_factory=set)
    """Those in which something was fetched: a crawl that was idle for a night was not slow."""
    helped: Counter[str] = field(default_factory=Counter)
    """Pages by helper."""
    helped_seconds: set[str] = field(default_factory=set)


def logged(log: Path) -> Logged:
    """Read the end of a log."""
    found = Logged()
    if not log.exists():
        return found
    with log.open("rb") as stream:
        stream.seek(max(0, log.stat().st_size - _LATEST_BYTES))
        for line in stream:
            words = line.decode("utf-8", "replace").split()
            if len(words) == _FIELDS and words[2].isdigit():
                _count(words, found)
    return found


def _count(words: Sequence[str], found: Logged) -> None:
    at, status, size = words[0][:_SECOND], words[1], words[2]
    found.bytes += int(size)
    if not status.startswith("2"):
        return
    found.pages += 1
    found.seconds.add(at)
    for note in words[-1].split(","):
        if note.startswith(_HELPER):
            found.helped[note.removeprefix(_HELPER)] += 1
            found.helped_seconds.add(at)


def measured(config: Config, directories: Sequence[Path], scratch: Path | None) -> Measured:
    """What a crawl says of itself; raises UsageError where it has fetched nothing yet."""
    stores = [store for directory in directories for store in parts.parts(directory)]
    logs = [each for each in (logged(store / "crawl.log") for store in stores) if each.pages]
    if not logs:
        raise UsageError("nothing has been fetched yet that could be measured.")
    pages, hosts, edges, took_s = _graph(config, stores, scratch or directories[0])
    fetched = sum(log.pages for log in logs)
    alone = [(log.pages - log.helped.total()) / len(log.seconds) for log in logs]
    helping = [each / len(log.helped_seconds) for log in logs for each in log.helped.values()]
    return Measured(
        pages=pages,
        gatherers=len(logs),
        pages_per_s=sum(alone) / len(alone),
        fetched_bytes=sum(log.bytes for log in logs) / fetched,
        stored_bytes=sum(_stored(stores)) / pages,
        links=edges / pages,
        pages_per_host=pages / hosts,
        edges=edges,
        edges_per_s=max(edges, 1) / took_s,
        helper_pages_per_s=sum(helping) / len(helping) if helping else None,
        redis_bytes_per_host=doctor.redis_bytes(config) / hosts if config.redis.url else None,
    )


def _graph(config: Config, stores: Sequence[Path], scratch: Path) -> tuple[int, int, int, float]:
    """Pages, hosts, edges, and the seconds that it took to rank these."""
    with engines.opened(config.rank, scratch) as engine:
        filed.load(engine, stores)
        seen = visits()
        of_pages = seen.aggregate(pages=seen.count(), hosts=host_of(seen.url).nunique())
        pages, hosts = engine.rows(of_pages)[0]
        began = time.perf_counter()
        ranked = rank(engine, by="in-degree", now_us=0, directory=engine.scratch / "ranked")
        took_s = time.perf_counter() - began
        edges = ranked.sizes(engine)[2]
    return int(pages), int(hosts), edges, took_s


def _stored(stores: Sequence[Path]) -> Iterator[int]:
    for store in stores:
        yield from (path.stat().st_size for path in store.rglob("*") if path.is_file())


def plan(
    config: Config,
    directories: Sequence[Path],
    *,
    pages: float,
    months: float,
    alpha: float,
    scratch: Path | None = None,
) -> Report:
    """The needs of crawling so many pages in so many months."""
    found = measured(config, directories, scratch)
    wanted = list(needs(found, pages, months * MONTH_S, alpha=alpha))
    return Report(
        "plan",
        f"Crawling {pages:,.0f} pages in {months:g} months",
        {
            "pages measured": found.pages,
            "gatherers": found.gatherers,
            "pages a second, each": found.pages_per_s,
            "edges ranked a second": found.edges_per_s,
        },
        tables=[
            Table(
                "What it takes",
                ["", "unit", "as measured here", "004's way", "because"],
                [(each.name, each.unit, each.here, each.paper, each.note) for each in wanted],
            )
        ],
        findings=[
            "Politeness is in these rates as it was here: of few hosts a gatherer fetches less than of many.",
            "Section 5.3 of the paper has slips; `gcs simulate frontier` shows them corrected.",
        ],
    )
