"""What every process of GCS tells of itself, whatever it does: that it runs, how it is, and what it needs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import trio

import gcs
from gcs.helper.limits import memory_bytes
from gcs.metrics import Histogram, Kind, Meter, seconds

_LOOK_EVERY_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class Process:
    """This process."""

    role: str
    """"gatherer", "helper", "crawl" or "monitor"."""
    name: str
    crawl: str
    trouble: Callable[[], str]
    """What is wrong with it, in a sentence; "" while it is well."""
    started: float = field(default_factory=time.time)
    loop_delays: Histogram = field(default_factory=seconds)

    async def watch_loop(self) -> None:
        """See how late the event loop is, a few times a second."""
        while True:
            due = trio.current_time() + _LOOK_EVERY_S
            await trio.sleep_until(due)
            self.loop_delays.observe(trio.current_time() - due)

    @property
    def labels(self) -> tuple[str, ...]:
        """Who it is."""
        return self.role, self.name, self.crawl, gcs.__version__


METERS: Final[Sequence[Meter[Process]]] = (
    Meter(
        "gcs_info",
        Kind.GAUGE,
        "Always 1; the labels say who it is, and of which version.",
        lambda process: {process.labels: 1},
        ("role", "name", "crawl", "version"),
    ),
    Meter("gcs_start_time_seconds", Kind.GAUGE, "When it was started, in Unix time.", lambda it: it.started),
    Meter(
        "gcs_well",
        Kind.GAUGE,
        "1 while all its parts answer, by the judgement of the watchdog; else 0.",
        lambda process: not process.trouble(),
    ),
    Meter("gcs_cpu_seconds_total", Kind.COUNTER, "Processor time used.", lambda _: time.process_time()),
    Meter("gcs_memory_bytes", Kind.GAUGE, "Memory held (resident set size).", lambda _: memory_bytes()),
    Meter(
        "gcs_loop_delay_seconds",
        Kind.HISTOGRAM,
        "How late the event loop was, looked at twice a second.",
        lambda process: process.loop_delays,
    ),
)
