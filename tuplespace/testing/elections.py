"""Fences and elections."""

from __future__ import annotations

from typing import Any, Final, cast

import trio

from tuplespace.backend import Backend, Fence
from tuplespace.election import Leadership, election
from tuplespace.errors import Fenced, LeadershipLost
from tuplespace.testing.stage import (
    LONG_S,
    PATIENCE_S,
    SLACK_S,
    Check,
    Stage,
    Unrenewed,
    gives,
    raises,
    until,
)


async def an_older_token_is_refused(stage: Stage) -> None:
    """Once a token was seen, writes with an older one of the same name are Fenced and change nothing."""
    first, second = stage.pair()
    await first.out("x", 1, fence=Fence("boss", 2**40))
    await second.out("x", 2, fence=Fence("boss", 2**40))
    await second.out("x", 3, fence=Fence("other", 1))
    for token in (2**40 - 1, 255, 1):
        old = Fence("boss", token)
        with raises(Fenced):
            await second.out("y", fence=old)
        with raises(Fenced):
            await second.out_many([("y",)], fence=old)
        with raises(Fenced):
            await second.swap(("x", int), ("y",), fence=old)
        with raises(Fenced):
            async with second.take("x", int) as taken:
                await taken.commit(out=[("y",)], fence=old)
        await until(lambda: gives(first.count("x", int), 3))
    assert await first.count("y") == 0
    async with second.take("x", int) as taken:
        await taken.commit(out=[("y",)], fence=Fence("boss", 2**40 + 1))
    assert await second.swap(("y",), ("z",), fence=Fence("boss", 2**40 + 1)) == ("y",)
    with raises(Fenced):
        await first.out("y", fence=Fence("boss", 2**40))


async def an_election_has_one_holder(stage: Stage) -> None:
    """Of candidates in two clients one at a time is elected, each with a larger token than all before."""
    pair = stage.pair()
    inside = 0
    tokens: list[int] = []

    async def stand(at: int) -> None:
        nonlocal inside
        async with election(pair[at % 2], "boss", lease=4.0) as term:
            inside += 1
            assert inside == 1
            assert term.fence == Fence("boss", term.token)
            await pair[at % 2].out("did", at, fence=term.fence)
            tokens.append(term.token)
            inside -= 1

    async with trio.open_nursery() as nursery:
        for at in range(4):
            nursery.start_soon(stand, at)
    assert len(tokens) == len(set(tokens)) == 4
    assert tokens == sorted(tokens)
    assert await pair[0].count("did", int) == 4


async def who_resigns_lets_the_next_in(stage: Stage) -> None:
    """Leaving the block of an election, also by an error, lets the next candidate in at once."""
    first, second = stage.pair()
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        terms: list[Leadership] = []

        async def stand() -> None:
            async with election(second, "boss", lease=600) as term:
                terms.append(term)

        with raises(ZeroDivisionError):
            async with election(first, "boss", lease=600) as term:
                before = term.token
                nursery.start_soon(stand)
                await trio.sleep(0.1)
                assert not terms
                raise ZeroDivisionError("in the block")
    assert terms[0]._fence.token > before
    assert trio.current_time() < began + PATIENCE_S


async def a_token_is_above_its_floor(stage: Stage) -> None:
    """A new token is larger than its candidate's floor, any seen in a fence, and any before."""
    space = stage.space()
    highest = 0
    for floor in (0, 2**51, 5, 2**52, 2**52 + 10):
        async with election(space, "boss", lease=LONG_S, floor=floor) as term:
            assert term.token > max(floor, highest)
            highest = term.token
    await space.out("x", fence=Fence("boss", highest + 1000))
    async with election(space, "boss", lease=LONG_S) as term:
        assert term.token > highest + 1000


async def winning_fences_the_old_holder(stage: Stage) -> None:
    """A holder that did not renew is fenced off from the moment the next one is elected, not before."""
    holder = stage.unrenewed()
    _, second = stage.pair()
    with raises(LeadershipLost):
        async with election(holder, "boss", lease=1.0) as term:
            stale = term.fence
            await trio.sleep_forever()
    await holder.out("x", fence=stale)
    async with election(second, "boss", lease=LONG_S) as term:
        assert term.token > stale.token
        with raises(Fenced):
            await holder.out("x", fence=stale)
    assert await second.count("x") == 1


async def lost_leadership_ends_the_block(stage: Stage) -> None:
    """A holder that cannot renew is cancelled when its lease ends, and gets LeadershipLost and no token."""
    holder = stage.unrenewed()
    began = trio.current_time()
    with raises(LeadershipLost):
        async with election(holder, "boss", lease=0.3) as term:
            assert term.token > 0
            await trio.sleep_forever()
    assert began + 0.3 - SLACK_S <= trio.current_time() < began + PATIENCE_S
    for ask in (lambda: term.token, lambda: term.fence):
        with raises(LeadershipLost):
            ask()


async def a_holder_renews_its_leadership(stage: Stage) -> None:
    """A holder keeps its name, and others out, for much longer than its lease while its block runs."""
    first, second = stage.pair()
    async with election(first, "boss", lease=1.2) as term:
        token = term.token
        with trio.move_on_after(2.8):
            async with election(second, "boss", lease=1.2):
                raise AssertionError("two holders")
        assert term.token == token


async def a_refused_renewal_ends_the_block(stage: Stage) -> None:
    """A holder whose renewal is refused is cancelled at once, long before its lease would have ended."""
    space = stage.space()
    real = space.backend
    elected: list[bytes] = []

    class Resigning(Unrenewed):
        async def elect(
            self, name: str, step: str, holder: bytes, lease_s: float, floor: int
        ) -> tuple[int | None, float]:
            if step == "renew":
                elected.append(holder)
                await real.elect(name, "resign", holder, lease_s, floor)
            return await real.elect(name, cast(Any, step), holder, lease_s, floor)

    space.backend = cast(Backend, Resigning(real))
    began = trio.current_time()
    with raises(LeadershipLost):
        async with election(space, "boss", lease=6):
            await trio.sleep_forever()
    assert trio.current_time() < began + 5.5
    assert len(elected) == 1


CHECKS: Final[tuple[Check, ...]] = (
    an_older_token_is_refused,
    an_election_has_one_holder,
    who_resigns_lets_the_next_in,
    a_token_is_above_its_floor,
    winning_fences_the_old_holder,
    lost_leadership_ends_the_block,
    a_holder_renews_its_leadership,
    a_refused_renewal_ends_the_block,
)
