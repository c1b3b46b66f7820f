"""How long pages take, by host: the gatherer's own time, shared out by what fetching and reading them took.

Many pages are under way at once, so the durations of fetches add up to far more than the time that has
passed. What decides when a gatherer is done is that time. So the time between two commits is shared out among
the hosts of the pages that came in it, in proportion to their durations: pages per second are then the rate
at which this gatherer really works, and hosts that answer slowly are still told from those that answer fast.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

_SLACK_S: Final = 0.1


class Paces:
    """Pages and seconds by host, since the last plan."""

    def __init__(self) -> None:
        self._now: dict[str, list[float]] = {}
        self._all: dict[str, list[float]] = {}

    def took(self, host: str, seconds: float, *, pages: int = 1) -> None:
        """Fetching or reading pages of a host took so long."""
        seen = self._now.get(host)
        if seen is None:
            seen = self._now[host] = [0.0, 0.0]
        seen[0] += pages
        seen[1] += seconds

    def passed(self, seconds: float) -> None:
        """So much time has passed since this was last said; what nothing was done in does not count."""
        total = sum(seen[1] for seen in self._now.values())
        seconds = min(seconds, total + _SLACK_S)
        for host, (pages, took) in self._now.items():
            seen = self._all.setdefault(host, [0.0, 0.0])
            seen[0] += pages
            seen[1] += seconds * took / total if total > 0 else 0.0
        self._now.clear()

    def clear(self) -> None:
        """Begin anew, after a plan."""
        self._now.clear()
        self._all.clear()

    def __iter__(self) -> Iterator[tuple[str, float, float]]:
        """Each host with its pages and seconds."""
        return ((host, pages, seconds) for host, (pages, seconds) in self._all.items())

    @property
    def total(self) -> tuple[float, float]:
        """Pages and seconds of all hosts."""
        return sum(each[0] for each in self._all.values()), sum(each[1] for each in self._all.values())
