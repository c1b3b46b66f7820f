"""Leases that end, deliveries, dead letters, and tuples with a time to live."""

from __future__ import annotations

from typing import Any, Final

import trio

from tuplespace.errors import ClientClosed, LeaseLost, Unavailable
from tuplespace.fields import ANY, DEAD_LETTER, Tuple
from tuplespace.testing.stage import (
    LONG_S,
    SLACK_S,
    Check,
    Stage,
    Unrenewed,
    empty,
    gives,
    hold,
    in_line,
    just,
    listed,
    nested,
    put,
    raises,
    until,
)

_SOON_S: Final = 4.0
"""A time to live within which even a busy machine can do something with a tuple."""


async def a_lease_that_ends_gives_back(stage: Stage) -> None:
    """What a silent holder held comes back to its old place, one delivery older, when its lease ends."""
    holder = stage.unrenewed()
    _, second = stage.pair()
    await second.out_many([("x", 1), ("x", 2)])
    began = trio.current_time()
    await hold(holder, "x", int, lease=0.3)
    await until(lambda: gives(second.count("x", int), 2))
    assert trio.current_time() >= began + 0.3 - SLACK_S
    async with second.take("x", int) as taken:
        assert taken.tuple == ("x", 1)
        assert taken.deliveries == [2]
    async with second.take("x", int) as taken:
        assert taken.deliveries == [1]


async def a_lease_that_ends_serves_who_waits(stage: Stage) -> None:
    """When a silent holder's lease ends the tuple goes to a taker that waits, without further ado."""
    holder = stage.unrenewed()
    _, second = stage.pair()
    await second.out("x", 1)
    await hold(holder, "x", int, lease=0.2)
    assert await second.in_("x", int) == ("x", 1)
    await empty(second)


async def a_commit_after_the_lease_is_refused(stage: Stage) -> None:
    """A holder whose lease has ended learns it from its commit, and nothing of that commit is done."""
    holder = stage.unrenewed()
    _, second = stage.pair()
    await second.out("x", 1)
    late = await hold(holder, "x", int, lease=0.2)
    async with second.take("x", int) as taken:
        with raises(LeaseLost):
            await late.commit(out=[("done",)])
        assert late.lost
        assert await second.rdp("done") is None
        await taken.commit(out=[("done",)])
    assert await second.count("done") == 1
    await second.out("x", 2)
    late = await hold(holder, "x", int, lease=0.2)
    await trio.sleep(0.3)
    with raises(LeaseLost):
        await late.commit(out=[("done",)])
    assert await second.in_("x", int) == ("x", 2)
    assert await second.count("done") == 1


async def giving_back_after_the_lease_is_harmless(stage: Stage) -> None:
    """A holder whose lease has ended cannot give back what another holds now."""
    holder = stage.unrenewed()
    _, second = stage.pair()
    await second.out("x", 1)
    late = await hold(holder, "x", int, lease=0.2)
    async with second.take("x", int) as taken:
        late.give_back()
        assert await holder.inp("x", int) is None
        assert taken.deliveries == [2]
    await empty(second)


class _Late(Unrenewed):
    """A backend that stands still before its first commit for as long as a short lease lasts."""

    late = False

    async def commit(self, *arguments: Any, **options: Any) -> None:
        if not self.late:
            self.late = True
            await trio.sleep(0.4)
        await self._backend.commit(*arguments, **options)


async def in_takes_again_what_it_could_not_commit(stage: Stage) -> None:
    """in_ that stood still until its own lease ended takes the oldest tuple once more; none is lost."""
    slow = stage.disturbed(_Late, lease=0.2)
    _, second = stage.pair()
    await second.out_many([("x", 1), ("x", 2)])
    assert await slow.in_("x", int) == ("x", 1)
    assert await slow.in_("x", int) == ("x", 2)
    await empty(second)


class _Unanswered(Unrenewed):
    """A backend whose commits never reach the server."""

    async def commit(self, *_: object, **__: object) -> None:
        await trio.lowlevel.checkpoint()
        raise Unavailable("the commit was not sent")


async def a_commit_that_fails_gives_back(stage: Stage) -> None:
    """When the commit at the end of in_, or of a block, cannot be sent, the tuple is found again at once."""
    cut_off = stage.disturbed(_Unanswered)
    _, second = stage.pair()
    await second.out("x", 1)
    with raises(Unavailable):
        await cut_off.in_("x", int)
    assert await second.rd("x", int) == ("x", 1)
    with raises(Unavailable):
        async with cut_off.take("x", int) as taken:
            assert taken.tuple == ("x", 1)
    assert await second.in_("x", int) == ("x", 1)


async def a_living_holder_keeps_its_lease(stage: Stage) -> None:
    """The lease is renewed while the block runs, however many blocks there are and whatever their leases."""
    first, second = stage.pair(lease=1.3)
    await first.out_many(("x", n) for n in range(3))
    async with (
        first.take("x", int, lease=LONG_S) as one,
        first.take("x", int) as two,
        first.take("x", int, lease=1.2) as three,
    ):
        await trio.sleep(2.8)
        assert await second.inp("x", int) is None
        assert not any(taken.lost for taken in (one, two, three))
        two.give_back()
    assert await second.in_("x", int) == ("x", 1)
    await empty(second)


async def a_holder_hears_that_its_lease_is_lost(stage: Stage) -> None:
    """A holder that could not renew in time is told by its next renewal, before it commits."""
    first, second = stage.pair()
    await second.out("x", 1)
    taken = await hold(first, "x", int, lease=0.3)
    grant = taken._grant
    assert grant is not None
    first.backend.release(grant, counted=True)
    await until(lambda: just(taken.lost))
    with raises(LeaseLost):
        await taken.commit()
    assert await second.in_("x", int) == ("x", 1)


async def all_are_told_the_same_start(stage: Stage) -> None:
    """Whoever asks is told the same name for the time since which nothing was forgotten."""
    first, second = stage.pair()
    await first.out("x", 1)
    said = await first.tenure()
    assert said.start
    assert (await second.tenure()).start == said.start
    async with second.take("x", int, wait=False) as taken:
        assert taken.tenure.start == said.start
        await taken.renew()
        assert taken.tenure.start == said.start
        assert taken.tenure.seconds >= said.seconds


async def deliveries_are_counted(stage: Stage) -> None:
    """Each time a tuple is given back or its lease ends counts; being read does not."""
    first, second = stage.pair()
    await first.out("x", 1)
    for expected in range(1, 5):
        async with second.take("x", int) as taken:
            assert taken.deliveries == [expected]
            taken.give_back()
        assert await first.rd("x", int) == ("x", 1)
    assert await first.in_("x", int) == ("x", 1)
    await first.out("x", 1)
    async with second.take("x", int) as taken:
        assert taken.deliveries == [1]


async def a_tuple_delivered_too_often_is_a_dead_letter(stage: Stage) -> None:
    """After max_deliveries a tuple is found as (DEAD_LETTER, the tuple, how often) and nowhere else."""
    first, second = stage.pair({"x": (1,)}, max_deliveries=2)
    deep: Tuple = ("x", 1, nested(8))
    await first.out(*deep)
    results: list[Tuple] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(put(results, second.rd, DEAD_LETTER, tuple, int))
        await in_line(first, readers=1)
        for expected in (1, 2):
            async with first.take("x", 1, tuple) as taken:
                assert taken.deliveries == [expected]
                taken.give_back()
    assert results == [(DEAD_LETTER, deep, 2)]
    assert await second.inp("x", ANY, ANY) is None
    assert await second.in_(DEAD_LETTER, tuple, int) == (DEAD_LETTER, deep, 2)
    await empty(second)


async def dead_letters_are_the_terms_of_a_take(stage: Stage) -> None:
    """max_deliveries of a take counts all deliveries before it, and leases that end count too."""
    holder = stage.unrenewed()
    _, second = stage.pair()
    await second.out("x", 1)
    async with second.take("x", int) as taken:
        taken.give_back()
    await until(lambda: second.rdp("x", int))
    await hold(holder, "x", int, lease=0.2, max_deliveries=2)
    assert await second.in_(DEAD_LETTER, tuple, int) == (DEAD_LETTER, ("x", 1), 2)
    assert await second.inp("x", int) is None


async def a_take_that_is_left_comes_back_when_its_lease_ends(stage: Stage) -> None:
    """Nobody finds its tuples before, though the block is over; there is nothing left to commit."""
    space = stage.space()
    await space.out("x", 1)
    began = trio.current_time()
    async with space.take("x", int, lease=0.5) as taken:
        taken.leave()
        taken.give_back()
        with raises(LeaseLost):
            await taken.commit(out=[("y", 1)])
    assert await space.inp("x", int) is None
    assert await space.in_("x", int) == ("x", 1)
    assert trio.current_time() - began >= 0.4


async def a_closed_client_gives_back_in_the_end(stage: Stage) -> None:
    """What a client held when it was closed comes back when its leases end; its waiters leave the line."""
    space = stage.space()
    await space.out("x", 1)
    async with stage.make() as client:
        await hold(client.space(stage.name, lease=0.3), "x", int)
        assert await space.inp("x", int) is None
    assert await space.in_("x", int) == ("x", 1)


async def a_closed_client_says_so(stage: Stage) -> None:
    """Every operation of a client whose block was left raises ClientClosed."""
    async with stage.make() as client:
        space = client.space(stage.name)
        await space.out("x", 1)
        taken = await hold(space, "x", int)
    for ask in (space.in_, space.inp, space.rd, space.rdp, space.count, space.out):
        with raises(ClientClosed):
            await ask("x")
    with raises(ClientClosed):
        await space.statistics()
    with raises(ClientClosed):
        await taken.commit()
    taken.give_back()


async def a_tuple_lives_as_long_as_it_was_given(stage: Stage) -> None:
    """After its ttl, and not before, a waiting tuple is found by nothing; others stay."""
    first, second = stage.pair({"x": (1,)})
    began = trio.current_time()
    await first.out("x", 1, ttl=_SOON_S)
    await first.out_many([("x", 2), ("x", 3)], ttl=_SOON_S)
    await first.out("x", 4)
    assert await second.rdp("x", 1) == ("x", 1)
    assert await second.count("x", int) == 4
    await until(lambda: gives(second.count("x", ANY), 1))
    assert trio.current_time() >= began + _SOON_S - SLACK_S
    for number in (1, 2, 3):
        assert await second.rdp("x", number) is None
        assert await second.inp("x", number) is None
        assert await second.swap(("x", number), ("x", 5)) is None
    assert await listed(second.scan("x", int)) == [("x", 4)]
    assert await second.in_("x", int) == ("x", 4)
    await empty(first)


async def expired_tuples_do_not_hide_others(stage: Stage) -> None:
    """However many tuples have expired in front of it, the next one is found at once."""
    first, second = stage.pair()
    await first.out_many([("x", n) for n in range(1500)], ttl=0.3)
    await first.out("x", -1)
    await trio.sleep(0.4)
    assert await second.rdp("x", int) == ("x", -1)
    assert await listed(second.scan("x", int)) == [("x", -1)]
    assert await second.swap(("x", int), ("x", -2)) == ("x", -1)
    assert await second.rd("x", int) == ("x", -2)
    assert await second.count("x", int) == 1
    async with second.take("x", int, many=1000) as taken:
        assert list(taken) == [("x", -2)]
    assert await second.inp("x", int) is None
    await empty(first)


async def a_leased_tuple_outlives_its_time(stage: Stage) -> None:
    """A tuple whose ttl ends while it is leased can still be committed; given back, it is gone."""
    first, second = stage.pair()
    for give_back in (False, True):
        async with trio.open_nursery() as nursery:

            async def wait(give_back: bool = give_back) -> None:  # noqa: FBT001 - a loop's value
                async with first.take("x", int) as taken:
                    assert list(taken) == [("x", 1)]
                    await trio.sleep(0.3)
                    if give_back:
                        taken.give_back()
                    else:
                        await taken.commit(out=[("done",)])

            nursery.start_soon(wait)
            await in_line(second, takers=1)
            await second.out("x", 1, ttl=0.2)
    assert await second.inp("done") == ("done",)
    await empty(second)
    assert await second.rdp(DEAD_LETTER, tuple, int) is None


async def a_returned_tuple_still_expires(stage: Stage) -> None:
    """A tuple that is given back before its ttl has ended waits again for the rest of it."""
    first, second = stage.pair()
    began = trio.current_time()
    await first.out("x", 1, ttl=_SOON_S)
    async with first.take("x", int) as taken:
        taken.give_back()
    assert await second.rd("x", int) == ("x", 1)
    await until(lambda: gives(second.count("x", int), 0))
    assert trio.current_time() >= began + _SOON_S - SLACK_S
    await empty(first)


async def a_ttl_may_be_long(stage: Stage) -> None:
    """A tuple given a hundred years is there now."""
    first, second = stage.pair()
    await first.out("x", 1, ttl=100 * 365 * 86_400.0)
    assert await second.in_("x", int) == ("x", 1)


CHECKS: Final[tuple[Check, ...]] = (
    a_lease_that_ends_gives_back,
    a_lease_that_ends_serves_who_waits,
    a_commit_after_the_lease_is_refused,
    giving_back_after_the_lease_is_harmless,
    in_takes_again_what_it_could_not_commit,
    a_commit_that_fails_gives_back,
    a_living_holder_keeps_its_lease,
    a_holder_hears_that_its_lease_is_lost,
    all_are_told_the_same_start,
    deliveries_are_counted,
    a_tuple_delivered_too_often_is_a_dead_letter,
    dead_letters_are_the_terms_of_a_take,
    a_take_that_is_left_comes_back_when_its_lease_ends,
    a_closed_client_gives_back_in_the_end,
    a_closed_client_says_so,
    a_tuple_lives_as_long_as_it_was_given,
    expired_tuples_do_not_hide_others,
    a_leased_tuple_outlives_its_time,
    a_returned_tuple_still_expires,
    a_ttl_may_be_long,
)
