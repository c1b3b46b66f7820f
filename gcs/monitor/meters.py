"""What a monitor measures of itself, and the little of the crawl that it alone sees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gcs.metrics import Kind, Meter, exposition
from gcs.monitor.watch import Watch

METERS: Final[Sequence[Meter[Watch]]] = (
    Meter(
        "gcs_redis_up",
        Kind.GAUGE,
        "1 if the crawl's Redis was within reach at the last look; else 0.",
        lambda watch: not watch.trouble,
    ),
    Meter(
        "gcs_monitor_listeners",
        Kind.GAUGE,
        "Pages and programs that listen to live events.",
        lambda watch: watch.stream.listeners,
    ),
    Meter(
        "gcs_monitor_cut_off_total",
        Kind.COUNTER,
        "Of these, those that were cut off since they did not keep up.",
        lambda watch: watch.stream.cut_off,
    ),
    Meter(
        "gcs_monitor_look_seconds",
        Kind.HISTOGRAM,
        "How long a look at the crawl took.",
        lambda watch: watch.look_times,
    ),
    Meter(
        "gcs_monitor_gatherers",
        Kind.GAUGE,
        "Gatherers of the crawl, by whether they are there.",
        lambda watch: watch.present(),
        ("state",),
    ),
)


class MonitorMeters:
    """What a monitor says when it is asked."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    async def __call__(self) -> str:
        """All of it."""
        return exposition(METERS, self._watch)
