"""One gatherer among others, in one process: a real store, a space in memory, and others that are made up."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import count
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Any
from unittest.mock import AsyncMock

import msgpack
import pytest
import structlog
import trio

import tuplespace
from gcs import board as boards
from gcs.board import Board, Member, Pulse, Wish
from gcs.config import STATISTICS, Config
from gcs.core import reasons
from gcs.core.holdings import NOBODY, Charter, Holdings, Made, Range, Standing
from gcs.core.origins import Origin
from gcs.core.placement import Plan
from gcs.core.reasons import OPERATOR
from gcs.core.rulings import Rulings
from gcs.core.tree import Expansion
from gcs.core.urls import PATH, key, part
from gcs.fetch.transport import Transport
from gcs.gatherer import crawl as crawl_module
from gcs.gatherer import handover, membership
from gcs.gatherer.admission import Admission
from gcs.gatherer.crawl import Crawl, Ending
from gcs.gatherer.exchange import Exchange
from gcs.gatherer.handover import HandOver
from gcs.gatherer.links import Targets
from gcs.gatherer.membership import Membership
from gcs.gatherer.node import HEARD, Node, Received
from gcs.gatherer.returning import ADOPTED
from gcs.gatherer.seeds import cleaning
from gcs.gatherer.turns import say_private
from gcs.gatherer.upkeep import Upkeep
from gcs.gatherer.visit import Visitor
from gcs.leader.leader import Leader
from gcs.leader.reports import Account
from gcs.store import mail, moving
from gcs.store.errors import DiskFull
from gcs.store.records import Batch, Finished, Found, State, host_of
from gcs.store.store import Store
from gcs.summary import plugins
from tests import scripted, servers
from tests.test_fetch import until
from tuplespace import Limits, Tenure, Unavailable, election, memory

EXPANSION = Expansion().to_bytes()
ONE = key("http://h.example/only-a-knew")


@dataclass
class Gatherer:
    """All parts of a gatherer that the tests need."""

    node: Node
    board: Board
    exchange: Exchange
    hand_over: HandOver
    membership: Membership

    def charter(self, epoch: int, owner: str, source: str = NOBODY, **more: Any) -> Charter:
        """One owner has everything."""
        members = more.pop("members", {self.node.id: "me", "A": "A", "B": "B"})
        owners, sources = Plan.of([("", owner)]), Plan.of([("", source)])
        return Charter(epoch, owners, sources, members, expansion=EXPANSION, **more)


@asynccontextmanager
async def gatherer(directory: Path, *, url: str = "", **sections: Any) -> AsyncIterator[Gatherer]:
    """A gatherer whose crawl runs, and fetches nothing; on a space in memory unless a Redis is given."""
    config = Config()
    settings = {"store": {"keep_free_bytes": 0}, "member": {"heartbeat_s": 0.05}, **sections}
    config = replace(
        config, **{name: replace(getattr(config, name), **given) for name, given in settings.items()}
    )
    spaces = tuplespace.connect(url) if url else memory.connect(memory.Server())
    async with spaces as client, Transport(config.fetch) as transport:
        with Store.open(directory, config.store, resume=True) as store:
            node = Node(config, store)
            admission = Admission(config, year=datetime.now(UTC).year, rulings=lambda: node.rulings)
            loaded = plugins.load(structlog.get_logger())
            visitor = Visitor(config, Targets(cleaning(config)), admission, loaded)
            node.crawl = Crawl(config, store, transport, visitor, Expansion(), territory=node)
            node.rulings = Rulings().pause("*", 0)
            board = Board(client, config)
            exchange = Exchange(node, board)
            made = Gatherer(
                node,
                board,
                exchange,
                HandOver(node, exchange),
                Membership(node, board, exchange, lambda _: None),
            )
            async with trio.open_nursery() as nursery:
                nursery.start_soon(node.crawl.run)
                yield made
                nursery.cancel_scope.cancel()


async def delivered(here: Gatherer, receiver: str, seconds: float) -> list[tuple[str, str]]:
    """What one receives, and acknowledges, in some time."""
    got: list[tuple[str, str]] = []
    applied = 0
    inbox = here.board.inbox(receiver)
    with trio.move_on_after(seconds):
        while True:
            async with inbox.take("batch", str, int, int, int, int, bytes, many=32) as taken:
                for _, _, _, last, _, _, packed in taken:
                    for piece in msgpack.unpackb(packed):
                        got += _entries(piece)
                    applied = max(applied, int(last))  # type: ignore[arg-type]
            pulse = Pulse(receiver, "x", applied={here.node.id: applied})
            here.exchange.heard([Member(receiver, 1, pulse, 0.0)])
    return got


def _entries(piece: bytes) -> list[tuple[str, str]]:
    letter = mail.unpack(piece)
    if letter.kind == "rows":
        return [("row", each) for each in moving.unpack(letter.data).keys]
    if letter.kind in ("found", "known"):
        return [(letter.kind, each.key) for each in letter.found]
    return [("mail", msgpack.unpackb(letter.data)[0])]


async def test_others_may_write_more_at_once(tmp_path: Path, redis_node: servers.Node) -> None:
    """What another gatherer writes is taken in though it is too long to be written here.

    What nobody can have been told to write is dropped, counted and logged.
    """
    async with (
        gatherer(tmp_path / "s", url=redis_node.url, space={"max_tuple_bytes": 64 << 10}) as here,
        tuplespace.connect(redis_node.url) as theirs,
        trio.open_nursery() as nursery,
    ):
        await here.node.adopt(here.charter(1, here.node.id))
        nursery.start_soon(here.exchange.receive)
        limits = Limits(max_bytes=16 << 20)
        inbox = theirs.space(here.board.inbox(here.node.id).name, index={"batch": (1,)}, limits=limits)
        drawn = Random(1)  # what repeats is compressed
        urls = [key(f"http://h.example/{drawn.randbytes(45).hex()}") for _ in range(4000)]
        piece = msgpack.packb([mail.pack_found([Found(each, 1) for each in sorted(urls)])])
        assert len(piece) > 2 * (64 << 10)
        await inbox.out("batch", "A", 1, 1, 1, 1, piece)
        await until(lambda: here.exchange.applied == {"A": 1})
        await inbox.out("batch", "A", 2, 2, 1, 1, bytes(9 << 20))
        with structlog.testing.capture_logs() as logged:
            nursery.start_soon(here.exchange.send)
            await until(lambda: here.exchange.unreadable == 1)
        assert [each["count"] for each in logged if "cannot be read" in each["event"]] == [1]
        nursery.cancel_scope.cancel()


def test_what_comes_with_a_new_plan_is_not_lost(tmp_path: Path) -> None:
    """A URL of the old plan, beside a batch that brings the new one, reaches the new owner."""

    async def run() -> None:
        async with gatherer(tmp_path / "s") as here, trio.open_nursery() as nursery:
            me = here.node.id
            await here.node.adopt(here.charter(1, me))
            await here.board.publish(here.charter(2, "B", me))
            inbox = here.board.inbox(me)
            old, new = (mail.pack_found([Found(each, 1)]) for each in (ONE, key("http://i.example/")))
            await inbox.out("batch", "A", 1, 1, 1, 1, msgpack.packb([old]))
            await inbox.out("batch", "Z", 1, 1, 1, 2, msgpack.packb([new]))
            for task in (here.hand_over.run, here.exchange.send, here.exchange.forget, here.exchange.receive):
                nursery.start_soon(task)
            got = await delivered(here, "B", 3)
            assert {each for kind, each in got if kind in ("row", "found")} == {ONE, key("http://i.example/")}
            assert ("mail", "end") in got
            assert here.node.holdings == Holdings()
            assert not here.node.store.counts().queued
            nursery.cancel_scope.cancel()

    trio.run(run)


def test_what_was_passed_into_a_lost_range_is_found_again(tmp_path: Path) -> None:
    async def run() -> None:
        async with gatherer(tmp_path / "s") as here, trio.open_nursery() as nursery:
            me = here.node.id
            await here.node.adopt(here.charter(1, "B"))
            own, passed = here.node.sorted_out([Found(ONE, 1)], always=False)
            assert (own, [each.to for each in passed]) == ([], ["B"])
            await here.node.crawl.commit(Batch(passed=passed))
            await here.node.adopt(here.charter(2, me, members={me: "me"}, lost=[("", None)], departed=["B"]))
            nursery.start_soon(here.hand_over.run)
            with trio.fail_after(60):
                while here.node.resend:
                    await here.node.changed.wait()
            assert here.node.store.get(ONE).state is State.QUEUED  # type: ignore[union-attr]
            assert all(box.first == box.next for box in here.node.store.outboxes().values())
            nursery.cancel_scope.cancel()

    trio.run(run)


def test_who_was_thought_lost_sends_everything_again(tmp_path: Path) -> None:
    """It has missed which ranges were lost meanwhile, so whatever it ever passed on may be among them."""

    async def run() -> None:
        async with gatherer(tmp_path / "s") as here, trio.open_nursery() as nursery:
            await here.node.adopt(here.charter(1, "A"))
            _, passed = here.node.sorted_out([Found(ONE, 1)], always=False)
            await here.node.crawl.commit(Batch(passed=passed))
            await here.node.crawl.commit(Batch(acked={"A": 1}))
            await here.node.adopt(here.charter(9, "B", members={"B": "B"}, departed=[here.node.id, "A"]))
            for task in (here.hand_over.run, here.exchange.send, here.exchange.forget):
                nursery.start_soon(task)
            assert await delivered(here, "B", 2) == [("found", ONE)]
            assert not here.node.resend
            nursery.cancel_scope.cancel()

    trio.run(run)


class TestWitnesses:
    """What a gatherer only has to know of, in case that its owner is lost."""

    async def _told(self, here: Gatherer, sender: str, number: int, epoch: int, found: Found) -> None:
        piece = mail.pack_known([found])
        batch = ("batch", sender, number, number, 1, epoch, msgpack.packb([piece]))
        await here.board.inbox(here.node.id).out(*batch)

    @pytest.mark.parametrize(("epoch", "is_sent"), [(2, False), (1, True)])
    def test_it_is_remembered(self, epoch: int, is_sent: bool, tmp_path: Path) -> None:
        """Told by one who follows an older plan, its owner may have been lost since, and has to be told."""

        async def run() -> None:
            async with gatherer(tmp_path / "s") as here, trio.open_nursery() as nursery:
                await here.node.adopt(here.charter(2, "B"))
                nursery.start_soon(here.exchange.receive)
                await self._told(here, "A", 1, epoch, Found(ONE, 3))
                with trio.fail_after(60):
                    await here.exchange.received.wait()
                row = here.node.store.get(ONE)
                assert row is not None
                assert (row.state, row.depth) == (State.PASSED, 3)
                assert bool(here.node.store.outboxes()) == is_sent
                nursery.cancel_scope.cancel()

        trio.run(run)

    def test_it_is_queued_by_its_owner(self, tmp_path: Path) -> None:
        async def run() -> None:
            async with gatherer(tmp_path / "s") as here, trio.open_nursery() as nursery:
                await here.node.adopt(here.charter(2, here.node.id))
                nursery.start_soon(here.exchange.receive)
                await self._told(here, "A", 1, 1, Found(ONE))
                with trio.fail_after(60):
                    await here.exchange.received.wait()
                assert here.node.store.counts().queued == 1
                nursery.cancel_scope.cancel()

        trio.run(run)

    def test_another_is_told_when_one_is_gone(self, tmp_path: Path) -> None:
        async def run() -> None:
            async with gatherer(tmp_path / "s") as here, trio.open_nursery() as nursery:
                await here.node.adopt(here.charter(1, "B"))
                told = here.node.witnesses([Found(ONE)])
                assert [to for to, _ in told] == ["A"]
                await here.node.crawl.commit(Batch(told=told))
                members = {here.node.id: "me", "B": "B", "C": "C"}
                await here.node.adopt(here.charter(2, "B", members=members, departed=["A"]))
                for task in (here.hand_over.run, here.exchange.send):
                    nursery.start_soon(task)
                assert await delivered(here, "C", 2) == [("known", ONE)]
                nursery.cancel_scope.cancel()

        trio.run(run)

    def test_there_is_none_without_a_third(self, tmp_path: Path) -> None:
        async def run() -> None:
            async with gatherer(tmp_path / "s") as here:
                assert here.node.witnesses([Found(ONE)]) == []
                await here.node.adopt(here.charter(1, "B", members={here.node.id: "me", "B": "B"}))
                assert here.node.witnesses([Found(ONE)]) == []

        trio.run(run)

    def test_all_is_told_before_leaving(self, tmp_path: Path) -> None:
        """A gatherer that was drained says that it has left when others have what it had passed on."""

        async def run() -> None:
            async with gatherer(tmp_path / "s") as here, trio.open_nursery() as nursery:
                await here.node.adopt(here.charter(1, "B"))
                _, passed = here.node.sorted_out([Found(ONE)], always=False)
                await here.node.crawl.commit(Batch(passed=passed))
                await here.node.crawl.commit(Batch(acked={"B": 1}))
                await here.node.drain()
                await here.node.adopt(here.charter(2, "B", members={"A": "A", "B": "B"}))
                for other in ("A", "B"):
                    await here.board.beat(other, 1, Pulse(other, "x", epoch=2))
                for task in (here.hand_over.run, here.exchange.send, here.exchange.forget):
                    nursery.start_soon(task)
                left = []
                for told in ([("known", ONE)], []):
                    await here.membership._look_around()
                    left.append(here.node.has_left)
                    assert await delivered(here, "A", 1) == told
                assert left == [False, True]
                nursery.cancel_scope.cancel()

        trio.run(run)


def test_pages_of_one_whose_disk_is_lost_are_fetched_again(tmp_path: Path) -> None:
    """Those that came from it, or through another, and had been fetched by then; of one that left, none."""
    old, new, other, left = (key(f"http://{name}.example/") for name in ("old", "new", "other", "left"))

    def done(each: str, at: float) -> Finished:
        return Finished(key=each, state=State.DONE, status=200, at=at, attempts=1)

    async def run() -> None:
        async with gatherer(tmp_path / "s") as here, trio.open_nursery() as nursery:
            me, now = here.node.id, here.node.clock()
            await here.node.adopt(here.charter(1, me))
            through_b = [Origin("Z", *part(other), now - 100)]
            for sender, each, came in (("A", old, []), ("B", other, through_b), ("C", left, [])):
                ends: list[tuple[str, Range]] = [(sender, part(each))]
                received = Received(Batch(), ends, came)
                await here.node.take_in(deque([received]).popleft)
            before = [done(each, now - 200) for each in (old, other, left)]
            await here.node.crawl.commit(Batch(finished=[*before, done(new, now + 100)]))
            members = {me: "me", "B": "B"}
            gone = {"departed": ["A", "C", "Z"], "destroyed": {"A": 2, "Z": 2}}
            await here.node.adopt(here.charter(2, me, me, members=members, **gone))
            assert not here.node.is_quiet()
            nursery.start_soon(here.hand_over.run)
            with trio.fail_after(60):
                while any(here.node.refetch):
                    await here.node.changed.wait()
            rows = {each: here.node.store.get(each) for each in (old, other, left, new)}
            again = {each for each, row in rows.items() if row and row.state is State.QUEUED}
            assert again == {old, other}
            assert {each.gatherer for each in here.node.origins} == {"B", "C"}
            nursery.cancel_scope.cancel()

    trio.run(run)


def test_whose_pages_a_range_has_is_said_with_it(tmp_path: Path) -> None:
    async def run() -> None:
        async with gatherer(tmp_path / "s") as here, trio.open_nursery() as nursery:
            me = here.node.id
            await here.node.adopt(here.charter(1, me, "A"))
            await here.node.take_in(lambda: Received(ends=[("A", ("", None))]))
            await here.node.adopt(here.charter(2, "B", me))
            for task in (here.hand_over.run, here.exchange.send):
                nursery.start_soon(task)
            assert await delivered(here, "B", 1) == [("mail", "origins"), ("mail", "end")]
            nursery.cancel_scope.cancel()

    trio.run(run)


@pytest.mark.parametrize("is_whole", [True, False])
def test_pages_that_came_just_before_a_kill_are_visited_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_whole: bool
) -> None:
    """What came without a memory is in the timetable after the next start, also if its sender was lost."""

    async def rest(_: Upkeep) -> None:
        await trio.sleep_forever()

    async def run() -> None:
        done = Finished(key=ONE, state=State.DONE, status=200, at=1.0, attempts=1)
        with monkeypatch.context() as killed:
            killed.setattr(Upkeep, "run", rest)
            async with gatherer(tmp_path / "s", revisit={"policy": "uniform"}) as here:
                me = here.node.id
                await here.node.crawl.commit(Batch(meta={ADOPTED: b"yes"}))
                await here.node.adopt(here.charter(1, me, "A"))
                ends: list[tuple[str, Range]] = [("A", ("", None))] if is_whole else []
                received = Received(Batch(finished=[done]), ends, [])
                await here.node.take_in(deque([received]).popleft)
                gone = {} if is_whole else {"departed": ["A"], "destroyed": {"A": 2}}
                await here.node.adopt(here.charter(2, me, me, members={me: "me", "B": "B"}, **gone))
                assert not here.node.store.visits
        async with gatherer(tmp_path / "s", revisit={"policy": "uniform"}) as here:
            await until(lambda: here.node.store.visits == 1)

    trio.run(run)


def test_a_receiver_that_is_lost_holds_up_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hand-over that waits for room in the outbox of one that is lost goes to another."""
    monkeypatch.setattr(handover, "UNSENT_BYTES", 0)
    monkeypatch.setattr(handover, "ROWS_AT_ONCE", 1)

    async def run() -> None:
        async with gatherer(tmp_path / "s") as here, trio.open_nursery() as nursery:
            me = here.node.id
            await here.node.adopt(here.charter(1, me))
            await here.node.crawl.commit(Batch(found=[Found(ONE)]))
            await here.node.adopt(here.charter(2, "A", me))
            for task in (here.hand_over.run, here.exchange.send, here.exchange.forget):
                nursery.start_soon(task)
            await trio.sleep(0.3)
            assert here.node.store.outboxes()["A"].entries == 1
            await here.node.adopt(here.charter(3, "B", me, members={"B": "B"}, departed=["A"]))
            assert ("row", ONE) in await delivered(here, "B", 2)
            nursery.cancel_scope.cancel()

    trio.run(run)


def test_a_piece_that_cannot_be_sent_holds_up_no_other(tmp_path: Path) -> None:
    async def run() -> None:
        async with gatherer(tmp_path / "s") as here, trio.open_nursery() as nursery:
            await here.node.adopt(here.charter(1, "B"))
            await here.node.crawl.commit(
                Batch(mail=[("A", bytes(2 << 20)), ("B", msgpack.packb(["end", "", None]))])
            )
            nursery.start_soon(here.exchange.send)
            assert await delivered(here, "B", 2) == [("mail", "end")]
            nursery.cancel_scope.cancel()

    trio.run(run)


def test_long_urls_are_sent_in_pieces_that_fit(tmp_path: Path) -> None:
    async def run() -> None:
        async with gatherer(tmp_path / "s") as here:
            await here.node.adopt(here.charter(1, "B"))
            found = [Found(key(f"http://h.example/{number}{'x' * 1000}"), 1) for number in range(2000)]
            _, passed = here.node.sorted_out(found, always=False)
            await here.node.crawl.commit(Batch(passed=passed))
            box = here.node.store.outboxes()["B"]
            assert box.entries == 2000
            assert box.next - box.first > 5

    trio.run(run)


@pytest.mark.parametrize("silent_s", [0, 500])
def test_silence_counts_over_a_restart(silent_s: float, tmp_path: Path) -> None:
    async def run() -> None:
        async with gatherer(tmp_path / "s") as here:
            await here.node.adopt(here.charter(1, here.node.id))
            heard = f"{here.node.clock() - silent_s:.0f}".encode()
            await here.node.crawl.commit(Batch(meta={HEARD: heard}))
        async with gatherer(tmp_path / "s") as again:
            again.node.rulings = Rulings()
            assert again.node.may_begin() == (silent_s == 0)

    trio.run(run)


def test_who_has_left_gets_nothing(tmp_path: Path) -> None:
    """Though it had reported before; and it is not among those whose disks are lost."""

    async def run() -> None:
        async with gatherer(tmp_path / "s") as here:
            me = here.node.id
            await here.node.adopt(here.charter(1, me, members={me: "me", "L": "L"}))
            leader = Leader(here.node, here.board, here.membership, here.exchange)
            own = Account.from_bytes(await leader.account())
            theirs = Account(replace(own.report, gatherer="A"), [], 0)
            members = {
                me: Member(me, 1, Pulse("me", "x", epoch=1), 0.0),
                "A": Member("A", 1, Pulse("A", "x", epoch=1, standing="left"), 0.0),
            }
            charter = leader._planned(2, [], {me: own, "A": theirs}, members, {"A", "L"})
            assert charter.members == {me: "me"}
            assert {owner for _, owner in charter.owners} == {me}
            assert (charter.departed, charter.destroyed) == (["A", "L"], {"L": 2})

    trio.run(run)


def test_a_wish_that_was_granted_already_makes_no_plan(tmp_path: Path) -> None:
    """Of a wish to join, nothing is left when all that are there have joined."""

    async def run() -> None:
        soon = {"deadline_s": 0.1}
        async with gatherer(tmp_path / "s", rebalance=soon) as here, trio.open_nursery() as nursery:
            me = here.node.id
            await here.node.adopt(here.charter(1, me, members={me: "me"}))
            nursery.start_soon(here.membership.run)
            leader = Leader(here.node, here.board, here.membership, here.exchange)
            nursery.start_soon(leader.run)
            wishes = partial(here.board.space.count, "rebalance", str, str, str)
            await here.board.ask_for_plan("join", "somebody")
            with trio.fail_after(60):
                while (await here.board.space.statistics()).leased or await wishes():
                    await here.membership.looked.wait()
            assert here.node.epoch == 1
            await here.board.beat("N", 1, Pulse("N", "x"))
            await here.board.ask_for_plan("join", "N")
            with trio.fail_after(60):
                while here.node.epoch == 1:
                    await here.node.changed.wait()
            nursery.cancel_scope.cancel()

    trio.run(run)


@pytest.mark.parametrize(("reason", "is_made"), [("imbalance", False), (reasons.OPERATOR, True)])
def test_who_is_elected_after_another_leader_lets_its_plan_rest(
    reason: str, is_made: bool, tmp_path: Path
) -> None:
    """It was due when it stood for election, and is not any more, unless it is for what does not wait."""

    async def run() -> None:
        soon = {"deadline_s": 0.1, "cooldown_s": 60.0}
        charters: list[Charter | None] = []
        async with gatherer(tmp_path / "s", rebalance=soon) as here, trio.open_nursery() as nursery:
            me = here.node.id
            nursery.start_soon(here.membership.run)
            leader = Leader(here.node, here.board, here.membership, here.exchange)

            async def lead() -> None:
                charters.append(await leader.lead([Wish(reason, "me")]))
                nursery.cancel_scope.cancel()

            async with election(here.board.space, boards.LEADER) as other:
                nursery.start_soon(lead)
                made = Made(other.token, 0.0, "join", 1, 1, 1)
                charter = here.charter(other.token, me, members={me: "me"}, history=[made])
                await here.board.publish(charter)
                await here.node.adopt(charter)
                with trio.fail_after(60):
                    while not (here.membership.members and here.membership.is_settled()):
                        await here.membership.looked.wait()
        assert [each is not None for each in charters] == [is_made]

    trio.run(run)


def test_all_have_met_a_server_when_each_that_may_rely_on_leases_says_so(tmp_path: Path) -> None:
    """Also one that nobody has heard of, if a plan counts on it; not those that have left or were lost."""

    async def run() -> None:
        async with gatherer(tmp_path / "s") as here:
            me, starts = here.node.id, [7]

            async def meet() -> int:
                return starts[-1]

            here.membership._meet = meet
            members = {me: "me", "A": "A"}
            await here.node.adopt(here.charter(1, me, members=members, departed=["L"]))
            await here.board.beat("L", 1, Pulse("L", "x", epoch=1))
            await here.board.beat("G", 1, Pulse("G", "x", epoch=1, standing="left"))
            await here.membership._look_around()
            await trio.sleep(0.2)
            await here.membership._look_around()
            assert not here.membership.have_met(7, 5.0)
            await here.board.beat("A", 1, Pulse("A", "x", epoch=1, met=6))
            await here.membership._look_around()
            assert not here.membership.have_met(7, 5.0)
            await here.board.beat("A", 2, Pulse("A", "x", epoch=1, met=7))
            await here.membership._look_around()
            assert here.membership.have_met(7, 5.0)
            assert not here.membership.have_met(6, 5.0)
            starts.append(8)
            await here.membership._look_around()
            assert not here.membership.have_met(7, 5.0)
            await here.board.beat("A", 3, Pulse("A", "x", epoch=1, met=8))
            await here.membership._look_around()
            assert not here.membership.have_met(8, 5.0)  # somebody may be there who has not said so yet
            await trio.sleep(0.2)
            assert not here.membership.have_met(8, 5.0)
            await here.membership._look_around()
            assert here.membership.have_met(8, 5.0)
            assert not here.membership.have_met(
                8, 1e6
            )  # the lost one may have a lease that lasts for so long
            await here.board.beat("L", 2, Pulse("L", "x", epoch=1))
            await here.membership._look_around()
            assert not here.membership.have_met(8, 5.0)  # it was not lost

    trio.run(run)


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ([{"queued": 0, "rate": 0.0, "remaining_s": 0.0}], "imbalance"),
        ([{"queued": 0, "rate": 1.0, "remaining_s": 0.0}, {"queued": 30, "rate": 0.0}], "imbalance"),
        ([{"queued": 30, "rate": 0.0, "remaining_s": 0.0}], ""),
        ([{"queued": 30, "rate": 0.5, "remaining_s": 60.0}, {"queued": 30, "rate": 0.0}], ""),
    ],
    ids=[
        "nothing left",
        "nothing left, and one that waits",
        "one that waits",
        "much left, and one that waits",
    ],
)
def test_who_has_fetched_nothing_yet_cannot_say_how_long_it_needs(
    others: list[dict[str, float]], expected: str, tmp_path: Path
) -> None:
    """One that has something left and waits for its hosts is no sign that the others have too much."""

    async def run() -> None:
        async with gatherer(tmp_path / "s") as here:
            here.membership._facts = lambda: {"queued": 60, "rate": 1.0, "remaining_s": 60.0}  # type: ignore[method-assign,typeddict-item]
            await here.node.adopt(here.charter(1, here.node.id))
            for number, facts in enumerate(others):
                await here.board.beat(f"A{number}", 1, Pulse("A", "x", epoch=1, facts=facts))
            await here.membership._look_around()
            assert here.membership._uneven() == expected

    trio.run(run)


def test_the_end_of_a_round_waits_for_room_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is written when there is room again; who is interrupted meanwhile says that it was not."""

    async def run() -> None:
        async with gatherer(tmp_path / "s") as here:
            crawl, commit, tried = here.node.crawl, here.node.store.commit, 0

            def full(*given: Any, **more: Any) -> Any:
                nonlocal tried
                tried += 1
                if tried % 3:
                    raise DiskFull("full")
                return commit(*given, **more)

            monkeypatch.setattr(crawl_module, "FULL_DISK_PAUSE_S", 0.01)
            monkeypatch.setattr(here.node.store, "commit", full)
            assert not await crawl._write_last({"x": b"1"}, waits=False)
            assert tried == 1
            assert await crawl._write_last({"x": b"1"}, waits=True)
            assert (tried, crawl.writer.waits_for_room) == (3, False)
            assert here.node.store.get_meta("x") == b"1"
            crawl._interrupted = True
            assert not await crawl._write_last({"x": b"2"}, waits=True)
            assert tried == 4
            monkeypatch.undo()

    trio.run(run)


def test_a_round_that_has_ended_elsewhere_is_not_joined(tmp_path: Path) -> None:
    """One that waits for room to write down that it has ended still says when it began."""

    async def run() -> None:
        async with gatherer(tmp_path / "s", revisit={"once": True}) as here:
            assert here.node.crawl.round_at is not None
            began: list[float] = []
            here.node.crawl.round_began = began.append  # type: ignore[method-assign,assignment]
            for beat in (1, 2):
                ended = Pulse("A", "x", ended=True, facts={"round_at": 5.0})
                await here.board.beat("A", beat, ended)
                await here.board.beat("B", beat, Pulse("B", "x", facts={"round_at": 7.0}))
                await here.membership._look_around()
            assert began[-1] == 7.0

    trio.run(run)


async def leader_of_two(here: Gatherer, nursery: trio.Nursery) -> Leader:
    """One that may lead: it and A follow the plan of epoch 1, and it has heard so."""
    me = here.node.id
    members = {me: "me", "A": "A"}
    await here.node.adopt(here.charter(1, me, members=members))
    await here.board.beat("A", 1, Pulse("A", "x", epoch=1))
    nursery.start_soon(here.membership.run)
    while not (here.membership.members.keys() == members.keys() and here.membership.is_settled()):
        await here.membership.looked.wait()
    return Leader(here.node, here.board, here.membership, here.exchange)


def test_a_plan_that_redis_has_lost_is_not_replaced(tmp_path: Path) -> None:
    """Who leads by an older one sees from heartbeats that there is a newer one, and publishes nothing."""

    async def run() -> None:
        async with (
            gatherer(tmp_path / "s", member={"heartbeat_s": 0.3}, rebalance={"deadline_s": 2.0}) as here,
            trio.open_nursery() as nursery,
        ):
            leader = await leader_of_two(here, nursery)

            async def follow_the_lost_one() -> None:
                while boards.CALL not in await here.board.now():
                    await here.membership.looked.wait()
                await here.board.beat("A", 2, Pulse("A", "x", epoch=2))

            nursery.start_soon(follow_the_lost_one)
            with trio.fail_after(60):
                assert await leader.lead([Wish("operator", "somebody")]) is None
            assert here.node.epoch == 1
            assert (await here.board.now()).get(boards.CHARTER, (0, b""))[0] <= 1
            nursery.cancel_scope.cancel()

    trio.run(run)


def test_no_plan_before_all_are_heard_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After Redis was away, a heartbeat that stood there before says nothing, nor does an older one."""

    async def run() -> None:
        async with gatherer(tmp_path / "s") as here, trio.open_nursery() as nursery:
            membership = here.membership
            await here.board.beat("A", 7, Pulse("A", "x"))
            nursery.start_soon(membership.run)
            await membership.looked.wait()
            assert membership.is_settled()
            with monkeypatch.context() as away:
                away.setattr(here.board, "beat", AsyncMock(side_effect=Unavailable("away")))
                while membership.is_within_reach:  # noqa: ASYNC110 - nobody tells of it
                    await trio.sleep(0.01)
            for beat, is_heard in ((7, False), (6, False), (7, True)):
                await here.board.beat("A", beat, Pulse("A", "x"))
                await membership.looked.wait()
                await membership.looked.wait()
                assert membership.is_settled() is is_heard
            nursery.cancel_scope.cancel()

    trio.run(run)


@pytest.mark.parametrize(
    ("first", "later"),
    [
        (Tenure(9.0, from_nothing=True, start=5), Tenure(1.0, from_nothing=True, start=7)),
        (Tenure(0.0, from_nothing=False, start=7), Tenure(1.0, from_nothing=False, start=7)),
    ],
)
def test_no_plan_before_all_know_of_a_start_of_redis(
    first: Tenure, later: Tenure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Redis may have lost a plan unnoticed; a heartbeat that was made before may be written after that."""

    async def run() -> None:
        async with gatherer(tmp_path / "s") as here:
            membership, beats = here.membership, count(1)

            async def look(tenure: Tenure, **said: Any) -> bool:
                monkeypatch.setattr(here.board.space, "tenure", AsyncMock(return_value=tenure))
                for _ in range(2):
                    await here.board.beat("A", next(beats), Pulse("A", "x", **said))
                    await membership._look_around()
                return membership.is_settled()

            assert await look(first, board_start=first.start)
            assert not await look(later, board_start=3)
            assert await look(later, board_start=7)
            assert not await look(later, board_start=7, heading=1)
            assert await look(later)  # of an earlier version
            assert membership.pulse().board_start == 7

    trio.run(run)


def test_a_plan_waits_for_nobody_who_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not for one that had seen the end, nor for one of which there was never more than one heartbeat."""

    async def run() -> None:
        async with gatherer(tmp_path / "s") as here:
            me = here.node.id
            await here.node.adopt(here.charter(1, me, members={me: "me", "A": "A"}))
            tenure = Tenure(1.0, from_nothing=False, start=7)
            monkeypatch.setattr(here.board.space, "tenure", AsyncMock(return_value=tenure))
            ended = Pulse("A", "x", epoch=1, quiet=True, ended=True, board_start=5)
            await here.board.beat("A", 1, ended)
            await here.board.beat("B", 1, Pulse("B", "x", board_start=5))
            for _ in range(2):
                await here.membership._look_around()
            assert not here.membership.is_settled()
            with trio.fail_after(60):
                while len(here.membership.alive()) > 1:
                    await here.membership._look_around()
            await here.membership._look_around()
            assert here.membership.is_settled()

    trio.run(run)


@pytest.mark.parametrize("heading", [0, 1, 2])
def test_a_plan_that_somebody_reports_to_follow_is_not_replaced(heading: int, tmp_path: Path) -> None:
    """Though no heartbeat says so yet; one that does not follow the last one yet stands in nobody's way."""

    async def run() -> None:
        async with (
            gatherer(tmp_path / "s", rebalance={"deadline_s": 5.0}) as here,
            trio.open_nursery() as nursery,
        ):
            leader = await leader_of_two(here, nursery)

            async def report() -> None:
                own = Account.from_bytes(await leader.account())
                while boards.CALL not in (now := await here.board.now()):
                    await here.membership.looked.wait()
                theirs = Account(replace(own.report, gatherer="A"), [], heading)
                await here.board.report(now[boards.CALL][0], "A", theirs.to_bytes())

            nursery.start_soon(report)
            with trio.fail_after(60):
                made = await leader.lead([Wish("operator", "somebody")])
            assert (made is None) == (heading == 2)
            nursery.cancel_scope.cancel()

    trio.run(run)


def test_who_is_about_to_follow_a_plan_says_so(tmp_path: Path) -> None:
    """What it holds by the one before may not be so for long."""

    async def run() -> None:
        async with gatherer(tmp_path / "s") as here:
            leader = Leader(here.node, here.board, here.membership, here.exchange)

            async def said() -> tuple[int, int]:
                return Account.from_bytes(await leader.account()).heading, here.membership.pulse().heading

            assert await said() == (0, 0)
            await here.node.adopt(here.charter(3, here.node.id))
            assert await said() == (3, 3)
            with here.node.deciding(2), here.node.deciding(4):
                assert await said() == (4, 4)
            assert await said() == (3, 3)

    trio.run(run)


def test_a_lost_plan_does_not_hold_up_the_heartbeat(tmp_path: Path) -> None:
    """Who has it beats, and answers, while another one leads; and puts it up when that one does not."""

    async def run() -> None:
        async with gatherer(tmp_path / "s") as here, trio.open_nursery() as nursery:
            await here.node.adopt(here.charter(1, here.node.id))
            answered: list[int] = []
            here.membership._answer = answered.append
            async with election(here.board.space, boards.LEADER) as other:
                nursery.start_soon(here.membership.run)
                nursery.start_soon(here.membership.remind)
                # Less than what is waited for an election.
                with trio.fail_after(membership._ELECTION_S / 2):
                    await here.membership.looked.wait()
                    await here.board.put_up(boards.CALL, other.token, b"", fence=other.fence)
                    while not answered:
                        await here.membership.looked.wait()
                assert answered == [other.token]
                assert boards.CHARTER not in await here.board.now()
            with trio.fail_after(60):
                while boards.CHARTER not in await here.board.now():
                    await here.membership.looked.wait()
            assert (await here.board.now())[boards.CHARTER][0] == 1
            nursery.cancel_scope.cancel()

    trio.run(run)


def test_who_starts_with_full_outboxes_begins_nothing(tmp_path: Path) -> None:
    """It need not have sent anything before it knows, as it could not without Redis."""

    async def run() -> None:
        small = {"outbox_bytes": 1 << 10}
        async with gatherer(tmp_path / "s", exchange=small) as here:
            await here.node.adopt(here.charter(1, "A"))
            names = Random(1)
            found = [Found(key(f"http://h.example/{names.randbytes(40).hex()}")) for _ in range(100)]
            own, passed = here.node.route(found)
            assert not own
            await here.node.crawl.commit(Batch(passed=passed))
        async with gatherer(tmp_path / "s", exchange=small) as here:
            assert here.node.outbox_is_full
            assert not here.node.may_begin()

    trio.run(run)


@pytest.mark.parametrize("event", ["held>=1", "held>1"])
def test_an_event_of_the_configuration(event: str, tmp_path: Path) -> None:
    """When a number passes its limit that is a reason for a new plan; all numbers have names for that."""

    async def run() -> None:
        settings = {"cooldown_s": 0.0, "when": (event,)}
        async with gatherer(tmp_path / "s", rebalance=settings) as here, trio.open_nursery() as nursery:
            me = here.node.id
            await here.node.adopt(here.charter(1, me, me, members={me: "me"}))
            assert here.node.holdings.is_settled
            facts = here.membership.pulse().facts
            numbers = [
                name for name, value in facts.items() if value is None or isinstance(value, int | float)
            ]
            assert sorted(numbers) == sorted(STATISTICS)
            nursery.start_soon(here.membership.run)
            for _ in range(5):
                await here.membership.looked.wait()
            wish = await here.board.space.inp("rebalance", str, str, str)
            assert (wish and wish[1]) == (event if event == "held>=1" else None)
            nursery.cancel_scope.cancel()

    trio.run(run)


def test_a_host_that_is_blocked_is_asked_for_nothing(tmp_path: Path) -> None:
    """Not even for its robots.txt; what is queued of it is dropped."""

    async def answer(peer: scripted.Peer) -> None:
        while await peer.request():
            await peer.send(scripted.ok(b""))

    async def run() -> None:
        fetch = {"allow": scripted.LOOPBACK}
        async with scripted.serve(answer) as there, gatherer(tmp_path / "s", fetch=fetch) as here:
            blocked, other = key(f"{there.origin}/page"), key(f"http://localhost:{there.port}/page")
            here.node.rulings = Rulings().bar(host_of(blocked) + PATH, 1)
            await here.node.adopt(here.charter(1, here.node.id))
            here.node.heard(trio.current_time(), trio.current_time(), 60.0, is_called=False)
            await here.node.crawl.commit(Batch(found=[Found(blocked), Found(other)]))
            with trio.fail_after(60):
                while here.node.store.counts().queued:  # noqa: ASYNC110 - nothing says so
                    await trio.sleep(0.02)
            row = here.node.store.get(blocked)
            assert row is not None
            assert (row.state, row.reason) == (State.DROPPED, "blocked")
            assert {request.split()[1] for request in there.requests} == {b"/robots.txt", b"/page"}
            assert len(there.requests) == 2

    trio.run(run)


class TestEnd:
    """The end is declared, and believed, only when it is true."""

    @pytest.fixture(autouse=True)
    def _forgets_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(membership, "_KEPT_S", 0.0)

    @pytest.mark.parametrize("private", [True, False])
    def test_nobody_goes_before_redis_has_kept_that_it_does(
        self, private: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Else it would be thought lost. A server that nobody outlives cannot forget too much."""
        monkeypatch.setattr(membership, "_KEPT_S", 0.5)

        async def run() -> None:
            settings = {"heartbeat_s": 5.0, "leave_when_finished": True}
            async with gatherer(tmp_path / "s", member=settings) as here:
                if private:
                    await say_private(here.board.turns)
                await self._declared(here, ended=True)
                await self._looks(here, 2)
                assert here.node.is_over() is private
                await trio.sleep(0.5)
                await self._looks(here, 1)
                assert here.node.is_over()

        trio.run(run)

    async def _looks(self, here: Gatherer, count: int) -> None:
        for _ in range(count):
            await here.membership._look_around()

    def test_alone_and_quiet(self, tmp_path: Path) -> None:
        async def run() -> None:
            async with gatherer(tmp_path / "s") as here, trio.open_nursery() as nursery:
                await self._done(here)
                nursery.start_soon(here.membership.conclude)
                with trio.fail_after(60):
                    while not here.node.finished:
                        await self._looks(here, 1)
                        await trio.sleep(0.01)
                nursery.cancel_scope.cancel()

        trio.run(run)

    def test_not_while_a_seed_waits(self, tmp_path: Path) -> None:
        async def run() -> None:
            async with gatherer(tmp_path / "s") as here, trio.open_nursery() as nursery:
                await self._done(here)
                await here.board.seed(["http://h.example/"])
                nursery.start_soon(here.membership.conclude)
                for _ in range(30):
                    await self._looks(here, 1)
                    await trio.sleep(0.01)
                assert boards.FINISHED not in await here.board.now()
                nursery.cancel_scope.cancel()

        trio.run(run)

    def test_not_while_a_lost_member_owns_something(self, tmp_path: Path) -> None:
        async def run() -> None:
            impatient = {"heartbeat_s": 0.05, "forget_after_s": 0.01}
            async with (
                gatherer(tmp_path / "s", member=impatient) as here,
                trio.open_nursery() as nursery,
            ):
                await self._done(here, {"A": "A"})
                await here.board.beat("A", 1, Pulse("A", "x", epoch=1))
                nursery.start_soon(here.membership.conclude)
                for _ in range(30):
                    await self._looks(here, 1)
                    await trio.sleep(0.01)
                assert "A" in here.membership.lost()
                assert boards.FINISHED not in await here.board.now()
                nursery.cancel_scope.cancel()

        trio.run(run)

    @pytest.mark.parametrize("ended", [True, False])
    def test_started_again_when_the_others_have_gone(self, ended: bool, tmp_path: Path) -> None:
        """Who was killed at the end sees it when all the others have, and not before."""

        async def run() -> None:
            async with gatherer(tmp_path / "s") as here:
                await self._done(here, {"A": "A"})
                await here.board.beat("A", 1, Pulse("A", "x", epoch=1, quiet=True, ended=ended, activity=2))
                quiet = msgpack.packb({here.node.id: ("before", 7), "A": ("x", 2)})
                await here.board.put_up(boards.FINISHED, 5, quiet)
                await self._gone(here, "A")
                await self._looks(here, 1)
                assert here.node.finished is ended

        trio.run(run)

    async def _gone(self, here: Gatherer, member: str) -> None:
        """Look around until one is known to be gone."""
        with trio.fail_after(20):
            await self._looks(here, 1)
            while any(each.id == member for each in here.membership.alive()):
                await trio.sleep(0.05)
                await self._looks(here, 1)

    def test_all_are_started_again(self, tmp_path: Path) -> None:
        """Who has nothing to do believes no end that the others spoke of before they were started again."""

        async def run() -> None:
            async with gatherer(tmp_path / "s") as here:
                await self._done(here, {"A": "A"})
                await here.board.beat("A", 1, Pulse("A", "x", epoch=1, quiet=True, ended=True, activity=2))
                quiet = msgpack.packb({here.node.id: ("before", 7), "A": ("x", 2)})
                await here.board.put_up(boards.FINISHED, 5, quiet)
                await self._looks(here, 4)
                assert not here.node.finished
                await here.board.beat("A", 2, Pulse("A", "y", epoch=1))
                await self._looks(here, 4)
                assert not here.node.finished

        trio.run(run)

    @pytest.mark.parametrize("wanted", [False, True])
    def test_one_is_not_started_again(self, wanted: bool, tmp_path: Path) -> None:
        """The end is proven without one that has seen it before; missed only if something is for it."""

        async def run() -> None:
            settings = {"heartbeat_s": 0.05, "forget_after_s": 0.3, "leave_when_finished": True}
            soon = {"deadline_s": 0.1}
            async with (
                gatherer(tmp_path / "s", member=settings, rebalance=soon) as here,
                trio.open_nursery() as nursery,
            ):
                await self._done(here, {"A": "A", "~": "B"})
                await here.board.beat("A", 1, Pulse("A", "x", epoch=1, quiet=True, ended=True, activity=2))
                await here.board.put_up(boards.FINISHED, 5, msgpack.packb({"A": ("x", 2), "~": ("x", 2)}))
                nursery.start_soon(here.membership.conclude)
                pulse = Pulse("B", "y", epoch=1, quiet=not wanted, pending={"A": 1} if wanted else {})
                number = 0
                with trio.fail_after(20):
                    while (await here.board.now())[boards.FINISHED][0] == 5 and not here.membership.missing():
                        number += 1
                        await here.board.beat("~", number, pulse)
                        await self._looks(here, 1)
                        await trio.sleep(0.02)
                assert here.membership.missing() == ({"A"} if wanted else set())
                if wanted:
                    leader = Leader(here.node, here.board, here.membership, here.exchange)
                    charter = await leader.lead([Wish("lost", "me")])
                    assert charter is not None
                    assert "A" in charter.destroyed
                nursery.cancel_scope.cancel()

        trio.run(run)

    @pytest.mark.parametrize("restarted", [True, False])
    def test_one_is_killed_before_all_have_seen_it(self, restarted: bool, tmp_path: Path) -> None:
        """If it is started again, the end is proven anew; if it is lost, a plan is made without it."""

        async def run() -> None:
            settings = {"heartbeat_s": 0.05, "forget_after_s": 0.3, "leave_when_finished": True}
            async with gatherer(tmp_path / "s", member=settings) as here, trio.open_nursery() as nursery:
                other = "~"  # after the id of any store, so that the end is proven here
                await self._done(here, {other: "B"})
                nursery.start_soon(here.membership.conclude)

                async def told(number: int, incarnation: str) -> int:
                    pulse = Pulse("B", incarnation, epoch=1, quiet=True, activity=2)
                    await here.board.beat(other, number, pulse)
                    await self._looks(here, 1)
                    await trio.sleep(0.01)
                    return (await here.board.now()).get(boards.FINISHED, (0, b""))[0]

                number = 1
                with trio.fail_after(60):
                    while not (first := await told(number, "one")):
                        number += 1
                await self._looks(here, 1)
                if restarted:
                    with trio.fail_after(60):
                        while not here.node.finished:
                            number += 1
                            await told(number, "two")
                    assert (await here.board.now())[boards.FINISHED][0] > first
                else:
                    with trio.fail_after(60):
                        while not here.membership.missing():
                            await self._looks(here, 1)
                            await trio.sleep(0.02)
                    leader = Leader(here.node, here.board, here.membership, here.exchange)
                    charter = await leader.lead([Wish("lost", "me")])
                    assert charter is not None
                    assert charter.destroyed.keys() == {other}
                nursery.cancel_scope.cancel()

        trio.run(run)

    def test_coming_when_all_have_gone(self, tmp_path: Path) -> None:
        """Who comes to a crawl that has ended, and that nobody is left of, sees that."""

        async def run() -> None:
            async with gatherer(tmp_path / "s") as here:
                await here.board.beat("A", 1, Pulse("A", "x", epoch=1, quiet=True, activity=2))
                await here.board.put_up(boards.FINISHED, 5, msgpack.packb({"A": ("x", 2)}))
                await self._looks(here, 3)
                assert not here.node.finished
                await here.board.beat("A", 2, Pulse("A", "x", epoch=1, quiet=True, ended=True, activity=2))
                await self._looks(here, 3)
                assert here.node.finished  # it was heard to say so

        trio.run(run)

    @pytest.mark.parametrize("leaves", [True, False])
    def test_no_plan_after_it(self, leaves: bool, tmp_path: Path) -> None:
        """Those who go when it is over could not follow one; those who stay can."""

        async def run() -> None:
            settings, soon = {"heartbeat_s": 0.05, "leave_when_finished": leaves}, {"deadline_s": 0.1}
            async with gatherer(tmp_path / "s", member=settings, rebalance=soon) as here:
                await self._done(here, {"A": "A"})
                await here.board.beat("A", 1, Pulse("A", "x", epoch=1, quiet=True, ended=True))
                await self._looks(here, 1)
                await here.board.put_up(boards.FINISHED, 5, b"")
                leader = Leader(here.node, here.board, here.membership, here.exchange)
                charter = await leader.lead([Wish(OPERATOR, "me")])
                assert (charter is None) is leaves

        trio.run(run)

    def test_before_others_have_seen_it_only_a_plan_that_is_needed_is_made(self, tmp_path: Path) -> None:
        """And none by the time that one of them says that it goes, though it did not when the round began."""

        async def run() -> None:
            settings, soon = {"heartbeat_s": 5.0, "leave_when_finished": True}, {"deadline_s": 0.1}
            async with gatherer(tmp_path / "s", member=settings, rebalance=soon) as here:
                await self._done(here, {"A": "A"})
                await here.board.beat("A", 1, Pulse("A", "x", epoch=1, quiet=True))
                await here.board.beat("N", 1, Pulse("N", "x"))
                await self._looks(here, 1)
                await here.board.put_up(boards.FINISHED, 5, b"")
                leader = Leader(here.node, here.board, here.membership, here.exchange)
                assert await leader.lead([Wish("imbalance", "me")]) is None
                await here.board.beat("A", 2, Pulse("A", "x", epoch=1, quiet=True, ended=True))
                assert await leader.lead([Wish("join", "N")]) is None
                token, said = (await here.board.now())[boards.CALL]
                assert token > 5
                assert said == boards.OVER  # those who have seen the call may go
                await here.board.beat("A", 3, Pulse("A", "x", epoch=1, quiet=True))
                assert await leader.lead([Wish("join", "N")]) is not None

        trio.run(run)

    async def _declared(self, here: Gatherer, ended: bool) -> None:
        """Have the end be declared, of which the only other one says, or says not, that it goes."""
        await self._done(here, {"A": "A"})
        await here.board.beat("A", 1, Pulse("A", "x", epoch=1, quiet=True, activity=2))
        me = (here.node.incarnation, here.node.crawl.activity)
        quiet = msgpack.packb({here.node.id: me, "A": ("x", 2)})
        await here.board.put_up(boards.FINISHED, 5, quiet)
        await self._looks(here, 1)
        await here.board.beat("A", 3, Pulse("A", "x", epoch=1, quiet=True, ended=ended, activity=2))

    @pytest.mark.parametrize("said", [b"", boards.OVER, boards.DRY])
    def test_nobody_goes_who_sees_that_a_plan_is_being_made(self, said: bytes, tmp_path: Path) -> None:
        """Whoever makes it has not seen yet that this one goes, and counts on it. Else it need not wait."""

        async def run() -> None:
            settings = {"heartbeat_s": 5.0, "leave_when_finished": True}
            async with gatherer(tmp_path / "s", member=settings) as here:
                await self._declared(here, ended=True)
                await self._looks(here, 1)
                assert here.node.finished
                assert not here.node.is_over()  # it has not said so yet
                await here.board.put_up(boards.CALL, 6, said)
                await self._looks(here, 2)
                assert here.node.is_over() is bool(said)
                await here.board.put_up(boards.CALL, 6, boards.OVER)
                await self._looks(here, 2)
                assert here.node.is_over()

        trio.run(run)

    def test_nobody_waits_for_the_plan_of_a_leader_that_has_died(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(membership, "_ELECTION_S", 0.2)

        async def run() -> None:
            settings = {"heartbeat_s": 5.0, "leave_when_finished": True}
            async with gatherer(tmp_path / "s", member=settings) as here, trio.open_nursery() as nursery:
                await self._declared(here, ended=True)
                await here.board.put_up(boards.CALL, 6)
                nursery.start_soon(here.membership.end_calls)
                with trio.fail_after(20):
                    while not here.node.is_over():
                        await self._looks(here, 1)
                        await trio.sleep(0.05)
                assert (await here.board.now())[boards.CALL] == (6, boards.OVER)
                nursery.cancel_scope.cancel()

        trio.run(run)

    @pytest.mark.parametrize("done", [5, 0])
    def test_one_that_came_when_all_was_done_ends(self, done: int, tmp_path: Path) -> None:
        """Those who did it are gone, and lost by now; without them nothing would ever have been begun."""

        async def run() -> None:
            async with gatherer(tmp_path / "s") as here, trio.open_nursery() as nursery:
                me = here.node.id
                await here.node.adopt(here.charter(2, me, members={me: "me"}, departed=["A"]))
                await here.board.beat("A", 1, Pulse("A", "x", epoch=1, quiet=True, facts={"done": done}))
                nursery.start_soon(here.membership.run)
                nursery.start_soon(here.membership.conclude)
                with trio.move_on_after(60 if done else 0.5) as waiting:
                    while boards.FINISHED not in await here.board.now():
                        await here.membership.looked.wait()
                assert waiting.cancelled_caught == (not done)
                nursery.cancel_scope.cancel()

        trio.run(run)

    def test_a_call_does_not_make_the_end_be_proven_again(self, tmp_path: Path) -> None:
        """It was declared once, and holds or not by what comes of the call."""

        async def run() -> None:
            async with gatherer(tmp_path / "s", member={"heartbeat_s": 5.0}) as here:
                await self._declared(here, ended=False)
                await here.board.put_up(boards.CALL, 6)
                for beat in range(4, 8):
                    await here.board.beat("A", beat, Pulse("A", "x", epoch=1, quiet=True, activity=2))
                    await self._looks(here, 1)
                    assert here.membership._round() is None

        trio.run(run)

    def test_what_was_proven_by_an_older_plan_is_not_declared(self, tmp_path: Path) -> None:
        """It is followed since the last look, and by it something may be on its way."""

        async def run() -> None:
            async with gatherer(tmp_path / "s") as here, trio.open_nursery() as nursery:
                await self._done(here)
                while not here.membership._proven.is_set():
                    await self._looks(here, 1)
                await here.node.adopt(here.charter(6, here.node.id))
                nursery.start_soon(here.membership.conclude)
                await until(lambda: not here.membership._proven.is_set())
                await until(lambda: here.membership._first_round is None)
                assert boards.FINISHED not in await here.board.now()
                nursery.cancel_scope.cancel()

        trio.run(run)

    def test_nobody_believes_an_end_who_does_not_follow_the_plan_yet(self, tmp_path: Path) -> None:
        async def run() -> None:
            settings = {"heartbeat_s": 5.0, "leave_when_finished": True}
            async with gatherer(tmp_path / "s", member=settings) as here:
                await self._declared(here, ended=True)
                _, quiet = (await here.board.now())[boards.FINISHED]
                await here.board.publish(here.charter(6, "A", members={"A": "A"}))
                await here.board.put_up(boards.FINISHED, 7, quiet)
                await self._looks(here, 3)
                assert not here.node.finished

        trio.run(run)

    def test_who_goes_says_so_to_the_last(self, tmp_path: Path) -> None:
        """It neither reports to a leader nor follows a plan: it could not."""

        async def run() -> None:
            settings = {"heartbeat_s": 5.0, "leave_when_finished": True}
            async with gatherer(tmp_path / "s", member=settings) as here:
                await self._declared(here, ended=True)
                called: list[int] = []
                here.membership._answer = called.append
                here.node.crawl._ending = Ending.FINISHED
                await here.board.put_up(boards.CALL, 6)
                await self._looks(here, 2)
                assert here.membership.pulse().ended
                assert called == []
                await here.node.adopt(here.charter(6, here.node.id))
                assert here.node.epoch == 1

        trio.run(run)

    def test_a_newcomer_is_not_left_alone_with_what_others_have_finished(self, tmp_path: Path) -> None:
        """It has done nothing itself, but those who have gone had."""

        async def run() -> None:
            async with gatherer(tmp_path / "s", member={"heartbeat_s": 0.05}) as here:
                await here.node.adopt(here.charter(1, "A", members={"A": "A"}))
                for done in (0, 1):
                    facts = {"done": done}
                    gone = Pulse("A", "x", epoch=1, quiet=True, ended=True, activity=2, facts=facts)
                    await here.board.beat("A", 1 + done, gone)
                    await self._gone(here, "A")
                    assert (here.membership._round() is not None) is bool(done)

        trio.run(run)

    async def _done(self, here: Gatherer, others: Mapping[str, str] = MappingProxyType({})) -> None:
        """Everything that this gatherer ever knew is done."""
        me = here.node.id
        await here.node.adopt(here.charter(1, me, members={me: "me", **others}))
        done = Finished(key=ONE, state=State.DONE, status=200, at=0.0, attempts=1)
        await here.node.crawl.commit(Batch(finished=[done]))
        assert here.node.holdings.standing(ONE) is Standing.HELD
