"""All placements side by side, in the same worlds: what each reaches, how soon, and at what cost.

A world has sites of some pages each. A page takes 1 second from the site's perfect gatherer and `slowdown`
seconds from any other, times the noise that a site and a gatherer have in a run. In a run every page is
fetched once, by its owner or as a probe, and then all placements replan. All see the same world and the same
noise.

What is shown is expected, without the noise: the *duration*, the seconds of all pages together (its optimum:
every site with its perfect gatherer), and the *makespan*, the seconds of the slowest gatherer (its optimum:
the bound of the linear program, which no partition can beat). Probes are part of both.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

import numpy as np
import numpy.typing as npt

from gcs.core import partition
from gcs.core.automata import dealt, pairs_within
from gcs.core.placement import (
    HashPlacement,
    OmaPlacement,
    Placement,
    Plan,
    Probe,
    ProximityPlacement,
    SuperpagePlacement,
    TwomaPlacement,
)
from gcs.core.tree import Expansion
from gcs.core.urls import HOST, PATH, SCHEME
from gcs.simulate.report import Figure, Progress, Report, Series, Table, Value, counted
from gcs.simulate.sites import SHORTEST

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

TOP_LEVEL_DOMAINS = 24
SETTLED = 1.05
"""A placement has converged when its duration stays below this many times what it ends with."""

Noise = Callable[[np.random.Generator, tuple[int, int]], FloatArray]


def normal_noise(rng: np.random.Generator, shape: tuple[int, int]) -> FloatArray:
    """20% either way."""
    return np.maximum(SHORTEST, 1 + 0.2 * rng.standard_normal(shape))


def exponential_noise(rng: np.random.Generator, shape: tuple[int, int]) -> FloatArray:
    """As much as there is signal: the deviation is the mean."""
    return np.maximum(SHORTEST, rng.exponential(1.0, shape))


@dataclass(frozen=True, slots=True)
class Setting:
    """One kind of world."""

    name: str
    sigma: float = 0.0
    noise: Noise = normal_noise
    period: int | None = None
    neighbours: bool = False
    one_fast: bool = False


SETTINGS: Sequence[Setting] = (
    Setting("equal sites"),
    Setting("log-normal sites", sigma=1.0),
    Setting("exponential noise", noise=exponential_noise),
    Setting("log-normal, exponential", sigma=1.0, noise=exponential_noise),
    Setting("neighbours alike", sigma=1.0, neighbours=True),
    Setting("one fast gatherer", one_fast=True),
    Setting("changing", period=50),
    Setting("changing, log-normal", sigma=1.0, period=50),
    Setting("changing, exponential", sigma=1.0, noise=exponential_noise, period=50),
)


def domain(host: str) -> str:
    """Sites here are `name.tld`."""
    return ".".join(host.split(".")[-2:])


@dataclass(slots=True, eq=False)
class World:
    """Sites in the order of their keys, their pages, and who is near to them."""

    setting: Setting
    gatherers: Sequence[str]
    slowdown: float
    rng: np.random.Generator
    sites: Sequence[str]
    pages: IntArray
    best: IntArray
    keys: Sequence[str] = field(init=False)
    site_of: IntArray = field(init=False)

    def __post_init__(self) -> None:
        self.keys = [
            f"{s}{SCHEME}http{PATH}p{n:05}"
            for s, p in zip(self.sites, self.pages, strict=True)
            for n in range(p)
        ]
        self.site_of = np.repeat(np.arange(len(self.sites)), self.pages)

    @property
    def paces(self) -> FloatArray:
        """Seconds a page takes, without noise: a row per site, a column per gatherer."""
        paces = np.full((len(self.sites), len(self.gatherers)), self.slowdown)
        paces[np.arange(len(self.sites)), self.best] = 1.0
        return paces

    def change(self) -> None:
        """From now on another gatherer is the perfect one, for every site."""
        self.best = (self.best + self.rng.integers(1, len(self.gatherers), len(self.best))) % len(
            self.gatherers
        )

    def key(self, site: int) -> str:
        """One key of a site."""
        return f"{self.sites[site]}{SCHEME}http{PATH}"

    def bound(self) -> float:
        """No partition has a smaller makespan."""
        return partition.lower_bound(self.pages.astype(float), 1 / self.paces.T).value


def make_world(
    setting: Setting, sites: int, k: int, pages: float, slowdown: float, rng: np.random.Generator
) -> World:
    """A world of that kind; perfect gatherers have nothing to do with names, unless neighbours are alike."""
    tld = np.sort(rng.integers(0, TOP_LEVEL_DOMAINS, sites))
    names = [f"{HOST}t{t:02}{HOST}s{n:06}" for n, t in enumerate(tld)]
    sizes = pages * rng.lognormal(-(setting.sigma**2) / 2, setting.sigma, sites)
    best = dealt(sites, k, rng)
    if setting.neighbours:
        # Most sites of a top-level domain are near to the same gatherer.
        near = rng.permutation(TOP_LEVEL_DOMAINS) % k
        best = np.where(rng.random(sites) < 0.9, near[tld], best)
    if setting.one_fast:
        best = np.zeros(sites, dtype=np.int64)
    count = np.maximum(1, np.round(sizes)).astype(np.int64)
    return World(setting, [f"g{i}" for i in range(k)], slowdown, rng, names, count, best)


class Uniform:
    """What 000 compares with: sites dealt evenly to gatherers, once and for all."""

    def __init__(self, world: World) -> None:
        arms = dealt(len(world.sites), len(world.gatherers), world.rng)
        starts = ["", *world.sites[1:]]
        self._plan = Plan.of((s, world.gatherers[a]) for s, a in zip(starts, arms, strict=True))

    def owner(self, key: str) -> str:
        """As dealt."""
        return self._plan.owner(key)

    def observe(self, key: str, gatherer: str, seconds: float, *, pages: int = 1) -> None:
        """Nothing is learned."""

    def probes(self) -> Sequence[Probe]:
        """None."""
        return ()

    def replan(self, gatherers: Sequence[str] | None = None) -> Plan:
        """As before."""
        return self._plan


def contestants(world: World, rng: np.random.Generator) -> dict[str, Placement]:
    """Uniform, and the five."""
    expansion = Expansion()
    expansion.visit_many(world.keys, Random(0))
    expansion.queued = list(expansion.visits)
    proximity = ProximityPlacement(world.gatherers, domain=domain)
    finders = rng.integers(0, len(world.gatherers), len(world.sites))
    for site, finder in enumerate(finders):
        proximity.announce(world.key(site), world.gatherers[finder])
    return {
        "uniform": Uniform(world),
        "hash": HashPlacement(world.gatherers, domain=domain),
        "proximity": proximity,
        "TWOMA": TwomaPlacement(world.gatherers, domain=domain, rng=rng),
        "OMA": OmaPlacement(world.gatherers, domain=domain, rng=rng),
        "superpages": SuperpagePlacement(world.gatherers, domain=domain, rng=rng, expansion=expansion),
    }


@dataclass(slots=True, eq=False)
class Course:
    """What one placement did in one world, run by run, as multiples of the optimum."""

    duration: list[float] = field(default_factory=list)
    makespan: list[float] = field(default_factory=list)
    imbalance: list[float] = field(default_factory=list)
    moves: list[float] = field(default_factory=list)
    probes: list[float] = field(default_factory=list)
    superpages: int = 0


class Runner:
    """One placement in one world."""

    def __init__(self, world: World, placement: Placement, rng: np.random.Generator) -> None:
        self.course = Course()
        self._counted: Expansion | None = None
        self._world, self._placement, self._rng = world, placement, rng
        self._index = {gatherer: i for i, gatherer in enumerate(world.gatherers)}
        self._number = {site: i for i, site in enumerate(world.sites)}
        owners = [self._index[placement.owner(world.key(s))] for s in range(len(world.sites))]
        self._owner = np.repeat(np.array(owners, dtype=np.int64), world.pages)

    def run(self, noise: FloatArray, bound: float) -> None:
        """Fetch every page once, tell the placement, and let it replan."""
        fetched = self._fetched()
        self._record(fetched, bound)
        seconds = fetched * self._world.paces * noise
        self._tell(fetched, seconds)
        plan = self._placement.replan()
        if isinstance(self._placement, SuperpagePlacement):
            self._recount(self._placement.expansion)
        owner = self._owners(plan)
        self.course.moves.append(float((owner != self._owner).mean()))
        self._owner = owner

    def _fetched(self) -> FloatArray:
        """Pages of each site by each gatherer: by the owner, less those that are probed."""
        world = self._world
        k = len(world.gatherers)
        flat = np.bincount(world.site_of * k + self._owner, minlength=len(world.sites) * k)
        fetched = flat.reshape(-1, k).astype(float)
        probes = self._placement.probes()
        self.course.probes.append(len(probes) / len(world.keys))
        for probe in probes:
            site, gatherer = self._number[probe.site], self._index[probe.gatherer]
            most = int(fetched[site].argmax())
            if most != gatherer and fetched[site, most] >= 1:
                fetched[site, most] -= 1
                fetched[site, gatherer] += 1
        return fetched

    def _record(self, fetched: FloatArray, bound: float) -> None:
        times = (fetched * self._world.paces).sum(axis=0)
        self.course.duration.append(float(times.sum() / self._world.pages.sum()))
        self.course.makespan.append(float(times.max() / bound))
        self.course.imbalance.append(float(times.max() / times.mean()))

    def _tell(self, fetched: FloatArray, seconds: FloatArray) -> None:
        world, placement = self._world, self._placement
        if isinstance(placement, OmaPlacement):
            for a, b in pairs_within(world.best, self._rng):
                placement.together(world.key(a), world.key(b))
        for site, gatherer in zip(*np.nonzero(fetched), strict=True):
            placement.observe(
                world.key(site),
                world.gatherers[gatherer],
                float(seconds[site, gatherer]),
                pages=int(fetched[site, gatherer]),
            )

    def _recount(self, expansion: Expansion) -> None:
        """Gatherers count what they hold; only until then are the weights of new superpages estimates.

        All of it is to be crawled once more in the next run.
        """
        if expansion is not self._counted:
            starts, numbers = zip(*expansion.boundaries(), strict=True)
            cuts = [bisect.bisect_left(self._world.keys, start) for start in starts]
            lengths = np.diff([*cuts, len(self._world.keys)])
            held = np.bincount(numbers, lengths, len(expansion.superpages)).tolist()
            expansion.visits = held
            self._counted = expansion
        expansion.queued = list(expansion.visits)

    def _owners(self, plan: Plan) -> IntArray:
        """The owner of each page by a plan; both are sorted."""
        keys = self._world.keys
        cuts = [bisect.bisect_left(keys, start) for start in plan.starts]
        lengths = np.diff([*cuts, len(keys)])
        self.course.superpages = len(plan)
        return np.repeat([self._index[owner] for owner in plan.owners], lengths)


@dataclass(frozen=True, slots=True)
class Result:
    """What one placement came to in one kind of world: a row per repeat, a column per run."""

    setting: Setting
    name: str
    courses: Sequence[Course]

    @property
    def window(self) -> slice:
        """The runs that count: the last fifth where nothing changes, and all of them where it does."""
        runs = len(self.courses[0].duration)
        return slice(0, runs) if self.setting.period else slice(runs - max(1, runs // 5), runs)

    def mean(self, measure: str) -> float:
        """The mean of a measure over the runs that count, over all repeats."""
        return float(np.mean([getattr(course, measure)[self.window] for course in self.courses]))

    def spread(self, measure: str) -> float:
        """The standard deviation of that mean between repeats."""
        return float(np.std([np.mean(getattr(course, measure)[self.window]) for course in self.courses]))

    def moves(self, gatherers: int) -> float:
        """Pages that changed hands, as a multiple of those that had to."""
        runs = len(self.courses[0].duration)
        changes = (runs - 1) // self.setting.period if self.setting.period else 0
        return float(np.mean([sum(course.moves) for course in self.courses])) / (1 - 1 / gatherers + changes)

    def converged(self) -> float:
        """Runs, from the beginning or the last change, until the duration stays near what it ends with."""
        return float(np.mean([_settling(course.duration, self.setting.period) for course in self.courses]))

    def line(self) -> list[float]:
        """The duration, run by run."""
        means: list[float] = np.mean([course.duration for course in self.courses], axis=0).tolist()
        return means


def _settling(duration: Sequence[float], period: int | None) -> int:
    start = (len(duration) - 1) // period * period if period else 0
    stretch = np.array(duration[start:])
    level = SETTLED * stretch[-max(1, len(stretch) // 5) :].mean()
    late = np.flatnonzero(stretch > level)
    return int(late[-1]) + 1 if len(late) else 0


def run(
    *,
    seed: int,
    progress: Progress,
    sites: int = 1_000,
    gatherers: int = 8,
    pages: float = 20.0,
    slowdown: float = 3.0,
    runs: int = 100,
    repeats: int = 3,
    settings: Sequence[Setting] = SETTINGS,
) -> Report:
    """All placements in all worlds."""
    tick = counted(progress, len(settings) * repeats * runs)
    results: list[Result] = []
    for number, setting in enumerate(settings):
        courses: list[Mapping[str, Course]] = []
        for repeat in range(repeats):
            rng = np.random.default_rng((seed, number, repeat))
            world = make_world(setting, sites, gatherers, pages, slowdown, rng)
            contest = Contest(world, rng)
            for _ in range(runs):
                contest.run()
                tick()
            courses.append(contest.courses)
        results += [Result(setting, name, [c[name] for c in courses]) for name in courses[0]]
    return Report(
        name="placement",
        title="Placements side by side: uniform, hash, proximity, TWOMA, OMA, superpages",
        parameters={
            "seed": seed,
            "sites": sites,
            "gatherers": gatherers,
            "pages": pages,
            "slowdown": slowdown,
            "runs": runs,
            "repeats": repeats,
        },
        tables=[_table(setting, results, gatherers) for setting in settings],
        figures=[_figure(setting, results) for setting in settings],
        findings=_findings(results),
    )


class Contest:
    """All placements in one world, in step."""

    def __init__(self, world: World, rng: np.random.Generator) -> None:
        self._world, self._rng, self._count = world, rng, 0
        self._runners = {name: Runner(world, each, rng) for name, each in contestants(world, rng).items()}
        self._bound = world.bound()

    @property
    def courses(self) -> dict[str, Course]:
        """What each did so far."""
        return {name: runner.course for name, runner in self._runners.items()}

    def run(self) -> None:
        """One run of all."""
        period = self._world.setting.period
        if period and self._count and self._count % period == 0:
            self._world.change()
            self._bound = self._world.bound()
        self._count += 1
        noise = self._world.setting.noise(self._rng, self._world.paces.shape)
        for runner in self._runners.values():
            runner.run(noise, self._bound)


def _table(setting: Setting, results: Sequence[Result], gatherers: int) -> Table:
    rows: list[Sequence[Value]] = [
        (
            result.name,
            result.mean("duration"),
            result.spread("duration"),
            result.mean("makespan"),
            result.mean("imbalance"),
            result.moves(gatherers),
            result.converged(),
            result.mean("probes"),
        )
        for result in results
        if result.setting is setting
    ]
    columns = ("", "duration", "spread", "makespan", "largest/mean T", "moves", "runs to settle", "probed")
    over = "all runs" if setting.period else "the last fifth of the runs"
    return Table(f"{setting.name}: multiples of the optimum, over {over}", columns, rows)


def _figure(setting: Setting, results: Sequence[Result]) -> Figure:
    series = [
        Series(r.name, [float(n) for n in range(len(r.line()))], r.line())
        for r in results
        if r.setting is setting
    ]
    return Figure(f"Duration: {setting.name}", "run", "multiple of the optimum", series)


def _findings(results: Sequence[Result]) -> list[str]:
    static = [r for r in results if not r.setting.period and not r.setting.one_fast]
    ours = [r for r in static if r.name == "superpages"]
    found = [_twoma_finding(static)]
    if ours:
        duration = max(ours, key=lambda r: r.mean("duration"))
        makespan = max(ours, key=lambda r: r.mean("makespan"))
        found.append(
            f"Superpages, in worlds that do not change, end within {duration.mean('duration'):.3f} of the "
            f"best duration ({duration.setting.name}) and {makespan.mean('makespan'):.3f} of the best "
            f"makespan ({makespan.setting.name}); the goal was 1.10."
        )
    found += [_fast_finding(results), *_changing_findings(results)]
    return [finding for finding in found if finding]


def _twoma_finding(static: Sequence[Result]) -> str:
    shares = {
        twoma.setting.name: twoma.mean("duration") / uniform.mean("duration")
        for twoma in static
        for uniform in static
        if (twoma.name, uniform.name) == ("TWOMA", "uniform") and twoma.setting is uniform.setting
    }
    shown = ", ".join(f"{share:.2f} with {name}" for name, share in shares.items())
    return f"TWOMA's part of uniform's duration: {shown}." if shown else ""


def _fast_finding(results: Sequence[Result]) -> str:
    shown = ", ".join(f"{r.name} {r.mean('makespan'):.2f}" for r in results if r.setting.one_fast)
    if not shown:
        return ""
    return f"Where one gatherer is fast for all sites, the makespan is what counts. It comes to {shown}."


def _changing_findings(results: Sequence[Result]) -> list[str]:
    found = []
    for setting in dict.fromkeys(r.setting for r in results if r.setting.period):
        order = sorted((r for r in results if r.setting is setting), key=lambda r: r.mean("duration"))
        shown = ", ".join(f"{r.name} {r.mean('duration'):.2f}" for r in order)
        found.append(f"{setting.name}: best to worst by duration: {shown}.")
    return found
