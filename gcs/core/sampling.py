"""Small summaries of long streams that can be merged: frequent values, and uniform samples.

Both give the same, exactly or in distribution, whether one of them saw a stream or several saw parts of it
and were merged. That is what lets every gatherer count alone and the leader add up. (003, section 5.1.)
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final

_TINY: Final = -1e-300
"""In place of a negated rank of 0, of which there is no logarithm of the complement."""


@dataclass(slots=True)
class Frequent:
    """The frequent values of a stream, in a table of bounded size.

    Promise: of the n visits it was told of, a value seen more than n / (capacity + 1) times is in the table,
    and its count is never too high, and too low by at most that much (`error` says by how much, never more).
    These are the rules of Misra and Gries, which stay true under `merge`. Between calls the table has at most
    twice its capacity, and within one call of `add_many` also as many values as that call brings.
    """

    capacity: int
    counts: dict[str, int] = field(default_factory=dict)
    total: int = 0
    error: int = 0

    def add(self, value: str) -> None:
        """Count one visit: what `add_many` does, for one value faster."""
        self.total += 1
        self.counts[value] = self.counts.get(value, 0) + 1
        if len(self.counts) > 2 * self.capacity:
            self.shrink()

    def add_many(self, values: Sequence[str]) -> None:
        """Count visits."""
        self.total += len(values)
        table, get = self.counts, self.counts.get
        for value in values:
            table[value] = get(value, 0) + 1
        self._shrink_at_times()

    def add_repeated(self, value: str, count: int) -> None:
        """Count many visits of one value."""
        if count > 0:
            self.total += count
            self.counts[value] = self.counts.get(value, 0) + count
        self._shrink_at_times()

    def merge(self, *others: Frequent) -> None:
        """Take in what other tables have counted."""
        table, get = self.counts, self.counts.get
        for other in others:
            for value, count in other.counts.items():
                table[value] = get(value, 0) + count
            self.total += other.total
            self.error += other.error
        self.shrink()

    def pop(self, value: str) -> int:
        """Take a value out, with its visits, as if it had never come."""
        count = self.counts.pop(value, 0)
        self.total -= count
        return count

    def _shrink_at_times(self) -> None:
        """Let the table grow to twice its size first: one shrinking costs as much as many visits."""
        if len(self.counts) > 2 * self.capacity:
            self.shrink()

    def shrink(self) -> None:
        """Bring the table down to its size: subtract from all the largest count that has no place.

        Of every unit subtracted at least capacity + 1 visits pay a part, hence the promise.
        """
        if len(self.counts) <= self.capacity:
            return
        excess = sorted(self.counts.values(), reverse=True)[self.capacity]
        self.counts = {value: count - excess for value, count in self.counts.items() if count > excess}
        self.error += excess


@dataclass(slots=True)
class Sample:
    """A uniform sample of a stream, without replacement, of bounded size.

    Every value gets a random rank when it comes, and those with the lowest ranks stay. So which values stay
    does not depend on when or where they came, and merging keeps the lowest ranks of all.

    Invariant: of the values with ranks up to `limit`, it holds those with the lowest ranks, as many as there
    is room for. Above the limit nothing is known of the stream, so nothing with such a rank is taken in, even
    where there is room: it would stand for fewer visits than what is there already.
    """

    capacity: int
    total: int = 0
    limit: float = 1.0
    # With ranks negated: the largest rank comes first. A heap once it is full; most samples never are.
    _heap: list[tuple[float, str]] = field(default_factory=list)
    # The number of the next value that stays, once that is drawn; all before it come and go.
    _next: int = 0

    def add(self, value: str, random: Random) -> None:
        """Let one value come: what `add_many` does, for one value faster."""
        if self.total + 1 < self._next:
            self.total += 1
        elif self.limit == 1.0 and len(self._heap) + 1 < self.capacity:
            self.total += 1
            self._heap.append((-random.random(), value))
        else:
            self.add_many((value,), random)

    def add_many(self, values: Sequence[str], random: Random) -> None:
        """Let values come, in any order.

        Of a long stream most come and go. How many do before the next one that stays is drawn at once, from
        the geometric distribution, instead of a rank for each.
        """
        before = self.total
        self.total += len(values)
        if self.total < self._next:
            return
        if self.limit == 1.0 and len(self._heap) < self.capacity:
            before = self._fill(values, random)
            if len(self._heap) < self.capacity:
                return
        first, coming = self.total - len(values) + 1, self._next
        if coming <= before:
            coming = before + self._gap(random)
        while coming <= self.total:
            self._take(values[coming - first], random)
            coming += self._gap(random)
        self._next = coming

    def _fill(self, values: Sequence[str], random: Random) -> int:
        """Take in all values for which there is room; returns the number of the last one."""
        room = self.capacity - len(self._heap)
        self._heap += [(-random.random(), value) for value in values[:room]]
        if len(self._heap) == self.capacity:
            heapq.heapify(self._heap)
        return self.total - len(values) + min(room, len(values))

    def _take(self, value: str, random: Random) -> None:
        """Take in a value with a rank below those that are not taken in."""
        if len(self._heap) == self.capacity:
            heapq.heapreplace(self._heap, (self._heap[0][0] * random.random(), value))
            return
        self._heap.append((-self.limit * random.random(), value))
        if len(self._heap) == self.capacity:
            heapq.heapify(self._heap)

    def _gap(self, random: Random) -> int:
        """How many values come until one stays, that one included."""
        highest = self._heap[0][0] if len(self._heap) == self.capacity else -self.limit
        return 1 + int(math.log(1 - random.random()) / math.log1p(highest or _TINY))

    def add_repeated(self, value: str, count: int, random: Random) -> None:
        """Let one value come many times."""
        self.total += count
        self._next = 0
        for rank in lowest_ranks(self.capacity, count, random):
            if rank > self.limit:
                break
            if len(self._heap) < self.capacity:
                self._heap.append((-rank, value))
                if len(self._heap) == self.capacity:
                    heapq.heapify(self._heap)
            elif -rank > self._heap[0][0]:
                heapq.heapreplace(self._heap, (-rank, value))
            else:
                break

    def without(self, values: Collection[str], visits: int) -> Sample:
        """The sample of the stream without these values, which came that often."""
        if not values:
            return Sample(self.capacity, self.total, self.limit, list(self._heap))
        limit = -self._heap[0][0] if len(self._heap) == self.capacity else self.limit
        kept = [entry for entry in self._heap if entry[1] not in values]
        return Sample(self.capacity, max(len(kept), self.total - visits), limit, kept)

    @classmethod
    def standing_for(cls, values: Sequence[str], total: int, capacity: int, random: Random) -> Sample:
        """Values known to be a uniform sample of `total` visits, as such a sample."""
        chosen = random.sample(values, min(capacity, len(values)))
        total = max(total, len(chosen))
        ranks = list(lowest_ranks(max(1, len(chosen)), total, random))
        limit = 1.0 if total == len(chosen) else ranks[-1]
        return cls.restore(capacity, total, limit, zip(ranks, chosen, strict=False))

    def merge(self, *others: Sample) -> None:
        """Take in other samples, of streams that this one did not see."""
        self.total += sum(other.total for other in others)
        self.limit = min([self.limit, *(other.limit for other in others)])
        entries = [entry for sample in (self, *others) for entry in sample._heap if -entry[0] <= self.limit]
        if len(entries) >= self.capacity:
            entries.sort()  # which makes a heap of it as well
            entries = entries[-self.capacity :]
        self._heap = entries
        self._next = 0

    def __iter__(self) -> Iterator[str]:
        return (value for _, value in self._heap)

    def __len__(self) -> int:
        return len(self._heap)

    def ranked(self) -> list[tuple[float, str]]:
        """Ranks and values, for storing."""
        return [(-rank, value) for rank, value in self._heap]

    @classmethod
    def restore(cls, capacity: int, total: int, limit: float, ranked: Iterable[tuple[float, str]]) -> Sample:
        """A sample again, from its numbers and what `ranked` gave."""
        heap = [(-rank, value) for rank, value in ranked]
        if len(heap) == capacity:
            heapq.heapify(heap)
        return cls(capacity, total, limit, heap)


def lowest_ranks(count: int, of: int, random: Random) -> Iterator[float]:
    """The lowest `count` of `of` random ranks, ascending, without drawing them all."""
    rank, left = 0.0, of
    for _ in range(min(count, of)):
        # The least of `left` uniform draws above `rank`.
        rank += (1 - rank) * (1 - (1 - random.random()) ** (1 / left))
        left -= 1
        yield rank
