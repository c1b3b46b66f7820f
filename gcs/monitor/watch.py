"""Looks at the crawl once a second, for all who watch it, and remembers what they may ask for.

While Redis is away what was seen last stays, and it is said since when. Gatherers that are down are seen by
their silence; nothing here waits for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import trio

import gcs
from gcs.board import Board
from gcs.config import Config
from gcs.core.vitals import Sign
from gcs.helper.desks import OpenDesk
from gcs.monitor.outlook import outlook, sentence
from gcs.monitor.stream import Stream
from gcs.operate.looking import fact
from gcs.operate.overview import Overview, Watcher, gatherer_facts
from gcs.settings import duration
from gcs.world import REAL, World
from tuplespace import TupleSpaceError

EVERY_S: Final = 1.0
_PATIENCE_S: Final = 3.0
"""Redis may take so long for a look before it is said to be away, beside what gatherers need to be heard."""
UNKNOWN: Final = "unknown"


class Watch:
    """What is seen of one crawl."""

    def __init__(self, board: Board, config: Config, open_desk: OpenDesk, world: World = REAL) -> None:
        self._config, self._world = config, world
        self._watcher = Watcher(board, config, open_desk)
        self.seen: Overview | None = None
        self.trouble, self.away_since = "", 0.0
        """Why nothing can be seen now, and since when; "" and 0.0 while it can."""
        self.sign = Sign()
        self._gatherers: dict[str, dict[str, Any]] = {}
        self._overview: dict[str, Any] = {}
        self.stream = Stream(self._snapshot)

    @property
    def crawl(self) -> str:
        """Its name."""
        return self._config.crawl.name

    def now(self) -> float:
        """Unix time."""
        return self._world.now()

    def line(self) -> str:
        """How it is, in a line."""
        return self.trouble or (self.seen.line() if self.seen else "looking")

    async def run(self) -> None:
        """Look again and again."""
        while True:
            began = trio.current_time()
            await self._look()
            self.sign.answered(trio.current_time())
            await trio.sleep_until(began + EVERY_S)

    async def _look(self) -> None:
        patience_s = _PATIENCE_S + 3 * self._config.member.heartbeat_s
        self.sign.answered(trio.current_time(), rest_s=patience_s)
        trouble = f"Redis has not answered for {duration(round(patience_s))}."
        with trio.move_on_after(patience_s):
            try:
                self.seen = await (self._watcher.look() if self.seen else self._watcher.look_twice())
                trouble = ""
            except TupleSpaceError as error:
                trouble = str(error)
        if trouble and not self.trouble:
            self.away_since = self._world.now()
        self.trouble, self.away_since = trouble, self.away_since if trouble else 0.0
        self._tell()

    def _tell(self) -> None:
        """Send what is new."""
        overview = self.overview()
        if {**overview, "at": 0} != {**self._overview, "at": 0}:
            self.stream.tell("overview", overview)
        self._overview = overview
        rows = {each["id"]: each for each in self.gatherers()}
        changed = [row for each, row in rows.items() if self._gatherers.get(each) != row]
        gone = [each for each in self._gatherers if each not in rows]
        if changed or gone:
            self.stream.tell("gatherers", {"all": False, "changed": changed, "gone": gone})
        self._gatherers = rows

    def _snapshot(self) -> Sequence[tuple[str, Any]]:
        return [
            ("overview", self.overview()),
            ("gatherers", {"all": True, "changed": self.gatherers(), "gone": []}),
        ]

    # What can be asked for

    def gatherers(self) -> list[dict[str, Any]]:
        """What each gatherer says, by name."""
        seen = self.seen
        if seen is None:
            return []
        return [
            {**gatherer_facts(seen.view, each), "pages_per_s": round(seen.rates.get(each.id, 0.0), 3)}
            for each in sorted(seen.view.members.values(), key=lambda it: (it.pulse.name, it.id))
        ]

    def overview(self) -> dict[str, Any]:
        """The crawl on one screen."""
        seen = self.seen
        reach = {
            "redis": not self.trouble,
            "sentence": self.trouble,
            "since": round(self.away_since, 3) or None,
        }
        top: dict[str, Any] = {"crawl": self._config.crawl.name, "version": gcs.__version__, "reach": reach}
        if seen is None:
            return top | dict(_nothing())
        view, totals = seen.view, seen.totals
        resting = sum(int(fact(each, "resting")) for each in view.present)
        return top | {
            "at": round(view.at, 3),
            "state": seen.condition.state.value,
            "sentence": sentence(seen.condition, totals, len(view.present), resting),
            "why": seen.condition.why,
            "finished_at": None,
            "paused": [{"who": who, "by": "", "since": None} for who in sorted(view.rulings.paused)],
            "resting_hosts": resting,
            "totals": totals | {"bytes_per_s": 0.0, "failed_per_s": 0.0},
            "progress": outlook(totals, seen.progress, totals["pages_per_s"]),
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


def _nothing() -> Mapping[str, Any]:
    """The rest of an overview before anything was seen."""
    return {
        "at": 0.0,
        "state": UNKNOWN,
        "sentence": sentence(None, {}, 0, 0),
        "why": "",
        "finished_at": None,
        "paused": [],
        "resting_hosts": 0,
        "totals": None,
        "progress": None,
        "alarms": [],
        "gatherers": {"present": 0, "absent": 0, "paused": 0},
        "helpers": {"present": 0, "invited": 0},
        "plan": None,
    }


def _plan(seen: Overview) -> dict[str, Any] | None:
    charter = seen.view.charter
    if charter is None:
        return None
    longest = max(charter.forecast.get("times", {}).values(), default=0.0)
    bound = charter.forecast.get("bound", 0.0)
    made = charter.history[-1] if charter.history else None
    return {
        "epoch": charter.epoch,
        "at": made.at if made else None,
        "reason": charter.reason,
        "strategy": charter.strategy,
        "over_bound": round(longest / bound, 4) if bound > 0 else None,
    }
