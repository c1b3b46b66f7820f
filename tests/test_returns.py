"""Gatherers that are thought lost and come back, and what others do with what they say then."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgpack
import pytest
import trio

import tuplespace
from gcs import board as boards
from gcs.board import Member, Pulse, Wish
from gcs.core.holdings import Charter, Holdings, Standing, overlap
from gcs.core.placement import Plan
from gcs.core.rulings import Rulings
from gcs.gatherer.exchange import end_marker
from gcs.leader.leader import Leader
from gcs.leader.reports import Account
from gcs.store import mail
from gcs.store.moving import keys_of
from gcs.store.records import Batch, Committed, Finished, Found, State
from tests.test_losses import TWO, found_lost, without
from tests.test_node import ONE, Gatherer, gatherer


async def rows_of(place: Path, *keys: str, done: bool = False) -> bytes:
    """The rows of some URLs, as another gatherer hands them over."""
    async with gatherer(place) as there:
        await there.node.adopt(there.charter(1, there.node.id))
        await there.node.crawl.commit(Batch(found=[Found(each) for each in keys]))
        if done:
            at = there.node.clock()
            pages = [Finished(key=each, state=State.DONE, status=200, at=at, attempts=1) for each in keys]
            await there.node.crawl.commit(Batch(finished=pages))
        packed, _, _ = there.node.store.chunk("", None)
        return packed


async def come(here: Gatherer, number: int, epoch: int, pieces: Sequence[bytes]) -> None:
    """Let pieces come from S, and wait until they are on disk."""
    last = number + len(pieces) - 1
    await here.board.inbox(here.node.id).out("batch", "S", number, last, number, epoch, msgpack.packb(pieces))
    await until(lambda: here.exchange.applied.get("S", 0) >= last)


async def until(is_so: Callable[[], bool]) -> None:
    """Wait until something is so."""
    with trio.fail_after(60):
        while not is_so():  # noqa: ASYNC110 - nothing says so
            await trio.sleep(0.01)


def sent(here: Gatherer, receiver: str) -> list[str]:
    """What kinds of pieces lie in an outbox."""
    return [mail.unpack(piece).kind for _, piece in here.node.store.outgoing(receiver, 0, 1 << 20)]


@asynccontextmanager
async def receiving(place: Path) -> AsyncIterator[Gatherer]:
    """One that has handed all that it had to B."""
    async with gatherer(place) as here, trio.open_nursery() as nursery:
        me = here.node.id
        members = {me: "me", "S": "S", "B": "B"}
        await here.node.adopt(here.charter(1, me, members=members))
        await here.node.crawl.commit(Batch(found=[Found(TWO)]))
        await here.node.adopt(here.charter(2, "B", me, members=members))
        nursery.start_soon(here.exchange.receive)
        yield here
        nursery.cancel_scope.cancel()


def test_rows_without_an_end_marker_go_on_to_their_owner(tmp_path: Path) -> None:
    """Their sender may have begun anew elsewhere, and nobody fetches from a range that is another one's."""

    async def run() -> None:
        packed = await rows_of(tmp_path / "a", ONE)
        async with receiving(tmp_path / "b") as here, trio.open_nursery() as nursery:
            await here.node.left([(("", None), "B")])
            assert here.node.holdings.pieces(Standing.LEAVING) == []
            await come(here, 1, 2, [mail.pack_rows(packed)])
            (piece,) = here.node.holdings.pieces(Standing.LEAVING)
            assert piece.peer == "B"
            assert overlap((piece.start, piece.end), (ONE, ONE + "\0"))
            nursery.start_soon(here.hand_over.run)
            await until(lambda: sent(here, "B") == ["rows", "mail"])
            nursery.cancel_scope.cancel()

    trio.run(run)


def test_a_range_is_sent_again_if_rows_come_into_it_after_its_end_marker(tmp_path: Path) -> None:
    """With these rows, however long it takes to write them."""

    def rows_sent(here: Gatherer) -> list[list[str]]:
        pieces = [mail.unpack(piece) for _, piece in here.node.store.outgoing("B", 0, 1 << 20)]
        return [keys_of(each.data) for each in pieces if each.kind == "rows"]

    async def run() -> None:
        packed = await rows_of(tmp_path / "a", ONE)
        async with receiving(tmp_path / "b") as here, trio.open_nursery() as nursery:
            store: Any = here.node.store
            commit = store.commit

            def slowly(batch: Batch, **more: Any) -> Committed:
                if batch.moved:
                    time.sleep(0.3)
                written: Committed = commit(batch, **more)
                return written

            store.commit = slowly
            nursery.start_soon(here.hand_over.run)
            await until(lambda: rows_sent(here) == [[TWO]])
            await come(here, 1, 2, [mail.pack_rows(packed)])
            await until(lambda: rows_sent(here)[-1] == [ONE, TWO])
            await until(lambda: sent(here, "B")[-1] == "mail")
            assert here.node.late == []
            nursery.cancel_scope.cancel()

    trio.run(run)


def test_a_range_is_not_let_go_while_rows_come_into_it(tmp_path: Path) -> None:
    async def run() -> None:
        packed = await rows_of(tmp_path / "a", ONE)
        async with receiving(tmp_path / "b") as here:
            await come(here, 1, 2, [mail.pack_rows(packed)])
            await here.node.left([(("", None), "B")])
            assert [piece.peer for piece in here.node.holdings.pieces(Standing.LEAVING)] == ["B"]
            here.node.late.clear()
            await here.node.left([(("", None), "B")])
            assert here.node.holdings.pieces(Standing.LEAVING) == []

    trio.run(run)


def test_rows_of_one_that_was_lost_and_may_be_lost_again_are_known_as_its_own(tmp_path: Path) -> None:
    """Its pages are fetched again then, though it had not sent all of their range."""

    async def run() -> None:
        packed = await rows_of(tmp_path / "a", ONE, done=True)
        async with gatherer(tmp_path / "b") as here, trio.open_nursery() as nursery:
            me = here.node.id
            await here.node.adopt(here.charter(2, me, members={me: "me", "S": "S"}))
            await here.node.adopt(without(here, 3, me, "S"))
            nursery.start_soon(here.exchange.receive)
            await come(here, 1, 3, [mail.pack_rows(packed)])
            assert [each.gatherer for each in here.node.origins] == ["S"]
            await here.node.adopt(without(here, 4, me, "S"))
            assert [(each.gatherer, each.start) for each in here.node.refetch] == [("S", ONE)]
            await come(here, 2, 3, [mail.pack_rows(packed), mail.pack_mail(end_marker("", None, 1.0))])
            assert not any(here.node.origins)
            nursery.cancel_scope.cancel()

    trio.run(run)


def test_what_was_sent_to_one_before_it_was_thought_lost_is_not_taken_in(tmp_path: Path) -> None:
    """It went elsewhere, or comes again; also after a restart, and when it is a member again."""

    async def run() -> None:
        pieces = msgpack.packb([mail.pack_found([Found(ONE)])])
        for is_first in (True, False):
            async with gatherer(tmp_path / "s") as here, trio.open_nursery() as nursery:
                me = here.node.id
                inbox = here.board.inbox(me)
                if is_first:
                    others, gone = {"B": "B"}, {me: 3}
                    await here.node.adopt(here.charter(3, "B", members=others, departed=[me], destroyed=gone))
                    await here.node.adopt(here.charter(4, me, members={me: "me", "B": "B"}))
                nursery.start_soon(here.exchange.receive)
                await inbox.out("batch", "S", 1, 1, 1, 2, pieces)
                with trio.fail_after(60):
                    while await inbox.count("batch", str, int, int, int, int, bytes):  # noqa: ASYNC110
                        await trio.sleep(0.01)
                await trio.sleep(0.1)
                assert here.exchange.applied == {}
                assert here.node.store.get(ONE) is None
                nursery.cancel_scope.cancel()
        async with gatherer(tmp_path / "s") as here, trio.open_nursery() as nursery:
            nursery.start_soon(here.exchange.receive)
            await here.board.inbox(here.node.id).out("batch", "S", 1, 1, 1, 4, pieces)
            await until(lambda: here.exchange.applied == {"S": 1})
            assert here.node.store.get(ONE) is not None
            nursery.cancel_scope.cancel()

    trio.run(run)


def test_who_is_lost_again_is_lost_since_then(tmp_path: Path) -> None:
    """What it has sent meanwhile is lost too; of one that was not there, what it sent before."""

    async def run() -> None:
        async with gatherer(tmp_path / "s") as here:
            me = here.node.id
            await here.node.adopt(without(here, 3, me, "S"))
            leader = Leader(here.node, here.board, here.membership, here.exchange)
            own = Account.from_bytes(await leader.account())
            alive = {me: Member(me, 1, Pulse(me, "x", epoch=3), 0.0)}
            for back, epoch in (((), 3), (("S",), 4)):
                charter = leader._planned(4, [], {me: own}, alive, {"S"}, back=back)
                assert (charter.departed, charter.destroyed) == (["S"], {"S": epoch})

    trio.run(run)


def test_who_was_lost_and_back_is_missing_when_it_is_lost_again(tmp_path: Path) -> None:
    async def run() -> None:
        member = {"heartbeat_s": 0.05, "forget_after_s": 0.5}
        async with gatherer(tmp_path / "s", member=member) as here:
            await here.board.beat("S", 1, Pulse("S", "x", epoch=2, forget_after_s=0.5))
            await found_lost(here, "S")
            assert here.membership.missing() == {"S"}
            await here.node.adopt(without(here, 3, here.node.id, "S"))
            await here.membership._look_around()
            assert here.membership.lost() == {"S"}
            assert here.membership.missing() == set()
            await here.board.beat("S", 2, Pulse("S", "x", epoch=3, forget_after_s=0.5))
            await here.membership._look_around()
            assert here.membership.lost() == set()
            await found_lost(here, "S")
            assert here.membership.missing() == {"S"}

    trio.run(run)


def test_that_one_was_back_is_known_after_a_restart(tmp_path: Path) -> None:
    """What came of it then is on disk, and has to be fetched again if it is silent again for long."""

    async def run() -> None:
        member = {"heartbeat_s": 0.05, "forget_after_s": 0.5}
        packed = await rows_of(tmp_path / "a", ONE, done=True)
        async with gatherer(tmp_path / "b", member=member) as here, trio.open_nursery() as nursery:
            me = here.node.id
            await here.node.adopt(here.charter(2, me, members={me: "me", "S": "S"}))
            await here.node.adopt(without(here, 3, me, "S"))
            nursery.start_soon(here.exchange.receive)
            await come(here, 1, 3, [mail.pack_rows(packed)])
            nursery.cancel_scope.cancel()
        async with gatherer(tmp_path / "b", member=member) as here:
            await here.board.beat("S", 1, Pulse("S", "x", epoch=3, forget_after_s=0.5))
            await here.membership._look_around()
            assert here.membership.missing() == set()
            with trio.fail_after(60):
                while here.membership.missing() != {"S"}:
                    await here.membership._look_around()
                    await trio.sleep(0.05)
            leader = Leader(here.node, here.board, here.membership, here.exchange)
            assert Account.from_bytes(await leader.account()).came_back == ("S",)
            charter = await leader.lead([Wish("lost", "me")])
            assert charter is not None
            assert charter.destroyed["S"] == charter.epoch

    trio.run(run)


@pytest.mark.parametrize("is_called", [True, False])
def test_who_was_silent_for_long_fetches_nothing_while_a_plan_is_made(
    is_called: bool, tmp_path: Path
) -> None:
    """Until it is in one, or there is none in the end."""

    async def run() -> None:
        member = {"heartbeat_s": 0.05, "forget_after_s": 0.5}
        async with gatherer(tmp_path / "s", member=member) as here:
            node, look = here.node, here.membership._look_around
            await node.adopt(here.charter(1, node.id))
            node.rulings = Rulings()
            await look()
            assert node.may_begin()
            await trio.sleep(0.6)
            assert not node.may_begin()
            async with tuplespace.election(here.board.space, boards.LEADER, lease=10.0) as leadership:
                token, fence = leadership.token, leadership.fence
                await here.board.put_up(boards.CALL, token, b"" if is_called else boards.OVER, fence=fence)
            await look()
            assert node.may_begin() is not is_called
            await node.adopt(here.charter(token, node.id))
            await look()
            assert node.may_begin()

    trio.run(run)


@pytest.mark.parametrize("has_reported", [True, False])
def test_no_plan_while_two_hold_the_same(has_reported: bool, tmp_path: Path) -> None:
    """One of them has rows that came late, whether or not the other one reports in time."""

    async def run() -> None:
        async with gatherer(tmp_path / "s") as here:
            me = here.node.id
            await here.node.adopt(here.charter(1, "A", members={me: "me", "A": "A", "B": "B"}))
            leader = Leader(here.node, here.board, here.membership, here.exchange)
            own = Account.from_bytes(await leader.account())
            accounts = {me: own, "B": replace(own, holds=[])}
            if has_reported:
                accounts["A"] = replace(own, holds=[("", None)])
            assert leader._agree(accounts, set(), set())
            accounts["B"] = replace(own, holds=[("x", "y")])
            assert not leader._agree(accounts, set(), set())

    trio.run(run)


def test_nobody_counts_itself_as_lost(tmp_path: Path) -> None:
    """One that is back has adopted the plan by which it was, and is there."""

    async def run() -> None:
        async with gatherer(tmp_path / "s") as here:
            me = here.node.id
            await here.membership._look_around()
            await here.node.adopt(here.charter(3, "B", members={"B": "B"}, departed=[me], destroyed={me: 3}))
            for _ in range(2):
                await here.membership._look_around()
                assert me not in here.membership.lost()

    trio.run(run)


def test_an_acknowledgement_by_a_newer_plan_has_to_wait_for_it(tmp_path: Path) -> None:
    """By that plan what was sent may have been dropped, since its sender is lost."""

    async def run() -> None:
        async with gatherer(tmp_path / "s") as here, trio.open_nursery() as nursery:
            me = here.node.id
            nursery.start_soon(here.exchange.send)
            nursery.start_soon(here.exchange.forget)
            await here.node.adopt(here.charter(1, me))
            await here.node.crawl.commit(Batch(told=[("A", Found(ONE))]))
            inbox = here.board.inbox("A")
            with trio.fail_after(60):
                await inbox.rd("batch", str, int, int, int, int, bytes)
            here.exchange.heard([Member("A", 1, Pulse("A", "x", epoch=2, applied={me: 1}), 0.0)])
            await trio.sleep(0.1)
            assert sent(here, "A")
            here.exchange.heard([Member("A", 1, Pulse("A", "x", epoch=1, applied={me: 1}), 0.0)])
            await until(lambda: not sent(here, "A"))
            nursery.cancel_scope.cancel()

    trio.run(run)


@pytest.mark.parametrize("is_back", [True, False])
def test_no_plan_without_one_that_comes_back_while_it_is_made(is_back: bool, tmp_path: Path) -> None:
    async def run() -> None:
        impatient = {"heartbeat_s": 0.05, "forget_after_s": 1.0}
        async with (
            gatherer(tmp_path / "s", member=impatient, rebalance={"deadline_s": 0.5}) as here,
            trio.open_nursery() as nursery,
        ):
            me = here.node.id
            await here.node.adopt(here.charter(1, me, members={me: "me", "A": "A"}))
            pulse = Pulse("A", "x", epoch=1, forget_after_s=1.0)
            await here.board.beat("A", 1, pulse)
            await found_lost(here, "A")
            await here.membership._look_around()
            leader = Leader(here.node, here.board, here.membership, here.exchange)

            async def come_back() -> None:
                while boards.CALL not in await here.board.now():  # noqa: ASYNC110 - nothing says so
                    await trio.sleep(0.01)
                await here.board.beat("A", 2, pulse)

            if is_back:
                nursery.start_soon(come_back)
            with trio.fail_after(60):
                charter = await leader.lead([Wish("lost", "me")])
            assert (charter is None) is is_back
            nursery.cancel_scope.cancel()

    trio.run(run)


def test_no_plan_with_one_that_may_not_know_yet_that_it_was_lost(tmp_path: Path) -> None:
    """It reports what it held by the plan before, as soon as it is asked."""

    async def run() -> None:
        async with gatherer(tmp_path / "s") as here, trio.open_nursery() as nursery:
            await here.node.adopt(without(here, 3, here.node.id, "A"))
            await here.board.beat("A", 1, Pulse("A", "x", epoch=2))
            await here.membership._look_around()
            assert "A" in here.membership.lost()
            assert "A" in {each.id for each in here.membership.alive()}
            leader = Leader(here.node, here.board, here.membership, here.exchange)

            async def report() -> None:
                own = Account.from_bytes(await leader.account())
                while not (token := (await here.board.now()).get(boards.CALL, (0, b""))[0]):  # noqa: ASYNC110
                    await trio.sleep(0.01)
                theirs = Account(replace(own.report, gatherer="A"), [], 2)
                await here.board.report(token, "A", theirs.to_bytes())

            nursery.start_soon(report)
            with trio.fail_after(60):
                assert await leader.lead([Wish("operator", "somebody")]) is None
            nursery.cancel_scope.cancel()

    trio.run(run)


def test_a_charter_that_says_of_the_lost_no_epoch_is_refused() -> None:
    plan = Plan.of([("", "A")])
    said = Charter(3, plan, plan, {"A": "A"}, departed=["B"], destroyed={"B": 3})
    assert Charter.from_bytes(said.to_bytes()).destroyed == {"B": 3}
    named = msgpack.unpackb(said.to_bytes()) | {"destroyed": ["B"]}
    assert Charter.from_bytes(msgpack.packb(named)).destroyed == {"B": 3}
    with pytest.raises(ValueError, match="no epoch"):
        Charter.from_bytes(msgpack.packb(named | {"destroyed": {"B": None}}))


def test_rows_and_end_markers_that_overlap_are_one_place() -> None:
    """Wherever any of them lies in a range that is another one's, it goes on."""
    owners = Plan.of([("", "B")])
    after = Holdings().arrived([("S", ("b", "m"))], owners, "A", rows=[("c", "d"), ("l", "p"), ("r", "s")])
    assert [(each.start, each.end) for each in after.pieces(Standing.LEAVING)] == [("b", "p"), ("r", "s")]
    assert after.has(Standing.LEAVING, ("a", "c"))
    assert after.has(Standing.LEAVING, ("o", None))
    assert not after.has(Standing.LEAVING, ("p", "r"))
    assert not after.has(Standing.LEAVING, ("s", None))
