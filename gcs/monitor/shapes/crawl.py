"""How a crawl is, who is there, and what has happened."""

from __future__ import annotations

from typing import Generic, Literal, TypedDict, TypeVar

from gcs.operate import facts

Facts = TypeVar("Facts")
Series = list[float | None]


class Told(TypedDict, Generic[Facts]):
    """What came of a question of an operator: for programs, for people, and as an exit code."""

    facts: Facts
    lines: list[str]
    code: int


class SignedIn(TypedDict):
    """Who is signed in, until when; nobody if there is no role."""

    role: Literal["view", "operate"] | None
    crawl: str | None
    version: str | None
    expires_at: float | None


class Reach(TypedDict):
    """Whether Redis can be used, why not, and since when."""

    redis: bool
    sentence: str
    since: float | None


class Paused(TypedDict):
    """Who is paused, a gatherer or all, by whom and since when."""

    who: str
    by: str
    since: float | None


class SpeedTotals(facts.Totals):
    """All gatherers together, and what comes in a second."""

    bytes_per_s: float
    failed_per_s: float


class Outlook(TypedDict):
    """How far the crawl is and how long it will take, with the least and the most that this may be."""

    done: int
    known: int
    expected: float | None
    expected_low: float | None
    expected_high: float | None
    share: float | None
    share_low: float | None
    share_high: float | None
    remaining_s: float | None
    remaining_low_s: float | None
    remaining_high_s: float | None
    sentence: str


class Present(TypedDict):
    """How many gatherers are there, are silent, and are paused."""

    present: int
    absent: int
    paused: int


class Invited(TypedDict):
    """How many helpers are there, and are invited."""

    present: int
    invited: int


class PlanInForce(TypedDict):
    """The plan in force; its longest T as a multiple of the lower bound."""

    epoch: int
    at: float | None
    reason: str
    strategy: str
    over_bound: float | None


class Condition(TypedDict):
    """How the crawl is, as of `at`."""

    at: float | None
    state: facts.State | Literal["unknown"]
    sentence: str
    why: str
    finished_at: float | None
    next_visit_at: float | None
    """When the next page is due again, if pages are visited again by a policy."""
    paused: list[Paused]
    resting_hosts: int
    totals: SpeedTotals | None
    progress: Outlook | None
    alarms: list[str]
    gatherers: Present
    helpers: Invited
    plan: PlanInForce | None


class CrawlOverview(Condition):
    """The crawl on one screen."""

    crawl: str
    version: str
    reach: Reach


class Gatherers(TypedDict):
    """What each gatherer says, by name."""

    gatherers: list[facts.WatchedGatherer]


class GathererSeries(TypedDict):
    """How it went at one gatherer."""

    pages_per_s: Series
    queued: Series
    overhead_percent: Series


class SeriesOfAll(TypedDict):
    """How it went: a value for each of the times, of all and of each gatherer by its name."""

    every_s: float
    at: list[float]
    pages_per_s: Series
    bytes_per_s: Series
    failed_per_s: Series
    queued: Series
    done: Series
    gatherers: dict[str, GathererSeries]


class CrawlHistory(TypedDict):
    """The last hour, and the last day as means."""

    recent: SeriesOfAll
    day: SeriesOfAll


class Happening(TypedDict):
    """Something that has happened."""

    id: int
    at: float
    kind: str
    level: Literal["info", "warning", "error"]
    who: str
    sentence: str


class Happenings(TypedDict):
    """The newest first, and the number of the last of all."""

    events: list[Happening]
    last: int


class Traffic(TypedDict):
    """URLs from each gatherer to each, in the order of their names, and what coordination costs."""

    gatherers: list[str]
    sent_urls: list[list[int]]
    waiting_urls: list[list[int]]
    sent_bytes: list[int]
    received_bytes: list[int]
    overhead_percent: list[float]
    overhead_percent_all: float


class Trust(TypedDict):
    """What a gatherer thinks of a helper: right answers in a row, wrong ones, whether it is barred."""

    gatherer: str
    consistent: int
    wrong: int
    barred: bool


class TrustedHelper(facts.HelperFacts):
    """A helper, and what gatherers think of it; nothing if it need not earn their trust."""

    trust: list[Trust]


class Helpers(TypedDict):
    """Who is invited to help."""

    helpers: list[TrustedHelper]
