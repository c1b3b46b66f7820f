"""What a crawl has to know of those who fetch in its place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from gcs.gatherer.job import Loan, Visit


@dataclass(frozen=True, slots=True)
class Wish:
    """How much of a host somebody would fetch now."""

    to: str
    """Who, as `Lending` knows them."""
    most: int
    """URLs at most."""
    expected_s: float
    """How long that should take."""
    offered_s: float
    """How long it waits to be taken."""
    handed_s: float
    """What is taken may have been handed over so long ago when its taker sees it."""
    within_s: float
    """How long who takes it may ask."""

    @property
    def longest_s(self) -> float:
        """After so long nobody asks for anything of it, whatever happens."""
        return self.offered_s + self.handed_s + self.within_s


class Lending(Protocol):
    """Has others fetch some of what is queued. Called in the middle of work: only note it."""

    def has_room(self) -> bool:
        """Whether somebody would take more than there is already for them."""

    def wish(self, host: str, now: float, delay_s: float, *, spare: bool) -> Wish | None:
        """What to lend of a host; `spare` if the turn is not needed for a fetch of this gatherer's own."""

    def took(self, host: str, seconds: float) -> None:
        """A page of a host was fetched here."""

    def keeps(self, key: str) -> bool:
        """Whether a URL is to be fetched here and by nobody else."""

    def lent_to(self, key: str) -> str:
        """Who has a URL now; "" if it is not lent."""

    def judged(self, visit: Visit) -> bool:
        """What has come of a URL here; whether that does not count, and it is to be fetched once more."""

    @property
    def is_settled(self) -> bool:
        """Whether nothing has to be queued again because of what somebody said."""

    def meta(self) -> dict[str, bytes]:
        """Named values to be kept with the next batch, if they have changed."""

    def lend(self, loan: Loan, wish: Wish) -> None:
        """Have it fetched; `Crawl.ended` has to be called for it in the end."""
