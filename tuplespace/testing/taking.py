"""Reading, taking for good, and the block of a take."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, cast

import trio

from tuplespace.errors import ClientClosed, LeaseLost, TupleError, TupleSpaceError
from tuplespace.fields import ANY, Limits, Tuple
from tuplespace.space import Space
from tuplespace.testing.stage import (
    Check,
    Stage,
    empty,
    gives,
    hold,
    in_line,
    listed,
    put,
    raises,
    until,
)


async def reading_leaves_the_tuple(stage: Stage) -> None:
    """rd and rdp give the oldest match and leave it; rdp is None when there is none."""
    first, second = stage.pair()
    assert await first.rdp("x", int) is None
    await first.out("x", 1)
    for space in (first, second):
        assert await space.rdp("x", int) == ("x", 1)
        assert await space.rd("x", int) == ("x", 1)
    assert await first.count("x", int) == 1


async def taking_removes_the_tuple(stage: Stage) -> None:
    """in_ and inp give the oldest match and remove it; inp is None when there is none."""
    first, second = stage.pair()
    assert await first.inp("x", int) is None
    await first.out_many([("x", 1), ("x", 2)])
    assert await second.in_("x", int) == ("x", 1)
    assert await first.inp("x", int) == ("x", 2)
    assert await second.inp("x", int) is None
    await empty(first)


async def waiting_ends_with_the_tuple(stage: Stage) -> None:
    """in_, rd and take wait for a tuple that another client writes later, by any of the ways to write."""
    first, second = stage.pair()
    for write in (
        lambda: first.out("w", 1),
        lambda: first.out_many([("w", 1)]),
        lambda: first.swap(("old",), ("w", 1)),
        lambda: _commit_out(first, ("old",), ("w", 1)),
    ):
        await first.out("old")
        results: list[Tuple] = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(put(results, second.rd, "w", int))
            await in_line(first, readers=1)
            nursery.start_soon(put(results, second.in_, "w", int))
            await in_line(first, readers=1, takers=1)
            await write()
        assert results == [("w", 1)] * 2
        await first.inp("old")
    await empty(first)


async def _commit_out(space: Space, old: Tuple, new: Tuple) -> None:
    async with space.take(*cast(Any, old)) as taken:
        await taken.commit(out=[new])


async def every_reader_sees_what_a_taker_takes(stage: Stage) -> None:
    """All who wait to read see a new tuple, though one who waits to take it was first in line."""
    first, second = stage.pair({"x": (1,)})
    results: list[Tuple] = []
    readers: list[tuple[Space, tuple[Any, ...]]] = [
        (first, ("x", 1)), (second, ("x", 1)), (second, ("x", int)), (first, ("x", ANY)), (second, ("x", 1)),
    ]  # fmt: skip
    async with trio.open_nursery() as nursery:
        nursery.start_soon(put(results, first.in_, "x", ANY))
        await in_line(first, takers=1)
        for space, template in readers:
            nursery.start_soon(put(results, space.rd, *template))
        await in_line(first, takers=1, readers=len(readers))
        await second.out("x", 1)
    assert results == [("x", 1)] * 6
    await empty(first)


async def any_number_of_readers_see_a_tuple(stage: Stage) -> None:
    """However many wait to read, one tuple that stays is enough for all of them."""
    first, second = stage.pair()
    results: list[Tuple] = []
    async with trio.open_nursery() as nursery:
        for _ in range(150):
            nursery.start_soon(put(results, first.rd, "x", int))
            nursery.start_soon(put(results, second.rd, "x", int))
        await in_line(first, readers=300)
        await second.out("x", 1)
    assert results == [("x", 1)] * 300


async def each_tuple_goes_to_one_taker(stage: Stage) -> None:
    """Takers that wait and takers that come later, in two clients, get every tuple exactly once."""
    pair = stage.pair()
    results: list[Tuple] = []
    async with trio.open_nursery() as nursery:
        for at in range(40):
            nursery.start_soon(put(results, pair[at % 2].in_, "x", int))
        for at in range(40):
            nursery.start_soon(pair[at % 2].out, "x", at)
    assert sorted(results) == [("x", at) for at in range(40)]
    await empty(pair[0])


async def who_is_cancelled_leaves_the_line(stage: Stage) -> None:
    """A cancelled taker or reader no longer waits, and what is written goes to the next in line."""
    first, second = stage.pair()
    results: list[Tuple] = []
    async with trio.open_nursery() as nursery:
        async with trio.open_nursery() as inner:
            inner.start_soon(put([], first.in_, "x", int))
            inner.start_soon(put([], first.rd, "x", int))
            await in_line(first, takers=1, readers=1)
            nursery.start_soon(put(results, second.in_, "x", int))
            await in_line(first, takers=2, readers=1)
            inner.cancel_scope.cancel()
        await in_line(first, takers=1)
        await first.out("x", 1)
    assert results == [("x", 1)]
    await first.out("x", 2)
    assert await second.count("x", int) == 1
    await in_line(first)


async def leaving_a_take_commits(stage: Stage) -> None:
    """While the block of a take runs nobody else finds the tuple, and after it the tuple is gone."""
    first, second = stage.pair()
    await first.out("x", 1)
    async with first.take("x", int) as taken:
        assert taken.tuple == ("x", 1)
        assert list(taken) == list(taken.tuples) == [("x", 1)]
        assert (len(taken), bool(taken), taken.lost) == (1, True, False)
        assert taken.deliveries == [1]
        assert await second.rdp("x", int) is None
        assert await second.inp("x", int) is None
        assert await second.count("x", int) == 0
        assert await listed(second.scan("x", int)) == []
        assert await second.swap(("x", int), ("x", 2)) is None
        async with second.take("x", int, wait=False) as other:
            assert not other
        statistics = await second.statistics()
        assert (statistics.waiting, statistics.leased, statistics.leases) == (0, 1, 1)
    await empty(second)


async def an_error_gives_back(stage: Stage) -> None:
    """An exception in the block of a take passes through as it is, and the tuple is found again."""
    first, second = stage.pair()
    await first.out("x", 1)
    with raises(ZeroDivisionError):
        async with first.take("x", int):
            raise ZeroDivisionError("in the block")
    async with second.take("x", int) as taken:
        assert taken.deliveries == [2]


async def a_cancelled_block_gives_back(stage: Stage) -> None:
    """A block of a take that is cancelled gives the tuple back."""
    first, second = stage.pair()
    await first.out("x", 1)
    async with trio.open_nursery() as nursery:
        async with trio.open_nursery() as inner:
            held = trio.Event()

            async def hold() -> None:
                async with first.take("x", int):
                    held.set()
                    await trio.sleep_forever()

            inner.start_soon(hold)
            await held.wait()
            inner.cancel_scope.cancel()
        nursery.start_soon(second.in_, "x", int)
    await empty(first)


async def a_take_can_be_ended_early(stage: Stage) -> None:
    """commit and give_back end a take inside of its block; leaving it then does nothing more."""
    first, second = stage.pair()
    await first.out("x", 1)
    async with first.take("x", int) as taken:
        taken.give_back()
        taken.give_back()
        assert await second.in_("x", int) == ("x", 1)
        await second.out("x", 2)
        await taken.commit()
        with raises(LeaseLost):
            await taken.commit(out=[("y",)])
    assert await second.rdp("x", int) == ("x", 2)
    with raises(ZeroDivisionError):
        async with first.take("x", int) as taken:
            await taken.commit()
            raise ZeroDivisionError("after the commit")
    assert await second.rdp("y") is None
    await empty(first)


async def a_commit_writes_too(stage: Stage) -> None:
    """commit(out=…) removes what was taken and writes the others, in the order given."""
    first, second = stage.pair({"done": (1,)})
    await first.out_many([("x", 1), ("x", 2)])
    async with first.take("x", int, many=2) as taken:
        await taken.commit(out=[("done", n) for n in range(1000)])
    assert [t[1] async for t in second.scan("done", int)] == list(range(1000))
    assert await second.rdp("done", 999) == ("done", 999)
    assert (await second.statistics()).leased == 0
    with raises(TupleError):
        async with first.take("done", int) as taken:
            await taken.commit(out=[("too many",)] * 1001)
    await until(lambda: gives(second.count("done", int), 1000))
    assert await second.rdp("too many") is None


async def a_take_of_many_gets_what_there_is(stage: Stage) -> None:
    """take(many=n) waits for one tuple, gets up to n, and without waiting may get none."""
    first, second = stage.pair()
    async with first.take("x", int, many=10, wait=False) as taken:
        assert not taken
        assert (len(taken), list(taken), taken.deliveries, taken.lost) == (0, [], [], False)
        taken.give_back()
    async with trio.open_nursery() as nursery:
        results: list[list[Tuple]] = []

        async def wait() -> None:
            async with first.take("x", int, many=10) as taken:
                results.append(list(taken))

        nursery.start_soon(wait)
        await in_line(second, takers=1)
        await second.out("x", 0)
    assert results == [[("x", 0)]]
    await second.out_many(("x", n) for n in range(15))
    for expected in (range(10), range(10, 15)):
        async with first.take("x", int, many=10) as taken:
            assert [t[1] for t in taken] == list(expected)
            if len(taken) > 1:
                with raises(TupleSpaceError):
                    _ = taken.tuple
    async with first.take("x", int, many=10, wait=False) as taken:
        assert not taken
    await empty(first)


async def a_cancelled_wait_is_no_delivery(stage: Stage) -> None:
    """A take that is cancelled before its block began loses nothing and counts as no delivery."""
    first, second = stage.pair()
    for serial in range(40):
        entered = False

        async def wait() -> None:
            nonlocal entered
            async with first.take("x", int):
                entered = True
                await trio.sleep_forever()

        async with trio.open_nursery() as writing, trio.open_nursery() as taking:
            taking.start_soon(wait)
            if serial % 2:
                await in_line(second, takers=1)
            writing.start_soon(second.out, "x", serial)
            await trio.sleep(serial * 0.000_05)
            taking.cancel_scope.cancel()
        async with second.take("x", int) as taken:
            assert taken.tuple == ("x", serial)
            assert taken.deliveries == [2 if entered else 1], (serial, entered)
    await empty(first)


async def who_waits_is_told_of_the_end(stage: Stage) -> None:
    """Whoever still waits when the client is closed gets ClientClosed, and is in no line any more."""
    space = stage.space()
    ended: list[str] = []

    async def wait(ask: Callable[..., Awaitable[object]]) -> None:
        with raises(ClientClosed):
            await ask("x", int)
        ended.append("told")

    async with trio.open_nursery() as nursery, stage.make() as client:
        other = client.space(stage.name)
        for ask in (other.in_, other.rd, partial(hold, other)):
            nursery.start_soon(wait, ask)
        await in_line(space, takers=2, readers=1)
    assert ended == ["told"] * 3
    await space.out("x", 1)
    assert await space.in_("x", int) == ("x", 1)


async def what_is_too_long_is_not_read(stage: Stage) -> None:
    """What is longer than a client reads never comes to it; taking drops it and counts that."""
    short = Limits(max_bytes=300)
    first, second = stage.first.space(stage.name), stage.second.space(stage.name, limits=short)
    long = ("x", b"." * 1000)
    for number in range(4):
        await first.out(*long)
        await first.out("x", b"%d" % number)
    assert await second.rdp("x", bytes) == ("x", b"0")
    assert await second.rd("x", bytes) == ("x", b"0")
    assert await listed(second.scan("x", bytes)) == [("x", b"%d" % n) for n in range(4)]
    assert second.unreadable == 0
    assert await second.inp("x", bytes) == ("x", b"0")
    assert await second.swap(("x", bytes), ("y",)) == ("x", b"1")
    async with second.take("x", bytes, many=9) as taken:
        assert list(taken) == [("x", b"2"), ("x", b"3")]
    assert await first.count("x", bytes) == 0
    assert await first.inp("y") == ("y",)
    async with trio.open_nursery() as nursery:
        got: list[Tuple] = []
        nursery.start_soon(put(got, second.in_, "x", bytes))
        await in_line(first, takers=1)
        await first.out(*long)
        await first.out("x", b"end")
    assert got == [("x", b"end")]


CHECKS: Final[tuple[Check, ...]] = (
    reading_leaves_the_tuple,
    taking_removes_the_tuple,
    waiting_ends_with_the_tuple,
    every_reader_sees_what_a_taker_takes,
    any_number_of_readers_see_a_tuple,
    each_tuple_goes_to_one_taker,
    who_is_cancelled_leaves_the_line,
    leaving_a_take_commits,
    an_error_gives_back,
    a_cancelled_block_gives_back,
    a_take_can_be_ended_early,
    a_commit_writes_too,
    a_take_of_many_gets_what_there_is,
    a_cancelled_wait_is_no_delivery,
    who_waits_is_told_of_the_end,
    what_is_too_long_is_not_read,
)
