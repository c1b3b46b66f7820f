"""A monitor that cannot read what gatherers say, or what it remembers; on a real Redis."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgpack
import pytest
import trio

import tuplespace
from gcs import board as boards
from gcs.board import Board
from gcs.config import Config
from gcs.monitor import keeping
from gcs.monitor.watch import Watch
from tests import servers
from tests.monitors import monitor, until
from tests.servers import Node


@pytest.fixture
def redis() -> Iterator[Node]:
    """A Redis without any crawl."""
    with servers.redis_server("redis") as node:
        yield node


def put(redis: Node, what: str, epoch: int, data: bytes, *rows: tuple[Any, ...]) -> None:
    """Let something be in force, and put rows on the board."""

    async def put_up() -> None:
        async with tuplespace.connect(redis.url) as client:
            board = Board(client, Config())
            for row in rows:
                await board.space.out(*row)
            await board.put_up(what, epoch, data)

    trio.run(put_up)


@pytest.mark.parametrize(
    ("what", "row"),
    [
        (boards.RULINGS, ("told", "aa", b"\xc1")),
        (boards.CHARTER, ("charter", 5, 0, 1, b"no charter")),
        ("anything", ("member", "aa", 1, b"\xc1", 1.0)),
    ],
)
def test_a_board_that_cannot_be_read(redis: Node, tmp_path: Path, what: str, row: tuple[Any, ...]) -> None:
    """The monitor says that it cannot be read, goes on, and sees the crawl again when it can."""
    with monitor(redis.url, tmp_path) as one:
        until(lambda: one.get("overview")["state"] == "stuck")
        put(redis, what, 5, b"\xc1", row)
        until(lambda: "cannot be read" in one.get("overview")["reach"]["sentence"])
        assert one.get("gatherers") == {"gatherers": []}
        assert "cannot be read" in one.get("events")["events"][0]["sentence"]
        redis.client().flushall()
        until(lambda: one.get("overview")["reach"]["redis"])
        assert one.get("events")["events"][0]["sentence"] == "All can be read again."
        assert one.child.poll() is None


@pytest.mark.parametrize(
    "kept",
    [
        {"growth": b"\xc1"},
        {"growth": msgpack.packb([])},
        {"growth": 7},
        {"events": [[1, 2]]},
        {"events": 7},
        {"plans": 7},
        {"recent": {"at": b"odd"}},
    ],
)
async def test_a_memory_that_cannot_be_read(redis: Node, tmp_path: Path, kept: dict[str, Any]) -> None:
    """The monitor begins anew."""
    config = Config()
    sound = {"plans": {1: {}}, "events": [[1, 1.0, "plan", "info", "", "It was."]]}
    async with tuplespace.connect(redis.url) as client:
        board = Board(client, config)
        for state, events in ((sound, 1), (sound | kept, 0)):
            keeping.keep(tmp_path, config.crawl.name, state)
            watch = Watch(board, config, _no_desk, tmp_path)
            assert len(watch.chronicle.events) == len(watch.plans.state) == events
            assert not watch.history.recent.at


def _no_desk(name: str) -> Any:
    raise AssertionError(f"nobody asks {name}")
