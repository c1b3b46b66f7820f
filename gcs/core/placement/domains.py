"""Placement by domain: by a hash of its name, or by network proximity. (002, section 3.1.)

Both decide once for each domain and are not moved by what fetches take. The hash needs no words between
gatherers. Proximity needs three rounds of them for each new domain: who discovers it *announces* it, all
measure the delay, and the announcer decides for the one with the smallest and tells the others. Of several
announcers the first counts, which the caller settles with one atomic swap; here that is the first `announce`.
"""

from __future__ import annotations

from collections.abc import Sequence

from gcs.core.placement.interface import Probe
from gcs.core.placement.plan import Domain, Plan, Sites, by_site, rendezvous


class HashPlacement:
    """The owner of a domain is a hash of its name (rendezvous hashing: a join moves only its share)."""

    def __init__(self, gatherers: Sequence[str], *, domain: Domain) -> None:
        self._gatherers = _some(gatherers)
        self._sites = Sites(domain)
        self._owners: dict[str, str] = {}

    def owner(self, key: str) -> str:
        """The gatherer whose hash with the key's domain is the highest."""
        site = self._sites.of(key)
        if site not in self._owners:
            self._owners[site] = rendezvous(site, self._gatherers)
        return self._owners[site]

    def observe(self, key: str, gatherer: str, seconds: float, *, pages: int = 1) -> None:
        """Note that the domain exists; nothing else counts."""
        self.owner(key)

    def probes(self) -> Sequence[Probe]:
        """None: a hash has nothing to learn."""
        return ()

    def replan(self, gatherers: Sequence[str] | None = None) -> Plan:
        """The plan of the domains known so far."""
        if gatherers is not None:
            self._gatherers = _some(gatherers)
            self._owners = {site: rendezvous(site, self._gatherers) for site in self._owners}
        return by_site(self._owners, otherwise=self._gatherers[0])


class ProximityPlacement:
    """The owner of a domain is the gatherer that measured the smallest delay when it was announced."""

    def __init__(self, gatherers: Sequence[str], *, domain: Domain) -> None:
        self._gatherers = _some(gatherers)
        self._sites = Sites(domain)
        self._announcer: dict[str, str] = {}
        self._delays: dict[str, dict[str, float]] = {}
        self._owners: dict[str, str] = {}

    def owner(self, key: str) -> str:
        """The nearest gatherer; while that is not decided, the announcer, with whom the URLs wait."""
        site = self._sites.of(key)
        decided = self._owners.get(site) or self._announcer.get(site)
        return decided or rendezvous(site, self._gatherers)

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
        if site in self._owners or site not in self._announcer:
            return
        self._delays.setdefault(site, {}).setdefault(gatherer, seconds / pages)
        if self._delays[site].keys() >= set(self._gatherers):
            self._decide(site)

    def replan(self, gatherers: Sequence[str] | None = None) -> Plan:
        """Decide with the delays that have come; what a lost gatherer had goes to the next nearest."""
        if gatherers is not None:
            self._gatherers = _some(gatherers)
            for site, announcer in self._announcer.items():
                if announcer not in self._gatherers:
                    self._announcer[site] = rendezvous(site, self._gatherers)
        for site in self._announcer:
            if self._owners.get(site) not in self._gatherers:
                self._decide(site)
        owners = {site: self._owners.get(site, who) for site, who in self._announcer.items()}
        return by_site(owners, otherwise=self._gatherers[0])

    def _decide(self, site: str) -> None:
        """What the announcer does when the answers are in: the smallest delay, itself if equal."""
        answers = {g: d for g, d in self._delays.get(site, {}).items() if g in self._gatherers}
        self._owners.pop(site, None)
        if answers:
            self._owners[site] = min(answers, key=lambda g: (answers[g], g != self._announcer[site], g))


def _some(gatherers: Sequence[str]) -> tuple[str, ...]:
    if not gatherers or len(set(gatherers)) < len(gatherers):
        raise ValueError("a placement needs one gatherer or more, each with a name of its own")
    return tuple(gatherers)
