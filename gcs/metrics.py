"""What is measured, in the text format that Prometheus reads (version 0.0.4).

A meter is one family of samples: its name, what it means, and how it is read off something. Nothing is
counted here on behalf of others: a table of meters is read when somebody asks, and costs nothing until then.
Only a histogram has to be told every value, since nobody else keeps them.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate
from typing import Final, Generic, TypeAlias, TypeVar

MEDIA_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_NAME: Final = re.compile(r"gcs_[a-z0-9_]*[a-z0-9]")
_LABEL: Final = re.compile(r"[a-z][a-z0-9_]*")
_LESS_OR_EQUAL: Final = "le"
_COUNTERS_END: Final = "_total"


class Kind(StrEnum):
    """What may be done with a value."""

    COUNTER = "counter"
    """It only grows while the process lives, and begins at 0 with it."""
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Histogram:
    """How often a value was at most so large; the bounds never change."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        """`bounds` grow, and are finite; what is larger than all of them is counted too."""
        if not all(math.isfinite(bound) for bound in bounds) or list(bounds) != sorted(set(bounds)):
            raise ValueError("The bounds of a histogram are finite, and each is larger than the one before.")
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0
        """The sum of all values."""

    def observe(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


def seconds() -> Histogram:
    """A histogram of durations, from a millisecond to half a minute."""
    return Histogram((0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0))


Labelled: TypeAlias = Mapping[tuple[str, ...], float]
Value: TypeAlias = float | Labelled | Histogram | None
Seen = TypeVar("Seen")


@dataclass(frozen=True, slots=True)
class Meter(Generic[Seen]):
    """One family of samples."""

    name: str
    kind: Kind
    help: str
    read: Callable[[Seen], Value]
    """Its value now: one, or one for each combination of labels, or None where it cannot be told."""
    labels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raises ValueError for names that nobody could read, or that say something else than the kind."""
        if not _NAME.fullmatch(self.name) or not self.help:
            raise ValueError(f"{self.name!r} is not the name of a meter, or it has no help.")
        if self.name.endswith(_COUNTERS_END) != (self.kind is Kind.COUNTER):
            raise ValueError(f"{self.name}: counters, and nothing else, end in {_COUNTERS_END}.")
        if not all(_LABEL.fullmatch(label) and label != _LESS_OR_EQUAL for label in self.labels):
            raise ValueError(f"{self.name}: {self.labels} are no labels.")


def exposition(meters: Iterable[Meter[Seen]], seen: Seen) -> str:
    """All that some meters read off something; every line ends with a newline."""
    lines: list[str] = []
    for meter in meters:
        value = meter.read(seen)
        if value is not None:
            lines.append(f"# HELP {meter.name} {_escaped(meter.help)}\n# TYPE {meter.name} {meter.kind}\n")
            lines += _samples(meter, value)
    return "".join(lines)


def _samples(meter: Meter[Seen], value: float | Labelled | Histogram) -> Iterator[str]:
    if isinstance(value, Histogram):
        yield from _buckets(meter.name, value)
    elif isinstance(value, Mapping):
        for texts, number in value.items():
            yield f"{meter.name}{_labels(meter.labels, texts)} {_number(number)}\n"
    else:
        yield f"{meter.name} {_number(value)}\n"


def _buckets(name: str, histogram: Histogram) -> Iterator[str]:
    upto = list(accumulate(histogram.counts))
    for bound, count in zip((*histogram.bounds, math.inf), upto, strict=True):
        yield f"{name}_bucket{_labels((_LESS_OR_EQUAL,), (_number(bound),))} {count}\n"
    yield f"{name}_sum {_number(histogram.total)}\n"
    yield f"{name}_count {upto[-1]}\n"


def _labels(names: Sequence[str], texts: Sequence[str]) -> str:
    told = ",".join(f'{name}="{_quoted(text)}"' for name, text in zip(names, texts, strict=True))
    return f"{{{told}}}" if told else ""


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")


def _quoted(text: str) -> str:
    return _escaped(text).replace('"', r"\"")


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) and abs(value) < 1 << 53 else repr(float(value))
