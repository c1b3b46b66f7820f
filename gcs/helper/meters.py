"""What a helper measures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gcs.helper.worker import Work
from gcs.metrics import Kind, Meter


@dataclass(frozen=True, slots=True)
class Helping:
    """How a helper is at a moment."""

    work: Work
    slots: int
    """Hosts that it offers to ask at once; 0 while it may not work."""
    is_within_reach: bool
    """Whether the site's server is."""


METERS: Final[Sequence[Meter[Helping]]] = (
    Meter(
        "gcs_helper_may_work",
        Kind.GAUGE,
        "1 while its owner lets it work; else 0.",
        lambda it: it.slots > 0,
    ),
    Meter("gcs_helper_slots", Kind.GAUGE, "Hosts that it offers to ask at once.", lambda it: it.slots),
    Meter(
        "gcs_redis_up",
        Kind.GAUGE,
        "1 if the site's server was within reach the last time; else 0.",
        lambda it: it.is_within_reach,
    ),
    Meter(
        "gcs_helper_bundles_under_way",
        Kind.GAUGE,
        "Bundles of URLs that it is at.",
        lambda it: it.work.under_way,
    ),
    Meter(
        "gcs_helper_bundles_total",
        Kind.COUNTER,
        "Bundles of URLs that it has served.",
        lambda it: it.work.bundles,
    ),
    Meter(
        "gcs_helper_bundles_refused_total",
        Kind.COUNTER,
        "Bundles that did not come from the crawl that has invited it.",
        lambda it: it.work.refused,
    ),
    Meter("gcs_helper_pages_total", Kind.COUNTER, "Answers of servers.", lambda it: it.work.pages),
    Meter(
        "gcs_helper_failures_total",
        Kind.COUNTER,
        "Requests that got no answer.",
        lambda it: it.work.failures,
    ),
    Meter(
        "gcs_helper_fetched_bytes_total",
        Kind.COUNTER,
        "Bodies of the answers, as sent.",
        lambda it: it.work.bytes,
    ),
)
