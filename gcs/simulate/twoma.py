"""000, figures 2 to 4: TWOMA against a uniform distribution, in a static and in a changing world.

The world is that of 000, section 3.1. Each site has a perfect arm, which the automaton is not told: it takes
its size (mean 1) there, and `slowdown` times as long elsewhere, with noise on every access. The paper gives
neither number; its "by half" needs a slowdown of 15/7 or more with 8 arms, as the uniform distribution's mean
is (1 + 7s)/8. The y-axis is the sum over all sites.

The last table shows what the paper does not: where TWOMA does not work, and why.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from gcs.core.automata import FloatArray, Twoma, dealt
from gcs.simulate.report import Figure, Progress, Report, Series, Table, Value, counted, verdict
from gcs.simulate.sites import World, equal_sites


def expected_runs(sites: int, arms: int, states: int) -> float:
    """The mean number of runs until the last site is in place, if every misplaced site is always penalised.

    A misplaced site in state k has made t − k hops after t runs, each to its perfect arm with probability
    1/(arms − 1), for it enters at the boundary and is penalised at once. The last site is the maximum of all.
    """
    miss = 1 - 1 / (arms - 1)
    total, run = 0.0, 0
    while True:
        misplaced = (1 - 1 / arms) * sum(miss ** max(0, run - k) for k in range(states)) / states
        late = 1 - (1 - misplaced) ** sites
        total, run = total + late, run + 1
        if late < 1e-9:
            return total


@dataclass(frozen=True, slots=True)
class Settings:
    """What all figures have in common."""

    seed: int
    sites: int
    arms: int
    states: int
    repeats: int
    slowdown: float
    noise: float

    def rngs(self, figure: int) -> list[np.random.Generator]:
        """A random source for each repeat of a figure, independent of all others."""
        return [np.random.default_rng((self.seed, figure, repeat)) for repeat in range(self.repeats)]


@dataclass(frozen=True, slots=True)
class Course:
    """Total durations, a row per repeat and a column per run."""

    twoma: FloatArray
    uniform: FloatArray

    @property
    def ratio(self) -> FloatArray:
        """TWOMA's part of uniform's duration."""
        return self.twoma / self.uniform


def run(
    *,
    seed: int,
    progress: Progress,
    sites: int = 10_000,
    arms: int = 8,
    states: int = 5,
    repeats: int = 10,
    runs: int = 100,
    period: int = 100,
    changes: int = 4,
    slowdown: float = 3.0,
    noise: float = 0.2,
    sigma: float = 1.0,
    arm_counts: Sequence[int] = (2, 4, 8, 16),
    site_counts: Sequence[int] = (100, 1_000, 10_000),
) -> Report:
    """All figures of 000's section 4, and the limits of TWOMA; `sigma` is that of the log-normal sizes."""
    common = Settings(seed, sites, arms, states, repeats, slowdown, noise)
    tick = counted(progress, repeats * (2 + len(arm_counts) * len(site_counts) + 4))
    static = _course(common, 2, runs, None, tick)
    dynamic = _course(common, 3, period * (changes + 1) - 1, period, tick)
    needed = [
        _needed(common, arms_, sites_, index, tick)
        for index, (arms_, sites_) in enumerate((a, s) for a in arm_counts for s in site_counts)
    ]
    limits = _limits(common, runs, sigma, tick)
    returns = _returns(dynamic.ratio, period)
    return Report(
        name="twoma",
        title="TWOMA: sites that move between access points (000, figures 2 to 4)",
        parameters={**asdict(common), "runs": runs, "period": period, "changes": changes, "sigma": sigma},
        tables=[
            _static_table(static),
            _dynamic_table(dynamic.ratio, returns, period),
            _needed_table(needed),
            _limits_table(limits),
        ],
        figures=[
            _course_figure("Figure 2: a static environment", static),
            _course_figure(f"Figure 3: the perfect arms change every {period} runs", dynamic),
            _needed_figure(needed),
        ],
        findings=[
            _static_finding(static),
            _dynamic_finding(returns, period),
            _needed_finding(needed),
            _stuck_finding(needed),
            *_limit_findings(limits),
        ],
    )


def _course(common: Settings, figure: int, runs: int, period: int | None, tick: Callable[[], None]) -> Course:
    """Run 0, in which nothing has been learnt, and the runs after it; perfect arms change every `period`."""
    twoma = np.empty((common.repeats, runs + 1))
    uniform = np.empty_like(twoma)
    for repeat, rng in enumerate(common.rngs(figure)):
        world = equal_sites(common.sites, common.arms, common.slowdown, common.noise, rng)
        automaton = Twoma(common.sites, common.arms, states=common.states, rng=rng)
        fixed = dealt(common.sites, common.arms, rng)
        for number in range(runs + 1):
            if period and number and number % period == 0:
                world.change(common.arms)
            durations = world.durations(automaton.arm)
            twoma[repeat, number] = durations.sum()
            uniform[repeat, number] = world.durations(fixed).sum()
            automaton.step(durations)
        tick()
    return Course(twoma, uniform)


def _static_table(course: Course) -> Table:
    last = course.ratio.shape[1] - 1
    shown = [n for n in (0, 5, 10, 15, 20, 30, 50) if n < last] + [last]
    return Table(
        "Figure 2: total duration of a run",
        ("run", "uniform", "TWOMA", "spread", "TWOMA/uniform"),
        [
            (
                n,
                float(course.uniform[:, n].mean()),
                float(course.twoma[:, n].mean()),
                float(course.twoma[:, n].std()),
                float(course.ratio[:, n].mean()),
            )
            for n in shown
        ],
    )


def _static_finding(course: Course) -> str:
    ratio = course.ratio.mean(axis=0)
    then = min(50, len(ratio) - 1)
    holds = abs(ratio[0] - 1) < 0.02 and ratio[then] <= 0.5
    return (
        f"{verdict(as_published=holds)} (figure 2: equal at first, then reduced by half): TWOMA takes "
        f"{ratio[0]:.2f} of the uniform distribution's time at first and {ratio[then]:.3f} after {then} runs."
    )


def _returns(ratio: FloatArray, period: int) -> list[list[int | None]]:
    """For each stretch between changes and each repeat: runs until less than half of uniform."""
    starts = range(0, ratio.shape[1], period)
    return [[_first_below_half(row[start : start + period]) for row in ratio] for start in starts]


def _first_below_half(ratio: FloatArray) -> int | None:
    below = np.flatnonzero(ratio < 0.5)
    return int(below[0]) if len(below) else None


def _dynamic_table(ratio: FloatArray, returns: Sequence[Sequence[int | None]], period: int) -> Table:
    rows: list[Sequence[Value]] = []
    for index, waits in enumerate(returns):
        start, end = index * period, (index + 1) * period - 1
        there = [wait for wait in waits if wait is not None]
        rows.append(
            (
                start,
                float(ratio[:, start].mean()),
                float(np.mean(there)) if there else None,
                max(there) if len(there) == len(waits) else None,
                float(ratio[:, end].mean()),
            )
        )
    title = "Figure 3: TWOMA/uniform after each change (– where some repeat never came under 0.5)"
    return Table(title, ("from run", "at once", "runs to under 0.5", "slowest", "before the next"), rows)


def _dynamic_finding(returns: Sequence[Sequence[int | None]], period: int) -> str:
    after = [wait for waits in returns[1:] for wait in waits]
    back = [wait for wait in after if wait is not None]
    if not after:
        return "Figure 3 cannot be judged: nothing changed."
    slowest = f", the slowest in {max(back)} runs" if back else ""
    return (
        f"{verdict(as_published=len(back) == len(after))} (figure 3: it recovers before the next change): "
        f"{len(back)} of {len(after)} changes were followed by less than half of uniform within the {period} "
        f"runs to the next one{slowest}."
    )


@dataclass(frozen=True, slots=True)
class Needed:
    """Runs until every site is in its perfect arm; None for a repeat that did not come there."""

    arms: int
    sites: int
    runs: Sequence[int | None]
    formula: float
    expected: float

    @property
    def reached(self) -> list[int]:
        """The runs of those repeats that came there."""
        return [count for count in self.runs if count is not None]

    @property
    def mean(self) -> float | None:
        """The mean of those repeats that came there."""
        return float(np.mean(self.reached)) if self.reached else None


def _needed(common: Settings, arms: int, sites: int, index: int, tick: Callable[[], None]) -> Needed:
    formula = 3 + (arms - 1) * math.log(sites)
    runs: list[int | None] = []
    for rng in common.rngs(100 + index):
        runs.append(_until_optimal(sites, arms, common, rng, limit=math.ceil(5 * formula) + 50))
        tick()
    return Needed(arms, sites, runs, formula, expected_runs(sites, arms, common.states))


def _until_optimal(
    sites: int, arms: int, common: Settings, rng: np.random.Generator, *, limit: int
) -> int | None:
    """The paper assumes static durations here; with noise, sites leave their perfect arm now and then."""
    world = equal_sites(sites, arms, common.slowdown, 0.0, rng)
    automaton = Twoma(sites, arms, states=common.states, rng=rng)
    for count in range(limit + 1):
        if (automaton.arm == world.best).all():
            return count
        automaton.step(world.durations(automaton.arm))
    return None


def _needed_table(needed: Sequence[Needed]) -> Table:
    return Table(
        "Figure 4: runs until every site is in its perfect arm (no noise)",
        ("arms", "sites", "reached", "runs", "spread", "expected", "3+(R−1)·ln|Ω|"),
        [
            (
                cell.arms,
                cell.sites,
                f"{len(cell.reached)} of {len(cell.runs)}",
                cell.mean,
                float(np.std(cell.reached)) if cell.reached else None,
                cell.expected,
                cell.formula,
            )
            for cell in needed
        ],
    )


def _needed_finding(needed: Sequence[Needed]) -> str:
    first, last = needed[0], needed[-1]
    by_arms = _times(_cell(needed, first.arms, last.sites), last)
    by_sites = _times(_cell(needed, last.arms, first.sites), last)
    if by_arms is None or by_sites is None:
        return "Figure 4 cannot be judged: the optimum was not reached in some of its corners."
    return (
        f"{verdict(as_published=by_arms > by_sites)} (figure 4: arms count for more than sites): from "
        f"{first.arms} to {last.arms} arms the runs needed grow {by_arms:.1f} times, from {first.sites:,} to "
        f"{last.sites:,} sites {by_sites:.1f} times."
    )


def _stuck_finding(needed: Sequence[Needed]) -> str:
    stuck = {(cell.arms, cell.sites): len(cell.runs) - len(cell.reached) for cell in needed}
    where = [f"{n} with {arms} arms and {sites:,} sites" for (arms, sites), n in stuck.items() if n]
    if not where:
        return "In figure 4 every repeat reached the optimum."
    return (
        f"Beyond the paper: some repeats of figure 4 did not reach the optimum ({', '.join(where)}). Where "
        f"an arm is left with misplaced sites alone, all are equal to their mean, and none moves any more."
    )


def _cell(needed: Sequence[Needed], arms: int, sites: int) -> Needed:
    return next(cell for cell in needed if (cell.arms, cell.sites) == (arms, sites))


def _times(smaller: Needed, larger: Needed) -> float | None:
    return larger.mean / smaller.mean if smaller.mean and larger.mean else None


@dataclass(frozen=True, slots=True)
class Limit:
    """What TWOMA makes of one kind of world, over the repeats."""

    world: str
    ratio: FloatArray
    optimum: float
    moved: FloatArray


def _limits(common: Settings, runs: int, sigma: float, tick: Callable[[], None]) -> list[Limit]:
    def sized(rng: np.random.Generator) -> World:
        world = equal_sites(common.sites, common.arms, common.slowdown, common.noise, rng)
        world.size = rng.lognormal(-(sigma**2) / 2, sigma, common.sites)
        return world

    def one_fast_arm(rng: np.random.Generator, noise: float) -> World:
        everywhere = np.zeros(common.sites, dtype=np.int64)
        return World(everywhere, np.ones(common.sites), common.slowdown, noise, rng)

    def equal(rng: np.random.Generator) -> World:
        return equal_sites(common.sites, common.arms, common.slowdown, common.noise, rng)

    worlds: list[tuple[str, Callable[[np.random.Generator], World]]] = [
        ("equal sites", equal),
        (f"log-normal sizes, sigma {sigma:g}", sized),
        ("one arm fast for all", lambda rng: one_fast_arm(rng, common.noise)),
        ("one arm fast for all, no noise", lambda rng: one_fast_arm(rng, 0.0)),
    ]
    return [_limit(common, 200 + i, name, make, runs, tick) for i, (name, make) in enumerate(worlds)]


def _limit(
    common: Settings,
    figure: int,
    name: str,
    make: Callable[[np.random.Generator], World],
    runs: int,
    tick: Callable[[], None],
) -> Limit:
    ratio, moved = np.empty(common.repeats), np.empty(common.repeats)
    for repeat, rng in enumerate(common.rngs(figure)):
        world = make(rng)
        automaton = Twoma(common.sites, common.arms, states=common.states, rng=rng)
        before = world.durations(automaton.arm).sum()
        moves = [len(automaton.step(world.durations(automaton.arm))) for _ in range(runs)]
        ratio[repeat] = world.durations(automaton.arm).sum() / before
        moved[repeat] = np.mean(moves[-10:]) / common.sites
        tick()
    return Limit(name, ratio, common.arms / (1 + (common.arms - 1) * common.slowdown), moved)


def _limits_table(limits: Sequence[Limit]) -> Table:
    return Table(
        "Where TWOMA works and where it does not: duration after the last run, as part of uniform",
        ("world", "TWOMA", "spread", "optimum", "sites that move in a run"),
        [
            (
                limit.world,
                float(limit.ratio.mean()),
                float(limit.ratio.std()),
                limit.optimum,
                float(limit.moved.mean()),
            )
            for limit in limits
        ],
    )


def _limit_findings(limits: Sequence[Limit]) -> list[str]:
    equal, sized, noisy, quiet = limits
    deadlock = "no site ever moves" if not quiet.moved.any() else "some sites move"
    sizes = (
        f"Beyond the paper: sites of different sizes end at {sized.ratio.mean():.2f} of uniform, equal ones "
        f"at {equal.ratio.mean():.2f}. A site is compared with its arm's mean, so size counts like slowness."
    )
    arms = (
        f"Beyond the paper: where one arm is fast for every site, TWOMA ends at {noisy.ratio.mean():.2f} of "
        f"uniform with noise and at {quiet.ratio.mean():.2f} without; the optimum is {quiet.optimum:.2f}. "
        f"It compares sites within an arm and never arms; without noise, equal sites in a slow arm are all "
        f"equal to their mean, and {deadlock} (deadlock)."
    )
    return [sizes, arms]


def _course_figure(title: str, course: Course) -> Figure:
    x = [float(n) for n in range(course.twoma.shape[1])]
    return Figure(
        title,
        "crawler run",
        "total duration",
        [
            Series(label, x, values.mean(axis=0).tolist(), values.std(axis=0).tolist())
            for label, values in (("uniform", course.uniform), ("TWOMA", course.twoma))
        ],
    )


def _needed_figure(needed: Sequence[Needed]) -> Figure:
    series = []
    for sites in dict.fromkeys(cell.sites for cell in needed):
        line = [cell for cell in needed if cell.sites == sites and cell.reached]
        x = [float(cell.arms) for cell in line]
        means, spread = ([float(f(cell.reached)) for cell in line] for f in (np.mean, np.std))
        series.append(Series(f"{sites:,} sites", x, means, spread))
        series.append(Series(f"3+(R−1)·ln {sites:,}", x, [cell.formula for cell in line]))
    return Figure("Figure 4: runs until every site is in its perfect arm", "arms", "runs", series)
