"""What users of one space must agree on, and what it says of itself."""

from __future__ import annotations

import itertools
from typing import Final

import trio

from tuplespace.backend import Fence
from tuplespace.errors import Fenced, IndexMismatch, TupleError
from tuplespace.fields import ANY
from tuplespace.testing.stage import Check, Stage, empty, in_line, listed, raises


async def declarations_must_agree(stage: Stage) -> None:
    """Who declares other fields of a tag than those in use gets IndexMismatch from every operation."""
    declared = stage.first.space(stage.name, index={"t": (1,), "u": (1,)})
    await declared.out("t", 1, 1)
    assert await declared.rdp("u", 1, int) is None  # a question is use enough
    indexes: list[dict[str, tuple[int, ...]]] = [{"t": (2,), "u": (1, 2)}, {}]
    for index, tag in itertools.product(indexes, ("t", "u")):
        other = stage.second.space(stage.name, index=index)
        for ask in (other.in_, other.inp, other.rd, other.rdp, other.count):
            with raises(IndexMismatch):
                await ask(tag, ANY, ANY)
        with raises(IndexMismatch):
            await listed(other.scan(tag, ANY, ANY))
        with raises(IndexMismatch):
            await other.out(tag, 1, 1)
        with raises(IndexMismatch):
            await other.swap((tag, ANY, ANY), ("free",))
        await other.out("free")
        with raises(IndexMismatch):
            await other.swap(("free",), (tag, 1, 1))
        with raises(IndexMismatch):
            async with other.take("free") as taken:
                await taken.commit(out=[("more",), (tag, 1, 1)])
        assert await other.in_("free") == ("free",)
    assert await declared.in_("t", 1, int) == ("t", 1, 1)
    await empty(declared)


async def a_refused_commit_leaves_the_take_open(stage: Stage) -> None:
    """A commit that was refused did nothing, so the take can still be committed otherwise."""
    first, second = stage.pair({"t": (1,)})
    await first.out("t", 1)
    await first.out("x", 1, fence=Fence("boss", 2))
    plain = stage.second.space(stage.name)
    async with plain.take("x", int) as taken:
        with raises(IndexMismatch):
            await taken.commit(out=[("t", 1)])
        with raises(Fenced):
            await taken.commit(out=[("done",)], fence=Fence("boss", 1))
        with raises(TupleError):
            await taken.commit(out=[()])
        await taken.commit(out=[("done",)])
    assert await second.count("x", int) == 0
    assert await second.count("done") == 1


async def undeclared_use_counts_as_a_declaration(stage: Stage) -> None:
    """A field cannot be declared while tuples that were written without it wait."""
    plain = stage.first.space(stage.name)
    declaring = stage.second.space(stage.name, index={"t": (1,)})
    await plain.out("t", 1)
    with raises(IndexMismatch):
        await declaring.rdp("t", 1)
    with raises(IndexMismatch):
        await declaring.out("t", 2)
    assert await plain.in_("t", int) == ("t", 1)


async def statistics_say_what_is_there(stage: Stage) -> None:
    """statistics() counts tuples waiting and leased, leases, and who waits to take and to read."""
    first, second = stage.pair({"x": (1,)})
    await first.out_many(("x", n) for n in range(10))
    async with (
        first.take("x", int, many=3),
        second.take("x", int),
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(first.rd, "y")
        nursery.start_soon(second.rd, "y", int)
        nursery.start_soon(second.in_, "y", int)
        await in_line(first, takers=1, readers=2)
        for space in (first, second):
            now = await space.statistics()
            assert (now.waiting, now.leased, now.leases) == (6, 4, 2)
            assert min(now.sessions, now.kept_replies, now.calls, now.retries, now.reconnects) >= 0
        nursery.cancel_scope.cancel()
    await in_line(first)
    now = await first.statistics()
    assert (now.waiting, now.leased, now.leases) == (6, 0, 0)


CHECKS: Final[tuple[Check, ...]] = (
    declarations_must_agree,
    a_refused_commit_leaves_the_take_open,
    undeclared_use_counts_as_a_declaration,
    statistics_say_what_is_there,
)
