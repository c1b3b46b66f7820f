"""The last plans: why, what moved, what each gatherer had left before and was to have after.

A charter tells what its own plan promises, and of those before only that they were made. What a monitor has
seen of them it keeps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from gcs.core.holdings import Charter, Made
from gcs.core.reasons import in_words
from gcs.operate.looking import View, fact

MOST: Final = 30
Row = dict[str, Any]


class Plans:
    """Plans by epoch."""

    def __init__(self, seen: Mapping[int, Row] | None = None) -> None:
        self._seen: dict[int, Row] = dict(seen or {})

    @property
    def state(self) -> Mapping[int, Row]:
        """What is kept."""
        return self._seen

    def compare(self, before: View | None, now: View) -> bool:
        """Note a new plan, and how gatherers were before it; says whether there is one."""
        charter = now.charter
        if charter is None or charter.epoch in self._seen:
            return False
        is_new = before is not None and (before.charter is None or before.charter.epoch < charter.epoch)
        self._seen[charter.epoch] = _row(charter, now, before if is_new else None)
        for epoch in sorted(self._seen)[:-MOST]:
            del self._seen[epoch]
        return True

    def shown(self, charter: Charter | None) -> list[Row]:
        """The newest first; of those that were not seen, what the charter tells."""
        made = {each.epoch: {**each._asdict(), **_UNSEEN} for each in (charter.history if charter else ())}
        rows = ({**made.get(epoch, {}), **self._seen.get(epoch, {})} for epoch in self._epochs(made))
        return [{**row, "because": in_words(row.get("reason", ""))} for row in rows]

    def _epochs(self, made: Mapping[int, Row]) -> list[int]:
        return sorted({*made, *self._seen}, reverse=True)[:MOST]


_UNSEEN: Final[Mapping[str, Any]] = {
    "strategy": "",
    "method": "",
    "bound_s": None,
    "longest_s": None,
    "over_bound": None,
    "links_cut": None,
    "superpages": None,
    "times": [],
    "moves": [],
}


def _row(charter: Charter, now: View, before: View | None) -> Row:
    forecast = charter.forecast
    times = {each: float(seconds) for each, seconds in forecast.get("times", {}).items()}
    bound, longest = float(forecast.get("bound", 0.0)), max(times.values(), default=0.0)
    moves = Counter((now.name(a), now.name(b)) for _, _, a, b in charter.sources.changes(charter.owners))
    made = charter.history[-1] if charter.history else _unrecorded(charter, now.at)
    return made._asdict() | {
        "strategy": charter.strategy,
        "method": forecast.get("method", ""),
        "bound_s": round(bound, 3),
        "longest_s": round(longest, 3),
        "over_bound": round(longest / bound, 4) if bound > 0 else None,
        "links_cut": forecast.get("cut_links"),
        "superpages": forecast.get("superpages"),
        "times": [
            {"gatherer": charter.members.get(each, now.name(each)), "after_s": round(seconds, 3)}
            | _before(each, before)
            for each, seconds in sorted(times.items(), key=lambda item: now.name(item[0]))
        ],
        "moves": [
            {"from": source or None, "to": to, "ranges": count}
            for (source, to), count in sorted(moves.items())
        ],
    }


def _unrecorded(charter: Charter, at: float) -> Made:
    """A plan of which nobody has noted when it was made."""
    return Made(charter.epoch, at, charter.reason, len(charter.members), 0, 0)


def _before(gatherer: str, before: View | None) -> Row:
    member = before.members.get(gatherer) if before else None
    if member is None:
        return {"before_s": None, "before_queued": None}
    return {"before_s": float(fact(member, "remaining_s")), "before_queued": int(fact(member, "queued"))}
