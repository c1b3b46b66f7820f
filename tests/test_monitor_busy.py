"""A monitor that much is asked of at once: what takes long holds up nothing else; on a real Redis."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import httpx
import pytest
import trio

from gcs import board as boards
from gcs.board import Board, Pulse
from gcs.config import load
from gcs.core.holdings import Charter
from gcs.core.placement import Plan
from gcs.core.rounds.knowledge import Knowledge
from gcs.core.tree import Expansion
from gcs.monitor.control import AT_ONCE
from gcs.monitor.monitor import running
from gcs.operate import ownership
from gcs.operate.asking import Answer
from gcs.operate.looking import View
from tests.servers import Node

ALONE = "aa"
ALWAYS_NEWER = 1 << 60


def charter(epoch: int) -> Charter:
    """A plan that gives everything to one."""
    knowledge = Knowledge([ALONE], Expansion.from_lines(["http://a.test/", "http://b.test/"]))
    everything = Plan.of([("", ALONE)])
    return Charter(epoch, everything, everything, {ALONE: "alone"}, state=knowledge.to_bytes())


async def beat_on(board: Board) -> None:
    """A gatherer that lives, and follows what is ruled, but answers nothing that it is asked."""
    pulse, beat = Pulse("alone", "1", rulings=ALWAYS_NEWER, epoch=ALWAYS_NEWER, standing="crawling"), 0
    while True:
        beat += 1
        await board.beat(ALONE, beat, pulse)
        await trio.sleep(0.05)


async def until(
    ask: Callable[[], Awaitable[httpx.Response]], holds: Callable[[httpx.Response], bool]
) -> None:
    """Wait until an answer is as it should be."""
    while True:
        if holds(await ask()):
            return
        await trio.sleep(0.05)


@asynccontextmanager
async def watched(redis_node: Node, place: Path) -> AsyncIterator[tuple[Board, httpx.AsyncClient]]:
    """The board of a crawl of which only heartbeats exist, and an operator at its monitor."""
    given = [f"redis.url={redis_node.url}", "monitor.listen=127.0.0.1:0", "member.heartbeat=100ms"]
    config = load(overrides=given, environ={}).config
    async with boards.opened(config) as board, running(config, board, place) as monitor:
        headers = {"authorization": f"Bearer {monitor.keys.operate}"}
        async with (
            httpx.AsyncClient(base_url=f"{monitor.address}api/", headers=headers, timeout=60.0) as client,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(beat_on, board)
            await until(
                partial(client.get, "overview"), lambda said: said.json()["gatherers"]["present"] == 1
            )
            yield board, client
            nursery.cancel_scope.cancel()


async def test_a_pause_while_plans_are_foreseen(redis_node: Node, tmp_path: Path) -> None:
    """Whoever wants to know what a plan would be, a pause is done at once."""
    async with watched(redis_node, tmp_path) as (_, client), trio.open_nursery() as nursery:
        foresee = partial(client.post, "plans/dry-run", json={"within_s": 50.0})
        for _ in range(AT_ONCE):
            # It may find its place taken by who only tries below.
            nursery.start_soon(until, foresee, lambda said: said.status_code != 503)
        more = partial(client.post, "plans/dry-run", json={"within_s": 0.01})
        await until(more, lambda said: said.status_code == 503)
        said = await client.post("pause", json={"what": "crawl"})
        assert (said.status_code, said.json()["code"]) == (200, 0)
        assert (await client.post("plans/dry-run", json={})).status_code == 503
        nursery.cancel_scope.cancel()


async def test_superpages(redis_node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table of a plan is made beside the event loop, and once for all who ask for it."""
    made: list[int] = []

    def make(view: View, top: int) -> Answer:
        made.append(threading.get_ident())
        return told(view, top)

    told = ownership.superpages_in
    monkeypatch.setattr(ownership, "superpages_in", make)
    async with watched(redis_node, tmp_path) as (board, client):

        async def asked(epoch: int) -> httpx.Response:
            made.clear()
            await board.publish(charter(epoch))
            await until(partial(client.get, "tree"), lambda said: said.json()["epoch"] == epoch)
            answers = [await client.get("superpages") for _ in range(3)]
            assert [each.json()["facts"]["epoch"] for each in answers] == [epoch] * 3
            assert len(made) == 1
            assert made[0] != threading.get_ident()
            return answers[0]

        assert (await client.get("superpages")).status_code == 400
        first, second = await asked(5), await asked(6)
        assert first.headers["etag"] != second.headers["etag"]
        tag = {"if-none-match": second.headers["etag"]}
        assert (await client.get("superpages", headers=tag)).status_code == 304
        assert (await client.get("superpages", params={"top": 1})).json()["facts"]["epoch"] == 6
