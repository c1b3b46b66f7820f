"""The workbench: which host may be asked now. (The name and the idea are BUbiNG's.)

A host with URLs waiting is *awake*. It *rests* until its delay since its last request is over and any pause
that it was sent into; then it is *ready*, and stands in the line of an address; when its turn comes it is
*taken*, and with as many requests under way as it may have it is *busy*. A host without URLs is *asleep*, and
forgotten as soon as nothing has to be remembered about it.

Invariants, for as long as the caller sends a request only in a turn:

- Two requests to a host start at least `max(delay, crawl-delay, factor × response time)` apart, the latter
  two capped; two requests to an address at least `delay`, whatever names it has.
- Never more than `per_host` and `per_address` of them are under way.
- Hosts that share a name, since they differ in scheme or port only, are one host in both respects.
- Of the hosts that may be asked, the one that became ready first is next, unless another is in a hurry. So a
  host with many URLs waits for all others that are ready before it comes again, and no host starves.

A turn is taken before its request is sent: a connection may have to be made first. What servers see is the
sending. So from the turn's beginning until `sent` (or `done`) neither its host nor its addresses begin
another.

A host counts at its name, and at all of its addresses, for nobody knows which one will be used. It waits for
them one after the other, always in the same order, and holds those that it has: otherwise the hosts with one
address would never leave it all of its own at once, and without the order two could wait for each other.

A host that is no web server but another source has no delay: one request follows another, or for local files
some are under way at once.

With a delay of 0 (benchmarks, one's own servers) names and addresses do not count, nor the response time.

A line, that is a name or an address, may be *shared* with other gatherers (`Permits`). Then it is shut: hosts
stand in it, and none is served, until it is opened for some requests and a while. When these are over and
nothing is under way there, it is *spent*, and whoever opened it shuts it and lets another gatherer have it. A
host that needs several shared lines waits for them in the same order everywhere, and keeps those it has.

Costs O(log n) for each step, n being the hosts awake. A host is in one place at a time: in the heap of what
happens later, in one line, or in neither while it is busy. Entries in heaps have a number, and one that is
not its owner's latest is void, which saves taking it out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Final, NamedTuple, Protocol

from gcs.core.sources import FILE
from gcs.core.urls import HOST, SCHEME, is_of_source

FAILURES_KEPT_S: Final = 3600.0
"""How long the failures of a host that is asleep are remembered."""
OPEN_S: Final = 5.0
"""How long a shared line stays open after the first request that it was opened for."""
PATIENCE_S: Final = 15.0
"""How long it waits for that request."""
OPEN_REQUESTS: Final = 20
AT: Final = "@"
"""Begins the key of an address; the key of a name is the name."""
LOCAL: Final = HOST + SCHEME + FILE
"""The host of local files."""
LOCAL_AT_ONCE: Final = 8
"""Files that are read at once."""
_NEVER: Final = float("-inf")
_EVER: Final = float("inf")


class Permits(Protocol):
    """Who decides about the lines that others use too. Called in the middle of work: only note it."""

    def is_shared(self, line: str) -> bool:
        """Whether a line must not be used unless it was opened."""

    def want(self, line: str) -> None:
        """Somebody waits for a shared line; said once until it is opened or postponed."""

    def spent(self, line: str) -> None:
        """A line that was opened is not needed any more, or used up; may be said several times."""


class Manner(NamedTuple):
    """What another gatherer has to know of a host to go on politely."""

    host: str
    rest_s: float
    crawl_delay_s: float
    failures: int


class LineOutlook(NamedTuple):
    """How a name or an address stands."""

    line: str
    rest_s: float
    """How long nothing may be asked there."""
    is_shared: bool
    is_open: bool
    """Whether this gatherer has its turn, if it is shared."""


class Outlook(NamedTuple):
    """When a host may be asked, as far as it is known now."""

    rest_s: float
    """How long the host itself has to rest."""
    distance_s: float
    """The least time between two of its requests."""
    crawl_delay_s: float
    failures: int
    """Requests that failed in a row."""
    under_way: int
    lines: tuple[LineOutlook, ...]
    """What it waits for besides, in the order in which it does."""


class _Line:
    """An address, or a name that hosts share, and the hosts that are ready and wait for it."""

    __slots__ = (
        *("entry", "free_at", "holder", "is_name", "limit", "name", "ready", "under_way", "unsent", "users"),
        *("distance_s", "hosts", "is_open", "is_shared", "is_wanted", "left", "sure_until", "until"),
    )

    def __init__(self, name: str, limit: int | None, *, is_name: bool = False) -> None:
        self.name = name
        self.limit = limit
        self.is_name = is_name
        self.ready: list[tuple[float, int, _Host]] = []
        self.under_way = 0
        self.unsent = 0
        self.free_at = _NEVER
        self.users = 0
        self.holder: _Host | None = None
        self.entry = 0
        self.hosts: set[_Host] = set()
        """Those that use it, if it could be shared."""
        self.distance_s = 0.0
        self.is_shared = self.is_open = self.is_wanted = False
        self.left = 0
        self.until = self.sure_until = _NEVER

    @property
    def key(self) -> str:
        """What others know it by."""
        return self.name if self.is_name else AT + self.name

    def is_shut(self, now: float) -> bool:
        """Whether it may not be used for lack of a permit."""
        return self.is_shared and (self.left <= 0 or now >= self.until or now >= self.sure_until)


class _Host:
    """What has to be known about a host."""

    __slots__ = (
        "addresses",
        "awake",
        "crawl_delay_s",
        "due",
        "eager",
        "entry",
        "failures",
        "free_at",
        "held",
        "is_source",
        "limit",
        "line",
        "located",
        "name",
        "pace_s",
        "ready_at",
        "under_way",
        "unsent",
    )

    def __init__(self, name: str, limit: int) -> None:
        self.name = name
        self.is_source = is_of_source(name)
        self.limit = limit if not self.is_source else LOCAL_AT_ONCE if name == LOCAL else 1
        self.addresses: tuple[_Line, ...] = ()
        self.held = 0
        self.awake = False
        self.located = False
        self.under_way = 0
        self.unsent = False
        self.crawl_delay_s = 0.0
        self.pace_s = 0.0
        self.free_at = _NEVER
        self.ready_at = _NEVER
        self.failures = 0
        self.entry = 0
        self.eager = False
        self.due: float | None = None
        self.line: _Line | None = None


class Turn:
    """One request to a host: taken, then sent, then done."""

    __slots__ = ("_addresses", "_host", "host", "sent_at", "taken_at")

    def __init__(self, host: _Host, now: float) -> None:
        self.host = host.name
        self.taken_at = now
        self.sent_at: float | None = None
        self._host: _Host | None = host
        self._addresses = host.addresses

    @property
    def lines(self) -> tuple[str, ...]:
        """The names and addresses at which it counts."""
        return tuple(line.key for line in self._addresses)


@dataclass(frozen=True, slots=True)
class Statistics:
    """How many hosts are known and awake, addresses known, requests under way, and turns taken so far."""

    hosts: int
    awake: int
    addresses: int
    under_way: int
    taken: int

    @property
    def resting(self) -> int:
        """Hosts that have URLs waiting, and wait for their turn."""
        return max(0, self.awake - self.under_way)


class Workbench:
    """Hosts and addresses, and whose turn it is."""

    def __init__(
        self,
        per_host: int,
        per_address: int,
        delay_s: float,
        delay_factor: float,
        max_delay_s: float,
        *,
        permits: Permits | None = None,
    ) -> None:
        """The limits, as in the section `fetch` of the settings."""
        self._permits = permits
        self._per_host = per_host
        self._per_address = per_address
        self._delay_s = self._factor = self._max_delay_s = 0.0
        self._asked_for: Mapping[str, float] = {}
        self.set_delays(delay_s, delay_factor, max_delay_s)
        self._hosts: dict[str, _Host] = {}
        self._lines: dict[str, _Line] = {}
        self._names: dict[str, _Line] = {}
        # Hosts without an address, and all when addresses do not count.
        self._anywhere = _Line("", None)
        self._later: list[tuple[float, int, _Host | _Line]] = []
        self._serving: list[tuple[float, int, int, _Line]] = []
        self._number = 0
        self._awake = self._under_way = self._taken = 0

    def set_delays(self, delay_s: float, delay_factor: float, max_delay_s: float) -> None:
        """Let hosts rest for so long from the next request on; whether they rest at all must not change."""
        self._delay_s = delay_s
        self._factor = delay_factor if delay_s else 0.0
        self._max_delay_s = max_delay_s

    def set_host_delays(self, delays: Mapping[str, float]) -> None:
        """Let some hosts rest for at least so long, from the next request on; by the prefix of their keys."""
        self._asked_for = delays

    @property
    def delay_s(self) -> float:
        """The least time between two requests."""
        return self._delay_s

    def locate(self, host: str, addresses: Iterable[str], name: str = "") -> None:
        """The addresses of a host, and the name that it shares with others, such as its other ports.

        To be told before it is woken, and again when they change.
        """
        known = self._known(host)
        known.located = True
        if not self._delay_s or known.is_source:
            return
        # The name first: who waits for it must not hold an address that others could use.
        lines = [(name, True)] if name else []
        lines += [(each, False) for each in sorted(set(addresses))]
        before, after = known.addresses, tuple(self._line(*line) for line in lines)
        if before == after:
            return
        self._let_go(known)
        for line in after:
            line.users += 1
        known.addresses = after
        for line in before:
            line.users -= 1
            line.hosts.discard(known)
        if self._permits is not None:
            for line in after:
                line.hosts.add(known)
        for line in before:
            if line.is_open:
                self._see_if_spent(line)
            self._later_if_unused(line)
        if known.line is not None:
            self._stand_in_line(known, self._first_line(known), _NEVER)

    def set_crawl_delay(self, host: str, seconds: float | None) -> None:
        """What the host's robots.txt asks for; to be told again when the host was forgotten."""
        self._known(host).crawl_delay_s = min(seconds or 0.0, self._max_delay_s)

    def wake(self, host: str, now: float) -> None:
        """The host has URLs waiting."""
        known = self._known(host)
        if known.awake:
            return
        known.awake = True
        self._awake += 1
        if not self._is_busy(known):
            # It may rest for longer, only to be remembered for its failures.
            self._rest(known, max(known.free_at, now))

    def hurry(self, host: str, now: float) -> None:
        """Let a host that is awake have its next turn before all others, as soon as it is ready for it."""
        known = self._known(host)
        known.eager = True
        if known.line is not None and known.ready_at != _NEVER:
            known.ready_at = _NEVER
            self._stand_in_line(known, known.line, now)

    def sleep(self, host: str) -> None:
        """The host has no URLs left; its requests under way go on."""
        known = self._hosts.get(host)
        if known is None:
            return
        self._awake -= known.awake
        known.awake = False
        if known.due is None and not self._is_busy(known):
            self._rest(known, known.free_at)
        for line in known.addresses:
            if line.is_open:
                self._see_if_spent(line)

    def take(self, now: float) -> Turn | None:
        """The next host that may be asked now, its request counted as under way; None when there is none.

        Every turn has to be done.
        """
        later, serving = self._later, self._serving
        while True:
            if later and later[0][0] <= now:
                self._advance(now)
            if not serving:
                return None
            _, place, number, line = heappop(serving)
            if line.entry != number:
                continue
            line.entry = 0
            if self._head(line) is not None and line.ready[0][1] != place:
                # Who was first in this line has left it, and who is first now has waited for less long.
                self._offer(line, now)
            else:
                turn = self._serve(line, now)
                if turn is not None:
                    return turn

    def _serve(self, line: _Line, now: float) -> Turn | None:
        """The turn of the first in a line, unless something has come between since it lined up."""
        host = self._head(line)
        if host is None:
            self._later_if_unused(line)
            return None
        if host.free_at > now:
            self._rest(host, host.free_at)
        elif (missing := self._hold(host, now)) is None:
            return self._begin(host, line, now)
        elif missing is not line:
            self._stand_in_line(host, missing, now)
        self._offer(line, now)
        return None

    def next_at(self) -> float | None:
        """When `take` should be asked again after it had nothing; None: not before something changes."""
        serving, later = self._serving, self._later
        while serving and serving[0][3].entry != serving[0][2]:
            heappop(serving)
        if serving:
            return serving[0][0]
        while later and later[0][2].entry != later[0][1]:
            heappop(later)
        return later[0][0] if later else None

    def sent(self, turn: Turn, at: float) -> None:
        """The request of a turn was sent: distances are counted from here; again if it had to be repeated."""
        host = turn._host
        if host is None:
            return
        first = turn.sent_at is None
        turn.sent_at = at
        if first:
            host.unsent = False
        host.free_at = max(host.free_at, at + self._delay_of(host))
        for line in turn._addresses:
            line.unsent -= first
            line.free_at = max(line.free_at, host.free_at if line.is_name else at + self._delay_s)
            self._offer(line, at)
        self._go_on(host, at)

    def done(
        self,
        turn: Turn,
        now: float,
        *,
        response_s: float = 0.0,
        failed: bool = False,
        pause_s: float = 0.0,
    ) -> None:
        """A turn is over: how long the host took, whether it failed in that, whether it gets a pause.

        A request of which nobody knows when it was sent counts as sent now.
        """
        host = turn._host
        if host is None:
            raise ValueError(f"this turn of {turn.host} was done already")
        host.pace_s = min(self._factor * response_s, self._max_delay_s)
        if turn.sent_at is None:
            self.sent(turn, now)
        turn._host = None
        host.under_way -= 1
        self._under_way -= 1
        host.failures = host.failures + 1 if failed else 0
        sent_at = now if turn.sent_at is None else turn.sent_at
        host.free_at = max(host.free_at, sent_at + self._delay_of(host), now + pause_s if pause_s else _NEVER)
        for line in turn._addresses:
            line.under_way -= 1
            if line.is_name:
                line.free_at = max(line.free_at, host.free_at)
                line.distance_s = self._delay_of(host)
            self._offer(line, now)
            if line.is_open:
                self._see_if_spent(line)
            self._later_if_unused(line)
        self._go_on(host, now)

    def give_back(self, turn: Turn, now: float) -> None:
        """A turn is over in which nothing was sent: no distance is counted from it, and no success."""
        host = turn._host
        if host is None or turn.sent_at is not None:
            raise ValueError(f"this turn of {turn.host} was used already")
        turn._host = None
        host.under_way -= 1
        self._under_way -= 1
        host.unsent = False
        for line in turn._addresses:
            line.under_way -= 1
            line.unsent -= 1
            self._offer(line, now)
            if line.is_open:
                self._see_if_spent(line)
            self._later_if_unused(line)
        self._go_on(host, now)

    def set_aside(self, host: str, until: float) -> None:
        """No request to a host begins before a time."""
        known = self._known(host)
        if until <= known.free_at:
            return
        known.free_at = until
        if known.due is None and not self._is_busy(known):
            self._rest(known, until)

    def bounds(self, turn: Turn) -> tuple[float, float]:
        """The distance that requests in a turn keep, and until when it is sure that nobody else has it."""
        host = turn._host
        assert host is not None
        sure = [line.sure_until for line in turn._addresses if line.is_shared]
        return self._delay_of(host), min(sure, default=_EVER)

    # Lines that are shared with other gatherers

    def review(self, now: float) -> None:
        """Ask anew which lines are shared; what has become so is shut at once."""
        if self._permits is None:
            return
        for line in (*self._names.values(), *self._lines.values()):
            is_shared = self._permits.is_shared(line.key)
            if is_shared == line.is_shared:
                continue
            line.is_shared = is_shared
            line.left = 0
            if is_shared and line.under_way and not line.is_open:
                self._want(line)  # others may have it only when nothing is under way here
            self._offer(line, now)
            self._see_if_spent(line)

    def is_under_way(self, line: str) -> bool:
        """Whether somebody is asking in a line."""
        known = self._by_key(line)
        return known is not None and known.under_way > 0

    @property
    def is_used_unopened(self) -> bool:
        """Whether something is under way in a shared line that is not open, as it was not shared before."""
        lines = (*self._names.values(), *self._lines.values())
        return any(line.is_shared and line.under_way and not line.is_open for line in lines)

    def open(self, line: str, now: float, *, rest_s: float, sure_until: float) -> bool:
        """Let a shared line be used after a rest, for some requests; False if nobody needs it any more.

        No request begins later than `sure_until`, which `assure` moves.
        """
        known = self._by_key(line)
        if known is None or not known.is_shared or not self._is_needed(known, now + rest_s + OPEN_S):
            if known is not None:
                known.is_wanted = False
            return False
        known.is_open, known.is_wanted = True, False
        known.left, known.until, known.sure_until = OPEN_REQUESTS, now + rest_s + PATIENCE_S, sure_until
        known.free_at = max(known.free_at, now + rest_s)
        self._offer(known, now)
        return True

    def assure(self, line: str, sure_until: float) -> None:
        """A line that is open may be used for longer, or only for less long."""
        known = self._by_key(line)
        if known is not None:
            known.sure_until = sure_until

    def postpone(self, line: str, until: float, now: float) -> None:
        """A shared line must not be used before a time; it is wanted again then, if by anybody."""
        known = self._by_key(line)
        if known is not None:
            known.is_wanted = False
            known.free_at = max(known.free_at, until)
            self._offer(known, now)

    def is_wanted(self, line: str) -> bool:
        """Whether somebody still waits for a shared line to be opened."""
        known = self._by_key(line)
        return known is not None and known.is_wanted

    def is_overdue(self, line: str, now: float) -> bool:
        """Whether the time is over that a line was opened for, or who waited for it waits for another."""
        known = self._by_key(line)
        if known is None or not known.is_open:
            return False
        is_used = known.under_way or known.holder is not None or self._is_useful(known, known.until)
        return not is_used or now >= min(known.until, known.sure_until)

    def retire(self, line: str, now: float) -> None:
        """Begin no more requests in a line that is open; it is spent as soon as none is under way."""
        known = self._by_key(line)
        if known is None:
            return
        known.left = 0
        holder = known.holder
        if holder is not None:
            self._let_go(holder)
            self._stand_in_line(holder, self._first_line(holder), now)
        self._see_if_spent(known)

    def shut(self, line: str, now: float) -> tuple[float, float]:
        """Shut a line; says when it is free again, and the distance that its requests keep."""
        known = self._by_key(line)
        if known is None:
            return now, self._delay_s
        known.is_open = False
        known.left = 0
        self._later_if_unused(known)
        return max(now, known.free_at), max(known.distance_s, self._delay_s)

    def offer(self, line: str, now: float) -> None:
        """A line that was shut may be wanted again."""
        known = self._by_key(line)
        if known is not None:
            self._offer(known, now)

    def asked(self) -> list[str]:
        """The hosts with requests under way, if there is a distance to keep from them."""
        return [
            host.name
            for host in self._hosts.values()
            if host.under_way and self._delay_s and not host.is_source
        ]

    def manners(self, now: float) -> list[Manner]:
        """What is to be remembered of hosts, for others that are going to ask them."""
        found = []
        for host in self._hosts.values():
            free_at = max(host.free_at, *(line.free_at for line in host.addresses if line.is_name), _NEVER)
            if free_at > now or host.failures:
                rest_s = max(0.0, free_at - now)
                found.append(Manner(host.name, rest_s, host.crawl_delay_s, host.failures))
        return found

    def recall(self, manner: Manner, now: float) -> None:
        """Treat a host as another gatherer did that asked it before."""
        known = self._known(manner.host)
        known.crawl_delay_s = max(known.crawl_delay_s, min(manner.crawl_delay_s, self._max_delay_s))
        known.failures = max(known.failures, manner.failures)
        self.set_aside(manner.host, now + manner.rest_s)

    def _by_key(self, key: str) -> _Line | None:
        return self._lines.get(key[1:]) if key.startswith(AT) else self._names.get(key)

    def _want(self, line: _Line) -> None:
        if not line.is_wanted and self._permits is not None:
            line.is_wanted = True
            self._permits.want(line.key)

    def _see_if_spent(self, line: _Line) -> None:
        """Say so when a line that is open cannot, or need not, be used any more."""
        if not line.is_open or line.under_way or line.holder is not None or self._permits is None:
            return
        if not line.is_shared or line.left <= 0 or not self._is_useful(line, line.until):
            line.left = 0
            self._permits.spent(line.key)

    def _is_needed(self, line: _Line, until: float) -> bool:
        return line.under_way > 0 or self._is_useful(line, until)

    @staticmethod
    def _is_useful(line: _Line, until: float) -> bool:
        """Whether a host could use a line before a time, if that is open."""
        return line.free_at < until and any(
            host.awake
            and host.free_at < until
            and (host.line is None or host.line is line or not host.line.is_shared or host.line.is_open)
            for host in line.hosts
        )

    # Questions

    def is_located(self, host: str) -> bool:
        """Whether the addresses of a host are known, as far as they count."""
        known = self._hosts.get(host)
        return known is not None and known.located

    def failures(self, host: str) -> int:
        """How many requests to a host failed in a row."""
        known = self._hosts.get(host)
        return 0 if known is None else known.failures

    def may_come(self, host: str, now: float, by: float) -> bool:
        """Whether a host may have a turn by a time, as far as is known; so one whose addresses are not."""
        known = self._hosts.get(host)
        if known is None or not known.located:
            return True
        line = known.line
        is_free = line is None or (line.free_at <= by and not line.is_shut(now))
        return known.awake and known.free_at <= by and is_free

    def outlook(self, host: str, now: float) -> Outlook | None:
        """When a host may be asked; None if nothing is known of it, so that nothing keeps it waiting."""
        known = self._hosts.get(host)
        if known is None:
            return None
        lines = tuple(
            LineOutlook(line.key, max(0.0, line.free_at - now), line.is_shared, line.is_open)
            for line in known.addresses
        )
        return Outlook(
            max(0.0, known.free_at - now),
            self._delay_of(known),
            known.crawl_delay_s,
            known.failures,
            known.under_way,
            lines,
        )

    def is_open(self, line: str) -> bool:
        """Whether a shared line may be used here: this gatherer has its turn."""
        known = self._by_key(line)
        return known is not None and known.is_open

    def statistics(self) -> Statistics:
        """How things stand."""
        return Statistics(len(self._hosts), self._awake, len(self._lines), self._under_way, self._taken)

    def __contains__(self, host: str) -> bool:
        """Whether anything is known about a host; what is not has to be located and told again."""
        return host in self._hosts

    def _known(self, name: str) -> _Host:
        host = self._hosts.get(name)
        if host is None:
            host = self._hosts[name] = _Host(name, self._per_host)
        return host

    def _line(self, name: str, is_name: bool) -> _Line:  # noqa: FBT001 - a part of the line's identity
        lines = self._names if is_name else self._lines
        line = lines.get(name)
        if line is None:
            limit = self._per_host if is_name else self._per_address
            line = lines[name] = _Line(name, limit, is_name=is_name)
            line.is_shared = self._permits is not None and self._permits.is_shared(line.key)
        return line

    def _delay_of(self, host: _Host) -> float:
        if host.is_source:
            return 0.0
        least_s = max(self._delay_s, host.crawl_delay_s, host.pace_s)
        if self._asked_for:
            prefix = host.name.partition(SCHEME)[0] + SCHEME
            least_s = max(least_s, self._asked_for.get(prefix, 0.0))
        return least_s

    def _is_busy(self, host: _Host) -> bool:
        return host.unsent or host.under_way >= host.limit

    def _rest(self, host: _Host, until: float) -> None:
        """Look at a host again then: it is ready or, if asleep, may be forgotten."""
        host.entry = 0  # voids its place in a line, so that others can have what it lets go
        host.line = None
        self._let_go(host)
        self._number += 1
        host.entry = self._number
        host.due = until
        heappush(self._later, (until, self._number, host))

    def _go_on(self, host: _Host, now: float) -> None:
        """After a request was begun, sent or done: on to the next one, unless that is arranged for."""
        if host.due is not None or host.line is not None or self._is_busy(host):
            return
        if host.awake and host.free_at <= now:
            host.ready_at = _NEVER if host.eager else now
            self._stand_in_line(host, self._first_line(host), now)
        else:
            self._rest(host, max(host.free_at, now))

    def _advance(self, now: float) -> None:
        """Let happen what was to happen by now."""
        later = self._later
        while later and later[0][0] <= now:
            due, number, what = heappop(later)
            if what.entry != number:
                continue
            if isinstance(what, _Host):
                what.due = None
                self._rested(what, due, now)
            else:
                what.entry = 0
                self._offer(what, now)
                self._forget_if_unused(what, now)

    def _rested(self, host: _Host, due: float, now: float) -> None:
        if host.free_at > now:
            self._rest(host, host.free_at)
        elif host.awake:
            host.ready_at = _NEVER if host.eager else due
            self._stand_in_line(host, self._first_line(host), now)
        elif not host.under_way:
            kept_until = host.free_at + FAILURES_KEPT_S if host.failures else _NEVER
            if kept_until > now:
                self._rest(host, kept_until)
            else:
                self._forget(host)

    def _first_line(self, host: _Host) -> _Line:
        return host.addresses[0] if host.addresses else self._anywhere

    def _forget(self, host: _Host) -> None:
        del self._hosts[host.name]
        host.entry = 0
        for line in host.addresses:
            line.users -= 1
            line.hosts.discard(host)
            self._later_if_unused(line)

    def _later_if_unused(self, line: _Line) -> None:
        """See to it that an address without hosts is forgotten when its distance has passed."""
        is_used = line.users or line.under_way or line.is_open
        if line.limit is not None and not is_used and not line.entry:
            self._number += 1
            line.entry = self._number
            heappush(self._later, (line.free_at, self._number, line))

    def _forget_if_unused(self, line: _Line, now: float) -> None:
        if line.users or line.under_way or line.is_open:
            return
        if line.free_at > now:
            self._later_if_unused(line)
        else:
            del (self._names if line.is_name else self._lines)[line.name]

    def _stand_in_line(self, host: _Host, line: _Line, now: float) -> None:
        self._number += 1
        host.entry = self._number
        host.due = None
        host.line = line
        heappush(line.ready, (host.ready_at, self._number, host))
        if line.ready[0][1] == self._number:
            # A new first in line: the line is as old as its first.
            line.entry = 0
        self._offer(line, now)

    def _head(self, line: _Line) -> _Host | None:
        """The first in a line that still stands there."""
        ready = line.ready
        while ready and ready[0][2].entry != ready[0][1]:
            heappop(ready)
        return ready[0][2] if ready else None

    def _offer(self, line: _Line, now: float) -> None:
        """Let a line be served, now or when its address is free; who fills it offers it again."""
        if line.entry or self._head(line) is None:
            return
        if line.is_shared and not line.is_open:
            if line.is_wanted:
                return
            if line.free_at <= now:
                self._want(line)
                return
        elif line.limit is not None and self._is_taken(line):
            return
        self._number += 1
        line.entry = self._number
        if line.limit is not None and line.free_at > now:
            heappush(self._later, (line.free_at, self._number, line))
        else:
            # Of those that became ready at the same time, the one that stood in line first.
            ready_at, place, _ = line.ready[0]
            heappush(self._serving, (ready_at, place, self._number, line))

    def _is_taken(self, line: _Line) -> bool:
        is_full = line.limit is not None and line.under_way >= line.limit
        return line.unsent > 0 or is_full or line.holder is not None or (line.is_shared and line.left <= 0)

    def _hold(self, host: _Host, now: float) -> _Line | None:
        """Hold the addresses of a host that are free, up to the first that is not, which is returned."""
        if host.held and self._permits is not None:
            for line in host.addresses[: host.held]:
                if line.is_shut(now):
                    self._let_go(host)
                    return line
        for line in host.addresses[host.held :]:
            if line.is_shared and line.is_shut(now):
                line.left = 0
            if line.free_at > now or self._is_taken(line):
                return line
            line.holder = host
            host.held += 1
        return None

    def _let_go(self, host: _Host) -> None:
        for line in host.addresses[: host.held]:
            line.holder = None
            self._offer(line, _NEVER)
            if line.is_open:
                self._see_if_spent(line)
        host.held = 0

    def _begin(self, host: _Host, line: _Line, now: float) -> Turn:
        turn = Turn(host, now)
        heappop(line.ready)
        host.entry = 0
        host.eager = False
        host.line = None
        host.under_way += 1
        self._under_way += 1
        self._taken += 1
        host.held = 0
        for address in host.addresses:
            address.holder = None
            address.under_way += 1
            address.unsent += 1
            if address.is_shared:
                address.left -= 1
                address.until = min(address.until, now + OPEN_S)
        host.unsent = self._delay_of(host) > 0
        self._offer(line, now)
        self._go_on(host, now)
        return turn
