"""Frequent values and uniform samples."""

from __future__ import annotations

import math
from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcs.core.sampling import Frequent, Sample, lowest_ranks

STREAM = st.lists(st.sampled_from("aaaabbbccdefghijklmnopqrstuvwxyz"), max_size=300)


@given(st.lists(STREAM, min_size=1, max_size=4), st.integers(1, 8))
def test_frequent_values_are_never_missed(streams: list[list[str]], capacity: int) -> None:
    """A value above its guaranteed frequency is in the table, merged or not, and never counted too high."""
    merged = Frequent(capacity)
    for stream in streams:
        table = Frequent(capacity)
        for start in range(0, len(stream), 7):
            table.add_many(stream[start : start + 3])
            for value in stream[start + 3 : start + 7]:
                table.add(value)
            assert len(table.counts) <= 2 * capacity
        merged.merge(table)
    true = Counter(value for stream in streams for value in stream)
    assert merged.total == true.total()
    assert len(merged.counts) <= capacity
    assert merged.error <= merged.total / (capacity + 1)
    for value, count in true.items():
        counted = merged.counts.get(value, 0)
        assert count - merged.error <= counted <= count
        if count > merged.total / (capacity + 1):
            assert value in merged.counts


def test_a_value_can_be_taken_out() -> None:
    """A value taken out leaves with all its visits."""
    table = Frequent(4)
    table.add_repeated("a", 5)
    table.add_many(["b", "b"])
    assert table.pop("a") == 5
    assert table.pop("never") == 0
    assert (table.counts, table.total) == ({"b": 2}, 2)


def chi_square(counts: Counter[str], values: int) -> float:
    """How far counts are from equal ones."""
    expected = counts.total() / values
    return sum((counts[str(v)] - expected) ** 2 / expected for v in range(values))


def whole(random: Random) -> Sample:
    """A sample of 0…99, seen as one stream."""
    sample = Sample(10)
    sample.add_many([str(v) for v in range(100)], random)
    return sample


def merged(random: Random) -> Sample:
    """The same, seen as three streams of very different lengths."""
    sample = Sample(10)
    for low, high in ((0, 5), (5, 80), (80, 100)):
        part = Sample(10)
        part.add_many([str(v) for v in range(low, high)], random)
        sample.merge(part)
    return sample


def trickling(random: Random) -> Sample:
    """The same, a few at a time, merged and stored in between."""
    sample = Sample(10)
    for low in range(0, 60, 3):
        sample.add_many([str(v) for v in range(low, low + 3)], random)
    part = Sample(10)
    part.add_many([str(v) for v in range(60, 80)], random)
    sample.merge(part)
    for v in range(80, 90):
        sample.add_repeated(str(v), 1, random)
    sample = Sample.restore(sample.capacity, sample.total, sample.limit, sample.ranked())
    for v in range(90, 100):
        sample.add_many([str(v)], random)
    return sample


@pytest.mark.parametrize("make", [whole, merged, trickling])
def test_samples_are_uniform(make: object) -> None:
    """Every value of a stream is equally likely to be in the sample, also after merging."""
    random, counts = Random(7), Counter[str]()
    for _ in range(4000):
        sample = make(random)  # type: ignore[operator]
        assert len(sample) == 10
        assert sample.total == 100
        counts.update(sample)
    # Chi-square with 99 degrees of freedom: beyond 149 once in a thousand. Sampling without replacement
    # makes it smaller still.
    assert chi_square(counts, 100) < 149


def after_removal(random: Random) -> tuple[Sample, int]:
    """A sample without half of its stream, then some more values; and how many the rest of it were."""
    sample = Sample(20)
    sample.add_many(["hot"] * 500 + ["old"] * 500, random)
    return sample.without({"hot"}, 500), 500


def of_known_values(random: Random) -> tuple[Sample, int]:
    """Five values that stand for 500."""
    return Sample.standing_for(["old"] * 5, 500, 20, random), 500


def of_few_values(random: Random) -> tuple[Sample, int]:
    """All values of a short stream."""
    return Sample.standing_for(["old"] * 5, 5, 20, random), 5


@pytest.mark.parametrize("begin", [after_removal, of_known_values, of_few_values])
@pytest.mark.parametrize("how", ["at once", "one by one", "repeated", "merged", "stored"])
def test_what_comes_later_gets_its_share(begin: object, how: str) -> None:
    """A sample with room for more takes in of later values the part that it has of earlier ones."""
    random, new, of = Random(13), 0, 0
    for _ in range(1000):
        sample, before = begin(random)  # type: ignore[operator]
        more = ["new"] * (before // 5)
        if how == "at once":
            sample.add_many(more, random)
        elif how == "one by one":
            for value in more:
                sample.add(value, random)
        elif how == "repeated":
            sample.add_repeated("new", len(more), random)
        elif how == "merged":
            other = Sample(20)
            other.add_many(more, random)
            sample.merge(other)
        else:
            sample = Sample.restore(sample.capacity, sample.total, sample.limit, sample.ranked())
            sample.add_many(more, random)
        assert sample.total == before + len(more)
        new += sum(value == "new" for value in sample)
        of += len(sample)
    assert new / of == pytest.approx(1 / 6, abs=0.015)


def test_a_sample_that_has_room_keeps_to_its_limit_until_it_is_full() -> None:
    """A sample whose limit is low fills up from a long stream, and is a uniform one of all of it."""
    random, new, stream = Random(17), 0, ["new"] * 9500
    for _ in range(500):
        sample = Sample.standing_for(["old"] * 20, 500, 50, random)
        sample.add_many(stream, random)
        assert len(sample) == 50
        new += sum(value == "new" for value in sample)
    assert new / (500 * 50) == pytest.approx(0.95, abs=0.01)


def test_a_sample_of_nothing_known_begins_with_what_comes() -> None:
    """Where nothing is known of a thousand visits, about one of the next thousand is taken in."""
    random = Random(19)
    taken = 0
    for _ in range(2000):
        sample = Sample.standing_for([], 1000, 20, random)
        sample.add_many(["new"] * 1000, random)
        taken += len(sample)
    assert taken / 2000 == pytest.approx(1, abs=0.1)


def test_repeated_values_are_weighted() -> None:
    """A value that came a thousand times among two thousand others fills a third of the sample."""
    random, share = Random(3), 0
    for _ in range(300):
        sample = Sample(20)
        sample.add_many([f"x{i}" for i in range(2000)], random)
        sample.add_repeated("y", 1000, random)
        share += sum(v == "y" for v in sample)
        assert sample.total == 3000
    assert share / (300 * 20) == pytest.approx(1 / 3, abs=0.03)


def test_lowest_ranks_are_order_statistics() -> None:
    """The lowest of n ranks has mean 1 / (n + 1), the second 2 / (n + 1)."""
    random = Random(5)
    drawn = [list(lowest_ranks(2, 9, random)) for _ in range(20000)]
    assert math.fsum(d[0] for d in drawn) / 20000 == pytest.approx(0.1, abs=0.003)
    assert math.fsum(d[1] for d in drawn) / 20000 == pytest.approx(0.2, abs=0.003)
    assert len(list(lowest_ranks(5, 2, random))) == 2


def test_samples_without_some_values() -> None:
    """What got a place of its own leaves the sample, and the stream that it stands for."""
    sample = Sample(10)
    sample.add_many(["a"] * 3 + ["b"] * 5, Random(1))
    left = sample.without({"a"}, 3)
    assert sorted(left) == ["b"] * 5
    assert left.total == 5


def test_known_samples_and_storage() -> None:
    """Values known to be a sample stand for their stream, and a sample survives being stored."""
    sample = Sample.standing_for(["a", "b", "c"], 3000, 2, Random(1))
    assert len(sample) == 2
    assert sample.total == 3000
    assert max(rank for rank, _ in sample.ranked()) < 0.05
    again = Sample.restore(2, sample.total, sample.limit, sample.ranked())
    assert sorted(again.ranked()) == sorted(sample.ranked())
