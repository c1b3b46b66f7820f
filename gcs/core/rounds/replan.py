"""One round of planning, from the last plan's state and what gatherers report to the next plan.

Any gatherer can be elected to lead a round, so a leader has nothing of its own: what it knows is in the state
that was published with the last plan. The same arguments give the same outcome, whoever leads.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from random import Random

import numpy as np

from gcs.core.placement import Domain, Plan, Probe, Sites
from gcs.core.rounds.bysite import by_site, foreseen
from gcs.core.rounds.foresight import Foreseen, nothing_to_do
from gcs.core.rounds.ground import Ground
from gcs.core.rounds.knowledge import Knowledge, restored
from gcs.core.rounds.records import Forecast, Outcome, Report, Terms
from gcs.core.rounds.sharing import Sharing
from gcs.core.rounds.sides import Sides
from gcs.core.urls import HOST


def replan(
    terms: Terms,
    state: bytes | None,
    members: Sequence[str],
    reports: Sequence[Report],
    holdings: Plan | None,
    *,
    seed: int,
    domain: Domain,
    pinned: Collection[str] = (),
    leaving: Collection[str] = (),
) -> Outcome:
    """Decide anew who owns what.

    Without a state this is the first plan, or the last leader's could not be read. `holdings` says who holds
    what today, with "" for nobody. Members that are `pinned` keep exactly what they hold; those that are
    `leaving`, and holders that are not members, own nothing afterwards. Reports of strangers do not count.

    Raises ValueError for a state that is none, and when no member is there to be planned for.
    """
    sides = Sides.of(members, holdings, pinned, leaving)
    heard = {report.gatherer: report for report in sorted(reports, key=lambda r: (r.gatherer, r.expansion))}
    counting = [report for gatherer, report in heard.items() if gatherer in sides.present]
    sites, rng = Sites(domain), np.random.default_rng(seed)
    knowledge = restored(state, counting, sides.present)
    knowledge.take_in(counting, sides.present, sides.holdings)
    measured = [site for report in counting for site in sorted(report.delays) if site.startswith(HOST)]
    knowledge.learn([*measured, *(sites.of(key) for key in sorted(knowledge.expansion.keys))])
    knowledge.cut(len(sides.staying), terms.delta, Random(int(rng.integers(2**62))))
    ground = Ground(knowledge.expansion)
    plan, foreseen, probes = _decided(terms, knowledge, sides, counting, sites, rng)
    return Outcome(
        plan=plan,
        state=knowledge.to_bytes(),
        expansion=knowledge.expansion.fresh().to_bytes(),
        forecast=_forecast(foreseen, plan, knowledge, sides, ground),
        probes=probes,
    )


def _decided(
    terms: Terms,
    knowledge: Knowledge,
    sides: Sides,
    reports: Sequence[Report],
    sites: Sites,
    rng: np.random.Generator,
) -> tuple[Plan, Foreseen, Sequence[Probe]]:
    """The plan, what it promises, and what to probe."""
    strategy = terms.strategy
    if strategy == "superpage" and not knowledge.expansion.total() and not sides.anything_held:
        strategy = "hash"  # sites that are known without a single visit have no weight to be shared out by
    if not (knowledge.expansion.total() if strategy == "superpage" else len(knowledge.learned)):
        plan = sides.kept(knowledge.expansion.keys, split_hosts=terms.split_hosts)
        return plan, nothing_to_do(terms.strategy, sides), ()
    if strategy != "superpage":
        plan, probes = by_site(strategy, knowledge, sides, reports, sites, rng)
        return plan, foreseen(strategy, plan, knowledge, sides, sites), probes
    caps = {report.gatherer: report.cap for report in reports if report.cap is not None}
    sharing = Sharing(terms, knowledge, sides, sites, caps)
    shared, promised = sharing.shared()
    plan = sides.respected(shared)
    return plan, promised, sharing.probes(plan, rng)


def _forecast(foreseen: Foreseen, plan: Plan, knowledge: Knowledge, sides: Sides, ground: Ground) -> Forecast:
    owners, holders = ground.owners(plan), ground.owners(sides.holdings)
    rows = ground.spread(knowledge.rows)
    # What a lost gatherer had is found again, not handed over.
    moves = [a != b and a in sides.present for a, b in zip(holders, owners, strict=True)]
    return Forecast(
        times=foreseen.times,
        bound=foreseen.bound,
        moved=float(rows[moves].sum()),
        cut_links=_cut_links(owners, knowledge, ground),
        method=foreseen.method,
        superpages=len(knowledge.expansion.superpages),
    )


def _cut_links(owners: Sequence[str], knowledge: Knowledge, ground: Ground) -> float:
    """The links between superpages of different owners, that is those who have most of them."""
    numbers = {owner: number for number, owner in enumerate(sorted(set(owners)))}
    parts = np.zeros((ground.superpages, len(numbers)))
    np.add.at(parts, (ground.page, np.array([numbers[owner] for owner in owners])), ground.part)
    owner = parts.argmax(axis=1)
    return float(sum(n for (a, b), n in knowledge.expansion.links.items() if owner[a] != owner[b]))
