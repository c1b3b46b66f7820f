"""The crawl on one screen, as the page shows it: one object, made once a second."""

from __future__ import annotations

from typing import Final

import gcs
from gcs.board import Member
from gcs.core.rulings import ALL
from gcs.gatherer.tally import Pace
from gcs.monitor.outlook import outlook, sentence
from gcs.monitor.shapes.crawl import Condition, CrawlOverview, Paused, PlanInForce, Reach
from gcs.operate.looking import View, fact
from gcs.operate.overview import Overview


class Speeds:
    """How fast the counts of all gatherers grow, of late."""

    _COUNTED: Final = ("bytes", "failed", "done")

    def __init__(self) -> None:
        self._paces: dict[str, Pace] = {}
        self._before: dict[str, dict[str, int]] = {}
        """By gatherer: its counts in the last look."""
        self._grown = dict.fromkeys(self._COUNTED, 0)

    def note(self, now: float, view: View) -> None:
        """Who was not there in the look before has not grown, nor has a count that falls."""
        seen = {member.id: self._counts(member) for member in view.present}
        for each, counts in seen.items():
            before = self._before.get(each, counts)
            for name, value in counts.items():
                self._grown[name] += max(0, value - before[name])
        self._before = seen
        for name, grown in self._grown.items():
            self._paces.setdefault(name, Pace(now)).note(now, grown)

    def _counts(self, member: Member) -> dict[str, int]:
        counts = {name: int(fact(member, name)) for name in self._COUNTED}
        return counts | {"done": counts["done"] + int(fact(member, "dropped"))}

    def __getitem__(self, name: str) -> float:
        """By how much one grows in a second."""
        return self._paces[name].recent if name in self._paces else 0.0


def overview(crawl: str, reach: Reach, seen: Overview | None, speeds: Speeds) -> CrawlOverview:
    """All of it; what was seen last if Redis is away, as `reach` says."""
    condition = _NOTHING if seen is None else _condition(seen, speeds)
    return {"crawl": crawl, "version": gcs.__version__, "reach": reach, **condition}


def _condition(seen: Overview, speeds: Speeds) -> Condition:
    view, totals = seen.view, seen.totals
    resting = sum(int(fact(each, "resting")) for each in view.present)
    return {
        "at": round(view.at, 3),
        "state": seen.condition.state.value,
        "sentence": sentence(
            seen.condition, totals, len(view.present), resting, finished_at=view.finished_at
        ),
        "why": seen.condition.why,
        "finished_at": None if view.returns else view.finished_at or None,
        "next_visit_at": view.next_visit_at,
        "paused": _paused(seen),
        "resting_hosts": resting,
        "totals": {
            **totals,
            "bytes_per_s": round(speeds["bytes"], 1),
            "failed_per_s": round(speeds["failed"], 3),
        },
        "progress": outlook(totals, seen.progress, speeds["done"]),
        "alarms": list(seen.alarms),
        "gatherers": {
            "present": len(view.present),
            "absent": len(view.absent),
            "paused": sum(view.rulings.is_paused(each.pulse.name) for each in view.present),
        },
        "helpers": {
            "present": sum(bool(each["present"]) for each in seen.helpers),
            "invited": len(seen.helpers),
        },
        "plan": _plan(seen),
    }


_NOTHING: Final[Condition] = {
    "at": None,
    "state": "unknown",
    "sentence": sentence(None, {}, 0, 0),
    "why": "",
    "finished_at": None,
    "next_visit_at": None,
    "paused": [],
    "resting_hosts": 0,
    "totals": None,
    "progress": None,
    "alarms": [],
    "gatherers": {"present": 0, "absent": 0, "paused": 0},
    "helpers": {"present": 0, "invited": 0},
    "plan": None,
}
"""The rest of an overview before anything was seen."""


def _paused(seen: Overview) -> list[Paused]:
    rulings = seen.view.rulings
    found: list[Paused] = []
    for who in sorted(rulings.paused):
        by, at = rulings.paused_by.get(who, ("", 0.0))
        found.append({"who": "all" if who == ALL else who, "by": by, "since": at or None})
    return found


def _plan(seen: Overview) -> PlanInForce | None:
    charter = seen.view.charter
    if charter is None:
        return None
    longest = max(charter.forecast.get("times", {}).values(), default=0.0)
    bound = charter.forecast.get("bound", 0.0)
    return {
        "epoch": charter.epoch,
        "at": charter.history[-1].at if charter.history else None,
        "reason": charter.reason,
        "strategy": charter.strategy,
        "over_bound": round(longest / bound, 4) if bound > 0 else None,
    }
