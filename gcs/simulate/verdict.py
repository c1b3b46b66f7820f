"""A crawler judged by what the server of a synthetic web saw: what it fetched, how often, and how politely.

The log has one line per request, in the order in which the answers were sent:

    1731736812.123456 0.000213 h003.test /s1/d0/p1.html 200 18233 agent (with anything in it)

which is the start (when the request had arrived), the seconds until the answer was sent, host, target,
status, bytes of the body, and the user agent.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from gcs.core.urls import NO_CLEANING, Cleaning

if TYPE_CHECKING:
    from gcs.simulate.web import Web

CUT_OFF = 499
"""The status that is logged when the client was gone before the answer was sent."""
_TOLERANCE_S = 0.005
_MOMENT_S = 1e-6
UNANSWERED = frozenset({429, CUT_OFF, 500, 502, 503, 504})
"""Statuses that are no answer for good."""


@dataclass(frozen=True, slots=True)
class Request:
    """One line of the log."""

    start: float
    taken_s: float
    host: str
    target: str
    status: int
    size_bytes: int
    agent: str

    def line(self) -> str:
        """As it stands in the log."""
        return (
            f"{self.start:.6f} {self.taken_s:.6f} {self.host} {self.target} "
            f"{self.status} {self.size_bytes} {self.agent}\n"
        )


def read_log(path: Path) -> Iterator[Request]:
    """The requests in a log; a line that is not whole yet ends it."""
    with path.open(encoding="latin-1", newline="\n") as lines:
        for line in lines:
            fields = line.rstrip("\n").split(" ", 6)
            if len(fields) < 7 or not line.endswith("\n"):
                return
            start, taken, host, target, status, size, agent = fields
            yield Request(float(start), float(taken), host, target, int(status), int(size), agent)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the log says of a crawler."""

    requests: int
    pages: int
    """Different pages that were fetched, of those that there are to find."""
    coverage: float
    """The part of the pages to find that was fetched."""
    missing: frozenset[str]
    files: int
    duplicates: int
    """Requests for what had been answered for good before, except for robots.txt, wherever it is."""
    repeated: Mapping[str, int]
    robots: int
    forbidden: Mapping[str, int]
    """What robots.txt forbids and was asked for all the same."""
    unannounced: frozenset[str]
    """Hosts of which something was asked before their robots.txt."""
    hidden: frozenset[str]
    """Pages that only links not to be followed lead to."""
    hurried: Mapping[str, float]
    """What was asked again before Retry-After said, and after how many seconds."""
    trapped: Mapping[str, int]
    """How many pages of each endless part were fetched."""
    statuses: Mapping[int, int]
    size_bytes: int
    span_s: float
    closest_s: Mapping[str, float]
    """For each host, the least time from the start of a request to the start of the next."""
    closest_at_address_s: Mapping[str, float]
    most_at_once: Mapping[str, int]
    """For each host, how many requests were under way at once."""
    most_at_once_at_address: Mapping[str, int]
    agents: frozenset[str]
    crawl_delays_s: Mapping[str, float]

    def impolite(self, delay_s: float, *, tolerance_s: float = _TOLERANCE_S) -> Mapping[str, float]:
        """The hosts that were asked again sooner than the delay, or their own crawl-delay, allows."""
        return {
            host: closest
            for host, closest in self.closest_s.items()
            if closest < max(delay_s, self.crawl_delays_s.get(host, 0.0)) - tolerance_s
        }


def judge(
    log: Path | Iterable[Request],
    web: Web,
    *,
    cleaning: Cleaning = NO_CLEANING,
    sitemaps: bool = True,
) -> Verdict:
    """Judge a crawler by the log of the server; `cleaning` and `sitemaps` as the crawler was told."""
    found = read_log(log) if isinstance(log, Path) else log
    requests = sorted(found, key=lambda request: request.start)
    truth = web.truth(cleaning=cleaning, sitemaps=sitemaps)
    wanted = [r for r in requests if not r.target.endswith("/robots.txt")]
    answered = Counter(web.url(r.host, r.target) for r in wanted if r.status not in UNANSWERED)
    fetched = {web.url(r.host, r.target) for r in wanted if r.status == 200}
    pages = fetched & truth.pages
    asked = Counter(web.url(r.host, r.target) for r in wanted)
    repeated = {url: count - 1 for url, count in answered.items() if count > 1}
    by_host = _grouped(requests, {host.name: host.name for host in web.hosts})
    by_address = _grouped(requests, {host.name: host.address for host in web.hosts})
    return Verdict(
        requests=len(requests),
        pages=len(pages),
        coverage=len(pages) / len(truth.pages),
        missing=truth.pages - pages,
        files=len(fetched & truth.files),
        duplicates=sum(repeated.values()),
        repeated=repeated,
        robots=len(requests) - len(wanted),
        forbidden={url: count for url, count in asked.items() if _is_forbidden(web, url)},
        unannounced=frozenset(name for name, of in by_host.items() if of[0].target != "/robots.txt"),
        hidden=frozenset(url for url in fetched if web.kind(url) == "hidden"),
        hurried=_hurried(requests, web),
        trapped=_trapped(fetched, truth.traps),
        statuses=Counter(r.status for r in requests),
        size_bytes=sum(r.size_bytes for r in requests),
        span_s=max((r.start + r.taken_s for r in requests), default=0.0) - requests[0].start
        if requests
        else 0.0,
        closest_s=_closest(by_host),
        closest_at_address_s=_closest(by_address),
        most_at_once=_most_at_once(by_host),
        most_at_once_at_address=_most_at_once(by_address),
        agents=frozenset(r.agent for r in requests),
        crawl_delays_s={host.name: host.crawl_delay_s for host in web.hosts if host.crawl_delay_s},
    )


def _grouped(requests: Sequence[Request], groups: Mapping[str, str]) -> dict[str, list[Request]]:
    found: defaultdict[str, list[Request]] = defaultdict(list)
    for request in requests:
        if request.host in groups:
            found[groups[request.host]].append(request)
    return dict(found)


def _is_forbidden(web: Web, url: str) -> bool:
    at = web.split(url)
    return at is not None and not at[0].allows(at[1])


def _hurried(requests: Sequence[Request], web: Web) -> dict[str, float]:
    refused: dict[str, float] = {}
    early: dict[str, float] = {}
    for request in requests:
        url = web.url(request.host, request.target)
        if web.kind(url) != "busy":
            continue
        waited = request.start - refused.get(url, 0.0)
        if waited < round(web.slowness) - _TOLERANCE_S:
            early[url] = waited
        if request.status in {429, 503}:
            refused[url] = request.start
    return early


def _trapped(fetched: Iterable[str], traps: Iterable[str]) -> dict[str, int]:
    return {trap: count for trap in traps if (count := sum(url.startswith(trap) for url in fetched))}


def _closest(groups: Mapping[str, Sequence[Request]]) -> dict[str, float]:
    return {
        name: min(later.start - earlier.start for earlier, later in pairwise(of))
        for name, of in groups.items()
        if len(of) > 1
    }


def _most_at_once(groups: Mapping[str, Sequence[Request]]) -> dict[str, int]:
    return {name: _overlap(of) for name, of in groups.items()}


def _overlap(requests: Sequence[Request]) -> int:
    # An end comes before the start of another in the same moment, but after its own.
    ends = [(max(r.start + r.taken_s, r.start + _MOMENT_S), 0) for r in requests]
    steps = sorted([(r.start, 1) for r in requests] + ends)
    most = now = 0
    for _, is_start in steps:
        now += 1 if is_start else -1
        most = max(most, now)
    return most
