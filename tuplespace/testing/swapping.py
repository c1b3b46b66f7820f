"""count, scan and swap."""

from __future__ import annotations

from typing import Any, Final

import trio

from tuplespace.fields import ANY, Field, Tuple
from tuplespace.testing.stage import Check, Stage, listed


async def count_and_scan_agree(stage: Stage) -> None:
    """count and scan of any number of tuples, of one or several types, give all that match, once each."""
    first, second = stage.pair({"x": (1,)})
    values: list[Field] = [1, "a", None, b"b"]
    tuples = [("x", n % 3, values[n % 4]) for n in range(450)]
    await first.out_many(tuples)
    templates: list[tuple[Any, ...]] = [
        ("x", ANY, ANY),
        ("x", 1, ANY),
        ("x", ANY, int),
        ("x", 2, None),
        ("x", 9, ANY),
    ]
    for _, key, kind in templates:
        expected = [
            t
            for t in tuples
            if key in (ANY, t[1]) and (kind is ANY or t[2] is kind or (kind is int and type(t[2]) is int))
        ]
        assert await listed(second.scan("x", key, kind)) == expected
        assert await second.count("x", key, kind) == len(expected)
    assert await second.count("y", ANY, ANY) == 0
    assert await listed(second.scan("y")) == []


async def a_scan_sees_what_stays_exactly_once(stage: Stage) -> None:
    """A scan sees each tuple that is there from its beginning to its end once, whatever comes and goes."""
    first, second = stage.pair({"x": (2,)})
    await first.out_many(("x", n, "keep" if n % 2 else "go") for n in range(500))
    seen: list[Tuple] = []
    async for found in second.scan("x", int, str):
        seen.append(found)
        await first.inp("x", int, "go")
        if found[2] == "keep":
            await first.out("x", 1000 + len(seen), "go")
    assert [t for t in seen if t[2] == "keep"] == [("x", n, "keep") for n in range(1, 500, 2)]
    assert len(set(seen)) == len(seen)


async def swap_replaces_the_oldest(stage: Stage) -> None:
    """swap gives the oldest match and puts the new tuple last; without a match it does nothing."""
    first, second = stage.pair({"x": (1,)})
    await first.out_many([("x", 1), ("x", 2), ("x", 1)])
    assert await second.swap(("x", 1), ("x", 3)) == ("x", 1)
    assert await listed(first.scan("x", int)) == [("x", 2), ("x", 1), ("x", 3)]
    assert await second.swap(("x", 9), ("y", 1)) is None
    assert await second.swap(("x", ANY), ("y", 2)) == ("x", 2)
    assert await listed(first.scan("y", int)) == [("y", 2)]
    assert (await first.statistics()).waiting == 3


async def swap_is_one_step(stage: Stage) -> None:
    """Tasks of two clients that count by swapping lose no step, and only one of them replaces a None."""
    pair = stage.pair({"n": (1,), "owner": (1,)})
    await pair[0].out("n", 0)
    await pair[0].out("owner", None)
    won: list[Field] = []

    async def count(at: int) -> None:
        space = pair[at % 2]
        for _ in range(5):
            while True:
                number = (await space.rd("n", int))[1]
                assert type(number) is int
                if await space.swap(("n", number), ("n", number + 1)):
                    break
        if await space.swap(("owner", None), ("owner", at)):
            won.append(at)

    async with trio.open_nursery() as nursery:
        for at in range(8):
            nursery.start_soon(count, at)
    assert await listed(pair[0].scan("n", int)) == [("n", 40)]
    assert await listed(pair[0].scan("owner", ANY)) == [("owner", won[0])]
    assert len(won) == 1


CHECKS: Final[tuple[Check, ...]] = (
    count_and_scan_agree,
    a_scan_sees_what_stays_exactly_once,
    swap_replaces_the_oldest,
    swap_is_one_step,
)
