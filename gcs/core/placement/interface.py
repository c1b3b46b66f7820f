"""What every placement can be asked. Five answer: superpages, hash, proximity, TWOMA and OMA.

A placement is told what fetches took, and at a replan it decides anew who owns what. From then on `owner`
says what the plan says, of sites that are known and of those that are not; before the first plan all sites
are dealt by a hash. It owns no clock and fetches nothing: a *probe* is its wish that one page be fetched by
someone who does not own it, so that it learns how near that gatherer is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from gcs.core.plan import Plan


@dataclass(frozen=True, slots=True)
class Probe:
    """One page of a site, to be fetched by a gatherer that does not own it."""

    site: str
    gatherer: str


def named(gatherers: Sequence[str]) -> tuple[str, ...]:
    """These gatherers; raises ValueError if there are none, or two of one name."""
    if not gatherers or len(set(gatherers)) < len(gatherers):
        raise ValueError("a placement needs one gatherer or more, each with a name of its own")
    return tuple(gatherers)


class Placement(Protocol):
    """Decides who owns what."""

    def owner(self, key: str) -> str:
        """Who owns a key now."""

    def observe(self, key: str, gatherer: str, seconds: float, *, pages: int = 1) -> None:
        """A gatherer has fetched pages of this key's site, which took so long, all together."""

    def probes(self) -> Sequence[Probe]:
        """What it wants to be fetched elsewhere before the next replan."""

    def replan(self, gatherers: Sequence[str] | None = None) -> Plan:
        """Decide anew from what was observed since the last time; for other gatherers, if they are given."""
