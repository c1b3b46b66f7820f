"""Loans that are out: what was lent, where it lies, and what has come of it so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from gcs.config import Config
from gcs.gatherer.job import Job, Loan
from gcs.gatherer.lending import Wish
from gcs.helper import papers
from gcs.helper.papers import Bundle
from gcs.helper.scrutiny import Case, Told


@dataclass(eq=False, slots=True)
class Out:
    """A loan that is out."""

    bundle: Bundle
    loan: Loan
    wish: Wish
    until: float
    """By trio's clock: when it ends, answered or not."""
    stranger: str = ""
    """The record of who has it, if that one has to be checked."""
    answered: set[tuple[str, int]] = field(default_factory=set)
    """The parts that have come, with who sent them."""
    told: dict[int, Told] = field(default_factory=dict)
    """What has come of a stranger's answer, by the number of the URL in the loan."""
    recalled: set[int] = field(default_factory=set)
    """Numbers of URLs that were blocked since: what is said of them is not taken."""
    case: Case | None = None
    """What is to be confirmed, if somebody else has said the same before."""
    rest_s: float = 0.0
    """How long the host has to rest before it is offered."""
    numbers: Sequence[int] = ()
    """The numbers in the loan of the URLs of the bundle."""
    claimed_by: float = 0.0
    """By trio's clock: when it is taken back if nobody has taken it by then."""
    is_asked_after: bool = False
    is_claimed: bool = False
    """Whether somebody is known to have taken it."""
    is_cut_short: bool = False
    """Whether something that was said of it found no room: it is not as if there had been nothing to say."""

    @property
    def desk(self) -> str:
        """Where it lies."""
        return self.wish.to

    @property
    def weight(self) -> int:
        """About how many bytes are held back of it."""
        return sum(each.page.weight for each in self.told.values())

    @property
    def useful(self) -> int:
        """How many pages came that say something."""
        return sum(each.is_useful for each in self.told.values())


def bundled(
    config: Config, gatherer: str, id_: str, epoch: int, jobs: Sequence[Job], delay_s: float, wish: Wish
) -> Bundle:
    """Some URLs of one host as they are offered."""
    fetch, origin = config.fetch, jobs[0].origin
    return Bundle(
        version=papers.VERSION,
        id=id_,
        crawl=config.crawl.name,
        gatherer=gatherer,
        scheme=origin.scheme,
        host=origin.host,
        port=origin.port,
        paths=[job.path for job in jobs],
        delay_s=delay_s,
        delay_factor=fetch.delay_factor if fetch.delay_s else 0.0,
        max_delay_s=fetch.max_delay_s,
        expected_s=wish.expected_s,
        within_s=wish.within_s,
        epoch=epoch,
        agent=fetch.agent,
        level=config.summary.level,
        keep=config.store.pages != "none",
        max_body_bytes=min(papers.MAX_BODY_BYTES, fetch.max_body_bytes),
    )
