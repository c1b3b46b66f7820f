"""The robots rules of the hosts that a gatherer asks: fetched when needed, kept while they hold.

`RobotsCache` owns a bounded table of rules by origin, the least recently asked for leaving first. Promise:
at any moment at most one task fetches the robots.txt of an origin, and the others that need it wait for that
one. When its task is cancelled, one of them goes on in its place.

What a request to a host costs in politeness is the caller's account: asking for rules that are not known is
a request to that host, and takes a turn of it like any other. A redirect is followed within the same turn, a
delay later, for it mostly leads to the same host.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final, Protocol

import ada_url
import trio

from gcs.core import robots, urls
from gcs.core.robots import Rules, Standing
from gcs.fetch.outcome import REDIRECTS, Failure, Origin, Outcome, Response

CAPACITY: Final = 10_000
_LONGEST_REST_S: Final = 60.0


class Fetches(Protocol):
    """What is needed of `gcs.fetch.transport.Transport`."""

    async def fetch(
        self,
        origin: Origin,
        target: str,
        *,
        headers: bytes = b"",
        timeout_s: float | None = None,
        max_body_bytes: int | None = None,
    ) -> Outcome:
        """Ask for a page."""
        ...


class RobotsCache:
    """The rules of the origins asked lately."""

    def __init__(
        self,
        transport: Fetches,
        agent: str,
        *,
        rest_s: Callable[[Origin], float] = lambda _: 0.0,
        max_wait_s: float = math.inf,
        capacity: int = CAPACITY,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Rules for an agent such as `GCS/1.0 (+http://…)`, on a clock in Unix time.

        `rest_s` says how long an origin to which a redirect leads has to rest before it is asked, and
        `max_wait_s` is the longest after which a host that fails to answer is asked again.
        """
        self._transport = transport
        self._agent = agent
        self._rest_s = rest_s
        self._max_wait_s = max_wait_s
        self._capacity = capacity
        self._clock = clock
        self._rules: OrderedDict[Origin, Rules] = OrderedDict()
        self._changed: dict[Origin, None] = {}
        self._fetching: dict[Origin, trio.Event] = {}
        self._failures: dict[Origin, Failure] = {}

    def known(self, origin: Origin, now: float) -> Rules | None:
        """The rules of an origin if they are known and still hold."""
        rules = self._rules.get(origin)
        if rules is None or rules.until <= now:
            return None
        self._rules.move_to_end(origin)
        return rules

    def failure(self, origin: Origin) -> Failure | None:
        """Why the host of an origin could not be asked, when that is why its rules are not known."""
        return self._failures.get(origin)

    async def rules(self, origin: Origin) -> Rules:
        """The rules of an origin, fetched unless they are known and still hold."""
        while True:
            rules = self.known(origin, self._clock())
            if rules is not None:
                return rules
            fetched = self._fetching.get(origin)
            if fetched is None:
                return await self._fetch_alone(origin)
            await fetched.wait()

    def changed(self) -> list[tuple[Origin, bytes]]:
        """What was fetched since the last call and is still kept, for storing."""
        changed = [(origin, self._rules[origin].to_bytes()) for origin in self._changed]
        self._changed.clear()
        return changed

    def restore(self, stored: Iterable[tuple[Origin, bytes]]) -> None:
        """Take in what `changed` gave; what is of another version is left out, and fetched again."""
        for origin, contents in stored:
            try:
                rules = Rules.from_bytes(contents)
            except ValueError:
                continue
            self._keep(origin, rules)

    def __len__(self) -> int:
        return len(self._rules)

    async def _fetch_alone(self, origin: Origin) -> Rules:
        event = self._fetching[origin] = trio.Event()
        try:
            rules = await self._fetch(origin)
            if rules.standing is Standing.UNREACHABLE:
                rules.until = min(rules.until, self._clock() + self._max_wait_s)
            self._keep(origin, rules)
            self._changed[origin] = None
            return rules
        finally:
            del self._fetching[origin]
            event.set()

    async def _fetch(self, origin: Origin) -> Rules:
        self._failures.pop(origin, None)
        asked, target = origin, "/robots.txt"
        for _ in range(robots.MAX_REDIRECTS + 1):
            outcome = await self._transport.fetch(asked, target, max_body_bytes=robots.MAX_BYTES + 1)
            if isinstance(outcome, Failure):
                self._failures[origin] = outcome
                break
            if outcome.status not in REDIRECTS:
                return self._answered(origin, outcome)
            try:
                asked, target = _redirected(asked, target, outcome)
            except ValueError:
                return robots.unavailable(self._clock())
            rest_s = self._rest_s(asked)
            if rest_s > _LONGEST_REST_S:
                break  # a turn is not held for that long
            await trio.sleep(rest_s)
        else:
            return robots.unavailable(self._clock())
        return robots.unreachable(self._clock(), self._rules.get(origin))

    def _answered(self, origin: Origin, response: Response) -> Rules:
        previous = self._rules.get(origin)
        if response.truncated not in ("", "length"):
            # The rest of it could forbid what the beginning does not.
            return robots.unreachable(self._clock(), previous)
        return robots.answered(
            response.status,
            response.body,
            agent=self._agent,
            now=self._clock(),
            cache_control=response.headers.get("cache-control", ""),
            previous=previous,
        )

    def _keep(self, origin: Origin, rules: Rules) -> None:
        self._rules[origin] = rules
        self._rules.move_to_end(origin)
        if len(self._rules) > self._capacity:
            oldest, _ = self._rules.popitem(last=False)
            self._changed.pop(oldest, None)
            self._failures.pop(oldest, None)


def _redirected(asked: Origin, target: str, response: Response) -> tuple[Origin, str]:
    """Where a redirect leads; raises ValueError when that is nowhere."""
    location = response.headers.get("location", "")
    if not location:
        raise ValueError("a redirect without a location")
    return Origin.split(urls.canonical(ada_url.join_url(f"{asked}{target}", location)))
