"""The DNS step: from a host's name to its addresses, remembered for a while.

Invariant: for one host at most one question is under way, whoever wants to know; whoever asked and is
cancelled hands the question over to the next who waits. The number of questions at once has a limit of its
own, since each occupies a thread. The table is bounded, and what is found is not judged here: that is the
guard's task, at the moment of connecting.
"""

from __future__ import annotations

import socket
import time
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path

import trio

from gcs.errors import ConfigError
from gcs.fetch.addresses import literal
from gcs.fetch.outcome import Failure, Reason

FAILURE_LIFETIME_S = 10.0
MAX_REMEMBERED = 100_000

_WHY = {
    socket.EAI_NONAME: "There is no such host.",
    socket.EAI_AGAIN: "The name server does not answer now.",
}


class _Question:
    """A question under way; `answer` stays None when who asked was cancelled."""

    __slots__ = ("answer", "over")

    def __init__(self) -> None:
        self.over = trio.Event()
        self.answer: tuple[str, ...] | Failure | None = None


class Names:
    """Addresses of hosts: literals as they are, then the hosts file, then what the system's resolver says."""

    def __init__(
        self, *, hosts: Mapping[str, tuple[str, ...]] | None = None, lifetime_s: float, concurrency: int
    ) -> None:
        """`hosts` are names that are known without asking, see `read_hosts`."""
        self._hosts = hosts or {}
        self._lifetime_s = lifetime_s
        self._limiter = trio.CapacityLimiter(concurrency)
        self._known: OrderedDict[str, tuple[float, tuple[str, ...] | Failure]] = OrderedDict()
        self._asking: dict[str, _Question] = {}

    def known(self, host: str) -> tuple[str, ...] | Failure | None:
        """What can be said without asking; None if somebody must be asked."""
        if address := literal(host):
            return (address,)
        if found := self._hosts.get(host.rstrip(".")):
            return found
        until, answer = self._known.get(host, (0.0, None))
        return answer if until > time.monotonic() else None

    async def lookup(self, host: str) -> tuple[str, ...] | Failure:
        """The addresses of a host, in the order in which they should be tried."""
        while (answer := self.known(host)) is None:
            question = self._asking.get(host)
            if question is None:
                return await self._ask_and_tell(host)
            await question.over.wait()
            # Shared also where it is not to be remembered.
            if question.answer is not None:
                return question.answer
        return answer

    async def _ask_and_tell(self, host: str) -> tuple[str, ...] | Failure:
        question = self._asking[host] = _Question()
        try:
            question.answer = answer = await self.ask(host)
            self._remember(host, answer)
            return answer
        finally:
            del self._asking[host]
            question.over.set()

    async def ask(self, host: str) -> tuple[str, ...] | Failure:
        """Put the question to the resolver, in a thread that a cancelled asker leaves behind."""
        try:
            found = await trio.to_thread.run_sync(
                _getaddrinfo, host, abandon_on_cancel=True, limiter=self._limiter
            )
        except socket.gaierror as error:
            return Failure(
                Reason.DNS, _WHY.get(error.errno or 0, f"{host} cannot be looked up: {error.strerror}.")
            )
        except (OSError, UnicodeError) as error:
            return Failure(Reason.DNS, f"{host} cannot be looked up: {error}.")
        return found or Failure(Reason.DNS, f"{host} has no address.")

    def _remember(self, host: str, answer: tuple[str, ...] | Failure) -> None:
        lifetime_s = self._lifetime_s
        if isinstance(answer, Failure):
            lifetime_s = min(lifetime_s, FAILURE_LIFETIME_S)
        self._known.pop(host, None)
        self._known[host] = (time.monotonic() + lifetime_s, answer)
        if len(self._known) > MAX_REMEMBERED:
            self._known.popitem(last=False)


def read_hosts(path: Path | None) -> dict[str, tuple[str, ...]]:
    """The names of a file like /etc/hosts; lines that make no sense are passed over, as the system does."""
    names: dict[str, tuple[str, ...]] = {}
    if path is None:
        return names
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise ConfigError(f"{path}: fetch.hosts cannot be read: {error.strerror}.") from error
    for line in lines:
        first, *rest = line.partition("#")[0].split() or [""]
        if address := literal(first):
            for name in rest:
                name = name.lower().rstrip(".")  # noqa: PLW2901 (its usual form)
                if address not in names.get(name, ()):
                    names[name] = (*names.get(name, ()), address)
    return names


def _getaddrinfo(host: str) -> tuple[str, ...]:
    """Each address once, in the order of the system; IPv4 in IPv6 as what it is."""
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(literal(str(each[4][0])) or str(each[4][0]) for each in found))
