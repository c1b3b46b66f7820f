"""What is between a machine and the synthetic web: answers after a while, failures, and a log of requests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

import trio

from gcs.fetch.answer import parse_headers
from gcs.fetch.outcome import Failure, Origin, Outcome, Reason, Response
from gcs.simulate.cluster.world import MachineWorld
from gcs.simulate.verdict import Request
from gcs.simulate.web import Answer, Web

_ANSWER_S: Final = 0.8
_LINKS: Final = 6
"""Few ways lead to a page, so that it shows when one is lost."""
AGENT: Final = "gcs-simulation"


@lru_cache(maxsize=8)
def web_of(seed: int, hosts: int, pages: int) -> Web:
    """A web, which is made once: it never changes."""
    return Web(seed, hosts, pages, plain=True, slowness=0.0, gzip=0.0, most_links=_LINKS)


_pages: dict[tuple[int, str, str], Answer] = {}


def _answer(web: Web, host: str, target: str) -> Answer:
    """What a host answers, remembered over all runs."""
    known = (id(web), host, target)
    if known not in _pages:
        _pages[known] = web.respond(host, target)
    return _pages[known]


@dataclass(slots=True)
class Server:
    """All hosts of the web, and what they were asked."""

    web: Web
    log: list[Request] = field(default_factory=list)
    by: list[tuple[float, str, str]] = field(default_factory=list)
    """Time, machine and URL of every request for a page."""
    down: set[str] = field(default_factory=set)
    """Hosts that give no answer."""
    under_way: Counter[str] = field(default_factory=Counter)


class SimulatedFetching:
    """Asks for one machine."""

    def __init__(self, server: Server, world: MachineWorld, name: str) -> None:
        self._server, self._world, self._name = server, world, name
        self.agent = AGENT

    async def fetch(
        self,
        origin: Origin,
        target: str,
        *,
        headers: bytes = b"",
        timeout_s: float | None = None,
        max_body_bytes: int | None = None,
        on_sent: Callable[[float], None] | None = None,
    ) -> Outcome:
        """As `Fetching.fetch`."""
        await self._world.gate()
        began, started = trio.current_time(), self._world.now()
        if on_sent is not None:
            on_sent(started)
        server, random = self._server, self._world.random
        answer = _answer(server.web, origin.host, target)
        takes_s = (0.2 + random.random()) * _ANSWER_S + answer.delay_s
        is_down = origin.host in server.down
        status = 0 if is_down else answer.status
        size = 0 if is_down else len(answer.body)
        server.log.append(Request(began, takes_s, origin.host, target, status or -1, size, self._name))
        if target != "/robots.txt":
            server.by.append((began, self._name, f"{origin}{target}"))
        await self._world.wait(takes_s)
        total_s = trio.current_time() - began
        if is_down:
            return Failure(Reason.DISCONNECTED, "The simulated host is down.", "", started, total_s)
        lines = "".join(f"{name}: {value}\r\n" for name, value in answer.headers)
        head = f"HTTP/1.1 {answer.status} Simulated\r\n{lines}\r\n".encode("latin-1")
        request = f"GET {target} HTTP/1.1\r\nHost: {origin.netloc}\r\n\r\n".encode("ascii")
        host = server.web.by_name.get(origin.host)
        return Response(
            status=answer.status,
            head=head,
            headers=parse_headers(head),
            body=answer.body,
            raw=answer.body,
            truncated="",
            request=request,
            address=host.address if host else "127.0.0.1",
            started=started,
            connect_s=0.0,
            first_byte_s=total_s,
            total_s=total_s,
            reused=True,
        )

    async def addresses(self, host: str) -> Sequence[str] | Failure:
        """As `Fetching.addresses`."""
        await self._world.wait(self._world.random.random() * _ANSWER_S)
        found = self._server.web.by_name.get(host)
        return Failure(Reason.DNS, "There is no such host.") if found is None else (found.address,)

    async def delay(self, origin: Origin) -> float | Failure:
        """As `Fetching.delay`."""
        delay_s = self._world.random.random() * _ANSWER_S
        await self._world.wait(delay_s)
        return delay_s
