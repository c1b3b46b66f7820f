"""The worker over real HTTP: what it takes, what it says of it, and how it stops."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
import trio
import trio.testing

from gcs.config import Config
from gcs.fetch.transport import Transport
from gcs.helper.desks import Desk
from gcs.helper.papers import ANSWER, BUNDLE, KEY_BYTES, Answer
from gcs.helper.worker import NOT_THE_WEB, Badge, Worker
from gcs.world import World
from tests.scripted import Peer, Server, ok, serve, settings
from tests.test_fetch import until
from tests.test_papers import bundle
from tuplespace import Taken, memory

KEY = bytes(KEY_BYTES)
ME, HELPER = "gatherer", "desk7"


@dataclass
class Bench:
    """A worker, the server that it asks, and the desk between them and us."""

    worker: Worker
    server: Server
    desk: Desk

    async def lend(self, name: str, *paths: str, within_s: float = 30.0) -> int:
        """Offer a bundle; its size."""
        where = self.server.origin
        made = bundle(id=name, host=where.host, port=where.port, paths=list(paths), within_s=within_s)
        data = msgspec.structs.replace(made, agent="", delay_s=0.0, delay_factor=0.0).sealed(KEY)
        await self.desk.urls.out(BUNDLE, name, data)
        return len(data)

    async def answer(self) -> tuple[str, Answer, int]:
        """The next answer: to which bundle, what it says, and its size."""
        _, _, name, _, data = await self.desk.summaries.in_(ANSWER, ME, str, str, bytes)
        assert isinstance(name, str)
        assert isinstance(data, bytes)
        return name, Answer.opened(data, KEY, ME, name, HELPER), len(data)


@asynccontextmanager
async def working(*, body: bytes = b"<p>a page", **options: Any) -> AsyncIterator[Bench]:
    """A worker at work."""

    async def script(peer: Peer) -> None:
        while await peer.request():
            await peer.send(ok(body))

    async with (
        serve(script) as server,
        memory.connect(memory.Server()) as client,
        Transport(settings()) as transport,
        trio.open_nursery() as nursery,
    ):
        desk = Desk(client, Config(), "office")
        badge = Badge(HELPER, KEY, KEY)
        worker = Worker(transport, desk.urls, lambda _: desk.summaries, badge, slots=2, **options)
        nursery.start_soon(worker.run)
        yield Bench(worker, server, desk)
        nursery.cancel_scope.cancel()


async def test_it_takes_nothing_before_it_may() -> None:
    """Whoever waits for a bundle lets go of it when it may not take one; what it has goes on."""
    may, go_on = trio.Event(), trio.Event()
    may.set()

    async def may_take() -> None:
        await may.wait()

    async def ready() -> None:
        await go_on.wait()

    async with working(may_take=may_take, ready=ready) as bench:
        await bench.lend("first", "/1")
        await until(lambda: bench.worker.work.under_way == 1)
        may = trio.Event()
        bench.worker.rest()
        await bench.lend("second", "/2")
        go_on.set()
        name, answer, _ = await bench.answer()
        assert (name, [page.failure for page in answer.pages]) == ("first", [""])
        await trio.testing.wait_all_tasks_blocked()
        assert await bench.desk.urls.count(BUNDLE, str, bytes) == 1
        may.set()
        assert (await bench.answer())[0] == "second"


async def test_other_formats_are_not_read() -> None:
    """Of what is neither HTML nor plain text a helper says only what it is."""
    async with working(body=b"%PDF-1.4") as bench:
        await bench.lend("one", "/1")
        _, answer, _ = await bench.answer()
        found = answer.pages[0].read
        assert found is not None
        assert (found.format, found.type_by_content, found.title) == (
            "application/pdf",
            "application/pdf",
            "",
        )


async def test_bundles_and_answers_are_counted() -> None:
    """What goes to and comes from the crawl's server counts as traffic too."""
    moved: list[int] = []
    async with working(moved=moved.append) as bench:
        size = await bench.lend("one", "/1", "/2")
        assert moved == [size, (await bench.answer())[2]]


async def test_nobody_waits_for_a_canary_to_stop() -> None:
    """A worker that is stopped while it asks for a voucher stops at once, and says nothing of its pages."""
    asked = trio.Event()

    async def vouch() -> bool:
        asked.set()
        await trio.sleep_forever()
        raise AssertionError

    async with working(vouch=vouch) as bench:
        await bench.lend("one", "/1", "/2")
        await asked.wait()
        with trio.fail_after(15):
            bench.worker.stop()
            _, answer, _ = await bench.answer()
        assert (answer.last, answer.pages) == (True, [])


@pytest.mark.parametrize("is_the_web", [True, False])
async def test_vouched_for(is_the_web: bool) -> None:
    """A page counts if somebody vouches for it, however long that takes within the bundle's time."""

    async def vouch() -> bool:
        await trio.sleep(3.5)
        return is_the_web

    async with working(vouch=vouch) as bench:
        await bench.lend("one", "/1")
        _, answer, _ = await bench.answer()
        assert [page.failure for page in answer.pages] == ["" if is_the_web else NOT_THE_WEB]


async def test_a_voucher_that_is_too_late() -> None:
    """When the time of a bundle is over it is answered without what nobody has vouched for."""

    async def vouch() -> bool:
        await trio.sleep_forever()
        raise AssertionError

    async with working(vouch=vouch) as bench:
        await bench.lend("one", "/1", within_s=0.5)
        with trio.fail_after(60):
            _, answer, _ = await bench.answer()
        assert (answer.last, answer.pages) == (True, [])


async def test_time_counts_from_when_it_was_handed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that slept while it renewed a lease asks for nothing whose time is over."""

    class Sleepy(World):
        slept_s = 0.0

        def awake(self) -> float:
            return super().awake() + self.slept_s

    world, renew = Sleepy(), Taken.renew

    async def slow(taken: Taken) -> None:
        await renew(taken)
        world.slept_s += 60.0

    monkeypatch.setattr(Taken, "renew", slow)
    async with working(world=world) as bench:
        await bench.lend("one", "/1", within_s=10.0)
        _, answer, _ = await bench.answer()
        assert (answer.last, answer.pages, bench.server.requests) == (True, [], [])
