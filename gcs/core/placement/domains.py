"""Placement by domain: by a hash of its name, or by network proximity. (002, section 3.1.)

Both decide once for each domain and are not moved by what fetches take. The hash needs no words between
gatherers. Proximity needs three rounds of them for each new domain: who discovers it *announces* it, all
measure the delay, and the announcer decides for the one with the smallest and tells the others. Of several
announcers the first counts, which the caller settles with one atomic swap; here that is the first `announce`.

A plan is a list of ranges, so a domain that it does not know belongs to the range that it lies in; the next
plan puts it where it belongs. Only what was announced since the plan is decided by word, as in the paper.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from gcs.core.placement.interface import Probe, named
from gcs.core.plan import Domain, Plan, Sites, by_site, rendezvous


class HashPlacement:
    """The owner of a domain is a hash of its name (rendezvous hashing: a join moves only its share)."""

    def __init__(self, gatherers: Sequence[str], *, domain: Domain) -> None:
        self._gatherers = named(gatherers)
        self._sites = Sites(domain)
        self._known: dict[str, None] = {}
        self._plan: Plan | None = None

    def owner(self, key: str) -> str:
        """By the plan; before there is one, the gatherer whose hash with the key's domain is the highest."""
        return self._plan.owner(key) if self._plan else rendezvous(self._sites.of(key), self._gatherers)

    def observe(self, key: str, gatherer: str, seconds: float, *, pages: int = 1) -> None:
        """Note that the domain exists; nothing else counts."""
        self.know(self._sites.of(key))

    def know(self, site: str) -> None:
        """Note that a domain exists."""
        self._known[site] = None

    def probes(self) -> Sequence[Probe]:
        """None: a hash has nothing to learn."""
        return ()

    def replan(self, gatherers: Sequence[str] | None = None) -> Plan:
        """The plan of the domains known so far."""
        if gatherers is not None:
            self._gatherers = named(gatherers)
        owners = {site: rendezvous(site, self._gatherers) for site in self._known}
        self._plan = by_site(owners, otherwise=self._gatherers[0])
        return self._plan


CLEARLY: Final = 0.75
LEAST_GAIN_S: Final = 0.005
"""A decision is changed for a delay that is by both smaller: a move costs more than noise is worth."""


class ProximityPlacement:
    """The owner of a domain is the gatherer that measured the smallest delay when it was announced.

    When delays are measured again, it stays so until another one is clearly nearer.
    """

    def __init__(self, gatherers: Sequence[str], *, domain: Domain) -> None:
        self._gatherers = named(gatherers)
        self._sites = Sites(domain)
        self._announcer: dict[str, str] = {}
        self._delays: dict[str, dict[str, float]] = {}
        self._owners: dict[str, str] = {}
        self._plan: Plan | None = None

    def owner(self, key: str) -> str:
        """The nearest gatherer; while that is not decided, the announcer, with whom the URLs wait."""
        site = self._sites.of(key)
        decided = self._owners.get(site) or self._announcer.get(site)
        if decided:
            return decided
        return self._plan.owner(key) if self._plan else rendezvous(site, self._gatherers)

    def announce(self, key: str, gatherer: str) -> str:
        """A gatherer has discovered the domain of a key; the answer is who decides about it."""
        return self._announcer.setdefault(self._sites.of(key), gatherer)

    def probes(self) -> Sequence[Probe]:
        """A delay test of every announced domain for everyone who has not measured it."""
        return [
            Probe(site, gatherer)
            for site in self._announcer
            if site not in self._owners
            for gatherer in self._gatherers
            if gatherer not in self._delays.get(site, {})
        ]

    def observe(self, key: str, gatherer: str, seconds: float, *, pages: int = 1) -> None:
        """A delay that was measured for an announced domain; later ones do not count."""
        site = self._sites.of(key)
        if site in self._owners or site not in self._announcer or pages <= 0:
            return
        self._delays.setdefault(site, {}).setdefault(gatherer, seconds / pages)
        if self._delays[site].keys() >= set(self._gatherers):
            self._decide(site)

    def measured(self, key: str, gatherer: str, seconds: float) -> None:
        """The delay of an announced domain as it is now; it counts at the next replan."""
        self.observe(key, gatherer, seconds)
        site = self._sites.of(key)
        if site in self._announcer:
            self._delays.setdefault(site, {})[gatherer] = seconds

    def state(self, known: Collection[str]) -> Sequence[Mapping[str, Any]]:
        """Announcers, delays and decisions of these domains as plain values."""
        tables: Sequence[Mapping[str, Any]] = (self._announcer, self._delays, self._owners)
        return [{site: value for site, value in table.items() if site in known} for table in tables]

    def restore(self, state: Sequence[Mapping[str, Any]]) -> None:
        """Go on with what `state` gave."""
        announcer, delays, owners = state
        self._announcer, self._owners = dict(announcer), dict(owners)
        self._delays = {site: dict(measured) for site, measured in delays.items()}

    def replan(self, gatherers: Sequence[str] | None = None) -> Plan:
        """Decide with the delays that have come; what a lost gatherer had goes to the next nearest."""
        if gatherers is not None:
            self._gatherers = named(gatherers)
            for site, announcer in self._announcer.items():
                if announcer not in self._gatherers:
                    self._announcer[site] = rendezvous(site, self._gatherers)
        for site in self._announcer:
            if self._owners.get(site) not in self._gatherers:
                self._decide(site)
            else:
                self._reconsider(site)
        return self.plan()

    def plan(self) -> Plan:
        """The plan of what is decided so far, and of what waits with its announcers."""
        owners = {site: self._owners.get(site, who) for site, who in self._announcer.items()}
        self._plan = by_site(owners, otherwise=self._gatherers[0])
        return self._plan

    def _decide(self, site: str) -> None:
        """What the announcer does when the answers are in: the smallest delay, itself if equal."""
        answers = {g: d for g, d in self._delays.get(site, {}).items() if g in self._gatherers}
        self._owners.pop(site, None)
        if answers:
            self._owners[site] = nearest(answers, self._announcer[site])

    def _reconsider(self, site: str) -> None:
        """Decide anew if another one is clearly nearer by now."""
        answers = {g: d for g, d in self._delays.get(site, {}).items() if g in self._gatherers}
        owner = self._owners[site]
        if answers and is_clearly_nearer(min(answers.values()), answers.get(owner, math.inf)):
            self._owners[site] = nearest(answers, self._announcer[site])


def is_clearly_nearer(delay_s: float, than_s: float) -> bool:
    """Whether a delay is smaller by more than what differs from one measurement to the next."""
    return delay_s < than_s and delay_s <= CLEARLY * than_s and than_s - delay_s >= LEAST_GAIN_S


def nearest(delays: Mapping[str, float], announcer: str) -> str:
    """The gatherer with the smallest delay; of several, the announcer if it is one of them."""
    return min(delays, key=lambda gatherer: (delays[gatherer], gatherer != announcer, gatherer))
