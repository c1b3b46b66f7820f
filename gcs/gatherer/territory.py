"""What a crawl has to know about others: which URLs are its own, and whether it may begin with more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from gcs.core.holdings import Extent
from gcs.store.records import Found, Passed


class Territory(Protocol):
    """Which part of the web is this gatherer's, from one moment to the next."""

    def route(self, found: Sequence[Found]) -> tuple[list[Found], list[Passed]]:
        """Of URLs that were found, those that are ours, and the others with their owners."""

    def extent(self, host: str) -> Extent:
        """How much of a host may be fetched here now."""

    def may_fetch(self, key: str) -> bool:
        """Whether a URL may be fetched here now."""

    def may_begin(self) -> bool:
        """Whether another fetch may be begun at all."""

    def share(self) -> float:
        """Which share of what could be fetched should be, for the sake of something else."""

    def epoch_of_rulings(self) -> int:
        """The epoch of what operators have ruled; 0 for nothing."""

    def is_over(self) -> bool:
        """Whether the crawl ends when there is nothing left to do here."""


class Alone:
    """The territory of a gatherer that is alone: everything."""

    def route(self, found: Sequence[Found]) -> tuple[list[Found], list[Passed]]:
        """All of them."""
        return list(found), []

    def extent(self, host: str) -> Extent:
        """All of it."""
        return Extent.ALL

    def may_fetch(self, key: str) -> bool:
        """Always."""
        return True

    def may_begin(self) -> bool:
        """Always."""
        return True

    def share(self) -> float:
        """All of it."""
        return 1.0

    def epoch_of_rulings(self) -> int:
        """There are none."""
        return 0

    def is_over(self) -> bool:
        """Yes: nobody else can have anything for it."""
        return True


ALONE: Final = Alone()
