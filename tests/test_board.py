"""The notice board, in a space in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest
import trio

from gcs import board as boards
from gcs.board import Board, Pulse
from gcs.config import Config
from gcs.core.holdings import Charter
from gcs.core.placement import Plan
from tuplespace import Event, Unavailable, memory


def test_a_heartbeat_that_was_written_twice() -> None:
    """The older one of two is removed."""

    async def looked() -> tuple[int, int]:
        async with memory.connect(memory.Server()) as client:
            board, pulse = Board(client, Config()), Pulse("a", "1").to_bytes()
            await board.space.out("member", "id", 1, pulse, 0.0)
            await board.space.out("member", "id", 2, pulse, 0.0)
            members = await board.members()
            return members["id"].beat, len(
                [each async for each in board.space.scan("member", str, int, bytes, float)]
            )

    assert trio.run(looked) == (2, 1)


def test_a_heartbeat_while_others_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is seen before and after it has beaten stays on the board."""

    async def looked() -> tuple[int, int]:
        async with memory.connect(memory.Server()) as client:
            board, pulse = Board(client, Config()), Pulse("a", "1")
            await board.beat("id", 1, pulse)
            scan = board.space.scan

            async def scanned(*template: object) -> AsyncIterator[tuple[object, ...]]:
                yield ("member", "id", 1, pulse.to_bytes(), 0.0)
                await board.beat("id", 2, pulse)
                async for each in scan("member", str, int, bytes, float):
                    yield each

            monkeypatch.setattr(board.space, "scan", scanned)
            first = await board.members()
            monkeypatch.undo()
            return first["id"].beat, (await board.members())["id"].beat

    assert trio.run(looked) == (2, 2)


@pytest.mark.parametrize("step", ["out", "charter", "swap"])
@pytest.mark.parametrize("losses", [0, 1, 2, 9])
def test_a_plan_is_in_force_only_as_a_whole(losses: int, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though Redis loses its last second while it is put up, before any of the steps of that."""

    async def run() -> None:
        server = memory.Server()
        async with memory.connect(server) as client:
            board, left = Board(client, Config()), losses
            await board.publish(_charter(1))
            bag = server.bags["crawl:board"]
            kept = bag.snapshot()
            steps: dict[str, Any] = {
                "out": board.space.out,
                "charter": board.charter,
                "swap": board.space.swap,
            }

            async def lossy(*given: Any, **more: Any) -> Any:
                nonlocal left
                if left:
                    left -= 1
                    bag.restore(kept)
                return await steps[step](*given, **more)

            monkeypatch.setattr(board if step == "charter" else board.space, step, lossy)
            if losses > 3:
                with pytest.raises(Unavailable):
                    await board.publish(_charter(2))
            else:
                await board.publish(_charter(2))
            monkeypatch.undo()
            epoch, _ = (await board.now())[boards.CHARTER]
            assert epoch == (1 if losses > 3 else 2)
            found = await board.charter(epoch)
            assert found is not None
            assert found.epoch == epoch
            assert await board.space.count("now", boards.CHARTER, int, bytes) == 1

    trio.run(run)


def test_a_plan_that_several_put_up_again_is_always_there() -> None:
    """Nobody takes down what another one has just put up in its place."""

    async def run() -> None:
        server = memory.Server()
        async with memory.connect(server) as one, memory.connect(server) as two:
            boards_ = [Board(each, Config()) for each in (one, two)]
            await boards_[0].publish(_charter(1))
            bag = server.bags[boards_[0].space.name]
            up: list[int] = []
            removed: list[int] = []

            def look(event: Event) -> None:
                if event.kind == "out" and event.fields[:2] == ("now", boards.CHARTER):
                    up.append(int(str(event.fields[2])))
                if event.kind == "in" and event.fields[:2] == ("now", boards.CHARTER):
                    removed.append(int(str(event.fields[2])))

            bag.listeners.append(look)
            async with trio.open_nursery() as nursery:
                for board in boards_:
                    nursery.start_soon(partial(board.publish, _charter(2), is_elected=False))
            assert (up, removed) == ([2, 2], [])
            assert (await boards_[1].now())[boards.CHARTER] == (2, b"")
            await boards_[1].publish(_charter(3))
            assert (await boards_[1].now())[boards.CHARTER] == (3, b"")
            assert removed == [1, 2, 2]

    trio.run(run)


def _charter(epoch: int) -> Charter:
    return Charter(epoch, Plan.of([("", "a")]), Plan.of([("", "a")]), {"a": "A"})
