"""What a liar said of pages that have other owners by now, or are on their way to one, is fetched again."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from secrets import token_hex

import msgpack
import trio

import tuplespace
from gcs.board import Board
from gcs.config import Config
from gcs.core.holdings import Standing
from gcs.core.rulings import Invited
from gcs.core.urls import key, url
from gcs.fetch.transport import Transport
from gcs.gatherer.crawl import Ending
from gcs.gatherer.exchange import doubts
from gcs.gatherer.gatherer import Gatherer
from gcs.gatherer.mending import mend
from gcs.gatherer.node import Received
from gcs.helper import desks
from gcs.helper.papers import KEY_BYTES
from gcs.simulate.verdict import judge
from gcs.simulate.web import Web
from gcs.simulate.webserver import Served, serve
from gcs.store import mail
from gcs.store.records import Batch, Finished, State
from gcs.store.store import Store
from tests import servers, test_node
from tests.crawling import configured
from tests.test_fetch import until
from tests.test_node import delivered

DONE = key("http://h.example/said-by-a-liar")
PAGES = 60


def has(here: test_node.Gatherer) -> State | None:
    """Where the page stands that somebody lied about."""
    row = here.node.store.get(DONE)
    return None if row is None else row.state


async def finished(here: test_node.Gatherer) -> None:
    """It is done."""
    await here.node.crawl.commit(
        Batch(finished=[Finished(key=DONE, state=State.DONE, status=200, at=1.0, attempts=1)])
    )


@asynccontextmanager
async def gatherer(place: Path, node: servers.Node) -> AsyncIterator[test_node.Gatherer]:
    """A gatherer on a real Redis, with a crawl of its own there."""
    async with test_node.gatherer(place, url=node.url, crawl={"name": token_hex(4)}) as here:
        yield here


async def test_what_leaves_is_told_to_who_gets_it(tmp_path: Path, redis_node: servers.Node) -> None:
    """While a range is on its way nobody is told; its new owner is, after the rows."""
    async with gatherer(tmp_path / "s", redis_node) as here, trio.open_nursery() as nursery:
        node, me = here.node, here.node.id
        await node.adopt(here.charter(1, me))
        await finished(here)
        await node.adopt(here.charter(2, "B", me))
        assert node.holdings.standing(DONE) is Standing.LEAVING
        assert await mend(node, here.board, [DONE]) == []
        for task in (here.hand_over.run, here.exchange.send, here.exchange.forget):
            nursery.start_soon(task)
        assert await delivered(here, "B", 2) == [("row", DONE), ("mail", "end")]
        assert node.holdings.standing(DONE) is Standing.FOREIGN
        assert await mend(node, here.board, [DONE]) == [DONE]
        assert await delivered(here, "B", 2) == [("mail", "doubts")]
        nursery.cancel_scope.cancel()


async def test_who_is_told_fetches_it_again(tmp_path: Path, redis_node: servers.Node) -> None:
    """The word is known before it is acknowledged, and the page is queued when its range is held."""
    async with gatherer(tmp_path / "s", redis_node) as here, trio.open_nursery() as nursery:
        node, told, acknowledged = here.node, list[str](), list[dict[str, int]]()

        def doubt(keys: Iterable[str]) -> None:
            told.extend(keys)
            acknowledged.append(dict(node.store.applied()))

        node.doubt = doubt
        await node.adopt(here.charter(1, node.id, "A"))
        await finished(here)
        nursery.start_soon(here.exchange.receive)
        (letter,) = doubts([DONE])
        piece = msgpack.packb([mail.pack_mail(letter)])
        await here.board.inbox(node.id).out("batch", "A", 1, 1, 1, 1, piece)
        await until(lambda: here.exchange.applied == {"A": 1})
        assert (told, acknowledged) == ([DONE], [{}])
        assert await mend(node, here.board, told) == []
        assert has(here) is State.DONE
        await node.take_in(lambda: Received(Batch(), [("A", ("", None))], []))
        assert await mend(node, here.board, told) == [DONE]
        assert has(here) is State.QUEUED
        nursery.cancel_scope.cancel()


async def test_who_is_gone_is_told_nothing(tmp_path: Path, redis_node: servers.Node) -> None:
    """What was on its way to an owner that is lost comes back, and waits for the next plan."""
    async with gatherer(tmp_path / "s", redis_node) as here:
        node, told = here.node, list[str]()
        node.doubt = told.extend
        await node.adopt(here.charter(1, "B"))
        assert await mend(node, here.board, [DONE]) == [DONE]
        node.gone = frozenset({"B"})
        await here.exchange.reroute("B")
        assert told == [DONE]
        assert await mend(node, here.board, told) == []
        await node.adopt(here.charter(2, "A", members={node.id: "me", "A": "A"}, departed=["B"]))
        assert await mend(node, here.board, told) == [DONE]
        assert [to for to, box in node.store.outboxes().items() if box.next > box.first] == ["A"]


async def sooner_or_later(true: Callable[[], bool]) -> None:
    """Wait for what needs some plans, heartbeats and pages."""
    with trio.fail_after(60):
        while not true():  # noqa: ASYNC110 - nothing tells
            await trio.sleep(0.05)


def repeated(served: Served) -> Mapping[str, int]:
    """What was asked for again, and how often."""
    served.flush()
    return judge(served.log, served.web).repeated


@asynccontextmanager
async def member(config: Config, place: Path, url: str) -> AsyncIterator[Gatherer]:
    """A whole gatherer, not yet running."""
    async with (
        Transport(config.fetch) as transport,
        tuplespace.connect(url) as client,
        desks.opened(config, client) as open_desk,
    ):
        with Store.open(place, config.store, resume=True) as store:
            yield Gatherer(config, store, transport, Board(client, config), open_desk)


async def test_who_leaves_owes_nothing(tmp_path: Path, redis_node: servers.Node) -> None:
    """What a helper told a gatherer unchecked is fetched again by those who stay when that one is drained."""
    web = Web(3, hosts=10, pages=PAGES, plain=True, slowness=0.0)
    endings: list[Ending] = []
    async with serve(web, tmp_path) as served:

        def config(name: str) -> Config:
            return configured(
                served.hosts,
                crawl={"name": place},
                store={"keep_free_bytes": 0},
                member={"name": name, "heartbeat_s": 0.1},
                exchange={"every_s": 0.05},
                rebalance={"cooldown_s": 0.5, "deadline_s": 3.0},
                helpers={"sites": ("world:open",)},
            )

        place = token_hex(4)
        async with (
            member(config("a"), tmp_path / "a", redis_node.url) as one,
            member(config("b"), tmp_path / "b", redis_node.url) as other,
            trio.open_nursery() as nursery,
        ):

            async def run(each: Gatherer) -> None:
                endings.append(await each.run())

            board = one.membership._board
            invited = Invited("world", b"k" * KEY_BYTES)
            await board.rule(lambda rulings, epoch: rulings.invite("liar", invited, b"s" * KEY_BYTES, epoch))
            nursery.start_soon(run, one)
            nursery.start_soon(run, other)
            await board.seed(served.web.seeds)
            await sooner_or_later(lambda: one.node.finished and other.node.finished)
            # Of so small a web the first plan may have given everything to one of them.
            staying, leaving = sorted((one, other), key=lambda each: each.node.store.counts().done)
            done = [each for each, row in leaving.node.store.scan("", None) if row.state is State.DONE][:3]
            assert len(done) == 3
            record = leaving.lender._books.record("world/liar")
            assert record
            leaving.lender.scrutiny.trust.accepted(record, done)
            assert repeated(served) == {}
            await leaving.node.drain()
            await sooner_or_later(lambda: bool(endings) and repeated(served).keys() >= {*map(url, done)})
            await sooner_or_later(lambda: staying.node.finished)
            assert endings == [Ending.FINISHED]
            assert leaving.node.has_left
            assert repeated(served) == {url(each): 1 for each in done}
            rows = [staying.node.store.get(each) for each in done]
            assert [row.state for row in rows if row is not None] == [State.DONE] * 3
            nursery.cancel_scope.cancel()
