"""What goes wrong in one run: a list that depends on nothing but its seed.

A fault may be taken out of the list and the others stay as they are: that is how a list is made short.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Final

from gcs.simulate.cluster.faults import (
    AFTERWARDS_S,
    DOER,
    FAILING_S,
    FIRST_S,
    FORGETTING_S,
    FROM_THE_BEGINNING,
    LAST_S,
    LIARS,
    LONGEST_S,
    OF_HELPERS,
    OF_HOSTS,
    SHORTEST_S,
    Fault,
    Kind,
    Moment,
)
from gcs.simulate.cluster.themes import themed

_SHARING: Final = 0.1
"""Of all runs, the share in which some hosts have one address in any case: so it is in the web."""
_THEMED: Final = 0.6
"""Of all runs, the share in which some faults belong together."""
_TIMELY: Final = 0.2
"""Of the faults that can, the share that waits for a moment."""
_ALONE, _OTHERS = (1, 6), (1, 3)
"""How many faults are drawn by themselves; in the second case besides those that belong together."""
_ONCE: Final = (frozenset({Kind.LOSE}), frozenset({Kind.DRAIN}), frozenset({Kind.SHARE}), LIARS)
"""Of each of these there is one at most."""
_UNTIMELY: Final = FROM_THE_BEGINNING | OF_HOSTS | LIARS
"""What hosts and liars do has nothing to do with what gatherers just do."""


def schedule(random: Random, kinds: Sequence[Kind], gatherers: int, helpers: int, hosts: int) -> list[Fault]:
    """Some faults, in order.

    At most one disk is lost, one gatherer drained, one address shared and one helper a liar, for two could
    agree. No host fails twice. What happens to a gatherer may happen to one that has joined. Some wait for a
    moment, and some belong together.
    """
    has_theme = random.random() < _THEMED
    about = themed(random, gatherers, hosts) if has_theme else []
    chosen = [each for each in about if each.kind in kinds]
    drawn = [random.choice(list(kinds)) for _ in range(random.randint(*_OTHERS if has_theme else _ALONE))]
    there = gatherers + drawn.count(Kind.JOIN) + sum(each.kind is Kind.JOIN for each in chosen)
    if Kind.SHARE in kinds and random.random() < _SHARING:
        drawn.append(Kind.SHARE)
    for kind in drawn:
        if any(kind in group and each.kind in group for group in _ONCE for each in chosen):
            continue
        if kind in OF_HELPERS and not helpers:
            continue
        of_hosts = kind in OF_HOSTS or kind is Kind.SHARE
        who = random.randrange(helpers if kind in OF_HELPERS else hosts if of_hosts else there)
        if kind in OF_HOSTS and any(each.kind in OF_HOSTS and each.who == who for each in chosen):
            continue
        latest_s = LAST_S[0] / 2 if kind is Kind.TURNCOAT else random.choice(LAST_S)
        at_s = 0.0 if kind in FROM_THE_BEGINNING else random.uniform(FIRST_S, latest_s)
        longest_s = FAILING_S if kind in OF_HOSTS else FORGETTING_S if kind is Kind.FORGET else LONGEST_S
        fault = Fault(at_s, kind, who, random.uniform(SHORTEST_S, longest_s))
        chosen.append(_timely(random, fault) if random.random() < _TIMELY else fault)
    gone = {each.who for each in chosen if each.kind in (Kind.LOSE, Kind.DRAIN)}
    if len(gone) >= gatherers:
        chosen = [each for each in chosen if each.kind is not Kind.DRAIN]
    return sorted(chosen, key=lambda each: (each.at_s, each.kind, each.who))


def _timely(random: Random, fault: Fault) -> Fault:
    """The same at a moment, and in half of the cases to whoever is just busy; as it was, if it has none."""
    moment = random.choice(list(Moment))
    who = random.choice([DOER, fault.who])
    at_s = random.uniform(FIRST_S, LAST_S[0])
    after_s = random.uniform(0.0, random.choice(AFTERWARDS_S))
    if fault.kind in _UNTIMELY:
        return fault
    if fault.kind in OF_HELPERS:
        who = fault.who
    return replace(fault, at_s=at_s, who=who, moment=moment, after_s=after_s)
