"""Being modest: a helper takes the processor and the disk only when nobody else wants them.

Niceness and I/O class belong to a thread, and new threads inherit them; so this is called before there are
any. It is not `SCHED_IDLE`: under that a helper on a busy machine can stand still for so long that servers
and the cluster give it up, and then its work was for nothing.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from dataclasses import dataclass
from typing import Final

NICENESS: Final = 19

_WHO_PROCESS: Final = 1
_IDLE_CLASS: Final = 3 << 13
_IOPRIO_SET: Final = {
    ("x86_64", True): 251,
    ("i386", False): 289,
    ("i686", False): 289,
    ("x86_64", False): 289,
    ("aarch64", True): 30,
    ("riscv64", True): 30,
    ("loongarch64", True): 30,
    ("armv6l", False): 314,
    ("armv7l", False): 314,
    ("aarch64", False): 314,
    ("ppc64le", True): 273,
    ("s390x", True): 282,
}
"""The number of the system call, by machine and whether this program has 64 bits."""


@dataclass(frozen=True, slots=True)
class Modesty:
    """What could be set."""

    nice: bool
    idle_io: bool

    @property
    def words(self) -> str:
        """The same in a sentence."""
        done = [
            word
            for word, is_set in (("the lowest priority", self.nice), ("idle I/O", self.idle_io))
            if is_set
        ]
        return f"It runs with {' and '.join(done)}." if done else "It runs with the usual priority."


def be_modest() -> Modesty:
    """Ask for the lowest priority of processor and disk; what this system does not know is left."""
    return Modesty(nice=_be_nice(), idle_io=_leave_the_disk())


def _be_nice() -> bool:
    if not hasattr(os, "setpriority"):
        return False
    try:
        os.setpriority(os.PRIO_PROCESS, 0, NICENESS)
    except OSError:  # a service may be forbidden to, and have been given it
        return os.getpriority(os.PRIO_PROCESS, 0) >= NICENESS
    return True


def _leave_the_disk() -> bool:
    number = _IOPRIO_SET.get((platform.machine(), sys.maxsize > 1 << 32))
    if sys.platform != "linux" or number is None:
        return False
    try:
        call = ctypes.CDLL(None).syscall
    except (OSError, AttributeError):
        return False
    if call(number, _WHO_PROCESS, 0, _IDLE_CLASS) == 0:
        return True
    # The call that asks for it has the next number, everywhere.
    return bool(call(number + 1, _WHO_PROCESS, 0) == _IDLE_CLASS)
