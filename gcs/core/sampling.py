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
    """The frequent values of a stream, in a table of bounded size (twice that, for a while).

    Promise: of n visits, a value seen more than n / (capacity + 1) times is in the table, and its count is
    never too high, and too low by at most that much (`error` says by how much, never more). These are the
    rules of Misra and Gries, which stay true under `merge`.
    """

    capacity: int
    counts: dict[str, int] = field(default_factory=dict)
    total: int = 0
    error: int = 0

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

    def merge(self, other: Frequent) -> None:
        """Take in what another table has counted."""
        for value, count in other.counts.items():
            self.counts[value] = self.counts.get(value, 0) + count
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
    """

    capacity: int
    total: int = 0
    # With ranks negated: the largest rank comes first. A heap once it is full; most samples never are.
    _heap: list[tuple[float, str]] = field(default_factory=list)
    # The number of the next value that stays, once that is drawn; all before it come and go.
    _next: int = 0

    def add_many(self, values: Sequence[str], random: Random) -> None:
        """Let values come, in any order.

        Of a long stream most come and go. How many do before the next one that stays is drawn at once, from
        the geometric distribution, instead of a rank for each.
        """
        before = self.total
        self.total += len(values)
        if self.total < self._next:
            return
        room = self.capacity - len(self._heap)
        if room > 0:
            self._heap += [(-random.random(), value) for value in values[:room]]
            if len(values) < room:
                return
            heapq.heapify(self._heap)
        heap, draw, log, log1p = self._heap, random.random, math.log, math.log1p
        coming = self._next
        if coming <= before + room:
            coming = before + room + 1 + int(log(1 - draw()) / log1p(heap[0][0] or _TINY))
        while coming <= self.total:
            heapq.heapreplace(heap, (heap[0][0] * draw(), values[coming - before - 1]))
            coming += 1 + int(log(1 - draw()) / log1p(heap[0][0] or _TINY))
        self._next = coming

    def add_repeated(self, value: str, count: int, random: Random) -> None:
        """Let one value come many times."""
        self.total += count
        for rank in lowest_ranks(self.capacity, count, random):
            if len(self._heap) < self.capacity:
                self._heap.append((-rank, value))
                if len(self._heap) == self.capacity:
                    heapq.heapify(self._heap)
            elif -rank > self._heap[0][0]:
                heapq.heapreplace(self._heap, (-rank, value))
            else:
                break
        self._next = 0

    def without(self, values: Collection[str], visits: int) -> Sample:
        """The sample of the stream without these values, which came that often."""
        if not values:
            return Sample(self.capacity, self.total, list(self._heap))
        kept = [entry for entry in self._heap if entry[1] not in values]
        heapq.heapify(kept)
        return Sample(self.capacity, max(len(kept), self.total - visits), kept)

    @classmethod
    def standing_for(cls, values: Sequence[str], total: int, capacity: int, random: Random) -> Sample:
        """Values known to be a uniform sample of `total` visits, as such a sample."""
        chosen = random.sample(values, min(capacity, len(values)))
        ranks = lowest_ranks(len(chosen), max(total, len(chosen)), random)
        return cls.restore(capacity, max(total, len(chosen)), list(zip(ranks, chosen, strict=False)))

    def merge(self, other: Sample) -> None:
        """Take in another sample, of a stream that this one did not see."""
        self.total += other.total
        self._heap = heapq.nlargest(self.capacity, [*self._heap, *other._heap])
        heapq.heapify(self._heap)
        self._next = 0

    def __iter__(self) -> Iterator[str]:
        return (value for _, value in self._heap)

    def __len__(self) -> int:
        return len(self._heap)

    def ranked(self) -> list[tuple[float, str]]:
        """Ranks and values, for storing."""
        return [(-rank, value) for rank, value in self._heap]

    @classmethod
    def restore(cls, capacity: int, total: int, ranked: Iterable[tuple[float, str]]) -> Sample:
        """What `ranked` gave, as a sample again."""
        heap = [(-rank, value) for rank, value in ranked]
        heapq.heapify(heap)
        return cls(capacity, total, heap)


def lowest_ranks(count: int, of: int, random: Random) -> Iterator[float]:
    """The lowest `count` of `of` random ranks, ascending, without drawing them all."""
    rank, left = 0.0, of
    for _ in range(min(count, of)):
        # The least of `left` uniform draws above `rank`.
        rank += (1 - rank) * (1 - (1 - random.random()) ** (1 / left))
        left -= 1
        yield rank
