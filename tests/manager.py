"""A service manager for tests: the socket that daemons report to, and what they have said there."""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Message = dict[str, str]


class Manager:
    """Hears what a daemon says."""

    def __init__(self, listening: socket.socket, address: str) -> None:
        self._listening, self.address = listening, address
        self.heard: list[Message] = []
        self._unread: list[Message] = []

    def environment(self, *, watchdog_s: float) -> dict[str, str]:
        """The environment of a daemon that reports here, and is watched."""
        return os.environ | {"NOTIFY_SOCKET": self.address, "WATCHDOG_USEC": f"{watchdog_s * 1e6:.0f}"}

    def listen(self, seconds: float = 0.0) -> list[Message]:
        """What is said within a time."""
        deadline, heard = time.monotonic() + seconds, list[Message]()
        while select.select([self._listening], [], [], max(0.0, deadline - time.monotonic()))[0]:
            lines = self._listening.recv(65536).decode().split("\n")
            heard.append({name: value for name, _, value in (line.partition("=") for line in lines)})
        self.heard += heard
        unread, self._unread = self._unread, []
        return unread + heard

    def until(self, condition: Callable[[Message], object], timeout_s: float = 90.0) -> Message:
        """The first thing to be said from now on that fits."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            self._unread = self.listen(0.05)
            while self._unread:
                message = self._unread.pop(0)
                if condition(message):
                    return message
        raise TimeoutError(f"only this was heard: {self.heard}")


@contextmanager
def manager(address: str) -> Iterator[Manager]:
    """A manager at a path, or at a name in no directory, which begins with "@"."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(f"\0{address[1:]}" if address.startswith("@") else address)
        yield Manager(listening, address)
