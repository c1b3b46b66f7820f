"""Small summaries of long streams that can be merged: frequent values, and uniform samples.

Both give the same, exactly or in distribution, whether one of them saw a stream or several saw parts of it
and were merged. That is what lets every gatherer count alone and the leader add up. (003, section 5.1.)
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random


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

    def add_many(self, counts: Mapping[str, int]) -> None:
        """Count visits, given as how often each value came."""
        table = self.counts
        for value, count in counts.items():
            self.total += count
            table[value] = table.get(value, 0) + count
        if len(table) > 2 * self.capacity:  # not at once: one shrinking costs as much as many visits
            self.shrink()

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
    _heap: list[tuple[float, str]] = field(default_factory=list)

    def add_many(self, values: Iterable[str], random: Random) -> None:
        """Let values come, in any order."""
        heap, capacity, draw = self._heap, self.capacity, random.random
        for value in values:
            self.total += 1
            rank = -draw()
            if len(heap) < capacity:
                heapq.heappush(heap, (rank, value))
            elif rank > heap[0][0]:
                heapq.heapreplace(heap, (rank, value))

    def add_repeated(self, value: str, count: int, random: Random) -> None:
        """Let one value come many times."""
        heap = self._heap
        self.total += count
        for rank in lowest_ranks(self.capacity, count, random):
            if len(heap) < self.capacity:
                heapq.heappush(heap, (-rank, value))
            elif -rank > heap[0][0]:
                heapq.heapreplace(heap, (-rank, value))
            else:
                break

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
