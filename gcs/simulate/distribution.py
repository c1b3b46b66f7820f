"""002, figures 2 to 5: domains distributed by hash, by network proximity, and as superpages by learned rates.

The web is synthetic: domains of some countries, most of them hosted at home, some in another of the countries
or overseas; pages in domains by a log-normal law; links mostly within the domain, then mostly within the
country. There is a gatherer in every country. A fetch takes what the server takes, three round trips, and the
transfer; a gatherer has a number of connections, and asks a domain only so often.

Counted are pages over time, whose pages are whose, and the communication overhead C = o/(o + f), where f is
what fetching takes in bytes and o what the distribution does: URLs that are passed on (each at most once by
each gatherer), for proximity the announcement, delay test, answers and decision about every new domain, and
for superpages the statistics, the plan and the URLs that move at a replan.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final

import numpy as np
import numpy.typing as npt

from gcs.core.placement import HashPlacement, Placement, ProximityPlacement, SuperpagePlacement
from gcs.core.urls import key
from gcs.simulate.report import Figure, Progress, Report, Series, Table, Value, counted

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

STEP_S: Final = 10.0
NEAR_S: Final = 0.02
FAR_S: Final = 0.12
OVERSEAS_S: Final = 0.2
ROUND_TRIPS: Final = 3
BANDWIDTH: Final = 125_000.0
PAGE_BYTES: Final = 15_000
MESSAGE_BYTES: Final = 100
PROBE_BYTES: Final = 500
"""A connection and its answer, as proximity makes it to measure a delay."""
DECISION_STEPS: Final = 2
"""Announce, measure, answer, decide: URLs of a new domain wait so long."""
METHODS: Final = ("hash", "proximity", "superpages")


@dataclass(frozen=True)
class Size:
    """How large the web is, and how it is crawled."""

    domains: int = 2_500
    """In each country."""
    pages: float = 20.0
    links: int = 10
    hours: float = 0.5
    connections: int = 8
    per_step: int = 4
    """Pages that may be asked of one domain in a step."""
    server_s: float = 0.4
    """What a server takes on average to answer."""
    proxy_s: float = 0.03
    """What the proxy costs that one gatherer of the paper had to use."""
    replan_s: float = 180.0


@dataclass(slots=True, eq=False)
class Web:
    """Pages, numbered domain by domain, where they are hosted, and where their links lead."""

    countries: Sequence[str]
    country: IntArray
    host: IntArray
    first: IntArray
    domain_of: IntArray
    targets: IntArray
    keys: Sequence[str]

    def delay(self, country: int, domain: int) -> float:
        """The round trip from a gatherer to a domain, in seconds."""
        where = int(self.host[domain])
        if where == len(self.countries):
            return OVERSEAS_S
        return NEAR_S if where == country else FAR_S


def make_web(countries: Sequence[str], size: Size, rng: np.random.Generator) -> Web:
    """A web of these countries."""
    k = len(countries)
    domains = k * size.domains
    country = rng.permutation(np.arange(domains) % k)
    elsewhere = rng.integers(0, k + 1, domains)
    host = np.where(rng.random(domains) < 0.9, country, elsewhere)
    counts = np.maximum(1, np.round(size.pages * rng.lognormal(-0.72, 1.2, domains))).astype(np.int64)
    first = np.concatenate([[0], np.cumsum(counts)])
    domain_of = np.repeat(np.arange(domains), counts)
    names = [f"http://www.d{n:05}.co.{countries[c]}/" for n, c in enumerate(country)]
    keys = [
        key(names[d] + (f"p{n - first[d]:05}.html" if n > first[d] else "")) for n, d in enumerate(domain_of)
    ]
    return Web(
        countries,
        country,
        host,
        first,
        domain_of,
        _targets(country, counts, first, domain_of, size, rng),
        keys,
    )


def _targets(
    country: IntArray,
    counts: IntArray,
    first: IntArray,
    domain_of: IntArray,
    size: Size,
    rng: np.random.Generator,
) -> IntArray:
    """For every page the pages that it links to: 70% in its domain, 24% in its country, 6% anywhere."""
    shape = (len(domain_of), size.links)
    popular = 1 / rng.permutation(np.arange(1, len(counts) + 1)) ** 0.7
    kind = rng.random(shape)
    target = rng.choice(len(counts), shape, p=popular / popular.sum())
    for number in np.unique(country):
        inside = np.flatnonzero(country == number)
        chosen = rng.choice(inside, shape, p=popular[inside] / popular[inside].sum())
        target = np.where((kind < 0.94) & (country[domain_of] == number)[:, np.newaxis], chosen, target)
    target = np.where(kind < 0.7, domain_of[:, np.newaxis], target)
    # Links from elsewhere lead to the home page more often than not.
    home = (kind >= 0.7) & (rng.random(shape) < 0.6)
    return first[target] + np.where(home, 0, (rng.random(shape) * counts[target]).astype(np.int64))


def registered(host: str) -> str:
    """Domains here are `name.co.country`."""
    return ".".join(host.split(".")[-3:])


@dataclass(slots=True)
class Gatherer:
    """A queue by domain, asked in turn, and what was passed on."""

    queue: dict[int, deque[int]] = field(default_factory=dict)
    turn: deque[int] = field(default_factory=deque)
    sent: set[int] = field(default_factory=set)
    inbox: list[int] = field(default_factory=list)
    time_left: float = 0.0

    def put(self, domain: int, page: int) -> None:
        """Queue a page."""
        if domain not in self.queue:
            self.queue[domain] = deque()
            self.turn.append(domain)
        self.queue[domain].append(page)

    def take(self, most: int) -> Iterator[tuple[int, int]]:
        """Pages in turn, so many of a domain at most, while there is time in this step."""
        for _ in range(len(self.turn)):
            if self.time_left <= 0:
                return
            domain = self.turn.popleft()
            waiting = self.queue[domain]
            for _ in range(min(most, len(waiting))):
                if self.time_left > 0:
                    yield domain, waiting.popleft()
            if waiting:
                self.turn.append(domain)
            else:
                del self.queue[domain]


@dataclass(slots=True)
class Course:
    """What one method did, minute by minute."""

    minutes: list[float] = field(default_factory=list)
    pages: list[int] = field(default_factory=list)
    own_share: list[list[float]] = field(default_factory=list)
    overhead: list[float] = field(default_factory=list)
    matrix: IntArray = field(default_factory=lambda: np.zeros((0, 0), dtype=np.int64))
    fetch_s: float = 0.0

    @property
    def at_home(self) -> float:
        """The part of all pages that were fetched by the gatherer of their own country."""
        return float(np.trace(self.matrix) / self.matrix.sum())


class Crawl:
    """One method on one web."""

    def __init__(self, web: Web, size: Size, method: str, rng: np.random.Generator) -> None:
        self.web, self.size, self.rng = web, size, rng
        self.names = [f"gatherer in .{country}" for country in web.countries]
        self.index = {name: number for number, name in enumerate(self.names)}
        self.gatherers = [Gatherer() for _ in self.names]
        self.placement = _placement(method, self.names, rng)
        self.known: set[int] = set()
        self.done: IntArray = np.zeros((len(self.names), len(web.countries)), dtype=np.int64)
        self.fetched_bytes = self.other_bytes = self.busy_s = 0.0
        self.deciding: deque[tuple[int, int]] = deque()
        self.waiting: dict[int, list[tuple[int, int]]] = {}
        self.decided: set[int] = set()
        self.course = Course(matrix=self.done)
        self._fresh: list[str] = []
        self._seed()

    def run(self, steps: int, progress: Callable[[], None]) -> Course:
        """Crawl for so many steps."""
        every = max(1, round(self.size.replan_s / STEP_S))
        for step in range(steps):
            self._decide(step)
            for number, gatherer in enumerate(self.gatherers):
                self._work(number, gatherer, step)
            if isinstance(self.placement, SuperpagePlacement) and (step + 1) % every == 0:
                self._replan(self.placement)
            if step % 6 == 5:
                self._record((step + 1) * STEP_S / 60)
            progress()
        self.course.fetch_s = self.busy_s / max(1, int(self.done.sum()))
        return self.course

    def _seed(self) -> None:
        for number in range(len(self.web.countries)):
            for domain in np.flatnonzero(self.web.country == number)[:20]:
                self._found(int(self.rng.integers(len(self.names))), int(self.web.first[domain]), 0)

    def _work(self, number: int, gatherer: Gatherer, step: int) -> None:
        for page in gatherer.inbox:
            self._accept(number, page)
        gatherer.inbox = []
        gatherer.time_left = self.size.connections * STEP_S + min(0.0, gatherer.time_left)
        for domain, page in gatherer.take(self.size.per_step):
            self._fetch(number, gatherer, domain, page)
            for target in self.web.targets[page].tolist():
                self._found(number, target, step)

    def _fetch(self, number: int, gatherer: Gatherer, domain: int, page: int) -> None:
        server = self.size.server_s * float(self.rng.exponential())
        seconds = server + ROUND_TRIPS * self.web.delay(number, domain) + PAGE_BYTES / BANDWIDTH
        seconds += self.size.proxy_s * (number == 1)
        gatherer.time_left -= seconds
        self.busy_s += seconds
        self.fetched_bytes += PAGE_BYTES
        self.done[number, self.web.country[domain]] += 1
        if isinstance(self.placement, SuperpagePlacement):
            self.placement.observe(self.web.keys[page], self.names[number], seconds)

    def _found(self, number: int, page: int, step: int) -> None:
        """A gatherer has found a link: queued or passed on, once; a new domain is decided upon first."""
        sender = self.gatherers[number]
        if page in sender.sent:
            return
        sender.sent.add(page)
        domain = int(self.web.domain_of[page])
        if isinstance(self.placement, ProximityPlacement) and domain not in self.decided:
            self._announce(number, domain, page, step)
        else:
            self._pass_on(number, page)

    def _pass_on(self, number: int, page: int) -> None:
        owner = self.index[self.placement.owner(self.web.keys[page])]
        if owner == number:
            self._accept(number, page)
        else:
            self.other_bytes += len(self.web.keys[page])
            self.gatherers[owner].inbox.append(page)

    def _accept(self, number: int, page: int) -> None:
        if page not in self.known:
            self.known.add(page)
            self.gatherers[number].put(int(self.web.domain_of[page]), page)
            self._fresh.append(self.web.keys[page])

    def _announce(self, number: int, domain: int, page: int, step: int) -> None:
        assert isinstance(self.placement, ProximityPlacement)
        if domain not in self.waiting:
            self.placement.announce(self.web.keys[page], self.names[number])
            self.deciding.append((step + DECISION_STEPS, domain))
            others = len(self.names) - 1
            # The announcement, the answers and the decision; and everyone's delay test.
            self.other_bytes += 3 * others * MESSAGE_BYTES + len(self.names) * PROBE_BYTES
        self.waiting.setdefault(domain, []).append((number, page))

    def _decide(self, step: int) -> None:
        """The delays are in: what waited for the decision goes its way."""
        while self.deciding and self.deciding[0][0] <= step:
            domain = self.deciding.popleft()[1]
            self.decided.add(domain)
            home = self.web.keys[int(self.web.first[domain])]
            for number, name in enumerate(self.names):
                delay = self.web.delay(number, domain) * float(self.rng.lognormal(0, 0.2))
                self.placement.observe(home, name, delay + self.size.proxy_s * (number == 1))
            for number, page in self.waiting.pop(domain):
                self._pass_on(number, page)

    def _replan(self, placement: SuperpagePlacement) -> None:
        placement.expansion.visit_many(self._fresh, Random(int(self.rng.integers(2**62))))
        self._fresh = []
        queued = Counter(
            placement.expansion.locate_index(self.web.keys[page])
            for gatherer in self.gatherers
            for pages in gatherer.queue.values()
            for page in pages
        )
        placement.expansion.queued = [float(queued[n]) for n in range(len(placement.expansion.superpages))]
        plan = placement.replan()
        # The statistics go to the leader, the plan to everyone else.
        others = len(self.names) - 1
        statistics = len(placement.expansion.to_bytes())
        self.other_bytes += statistics + others * sum(len(start) + 4 for start in plan.starts)
        self._hand_over(placement)

    def _hand_over(self, placement: SuperpagePlacement) -> None:
        wanted: dict[str, list[int]] = {}
        for probe in placement.probes():
            wanted.setdefault(probe.site, []).append(self.index[probe.gatherer])
        before = self.gatherers
        self.gatherers = [Gatherer(sent=g.sent, inbox=g.inbox, time_left=g.time_left) for g in before]
        for number, gatherer in enumerate(before):
            for domain, pages in gatherer.queue.items():
                probers = wanted.get(self.web.keys[int(self.web.first[domain])].partition("\x02www")[0], [])
                for page in pages:
                    owner = probers.pop() if probers else self.index[placement.owner(self.web.keys[page])]
                    self.gatherers[owner].put(domain, page)
                    self.other_bytes += len(self.web.keys[page]) * (owner != number)

    def _record(self, minutes: float) -> None:
        total = self.done.sum(axis=1)
        own = [float(self.done[n, n] / total[n]) if total[n] else 0.0 for n in range(len(total))]
        self.course.minutes.append(minutes)
        self.course.pages.append(int(self.done.sum()))
        self.course.own_share.append(own)
        self.course.overhead.append(self.other_bytes / max(1.0, self.other_bytes + self.fetched_bytes))


def _placement(method: str, names: Sequence[str], rng: np.random.Generator) -> Placement:
    if method == "hash":
        return HashPlacement(names, domain=registered)
    if method == "proximity":
        return ProximityPlacement(names, domain=registered)
    return SuperpagePlacement(names, domain=registered, rng=rng)


def run(
    *,
    seed: int,
    progress: Progress,
    countries: Sequence[str] = ("th", "jp"),
    more_countries: Sequence[str] = ("th", "jp", "kr", "sg"),
    repeats: int = 3,
    domains: int = Size.domains,
    hours: float = Size.hours,
    connections: int = Size.connections,
    server: float = Size.server_s,
    proxy: float = Size.proxy_s,
    replan: float = Size.replan_s,
) -> Report:
    """The three methods with gatherers in two countries, as in the paper, and in more."""
    for named in (countries, more_countries):
        if len(set(named)) < max(2, len(named)) or not all(name.isalpha() for name in named):
            raise ValueError(f"countries are two or more different top-level domains, not {','.join(named)}")
    size = Size(
        domains, hours=hours, connections=connections, server_s=server, proxy_s=proxy, replan_s=replan
    )
    steps = round(size.hours * 3600 / STEP_S)
    tick = counted(progress, 2 * repeats * len(METHODS) * steps)
    two, more = (
        {method: _courses(seed, where, repeats, size, steps, method, tick) for method in METHODS}
        for where in (countries, more_countries)
    )
    return Report(
        name="distribution",
        title="Distribution of domains: hash, network proximity, superpages (002, figures 2 to 5)",
        parameters={
            "seed": seed,
            "countries": ", ".join(countries),
            "domains per country": size.domains,
            "hours": size.hours,
            "connections": size.connections,
            "server_s": size.server_s,
            "proxy_s": size.proxy_s,
            "repeats": repeats,
        },
        tables=[
            *[_table(two, countries), _matrix_table(two, countries)],
            *[_table(more, more_countries), _matrix_table(more, more_countries)],
        ],
        figures=_figures(two, countries),
        findings=_findings(two, more),
    )


Courses = dict[str, list[Course]]


def _courses(
    seed: int,
    countries: Sequence[str],
    repeats: int,
    size: Size,
    steps: int,
    method: str,
    tick: Callable[[], None],
) -> list[Course]:
    courses = []
    for repeat in range(repeats):
        web = make_web(countries, size, np.random.default_rng((seed, len(countries), repeat)))
        crawl = Crawl(web, size, method, np.random.default_rng((seed, len(countries), repeat, 1)))
        courses.append(crawl.run(steps, tick))
    return courses


def _mean(courses: Sequence[Course], of: Callable[[Course], float]) -> float:
    return float(np.mean([of(course) for course in courses]))


def _speed(course: Course) -> float:
    return course.pages[-1] / course.minutes[-1]


def _table(results: Courses, countries: Sequence[str]) -> Table:
    rows: list[Sequence[Value]] = [
        (
            method,
            _mean(courses, _speed),
            float(np.std([_speed(course) for course in courses])),
            _mean(courses, lambda course: course.fetch_s),
            _mean(courses, lambda course: course.at_home),
            100 * _mean(courses, lambda course: course.overhead[-1]),
        )
        for method, courses in results.items()
    ]
    columns = ("", "pages/min", "spread", "seconds a fetch", "fetched at home", "overhead C, %")
    return Table(f"Gatherers in {', '.join('.' + c for c in countries)}", columns, rows)


def _matrix_table(results: Courses, countries: Sequence[str]) -> Table:
    rows: list[Sequence[Value]] = []
    for method, courses in results.items():
        shares = np.mean(
            [c.matrix / np.maximum(1, c.matrix.sum(axis=1, keepdims=True)) for c in courses], axis=0
        )
        rows += [(method, f".{c}", *(100 * shares[n]).tolist()) for n, c in enumerate(countries)]
    title = "Figures 3 and 4: whose pages a gatherer has fetched, % of all it has"
    return Table(title, ("", "gatherer in", *(f".{c} pages" for c in countries)), rows)


def _figures(results: Courses, countries: Sequence[str]) -> list[Figure]:
    minutes = next(iter(results.values()))[0].minutes

    def averaged(of: Callable[[Course], Sequence[float]], courses: Sequence[Course]) -> list[float]:
        means: list[float] = np.mean([of(course) for course in courses], axis=0).tolist()
        return means

    pages = [Series(m, minutes, averaged(lambda c: c.pages, courses)) for m, courses in results.items()]
    overhead = [
        Series(m, minutes, [100 * v for v in averaged(lambda c: c.overhead, courses)])
        for m, courses in results.items()
    ]
    shares = [
        Series(f"{m}: gatherer in .{c}", minutes, averaged(_own(n), courses))
        for m, courses in results.items()
        for n, c in enumerate(countries)
    ]
    return [
        Figure("Figure 2: pages over time", "minutes", "pages", pages),
        Figure(
            "Figures 3 and 4: part of its own country in what a gatherer fetched", "minutes", "part", shares
        ),
        Figure("Figure 5: communication overhead", "minutes", "C, %", overhead),
    ]


def _own(number: int) -> Callable[[Course], Sequence[float]]:
    return lambda course: [100 * shares[number] for shares in course.own_share]


def _findings(two: Courses, more: Courses) -> list[str]:
    overhead = {m: 100 * _mean(courses, lambda c: c.overhead[-1]) for m, courses in two.items()}
    home = {m: 100 * _mean(courses, lambda c: c.at_home) for m, courses in two.items()}
    gain, gain_more = ({m: _gain(results, m) for m in METHODS} for results in (two, more))
    same_speed = abs(gain["proximity"]) < 10
    by_country = 40 < home["hash"] < 60 and home["proximity"] > 75
    small = overhead["hash"] < overhead["proximity"] < 3
    return [
        (
            f"{_verdict(as_published=same_speed)} (figure 2: both at the same speed): compared with hash, "
            f"proximity is {gain['proximity']:+.0f}% faster and superpages {gain['superpages']:+.0f}%; in "
            f"more countries {gain_more['proximity']:+.0f}% and {gain_more['superpages']:+.0f}%."
        ),
        (
            f"{_verdict(as_published=by_country)} (figures 3 and 4: hash divides evenly, proximity by "
            f"country): of all pages {home['hash']:.0f}% were fetched in their own country by hash, "
            f"{home['proximity']:.0f}% by proximity, {home['superpages']:.0f}% by superpages."
        ),
        (
            f"{_verdict(as_published=small)} (figure 5: proximity needs more than hash, both under 3%): C is "
            f"{overhead['hash']:.2f}% for hash, {overhead['proximity']:.2f}% for proximity, "
            f"{overhead['superpages']:.2f}% for superpages."
        ),
    ]


def _gain(results: Courses, method: str) -> float:
    """How much faster than hash, in percent."""
    return 100 * (_mean(results[method], _speed) / _mean(results["hash"], _speed) - 1)


def _verdict(*, as_published: bool) -> str:
    return "As published" if as_published else "Not as published"
