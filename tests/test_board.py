"""The notice board, in a space in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import trio

from gcs.board import Board, Pulse
from gcs.config import Config
from tuplespace import memory


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
