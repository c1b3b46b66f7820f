"""When a helper may work: what the owner of the desktop has said, held against how things are now.

`Terms` are the owner's words, `Surroundings` what was found out a moment ago, and `decide` gives a `Consent`:
whether to work, why in plain words, and when to look again. Nothing here looks at a clock: the time comes in
as the clock on the wall shows it, so a change to summer time is no matter: "20:00" is when the wall says so.

Hours are kept as intervals of the week, in minutes since Monday 00:00. Invariant: they are sorted, do not
touch each other, and none is empty; what runs over the end of the week is cut there.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from gcs.settings import duration_s, size_bytes

NOTICE_S: Final = 5.0
"""How soon a working helper notices that it has to stop."""
AT_MOST_S: Final = 60.0
"""A resting helper looks at least so often: clocks are set, and machines sleep."""
LEAST_BANDWIDTH_BYTES: Final = 16 << 10
"""With less a page of the usual size would take longer than servers wait."""

_SOON_S: Final = 1.0
_DAY_MIN: Final = 24 * 60
_WEEK_MIN: Final = 7 * _DAY_MIN
_DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_ANY_DAY: Final = "|".join(_DAYS)
_CLOCK: Final = "([0-9]{1,2}):([0-9]{2})"
_RANGE: Final = re.compile(rf"(?:({_ANY_DAY})(?:-({_ANY_DAY}))? +)?{_CLOCK}-{_CLOCK}")


class Network(StrEnum):
    """What is known of the way to the web."""

    UNCHECKED = "unchecked"
    CLEAR = "clear"
    CAPTIVE = "captive"
    """Something else answers: a portal that wants a login first."""
    OFFLINE = "offline"


@dataclass(frozen=True, slots=True)
class Hours:
    """The hours of the week in which work is welcome."""

    text: str
    """As the owner wrote them."""
    spans: tuple[tuple[int, int], ...]
    """Minutes of the week, [from, to)."""

    @classmethod
    def read(cls, text: str) -> Hours:
        """Read ranges with commas between them, such as "mon-fri 20:00-07:00, sat-sun 00:00-24:00".

        A range that ends before it begins runs over midnight, and belongs to the day on which it begins.
        Raises ValueError, with one sentence.
        """
        spans: list[tuple[int, int]] = []
        for part in text.split(","):
            for start, end in _read_range(part.strip().lower()):
                spans.append((start, min(end, _WEEK_MIN)))
                if end > _WEEK_MIN:
                    spans.append((0, end - _WEEK_MIN))
        return cls(text, _joined(spans))

    def are_open(self, at: datetime) -> bool:
        """Whether this moment, by the clock on the wall, lies within."""
        minute = _week_s(at) / 60
        return any(start <= minute < end for start, end in self.spans)

    def until_change_s(self, at: datetime) -> float:
        """The seconds until they end or begin, if nobody touches the clock; infinite if they never end."""
        now_s = _week_s(at)
        if self.spans == ((0, _WEEK_MIN),):
            return math.inf
        if not self.are_open(at):
            starts = [start * 60 for start, _ in self.spans]
            return min((start - now_s) % (_WEEK_MIN * 60) for start in starts)
        end = next(end for start, end in self.spans if start <= now_s / 60 < end)
        if end == _WEEK_MIN and self.spans[0][0] == 0:
            end += self.spans[0][1]
        return end * 60 - now_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What the owner has said; `None` means that it does not matter, or no limit."""

    hours: Hours | None = None
    idle_s: float | None = None
    """How long nobody must have touched the desktop."""
    on_battery: bool = False
    max_bandwidth_bytes: int | None = None
    """Bytes a second, both ways together."""
    max_cpu_percent: float | None = None
    """Of one core."""
    max_memory_bytes: int | None = None

    @classmethod
    def read(
        cls,
        *,
        hours: str | None = None,
        when_idle: str | None = None,
        on_battery: bool = False,
        max_bandwidth: str | None = None,
        max_cpu: float | None = None,
        max_memory: str | None = None,
    ) -> Terms:
        """The terms as the command line has them; raises ValueError, with one sentence."""
        if max_cpu is not None and not 0 < max_cpu <= 100:
            raise ValueError(
                f"--max-cpu {max_cpu:g} must be more than 0 and at most 100, in percent of one core."
            )
        return cls(
            hours=None if hours is None else Hours.read(hours),
            idle_s=None if when_idle is None else _read_idle(when_idle),
            on_battery=on_battery,
            max_bandwidth_bytes=None if max_bandwidth is None else _read_bandwidth(max_bandwidth),
            max_cpu_percent=max_cpu,
            max_memory_bytes=None if max_memory is None else _read_memory(max_memory),
        )


@dataclass(frozen=True, slots=True)
class Idle:
    """How long nobody has touched the desktop, at least, and who says so."""

    seconds: float
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """How things are now."""

    local_time: datetime
    idle: Idle | None = None
    """None where nobody can tell."""
    on_battery: bool | None = None
    paused: bool = False
    network: Network = Network.CLEAR


@dataclass(frozen=True, slots=True)
class Consent:
    """Whether to work, why in plain words, and how long that may be taken for granted."""

    may: bool
    why: str
    look_again_s: float


class QuietSpell:
    """How long the machine has had next to nothing to do: what stands in for idle time where there is none.

    It is quiet while others than the helper itself keep less than `most` of each core busy, on average.
    """

    def __init__(self, *, most: float = 0.3) -> None:
        """Nothing is known yet."""
        self._most = most
        self._since: float | None = None

    def note(self, now: float, load: float, *, own: float, cores: int) -> float:
        """Take in the load and how much of it is the helper's own; the seconds of quiet so far."""
        if max(0.0, load - own) / max(1, cores) >= self._most:
            self._since = None
            return 0.0
        if self._since is None:
            self._since = now
        return now - self._since


def decide(terms: Terms, now: Surroundings) -> Consent:
    """Whether the owner would agree to work at this moment.

    What cannot be found out is no obstacle: a machine without a battery works on mains, and where nobody can
    tell how long the desktop has been idle, only the hours decide. The sentence says so.
    """
    left_s = math.inf if terms.hours is None else terms.hours.until_change_s(now.local_time)
    if now.paused:
        return _rest("The owner has paused it.", AT_MOST_S)
    if terms.hours is not None and not terms.hours.are_open(now.local_time):
        why = f"It is outside the hours {terms.hours.text}; they begin in {in_words(left_s)}."
        return _rest(why, left_s)
    if now.on_battery and not terms.on_battery:
        return _rest("The machine runs on battery.", AT_MOST_S / 2)
    if terms.idle_s is not None and now.idle is not None and now.idle.seconds < terms.idle_s:
        missing_s = terms.idle_s - now.idle.seconds
        why = f"Somebody is at the desktop: idle for {in_words(now.idle.seconds)} by {now.idle.by}, "
        why += f"of the {in_words(terms.idle_s)} asked for."
        return _rest(why, missing_s)
    if now.network is not Network.CLEAR:
        return _rest(_NETWORKS[now.network], AT_MOST_S / 2)
    soon_s = min(NOTICE_S, max(_SOON_S, left_s))
    return Consent(may=True, why=_welcome(terms, now, left_s), look_again_s=soon_s)


def in_words(seconds: float) -> str:
    """A length of time as people say it, rounded down."""
    if seconds < 60:
        return f"{int(seconds)} s"
    minutes = int(seconds // 60)
    if minutes < 120:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min" if minutes % 60 else f"{minutes // 60} h"


_NETWORKS: Final = {
    Network.UNCHECKED: "The way to the web is being checked.",
    Network.CAPTIVE: "Something else than the web answers, such as a portal that wants a login.",
    Network.OFFLINE: "There is no way to the web.",
}


def _rest(why: str, look_again_s: float) -> Consent:
    return Consent(may=False, why=why, look_again_s=min(AT_MOST_S, max(_SOON_S, look_again_s)))


def _welcome(terms: Terms, now: Surroundings, left_s: float) -> str:
    reasons = []
    if terms.idle_s is not None and now.idle is None:
        reasons.append("nothing here tells how long the desktop is idle, so only the hours count")
    elif terms.idle_s is not None and now.idle is not None:
        reasons.append(f"the desktop is idle for {in_words(now.idle.seconds)} by {now.idle.by}")
    if terms.hours is not None and left_s < math.inf:
        reasons.append(f"the hours last for another {in_words(left_s)}")
    return f"It may work: {', and '.join(reasons)}." if reasons else "It may work at any time."


def _read_range(part: str) -> list[tuple[int, int]]:
    match = _RANGE.fullmatch(part)
    if match is None:
        raise ValueError(f'The hours "{part}" must be written like 20:00-07:00 or mon-fri 20:00-07:00.')
    first, last, *clock = match.groups()
    start, end = _minute(part, *clock[:2]), _minute(part, *clock[2:])
    if start == _DAY_MIN:
        raise ValueError(f'The hours "{part}" must begin before 24:00.')
    if start == end:
        raise ValueError(f'The hours "{part}" are empty; the whole day is 00:00-24:00.')
    length = (end - start) % _DAY_MIN or _DAY_MIN
    return [(day * _DAY_MIN + start, day * _DAY_MIN + start + length) for day in _weekdays(first, last)]


def _minute(part: str, hour: str, minute: str) -> int:
    at = int(hour) * 60 + int(minute)
    if int(minute) > 59 or at > _DAY_MIN:
        raise ValueError(f'The hours "{part}" have {hour}:{minute}, which no clock shows.')
    return at


def _weekdays(first: str | None, last: str | None) -> list[int]:
    if first is None:
        return list(range(7))
    start = _DAYS.index(first)
    count = 1 if last is None else (_DAYS.index(last) - start) % 7 + 1
    return [(start + at) % 7 for at in range(count)]


def _joined(spans: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    found: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return tuple(found)


def _week_s(at: datetime) -> float:
    day_s = at.hour * 3600 + at.minute * 60 + at.second + at.microsecond / 1e6
    return at.weekday() * 86400 + day_s


def _read_idle(text: str) -> float:
    try:
        return duration_s(text)
    except ValueError:
        raise ValueError(f'--when-idle "{text}" must be a duration such as 10m.') from None


def _read_bandwidth(text: str) -> int:
    try:
        rate = size_bytes(text.removesuffix("/s"))
    except ValueError:
        rate = 0
    if rate < LEAST_BANDWIDTH_BYTES:
        raise ValueError(f'--max-bandwidth "{text}" must be a rate such as 500KB/s, and at least 16KiB/s.')
    return rate


def _read_memory(text: str) -> int:
    try:
        return size_bytes(text)
    except ValueError:
        raise ValueError(f'--max-memory "{text}" must be a size such as 512MiB.') from None
