"""What is between a machine and the synthetic web: answers after a while, failures, and a log of requests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final
from zlib import crc32

import trio

from gcs.core.urls import key
from gcs.fetch.answer import parse_headers
from gcs.fetch.outcome import Failure, Origin, Outcome, Reason, Response
from gcs.simulate.cluster.faults import Kind
from gcs.simulate.cluster.lies import LIE
from gcs.simulate.cluster.world import BEGAN, MachineWorld
from gcs.simulate.verdict import CUT_OFF, Request
from gcs.simulate.web import Answer, Web

HOSTS: Final = 8
AGENT: Final = "gcs-simulation"
ANSWER_S: Final = 0.8
"""How long an answer takes, more or less."""
_TIMEOUT_S: Final = 5.0
_CHANGE_AFTER_S: Final = (15.0, 60.0, 1e6)
"""How often pages change, of those that do."""
_NEWS: Final = 40
"""Words of a page that are other ones after a change."""
_LINKS: Final = 6
"""Few ways lead to a page, so that it shows when one is lost."""


@lru_cache(maxsize=16)
def web_of(seed: int, pages: int, *, plain: bool) -> Web:
    """A web, which is made once: it never changes. One that is not plain has errors and traps."""
    return Web(seed, HOSTS, pages, plain=plain, slowness=0.0 if plain else 1.0, gzip=0.0, most_links=_LINKS)


_pages: dict[tuple[int, str, str, bool], Answer] = {}


def _answer(web: Web, host: str, target: str, asked: int) -> Answer:
    """What a host answers, remembered over all runs."""
    known = (id(web), host, target, asked > 0)
    if known not in _pages:
        _pages[known] = web.respond(host, target, asked=asked, now=BEGAN + trio.current_time())
    return _pages[known]


@dataclass(slots=True)
class Server:
    """All hosts of the web, and what they were asked."""

    web: Web
    log: list[Request] = field(default_factory=list)
    late: set[Request] = field(default_factory=set)
    """Those that were about to be sent when their machine stood still, and were sent when it went on.

    Only if that was later than who has a turn reckons with, and so may come after the turn.
    """
    reach_s: float = 0.0
    """How much later who has a turn reckons with."""
    answer_s: float = ANSWER_S
    changes: bool = False
    """Whether pages change as time goes on, each at its own pace."""
    failing: dict[str, Kind] = field(default_factory=dict)
    """Hosts that fail, and how."""
    have_failed: dict[str, float] = field(default_factory=dict)
    """Hosts that have, and when they last began to."""
    told: dict[str, bytes] = field(default_factory=dict)
    """By key: the body that was last answered, of pages that change."""
    etags: dict[str, tuple[str, float]] = field(default_factory=dict)
    """By key: the validator that was last answered, and when."""
    rests: list[tuple[str, str, float, float]] = field(default_factory=list)
    """Host, target, and from when to when it asked to be left alone."""
    addresses: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Those of every host."""
    _asked: Counter[tuple[str, str]] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.addresses = {host.name: (host.address,) for host in self.web.hosts}

    def share(self, first: int, count: int, *, beside_its_own: bool) -> None:
        """Let some hosts in a row have the address of the next one."""
        *sharing, other = (self.web.hosts[(first + each) % HOSTS] for each in range(count + 1))
        for host in sharing:
            self.addresses[host.name] = ((host.address,) if beside_its_own else ()) + (other.address,)

    def fail(self, host: str, how: Kind) -> None:
        """Let a host fail from now on."""
        self.failing[host] = how
        self.have_failed[host] = trio.current_time()

    def answer(self, host: str, target: str, headers: bytes) -> Answer | Reason:
        """What a host answers now, or why it does not."""
        match self.failing.get(host):
            case Kind.DOWN:
                return Reason.DISCONNECTED
            case Kind.HANG:
                return Reason.TIMEOUT
            case Kind.BUSY:
                return Answer(503, (("Content-Type", "text/plain"), ("Retry-After", "2")), b"Not now.\n")
        asked = self._asked[host, target]
        self._asked[host, target] += 1
        answer = _answer(self.web, host, target, asked)
        return self._changed(answer, host, target, headers) if self.changes else answer

    def _changed(self, answer: Answer, host: str, target: str, headers: bytes) -> Answer:
        """A page as it is now; nothing of it if that is what the asker has."""
        if answer.status != 200 or not answer.headers[0][1].startswith("text/html"):
            return answer
        url = self.web.url(host, target)
        chance = crc32(url.encode())
        version = int(trio.current_time() / _CHANGE_AFTER_S[chance % len(_CHANGE_AFTER_S)])
        etag = f'"{version}"'
        has_etag = chance // len(_CHANGE_AFTER_S) % 2
        if has_etag:
            self.etags[key(url)] = etag, trio.current_time()
        if has_etag and f"If-None-Match: {etag}\r\n".encode() in headers:
            return Answer(304, (("ETag", etag),), b"", answer.delay_s)
        news = " ".join(f"news{version}of{each}" for each in range(_NEWS))
        body = self.told[key(url)] = answer.body + f"<p>{news}</p>".encode()
        return Answer(200, (*answer.headers, *[("ETag", etag)] * has_etag), body, answer.delay_s)


class SimulatedFetching:
    """Asks for one machine."""

    def __init__(
        self, server: Server, world: MachineWorld, name: str, *, lies: Callable[[], bool] = lambda: False
    ) -> None:
        """`lies` says whether its machine tells of pages that are not there."""
        self._server, self._world, self._name, self._lies = server, world, name, lies
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
        asked_at = trio.current_time()
        await self._world.gate()
        is_late = trio.current_time() > asked_at + self._server.reach_s
        began, started = trio.current_time(), self._world.now()
        if on_sent is not None:
            on_sent(started)
        answer = self._server.answer(origin.host, target, headers)
        takes_s = self._takes_s(answer)
        self._note(began, takes_s, origin.host, target, answer, is_late=is_late)
        await self._world.wait(takes_s)
        total_s = trio.current_time() - began
        if isinstance(answer, Reason):
            return Failure(answer, "The simulated host fails.", "", started, total_s)
        if self._lies() and answer.status == 200 and target != "/robots.txt":
            answer = LIE
        return self._response(origin, target, answer, started, total_s)

    def _takes_s(self, answer: Answer | Reason) -> float:
        if answer is Reason.TIMEOUT:
            return _TIMEOUT_S
        own_s = (0.2 + self._world.random.random()) * self._server.answer_s
        if self._world.lag_s:
            own_s += (1 + self._world.random.random()) / 2 * self._world.lag_s
        return own_s + (answer.delay_s if isinstance(answer, Answer) else 0.0)

    def _note(
        self, began: float, takes_s: float, host: str, target: str, answer: Answer | Reason, *, is_late: bool
    ) -> None:
        status, size = (CUT_OFF, 0) if isinstance(answer, Reason) else (answer.status, len(answer.body))
        request = Request(began, takes_s, host, target, status, size, self._name)
        self._server.log.append(request)
        if is_late:
            self._server.late.add(request)
        asked_for = "" if isinstance(answer, Reason) else dict(answer.headers).get("Retry-After", "")
        if asked_for.isdigit():
            answered = began + takes_s
            self._server.rests.append((host, target, answered, answered + int(asked_for)))

    def _response(
        self, origin: Origin, target: str, answer: Answer, started: float, total_s: float
    ) -> Response:
        lines = "".join(f"{name}: {value}\r\n" for name, value in answer.headers)
        head = f"HTTP/1.1 {answer.status} Simulated\r\n{lines}\r\n".encode("latin-1")
        request = f"GET {target} HTTP/1.1\r\nHost: {origin.netloc}\r\n\r\n".encode("ascii")
        return Response(
            status=answer.status,
            head=head,
            headers=parse_headers(head),
            body=answer.body,
            raw=answer.body,
            truncated="",
            request=request,
            address=self._server.addresses.get(origin.host, ("127.0.0.1",))[-1],
            started=started,
            connect_s=0.0,
            first_byte_s=total_s,
            total_s=total_s,
            reused=True,
        )

    async def addresses(self, host: str) -> Sequence[str] | Failure:
        """As `Fetching.addresses`."""
        await self._world.wait(self._world.random.random() * ANSWER_S)
        found = self._server.addresses.get(host)
        return Failure(Reason.DNS, "There is no such host.") if found is None else found

    async def delay(self, origin: Origin) -> float | Failure:
        """As `Fetching.delay`."""
        delay_s = self._world.random.random() * ANSWER_S
        await self._world.wait(delay_s)
        return delay_s
