"""What a crawl shows of itself: a line that is kept up to date on a terminal, log lines elsewhere, and in the
end what it came to."""

from __future__ import annotations

import math
import shutil
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, TextIO

import click
import structlog
import trio

from gcs.core.dates import for_people
from gcs.gatherer.crawl import Crawl, Ending
from gcs.gatherer.tally import Pace, Tally, most, size
from gcs.store.records import Counts
from gcs.store.store import Store

if TYPE_CHECKING:
    from gcs.core.estimate import Progress

EVERY_S: Final = 1.0
LOG_EVERY_S: Final = 10.0
_CLEAR: Final = "\r\x1b[K"
_ROWS: Final = 8


class Screen(ABC):
    """Shows a crawl on a stream, whoever crawls."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._live = stream.isatty()
        self._pace = Pace(trio.current_time())
        self._log = structlog.get_logger()

    @property
    @abstractmethod
    def pages(self) -> int:
        """Answers that this run got."""

    @abstractmethod
    def line(self) -> str:
        """How it goes, in one line."""

    @abstractmethod
    def facts(self) -> dict[str, object]:
        """The same for a log."""

    async def show(self) -> None:
        """Show how it goes, until cancelled."""
        while True:
            await trio.sleep(EVERY_S if self._live else LOG_EVERY_S)
            self._pace.note(trio.current_time(), self.pages)
            if self._live:
                width = shutil.get_terminal_size().columns
                self._stream.write(_CLEAR + self.line()[: width - 1])
                self._stream.flush()
            else:
                self._log.info("crawling", **self.facts())

    def clear(self) -> None:
        """Take the line away."""
        if self._live:
            self._stream.write(_CLEAR)

    def say(self, sentence: str) -> None:
        """A sentence of its own."""
        self.clear()
        click.echo(sentence, file=self._stream)

    def sum_up(self, ending: Ending, tally: Tally, counts: Counts) -> None:
        """What the crawl came to."""
        self._pace.note(trio.current_time(), self.pages)
        self.say(
            f"{ending.value.capitalize()}: {tally.pages:,} pages, {size(tally.size_bytes)}, "
            f"{self._pace.overall:,.1f} pages/s; {counts.done:,} URLs done, {counts.dropped:,} dropped, "
            f"{counts.queued:,} queued."
        )
        statuses = {str(status): count for status, count in tally.statuses.items()}
        for title, table in (
            ("status", statuses),
            ("type", tally.types.counts),
            ("language", tally.languages),
            ("host", tally.hosts.counts),
            ("reason", tally.reasons),
            ("revisit", tally.visits),
        ):
            if table:
                self.say(_row(title, most(table, _ROWS), len(table) - _ROWS))


class Console(Screen):
    """Shows the crawl of one gatherer."""

    def __init__(self, crawl: Crawl, store: Store, stream: TextIO) -> None:
        super().__init__(stream)
        self._crawl, self._store = crawl, store

    @property
    def pages(self) -> int:
        """Answers that this run got."""
        return self._crawl.pages

    def line(self) -> str:
        """How it goes, in one line."""
        tally, counts = self._crawl.tally, self._store.counts()
        busiest = ", ".join(f"{name} {count:,}" for name, count in most(tally.hosts.counts, 3))
        parts = [
            f"{tally.pages:,} pages",
            f"{self._pace.recent:,.0f}/s",
            f"{counts.queued:,} queued",
            size(tally.size_bytes),
            f"{sum(tally.reasons.values()):,} failed",
            far_along(tally.progress(), counts),
            self._under_way(),
            f"busiest: {busiest}" if busiest else "",
        ]
        return " · ".join(part for part in parts if part)

    def _under_way(self) -> str:
        rest_s, next_at = self._crawl.rest_s, self._crawl.next_visit_at
        if self._crawl.is_idle and math.isinf(rest_s) and self._crawl.now() < next_at < math.inf:
            return f"caught up, next page due at {for_people(next_at)}"
        if self._crawl.busy or rest_s < EVERY_S or math.isinf(rest_s):
            return f"{self._crawl.busy} under way"
        return f"waiting, {rest_s:.0f} s to the next try"

    def facts(self) -> dict[str, object]:
        """The same for a log."""
        tally, counts = self._crawl.tally, self._store.counts()
        return {
            "pages": tally.pages,
            "per_second": round(self._pace.recent, 1),
            "queued": counts.queued,
            "bytes": tally.size_bytes,
            "failed": sum(tally.reasons.values()),
            "far_along": far_along(tally.progress(), counts),
            "under_way": self._crawl.busy,
        }


def _row(title: str, entries: Sequence[tuple[str, int]], more: int) -> str:
    shown = "  ".join(f"{name} {count:,}" for name, count in entries)
    return f"  by {title + ':':<10} {shown}" + (f"  and {more} more" if more > 0 else "")


def far_along(progress: Progress | None, counts: Counts) -> str:
    """How far along a crawl is, as far as can be said."""
    if progress is None or progress.share is None:
        return ""
    least, most_ = progress.shares
    if progress.high is None:
        return "no end in sight" if counts.accepted > 10_000 else ""
    return f"{progress.share:.0%} done ({least:.0%}–{min(most_, 1):.0%})"
