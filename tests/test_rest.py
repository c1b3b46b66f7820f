"""A gatherer that has nothing to do: it rests, and is there at once when something comes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random

import trio

from gcs.config import Config, load
from gcs.core.tree import Expansion
from gcs.core.urls import key
from gcs.gatherer.admission import Admission
from gcs.gatherer.crawl import REST_S, Crawl, Ending
from gcs.gatherer.links import Targets
from gcs.gatherer.territory import Alone
from gcs.gatherer.visit import Visitor
from gcs.gatherer.writer import COMMIT_EVERY_S
from gcs.simulate.cluster.clock import JumpingClock
from gcs.simulate.cluster.disk import Disk
from gcs.simulate.cluster.fetching import Server, SimulatedFetching, web_of
from gcs.simulate.cluster.world import MachineWorld
from gcs.store.records import Batch, Found, host_of
from gcs.store.store import Store

RESTS_FROM_S, RESTS_UNTIL_S = 300.0, 400.0
SOON_S = 3 * COMMIT_EVERY_S


class AmongOthers(Alone):
    """It is over only when others say so."""

    def is_over(self) -> bool:
        """Not by itself."""
        return False


def configured() -> Config:
    """Without delays and files of pages."""
    settings = ["fetch.delay=0s", "fetch.allow=127.0.0.0/8", "store.pages=none", "store.keep_free=0B"]
    return load(overrides=settings, environ={}, system_file=Path("/nonexistent")).config


def rested(into: Path, then: Callable[[Crawl], Awaitable[None]]) -> tuple[list[float], float, Ending]:
    """Crawl a web to its end, rest, and then do something: when it was looked, when all ended, and how."""
    clock, world, config = JumpingClock(), MachineWorld(Random(1)), configured()
    server = Server(web_of(1, 40, plain=True))
    looks: list[float] = []
    ended: list[tuple[float, Ending]] = []

    async def main() -> None:
        visitor = Visitor(config, Targets(), Admission(config, year=2023))
        with Store.open(into, config.store, resume=False, database=Disk().open, world=world) as store:
            fetching = SimulatedFetching(server, world, "g0")
            crawl = Crawl(config, store, fetching, visitor, Expansion(), territory=AmongOthers(), world=world)
            wake_due = crawl.frontier.wake_due

            def noted(now: float) -> None:
                looks.append(trio.current_time())
                wake_due(now)

            crawl.frontier.wake_due = noted  # type: ignore[method-assign] # to see when it is looked
            crawl.seed(visitor.seeds(server.web.seeds))

            async def run() -> None:
                ending = await crawl.run()
                ended.append((trio.current_time(), ending))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(run)
                await trio.sleep(RESTS_UNTIL_S)
                assert crawl.is_idle
                await then(crawl)

    with clock.in_force():
        trio.run(main, clock=clock)
    return looks, *ended[0]


async def _stop(crawl: Crawl) -> None:
    crawl.stop()


def test_who_has_nothing_to_do_looks_seldom_and_ends_at_once(tmp_path: Path) -> None:
    looks, ended_at, ending = rested(tmp_path / "store", _stop)
    at_rest = [each for each in looks if RESTS_FROM_S <= each < RESTS_UNTIL_S]
    assert len(at_rest) <= (RESTS_UNTIL_S - RESTS_FROM_S) / REST_S + 1
    assert ending is Ending.INTERRUPTED
    assert ended_at < RESTS_UNTIL_S + SOON_S


def test_what_comes_while_it_rests_is_looked_at_at_once(tmp_path: Path) -> None:
    committed_at: list[float] = []

    async def find(crawl: Crawl) -> None:
        await crawl.commit(Batch(found=[Found(key("http://new.test/"))]))
        committed_at.append(trio.current_time())
        await trio.sleep(SOON_S)
        assert crawl.frontier.site(host_of(key("http://new.test/"))) is not None
        crawl.stop()

    looks, _, _ = rested(tmp_path / "store", find)
    assert any(committed_at[0] <= each < committed_at[0] + SOON_S for each in looks)
