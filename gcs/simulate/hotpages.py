"""003, section 6: how large the queue gets and how many links cross, with hot-page tables of several sizes.

The graph is scale-free: pages have in-degrees by a power law, so few pages have most of the links. Some links
stay within the site. A gatherer visits pages in the order of its queue. It drops a link to a page that it has
visited. Any other it queues, or sends to its owner, even if it did so before, unless its table of hot pages
knows that; so one page can be in a queue many times. A visited page that comes up again is only taken off.

*Sequential* is one gatherer, as in the paper's experiment: how the queue grows, compared with the pages
visited. *Collaborative* is several, which own sites: how many of the links that cross are sent through the
tuple space. The table that is large enough for all is the paper's communication hit-hashtable, which memory
cannot hold.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from gcs.core.hotpages import HotPages
from gcs.simulate.report import Figure, Progress, Report, Series, Table, Value, counted

IntArray = npt.NDArray[np.int64]

SITE_PAGES: Final = 20
PUBLISHED: Final = 15
"""003: the queue grows "more than 15 times" faster than the hit-hashtable."""
EARLY: Final = (0.01, 0.05, 0.1, 0.2)


def scale_free(
    pages: int, degree: float, exponent: float, local: float, rng: np.random.Generator
) -> list[IntArray]:
    """For each page the pages that it links to; in-degrees follow a power law with this exponent."""
    out = np.maximum(1, rng.poisson(degree, pages))
    popular = rng.permutation(np.arange(1, pages + 1)) ** (-1 / (exponent - 1))
    targets = rng.choice(pages, int(out.sum()), p=popular / popular.sum())
    source = np.repeat(np.arange(pages), out)
    nearby = source // SITE_PAGES * SITE_PAGES + rng.integers(0, SITE_PAGES, len(source))
    targets = np.where(rng.random(len(source)) < local, np.minimum(nearby, pages - 1), targets)
    return np.split(targets, np.cumsum(out)[:-1])


@dataclass(slots=True)
class Crawl:
    """What one crawl came to."""

    visited: list[int]
    queued: list[int]
    crossing: int = 0
    sent: int = 0
    fetches: int = 0
    taken: int = 0

    @property
    def peak(self) -> int:
        """The most that was ever queued."""
        return max(self.queued)

    def ratio(self, part: float, pages: int) -> float:
        """Entries in the queue for each page visited, when this part of all pages was visited."""
        at = int(np.searchsorted(self.visited, part * pages))
        at = min(at, len(self.visited) - 1)
        return self.queued[at] / self.visited[at]


def crawl(links: Sequence[IntArray], gatherers: int, capacity: int, seeds: Sequence[int]) -> Crawl:
    """Visit everything that can be reached, one page of each gatherer in turn."""
    tables = [HotPages(capacity) for _ in range(gatherers)]
    queues: list[deque[int]] = [deque() for _ in range(gatherers)]
    visited = bytearray(len(links))
    names = [str(page) for page in range(len(links))]
    owner = [page // SITE_PAGES * 2654435761 % 2**32 * gatherers >> 32 for page in range(len(links))]
    found = Crawl([], [])
    for seed in seeds:
        queues[owner[seed]].append(seed)
    every = max(1, len(links) // 200)
    while any(queues):
        for number, queue in enumerate(queues):
            if not queue:
                continue
            page = queue.popleft()
            found.taken += 1
            if visited[page]:
                continue
            visited[page] = 1
            found.fetches += 1
            known = tables[number].passed_on
            for target in links[page].tolist():
                whose = owner[target]
                if whose != number:
                    found.crossing += 1
                    if not known(names[target]):
                        found.sent += 1
                        if not visited[target]:
                            queues[whose].append(target)
                elif not visited[target] and not known(names[target]):
                    queue.append(target)
            if found.fetches % every == 0:
                found.visited.append(found.fetches)
                found.queued.append(sum(map(len, queues)))
    return found


def run(
    *,
    seed: int,
    progress: Progress,
    pages: int = 20_000,
    degree: float = 20.0,
    exponent: float = 2.1,
    local: float = 0.3,
    gatherers: int = 8,
    tables: Sequence[float] = (0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 1.0),
    repeats: int = 5,
) -> Report:
    """Queue and crossing links for tables that hold these parts of all pages."""
    graphs = [
        scale_free(pages, degree, exponent, local, np.random.default_rng((seed, repeat)))
        for repeat in range(repeats)
    ]
    tick = counted(progress, 2 * len(tables) * repeats)

    def all_of(count: int, part: float) -> list[Crawl]:
        crawls = []
        for repeat, graph in enumerate(graphs):
            rng = np.random.default_rng((seed, repeat, 1))
            capacity = 2 * pages if part >= 1 else round(part * pages)
            crawls.append(crawl(graph, count, capacity, rng.integers(0, pages, 10).tolist()))
            tick()
        return crawls

    alone = {part: all_of(1, part) for part in tables}
    together = {part: all_of(gatherers, part) for part in tables}
    return Report(
        name="hotpages",
        title="Hot pages: queue size and crossing links on a scale-free graph (003, section 6)",
        parameters={
            "seed": seed,
            "pages": pages,
            "degree": degree,
            "exponent": exponent,
            "local": local,
            "gatherers": gatherers,
            "repeats": repeats,
        },
        tables=[_sequential(alone, pages), _collaborative(together, pages, gatherers)],
        figures=[_queue_figure(alone), _crossing_figure(together)],
        findings=_findings(alone, together, pages),
    )


Crawls = dict[float, list[Crawl]]


def _mean(crawls: Sequence[Crawl], of: Callable[[Crawl], float]) -> float:
    return float(np.mean([of(each) for each in crawls]))


def _std(crawls: Sequence[Crawl], of: Callable[[Crawl], float]) -> float:
    return float(np.std([of(each) for each in crawls]))


def _named(part: float) -> str:
    return "none" if part == 0 else "all" if part >= 1 else f"{100 * part:g}%"


def _growth(part: float, pages: int) -> Callable[[Crawl], float]:
    return lambda each: each.ratio(part, pages)


def _sequential(alone: Crawls, pages: int) -> Table:
    rows: list[Sequence[Value]] = [
        (
            _named(part),
            *(_mean(crawls, _growth(early, pages)) for early in EARLY),
            _mean(crawls, lambda c: c.peak / pages),
            _std(crawls, lambda c: c.peak / pages),
            _mean(crawls, lambda c: c.taken / c.fetches),
        )
        for part, crawls in alone.items()
    ]
    early = [f"at {100 * part:g}%" for part in EARLY]
    columns = ("table", *early, "peak/pages", "spread", "taken off per page")
    return Table(
        "Sequential: entries in the queue for each page visited, by part of the graph visited", columns, rows
    )


def _collaborative(together: Crawls, pages: int, gatherers: int) -> Table:
    rows: list[Sequence[Value]] = [
        (
            _named(part),
            _mean(crawls, lambda c: c.crossing / c.fetches),
            _mean(crawls, lambda c: c.sent / c.fetches),
            _mean(crawls, lambda c: c.sent / c.crossing),
            _std(crawls, lambda c: c.sent / c.crossing),
            _mean(crawls, lambda c: c.peak / pages),
        )
        for part, crawls in together.items()
    ]
    columns = ("table", "crossing/page", "sent/page", "sent/crossing", "spread", "peak queue/pages")
    title = f"Collaborative: {gatherers} gatherers, each with a table of that part of all pages"
    return Table(title, columns, rows)


def _queue_figure(alone: Crawls) -> Figure:
    series = []
    for part, crawls in alone.items():
        length = min(len(each.queued) for each in crawls)
        x = [float(count) for count in crawls[0].visited[:length]]
        queued = np.array([each.queued[:length] for each in crawls])
        series.append(
            Series(f"table: {_named(part)}", x, queued.mean(axis=0).tolist(), queued.std(axis=0).tolist())
        )
    return Figure("Sequential: the queue", "pages visited", "entries in the queue", series)


def _crossing_figure(together: Crawls) -> Figure:
    parts = [part for part in together if 0 < part < 1]

    def share(each: Crawl) -> float:
        return 100 * each.sent / each.crossing

    y, spread = ([of(together[part], share) for part in parts] for of in (_mean, _std))
    series = Series("sent", [100 * part for part in parts], y, spread)
    title = "Collaborative: crossing links that are sent"
    return Figure(title, "table, % of all pages", "% of crossing links", [series], log_x=True)


def _findings(alone: Crawls, together: Crawls, pages: int) -> list[str]:
    found = []
    if 0.0 in alone:
        growth = [_mean(alone[0.0], _growth(early, pages)) for early in EARLY]
        shown = ", ".join(
            f"{value:.1f} at {100 * early:g}%" for value, early in zip(growth, EARLY, strict=True)
        )
        as_published = "As published" if growth[0] > PUBLISHED else "Not as published"
        found.append(
            f"{as_published} (the queue grows more than {PUBLISHED} times faster than the hit-hashtable): "
            f"without a table it has, for each page visited, {shown} of the graph visited."
        )
    small = [part for part in together if 0 < part < 1]
    if small and 0.0 in together:
        best = max(small)
        found.append(_saving(alone, together, min(small), pages))
        if best != min(small):
            found.append(_saving(alone, together, best, pages))
    return found


def _saving(alone: Crawls, together: Crawls, part: float, pages: int) -> str:
    queue = 1 - _mean(alone[part], lambda c: c.peak) / _mean(alone[0.0], lambda c: c.peak)
    links = 1 - _mean(together[part], lambda c: c.sent) / _mean(together[0.0], lambda c: c.sent)
    return (
        f"A table of {_named(part)} of the pages ({round(part * pages):,} URLs) makes the largest queue "
        f"{100 * queue:.0f}% shorter and sends {100 * links:.0f}% fewer of the crossing links."
    )
