"""What a daemon tells the service manager that started it: the datagrams of sd_notify(3).

Without a manager there is nobody to tell, and nothing happens. Nothing here waits: what the manager does not
take at once goes with what is told next.
"""

from __future__ import annotations

import os
import socket
import time
from collections import deque
from collections.abc import MutableMapping
from contextlib import suppress
from typing import Final

VARIABLES: Final = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")
_MOST_LATE: Final = 16
_TELL_EVERY_S: Final = 5.0


class Notifier:
    """Tells the manager at an address, if there is one."""

    def __init__(self, address: str = "", *, watchdog_s: float | None = None) -> None:
        """`watchdog_s` is the interval in which the manager wants to hear that all is well."""
        self.watchdog_s = watchdog_s
        # "@" stands for the zero byte of a name that is in no directory.
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self._late: deque[bytes] = deque(maxlen=_MOST_LATE)

    @classmethod
    def from_environment(cls, environ: MutableMapping[str, str]) -> Notifier:
        """The manager that the environment names; its variables are removed, children have none."""
        address, usec, pid = (environ.pop(name, "") for name in VARIABLES)
        if not address.startswith(("/", "@")):
            return cls()
        watched = usec.isdigit() and int(usec) > 0 and pid in ("", str(os.getpid()))
        return cls(address, watchdog_s=int(usec) / 1e6 if watched else None)

    @property
    def is_heard(self) -> bool:
        """Whether there is a manager."""
        return bool(self._address)

    @property
    def every_s(self) -> float:
        """How often to say how it is: a few times within the watchdog's interval."""
        return _TELL_EVERY_S if self.watchdog_s is None else min(_TELL_EVERY_S, self.watchdog_s / 3)

    def ready(self) -> None:
        """It has started, or has read its configuration again."""
        self._tell("READY=1")

    def reloading(self) -> None:
        """It reads its configuration again; `ready` ends that."""
        now_usec = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        self._tell("RELOADING=1", f"MONOTONIC_USEC={now_usec}")

    def stopping(self, *, within_s: float = 0.0) -> None:
        """It is about to end, which may take so long from now."""
        self._tell("STOPPING=1", *([f"EXTEND_TIMEOUT_USEC={within_s * 1e6:.0f}"] if within_s else []))

    def status(self, sentence: str, *, is_well: bool) -> None:
        """How it is, for people; and for the watchdog, if it is well."""
        fed = is_well and self.watchdog_s is not None
        self._tell(f"STATUS={' '.join(sentence.split())}", *(["WATCHDOG=1"] if fed else []))

    def _tell(self, *lines: str) -> None:
        if not self._address:
            return
        self._late.append("\n".join(lines).encode())
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sending:
            while self._late:
                sending.sendto(self._late[0], socket.MSG_DONTWAIT, self._address)
                self._late.popleft()
