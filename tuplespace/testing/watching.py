"""watch, the hint."""

from __future__ import annotations

from typing import Final

import trio

from tuplespace.fields import ANY
from tuplespace.testing.stage import Check, Stage, in_line


async def a_watcher_hears_what_comes_and_goes(stage: Stage) -> None:
    """watch hears matching tuples written and removed for good, in order, and nothing else."""
    first, second = stage.pair({"x": (1,)})
    async with second.watch("x", 1, ANY) as watch:
        await first.out("x", 1, "a")
        await first.out("x", 2, "b")
        await first.out_many([("x", 1, 3), ("x", 1), ("y", 1, 3)])
        async with first.take("x", 1, str) as taken:
            taken.give_back()
        assert await first.in_("x", 1, str) == ("x", 1, "a")
        await first.swap(("x", ANY, int), ("x", 1, b"c"))
        async with first.take("x", 1, bytes) as taken:
            await taken.commit(out=[("x", 1, None)])
        heard = [await anext(watch) for _ in range(7)]
    expected = [
        ("out", "a"), ("out", 3), ("in", "a"), ("in", 3), ("out", b"c"), ("in", b"c"), ("out", None),
    ]  # fmt: skip
    assert [(event.kind, event.fields[2]) for event in heard] == expected


async def a_watcher_hears_hand_overs(stage: Stage) -> None:
    """watch hears a tuple that goes straight to a waiting taker come and go."""
    first, second = stage.pair()
    async with second.watch("x", int) as watch, trio.open_nursery() as nursery:
        nursery.start_soon(first.in_, "x", int)
        await in_line(first, takers=1)
        await first.out("x", 1)
        assert [(await anext(watch)).kind for _ in range(2)] == ["out", "in"]


async def a_watch_can_be_ended(stage: Stage) -> None:
    """A watch that was closed hears nothing more, a second one of the same client still does."""
    first, second = stage.pair()
    async with second.watch("x", int) as stays:
        async with second.watch("x", int) as leaves:
            await first.out("x", 1)
            assert (await anext(leaves)).fields == ("x", 1)
        await first.out("x", 2)
        assert [(await anext(stays)).fields[1] for _ in range(2)] == [1, 2]
        assert not leaves._events
    unused = second.watch("x", int)
    unused.close()


async def a_watch_needs_no_block(stage: Stage) -> None:
    """A watch straight in an `async for` listens from its first turn on."""
    first, second = stage.pair()
    async with trio.open_nursery() as nursery:

        async def write() -> None:
            while True:
                await first.out("x")
                await trio.sleep(0.05)

        nursery.start_soon(write)
        watch = second.watch("x")
        async for event in watch:
            assert (event.kind, event.fields) == ("out", ("x",))
            break
        nursery.cancel_scope.cancel()
    watch.close()


CHECKS: Final[tuple[Check, ...]] = (
    a_watcher_hears_what_comes_and_goes,
    a_watcher_hears_hand_overs,
    a_watch_can_be_ended,
    a_watch_needs_no_block,
)
