"""004, sections 5.2 and 5.3: how long the list of pending URLs gets, and what crawling the whole web takes.

Table 5.3 and the other estimates are shown as printed, with their slips, and corrected. Then synthetic webs
are crawled, to see what the formula is worth: one where every page is as likely to be linked to as any other,
as the paper assumes, and one where few pages have most of the links. And while they are crawled, they are
asked now and then whether they are halfway there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from gcs.core import estimate
from gcs.core.estimate import Progress as Estimated
from gcs.simulate.report import Figure, Progress, Report, Series, Table, Value

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]

PRINTED: Final = (
    (1_000_000_000, 968_508_416, 26_491_585),
    (2_000_000_000, 1_965_042_680, 29_957_321),
    (3_000_000_000, 2_963_015_354, 31_984_648),
    (4_000_000_000, 3_961_576_944, 33_423_058),
    (5_000_000_000, 4_960_461_226, 34_538_777),
)
"""Table 5.3: N, P_max and n1, for S = 200."""
RANKED: Final = (
    (500_000, 323_963, 33),
    (1_000_000, 582_692, 58),
    (1_500_000, 801_783, 79),
    (2_000_000, 1_000_667, 103),
    (2_500_000, 1_199_649, 94),
    (3_000_000, 1_374_316, 111),
    (3_500_000, 1_542_274, 120),
    (4_000_000, 1_710_902, 138),
)
"""Table 5.2: records in, records out and seconds of the ranking on three machines."""
OUT_DEGREE: Final = 200
ASKED: Final = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.9)
SEEDS: Final = 10


@dataclass(frozen=True, slots=True)
class Crawl:
    """A crawl of a synthetic web to its end: URLs accepted after 0, 1, 2, … pages."""

    accepted: IntArray

    @property
    def total(self) -> int:
        """How many pages there were to crawl."""
        return int(self.accepted[-1])

    @property
    def pending(self) -> IntArray:
        """P(n) as it happened."""
        return self.accepted - np.arange(len(self.accepted))

    def asked_at(self, done: int) -> Estimated:
        """What the crawl could say about its end when so many pages were done."""
        return estimate.halfway(list(enumerate(self.accepted[: done + 1].tolist())))


def crawl(popularity: FloatArray, degree: float, rng: np.random.Generator) -> Crawl:
    """Crawl, in the order of discovery, a web whose links lead to pages in proportion to their popularity."""
    n = len(popularity)
    edges = np.cumsum(popularity) / popularity.sum()
    known = np.zeros(n, bool)
    known[:SEEDS] = True
    queue = list(range(SEEDS))
    accepted = [len(queue)]
    for _ in queue:
        found = np.minimum(np.searchsorted(edges, rng.random(rng.poisson(degree))), n - 1)
        fresh = np.unique(found[~known[found]])
        known[fresh] = True
        # The list is its own iterator's queue: what is appended is visited in its turn.
        queue.extend(fresh.tolist())
        accepted.append(len(queue))
    return Crawl(np.array(accepted))


def run(
    *,
    seed: int,
    progress: Progress,
    pages: int = 50_000,
    degree: float = 20.0,
    sigma: float = 1.0,
) -> Report:
    """The paper's tables, and webs of so many pages with so many links each."""
    rng = np.random.default_rng(seed)
    webs = {"equally popular": np.ones(pages), "log-normal": rng.lognormal(0, sigma, pages)}
    crawls = {}
    for name, popularity in webs.items():
        crawls[name] = crawl(popularity, degree, rng)
        progress((1 + len(crawls)) / 4)
    answers = {name: _answers(done) for name, done in crawls.items()}
    progress(1.0)
    return Report(
        name="frontier",
        title="The pending list and the whole web (004, sections 5.2 and 5.3)",
        parameters={"seed": seed, "pages": pages, "degree": degree, "sigma": sigma},
        tables=(
            _table_5_3(),
            _estimates(),
            _ranking_speed(),
            _crawled(crawls, pages, degree),
            *(_asked(name, crawls[name], answers[name]) for name in crawls),
        ),
        figures=(_figure_5_3(), _measured(crawls, pages, degree), _progress(crawls, answers)),
        findings=_findings(crawls, answers),
    )


def _table_5_3() -> Table:
    rows: list[Sequence[Value]] = []
    for nodes, p_max, n1 in PRINTED:
        slip, right = estimate.peak_as_printed(nodes, OUT_DEGREE), estimate.peak(nodes, OUT_DEGREE)
        rows.append((nodes, p_max, n1, slip.p_max, slip.n1, right.p_max, right.n1, right.n1 / nodes))
    columns = (
        "N", "P_max printed", "n1 printed", "P_max by slip", "n1 by slip", "P_max right", "n1 right", "n1/N",
    )  # fmt: skip
    return Table("Table 5.3: the longest pending list, S = 200", columns, rows)


def _estimates() -> Table:
    rows = [(e.name, e.unit, _round(e.printed), _round(e.corrected)) for e in estimate.whole_web()]
    return Table("Section 5.3: the whole web", ("estimate", "unit", "printed", "corrected"), rows)


def _round(value: float | None) -> Value:
    """Whole numbers where they are large: nobody needs a part of a participant."""
    return round(value) if value is not None and value >= 1000 else value


def ranking_speeds() -> tuple[float, float]:
    """Records per second by table 5.2: extrapolated to a compression rate of 1, and per further record."""
    records, out, seconds = np.array(RANKED, float).T
    by_compression = np.polynomial.Polynomial.fit(records / out, records / seconds, 1)
    by_size = np.polynomial.Polynomial.fit(records, seconds, 1).convert()
    return float(by_compression(1.0)), float(1 / by_size.coef[1])


def _ranking_speed() -> Table:
    extrapolated, further = ranking_speeds()
    rows = [
        (
            name,
            _round(speed),
            _round(estimate.ranking_s(4e9, speed)),
            estimate.ranking_s(4e9, speed) / 155_520,
        )
        for name, speed in (
            ("assumed in the paper", 10_000.0),
            ("speed against compression rate, extrapolated to 1", extrapolated),
            ("seconds against records, the slope", further),
        )
    ]
    columns = ("how fast, by table 5.2", "records/s", "seconds", "% of six months")
    return Table("Ranking 4·10⁹ URLs on three machines", columns, rows)


def _crawled(crawls: dict[str, Crawl], pages: int, degree: float) -> Table:
    model = estimate.peak(pages, degree)
    rows: list[Sequence[Value]] = [("formula (5.3)", pages, model.n1, model.p_max)]
    for name, done in crawls.items():
        rows.append((name, done.total, int(done.pending.argmax()), int(done.pending.max())))
    columns = ("web", "pages reached", "n1", "P_max")
    return Table(f"Crawled: {pages:,} pages with {degree:g} links each", columns, rows)


def _answers(done: Crawl) -> list[tuple[float, Estimated]]:
    return [(part, done.asked_at(round(part * done.total))) for part in ASKED]


def _asked(name: str, done: Crawl, answers: Sequence[tuple[float, Estimated]]) -> Table:
    said = {True: "yes", False: "no", None: "cannot say"}
    rows: list[Sequence[Value]] = []
    for part, answer in answers:
        least, largest = answer.shares
        held = answer.low <= done.total and (answer.high is None or done.total <= answer.high)
        rows.append((part, answer.share, least, largest, held, said[answer.halfway]))
    columns = ("done", "estimated", "at least", "at most", "holds the truth", "halfway?")
    return Table(f"Are we halfway there? ({name})", columns, rows)


def _figure_5_3() -> Figure:
    parts = np.concatenate([np.linspace(0, 0.1, 80), np.linspace(0.11, 1, 60)])
    nodes = 4e9
    lines = [
        Series(
            f"N = 4·10⁹, S = {links}",
            parts.tolist(),
            [estimate.pending(max(1.0, part * nodes), nodes, links) / nodes for part in parts.tolist()],
        )
        for links in (10, 50, OUT_DEGREE)
    ]
    return Figure("Figure 5.3: the pending list", "pages crawled / N", "P(n) / N", lines)


def _measured(crawls: dict[str, Crawl], pages: int, degree: float) -> Figure:
    model = [estimate.pending(n, pages, degree) for n in range(1, pages, max(1, pages // 200))]
    lines = [Series("formula (5.3)", list(range(1, pages, max(1, pages // 200))), model)]
    for name, done in crawls.items():
        at = np.arange(0, len(done.accepted), max(1, pages // 200))
        lines.append(Series(name, at.tolist(), done.pending[at].tolist()))
    return Figure("The pending list of crawls to the end", "pages crawled", "pending", lines)


def _progress(crawls: dict[str, Crawl], answers: dict[str, list[tuple[float, Estimated]]]) -> Figure:
    lines = [Series("truth", [0.0, 1.0], [0.0, 1.0])]
    for name in crawls:
        parts = [part for part, _ in answers[name]]
        lines.append(Series(f"{name}: estimated", parts, [a.share or 0.0 for _, a in answers[name]]))
        lines.append(Series(f"{name}: at least", parts, [a.shares[0] for _, a in answers[name]]))
        lines.append(Series(f"{name}: at most", parts, [a.shares[1] for _, a in answers[name]]))
    return Figure("Are we halfway there?", "share done", "share that the crawl thinks is done", lines)


def _findings(crawls: dict[str, Crawl], answers: dict[str, list[tuple[float, Estimated]]]) -> list[str]:
    off = [
        abs(getattr(estimate.peak_as_printed(nodes, OUT_DEGREE), name) - printed)
        for nodes, p_max, n1 in PRINTED
        for name, printed in (("p_max", p_max), ("n1", n1))
    ]
    asked = [(crawls[name].total, a) for name in crawls for _, a in answers[name]]
    held = sum(a.low <= total and (a.high is None or total <= a.high) for total, a in asked)
    wrong = sum(a.halfway is not None and a.halfway != (2 * a.done >= total) for total, a in asked)
    return [
        f"Table 5.3 is reproduced to within {max(off)} with a = 1 − 2·10⁻⁷, right for its first row only.",
        "Corrected, n1/N is 0.0265 at any N; a larger web does not take relatively less time, as 004 says.",
        "(5.4) as printed is negative for every n, so (5.5) has no solution; the table came from elsewhere.",
        *(f"{e.name[0].upper()}{e.name[1:]}: {e.note}." for e in estimate.whole_web() if e.note),
        f"Asked {len(asked)} times, crawls held the true total in their interval {held} times.",
        f"They said “halfway” or “not halfway” wrongly {wrong} times.",
    ]
