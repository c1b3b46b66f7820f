"""A crawl that lends, and those who fetch for it, in one event loop over real HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import trio

import tuplespace
from gcs.config import Config
from gcs.core.rulings import Invited, Rulings
from gcs.core.tree import Expansion
from gcs.fetch.transport import Transport
from gcs.gatherer.admission import Admission
from gcs.gatherer.crawl import Crawl, Ending
from gcs.gatherer.links import Targets
from gcs.gatherer.seeds import cleaning
from gcs.gatherer.visit import Visitor
from gcs.helper import lender as lending
from gcs.helper.books import SiteBooks
from gcs.helper.dealings import Probing
from gcs.helper.desks import PRESENT_S, Desk, Presence
from gcs.helper.lender import Lender
from gcs.helper.papers import KEY_BYTES
from gcs.helper.sites import Site
from gcs.helper.worker import Badge, Worker
from gcs.store.records import Batch
from gcs.store.store import Store
from tuplespace import memory

ME = "gatherer"
SITE_KEY = bytes(range(KEY_BYTES))


def soon(monkeypatch: pytest.MonkeyPatch, *, offered_s: float = 0.2, slack_s: float = 0.5) -> None:
    """Loans that nobody answers end soon."""
    monkeypatch.setattr(lending, "OFFERED_S", offered_s)
    monkeypatch.setattr(lending, "HANDED_S", offered_s)
    monkeypatch.setattr(lending, "EXPECTED_S", 0.1)
    monkeypatch.setattr(lending, "_SLACK_S", slack_s)


@dataclass(slots=True)
class Scene:
    """A gatherer, its lender, and the desks."""

    config: Config
    store: Store
    crawl: Crawl
    lender: Lender
    client: tuplespace.Spaces
    site: Site
    transport: Transport
    rulings: Rulings = field(default_factory=Rulings)
    again: list[str] = field(default_factory=list)

    def desk(self, helper: str = "") -> Desk:
        """Where a helper works."""
        return Desk(self.client, self.config, self.site.desk(helper))

    def invite(self, *helpers: str, key: bytes = b"") -> None:
        """Let some help, each with a key of its own."""
        for helper in helpers:
            invited = Invited(self.site.name, (key or helper.encode()).ljust(KEY_BYTES, b"."))
            self.rulings = self.rulings.invite(helper, invited, SITE_KEY, self.rulings.epoch + 1)

    def record(self, helper: str) -> str:
        """Under which name it is kept whether a helper is trusted."""
        return self.lender._books.record(self.site.desk(helper))

    def badge(self, helper: str) -> Badge:
        """Who a helper is."""
        key = self.rulings.helpers[helper].key
        return Badge(helper, key, key if self.site.is_open else SITE_KEY)

    def worker(self, helper: str, **options: Any) -> Worker:
        """An honest helper."""
        desk = self.desk(helper)
        return Worker(
            self.transport, desk.urls, lambda _: desk.summaries, self.badge(helper), slots=4, **options
        )

    async def say(self, helper: str, slots: int = 4) -> None:
        """Say that a helper is there, as long as the test takes."""
        await self.desk(helper).say(Presence(helper, slots))

    async def help(self, helper: str, **options: Any) -> None:
        """Help until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.go_on_saying, helper)
            await self.worker(helper, **options).run()

    async def go_on_saying(self, helper: str, slots: int = 4) -> None:
        """Say that a helper is there, again and again."""
        while True:
            await self.say(helper, slots)
            await trio.sleep(PRESENT_S / 3)

    async def run(self, seeds: Sequence[str]) -> Ending:
        """Crawl to the end."""
        self.crawl.seed(self.crawl_seeds(seeds))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.lender.run)
            ending = await self.crawl.run()
            nursery.cancel_scope.cancel()
        return ending

    def crawl_seeds(self, seeds: Iterable[str]) -> list[Any]:
        """Seeds as they are queued."""
        return Visitor(
            self.config,
            Targets(cleaning(self.config)),
            Admission(self.config, year=datetime.now(UTC).year),
        ).seeds(seeds)


@asynccontextmanager
async def scene(
    config: Config,
    directory: Path,
    *,
    site: str = "office",
    redis: str = "",
    trust: bytes = b"",
    probing: Probing | None = None,
) -> AsyncIterator[Scene]:
    """A crawl of one gatherer that lends to a site, whose spaces are in memory or on a Redis."""
    parts: list[Scene] = []
    admission = Admission(config, year=datetime.now(UTC).year, rulings=lambda: parts[0].rulings)
    visitor = Visitor(config, Targets(cleaning(config)), admission)
    async with (
        Transport(config.fetch) as transport,
        tuplespace.connect(redis) if redis else memory.connect(memory.Server()) as client,
    ):
        with Store.open(directory, config.store, resume=True) as store:
            crawl = Crawl(config, store, transport, visitor, Expansion())

            async def again(keys: Sequence[str]) -> Sequence[str]:
                parts[0].again += keys
                await crawl.commit(Batch(again=list(keys)))
                return keys

            def barred(key: str) -> bool:
                return parts[0].rulings.is_barred(key)

            books = SiteBooks([Site.of(site)], lambda: parts[0].rulings)
            lender = Lender(
                crawl,
                lambda: parts[0].config,
                ME,
                lambda name: Desk(client, config, name),
                books,
                epoch=lambda: parts[0].rulings.epoch if parts else 0,
                barred=barred,
                members=lambda: 1,
                again=again,
                trust=trust,
                probing=probing,
            )
            crawl.loans.lending = lender
            async with Transport(config.fetch) as helping:
                made = Scene(config, store, crawl, lender, client, Site.of(site), helping)
                parts.append(made)
                yield made
