"""Looks at the crawl once a second, for all who watch it, and remembers what they may ask for.

While Redis is away what was seen last stays, and it is said since when. Gatherers that are down are seen by
their silence; nothing here waits for them. What takes long to make is made when it has changed, and once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, cast

import structlog
import trio

from gcs import board as boards
from gcs import memory
from gcs.board import Board
from gcs.config import Config
from gcs.core.vitals import Sign
from gcs.gatherer.tally import Tally
from gcs.helper.desks import OpenDesk
from gcs.metrics import seconds
from gcs.monitor import keeping
from gcs.monitor.chronicle import Chronicle
from gcs.monitor.found import Found
from gcs.monitor.history import History
from gcs.monitor.landscape import Landscape
from gcs.monitor.plans import Plans
from gcs.monitor.shapes.crawl import CrawlOverview, Reach, Traffic, Trust, TrustedHelper
from gcs.monitor.shapes.web import HostSeen, HostTold
from gcs.monitor.stream import Stream
from gcs.monitor.summing import Speeds, overview
from gcs.monitor.unreadable import UNREADABLE
from gcs.operate.facts import HelperFacts, WatchedGatherer
from gcs.operate.helping import helpers
from gcs.operate.looking import View, fact
from gcs.operate.overview import Overview, Watcher
from gcs.operate.parts import host_prefix
from gcs.settings import duration
from gcs.world import REAL, World
from tuplespace import TupleSpaceError

EVERY_S: Final = 1.0
HEAR_EVERY_S: Final = 2.5
KEEP_EVERY_S: Final = 60.0
_PATIENCE_S: Final = 3.0
"""Redis may take so long for a look before it is said to be away, beside what gatherers need to be heard."""
_UNREAD: Final = "What gatherers say cannot be read"
_PAGES_TOLD: Final = 20
_HOSTS_TOLD: Final = 200
_EACH: Final = ("queued", "overhead_percent")


class Watch:
    """What is seen of one crawl."""

    def __init__(
        self, board: Board, config: Config, open_desk: OpenDesk, directory: Path, world: World = REAL
    ) -> None:
        """What is remembered of it is in `directory`."""
        self.board, self.config, self._directory, self._world = board, config, directory, world
        try:
            kept = _understood(keeping.recalled(directory, config.crawl.name))
        except UNREADABLE as error:
            structlog.get_logger().warning("what was seen before cannot be read", why=repr(error))
            kept = _understood({})
        growth, self.history, self.chronicle, self.plans = kept
        self._open_desk = open_desk
        self._helpers: Mapping[str, HelperFacts] = {}
        """By name: what was last heard of them. Their sites may be slow, so no look waits for them."""
        self._watcher = Watcher(board, config, None, growth)
        self.seen: Overview | None = None
        self.looks = 0
        """Grows with what was seen."""
        self.trouble, self.away_since = "", 0.0
        """Why nothing can be seen now, and since when; "" and 0.0 while it can."""
        self.sign = Sign()
        self.look_times = seconds()
        self.found = Found()
        self.landscape: Landscape | None = None
        self.versions = dict.fromkeys(("tree", "plans", "languages", "hosts", "helpers"), 0)
        """Grow with what they are about."""
        self._speeds = Speeds()
        self._rows: dict[str, WatchedGatherer] = {}
        self._overview: Mapping[str, object] = {}
        self._watched_at = -boards.WATCHED_S
        self.stream = Stream(self._snapshot)

    @property
    def crawl(self) -> str:
        """Its name."""
        return self.config.crawl.name

    def now(self) -> float:
        """Unix time."""
        return self._world.now()

    def line(self) -> str:
        """How it is, in a line."""
        return self.trouble or (self.seen.line() if self.seen else "looking")

    def present(self) -> dict[tuple[str, ...], float]:
        """How many gatherers are there, and how many are silent."""
        view = self.seen.view if self.seen else View()
        return {("there",): len(view.present), ("silent",): len(view.absent)}

    # Looking

    async def run(self) -> None:
        """Look, hear and remember, again and again; what is remembered is kept in the end too."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._look_on)
                nursery.start_soon(self._hear_on)
                nursery.start_soon(self._ask_helpers_on)
                nursery.start_soon(self._keep_on)
        finally:
            self.keep()

    async def _look_on(self) -> None:
        while True:
            began = trio.current_time()
            await self._look()
            self.look_times.observe(trio.current_time() - began)
            self.sign.answered(trio.current_time())
            await trio.sleep_until(began + EVERY_S)

    async def _look(self) -> None:
        patience_s = _PATIENCE_S + 3 * self.config.member.heartbeat_s
        self.sign.answered(trio.current_time(), rest_s=patience_s + (0.0 if self.seen else _PATIENCE_S))
        trouble, seen = f"Redis has not answered for {duration(round(patience_s))}.", None
        with trio.move_on_after(patience_s):
            try:
                seen = await (self._watcher.look() if self.seen else self._watcher.look_twice())
                trouble = ""
            except TupleSpaceError as error:
                trouble = str(error)
            except UNREADABLE as error:
                trouble = f"{_UNREAD}: {error!r}."
        if seen is not None:
            try:
                await self._take_in(seen)
            except UNREADABLE as error:
                trouble = f"{_UNREAD}: {error!r}."
        self._note_reach(trouble)
        self._tell()

    def _note_reach(self, trouble: str) -> None:
        if trouble and not self.trouble:
            self.away_since = self.now()
            # What has been heard of helpers since may come from the same trouble.
            self._helpers = {each["helper"]: each for each in self.seen.helpers} if self.seen else {}
            said = trouble if trouble.startswith(_UNREAD) else f"Redis cannot be used: {trouble}"
            self.note("redis", "error", said)
        elif self.trouble and not trouble:
            self.away_since = 0.0
            is_read = self.trouble.startswith(_UNREAD)
            self.note("redis", "info", "All can be read again." if is_read else "Redis answers again.")
        self.trouble = trouble

    async def _take_in(self, seen: Overview) -> None:
        """It is what was seen last, unless some of it cannot be read."""
        before = self.seen
        if before is None:
            with trio.move_on_after(_PATIENCE_S):
                self._helpers = await self._ask_helpers(seen)
        rows = [self._helpers.get(each["helper"], each) for each in seen.helpers]
        seen = replace(seen, helpers=rows)
        epoch = seen.view.charter.epoch if seen.view.charter else 0
        if self.landscape is None or self.landscape.epoch != epoch:
            # Members may have gone on by the time it is there; the names are those of now.
            self.landscape = await trio.to_thread.run_sync(Landscape, seen.view, seen.view.charter)
            memory.give_back()
            self.versions["tree"] += 1
        if self.plans.compare(before.view if before else None, seen.view):
            self.versions["plans"] += 1
        if before is not None:
            events = self.chronicle.compare(before, seen)
            if events:
                self.stream.tell("events", {"events": [each._asdict() for each in reversed(events)]})
            self.versions["helpers"] += list(before.helpers) != list(seen.helpers)
        self._speeds.note(trio.current_time(), seen.view)
        self.seen = seen
        self.looks += 1

    def note(self, kind: str, level: str, sentence: str, who: str = "") -> None:
        """Something has happened that cannot be seen in the crawl."""
        event = self.chronicle.note(self.now(), kind, level, who, sentence)
        self.stream.tell("events", {"events": [event._asdict()]})

    async def _ask_helpers_on(self) -> None:
        while True:
            if self.seen is not None and not self.trouble:
                said = await self._ask_helpers(self.seen)
                if not self.trouble:
                    self._helpers = said
            await trio.sleep(EVERY_S)

    async def _ask_helpers(self, seen: Overview) -> Mapping[str, HelperFacts]:
        said = await helpers(self.config, seen.view.rulings, self._open_desk)
        return {each["helper"]: each for each in said}

    async def _hear_on(self) -> None:
        """Say that somebody watches, and hear what gatherers tell because of that."""
        while True:
            if not self.trouble:
                try:
                    await self._hear()
                except TupleSpaceError as error:
                    structlog.get_logger().debug("nothing is heard", why=str(error))
            await trio.sleep(HEAR_EVERY_S)

    async def _hear(self) -> None:
        if trio.current_time() - self._watched_at > boards.WATCHED_S / 3:
            await self.board.watch()
            self._watched_at = trio.current_time()
        pages, hosts = self.found.take_in(await self.board.told())
        if pages:
            newest = {"pages": pages[: -_PAGES_TOLD - 1 : -1], "in_all": len(self.found.pages)}
            self.stream.tell("pages", newest)
        if hosts:
            self.versions["hosts"] += 1
            self.stream.tell("hosts", {"changed": [self.host_row(each) for each in hosts[:_HOSTS_TOLD]]})
        if self.versions["languages"] != self.found.version:
            self.versions["languages"] = self.found.version

    # Remembering

    async def _keep_on(self) -> None:
        while True:
            await trio.sleep(KEEP_EVERY_S)
            self.keep()

    def keep(self) -> None:
        """Keep what a restart should find."""
        state = {
            "growth": self._watcher.growth.to_bytes(),
            "events": [list(each) for each in self.chronicle.events],
            "plans": self.plans.state,
            "recent": self.history.recent.state(),
            "day": self.history.day.state(),
        }
        keeping.keep(self._directory, self.crawl, state)

    # Telling

    def _tell(self) -> None:
        """Send what is new."""
        now = self.overview()
        if {**now, "at": 0} != self._overview:
            self._overview = {**now, "at": 0}
            self.stream.tell("overview", now)
        rows = {each["id"]: each for each in self.gatherers()}
        changed = [_difference(self._rows.get(each), row) for each, row in rows.items()]
        changed = [each for each in changed if len(each) > 1]
        gone = [each for each in self._rows if each not in rows]
        if changed or gone:
            self.stream.tell("gatherers", {"all": False, "changed": changed, "gone": gone})
        self._rows = rows
        self._add_point(now)
        self.stream.tell_if_new("changed", self.changed())

    def _add_point(self, now: CrawlOverview) -> None:
        if not self.history.is_due(self.now()):
            return
        totals: Mapping[str, float] = {}
        each: dict[str, dict[str, float]] = {}
        if self.seen is not None and not self.trouble:
            totals, rates = cast("Mapping[str, float]", now["totals"]), self.seen.rates
            for member in self.seen.view.present:
                values = {name: float(fact(member, name)) for name in _EACH}
                each[member.pulse.name] = values | {"pages_per_s": rates.get(member.id, 0.0)}
        self.stream.tell("history", {"point": self.history.add(self.now(), totals, each)})

    def _snapshot(self) -> Sequence[tuple[str, Any]]:
        return [
            ("overview", self.overview()),
            ("gatherers", {"all": True, "changed": self.gatherers(), "gone": []}),
            ("changed", self.changed()),
        ]

    # What can be asked for

    def changed(self) -> dict[str, int]:
        """Grows with each of what can be asked for."""
        versions = self.versions
        same = {"rates": versions["tree"], "countries": versions["languages"], "traffic": versions["hosts"]}
        return versions | same

    def gatherers(self) -> list[WatchedGatherer]:
        """What each gatherer says, by name."""
        if self.seen is None:
            return []
        members = self.seen.view.members.values()
        return [self.seen.gatherer(each) for each in sorted(members, key=lambda it: (it.pulse.name, it.id))]

    def overview(self) -> CrawlOverview:
        """The crawl on one screen."""
        reach: Reach = {
            "redis": not self.trouble,
            "sentence": self.trouble,
            "since": round(self.away_since, 3) or None,
        }
        return overview(self.crawl, reach, self.seen, self._speeds)

    def host_row(self, row: HostTold) -> HostSeen:
        """What is told of a host, with what operators have ruled about it."""
        delays = self.seen.view.rulings.delays if self.seen else {}
        delay_s = delays.get(host_prefix(row["host"].partition(":")[0])) if delays else None
        return {**row, "delay_s": delay_s}

    def traffic(self) -> Traffic:
        """URLs between gatherers."""
        view = self.seen.view if self.seen else View()
        names = {each.id: each.pulse.name for each in view.members.values() if each in view.expected}
        return self.found.traffic(names, {each.id: each.pulse.pending for each in view.members.values()})

    def helpers(self) -> list[TrustedHelper]:
        """Who is invited, and what gatherers think of them."""
        seen = self.seen
        if seen is None:
            return []

        def trust(helper: str) -> list[Trust]:
            rows = self.found.trust(helper)
            for each in seen.view.expected:
                who = fact(each, "barred") or ()
                if each.id in rows:
                    rows[each.id]["barred"] = helper in who
                elif helper in who:
                    name = each.pulse.name
                    rows[each.id] = {"gatherer": name, "consistent": 0, "wrong": 0, "barred": True}
            return list(rows.values())

        return [{**each, "trust": trust(each["helper"])} for each in seen.helpers]


def _understood(kept: Mapping[str, Any]) -> tuple[Tally | None, History, Chronicle, Plans]:
    """What was remembered, as it is used."""
    history = History()
    for name, series in (("recent", history.recent), ("day", history.day)):
        if name in kept:
            series.restore(kept[name])
    growth = Tally.from_bytes(kept["growth"]) if "growth" in kept else None
    return growth, history, Chronicle(kept.get("events", ())), Plans(kept.get("plans"))


def _difference(before: Mapping[str, Any] | None, now: Mapping[str, Any]) -> dict[str, Any]:
    """What is another value in a row than it was, and whose row it is."""
    if before is None:
        return dict(now)
    return {name: value for name, value in now.items() if name == "id" or before.get(name, now) != value}
