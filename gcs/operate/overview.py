"""A crawl on one screen: how it is, who works, who helps, what was planned, and what somebody should look at.

One look tells how things are. What it cannot tell, how fast pages come of late and how discovery slows down,
a `Watcher` learns by looking again and again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, cast

import trio

from gcs.board import Board, Member
from gcs.config import Config
from gcs.core.estimate import Progress
from gcs.core.holdings import Made
from gcs.core.reasons import in_words
from gcs.core.rulings import ALL, FOR_GOOD, Rulings
from gcs.gatherer.statistics import Statistics
from gcs.gatherer.tally import Pace, Tally, size
from gcs.helper.desks import OpenDesk
from gcs.operate.alarms import alarms
from gcs.operate.asking import counted, table
from gcs.operate.condition import Condition, condition
from gcs.operate.facts import (
    ForecastFacts,
    GathererFacts,
    HelperFacts,
    PlanFacts,
    PlanMade,
    ProgressFacts,
    RulingFacts,
    StatusFacts,
    SuperpageFacts,
    Totals,
    WatchedGatherer,
)
from gcs.operate.helping import helpers, unasked
from gcs.operate.looking import Looker, View, fact
from gcs.operate.ownership import superpages_of
from gcs.operate.parts import named
from gcs.settings import duration

_SUMS: Final = (
    "pages",
    "bytes",
    "queued",
    "under_way",
    "done",
    "dropped",
    "failed",
    "outbox",
    "lent",
    "helped",
)
_TOP: Final = 10
_MANY: Final = 100_000
_ESTIMATE_EVERY_S: Final = 5.0
"""How far it is takes some time to say, and changes slowly."""


@dataclass(frozen=True, slots=True)
class Overview:
    """What there is to say at a moment."""

    crawl: str
    view: View
    condition: Condition
    alarms: Sequence[str] = ()
    rates: Mapping[str, float] = field(default_factory=dict)
    """Pages per second of those that are there, by id."""
    helpers: Sequence[HelperFacts] = ()
    superpages: Sequence[SuperpageFacts] = ()
    """Those with the longest queues as the last plan was made."""
    progress: Progress | None = None

    @property
    def totals(self) -> Totals:
        """All gatherers together."""
        expected = self.view.expected
        sums = {name: sum(int(fact(each, name)) for each in expected) for name in _SUMS}
        return cast("Totals", {**sums, "pages_per_s": round(sum(self.rates.values()), 3)})

    @property
    def plans(self) -> list[Made]:
        """The last ones, the newest first."""
        return list(reversed(self.view.charter.history)) if self.view.charter else []

    def facts(self) -> StatusFacts:
        """Everything, for programs."""
        return {
            "crawl": self.crawl,
            "at": round(self.view.at, 3),
            "state": self.condition.state.value,
            "why": self.condition.why,
            "next_visit_at": self.view.next_visit_at,
            "alarms": list(self.alarms),
            "totals": self.totals,
            "progress": _progress_facts(self.totals, self.progress),
            "plan": plan_facts(self.view),
            "plans": [cast("PlanMade", made._asdict()) for made in self.plans],
            "rulings": ruling_facts(self.view.rulings),
            "superpages": list(self.superpages),
            "helpers": list(self.helpers),
            "gatherers": [self.gatherer(each) for each in self.view.members.values()],
        }

    def gatherer(self, member: Member) -> WatchedGatherer:
        """What a gatherer says, and how fast pages have come of late."""
        rate = round(self.rates.get(member.id, 0.0), 3)
        return {**gatherer_facts(self.view, member), "pages_per_s": rate}

    def head(self) -> list[str]:
        """How it is, in a few lines."""
        totals = self.totals
        return [
            f"{totals['pages']:,} pages, {size(totals['bytes'])}, {totals['pages_per_s']:,.1f} pages/s; "
            + far_along(totals, self.progress),
            counts_line(totals),
        ]

    def plan_rows(self) -> list[str]:
        """The last plans, a line each."""
        return [
            f"{datetime.fromtimestamp(made.at, UTC):%m-%d %H:%M:%S}  "
            f"{counted(made.ranges, 'range')} with about {made.urls:,} URLs moved, "
            f"{counted(made.gatherers, 'gatherer')}: {in_words(made.reason)}"
            for made in self.plans
        ]

    def helper_rows(self) -> list[str]:
        """Those that are there first."""
        there = sorted(self.helpers, key=lambda each: not each["present"])
        rows = [
            [
                each["helper"],
                each["site"],
                "there" if each["present"] else "away",
                each["pages"],
                each["says"],
            ]
            for each in there
        ]
        return table(["helper", "site", "is", "pages", "says"], rows) if rows else []

    def superpage_rows(self) -> list[str]:
        """Those with the longest queues."""
        rows = [
            [short(each["queued"]), ", ".join(each["owners"]), each["superpage"]] for each in self.superpages
        ]
        return table(["queued", "owner", "superpage, as of the last plan"], rows) if rows else []

    def gatherer_rows(self, width: int) -> list[str]:
        """A table of the gatherers that fits."""
        head = ["gatherer", "standing", "p/s", "queued", "T", "done", "failed", "outbox", "lent", "helped"]
        most = max(8, width - 72)
        rows = [
            [
                _clipped(each.pulse.name, most),
                self.view.standing(each),
                f"{self.rates.get(each.id, 0.0):.1f}",
                *(short(fact(each, "queued")), _time(fact(each, "remaining_s"))),
                *(short(int(fact(each, name))) for name in ("done", "failed", "outbox", "lent", "helped")),
            ]
            for each in self.view.expected
        ]
        return table(head, rows) if rows else ["no gatherer is there"]

    def line(self) -> str:
        """All of it in one line, for a log."""
        totals = self.totals
        return " · ".join(
            [
                f"{datetime.fromtimestamp(self.view.at, UTC):%H:%M:%S}",
                str(self.condition),
                f"{totals['pages']:,} pages",
                f"{totals['pages_per_s']:,.1f}/s",
                f"{counted(len(self.view.present), 'gatherer')}",
                *(f"ALARM: {each}" for each in self.alarms),
            ]
        )


class Watcher:
    """Looks again and again, and remembers what one look cannot tell."""

    def __init__(
        self, board: Board, config: Config, open_desk: OpenDesk | None, growth: Tally | None = None
    ) -> None:
        """Without `open_desk` no helper is asked. `growth` is how the crawl has grown as far as was seen."""
        self._config, self._open_desk = config, open_desk
        self._looker = Looker(board, config)
        self._paces: dict[str, tuple[int, Pace]] = {}
        """By gatherer: its pages when it was first seen, and how fast more have come."""
        self.growth = growth or Tally()
        self._progress: Progress | None = None
        self._estimated_at = -_ESTIMATE_EVERY_S
        self._superpages: tuple[int, list[SuperpageFacts]] = (0, [])

    async def look(self) -> Overview:
        """One more look."""
        began = trio.current_time()
        view = await self._looker.look()
        return await self._seen(view, trio.current_time() - began)

    async def look_twice(self) -> Overview:
        """The first one, which has to see who lives."""
        return await self._seen(await self._looker.look_twice(), 0.0)

    async def _seen(self, view: View, look_s: float) -> Overview:
        forget_after_s = view.config.member.forget_after_s
        self._note(view)
        return Overview(
            crawl=self._config.crawl.name,
            view=view,
            condition=condition(view, forget_after_s=forget_after_s),
            alarms=alarms(view, forget_after_s=forget_after_s, look_s=look_s),
            rates={each.id: self._rate(each) for each in view.present},
            helpers=await self._helpers(view.rulings),
            superpages=await self._longest(view),
            progress=self._estimate(),
        )

    async def _helpers(self, rulings: Rulings) -> list[HelperFacts]:
        if self._open_desk is None:
            return unasked(rulings)
        return await helpers(self._config, rulings, self._open_desk)

    def _estimate(self) -> Progress | None:
        """How far it is, as of a few seconds ago."""
        now = trio.current_time()
        if now - self._estimated_at >= _ESTIMATE_EVERY_S:
            self._estimated_at = now
            self._progress = self.growth.progress() if len(self.growth.history) > 1 else None
        return self._progress

    def _note(self, view: View) -> None:
        now = trio.current_time()
        for each in view.present:
            pages = int(fact(each, "pages"))
            if each.id not in self._paces or pages < self._paces[each.id][0]:
                self._paces[each.id] = (pages, Pace(now))
            before, pace = self._paces[each.id]
            pace.note(now, pages - before)
        done = sum(int(fact(each, "done")) + int(fact(each, "dropped")) for each in view.expected)
        known = done + sum(int(fact(each, "queued")) for each in view.expected)
        # Rows that change hands are counted by both or by nobody for a moment.
        before_done, before_known = self.growth.history[-1] if self.growth.history else (0, 0)
        if known >= done >= before_done and known >= before_known:
            self.growth.grown(done, known)

    def _rate(self, member: Member) -> float:
        """Of late if it was watched, else since the last plan."""
        if member.pulse.quiet:
            return 0.0
        _, pace = self._paces[member.id]
        return pace.recent if pace.is_known else float(fact(member, "rate"))

    async def _longest(self, view: View) -> list[SuperpageFacts]:
        charter = view.charter
        if charter is None:
            return []
        if charter.epoch != self._superpages[0]:
            # Thousands of superpages take a while to read.
            pages = await trio.to_thread.run_sync(superpages_of, view, charter)
            longest = sorted(pages, key=lambda each: -each["queued"])[:_TOP]
            self._superpages = (charter.epoch, [each for each in longest if each["queued"]])
        return self._superpages[1]


# Parts of it that other commands show too


def gatherer_facts(view: View, member: Member) -> GathererFacts:
    """What a gatherer says, with names for ids."""
    pulse = member.pulse
    statistics = cast("Statistics", pulse.facts)
    return {
        "name": pulse.name,
        "id": member.id,
        "standing": view.standing(member),
        "heard_s_ago": round(view.silence_s(member), 1),
        "epoch": pulse.epoch,
        "rulings": pulse.rulings,
        "quiet": pulse.quiet,
        "leaving": {view.name(to): count for to, count in pulse.leaving.items()},
        "coming": {view.name(sender): count for sender, count in pulse.coming.items()},
        **statistics,
    }


def counts_line(totals: Totals) -> str:
    """Where URLs stand."""
    return (
        f"{totals['queued']:,} queued, {totals['under_way']:,} of them under way; {totals['done']:,} done, "
        f"{totals['dropped']:,} dropped; {totals['outbox']:,} on their way to other gatherers"
    )


def far_along(totals: Mapping[str, Any], progress: Progress | None) -> str:
    """How much of what is known is done and, if it can be said, how much of all."""
    done = totals["done"] + totals["dropped"]
    known = done + totals["queued"]
    text = f"{done / known:.0%} of the known URLs done" if known else "nothing is known yet"
    if progress is None or progress.share is None or progress.high is None or not totals["queued"]:
        return text
    least, most = progress.shares
    return f"{text}, about {progress.share:.0%} of all ({least:.0%}–{min(most, 1):.0%})"


def _progress_facts(totals: Totals, progress: Progress | None) -> ProgressFacts:
    done = totals["done"] + totals["dropped"]
    return {
        "done": done,
        "known": done + totals["queued"],
        "expected": progress.total if progress else None,
        "expected_low": progress.low if progress else None,
        "expected_high": progress.high if progress else None,
    }


def plan_facts(view: View) -> PlanFacts | None:
    """The plan in force."""
    charter = view.charter
    if charter is None:
        return None
    return {
        "epoch": charter.epoch,
        "reason": charter.reason,
        "strategy": charter.strategy,
        "ranges": len(charter.owners),
        "members": dict(charter.members),
        "forecast": cast("ForecastFacts", charter.forecast),
    }


def plan_line(view: View) -> str:
    """The plan in force, in a line."""
    charter = view.charter
    if charter is None:
        return "no plan yet"
    return (
        f"plan {charter.epoch}, since {in_words(charter.reason)}; strategy {charter.strategy}, "
        f"{counted(len(charter.members), 'gatherer')}, {counted(len(charter.owners), 'range')}"
    )


def ruling_facts(rulings: Rulings) -> RulingFacts:
    """What is ruled."""
    return {
        "epoch": rulings.epoch,
        "paused": sorted(rulings.paused),
        "resting": {named(prefix): until or None for prefix, until in sorted(rulings.resting.items())},
        "barred": sorted(map(named, rulings.barred)),
        "delays": {named(prefix): delay_s for prefix, delay_s in sorted(rulings.delays.items())},
        "paused_by": {who: {"by": by, "at": at} for who, (by, at) in sorted(rulings.paused_by.items())},
        "settings": {who: dict(values) for who, values in sorted(rulings.settings.items())},
    }


def ruling_lines(rulings: Rulings) -> list[str]:
    """What is ruled, a line each."""
    return [
        *("the crawl is paused" if who == ALL else f"{who} is paused" for who in sorted(rulings.paused)),
        *(f"{named(prefix)} {_rest(until)}" for prefix, until in sorted(rulings.resting.items())),
        *(f"{named(prefix)} is blocked" for prefix in sorted(rulings.barred)),
        *(
            f"{named(prefix)} is asked at most every {duration(delay_s)}"
            for prefix, delay_s in sorted(rulings.delays.items())
        ),
        *(
            f"{name}={value} is set for {'all' if who == ALL else who}"
            for who, values in sorted(rulings.settings.items())
            for name, value in sorted(values.items())
        ),
    ]


def _rest(until: float) -> str:
    if until == FOR_GOOD:
        return "is paused"
    return f"is blocked until {datetime.fromtimestamp(until, UTC):%Y-%m-%d %H:%M} UTC"


def short(number: float) -> str:
    """A number in five characters or so."""
    if number < _MANY:
        return f"{number:.0f}"
    for unit in "kMG":
        number /= 1000
        if number < 999.5 or unit == "G":
            break
    return f"{number:.1f}{unit}" if number < 10 else f"{number:.0f}{unit}"


def _time(seconds: float) -> str:
    """A length of time, to the two largest units."""
    whole = round(seconds)
    for above, step in ((86_400, 3_600), (3_600, 60)):
        if whole >= above:
            whole -= whole % step
            break
    return duration(whole)


def _clipped(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
