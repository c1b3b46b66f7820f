"""Memory that was freed goes back to the system, and whose is taken first.

Where the C library would keep what was freed, it is told not to.
"""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

# See mallopt(3).
_M_ARENA_MAX, _M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -8, -1, -3
_KEPT_BYTES: Final = 4 << 20
_NICE: Final = 10
_FIRST_TO_END: Final = "1000"
"""See proc(5)."""


def spare() -> None:
    """Keep little of what is freed from now on: after large tables, a sixth would be kept for later."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:  # glibc
        mallopt(_M_ARENA_MAX, 1)
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
        # Buffers are used again: to have the system clear new pages for each took a twentieth of a crawl.
        mallopt(_M_MMAP_THRESHOLD, _KEPT_BYTES)


def give_back() -> None:
    """Give back what lies free between what is used, after something large was freed."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:  # glibc
        trim(0)


def give_way() -> None:
    """Let other processes have processor time first, and this one be the first to end for want of memory."""
    with suppress(OSError):  # a service may not be allowed to
        os.nice(_NICE)
    with suppress(OSError):  # as far as this system knows it
        Path("/proc/self/oom_score_adj").write_text(_FIRST_TO_END, encoding="ascii")
