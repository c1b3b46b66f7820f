"""A URL on its way through the gatherer: what is to be fetched, and what has come of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from gcs.core.politeness import Turn
from gcs.core.revisits.course import Seen
from gcs.core.revisits.memory import MISSING, Memory
from gcs.core.traps import Fingerprint
from gcs.core.urls import url
from gcs.fetch.outcome import Origin, Outcome
from gcs.gatherer.links import Target
from gcs.store.records import Again, Found, Queued, State, host_of
from gcs.summary.members import Member
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
    again: Again | None = None
    """Set if it was visited before, and is visited again."""
    memory: Memory | None = None
    """What is remembered of that."""
    is_owed: bool = True
    """Whether that counts for the proportion of new pages and old ones."""

    @classmethod
    def of(cls, queued: Queued) -> Job:
        """The job of a row of the queue."""
        address = url(queued.key)
        origin, path = Origin.split(address)
        return cls(queued, address, host_of(queued.key), origin, path)

    @classmethod
    def revisit(cls, again: Again) -> Job:
        """The job of a page that is visited again."""
        job = cls.of(again.queued)
        job.again, job.memory = again, Memory.from_bytes(again.memory)
        return job

    def conditions(self) -> bytes:
        """The header lines that ask for it only if it has changed since it was there the last time."""
        if self.again is None or self.memory is None or self.again.status in MISSING:
            return (
                b""  # "not modified" would say of a page that was missing neither what it is nor its status
            )
        return self.memory.conditions()


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
    was_apart: bool = False
    """Whether it was read in another process."""
    members: Sequence[Member] = ()
    """What was inside of it, if so."""
    brief: Document | None = None
    """What a helper says, or would say, of what was read so: helpers only say what it is."""
    targets: Sequence[Target | None] = ()
    """What the links of the document mean, in their order; at level "links" perhaps only new ones."""
    found: list[Found] = field(default_factory=list)
    keep: bool = True
    """Whether the page and its summary are kept."""
    is_same: bool = False
    """Whether the bytes that came are those of the visit before."""
    seen: Seen | None = None
    """What another visit has found."""
    change: float = 1.0
    """C: how much of the links has changed since the visit before."""
    hints: Sequence[tuple[str, float]] = ()
    """Keys of which it says when they changed, as Unix time."""

    @property
    def is_kept_at_last(self) -> bool:
        """Whether the bytes came again of a page whose body is in no record of its own yet."""
        memory = self.job.memory
        return self.is_same and self.keep and memory is not None and memory.kept_at < 0

    @property
    def is_unchanged(self) -> bool:
        """Whether it was visited again, and found as it was."""
        return self.seen is Seen.UNCHANGED


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
