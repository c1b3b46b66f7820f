"""What a crawl measures: read off what it counts anyway, when somebody asks.

Counters begin at 0 with the process, also where the store has counted for longer: after a crash the store may
know a little less than was told before, and a counter must not go down but by a restart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import trio

from gcs.core.politeness import Statistics
from gcs.fetch.transport import Transport, TransportStatistics
from gcs.gatherer.crawl import Crawl
from gcs.metrics import Kind, Labelled, Meter, exposition
from gcs.store.errors import StoreError
from gcs.store.records import Counts, Ledger, StoreStatistics
from gcs.store.store import Store

_CLASSES: Final = ("1xx", "2xx", "3xx", "4xx", "5xx", "other")


def labelled(values: Mapping[str, float]) -> Labelled:
    """Values of a meter that has one label."""
    return {(name,): value for name, value in values.items()}


@dataclass(frozen=True, slots=True)
class Begun:
    """What was counted before this process."""

    helped: int
    statuses: Mapping[int, int]
    reasons: Mapping[str, int]
    ledger: Ledger


@dataclass(frozen=True, slots=True)
class Crawling:
    """How a crawl is at a moment."""

    crawl: Crawl
    begun: Begun
    store: StoreStatistics
    transport: TransportStatistics
    bench: Statistics
    free_bytes: int | None
    keep_free_bytes: int

    def pages(self) -> Labelled:
        """Answers by the class of their status."""
        found = dict.fromkeys(_CLASSES, 0)
        for status, count in self.crawl.tally.statuses.items():
            each = f"{status // 100}xx"
            found[each if each in found else _CLASSES[-1]] += count - self.begun.statuses.get(status, 0)
        return labelled(found)

    def failures(self) -> Labelled:
        """URLs that failed or were dropped."""
        before = self.begun.reasons
        return {(why,): count - before.get(why, 0) for why, count in self.crawl.tally.reasons.items()}

    def urls(self) -> Labelled:
        """URLs by where they stand."""
        counts: Counts = self.store.counts
        return labelled(
            {
                "queued": counts.queued,
                "done": counts.done,
                "dropped": counts.dropped,
                "passed": counts.passed,
            }
        )

    def connections(self) -> Labelled:
        """Connections by what is done with them."""
        it = self.transport
        return labelled({"active": it.active, "idle": it.idle, "opening": it.open - it.active - it.idle})


METERS: Final[Sequence[Meter[Crawling]]] = (
    Meter("gcs_pages_total", Kind.COUNTER, "Answers of servers, by status.", Crawling.pages, ("status",)),
    Meter(
        "gcs_fetched_bytes_total",
        Kind.COUNTER,
        "Bodies of these answers, as sent.",
        lambda it: it.crawl.fetched_bytes,
    ),
    Meter(
        "gcs_failures_total",
        Kind.COUNTER,
        "Attempts without an answer, and URLs that were dropped, by reason.",
        Crawling.failures,
        ("reason",),
    ),
    Meter("gcs_urls", Kind.GAUGE, "URLs in the store, by where they stand.", Crawling.urls, ("state",)),
    Meter("gcs_urls_in_flight", Kind.GAUGE, "Queued URLs that are under way.", lambda it: it.store.in_flight),
    Meter("gcs_requests_under_way", Kind.GAUGE, "Requests under way.", lambda it: it.crawl.busy),
    Meter(
        "gcs_pages_read_apart",
        Kind.GAUGE,
        "Pages that are being read by other processes, or wait for it.",
        lambda it: it.crawl.apart.count,
    ),
    Meter(
        "gcs_readers_started_total",
        Kind.COUNTER,
        "Processes started to read what is neither HTML nor plain text.",
        lambda it: it.crawl.apart.started,
    ),
    Meter(
        "gcs_readers_lost_total",
        Kind.COUNTER,
        "Those of them that hung, crashed, or ran out of memory.",
        lambda it: it.crawl.apart.lost,
    ),
    Meter(
        "gcs_rest_seconds",
        Kind.GAUGE,
        "How long it is until a host may be asked; +Inf when none waits.",
        lambda it: it.crawl.rest_s,
    ),
    Meter(
        "gcs_hosts",
        Kind.GAUGE,
        "Hosts in memory: all that are known, and those that have something to fetch.",
        lambda it: labelled({"known": it.bench.hosts, "awake": it.bench.awake}),
        ("state",),
    ),
    Meter("gcs_addresses", Kind.GAUGE, "Addresses of hosts in memory.", lambda it: it.bench.addresses),
    Meter("gcs_turns_total", Kind.COUNTER, "Turns of hosts that were taken.", lambda it: it.bench.taken),
    Meter(
        "gcs_connections", Kind.GAUGE, "Open connections to web servers.", Crawling.connections, ("state",)
    ),
    Meter("gcs_connections_made_total", Kind.COUNTER, "Connections made.", lambda it: it.transport.made),
    Meter(
        "gcs_connections_reused_total",
        Kind.COUNTER,
        "Requests on a connection that was there.",
        lambda it: it.transport.reused,
    ),
    Meter(
        "gcs_requests_retried_total",
        Kind.COUNTER,
        "Requests sent again because the connection had been closed.",
        lambda it: it.transport.retried,
    ),
    Meter(
        "gcs_web_bytes_total",
        Kind.COUNTER,
        "Bytes exchanged with web servers, without what TLS adds.",
        lambda it: labelled({"sent": it.transport.bytes_out, "received": it.transport.bytes_in}),
        ("direction",),
    ),
    Meter(
        "gcs_commit_seconds",
        Kind.HISTOGRAM,
        "How long commits took.",
        lambda it: it.crawl.writer.commit_times,
    ),
    Meter(
        "gcs_commit_age_seconds",
        Kind.GAUGE,
        "How long ago the last commit was.",
        lambda it: it.crawl.commit_age_s,
    ),
    Meter("gcs_disk_free_bytes", Kind.GAUGE, "Room on the disk of the store.", lambda it: it.free_bytes),
    Meter(
        "gcs_disk_keep_free_bytes",
        Kind.GAUGE,
        "Below this room the crawl waits (store.keep_free).",
        lambda it: it.keep_free_bytes,
    ),
    Meter(
        "gcs_disk_waits",
        Kind.GAUGE,
        "1 while the crawl waits for room on the disk; else 0.",
        lambda it: it.crawl.writer.waits_for_room,
    ),
    Meter(
        "gcs_warc_bytes_total", Kind.COUNTER, "Bytes written to WARC files.", lambda it: it.store.warc_bytes
    ),
    Meter(
        "gcs_journal_rows",
        Kind.GAUGE,
        "Rows that wait for their Parquet file, by kind.",
        lambda it: labelled(it.store.journalled),
        ("kind",),
    ),
    Meter(
        "gcs_segments_total",
        Kind.COUNTER,
        "Parquet files written, by kind.",
        lambda it: labelled(it.store.segments),
        ("kind",),
    ),
)


class CrawlMeters:
    """The meters of a crawl in its store."""

    def __init__(self, crawl: Crawl, store: Store, transport: Transport) -> None:
        tally = crawl.tally
        self.begun = Begun(tally.helped, Counter(tally.statuses), Counter(tally.reasons), store.ledger())
        self._crawl, self._store, self._transport = crawl, store, transport

    async def __call__(self) -> str:
        """What they say now."""
        free_bytes: int | None = None
        with suppress(StoreError):
            # A disk may be slow to tell.
            free_bytes = await trio.to_thread.run_sync(self._store.free_bytes, abandon_on_cancel=True)
        crawling = Crawling(
            self._crawl,
            self.begun,
            self._store.statistics(),
            self._transport.statistics(),
            self._crawl.bench.statistics(),
            free_bytes=free_bytes,
            keep_free_bytes=self._crawl.keep_free_bytes,
        )
        return exposition(METERS, crawling)
