"""A clerk at a desk: how often it looks how much more helpers would take, on a clock that jumps."""

from __future__ import annotations

import pytest
import trio

from gcs.config import Config
from gcs.helper.clerk import Clerk
from gcs.helper.desks import Desk, Presence
from gcs.helper.loaned import Out
from gcs.helper.papers import BUNDLE, Refusal
from tuplespace import memory


class Office:
    """One gatherer that believes everybody, and is never answered."""

    me = "g"

    def key(self, _: str) -> bytes | None:
        return bytes(32)

    def is_invited(self, _: str, __: str) -> bool:
        return True

    def answered(self, *_: object) -> bool:
        raise AssertionError("nobody has answered")

    def refused(self, _: str, why: Refusal) -> None:
        raise AssertionError(why)

    def end(self, out: Out) -> None:
        raise AssertionError(out)

    def share(self) -> int:
        return 1

    def held(self, _: str) -> int:
        return 0

    def is_trusted(self, _: str) -> bool:
        return True

    async def can_read(self) -> None:
        await trio.lowlevel.checkpoint()


@pytest.mark.virtual_time
async def test_it_looks_again_soon_when_all_room_was_used() -> None:
    """Helpers who are done with small bundles do not wait for a second."""
    async with memory.connect(memory.Server()) as client, trio.open_nursery() as nursery:
        desk = Desk(client, Config(), "office")
        await desk.say(Presence("one", 1))
        clerk = Clerk(Office(), desk, "")

        async def run() -> None:
            await clerk.run(looks=True, listens=False)

        nursery.start_soon(run)
        await trio.sleep(0.1)
        assert clerk.room == 2
        clerk.room = 0  # so much was offered, and done at once
        await trio.sleep(0.3)
        assert clerk.room == 2
        await desk.urls.out(BUNDLE, "of another gatherer", b"")
        await trio.sleep(0.5)
        assert clerk.room == 2
        await trio.sleep(0.5)
        assert clerk.room == 1
        nursery.cancel_scope.cancel()
