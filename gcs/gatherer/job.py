"""A URL on its way through the gatherer: what is to be fetched, and what has come of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from gcs.core.politeness import Turn
from gcs.core.traps import Fingerprint
from gcs.core.urls import url
from gcs.fetch.outcome import Origin, Outcome
from gcs.gatherer.links import Target
from gcs.store.records import Found, Queued, State, host_of
from gcs.summary.records import Document


@dataclass(slots=True)
class Job:
    """A URL that was taken off the queue."""

    queued: Queued
    url: str
    host: str
    origin: Origin
    path: str
    epoch: int = 0
    """That of what operators had ruled when it was taken."""

    @classmethod
    def of(cls, queued: Queued) -> Job:
        """The job of a row of the queue."""
        address = url(queued.key)
        origin, path = Origin.split(address)
        return cls(queued, address, host_of(queued.key), origin, path)


@dataclass(slots=True)
class Visit:
    """What came of a job, as it was decided; what is kept of it is made from this."""

    job: Job
    outcome: Outcome | None
    """None when it was not asked for at all."""
    at: float
    state: State
    status: int
    """The HTTP status, or one of Heritrix's negative codes."""
    reason: str = ""
    retry_at: float = 0.0
    worker: int = 0
    helper: str = ""
    """Who fetched it, if that was not this gatherer."""
    fingerprint: Fingerprint | None = None
    """What tells the page from others, if a helper has found that out."""
    host_failed: bool = False
    pause_s: float = 0.0
    host_given_up: bool = False
    is_page: bool = False
    """Whether there is something to read."""
    document: Document | None = None
    targets: Sequence[Target | None] = ()
    """What the links of the document mean, in their order; at level "links" perhaps only new ones."""
    found: list[Found] = field(default_factory=list)
    keep: bool = True
    """Whether the page and its summary are kept."""


class Loan:
    """Some URLs of one host that another process fetches in this gatherer's place.

    The host's turn is held until it ends: nobody else asks there meanwhile.
    """

    __slots__ = ("delay_s", "failed", "jobs", "pause_s", "took_s", "turn")

    def __init__(self, turn: Turn, jobs: Sequence[Job], delay_s: float) -> None:
        self.turn = turn
        self.jobs: dict[int, Job] = dict(enumerate(jobs))
        """Those that are not answered yet, by their numbers."""
        self.delay_s = delay_s
        """The distance that its requests keep."""
        self.took_s = self.pause_s = 0.0
        self.failed = False
        """Whether the last answer says that the host fails."""
