"""The robots rules of the hosts that a gatherer asks: fetched when needed, kept while they hold.

`RobotsCache` owns a bounded table of rules by origin, the least recently asked for leaving first. Rules that
are not known are the object of an `Inquiry`: it says where robots.txt is to be asked for, first at its origin
and then wherever redirects lead. Promise: there is at most one inquiry about an origin at any moment.

What a request to a host costs in politeness is the caller's account: every step of an inquiry is a request to
the host that it names, and takes a turn of that host like any other.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Protocol

import ada_url

from gcs.core import robots, urls
from gcs.core.robots import Rules, Standing
from gcs.fetch.outcome import REDIRECTS, Failure, Origin, Outcome, Response

CAPACITY: Final = 10_000


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
        on_sent: Callable[[float], None] | None = None,
    ) -> Outcome:
        """Ask for a page."""
        ...


@dataclass(slots=True, eq=False)
class Inquiry:
    """The search for the robots.txt of an origin: where to ask for it next."""

    origin: Origin
    asked: Origin
    target: str = "/robots.txt"
    redirects: int = 0


class RobotsCache:
    """The rules of the origins asked lately."""

    def __init__(
        self,
        transport: Fetches,
        agent: str,
        *,
        max_wait_s: float = math.inf,
        capacity: int = CAPACITY,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Rules for an agent such as `GCS/1.0 (+http://…)`, on a clock in Unix time.

        `max_wait_s` is the longest after which a host that fails to answer is asked again.
        """
        self._transport = transport
        self._agent = agent
        self._max_wait_s = max_wait_s
        self._capacity = capacity
        self._clock = clock
        self._rules: OrderedDict[Origin, Rules] = OrderedDict()
        self._changed: dict[Origin, None] = {}
        self._sought: set[Origin] = set()
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

    def begin(self, origin: Origin) -> Inquiry | None:
        """Begin to ask for the rules of an origin; None while that is being done."""
        if origin in self._sought:
            return None
        self._sought.add(origin)
        self._failures.pop(origin, None)
        return Inquiry(origin, origin)

    async def fetch(self, inquiry: Inquiry, *, on_sent: Callable[[float], None] | None = None) -> Outcome:
        """What the host says that an inquiry leads to now; cancelling it ends the inquiry."""
        try:
            return await self._transport.fetch(
                inquiry.asked, inquiry.target, max_body_bytes=robots.MAX_BYTES + 1, on_sent=on_sent
            )
        except BaseException:
            self._sought.discard(inquiry.origin)
            raise

    def heed(self, inquiry: Inquiry, outcome: Outcome) -> Rules | None:
        """What follows from an outcome: the rules, or None if the inquiry leads elsewhere now."""
        if isinstance(outcome, Failure):
            self._failures[inquiry.origin] = outcome
            return self.give_up(inquiry)
        if outcome.status not in REDIRECTS:
            return self._ended(inquiry, self._answered(inquiry.origin, outcome))
        try:
            asked, target = _redirected(inquiry.asked, inquiry.target, outcome)
        except ValueError:
            return self._ended(inquiry, robots.unavailable(self._clock()))
        if inquiry.redirects == robots.MAX_REDIRECTS:
            return self._ended(inquiry, robots.unavailable(self._clock()))
        inquiry.asked, inquiry.target = asked, target
        inquiry.redirects += 1
        return None

    def give_up(self, inquiry: Inquiry) -> Rules:
        """Nobody answers where an inquiry leads, or can be asked."""
        return self._ended(inquiry, robots.unreachable(self._clock(), self._rules.get(inquiry.origin)))

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

    def _ended(self, inquiry: Inquiry, rules: Rules) -> Rules:
        self._sought.discard(inquiry.origin)
        if rules.standing is Standing.UNREACHABLE:
            rules.until = min(rules.until, self._clock() + self._max_wait_s)
        self._keep(inquiry.origin, rules)
        self._changed[inquiry.origin] = None
        return rules

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
    url = urls.canonical(ada_url.join_url(f"{asked}{target}", location))
    if not url.startswith("http"):
        raise ValueError("a redirect that leaves the web")
    return Origin.split(url)
