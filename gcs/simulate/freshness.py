"""How current copies stay: pages that change at very different rates, visited again by each of the policies.

A web of sites, each with parts that are superpages. How often a site changes is drawn between once a year
and once an hour, evenly on a scale of logarithms; a part differs from its site, and a page from its part,
by a log-normal factor. All copies were made in the time before, in a crawl that took as long as one round
of visits. Then a month passes, in which every policy has the same budget of visits. Nothing is known of any
page at its beginning but that it was fetched once.

The policies decide by the code that gatherers run (`gcs.core.revisits`). Beside them is what would be best
if all rates were known: worked out, and visited like that in the same web.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Final, cast

import numpy as np
import numpy.typing as npt

from gcs.core.revisits.course import Course, Courses, Seen
from gcs.core.revisits.freshness import best_intervals, freshness
from gcs.core.revisits.standing import Standing
from gcs.core.revisits.timetable import POLICIES, Policy, timetable
from gcs.simulate.report import Figure, Progress, Report, Series, Table, Value, counted

FloatArray = npt.NDArray[np.float64]

DAY_S: Final = 86_400.0
DAYS: Final = 30
FROM_DAY: Final = 10
SLOWEST: Final = 1 / (365 * DAY_S)
FASTEST: Final = 1 / 3600.0
TICK_S: Final = 1800.0
LEAST_S, MOST_S = TICK_S, 60 * DAY_S
_NEVER: Final = math.inf
BEST: Final = "best, all rates known"


@dataclass(frozen=True, slots=True)
class World:
    """Pages with when each changes, in seconds from the beginning of the month."""

    rates: FloatArray
    groups: Sequence[tuple[str, str, str]]
    changes: Sequence[Sequence[float]]
    degrees: FloatArray
    link_changes: FloatArray
    """C of a page when it changes."""
    fetched: FloatArray
    """When it was fetched before the month."""

    @classmethod
    def drawn(cls, pages: int, every_s: float, sigma: float, rng: np.random.Generator) -> World:
        """Sites of 50 pages in two parts, one of each kind that the docstring of the module tells of."""
        sites = rng.uniform(math.log(SLOWEST), math.log(FASTEST), -(-pages // 50))
        parts = np.repeat(sites, 2) + rng.normal(0, sigma, 2 * len(sites))
        rates = np.exp(np.repeat(parts, 25) + rng.normal(0, sigma, 25 * len(parts)))[:pages]
        groups = [("", f"site {page // 50}", f"part {page // 25}") for page in range(pages)]
        span_s = every_s + DAYS * DAY_S
        changes = [
            np.sort(rng.uniform(-every_s, DAYS * DAY_S, rng.poisson(rate * span_s))).tolist()
            for rate in rates
        ]
        degrees = rng.lognormal(3, 1, pages)
        return cls(rates, groups, changes, degrees, rng.uniform(0, 1, pages), -rng.uniform(0, every_s, pages))

    def next_change(self, page: int, at: float) -> float:
        """When a page changes after a time."""
        changes = self.changes[page]
        place = bisect_right(changes, at)
        return changes[place] if place < len(changes) else _NEVER


class Copies:
    """When copies are current, summed up over the days of the month."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._edges = np.arange(0, DAYS * DAY_S + 1, DAY_S)
        self._spans: list[tuple[float, float]] = []

    def was_current(self, page: int, since: float, until: float) -> bool:
        """A copy was made at a time, and replaced at another; whether it was current to the end."""
        change = self._world.next_change(page, since)
        begin, end = max(since, 0.0), min(until, change, DAYS * DAY_S)
        if end > begin:
            self._spans.append((begin, end))
        return change > until

    def by_day(self) -> FloatArray:
        """For each day, the share of copies that were current."""
        spans = np.array(self._spans)
        days = [
            np.clip(np.minimum(spans[:, 1], end) - np.maximum(spans[:, 0], start), 0, None).sum()
            for start, end in zip(self._edges[:-1], self._edges[1:], strict=True)
        ]
        return np.array(days) / (DAY_S * len(self._world.rates))


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one policy did."""

    by_day: FloatArray
    used: float
    """Visits, as a share of the budget."""

    @property
    def mean(self) -> float:
        """The freshness from the tenth day on."""
        return float(self.by_day[FROM_DAY:].mean())


def visited(world: World, policy: Policy, every_s: float) -> Outcome:
    """Visit a web for a month, as a policy says, with a budget that can be saved up for a day."""
    courses, copies = Courses(timetable(policy, every_s, LEAST_S, MOST_S)), Copies(world)
    known: list[Course] = []
    last = world.fetched.tolist()
    lines: dict[int, list[tuple[float, int]]] = {}

    def stand(page: int, standing: Standing) -> None:
        heappush(lines.setdefault(standing.grade, []), (standing.since, page))

    for page, groups in enumerate(world.groups):
        begun = courses.begin(groups, world.degrees[page], last[page])
        known.append(begun.course)
        stand(page, cast("Standing", begun.standing))
    per_tick = len(last) * TICK_S / every_s
    saved, visits = 0.0, 0
    for now in np.arange(TICK_S, DAYS * DAY_S + 1, TICK_S).tolist():
        saved = min(saved + per_tick, per_tick * DAY_S / TICK_S)
        heads = {grade: line[0][0] for grade, line in lines.items() if line}
        while saved >= 1 and (grade := courses.timetable.first(heads, now)) is not None:
            _, page = heappop(lines[grade])
            changed = not copies.was_current(page, last[page], now)
            after = courses.visited(
                known[page],
                world.groups[page],
                Seen.CHANGED if changed else Seen.UNCHANGED,
                now - last[page],
                now,
                degree=world.degrees[page],
                change=world.link_changes[page] if changed else 0.0,
            )
            last[page], known[page] = now, after.course
            stand(page, cast("Standing", after.standing))
            for touched in (grade, after.course.grade):
                if lines[touched]:
                    heads[touched] = lines[touched][0][0]
                else:
                    heads.pop(touched, None)
            saved -= 1
            visits += 1
    for page, at in enumerate(last):
        copies.was_current(page, at, _NEVER)
    return Outcome(copies.by_day(), visits * every_s / (len(last) * DAYS * DAY_S))


def visited_at_best(world: World, every_s: float, rng: np.random.Generator) -> tuple[Outcome, float]:
    """The same with the best intervals, and the freshness that they should give by the formula."""
    intervals = best_intervals(world.rates.tolist(), len(world.rates) / every_s)
    copies, visits = Copies(world), 0
    for page, interval_s in enumerate(intervals):
        # As if it had always been so: the last visit before the month was anywhere in an interval before it.
        if math.isinf(interval_s):
            continue
        at = -rng.uniform(0, interval_s)
        if at < -every_s:  # what it was like before is not known
            at = world.fetched[page]
        while at < DAYS * DAY_S:
            copies.was_current(page, at, at + interval_s)
            at += interval_s
            visits += at < DAYS * DAY_S
    formula = np.mean([freshness(rate, t) for rate, t in zip(world.rates.tolist(), intervals, strict=True)])
    return Outcome(copies.by_day(), visits * every_s / (len(intervals) * DAYS * DAY_S)), float(formula)


def run(
    *,
    seed: int,
    progress: Progress,
    pages: int = 2_500,
    every: float = 5.0,
    sigma: float = 1.0,
    repeats: int = 10,
) -> Report:
    """Visit so many pages again, each once in `every` days on average, in several webs."""
    every_s, tick = every * DAY_S, counted(progress, repeats * (len(POLICIES) + 1))
    outcomes: dict[str, list[Outcome]] = {name: [] for name in (*POLICIES, BEST)}
    formulas: list[float] = []
    for number in range(repeats):
        rng = np.random.default_rng([seed, number])
        world = World.drawn(pages, every_s, sigma, rng)
        for policy in POLICIES:
            outcomes[policy].append(visited(world, policy, every_s))
            tick()
        best, formula = visited_at_best(world, every_s, rng)
        outcomes[BEST].append(best)
        formulas.append(formula)
        tick()
    return Report(
        name="freshness",
        title="How current copies stay, by policy of revisits",
        parameters={"seed": seed, "pages": pages, "every": every, "sigma": sigma, "repeats": repeats},
        tables=(_table(outcomes, formulas), _webs(outcomes, formulas)),
        figures=(_figure(outcomes, formulas),),
        findings=_findings(outcomes, formulas),
    )


def _means(outcomes: Sequence[Outcome]) -> FloatArray:
    return np.array([each.mean for each in outcomes])


def _table(outcomes: dict[str, list[Outcome]], formulas: Sequence[float]) -> Table:
    rows: list[Sequence[Value]] = []
    best = np.array(formulas)
    for name, found in outcomes.items():
        means, used = _means(found), float(np.mean([each.used for each in found]))
        shares = means / best
        rows.append(
            (
                name,
                float(means.mean()),
                float(means.std()),
                float(shares.mean()),
                float(shares.min()),
                used,
            )
        )
    rows.append(("best, by the formula", float(best.mean()), float(best.std()), 1.0, 1.0, 1.0))
    columns = ("policy", "freshness", "spread", "of the best", "least of the best", "of the budget")
    return Table(f"Days {FROM_DAY} to {DAYS}, {len(formulas)} webs", columns, rows)


def _webs(outcomes: dict[str, list[Outcome]], formulas: Sequence[float]) -> Table:
    rows = [
        (number + 1, *(outcomes[name][number].mean for name in outcomes), formula)
        for number, formula in enumerate(formulas)
    ]
    return Table("Web by web", ("web", *outcomes, "by the formula"), rows)


def _figure(outcomes: dict[str, list[Outcome]], formulas: Sequence[float]) -> Figure:
    days = [day + 0.5 for day in range(DAYS)]
    lines = []
    for name, found in outcomes.items():
        courses = np.array([each.by_day for each in found])
        lines.append(Series(name, days, courses.mean(axis=0).tolist(), courses.std(axis=0).tolist()))
    lines.append(Series("best, by the formula", [0, DAYS], [float(np.mean(formulas))] * 2))
    return Figure("Copies that are current", "day", "share", lines)


def _findings(outcomes: dict[str, list[Outcome]], formulas: Sequence[float]) -> list[str]:
    best, adaptive = np.array(formulas), _means(outcomes["adaptive"])
    shares = adaptive / best
    ahead = sum(
        all(adaptive[number] > outcomes[other][number].mean for other in ("uniform", "anansi"))
        for number in range(len(formulas))
    )
    return [
        f"Adaptive comes to {shares.mean():.1%} of the best possible, at least to {shares.min():.1%}.",
        f"It is ahead of both others in {ahead} of {len(formulas)} webs.",
        "Anansi goes by links: how many there are, and how many change; here that says nothing of rates.",
    ]
