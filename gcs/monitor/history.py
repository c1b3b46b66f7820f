"""How it went: pages, bytes, failures and the queue over time, of all and of each gatherer, in bounded size.

One series has the last hour in steps of some seconds, another the last day in minutes: its values are means.
What was not seen is not a number. Times are those of the monitor.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from typing import Any, Final

ALL: Final = ("pages_per_s", "bytes_per_s", "failed_per_s", "queued", "done")
EACH: Final = ("pages_per_s", "queued", "overhead_percent")
RECENT_S: Final = 5.0
RECENT: Final = 720
DAY_S: Final = 60.0
DAY: Final = 1_440
_FLOAT: Final = "f"
_TIME: Final = "d"
Values = Mapping[str, float]


class Series:
    """The last points in equal steps; the oldest makes room for the newest."""

    def __init__(self, every_s: float, most: int) -> None:
        self.every_s, self._most = every_s, most
        self.at = array(_TIME)
        self._all: dict[str, array[float]] = {name: array(_FLOAT) for name in ALL}
        self._each: dict[str, dict[str, array[float]]] = {}

    def add(self, at: float, totals: Values, gatherers: Mapping[str, Values]) -> None:
        """One more point."""
        length = len(self.at)
        self.at.append(at)
        for name, values in self._all.items():
            values.append(totals.get(name, math.nan))
        for gatherer in gatherers:
            if gatherer not in self._each:
                self._each[gatherer] = {name: array(_FLOAT, [math.nan] * length) for name in EACH}
        for gatherer, table in self._each.items():
            for name, values in table.items():
                values.append(gatherers.get(gatherer, {}).get(name, math.nan))
        if len(self.at) > self._most:
            self._drop(len(self.at) - self._most)

    def _drop(self, count: int) -> None:
        for values in (self.at, *self._all.values(), *(v for t in self._each.values() for v in t.values())):
            del values[:count]
        seen = {g: t for g, t in self._each.items() if not all(math.isnan(each) for each in t["queued"])}
        self._each = seen

    @property
    def last(self) -> float:
        """When the newest point was; 0.0 if there is none."""
        return self.at[-1] if self.at else 0.0

    def mean(self, since: float) -> dict[str, float]:
        """The means of all points from a time on."""
        first = bisect_left(self.at, since)
        return {name: _mean(values[first:]) for name, values in self._all.items()}

    def shown(self) -> dict[str, Any]:
        """All points, by name."""
        return {
            "every_s": self.every_s,
            "at": [round(at, 1) for at in self.at],
            **{name: _rounded(values) for name, values in self._all.items()},
            "gatherers": {
                gatherer: {name: _rounded(values) for name, values in table.items()}
                for gatherer, table in sorted(self._each.items())
            },
        }

    def state(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {
            "at": self.at.tobytes(),
            "all": {name: values.tobytes() for name, values in self._all.items()},
            "each": {
                gatherer: {name: values.tobytes() for name, values in table.items()}
                for gatherer, table in self._each.items()
            },
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """What `state` gave; raises ValueError or KeyError for anything else."""
        at = _array(_TIME, state["at"])
        tables = {name: _array(_FLOAT, state["all"][name]) for name in ALL}
        each = {
            str(gatherer): {name: _array(_FLOAT, table[name]) for name in EACH}
            for gatherer, table in state["each"].items()
        }
        every = [*tables.values(), *(values for table in each.values() for values in table.values())]
        if any(len(values) != len(at) for values in every) or len(at) > self._most:
            raise ValueError("series of equal length")
        self.at, self._all, self._each = at, tables, each


class History:
    """Both series."""

    def __init__(self) -> None:
        self.recent, self.day = Series(RECENT_S, RECENT), Series(DAY_S, DAY)

    def is_due(self, now: float) -> bool:
        """Whether it is time for the next point."""
        return not self.recent.at or now - self.recent.at[-1] >= RECENT_S - 0.5

    def add(self, at: float, totals: Values, gatherers: Mapping[str, Values]) -> dict[str, Any]:
        """One more point, which is given back as it is shown."""
        self.recent.add(at, totals, gatherers)
        if not self.day.at or at - self.day.at[-1] >= DAY_S - 0.5:
            self.day.add(at, self.recent.mean(at - DAY_S), {})
        told = {name: _told(totals.get(name, math.nan)) for name in ALL}
        each = {
            name: {what: _told(values.get(what, math.nan)) for what in EACH}
            for name, values in gatherers.items()
        }
        return {"at": round(at, 1), **told, "gatherers": each}

    def shown(self) -> dict[str, Any]:
        """Both, by name."""
        return {"recent": self.recent.shown(), "day": self.day.shown()}


def _array(kind: str, data: bytes) -> array[float]:
    made: array[float] = array(kind)
    made.frombytes(data)
    return made


def _mean(values: Iterable[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return sum(known) / len(known) if known else math.nan


def _rounded(values: Iterable[float]) -> list[float | None]:
    return [_told(value) for value in values]


def _told(value: float) -> float | None:
    return None if math.isnan(value) else round(value, 3)
