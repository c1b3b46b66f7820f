"""The strategies that decide by site: hash, proximity, TWOMA and OMA.

They know the sites of which pages were fetched or delays measured, and those of the sample of keys. The
pinned stay among those they choose from, so that nothing is forgotten of them; what they would get without
holding it is dealt to the free by a hash.

What is foreseen is by the same sample: the work of a superpage lies, in equal parts, at its sampled keys. So
it is an estimate, with the error of 4,096 draws, and a site without any sampled key counts for nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from gcs.core.placement import (
    HashPlacement,
    OmaPlacement,
    Plan,
    Probe,
    ProximityPlacement,
    Sites,
    TwomaPlacement,
    rendezvous,
)
from gcs.core.placement.learned import NONE
from gcs.core.rounds.foresight import Foreseen, bound_of, point_paces
from gcs.core.rounds.ground import Ground
from gcs.core.rounds.knowledge import Knowledge
from gcs.core.rounds.records import Report
from gcs.core.rounds.sides import Sides

PROBES: Final = 2_000
"""Delay tests in one round at most."""


def by_site(
    strategy: str,
    knowledge: Knowledge,
    sides: Sides,
    reports: Sequence[Report],
    sites: Sites,
    rng: np.random.Generator,
) -> tuple[Plan, Sequence[Probe]]:
    """The plan by one of these strategies, and what to probe."""
    own = knowledge.own if knowledge.strategy == strategy else None
    probes: Sequence[Probe] = ()
    if strategy == "hash":
        plan = _by_hash(knowledge, sides, sites)
    elif strategy == "proximity":
        plan, probes = _by_proximity(own, knowledge, sides, reports, sites)
    else:
        plan = _by_automaton(strategy, own, knowledge, sides, reports, sites, rng)
    knowledge.strategy = strategy
    return sides.respected(plan), probes


def _by_hash(knowledge: Knowledge, sides: Sides, sites: Sites) -> Plan:
    placement = HashPlacement(sides.staying, domain=sites.domain)
    for site in knowledge.learned.names:
        placement.know(site)
    knowledge.own = None
    return placement.replan()


def _by_proximity(
    own: Any, knowledge: Knowledge, sides: Sides, reports: Sequence[Report], sites: Sites
) -> tuple[Plan, Sequence[Probe]]:
    """Sites that were announced before are decided; new ones wait with who holds them, or found them."""
    placement = ProximityPlacement(sides.staying, domain=sites.domain)
    if own is not None:
        placement.restore(own)
    _measured(placement, sides, reports)
    placement.replan(sides.staying)
    found: dict[str, str] = {}
    for report in reports:
        if report.gatherer in sides.staying:
            for site in (*report.paces, *report.delays):
                found.setdefault(site, report.gatherer)
    for site in knowledge.learned.names:
        holder = sides.holdings.owner(site)
        finder = found.get(site) or rendezvous(site, sides.staying)
        placement.announce(site, holder if holder in sides.staying else finder)
    _measured(placement, sides, reports)
    knowledge.own = placement.state({*knowledge.learned.names})
    return placement.plan(), placement.probes()[:PROBES]


def _measured(placement: ProximityPlacement, sides: Sides, reports: Sequence[Report]) -> None:
    for report in reports:
        if report.gatherer in sides.staying:
            for site, delay in sorted(report.delays.items()):
                placement.measured(site, report.gatherer, delay)


def _by_automaton(
    strategy: str,
    own: Any,
    knowledge: Knowledge,
    sides: Sides,
    reports: Sequence[Report],
    sites: Sites,
    rng: np.random.Generator,
) -> Plan:
    made = TwomaPlacement if strategy == "twoma" else OmaPlacement
    placement: TwomaPlacement | OmaPlacement = made(sides.staying, domain=sites.domain, rng=rng)
    if own is not None:
        placement.restore(own)
    else:
        holders = {site: sides.holdings.owner(site) for site in knowledge.learned.names}
        placement.adopt({site: holder for site, holder in holders.items() if holder in sides.staying})
    for report in reports:
        for site, (pages, seconds) in sorted(report.paces.items()):
            if pages > 0 and knowledge.learned.number(site) != NONE:
                placement.observe(site, report.gatherer, seconds)
        if isinstance(placement, OmaPlacement):
            for one, other in report.together:
                placement.together(one, other)
    for site in knowledge.learned.names:
        placement.know(site)
    plan = placement.replan(sides.staying)
    knowledge.own = placement.state({*knowledge.learned.names})
    return plan


def foreseen(strategy: str, plan: Plan, knowledge: Knowledge, sides: Sides, sites: Sites) -> Foreseen:
    """What a plan promises, whatever decided so."""
    ground, learned = Ground(knowledge.expansion), knowledge.learned
    page = np.array([knowledge.expansion.locate_index(site) for site in learned.names], dtype=np.int64)
    site_of = np.array([learned.number(sites.of(key)) if key else NONE for key in ground.keys])
    paces = point_paces(site_of, ground.page, page, learned.paces.belief(page), ground.superpages)
    work, owners = ground.spread(knowledge.work), ground.owners(plan)
    columns = {gatherer: learned.gatherers.index(gatherer) for gatherer in sides.staying}
    seconds = work * paces[np.arange(len(owners)), [columns[owner] for owner in owners]]
    spent = np.bincount([columns[owner] for owner in owners], seconds, len(learned.gatherers))
    free = [columns[gatherer] for gatherer in sides.free]
    mine = np.array([owner in sides.free for owner in owners], dtype=bool)
    times = {gatherer: float(spent[column]) for gatherer, column in columns.items()}
    fixed = [times[gatherer] for gatherer in sides.pinned]
    return Foreseen(times, max([bound_of(work[mine], paces[mine][:, free]), *fixed]), strategy)
