"""What commands of operators say for programs, as types; the monitor's API is described from them."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

from gcs.gatherer.statistics import Statistics

State = Literal["finished", "caught up", "crawling", "paused", "waiting", "stuck"]


class GathererFacts(Statistics):
    """What a gatherer says of itself, with names for ids."""

    name: str
    id: str
    standing: str
    heard_s_ago: float
    epoch: int
    rulings: int
    quiet: bool
    leaving: dict[str, int]
    coming: dict[str, int]


class WatchedGatherer(GathererFacts):
    """The same of one that was watched: also how fast pages have come of late."""

    pages_per_s: float


class HelperFacts(TypedDict):
    """Who is invited to help, and whether it is there."""

    helper: str
    site: str
    present: bool
    slots: int
    pages: int
    says: str


class SuperpageFacts(TypedDict):
    """A superpage as of the last plan."""

    superpage: str
    owners: list[str]
    weight: int
    queued: int
    done: int


class Totals(TypedDict):
    """All gatherers together."""

    pages: int
    bytes: int
    queued: int
    under_way: int
    done: int
    dropped: int
    failed: int
    outbox: int
    lent: int
    helped: int
    pages_per_s: float


class ProgressFacts(TypedDict):
    """How many URLs are done and known, and how many there are, if that can be estimated."""

    done: int
    known: int
    expected: float | None
    expected_low: float | None
    expected_high: float | None


class ForecastFacts(TypedDict):
    """What a plan promises; times are seconds by the ids of gatherers."""

    times: dict[str, float]
    bound: float
    moved: float
    cut_links: float
    method: str
    superpages: int


class PlanFacts(TypedDict):
    """The plan in force."""

    epoch: int
    reason: str
    strategy: str
    ranges: int
    members: dict[str, str]
    forecast: ForecastFacts


class PlanMade(TypedDict):
    """A plan that was made, and what changed hands by it."""

    epoch: int
    at: float
    reason: str
    gatherers: int
    ranges: int
    urls: int


class PausedBy(TypedDict):
    """Who has paused something, and when, if that was said."""

    by: str
    at: float


class RulingFacts(TypedDict):
    """What operators have ruled: hosts and URLs by name, times as Unix time, delays in seconds."""

    epoch: int
    paused: list[str]
    resting: dict[str, float | None]
    barred: list[str]
    delays: dict[str, float]
    paused_by: dict[str, PausedBy]
    settings: dict[str, dict[str, str]]


class StatusFacts(TypedDict):
    """How a crawl is."""

    crawl: str
    at: float
    state: State
    why: str
    next_visit_at: float | None
    """When the next page is due again, as Unix time, if pages are visited again by a policy."""
    alarms: list[str]
    totals: Totals
    progress: ProgressFacts
    plan: PlanFacts | None
    plans: list[PlanMade]
    rulings: RulingFacts
    superpages: list[SuperpageFacts]
    helpers: list[HelperFacts]
    gatherers: list[WatchedGatherer]


class NodesFacts(TypedDict):
    """All gatherers."""

    gatherers: list[GathererFacts]


class QueueFacts(TypedDict):
    """What waits at a gatherer; the outbox by the names of receivers."""

    name: str
    id: str
    queued: int
    under_way: int
    outbox: dict[str, int]
    passed: int


class QueuesFacts(TypedDict):
    """What waits at each gatherer."""

    queues: list[QueueFacts]


RangeFacts = TypedDict("RangeFacts", {"from": str, "owner": str})
RangeFacts.__doc__ = "A range of URLs up to the next one, and who owns it."


class SuperpagesFacts(TypedDict):
    """The first ranges of the plan, and its heaviest superpages."""

    epoch: int
    ranges: list[RangeFacts]
    ranges_in_all: int
    superpages: list[SuperpageFacts]
    superpages_in_all: int


class Missing(TypedDict):
    """Who could not do what was asked, and why, and who has not answered."""

    failed: dict[str, str]
    silent: list[str]


class KnownHost(TypedDict):
    """What a gatherer has of a host; `extent` is how much of it may be fetched there."""

    gatherer: str
    host: str
    queued: int
    done: int
    dropped: int
    passed: int
    extent: str


class HostFacts(Missing):
    """Who owns a host, and what is known of it."""

    host: str
    owners: list[str]
    known: list[KnownHost]


class ResultFacts(TypedDict):
    """A page that was found; marks are ranges of characters that were looked for."""

    url: str
    score: float
    title: str
    title_marks: list[list[int]]
    text: str
    text_marks: list[list[int]]
    language: str
    media_type: str
    fetched_at: str


class SearchFacts(Missing):
    """A page of results: how many there are in all, among how many pages, and which of them these are."""

    query: str
    total: int
    pages: int
    page: int
    results: list[ResultFacts]


class ProfileFacts(TypedDict):
    """A saved query, and how its deliveries go."""

    profile: str
    query: str
    to: str
    target: str
    added: str | None
    state: str
    delivered: int
    waiting: int
    left_out: int
    last_delivered: str | None
    failures: int
    why: str


class WhyFacts(Missing, total=False):
    """Where a URL stands; only `url` and who has passed it on if no gatherer answered."""

    url: str
    state: str
    next: str
    status: int | None
    reason: str | None
    attempts: int
    last_tried: str | None
    via: str
    depth: int
    named_by: str | None
    gatherer: str | None
    superpage: str | None
    range: str
    scope: str
    robots: str
    rulings: list[str]
    lent_to: str
    host_queued: int
    host_rests_s: float
    distance_s: float | None
    crawl_delay_s: float | None
    failed_in_a_row: int
    turn: str
    passed_on_by: list[str]


class SeedsFacts(TypedDict):
    """Seeds that nobody has taken yet, and how many bundles of others are being taken."""

    waiting: list[str]
    being_taken: int


class SeededFacts(TypedDict):
    """How many seeds were given."""

    seeds: int


class RuledFacts(TypedDict):
    """What was ruled, and which gatherers do not follow it yet."""

    ruling: str
    epoch: int
    late: list[str]
    silent: list[str]
    remarks: list[str]


class DrainFacts(TypedDict):
    """Who leaves, and whether it has."""

    drained: str
    left: NotRequired[bool]
    failed: NotRequired[dict[str, str]]
    silent: NotRequired[list[str]]


MoveFacts = TypedDict("MoveFacts", {"from": str, "holder": str | None, "owner": str})
MoveFacts.__doc__ = "A range that changes hands, up to the next one."


class Foreseen(TypedDict, total=False):
    """What a plan promises: T of each gatherer by its name, and what changes hands; or who did not say."""

    remaining_s: dict[str, float]
    bound_s: float
    over_bound: float | None
    urls_moved: float
    links_cut: float
    method: str
    superpages: int
    moves: list[MoveFacts]
    failed: dict[str, str]
    silent: list[str]


class RebalancedFacts(Foreseen):
    """A new plan, and who does not follow it yet; no more than the epoch if there is none."""

    epoch: int
    adopted: bool
    reason: NotRequired[str]
    late: NotRequired[list[str]]
