"""Memory that was freed goes back to the system: where the C library would keep it, it is told not to."""

from __future__ import annotations

import ctypes
from typing import Final

# See mallopt(3).
_M_ARENA_MAX, _M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -8, -1, -3
_KEPT_BYTES: Final = 4 << 20


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
