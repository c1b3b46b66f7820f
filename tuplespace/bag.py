"""A tuple space as plain data: no tasks, no clock, no I/O. Time comes in as an argument.

The in-memory space is this plus trio. The rules are those of `scripts/space.lua`, which says the
same for a server; the conformance suite and the model test hold the two together.

Invariants: a number in a bucket is in `tuples` and in no lease; a number in a lease is in no
bucket; a waiter in line has no result yet.
"""

from __future__ import annotations

import bisect
import heapq
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from tuplespace.backend import Delivery, Event, Fence, Statistics, Tenure, Terms
from tuplespace.errors import Fenced, IndexMismatch
from tuplespace.fields import DEAD_LETTER, Item, Template, Tuple

Bucket = tuple[int, str, tuple[bytes, ...], str]
MICROSECONDS: Final = 1_000_000


@dataclass(slots=True)
class Stored:
    """A tuple in the space, waiting or leased."""

    item: Item
    expires: float | None
    tries: int = 0

    def expired(self, now: float) -> bool:
        """Whether its time is over."""
        return self.expires is not None and self.expires <= now


@dataclass(slots=True)
class Lease:
    """Numbers that somebody holds until `ends`."""

    terms: Terms
    numbers: list[int]
    ends: float


@dataclass(eq=False, slots=True)
class Waiter:
    """Somebody in line."""

    name: bytes
    template: Template
    terms: Terms | None
    hand: Callable[[Delivery], bool]
    """Takes what it waited for and says whether it could be reached."""
    hurry: Callable[[], object] = lambda: None
    """Something is due sooner than it was before."""


@dataclass(slots=True)
class Election:
    """Who holds a name, until when, and the highest token it ever gave."""

    token: int = 0
    holder: bytes = b""
    ends: float = 0.0


@dataclass
class Bag:
    """One space. Every method is one atomic step."""

    tuples: dict[int, Stored] = field(default_factory=dict)
    leases: dict[bytes, Lease] = field(default_factory=dict)
    waiters: list[Waiter] = field(default_factory=list)
    listeners: list[Callable[[Event], None]] = field(default_factory=list)
    _buckets: defaultdict[Bucket, list[int]] = field(default_factory=lambda: defaultdict(list))
    _signatures: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    _declared: dict[str, tuple[int, ...]] = field(default_factory=dict)
    _due: list[tuple[float, int, bytes | int]] = field(default_factory=list)
    _elections: defaultdict[str, Election] = field(default_factory=lambda: defaultdict(Election))
    _fences: dict[str, int] = field(default_factory=dict)
    _last: int = 0
    _order: int = 0
    _old: int = 0
    """Tuples up to this number are from before the server was started: nobody knows who has had them."""
    _since: float = 0.0
    _from_nothing: bool = True

    # Going back

    def snapshot(self) -> Bag:
        """What is in it now, without those who wait or listen."""
        kept = Bag()
        kept.tuples = {number: replace(stored) for number, stored in self.tuples.items()}
        kept.leases = {
            name: replace(lease, numbers=list(lease.numbers)) for name, lease in self.leases.items()
        }
        kept._buckets = defaultdict(list, {bucket: list(found) for bucket, found in self._buckets.items()})
        kept._signatures = defaultdict(set, {tag: set(found) for tag, found in self._signatures.items()})
        kept._declared, kept._due, kept._fences = dict(self._declared), list(self._due), dict(self._fences)
        kept._elections = defaultdict(Election, {name: replace(e) for name, e in self._elections.items()})
        kept._last, kept._order = self._last, self._order
        return kept

    def restore(self, snapshot: Bag) -> None:
        """Be as it was then: what was written since is gone, and what was removed is back."""
        kept = snapshot.snapshot()
        waiters, listeners = self.waiters, self.listeners
        self.__dict__.update(kept.__dict__)
        self.waiters, self.listeners = waiters, listeners
        self._hurry()

    def start(self, now: float) -> None:
        """The server was started again: what is there is from before, and those who still wait find it."""
        self._old, self._since, self._from_nothing = self._last, now, self._last == 0
        for number, stored in list(self.tuples.items()):
            if self.waiters and self._stands(number):
                self._unstand(number)
                self._offer(number, stored, now)

    def tenure(self, now: float) -> Tenure:
        """For how long the server has forgotten nothing."""
        return Tenure(now - self._since, self._from_nothing, 1 + int(self._since * MICROSECONDS))

    # Writing

    def write(self, items: Sequence[Item], now: float, fence: Fence | None = None) -> None:
        """Write tuples, each to the longest-waiting taker that matches, or into the space."""
        self.check(items, fence)
        for item in items:
            self._last += 1
            expires = None if item.ttl_s is None else now + item.ttl_s
            stored = self.tuples[self._last] = Stored(item, expires)
            if expires is not None:
                self._schedule(expires, self._last)
            self._tell(Event("out", item.fields))
            self._offer(self._last, stored, now)

    def check(self, items: Sequence[Item], fence: Fence | None) -> None:
        """Refuse a stale token or differing declarations before anything is changed."""
        if fence is not None:
            highest = self._fences.get(fence.name, 0)
            if highest > fence.token:
                raise Fenced(f"token {fence.token} of {fence.name!r} is older than {highest}")
        for item in items:
            self.agree(item.tag, item.positions)
        if fence is not None:
            self._fences[fence.name] = fence.token

    def agree(self, tag: str, positions: tuple[int, ...]) -> None:
        """All users of a tag declare the same fields; raises IndexMismatch otherwise."""
        declared = self._declared.get(tag, ())
        if declared == positions:
            return
        if tag not in self._declared and not self._signatures.get(tag):
            self._declared[tag] = positions
            return
        raise IndexMismatch(f"tag {tag!r} is declared with fields {declared}, not {positions}")

    # Finding

    def find(self, template: Template, now: float) -> Iterator[int]:
        """Numbers of waiting tuples that match and are not too long, oldest first."""
        return (n for n in self._matching(template, now) if not self._is_too_long(n, template))

    def shed(self, template: Template, now: float) -> int:
        """Drop waiting tuples that match and are longer than wanted; how many there were."""
        numbers = [n for n in self._matching(template, now) if self._is_too_long(n, template)]
        for number in numbers:
            self._unstand(number)
            del self.tuples[number]
        return len(numbers)

    def _is_too_long(self, number: int, template: Template) -> bool:
        return len(self.tuples[number].item.payload) > template.longest

    def _matching(self, template: Template, now: float) -> Iterator[int]:
        self.agree(template.tag, template.positions)
        self.sweep(now)
        found = [
            self._buckets.get((template.mask, template.tag, template.tokens, signature), [])
            for signature in self._signatures.get(template.tag, ())
            if template.accepts(signature)
        ]
        return heapq.merge(*[list(numbers) for numbers in found])

    def take(self, name: bytes, template: Template, many: int, terms: Terms, now: float) -> list[Delivery]:
        """Lease up to `many` of the oldest matches under a name; empty when there are none."""
        numbers = [n for n, _ in zip(self.find(template, now), range(many), strict=False)]
        for number in numbers:
            self._unstand(number)
        if numbers:
            self._grant(name, terms, numbers, now)
        return [self._delivery(n) for n in numbers]

    def commit(self, name: bytes, items: Sequence[Item], now: float, fence: Fence | None = None) -> bool:
        """Remove what a lease holds and write others; False when the lease has ended."""
        self.check(items, fence)
        lease = self.leases.get(name)
        if lease is None or lease.ends <= now:
            return False
        del self.leases[name]
        for number in lease.numbers:
            self._tell(Event("in", self.tuples.pop(number).item.fields))
        self.write(items, now)
        return True

    def swap(self, template: Template, item: Item, now: float, fence: Fence | None = None) -> Tuple | None:
        """Replace the oldest match; None when nothing matched."""
        self.check([item], fence)
        number = next(self.find(template, now), None)
        if number is None:
            return None
        self._unstand(number)
        old = self.tuples.pop(number).item.fields
        self._tell(Event("in", old))
        self.write([item], now)
        return old

    # Leases and lines

    def renew(self, name: bytes, now: float) -> bool:
        """Give a lease its full time again; False when it has ended."""
        lease = self.leases.get(name)
        if lease is None or lease.ends <= now:
            return False
        lease.ends = now + lease.terms.lease_s
        self._schedule(lease.ends, name)
        return True

    def release(self, name: bytes, now: float, *, counted: bool) -> None:
        """Leave the line, or give a lease back before its time."""
        self.waiters = [w for w in self.waiters if w.name != name]
        lease = self.leases.pop(name, None)
        if lease is None:
            return
        for number in lease.numbers:
            self._give_back(number, lease.terms, now, counted=counted)

    def sweep(self, now: float) -> None:
        """Do what is due: leases that ended, tuples that expired."""
        while self._due and self._due[0][0] <= now:
            _, _, what = heapq.heappop(self._due)
            if isinstance(what, bytes):
                lease = self.leases.get(what)
                if lease is not None and lease.ends <= now:
                    self.release(what, now, counted=True)
            elif what in self.tuples and self._stands(what):
                self._unstand(what)
                del self.tuples[what]

    def next_due(self) -> float | None:
        """When the next lease ends or tuple expires."""
        return self._due[0][0] if self._due else None

    # Elections

    def elect(
        self, name: str, step: str, holder: bytes, lease_s: float, floor: int, now: float
    ) -> tuple[int | None, float]:
        """Win, renew or resign; the token when held, else the seconds until it may be asked again."""
        election = self._elections[name]
        mine = election.holder == holder and election.ends > now
        if step == "resign":
            if mine:
                election.ends = 0.0
            return None, 0.0
        if not mine:
            if step == "renew":
                return None, 0.0
            if election.ends > now:
                return None, election.ends - now
            highest = max(election.token, floor, int(now * MICROSECONDS), self._fences.get(name, 0))
            election.token, election.holder = highest + 1, holder
            self._fences[name] = election.token
        election.ends = now + lease_s
        return election.token, lease_s

    def statistics(self) -> Statistics:
        """What is in the space."""
        leased = sum(len(lease.numbers) for lease in self.leases.values())
        takers = sum(w.terms is not None for w in self.waiters)
        return Statistics(
            waiting=len(self.tuples) - leased,
            leased=leased,
            leases=len(self.leases),
            takers=takers,
            readers=len(self.waiters) - takers,
            sessions=0,
            kept_replies=0,
        )

    # Steps that the above are made of

    def _delivery(self, number: int) -> Delivery:
        stored = self.tuples[number]
        return Delivery(stored.item.fields, stored.tries or int(number <= self._old))

    def _grant(self, name: bytes, terms: Terms, numbers: list[int], now: float) -> None:
        self.leases[name] = Lease(terms, numbers, now + terms.lease_s)
        self._schedule(now + terms.lease_s, name)

    def _schedule(self, when: float, what: bytes | int) -> None:
        self._order += 1
        heapq.heappush(self._due, (when, self._order, what))
        if self._due[0][1] == self._order:
            self._hurry()

    def _hurry(self) -> None:
        for waiter in self.waiters:
            waiter.hurry()

    def _offer(self, number: int, stored: Stored, now: float) -> None:
        """Show a tuple to those who wait to read it, hand it to the first taker, or let it stand."""
        delivery = self._delivery(number)
        size, fields = len(stored.item.payload), stored.item.fields
        waiting = [w for w in self.waiters if size <= w.template.longest and w.template.matches(fields)]
        for reader in [w for w in waiting if w.terms is None]:
            self.waiters.remove(reader)
            reader.hand(delivery)
        for taker in waiting:
            if taker.terms is None:
                continue
            self.waiters.remove(taker)
            if taker.hand(delivery):
                self._grant(taker.name, taker.terms, [number], now)
                return
        self._stand(number, stored.item)

    def _give_back(self, number: int, terms: Terms, now: float, *, counted: bool) -> None:
        stored = self.tuples[number]
        if stored.expired(now):
            del self.tuples[number]
            return
        stored.tries += counted
        if counted and terms.max_deliveries is not None and stored.tries >= terms.max_deliveries:
            del self.tuples[number]
            letter: Tuple = (DEAD_LETTER, stored.item.fields, stored.tries)
            self.write([Item(letter, "sti", (), (), b"")], now)
            return
        self._offer(number, stored, now)

    def _places(self, item: Item) -> Iterator[Bucket]:
        for mask, tokens in item.buckets():
            yield mask, item.tag, tokens, item.signature

    def _stand(self, number: int, item: Item) -> None:
        for place in self._places(item):
            bisect.insort(self._buckets[place], number)
        self._signatures[item.tag].add(item.signature)

    def _stands(self, number: int) -> bool:
        item = self.tuples[number].item
        numbers = self._buckets.get((0, item.tag, (), item.signature), [])
        at = bisect.bisect_left(numbers, number)
        return at < len(numbers) and numbers[at] == number

    def _unstand(self, number: int) -> None:
        item = self.tuples[number].item
        for place in self._places(item):
            numbers = self._buckets[place]
            del numbers[bisect.bisect_left(numbers, number)]
            if not numbers:
                del self._buckets[place]
        if (0, item.tag, (), item.signature) not in self._buckets:
            self._signatures[item.tag].discard(item.signature)
            if not self._signatures[item.tag]:
                del self._signatures[item.tag]

    def _tell(self, event: Event) -> None:
        for listener in self.listeners:
            listener(event)
