"""What the program takes from the outside world: time, chance, threads, and processes.

All that a gatherer does depends on what it is told and on these. A simulation replaces them, and then the
same seed gives the same run.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Final, TypeVar

import trio

if TYPE_CHECKING:
    from gcs.config import Summary
    from gcs.summary.workshop import Workshop

T = TypeVar("T")


class World:
    """The real one."""

    has_processes = True
    """Whether others can be started."""

    def __init__(self) -> None:
        self.random = Random()

    def now(self) -> float:
        """Unix time."""
        return time.time()

    def timer(self) -> float:
        """Seconds that have passed, to measure how long something takes."""
        return time.perf_counter()

    def awake(self) -> float:
        """Seconds by a clock that goes on while the machine sleeps, where there is one."""
        clock = getattr(time, "CLOCK_BOOTTIME", None)
        return time.monotonic() if clock is None else time.clock_gettime(clock)

    def token(self, count: int) -> str:
        """As many bytes that nobody can guess, in hexadecimal."""
        return secrets.token_hex(count)

    async def until(self, event: trio.Event, seconds: float) -> None:
        """Wait for an event, but not for longer than some time."""
        with trio.move_on_after(seconds):
            await event.wait()

    async def offload(self, work: Callable[[], T]) -> T:
        """Do something that takes long, or waits for a disk, beside everything else."""
        return await trio.to_thread.run_sync(work)

    def workshop(self, settings: Summary) -> Workshop:
        """Where formats are read that are risky to read."""
        # Not before it is needed: pages of HTML and text are read without it.
        from gcs.summary.limits import Limits
        from gcs.summary.workshop import Workshop

        limits = Limits(
            members=settings.max_members,
            member_bytes=settings.max_member_bytes,
            expanded_bytes=settings.max_expanded_bytes,
            ratio=settings.max_ratio,
            depth=settings.max_nesting,
            thumbnail_px=settings.thumbnail_px,
        )
        return Workshop(
            limits,
            processes=settings.readers,
            timeout_s=settings.read_timeout_s,
            memory_bytes=settings.read_memory_bytes,
        )


REAL: Final = World()
