"""Whom a lender deals with, and what came of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol


class Books(Protocol):
    """Who may be lent to, and who is believed."""

    def desks(self) -> Iterable[str]:
        """The names of the desks at which others wait for URLs."""

    def key(self, desk: str) -> bytes | None:
        """What seals bundles there; None if nothing is lent there."""

    def stranger(self, desk: str) -> str:
        """Whose desk it is, if that one has to be checked; "" if all who work there are trusted."""

    def record(self, desk: str) -> str:
        """Under which name it is kept what is known of that one; "" if there is no such one."""

    def records(self) -> set[str]:
        """The names of the records of all who are invited."""

    def helper_key(self, desk: str, helper: str) -> bytes | None:
        """What seals the answers of a helper; None for one that has no business there."""


class Probing(Protocol):
    """Which pages other gatherers are to try."""

    def wanted(self, host: str) -> str | None:
        """The gatherer that should try a page of a host; None for none."""

    def given(self, host: str, gatherer: str) -> None:
        """It was given one."""

    def took(self, host: str, seconds: float) -> None:
        """A page was fetched here."""

    def tried(self, host: str, gatherer: str, took_s: float) -> None:
        """A gatherer has tried one, and that took so long."""


@dataclass(slots=True)
class Account:
    """What came of lending so far."""

    lent: int = 0
    returned: int = 0
    unanswered: int = 0
    refused: Counter[str] = field(default_factory=Counter)
