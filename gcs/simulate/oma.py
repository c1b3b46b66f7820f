"""001, figures 3 to 6: OMA with five actions, its jumps, and the number of objects and of arms.

The world is that of 001, sections 2 and 4. Each object has a perfect arm, that of the users close to it, and
takes `slowdown` times as long in any other. Users ask for objects in pairs, of the same perfect arm, or there
would be nothing to learn from a pair. In an *iteration* every object is accessed once, so that it is half as
many pairs as there are objects: the paper's x-axis is "the total number of crawler runs", although its text
calls one test an iteration. The optimum is reached when every object is in its perfect arm, for only then is
each access quicker than a fixed time. It is final: no pair is apart any more. So is a partition whose groups
have settled in each other's arms, which is not the optimum.

The paper says "ninety objects per arm, three arms" and "3 arms and 100 objects" of one and the same figure;
the default is the former, 270 objects, and figure 3's table has 90, 100 and 270.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from gcs.core.automata import ORIGINAL, Exchange, FloatArray, IntArray, Oma, pairs_within, variant
from gcs.simulate.report import Figure, Progress, Report, Series, Table, Value, counted, verdict
from gcs.simulate.sites import World, equal_sites

JUMPS: Final = (2, 3, 4)
PUBLISHED: Final = 40
"""Iterations to the optimum in the paper's figure 3, "about"."""


@dataclass(frozen=True, slots=True)
class Setting:
    """An automaton and its world."""

    objects: int
    arms: int
    states: int
    slowdown: float
    noise: float
    jump: int | None = 2
    """None stands for the original OMA, which does not look at durations."""
    exchange: Exchange = Exchange.MOVE
    sigma: float = 0.0
    """Of the log-normal number of users, by which an object's duration is multiplied."""
    deeper_is_quicker: bool = False
    """Whether an object at the boundary takes twice as long as a most internal one."""

    def world(self, rng: np.random.Generator) -> World:
        """Perfect arms and users, by chance."""
        world = equal_sites(self.objects, self.arms, self.slowdown, self.noise, rng)
        if self.sigma:
            world.size = rng.lognormal(-(self.sigma**2) / 2, self.sigma, self.objects)
        return world

    def automaton(self, rng: np.random.Generator) -> Oma:
        """As it begins."""
        rules = ORIGINAL if self.jump is None else variant(self.jump)
        return Oma(self.objects, self.arms, states=self.states, rules=rules, exchange=self.exchange, rng=rng)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The time of all objects in each iteration, and when the automaton came to rest, if it did."""

    times: Sequence[float]
    together: int | None
    optimal: bool


@dataclass(frozen=True, slots=True)
class Trials:
    """The repeats of one setting."""

    setting: Setting
    outcomes: Sequence[Outcome]

    @property
    def iterations(self) -> list[int]:
        """Iterations to the optimum, of those repeats that came there."""
        return [trial.together for trial in self.outcomes if trial.optimal and trial.together is not None]

    @property
    def mean(self) -> float | None:
        """The mean of `iterations`."""
        return float(np.mean(self.iterations)) if self.iterations else None

    @property
    def spread(self) -> float | None:
        """The standard deviation of `iterations`."""
        return float(np.std(self.iterations)) if self.iterations else None

    @property
    def error(self) -> float:
        """The standard error of the mean; infinite where fewer than two repeats tell nothing of it."""
        n = len(self.iterations)
        return float(np.std(self.iterations, ddof=1)) / math.sqrt(n) if n > 1 else math.inf

    @property
    def pairs(self) -> float | None:
        """Pairs accessed until the optimum."""
        return None if self.mean is None else self.mean * self.setting.objects / 2

    @property
    def reached(self) -> str:
        """How many repeats came to the optimum."""
        return f"{len(self.iterations)} of {len(self.outcomes)}"

    @property
    def partitioned(self) -> int:
        """How many repeats came to have each group in one arm, whichever."""
        return sum(trial.together is not None for trial in self.outcomes)

    @property
    def last(self) -> float:
        """The time at the end as part of the time at first, over the repeats."""
        return float(np.mean([trial.times[-1] / trial.times[0] for trial in self.outcomes]))

    def course(self, iterations: int) -> FloatArray:
        """The time in each of the first iterations, a row per repeat; at rest it stays what it was."""
        rows = [[*trial.times, *[trial.times[-1]] * iterations][:iterations] for trial in self.outcomes]
        return np.array(rows, dtype=np.float64)


def run(
    *,
    seed: int,
    progress: Progress,
    objects: int = 270,
    arms: int = 3,
    states: int = 8,
    repeats: int = 8,
    slowdown: float = 3.0,
    noise: float = 0.0,
    limit: int = 500,
    object_counts: Sequence[int] = (30, 90, 270, 810),
    arm_counts: Sequence[int] = (2, 3, 5, 8),
) -> Report:
    """All figures of 001's section 5; a repeat that is not at rest after `limit` iterations is given up."""
    base = Setting(objects, arms, states, slowdown, noise)
    first = [replace(base, objects=count) for count in sorted({90, 100, objects})]
    rules, jumps = _rules(base), _jumps(base)
    counts = [replace(base, objects=count) for count in object_counts]
    grid = [replace(cell, arms=count) for count in arm_counts for cell in counts]
    every = [*first, *rules.values(), *(s for line in jumps.values() for s in line), *counts, *grid]
    found = _all_tried(dict.fromkeys(every), seed=seed, repeats=repeats, limit=limit, progress=progress)
    return _report(
        {
            "seed": seed,
            "objects": objects,
            "arms": arms,
            "states": states,
            "repeats": repeats,
            "slowdown": slowdown,
            "noise": noise,
            "limit": limit,
        },
        [found[setting] for setting in first],
        {name: found[setting] for name, setting in rules.items()},
        {name: [found[setting] for setting in line] for name, line in jumps.items()},
        [found[setting] for setting in counts],
        [found[setting] for setting in grid],
    )


def _report(
    parameters: Mapping[str, Value],
    first: Sequence[Trials],
    rules: Mapping[str, Trials],
    jumps: Mapping[str, Sequence[Trials]],
    counts: Sequence[Trials],
    grid: Sequence[Trials],
) -> Report:
    ours, original, letter = rules.values()
    return Report(
        name="oma",
        title="OMA: pages that move to their users (001, figures 3 to 6)",
        parameters=parameters,
        tables=[
            _counts_table("Figure 3: iterations to the optimum", first),
            _rules_table(rules),
            _jumps_table(jumps),
            _counts_table("Figure 5: the number of objects", counts),
            _counts_table("Figure 6: the number of arms, and of objects", grid),
        ],
        figures=[
            _course_figure("Figure 3: duration of accessing", rules),
            _course_figure("Figure 4: jumps over 2, 3 and 4 states", _by_jump(jumps)),
            _objects_figure(counts),
            _arms_figure(grid),
        ],
        findings=[
            _course_finding(ours),
            _rules_finding(ours, original),
            _letter_finding(letter),
            _jumps_finding(jumps),
            _objects_finding(counts),
            _arms_finding(grid),
        ],
    )


def _rules(base: Setting) -> dict[str, Setting]:
    return {
        "001": base,
        "original OMA": replace(base, jump=None),
        "001, action 5 to the letter": replace(base, exchange=Exchange.SWITCH),
    }


def _jumps(base: Setting) -> dict[str, list[Setting]]:
    """What the paper leaves open, one thing at a time, lest a result hang on how one of them was read."""
    settings = {
        "as in figure 3": base,
        "a third of the objects": replace(base, objects=base.objects // 3),
        "10 states": replace(base, states=10),
        "noise of 20%": replace(base, noise=0.2),
        "users differ (log-normal)": replace(base, sigma=1.0),
        "quicker in deeper states": replace(base, deeper_is_quicker=True),
        "two more arms": replace(base, arms=base.arms + 2),
    }
    return {name: [replace(setting, jump=jump) for jump in JUMPS] for name, setting in settings.items()}


def _all_tried(
    settings: Collection[Setting], *, seed: int, repeats: int, limit: int, progress: Progress
) -> dict[Setting, Trials]:
    """The repeats of all settings have the same seeds, so that what differs is the setting."""
    tick = counted(progress, repeats * len(settings))
    found = {}
    for setting in settings:
        outcomes = []
        for repeat in range(repeats):
            outcomes.append(_outcome(setting, np.random.default_rng((seed, repeat)), limit))
            tick()
        found[setting] = Trials(setting, outcomes)
    return found


def _outcome(setting: Setting, rng: np.random.Generator, limit: int) -> Outcome:
    world, automaton = setting.world(rng), setting.automaton(rng)
    times = []
    for iteration in range(limit + 1):
        durations = world.durations(automaton.arm)
        if setting.deeper_is_quicker:
            durations = durations * (2 - automaton.state / max(1, setting.states - 1))
        times.append(float(durations.sum()))
        if _together(world.best, automaton.arm):
            return Outcome(times, iteration, bool((automaton.arm == world.best).all()))
        automaton.step(durations, pairs_within(world.best, rng))
    return Outcome(times, None, optimal=False)


def _together(groups: IntArray, arm: IntArray) -> bool:
    """Whether no group is in more than one arm."""
    return len(np.unique(np.stack([groups, arm]), axis=1).T) == len(np.unique(groups))


def _counts_table(title: str, trials: Sequence[Trials]) -> Table:
    return Table(
        title,
        ("arms", "objects", "reached", "iterations", "spread", "pairs accessed", "time, of the first"),
        [
            (
                each.setting.arms,
                each.setting.objects,
                each.reached,
                each.mean,
                each.spread,
                each.pairs,
                each.last,
            )
            for each in trials
        ],
    )


def _rules_table(rules: Mapping[str, Trials]) -> Table:
    return Table(
        "The rules, on figure 3's objects",
        ("rules", "groups together", "optimum reached", "iterations", "time, of the first"),
        [
            (name, f"{each.partitioned} of {len(each.outcomes)}", each.reached, each.mean, each.last)
            for name, each in rules.items()
        ],
    )


def _jumps_table(jumps: Mapping[str, Sequence[Trials]]) -> Table:
    columns = [f"{word} {jump}" for jump in JUMPS for word in ("jump", "spread", "reached")]
    rows: list[Sequence[Value]] = [
        (name, *(value for each in line for value in (each.mean, each.spread, each.reached)))
        for name, line in jumps.items()
    ]
    return Table("Figure 4: iterations to the optimum by length of the jump", ("setting", *columns), rows)


def _course_finding(trials: Trials) -> str:
    falls = len(trials.iterations) == len(trials.outcomes)
    sentence = (
        f"{verdict(as_published=falls)} (figure 3: the time falls quickly to its optimum): "
        f"{trials.reached} repeats reached it, and the time came down to {trials.last:.2f} of the first."
    )
    if trials.mean is None:
        return sentence
    near = 0.75 * PUBLISHED <= trials.mean <= 1.25 * PUBLISHED
    count = f"{verdict(as_published=near)} (after about {PUBLISHED} iterations): it took {trials.mean:.1f}."
    return f"{sentence} {count}"


def _rules_finding(ours: Trials, original: Trials) -> str:
    return (
        f"Beyond the paper: the original OMA brought the groups together in {original.partitioned} of "
        f"{len(original.outcomes)} repeats, and into their perfect arms in {len(original.iterations)}; with "
        f"the durations of 001 it was {ours.partitioned} and {len(ours.iterations)}. Pairs say who belongs "
        f"together, only durations say where."
    )


def _letter_finding(trials: Trials) -> str:
    return (
        f"Action 5 to the letter (both switch arms) reached the optimum in {trials.reached} repeats, and "
        f"ended at {trials.last:.2f} of the first time: switching two objects of one group leaves the number "
        f"of that group in each arm as it was."
    )


def _jumps_finding(jumps: Mapping[str, Sequence[Trials]]) -> str:
    main, *_ = jumps.values()
    holds = [all(_clearly_fewer(line[0], other) for other in line[1:]) for line in jumps.values()]
    against = [any(_clearly_fewer(other, line[0]) for other in line[1:]) for line in jumps.values()]
    counts = ", ".join(f"{_number(each.mean)} with {jump}" for each, jump in zip(main, JUMPS, strict=True))
    return (
        f"{verdict(as_published=holds[0])} (figure 4: jumps over 2 states need fewer iterations than over 3 "
        f"and 4): {counts}. Of {len(jumps)} settings, jumps over 2 are clearly the quickest in {sum(holds)}, "
        f"and longer ones are clearly quicker in {sum(against)}."
    )


def _clearly_fewer(one: Trials, other: Trials) -> bool:
    """Whether one needs fewer iterations than the other, by more than two standard errors."""
    if one.mean is None or other.mean is None:
        return False
    return other.mean - one.mean > 2 * math.hypot(one.error, other.error)


def _number(mean: float | None) -> str:
    return "never" if mean is None else f"{mean:.1f}"


def _objects_finding(trials: Sequence[Trials]) -> str:
    fewest, most = trials[0], trials[-1]
    if fewest.pairs is None or most.pairs is None:
        return "Figure 5 cannot be judged: the optimum was not reached with the fewest or the most objects."
    holds = _clearly_fewer(fewest, most)
    return (
        f"{verdict(as_published=holds)} (figure 5: more objects need more iterations): "
        f"from {fewest.setting.objects:,} to {most.setting.objects:,} objects they go from "
        f"{_number(fewest.mean)} to {_number(most.mean)}. Counted in pairs, which the paper's text calls "
        f"iterations, they grow {most.pairs / fewest.pairs:.0f} times."
    )


def _arms_finding(trials: Sequence[Trials]) -> str:
    first, last = trials[0].setting, trials[-1].setting
    few, few_objects = _cell(trials, first.arms, last.objects), _cell(trials, last.arms, first.objects)
    if trials[0].mean is None or few.mean is None or trials[-1].mean is None:
        return "Figure 6 cannot be judged: the optimum was not reached in some of its corners."
    by_arms, by_objects = trials[-1].mean / few.mean, few.mean / trials[0].mean
    return (
        f"{verdict(as_published=by_arms > by_objects)} (figure 6: arms count for more than objects): from "
        f"{first.arms} to {last.arms} arms the iterations grow {by_arms:.2f} times, from {first.objects:,} "
        f"to {last.objects:,} objects {by_objects:.2f} times. With {first.objects:,} objects the optimum was "
        f"reached in {trials[0].reached} repeats with {first.arms} arms, and in {few_objects.reached} with "
        f"{last.arms}."
    )


def _cell(trials: Sequence[Trials], arms: int, objects: int) -> Trials:
    return next(each for each in trials if (each.setting.arms, each.setting.objects) == (arms, objects))


def _by_jump(jumps: Mapping[str, Sequence[Trials]]) -> dict[str, Trials]:
    main, *_ = jumps.values()
    return {f"{jump} states": each for jump, each in zip(JUMPS, main, strict=True)}


def _course_figure(title: str, trials: Mapping[str, Trials]) -> Figure:
    shown = 60
    x = [float(n) for n in range(shown)]
    series = []
    for name, each in trials.items():
        course = each.course(shown)
        series.append(Series(name, x, course.mean(axis=0).tolist(), course.std(axis=0).tolist()))
    return Figure(title, "iteration", "time of accessing all objects", series)


def _objects_figure(trials: Sequence[Trials]) -> Figure:
    return Figure(
        "Figure 5: role of the number of objects",
        "objects",
        "iterations",
        [_line(f"{trials[0].setting.arms} arms", trials, "objects")],
    )


def _arms_figure(trials: Sequence[Trials]) -> Figure:
    counts = dict.fromkeys(each.setting.objects for each in trials)
    lines = {n: [each for each in trials if each.setting.objects == n] for n in counts}
    series = [_line(f"{n} objects", line, "arms") for n, line in lines.items()]
    return Figure("Figure 6: role of the number of arms", "arms", "iterations", series)


def _line(label: str, trials: Sequence[Trials], axis: str) -> Series:
    """Those trials that came to the optimum at all, over the arms or over the objects."""
    points = [
        (float(getattr(each.setting, axis)), each.mean, each.spread or 0.0)
        for each in trials
        if each.mean is not None
    ]
    return Series(label, [p[0] for p in points], [p[1] for p in points], [p[2] for p in points])
