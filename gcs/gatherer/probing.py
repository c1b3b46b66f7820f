"""Pages that other gatherers try in this one's place, and what follows from how long they take."""

from __future__ import annotations

import math
from typing import Final

import trio

from gcs.core.locality import Locality
from gcs.core.placement import Sites
from gcs.domains import registered_domain
from gcs.gatherer.node import Node

REASON: Final = "locality"
_SAY_AGAIN_S: Final = 60.0


class Probes:
    """The probes of the plan in force, as far as they are about what is held here."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._locality = Locality(node.config.rebalance.locality)
        self._sites = Sites(registered_domain)
        self._epoch = 0
        self._told: dict[str, float] = {}
        """When it was last said of a site that another one is much faster there, under this plan."""

    def _look(self) -> bool:
        """Follow the plan in force; whether it has anything to try. Ranges on their way come first."""
        charter = self._node.charter
        if charter is not None and charter.epoch != self._epoch:
            self._epoch = charter.epoch
            there = charter.members.keys() - set(charter.departed)
            probes = [(site, gatherer) for site, gatherer in charter.probes if gatherer in there]
            self._locality.begin(probes, self._node.id)
            self._told.clear()
        return self._locality.is_curious and self._node.holdings.is_settled

    def wanted(self, host: str) -> str | None:
        """The gatherer that should try a page of a host."""
        return self._locality.wanted(self._sites.of(host)) if self._look() else None

    def given(self, host: str, gatherer: str) -> None:
        """A page of a host was given to it."""
        self._locality.given(self._sites.of(host), gatherer)

    def took(self, host: str, seconds: float) -> None:
        """A page of a host was fetched here."""
        if self._look():
            self._locality.took(self._sites.of(host), seconds)

    def tried(self, host: str, gatherer: str, took_s: float) -> None:
        """Another gatherer has tried one."""
        self._locality.tried(self._sites.of(host), gatherer, took_s)

    def reason(self) -> str:
        """Why there should be a new plan; of each site it is said now and then until there is one."""
        now = trio.current_time()
        due = [site for site in self._locality.far() if self._told.get(site, -math.inf) < now - _SAY_AGAIN_S]
        self._told |= dict.fromkeys(due, now)
        return REASON if due else ""
