"""What a helper may use: bytes on the line, time of the processor, memory.

Everything here is told the time. A `Bucket` fills at a steady rate up to its burst; what is used is taken out
of it. Invariant: who uses no more than is in it uses, over any stretch of time, at most rate × time + burst.
What can be known only afterwards, such as the time of the processor, may overdraw it by one piece of work,
and is paid for by resting.

The limit of memory is a measure of the process by itself and not a limit of the system's: `RLIMIT_AS` counts
addresses, of which threads and mapped files take many times what they need of memory, and hitting it is an
error anywhere in the middle of something.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Final

import trio

CPU_WINDOW_S: Final = 10.0
BANDWIDTH_WINDOW_S: Final = 0.25
FULL: Final = 0.8
"""The share of the memory from which on no more work is taken."""

_LEAST_BYTES: Final = 2048
_SHORTEST_S: Final = 0.001
_STATUS: Final = Path("/proc/self/status")


class Bucket:
    """An amount that grows at a rate, up to a burst."""

    __slots__ = ("_at", "_level", "burst", "rate")

    def __init__(self, rate: float, burst: float, now: float) -> None:
        """A full one."""
        self.rate = rate
        self.burst = self._level = burst
        self._at = now

    def left(self, now: float) -> float:
        """How much may be used; less than nothing if too much was."""
        elapsed_s = max(0.0, now - self._at)
        return min(self.burst, self._level + elapsed_s * self.rate)

    def use(self, amount: float, now: float) -> None:
        """Take out what is or was used."""
        self._level = self.left(now) - amount
        self._at = max(self._at, now)

    def rest_s(self, now: float, wanted: float = 0.0) -> float:
        """How long until so much is there; wanting more than the burst is wanting the burst."""
        return max(0.0, (min(wanted, self.burst) - self.left(now)) / self.rate)


class Cpu:
    """The governor of the processor's time: how long to rest before more work is begun."""

    def __init__(
        self,
        percent: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        cpu_s: Callable[[], float] = time.process_time,
        window_s: float = CPU_WINDOW_S,
    ) -> None:
        """So many percent of one core, on average; a window's worth of it may be used at once."""
        rate = percent / 100
        self._clock = clock
        self._cpu_s = cpu_s
        self._used_s = cpu_s()
        self._bucket = Bucket(rate, rate * window_s, clock())

    def rest_s(self) -> float:
        """The seconds to begin nothing, by what the process has used up to now."""
        now, used_s = self._clock(), self._cpu_s()
        self._bucket.use(used_s - self._used_s, now)
        self._used_s = used_s
        return self._bucket.rest_s(now)


class Bandwidth:
    """The governor of the line, for both ways together; it makes whoever sends or receives wait its turn."""

    def __init__(self, rate_bytes: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        """So many bytes a second; a quarter of a second's worth may go at once."""
        self._clock = clock
        burst = max(float(_LEAST_BYTES), rate_bytes * BANDWIDTH_WINDOW_S)
        self._bucket = Bucket(rate_bytes, burst, clock())
        self._turns = trio.Lock()

    async def turn(self) -> int:
        """Wait until some bytes may go, and say how many; `use` them before the next await."""
        if self._bucket.left(self._clock()) < _LEAST_BYTES or self._turns.locked():
            # One after the other, or those who come later would take it from those who wait.
            async with self._turns:
                while (rest_s := self._bucket.rest_s(self._clock(), _LEAST_BYTES)) > 0:  # noqa: ASYNC110 (time passes)
                    await trio.sleep(max(_SHORTEST_S, rest_s))
        return math.floor(self._bucket.left(self._clock()))

    def use(self, size_bytes: int) -> None:
        """Count bytes that went; also those that went some other way, which all others then wait for."""
        self._bucket.use(size_bytes, self._clock())


class Room(Enum):
    """What the memory in use means for work."""

    TAKE = "take"
    WAIT = "wait"
    """Take no more, until some of it is free again."""
    LEAVE = "leave"
    """End: more is in use than was agreed to."""


def room(used_bytes: int | None, max_bytes: int | None) -> Room:
    """Whether there is room for more work; what cannot be measured is no obstacle."""
    if used_bytes is None or max_bytes is None or used_bytes < FULL * max_bytes:
        return Room.TAKE
    return Room.WAIT if used_bytes <= max_bytes else Room.LEAVE


def memory_bytes(status: Path = _STATUS) -> int | None:
    """The memory that this process holds; None where the system has no such file to tell it.

    The peak that other systems tell would never become less, and so stop a helper for good.
    """
    try:
        text = status.read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    for line in text.splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) << 10
    return None
