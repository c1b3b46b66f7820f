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
- Of the hosts that may be asked, the one that became ready first is next. So a host with many URLs waits for
  all others that are ready before it comes again, and no host starves.

A turn is taken before its request is sent: a connection may have to be made first. What servers see is the
sending. So from the turn's beginning until `sent` (or `done`) neither its host nor its addresses begin
another.

A host counts at its name, and at all of its addresses, for nobody knows which one will be used. It waits for
them one after the other, always in the same order, and holds those that it has: otherwise the hosts with one
address would never leave it all of its own at once, and without the order two could wait for each other.

With a delay of 0 (benchmarks, one's own servers) names and addresses do not count, nor the response time.

Costs O(log n) for each step, n being the hosts awake. A host is in one place at a time: in the heap of what
happens later, in one line, or in neither while it is busy. Entries in heaps have a number, and one that is
not its owner's latest is void, which saves taking it out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Final

FAILURES_KEPT_S: Final = 3600.0
"""How long the failures of a host that is asleep are remembered."""
_NEVER: Final = float("-inf")


class _Line:
    """An address, or a name that hosts share, and the hosts that are ready and wait for it."""

    __slots__ = (
        *("entry", "free_at", "holder", "is_name", "limit", "name", "ready", "under_way", "unsent", "users"),
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


class _Host:
    """What has to be known about a host."""

    __slots__ = (
        "addresses",
        "awake",
        "crawl_delay_s",
        "due",
        "entry",
        "failures",
        "free_at",
        "held",
        "line",
        "located",
        "name",
        "pace_s",
        "ready_at",
        "under_way",
        "unsent",
    )

    def __init__(self, name: str) -> None:
        self.name = name
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


@dataclass(frozen=True, slots=True)
class Statistics:
    """How many hosts are known and awake, addresses known, requests under way, and turns taken so far."""

    hosts: int
    awake: int
    addresses: int
    under_way: int
    taken: int


class Workbench:
    """Hosts and addresses, and whose turn it is."""

    def __init__(
        self, per_host: int, per_address: int, delay_s: float, delay_factor: float, max_delay_s: float
    ) -> None:
        """The limits, as in the section `fetch` of the settings."""
        self._per_host = per_host
        self._per_address = per_address
        self._delay_s = delay_s
        self._factor = delay_factor if delay_s else 0.0
        self._max_delay_s = max_delay_s
        self._hosts: dict[str, _Host] = {}
        self._lines: dict[str, _Line] = {}
        self._names: dict[str, _Line] = {}
        # Hosts without an address, and all when addresses do not count.
        self._anywhere = _Line("", None)
        self._later: list[tuple[float, int, _Host | _Line]] = []
        self._serving: list[tuple[float, int, int, _Line]] = []
        self._number = 0
        self._awake = self._under_way = self._taken = 0

    def locate(self, host: str, addresses: Iterable[str], name: str = "") -> None:
        """The addresses of a host, and the name that it shares with others, such as its other ports.

        To be told before it is woken, and again when they change.
        """
        known = self._known(host)
        known.located = True
        if not self._delay_s:
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

    def sleep(self, host: str) -> None:
        """The host has no URLs left; its requests under way go on."""
        known = self._hosts.get(host)
        if known is None:
            return
        self._awake -= known.awake
        known.awake = False
        if known.due is None and not self._is_busy(known):
            self._rest(known, known.free_at)

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
            self._offer(line, now)
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

    def reserve(self, host: str, now: float, name: str = "") -> float:
        """When a request outside of turns may be sent; the turns that follow keep their distance from it.

        `name` is the one that the host may share with others, if it was not located.
        """
        known = self._known(host)
        lines = known.addresses
        if not lines and name in self._names:
            lines = (self._names[name],)
        at = max(now, known.free_at, *(line.free_at for line in lines))
        if known.unsent or any(line.unsent for line in lines):
            # Nobody knows yet when that one is sent; it may be only now.
            at = max(at, now + self._delay_of(known))
        known.free_at = at + self._delay_of(known)
        for line in lines:
            line.free_at = known.free_at if line.is_name else at + self._delay_s
        if not self._is_busy(known):
            self._rest(known, known.free_at)
        return at

    def is_located(self, host: str) -> bool:
        """Whether the addresses of a host are known, as far as they count."""
        known = self._hosts.get(host)
        return known is not None and known.located

    def failures(self, host: str) -> int:
        """How many requests to a host failed in a row."""
        known = self._hosts.get(host)
        return 0 if known is None else known.failures

    def statistics(self) -> Statistics:
        """How things stand."""
        return Statistics(len(self._hosts), self._awake, len(self._lines), self._under_way, self._taken)

    def __contains__(self, host: str) -> bool:
        """Whether anything is known about a host; what is not has to be located and told again."""
        return host in self._hosts

    def _known(self, name: str) -> _Host:
        host = self._hosts.get(name)
        if host is None:
            host = self._hosts[name] = _Host(name)
        return host

    def _line(self, name: str, is_name: bool) -> _Line:  # noqa: FBT001 - a part of the line's identity
        lines = self._names if is_name else self._lines
        line = lines.get(name)
        if line is None:
            limit = self._per_host if is_name else self._per_address
            line = lines[name] = _Line(name, limit, is_name=is_name)
        return line

    def _delay_of(self, host: _Host) -> float:
        return max(self._delay_s, host.crawl_delay_s, host.pace_s)

    def _is_busy(self, host: _Host) -> bool:
        return host.unsent or host.under_way >= self._per_host

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
            host.ready_at = now
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
            host.ready_at = due
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
            self._later_if_unused(line)

    def _later_if_unused(self, line: _Line) -> None:
        """See to it that an address without hosts is forgotten when its distance has passed."""
        if line.limit is not None and not line.users and not line.under_way and not line.entry:
            self._number += 1
            line.entry = self._number
            heappush(self._later, (line.free_at, self._number, line))

    def _forget_if_unused(self, line: _Line, now: float) -> None:
        if line.users or line.under_way:
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
        if line.limit is not None and self._is_taken(line):
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
        return line.unsent > 0 or is_full or line.holder is not None

    def _hold(self, host: _Host, now: float) -> _Line | None:
        """Hold the addresses of a host that are free, up to the first that is not, which is returned."""
        for line in host.addresses[host.held :]:
            if line.free_at > now or self._is_taken(line):
                return line
            line.holder = host
            host.held += 1
        return None

    def _let_go(self, host: _Host) -> None:
        for line in host.addresses[: host.held]:
            line.holder = None
            self._offer(line, _NEVER)
        host.held = 0

    def _begin(self, host: _Host, line: _Line, now: float) -> Turn:
        turn = Turn(host, now)
        heappop(line.ready)
        host.entry = 0
        host.line = None
        host.under_way += 1
        self._under_way += 1
        self._taken += 1
        host.held = 0
        for address in host.addresses:
            address.holder = None
            address.under_way += 1
            address.unsent += 1
        host.unsent = self._delay_of(host) > 0
        self._offer(line, now)
        self._go_on(host, now)
        return turn
