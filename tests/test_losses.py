"""Gatherers that are lost at a bad moment: in the middle of a hand-over, or when they are drained."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import msgpack
import pytest
import trio

from gcs.board import Member, Pulse
from gcs.core.holdings import Charter, Standing
from gcs.core.placement import Plan
from gcs.core.urls import key
from gcs.gatherer import handover
from gcs.gatherer.exchange import end_marker
from gcs.gatherer.node import Received
from gcs.gatherer.orders import Orders
from gcs.leader.leader import Leader
from gcs.leader.reports import Account
from gcs.store import mail
from gcs.store.records import SEED, Batch, Committed, Finished, Found, State
from tests.test_node import ONE, Gatherer, delivered, gatherer
from tuplespace import TupleSpaceError

TWO = ONE + "x"
IMPATIENT = {"heartbeat_s": 0.05, "forget_after_s": 0.5}


def without(here: Gatherer, epoch: int, owner: str, gone: str, *rest: str, **more: Any) -> Charter:
    """A charter after one was lost with its disk; what there is comes from here."""
    me = here.node.id
    members = {me: "me", **{each: each for each in rest}}
    return here.charter(epoch, owner, me, members=members, departed=[gone], destroyed={gone: epoch}, **more)


async def found_lost(here: Gatherer, member: str) -> None:
    """Look around until a member is thought to be lost."""
    with trio.fail_after(60):
        while member not in here.membership.lost():
            await here.membership._look_around()
            await trio.sleep(0.05)


def state(here: Gatherer) -> State:
    """How the URL of these tests stands."""
    row = here.node.store.get(ONE)
    assert row is not None
    return row.state


def batches(here: Gatherer, receiver: str) -> AsyncIterator[tuple[Any, ...]]:
    """What lies in an inbox."""
    return here.board.inbox(receiver).scan("batch", str, int, int, int, int, bytes)


def slowly(commit: Callable[[Batch], Committed]) -> Callable[[Batch], Committed]:
    """Commits to a busy disk."""

    def slow(batch: Batch) -> Committed:
        time.sleep(0.2)
        return commit(batch)

    return slow


def test_rows_survive_their_receiver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An outbox that is emptied because its receiver is lost is not taken for an acknowledgement."""

    async def run() -> None:
        async with gatherer(tmp_path / "s") as here, trio.open_nursery() as nursery:
            me, node = here.node.id, here.node
            await node.adopt(here.charter(1, me))
            await node.crawl.commit(Batch(found=[Found(ONE, 1)]))
            await node.adopt(here.charter(2, "B", me))
            for task in (here.hand_over.run, here.exchange.send, here.exchange.forget):
                nursery.start_soon(task)
            with trio.fail_after(60):
                while not here.hand_over._sent:  # noqa: ASYNC110 - nothing says so
                    await trio.sleep(0.01)
            monkeypatch.setattr(node.store, "commit", slowly(node.store.commit))
            await node.adopt(without(here, 3, "A", "B", "A", lost=[("", None)]))
            assert ONE in {each for _, each in await delivered(here, "A", 5)}
            nursery.cancel_scope.cancel()

    trio.run(run)


def test_half_a_hand_over(tmp_path: Path) -> None:
    """What others had passed to one that is lost while it hands over is passed on again."""

    async def run() -> None:
        async with gatherer(tmp_path / "s") as here:
            me = here.node.id
            members = {me: "me", "S": "S", "C": "C"}
            await here.node.adopt(here.charter(1, "S", members=members))
            await here.node.adopt(here.charter(2, me, "S", members=members))
            assert here.node.holdings.pieces(Standing.COMING)
            leader = Leader(here.node, here.board, here.membership, here.exchange)
            own = Account.from_bytes(await leader.account())
            theirs = Account(replace(own.report, gatherer="C"), [], 0)
            alive = {each: Member(each, 1, Pulse(each, "x", epoch=2), 0.0) for each in (me, "C")}
            charter = leader._planned(3, [], {me: own, "C": theirs}, alive, {"S"})
            assert (charter.destroyed, charter.lost) == ({"S": 3}, [("", None)])

    trio.run(run)


def test_pages_of_half_a_hand_over(tmp_path: Path) -> None:
    """Pages are fetched again whose rows had come before their gatherer was lost with what they name."""

    async def run() -> None:
        async with gatherer(tmp_path / "a") as there:
            await there.node.adopt(there.charter(1, there.node.id))
            page = Finished(key=ONE, state=State.DONE, status=200, at=there.node.clock(), attempts=1)
            await there.node.crawl.commit(Batch(found=[Found(ONE)]))
            await there.node.crawl.commit(Batch(finished=[page]))
            packed, rows, _ = there.node.store.chunk("", None)
            assert rows == 1
        async with gatherer(tmp_path / "b") as here, trio.open_nursery() as nursery:
            me = here.node.id
            await here.node.adopt(here.charter(2, me, "S", members={me: "me", "S": "S"}))
            nursery.start_soon(here.exchange.receive)
            piece = mail.pack_rows(packed)
            await here.board.inbox(me).out("batch", "S", 1, 1, 1, 2, msgpack.packb([piece]))
            with trio.fail_after(60):
                await here.exchange.received.wait()
            assert state(here) is State.DONE
            await here.node.adopt(without(here, 3, me, "S"))
            nursery.start_soon(here.hand_over.run)
            with trio.fail_after(60):
                while any(here.node.refetch):
                    await here.node.changed.wait()
            assert state(here) is State.QUEUED
            nursery.cancel_scope.cancel()

    trio.run(run)


@pytest.mark.parametrize("is_ours", [True, False])
def test_rows_that_come_after_their_gatherer_was_lost(is_ours: bool, tmp_path: Path) -> None:
    """They are lost with it, since what its pages name is; when it is back, they count."""

    async def run() -> None:
        async with gatherer(tmp_path / "a") as there:
            await there.node.adopt(there.charter(1, there.node.id))
            await there.node.crawl.commit(Batch(found=[Found(ONE)]))
            packed, _, _ = there.node.store.chunk("", None)
        letters = [mail.pack_rows(packed), mail.pack_mail(end_marker("", None, 1.0))]
        async with gatherer(tmp_path / "b") as here, trio.open_nursery() as nursery:
            node, me = here.node, here.node.id

            async def come(number: int, epoch: int) -> None:
                batch = ("batch", "S", number, number + 1, number, epoch, msgpack.packb(letters))
                await here.board.inbox(me).out(*batch)
                with trio.fail_after(60):
                    while here.exchange.applied.get("S", 0) <= number:  # noqa: ASYNC110 - nothing says so
                        await trio.sleep(0.01)

            nursery.start_soon(here.exchange.receive)
            await node.adopt(here.charter(2, me, "S", members={me: "me", "S": "S", "B": "B"}))
            await node.adopt(without(here, 3, me if is_ours else "B", "S", "B"))
            if not is_ours:
                await node.left([(("", None), "B")])
            await come(1, 2)
            assert not any(node.store.held([ONE]))
            assert not any(node.origins)
            assert node.holdings.pieces(Standing.LEAVING) == []
            await come(3, 3)
            assert node.store.held([ONE]) == [True]
            nursery.cancel_scope.cancel()

    trio.run(run)


def test_who_was_thought_lost_hands_over_again_what_it_has_sent(tmp_path: Path) -> None:
    """Of what it sent before it knew, the receiver has taken in nothing."""

    async def run() -> None:
        async with gatherer(tmp_path / "s") as here, trio.open_nursery() as nursery:
            me, store = here.node.id, here.node.store

            async def ends(count: int) -> None:
                """Wait for so many end markers in the outbox."""
                with trio.fail_after(60):
                    while True:
                        kinds = [mail.unpack(piece).kind for _, piece in store.outgoing("A", 0, 1 << 20)]
                        if kinds.count("mail") >= count:
                            break
                        await trio.sleep(0.01)
                assert kinds == ["rows", "mail"] * count

            await here.node.adopt(here.charter(1, me))
            await here.node.crawl.commit(Batch(found=[Found(ONE)]))
            await here.node.adopt(here.charter(2, "A", me))
            nursery.start_soon(here.hand_over.run)
            await ends(1)
            await here.node.adopt(here.charter(3, "A", me, departed=[me], destroyed={me: 3}))
            await ends(2)
            await here.node.adopt(here.charter(4, "A", me))
            await trio.sleep(0.3)
            await ends(2)
            nursery.cancel_scope.cancel()

    trio.run(run)


@pytest.mark.parametrize("has_come_whole", [True, False])
def test_rows_that_come_once_more(has_come_whole: bool, tmp_path: Path) -> None:
    """Who is killed before it knows that a range has come sends it again: what has changed since stays so."""

    async def run() -> None:
        page = Finished(key=ONE, state=State.DONE, status=200, at=1.0, attempts=1)
        async with gatherer(tmp_path / "a") as there:
            await there.node.adopt(there.charter(1, there.node.id))
            await there.node.crawl.commit(Batch(found=[Found(ONE)]))
            await there.node.crawl.commit(Batch(finished=[page]))
            packed, _, _ = there.node.store.chunk("", None)
            await there.node.crawl.commit(Batch(found=[Found(TWO)]))
            both, _, _ = there.node.store.chunk("", None)
        end = mail.pack_mail(end_marker("", None, 1.0))
        sent, more = (msgpack.packb([mail.pack_rows(rows), end]) for rows in (packed, both))

        async def come(here: Gatherer, number: int, data: bytes) -> None:
            await here.board.inbox(here.node.id).out("batch", "S", number, number + 1, number, 2, data)
            with trio.fail_after(60):
                while here.exchange.applied.get("S", 0) <= number:  # noqa: ASYNC110 - nothing says so
                    await trio.sleep(0.01)

        async with gatherer(tmp_path / "b") as here, trio.open_nursery() as nursery:
            me, node = here.node.id, here.node
            members = {me: "me", "S": "S"}
            await node.adopt(here.charter(2, me, "S", members=members))
            nursery.start_soon(here.exchange.receive)
            if has_come_whole:
                await come(here, 1, sent)
            else:
                # Nothing came for long.
                await node.take_in(lambda: Received(ends=[("S", ("", None))]))
                await node.crawl.commit(Batch(found=[Found(ONE)]))
            await node.crawl.commit(Batch(again=[ONE]))
            assert state(here) is State.QUEUED
            await come(here, 3, sent)
            assert state(here) is (State.QUEUED if has_come_whole else State.DONE)
            nursery.cancel_scope.cancel()
        async with gatherer(tmp_path / "b") as here, trio.open_nursery() as nursery:
            nursery.start_soon(here.exchange.receive)
            await come(here, 5, sent)
            assert state(here) is (State.QUEUED if has_come_whole else State.DONE)
            await come(here, 7, more)
            assert here.node.store.held([TWO]) == [True]
            me = here.node.id
            await here.node.adopt(here.charter(3, "S", me, members={me: "me", "S": "S"}))
            await here.node.left([(("", None), "S")])
            await here.node.adopt(here.charter(4, me, "S", members={me: "me", "S": "S"}))
            await come(here, 9, sent)
            assert state(here) is State.DONE
            nursery.cancel_scope.cancel()

    trio.run(run)


def test_drained_and_lost(tmp_path: Path) -> None:
    """One that was drained, and is lost before it has left, is missed though no plan names it."""

    async def run() -> None:
        async with gatherer(tmp_path / "s", member=IMPATIENT) as here:
            me = here.node.id
            await here.node.adopt(here.charter(1, "G", members={me: "me", "G": "G"}))
            await here.node.adopt(here.charter(2, me, "G", members={me: "me"}, reason="drain"))
            await here.board.beat("G", 1, Pulse("G", "x", epoch=2, standing="draining", leaving={me: 1}))
            await found_lost(here, "G")
            await here.membership._look_around()
            assert here.membership.missing() == {"G"}
            wishes = [wish async for wish in here.board.space.scan("rebalance", str, str, str)]
            assert [wish[1] for wish in wishes] == ["lost"]

    trio.run(run)


def test_lost_stays_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that a plan counts as departed stays so when Redis could not be reached for a moment."""

    async def run() -> None:
        async with gatherer(tmp_path / "s", member=IMPATIENT) as here, trio.open_nursery() as nursery:
            node, me = here.node, here.node.id
            await node.adopt(here.charter(1, me, members={me: "me", "S": "S"}))
            for each in (1, 2, 3):
                await here.board.beat("S", each, Pulse("S", "x", epoch=1))
                await here.membership._look_around()
            await found_lost(here, "S")
            await node.adopt(without(here, 2, me, "S"))
            await here.membership._look_around()
            members, failures = here.board.members, [1]

            async def once() -> object:
                if failures:
                    failures.pop()
                    raise TupleSpaceError("no reply")
                return await members()

            monkeypatch.setattr(here.board, "members", once)
            nursery.start_soon(here.membership.run)
            with trio.fail_after(60):
                while failures or not here.membership.is_within_reach:
                    await here.membership.looked.wait()
            assert "S" in here.membership.lost()
            assert here.membership.is_settled()
            nursery.cancel_scope.cancel()

    trio.run(run)


def test_nobody_is_forgotten_sooner_than_it_counts_on(tmp_path: Path) -> None:
    """One that was told of more time than we would give it goes on fetching for so long."""

    async def run() -> None:
        async with gatherer(tmp_path / "s", member=IMPATIENT) as here:
            me = here.node.id
            await here.node.adopt(here.charter(1, me, members={me: "me", "S": "S", "T": "T"}))
            await here.board.beat("S", 1, Pulse("S", "x", epoch=1, forget_after_s=60.0))
            await here.board.beat("T", 1, Pulse("T", "x", epoch=1))
            await found_lost(here, "T")
            assert "S" not in here.membership.lost()

    trio.run(run)


def test_leaving_is_heard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who leaves ends only after it could say so: others would think that it is lost."""

    async def run() -> None:
        async with gatherer(tmp_path / "s") as here, trio.open_nursery() as nursery:
            node = here.node
            await node.adopt(here.charter(1, "B", members={"B": "B"}))
            await node.drain()
            beat, tries = here.board.beat, [0]

            async def away(who: str, number: int, pulse: Pulse) -> None:
                if pulse.standing == "left":
                    tries[0] += 1
                    if tries[0] < 3:
                        raise TupleSpaceError("no reply")
                await beat(who, number, pulse)

            monkeypatch.setattr(here.board, "beat", away)
            nursery.start_soon(here.hand_over.run)
            number = 1
            with trio.fail_after(60):
                while not node.has_left:
                    number += 1
                    await beat("B", number, Pulse("B", "x", epoch=1))
                    with suppress(TupleSpaceError):
                        await here.membership._look_around()
                    await trio.sleep(0.02)
            assert tries[0] == 3
            assert (await here.board.members())[node.id].pulse.standing == "left"
            nursery.cancel_scope.cancel()

    trio.run(run)


def test_nobody_leaves_who_may_have_something_by_a_newer_plan(tmp_path: Path) -> None:
    """Who was drained as a newcomer stays until it follows the plan that others follow."""

    async def run() -> None:
        async with gatherer(tmp_path / "s") as here, trio.open_nursery() as nursery:
            node, beats = here.node, count(1)
            await node.adopt(here.charter(1, "B", members={"B": "B"}))
            await node.drain()
            nursery.start_soon(here.hand_over.run)

            async def looked_around(times: int) -> bool:
                for _ in range(times):
                    await here.board.beat("B", next(beats), Pulse("B", "x", epoch=max(2, node.epoch)))
                    await here.membership._look_around()
                    await trio.sleep(0.02)
                    if node.has_left:
                        return True
                return False

            assert not await looked_around(20)
            await node.adopt(here.charter(2, "B", members={"B": "B"}))
            plan = here.charter(3, "B", members={"B": "B"})
            await here.board.publish(plan)  # and nobody follows it yet
            assert not await looked_around(20)
            await node.adopt(plan)
            assert await looked_around(1000)
            nursery.cancel_scope.cancel()

    trio.run(run)


def test_a_plan_that_comes_while_one_leaves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who gets something while it says that it has left stays, and says so."""

    async def run() -> None:
        async with gatherer(tmp_path / "s") as here, trio.open_nursery() as nursery:
            node, me, beat = here.node, here.node.id, here.board.beat
            await node.adopt(here.charter(1, "B", members={"B": "B"}))
            await node.drain()
            nursery.start_soon(here.hand_over.run)

            async def crossing(who: str, number: int, pulse: Pulse) -> None:
                await beat(who, number, pulse)
                if pulse.standing == "left":
                    await node.adopt(here.charter(2, me, "B", members={me: "me", "B": "B"}))

            monkeypatch.setattr(here.board, "beat", crossing)
            number = 0
            with trio.fail_after(60):
                while node.epoch == 1:
                    number += 1
                    await beat("B", number, Pulse("B", "x", epoch=1))
                    await here.membership._look_around()
                    await trio.sleep(0.02)
            assert not node.has_left
            await here.membership._look_around()
            assert (await here.board.members())[me].pulse.standing == "draining"
            nursery.cancel_scope.cancel()

    trio.run(run)


def test_a_plan_that_counts_on_one_that_has_left(tmp_path: Path) -> None:
    """It is replaced; until then what it gives to that one stays, and what it gives to others goes there."""

    async def run() -> None:
        async with gatherer(tmp_path / "s") as here, trio.open_nursery() as nursery:
            node, me = here.node, here.node.id
            await node.adopt(here.charter(1, me))
            two = key("http://other.example/")
            await node.crawl.commit(Batch(found=[Found(ONE, 1), Found(two, 1)]))
            one, other = sorted([ONE, two])
            owners = Plan.of([("", "L"), (other, "B")])
            members = {me: "me", "L": "L", "B": "B"}
            plan = here.charter(2, "B", me, members=members)
            await node.adopt(replace(plan, owners=owners))
            await here.board.beat("L", 1, Pulse("L", "x", epoch=1, standing="left"))
            await here.membership._look_around()
            assert here.membership.missing() == {"L"}
            wishes = [wish async for wish in here.board.space.scan("rebalance", str, str, str)]
            assert [wish[1] for wish in wishes] == ["lost"]
            await node.crawl.commit(Batch(passed=node.sorted_out([Found(one + "x", 1)], always=True)[1]))
            waiting = node.store.outboxes()["L"].next
            for task in (here.hand_over.run, here.exchange.send, here.exchange.forget):
                nursery.start_soon(task)
            assert other in {each for _, each in await delivered(here, "B", 2)}
            assert node.store.outboxes()["L"].next == waiting
            await node.adopt(here.charter(3, "B", me, members={me: "me", "B": "B"}, departed=["L"]))
            assert {one, one + "x"} <= {each for _, each in await delivered(here, "B", 5)}
            nursery.cancel_scope.cancel()

    trio.run(run)


@pytest.mark.parametrize("standing", ["left", "crawling"])
def test_a_receiver_that_takes_nothing_keeps_nothing_from_others(
    standing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan without it could never be made if other ranges waited for room in its outbox."""
    for name, size in {"UNSENT_BYTES": 1000, "ROWS_AT_ONCE": 100, "ROWS": 100}.items():
        monkeypatch.setattr(handover, name, size)

    async def run() -> None:
        async with gatherer(tmp_path / "s", member=IMPATIENT) as here, trio.open_nursery() as nursery:
            node, me, beats = here.node, here.node.id, count(1)
            await node.adopt(here.charter(1, me))
            random = Random(1)
            many = [key(f"http://a.example/{random.getrandbits(99):x}") for _ in range(500)]
            other = key("http://other.example/")
            await node.crawl.commit(Batch(found=[Found(each, 1) for each in (*many, other)]))
            plan = here.charter(2, "B", me, members={me: "me", "L": "L", "B": "B"})
            await here.board.beat("L", 1, Pulse("L", "x", epoch=2, standing=standing))
            await node.adopt(replace(plan, owners=Plan.of([("", "L"), (other, "B")])))
            for task in (here.hand_over.run, here.exchange.send, here.exchange.forget):
                nursery.start_soon(task)
            assert other in {each for _, each in await delivered(here, "B", 2)}
            with trio.fail_after(60):
                while not (here.membership.missing() and here.membership.is_settled()):
                    await here.board.beat("B", next(beats), Pulse("B", "x", epoch=2))
                    await here.membership._look_around()
                    await trio.sleep(0.02)
            await node.adopt(here.charter(3, "B", me, members={me: "me", "B": "B"}, departed=["L"]))
            assert {*many} <= {each for _, each in await delivered(here, "B", 5)}
            nursery.cancel_scope.cancel()

    trio.run(run)


def test_what_waits_in_redis_is_bounded(tmp_path: Path) -> None:
    """What one that is away does not receive is not sent again and again; when it is lost, it is removed."""

    async def run() -> None:
        settings = {"again_after_s": 0.1, "every_s": 0.02, "in_redis_bytes": 4096, "batch_bytes": 1024}
        async with gatherer(tmp_path / "s", exchange=settings) as here, trio.open_nursery() as nursery:
            me, random = here.node.id, Random(1)
            await here.node.adopt(here.charter(1, "B"))
            for _ in range(40):
                pages = (f"{random.getrandbits(400):x}" for _ in range(10))
                found = [Found(key(f"http://h.example/{page}"), 1) for page in pages]
                await here.node.crawl.commit(Batch(passed=here.node.sorted_out(found, always=False)[1]))
            nursery.start_soon(here.exchange.send)
            await trio.sleep(1)
            lies = [len(each[6]) async for each in batches(here, "B")]
            assert 4096 <= sum(lies) <= 3 * 4096
            await here.node.adopt(without(here, 2, me, "B"))
            nursery.start_soon(here.hand_over.run)
            with trio.fail_after(60):
                while [each async for each in batches(here, "B")]:  # noqa: ASYNC110 - nothing says so
                    await trio.sleep(0.02)
            nursery.cancel_scope.cancel()

    trio.run(run)


class TestSeeds:
    """Of every seed a second gatherer knows, as soon as there is one."""

    def test_taken_alone(self, tmp_path: Path) -> None:
        """A seed that came when there was only one is told to the first that joins."""

        async def run() -> None:
            async with gatherer(tmp_path / "s") as here, trio.open_nursery() as nursery:
                me = here.node.id
                await here.node.adopt(here.charter(1, me, members={me: "me"}))
                seed = Found(ONE, 0, "", SEED)
                await here.node.crawl.commit(Batch(found=[seed], told=here.node.witnesses([seed])))
                for task in (here.hand_over.run, here.exchange.send, here.exchange.forget):
                    nursery.start_soon(task)
                await here.node.adopt(here.charter(2, me, me, members={me: "me", "B": "B"}, reason="join"))
                assert not here.node.is_quiet()
                assert ("known", ONE) in await delivered(here, "B", 3)
                assert not here.node.is_to_tell_of_seeds
                nursery.cancel_scope.cancel()

        trio.run(run)

    def test_others_are_about_to_join(self, tmp_path: Path) -> None:
        """One that is alone by the plan leaves seeds to others that are there, or until they are members."""

        async def run() -> None:
            async with gatherer(tmp_path / "s") as here, trio.open_nursery() as nursery:
                node, me = here.node, here.node.id
                leader = Leader(node, here.board, here.membership, here.exchange)
                orders = Orders(node, here.board, here.exchange, leader, node.crawl._visitor)
                await node.adopt(here.charter(1, me, members={me: "me"}))
                await here.board.beat("B", 1, Pulse("B", "x", standing="joining"))
                await here.membership._look_around()
                await here.board.seed(["http://one.test/"])
                for task in (orders.take_seeds, here.exchange.send, here.exchange.forget):
                    nursery.start_soon(task)
                await trio.sleep(0.3)
                assert await here.board.waiting_seeds() == (["http://one.test/"], 0)
                await node.adopt(here.charter(2, me, me, members={me: "me", "B": "B"}, reason="join"))
                assert ("known", key("http://one.test/")) in await delivered(here, "B", 3)
                nursery.cancel_scope.cancel()

        trio.run(run)

    def test_on_the_board_until_a_second_one_knows(self, tmp_path: Path) -> None:
        """Should this one be lost, somebody else takes them; meanwhile others are taken."""

        async def run() -> None:
            async with gatherer(tmp_path / "s") as here, trio.open_nursery() as nursery:
                node, me = here.node, here.node.id
                leader = Leader(node, here.board, here.membership, here.exchange)
                orders = Orders(node, here.board, here.exchange, leader, node.crawl._visitor)
                await node.adopt(here.charter(1, me, members={me: "me", "B": "B"}))
                for task in (orders.take_seeds, here.exchange.send, here.exchange.forget):
                    nursery.start_soon(task)
                urls = ["http://one.test/", "http://two.test/"]
                with trio.fail_after(60):
                    for number, url in enumerate(urls, start=1):
                        await here.board.seed([url])
                        while not node.store.get(key(url)):  # noqa: ASYNC110 - nothing says so
                            await trio.sleep(0.02)
                        await trio.sleep(0.5)
                        assert await here.board.waiting_seeds() == ([], number)
                    assert {("known", key(url)) for url in urls} <= {*await delivered(here, "B", 1)}
                    while await here.board.seeds_wait():  # noqa: ASYNC110 - nothing says so
                        await trio.sleep(0.02)
                nursery.cancel_scope.cancel()

        trio.run(run)

    def test_its_witness_is_lost(self, tmp_path: Path) -> None:
        """When who knew of a seed is gone, another one is told."""

        async def run() -> None:
            async with gatherer(tmp_path / "s") as here, trio.open_nursery() as nursery:
                me = here.node.id
                await here.node.adopt(here.charter(1, me, members={me: "me", "A": "A", "B": "B"}))
                await here.node.crawl.commit(Batch(found=[Found(ONE, 0, "", SEED)]))
                for task in (here.hand_over.run, here.exchange.send, here.exchange.forget):
                    nursery.start_soon(task)
                await here.node.adopt(without(here, 2, me, "A", "B"))
                assert ("known", ONE) in await delivered(here, "B", 3)
                nursery.cancel_scope.cancel()

        trio.run(run)
