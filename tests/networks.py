"""A network for tests: a hub and groups around it, in network namespaces, whose links can be cut.

The hub serves the web at its own loopback addresses, and Redis at `address(group)`. Every group has a link
for each, so that it can be cut off from Redis and still reach the web. What is sent over a cut link is lost
without a word, as when a cable is pulled. It needs root, and the program `ip` (Debian's iproute2).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.servers import until

HUB: Final = "hub"
_WEB, _REDIS = "web", "redis"


class CannotConnect(Exception):
    """No network can be made here; the message says why."""


@dataclass(frozen=True, slots=True)
class Network:
    """A hub and the groups around it."""

    holders: dict[str, int]
    """A process in each namespace, by name."""
    entering: str
    """The program that lets a command run in a namespace."""

    def within(self, name: str) -> list[str]:
        """What makes a command run there, put in front of it."""
        return [self.entering, f"--net=/proc/{self.holders[name]}/ns/net", "--"]

    def address(self, group: str) -> str:
        """Where a group finds what listens at the hub."""
        return f"10.{self._number(group)}.1.1"

    def cut(self, group: str) -> None:
        """Cut a group off from the hub, but for the web."""
        self._run(HUB, "ip", "link", "set", f"{group}-{_REDIS}", "down")

    def heal(self, group: str) -> None:
        """Connect it again."""
        self._run(HUB, "ip", "link", "set", f"{group}-{_REDIS}", "up")

    def _number(self, group: str) -> int:
        return list(self.holders).index(group)

    def _run(self, name: str, *words: str) -> None:
        done = subprocess.run([*self.within(name), *words], capture_output=True, text=True, check=False)
        if done.returncode:
            raise CannotConnect(f"{' '.join(words)}: {done.stderr.strip()}")

    def connect(self, group: str) -> None:
        """Make the links of a group."""
        for number, what in enumerate((_WEB, _REDIS)):
            near, far = f"{group}-{what}", what
            ends = ["netns", str(self.holders[HUB]), "type", "veth", "peer", "name", far]
            self._run(HUB, "ip", "link", "add", near, *ends, "netns", str(self.holders[group]))
            for place, link, last in ((HUB, near, 1), (group, far, 2)):
                self._run(
                    place, "ip", "address", "add", f"10.{self._number(group)}.{number}.{last}/30", "dev", link
                )
                self._run(place, "ip", "link", "set", link, "up")
                # The web is at addresses that otherwise never leave a machine.
                self._run(place, "sh", "-c", f"echo 1 > /proc/sys/net/ipv4/conf/{link}/route_localnet")
        self._run(group, "ip", "route", "del", "local", "127.0.0.0/8", "dev", "lo", "table", "local")
        self._run(group, "ip", "route", "add", "127.0.0.0/8", "via", f"10.{self._number(group)}.0.1")


@contextmanager
def network(groups: Sequence[str]) -> Iterator[Network]:
    """A hub and groups around it, for the length of a block; raises CannotConnect."""
    if sys.platform != "linux" or os.geteuid() != 0:
        raise CannotConnect("only root can make networks")
    programs = {name: shutil.which(name) for name in ("ip", "nsenter", "unshare")}
    for name, path in programs.items():
        if path is None:
            raise CannotConnect(f"{name} is not installed")
    with ExitStack() as stack:
        holders = {name: stack.enter_context(_namespace()) for name in (HUB, *groups)}
        made = Network(holders, str(programs["nsenter"]))
        for name in made.holders:
            made._run(name, "ip", "link", "set", "lo", "up")
        for group in groups:
            made.connect(group)
        yield made


@contextmanager
def _namespace() -> Iterator[int]:
    """A network namespace, which is there as long as a process is in it; gives that one."""
    # It ends by itself when its standard input does, also when this process is killed.
    with subprocess.Popen(
        ["unshare", "--net", "cat"], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stderr is not None
        ours = Path("/proc/self/ns/net").readlink()
        theirs = Path(f"/proc/{holder.pid}/ns/net")
        until(lambda: holder.poll() is not None or theirs.readlink() != ours, "a network namespace")
        if holder.poll() is not None:
            raise CannotConnect(f"no network namespace can be made: {holder.stderr.read().strip()}")
        try:
            yield holder.pid
        finally:
            holder.kill()
