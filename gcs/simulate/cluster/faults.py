"""What goes wrong in a run, and when: a list that depends on nothing but its seed.

A fault may be taken out of the list and the others stay as they are: that is how a list is made short.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Final

FIRST_S, LAST_S = 0.5, (25.0, 50.0)
"""Three of four come while the first plans are made, the others while all have something to do."""
SHORTEST_S, LONGEST_S = 0.5, 12.0
FAILING_S: Final = 3.5
"""A host fails for less than this: for so long each of its pages is tried again."""
_SHARING: Final = 0.3
"""Of all runs, the share in which some hosts have one address in any case: so it is in the web."""
_FORGETTING_S: Final = 6.0
"""A Redis that has died is started soon: what comes back with it has to be good for something still."""


class Kind(StrEnum):
    """What can go wrong, or is done on purpose."""

    KILL = "kill"
    """A gatherer's process dies, and is started again after a while."""
    LOSE = "lose"
    """A gatherer is lost for good, with its disk."""
    PAUSE = "pause"
    """A gatherer stands still, for longer than leases last, and goes on."""
    CUT = "cut"
    """A gatherer cannot reach Redis for a while."""
    SPLIT = "split"
    """Every second gatherer cannot reach Redis for a while."""
    LOSSY = "lossy"
    """Requests of a gatherer to Redis, or the replies, are lost: what was done may seem to have failed."""
    DELAY = "delay"
    """Requests of a gatherer take long, each for as long as it likes, and so come in another order."""
    REDIS = "redis"
    """Redis is away for a while."""
    FORGET = "forget"
    """Redis dies, and comes back without its last second."""
    FULL = "full"
    """The disk of a gatherer is full for a while."""
    SLOW = "slow"
    """The disk of a gatherer is slow: what waits for it takes up to seconds. After long it is killed, too."""
    JOIN = "join"
    """One more gatherer begins."""
    DRAIN = "drain"
    """A gatherer is told to leave."""
    HELPER = "helper"
    """A helper dies, and is started again after a while."""
    STALL = "stall"
    """A helper stands still, for longer than it has for what it took, and goes on."""
    LIAR = "liar"
    """A helper tells of pages that are not there. All helpers are strangers then, who are checked."""
    TURNCOAT = "turncoat"
    """A stranger that gatherers have known for long begins to lie, early enough to have something to say."""
    SHARE = "share"
    """Some hosts have the address of another one, alone or beside their own; from the beginning."""
    DOWN = "down"
    """A host takes no connection for a while."""
    HANG = "hang"
    """A host does not answer for a while."""
    BUSY = "busy"
    """A host answers 503 for a while, and says when to come again."""


OF_HELPERS: Final = frozenset({Kind.HELPER, Kind.STALL, Kind.LIAR, Kind.TURNCOAT})
OF_HOSTS: Final = frozenset({Kind.DOWN, Kind.HANG, Kind.BUSY})
LIARS: Final = frozenset({Kind.LIAR, Kind.TURNCOAT})
FROM_THE_BEGINNING: Final = frozenset({Kind.LIAR, Kind.SHARE})
_ONCE: Final = (frozenset({Kind.LOSE}), frozenset({Kind.DRAIN}), frozenset({Kind.SHARE}), LIARS)
"""Of each of these there is one at most."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that goes wrong."""

    at_s: float
    kind: Kind
    who: int
    for_s: float

    def __str__(self) -> str:
        """For people."""
        return f"{self.at_s:.1f}s {self.kind} #{self.who} for {self.for_s:.1f}s"


def schedule(random: Random, kinds: Sequence[Kind], gatherers: int, helpers: int, hosts: int) -> list[Fault]:
    """Some faults, in order.

    At most one disk is lost, one gatherer drained, one address shared and one helper a liar, for two could
    agree. No host fails twice. What happens to a gatherer may happen to one that has joined.
    """
    chosen: list[Fault] = []
    drawn = [random.choice(list(kinds)) for _ in range(random.randint(1, 6))]
    if Kind.SHARE in kinds and random.random() < _SHARING:
        drawn.append(Kind.SHARE)
    for kind in drawn:
        if any(kind in group and each.kind in group for group in _ONCE for each in chosen):
            continue
        if kind in OF_HELPERS and not helpers:
            continue
        of_hosts = kind in OF_HOSTS or kind is Kind.SHARE
        there = gatherers + drawn.count(Kind.JOIN)
        who = random.randrange(helpers if kind in OF_HELPERS else hosts if of_hosts else there)
        if kind in OF_HOSTS and any(each.kind in OF_HOSTS and each.who == who for each in chosen):
            continue
        latest_s = LAST_S[0] / 2 if kind is Kind.TURNCOAT else random.choice(LAST_S)
        at_s = 0.0 if kind in FROM_THE_BEGINNING else random.uniform(FIRST_S, latest_s)
        longest_s = FAILING_S if kind in OF_HOSTS else _FORGETTING_S if kind is Kind.FORGET else LONGEST_S
        chosen.append(Fault(at_s, kind, who, random.uniform(SHORTEST_S, longest_s)))
    gone = {each.who for each in chosen if each.kind in (Kind.LOSE, Kind.DRAIN)}
    if len(gone) >= gatherers:
        chosen = [each for each in chosen if each.kind is not Kind.DRAIN]
    return sorted(chosen, key=lambda each: (each.at_s, each.kind, each.who))
