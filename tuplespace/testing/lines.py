"""Order: the oldest tuple first, and first come, first served among those who wait."""

from __future__ import annotations

from typing import Any, Final

import trio

from tuplespace.fields import ANY, Field, Tuple
from tuplespace.testing.stage import Check, Stage, gives, in_line, just, listed, until


async def the_oldest_comes_first(stage: Stage) -> None:
    """Within one template tuples are read, taken and swapped in the order in which they were written."""
    first, second = stage.pair({"n": (2,)})
    await first.out_many(("n", number, number % 2) for number in range(1200))
    assert [t[1] async for t in second.scan("n", int, int)] == list(range(1200))
    assert await second.rdp("n", int, int) == ("n", 0, 0)
    assert await second.rdp("n", int, 1) == ("n", 1, 1)
    assert await second.inp("n", int, int) == ("n", 0, 0)
    assert await first.inp("n", int, 0) == ("n", 2, 0)
    assert await second.swap(("n", int, ANY), ("n", 1200, 0)) == ("n", 1, 1)
    async with second.take("n", int, 0, many=3) as taken:
        assert [t[1] for t in taken] == [4, 6, 8]
    async with first.take("n", int, int, many=1000) as taken:
        assert [t[1] for t in taken] == [3, 5, 7, *range(9, 1006)]
    assert await second.count("n", ANY, ANY) == 1200 - 1006 + 1


async def the_oldest_comes_first_across_types(stage: Stage) -> None:
    """A template with ANY finds tuples of different types in the order in which they were written."""
    first, second = stage.pair({"m": (2,)})
    values: list[Field] = [1, "a", 2.0, b"b", 3, None, "c", (1,), True, 4, ""]
    await first.out_many(("m", value, at % 2) for at, value in enumerate(values))
    expected = [("m", value, at % 2) for at, value in enumerate(values)]
    assert await listed(second.scan("m", ANY, ANY)) == expected
    assert await listed(second.scan("m", ANY, 1)) == expected[1::2]
    assert await second.rdp("m", ANY, int) == expected[0]
    async with second.take("m", ANY, 0, many=2) as taken:
        assert list(taken) == expected[0:4:2]
    async with second.take("m", ANY, int, many=4) as taken:
        assert list(taken) == [expected[1], expected[3], expected[4], expected[5]]
    for old in expected[6:]:
        assert await first.inp("m", ANY, ANY) == old
    assert await first.inp("m", ANY, ANY) is None


async def what_is_given_back_has_its_old_place(stage: Stage) -> None:
    """A tuple that was given back comes before all that were written after it."""
    first, second = stage.pair({"n": (1,)})
    await first.out_many(("n", number, "x") for number in range(6))
    async with second.take("n", 1, str) as one, second.take("n", int, str, many=3) as three:
        assert [t[1] for t in three] == [0, 2, 3]
        await first.out("n", 6, "x")
        three.give_back()
        one.give_back()
    await until(lambda: gives(first.count("n", int, str), 7))
    assert [t[1] async for t in first.scan("n", int, str)] == list(range(7))
    assert [(await first.in_("n", ANY, ANY))[1] for _ in range(7)] == list(range(7))


async def many_are_given_back_in_order(stage: Stage) -> None:
    """A thousand tuples taken at once are given back, each in its place and with one delivery counted."""
    first, second = stage.pair()
    await first.out_many(("n", number) for number in range(1100))
    async with second.take("n", int, many=1000) as taken:
        assert len(taken) == 1000
        taken.give_back()
    await until(lambda: gives(first.count("n", int), 1100))
    async with first.take("n", int, many=1000) as taken:
        assert [t[1] for t in taken] == list(range(1000))
        assert taken.deliveries == [2] * 1000
    assert await first.count("n", int) == 100


async def first_come_first_served(stage: Stage) -> None:
    """Takers of one template, in two clients, are served in the order in which they began to wait."""
    pair = stage.pair()
    results: list[tuple[int, Tuple]] = []

    async def wait(at: int) -> None:
        results.append((at, await pair[at % 2].in_("job", int)))

    async with trio.open_nursery() as nursery:
        for at in range(6):
            nursery.start_soon(wait, at)
            await in_line(pair[0], takers=at + 1)
        await pair[0].out_many(("job", at) for at in range(3))
        for at in range(3, 6):
            await pair[1].out("job", at)
    assert sorted(results) == [(at, ("job", at)) for at in range(6)]


async def first_come_first_served_across_templates(stage: Stage) -> None:
    """Of takers with different templates that match a tuple, the one that waits longest gets it."""
    pair = stage.pair({"job": (1, 2)})
    templates: list[tuple[Any, ...]] = [
        ("job", 5, int, int), ("job", ANY, ANY, ANY), ("job", int, 7, int), ("job", 5, 7, int),
        ("job", int, int, int), ("job", 5, 7, int), ("job", ANY, 7, ANY), ("job", 5, ANY, int),
    ]  # fmt: skip
    results: list[tuple[int, Tuple]] = []

    async def wait(at: int, template: tuple[Any, ...]) -> None:
        results.append((at, await pair[at % 2].in_(*template)))

    async with trio.open_nursery() as nursery:
        others: list[tuple[Any, ...]] = [
            ("job", 6, ANY, ANY),
            ("job", 5, 7, str),
            ("job", 5, 7),
            ("job", float, 7, int),
        ]
        for at, template in enumerate(others):
            nursery.start_soon(wait, -1, template)
            await in_line(pair[0], takers=at + 1)
        for at, template in enumerate(templates):
            nursery.start_soon(wait, at, template)
            await in_line(pair[0], takers=len(others) + at + 1)
        for at in range(len(templates)):
            await pair[at % 2].out("job", 5, 7, at)
        await in_line(pair[0], takers=len(others))
        await until(lambda: gives(just(len(results)), len(templates)))
        nursery.cancel_scope.cancel()
    assert sorted(results) == [(at, ("job", 5, 7, at)) for at in range(len(templates))]


CHECKS: Final[tuple[Check, ...]] = (
    the_oldest_comes_first,
    the_oldest_comes_first_across_types,
    what_is_given_back_has_its_old_place,
    many_are_given_back_in_order,
    first_come_first_served,
    first_come_first_served_across_templates,
)
