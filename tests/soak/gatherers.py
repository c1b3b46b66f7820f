"""The act `gatherers`: a crawl by several, through joins, kills, a lost leader, a lost Redis and a drain."""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from gcs.config import Config
from gcs.gatherer.book import book_of
from gcs.gatherer.crawl import READ_AT_ONCE, UNREAD
from gcs.gatherer.writer import BATCH
from gcs.operate.ledger import add_up
from gcs.store.store import Store
from tests.crawling import Server, server
from tests.gatherers import Gatherers, gatherers
from tests.servers import Node, redis_server, until
from tests.soak import Failed
from tests.soak.progress import Progress

CONCURRENCY: Final = 16
AGAIN: Final = CONCURRENCY + UNREAD + 2 * (BATCH + READ_AT_ONCE)
"""Pages that one kill may have fetched again: under way, unread, in a batch being filled or written."""
LEADS: Final = "leads a round"
WITHIN_S: Final = 5.0
"""How soon after the last page the end has to be detected."""


def disasters(
    pages: int, hosts: int, rng: random.Random, progress: Progress, *, lose_one: bool = False
) -> str:
    """The whole run; gives the verdict or raises Failed. `lose_one` deletes the disk of one for good."""
    with tempfile.TemporaryDirectory() as place:
        web = server(Path(place, "web"), rng.randrange(1000), hosts=hosts, pages=pages)
        with web as served, redis_server(appendonly=True) as redis:
            settings = [f"fetch.concurrency={CONCURRENCY}", "log.format=json"]
            settings += ["member.forget_after=5s"] if lose_one else []
            with gatherers(redis, served, Path(place, "gatherers"), settings) as group:
                return _Run(group, served, redis, pages, progress).run(lose_one=lose_one)


class _Run:
    def __init__(self, group: Gatherers, served: Server, redis: Node, pages: int, progress: Progress) -> None:
        self._group, self._served, self._redis = group, served, redis
        self._pages, self._progress = pages, progress
        self._kills = self._again = 0
        self._detected_s = 0.0

    def run(self, *, lose_one: bool) -> str:
        group = self._group
        group.start("one")
        group.start("two")
        group.seed(self._served.web.seeds)
        self._at(0.1, "a third joins", lambda: group.start("three"))
        self._at(0.25, "one is killed and started again", lambda: self._killed("two"))
        if lose_one:
            self._at(0.5, "one is lost with its disk", lambda: self._lost("two"))
        else:
            self._at(0.4, "the leader is killed", self._leader_killed)
            self._at(0.55, "Redis is killed", self._redis_killed)
            self._at(0.7, "one is drained", lambda: group.drain("one"))
        codes = self._ended(but=("two",) if lose_one else ())
        return self._verdict(codes)

    def _at(self, share: float, what: str, act: Callable[[], None]) -> None:
        """Do something when so much of the web has been fetched."""
        wanted = share * self._pages
        until(lambda: self._fetched() >= wanted, f"{wanted:.0f} pages", timeout_s=300)
        self._progress.show(f"gatherers: {what}", time.monotonic())
        act()

    def _fetched(self) -> int:
        with self._served.log.open("rb") as log:
            return sum(1 for _ in log)

    def _killed(self, name: str) -> None:
        self._group.kill(name)
        self._kills += 1
        time.sleep(1.0)
        self._group.start(name)

    def _leader_killed(self) -> None:
        before = {name: self._led(name) for name in self._group.processes}
        self._group.ask(lambda board: board.ask_for_plan("operator", "soak"))
        found: list[str] = []

        def leads() -> bool:
            found[:] = [name for name, count in before.items() if self._led(name) > count]
            return bool(found)

        until(leads, "a leader", timeout_s=60)
        self._killed(found[0])

    def _led(self, name: str) -> int:
        return self._group.processes[name].log.read_text(errors="replace").count(LEADS)

    def _redis_killed(self) -> None:
        self._redis.kill()
        time.sleep(3.0)
        self._redis.restart()

    def _lost(self, name: str) -> None:
        self._group.kill(name)
        directory = self._group.processes[name].directory
        with Store.open(directory, Config().store, resume=True) as store:
            # Rows of pages that others had fetched, and handed over to it, are lost with it too.
            # So are the pages that it had fetched and handed over to others.
            self._again = store.counts().done + store.ledger().moved_out
        self._kills += 1
        shutil.rmtree(directory)

    def _ended(self, but: tuple[str, ...]) -> dict[str, int]:
        quiet_at, count = time.monotonic(), -1
        deadline = time.monotonic() + 300
        while True:
            running = [
                name
                for name, process in self._group.processes.items()
                if name not in but and process.child is not None and process.child.poll() is None
            ]
            fetched = self._fetched()
            if fetched != count:
                quiet_at, count = time.monotonic(), fetched
            if not running:
                break
            if time.monotonic() > deadline:
                raise Failed(f"it did not end: {self._group.members()}")
            time.sleep(0.05)
        self._detected_s = time.monotonic() - quiet_at
        return self._group.wait(1, but=but)

    def _verdict(self, codes: dict[str, int]) -> str:
        seen = self._served.judged()
        problems = [
            f"{len(seen.missing)} pages missing, such as {sorted(seen.missing)[:3]}" if seen.missing else "",
            f"{seen.duplicates} pages fetched again" if seen.duplicates > self._may_be_again else "",
            f"{len(seen.forbidden)} forbidden pages" if seen.forbidden else "",
            f"exit codes {codes}" if any(codes.values()) else "",
            *self._audited(),
        ]
        if any(problems):
            raise Failed(", ".join(filter(None, problems)))
        return (
            f"{self._kills} kills, {seen.pages:,} pages, coverage {seen.coverage:.4f}, "
            f"{seen.duplicates} fetched again (at most {self._may_be_again} may be), "
            f"ended {self._detected_s:.1f} s after the last page"
        )

    def _audited(self) -> Iterator[str]:
        """What is wrong with the books of all gatherers together, and with what their stores have."""
        books, keys = dict[str, dict[str, Any]](), Counter[str]()
        for process in self._group.processes.values():
            if not process.directory.exists():
                continue
            with Store.open(process.directory, Config().store, resume=True) as store:
                books[store.identity] = book_of(store) | {"reasons": {}}
                keys.update(store.keys("", None, 10**9, passed=False)[0])
        audit = add_up(books)
        yield from (f"{side.missing} URLs missing at {side.gatherer}" for side in audit.sides if side.missing)
        yield from (f"{pair.missing} URLs missing between {pair}" for pair in audit.pairs if pair.missing)
        yield f"{audit.totals['queued']} URLs are still queued" if audit.totals["queued"] else ""
        twice = [key for key, count in keys.items() if count > 1]
        yield f"{len(twice)} URLs are in two stores, such as {twice[:3]}" if twice else ""

    @property
    def _may_be_again(self) -> int:
        """What a kill may cost, and all that was on a disk that was lost."""
        return self._kills * AGAIN + self._again
