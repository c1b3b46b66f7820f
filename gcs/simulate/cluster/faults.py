"""What goes wrong in a run, and when: a list that depends on nothing but its seed.

A fault may be taken out of the list and the others stay as they are: that is how a list is made short.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Final

FIRST_S, LAST_S = 0.5, 25.0


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
    LOSSY = "lossy"
    """Requests of a gatherer to Redis, or the replies, are lost for a while."""
    REDIS = "redis"
    """Redis is away for a while."""
    FORGET = "forget"
    """Redis dies, and comes back without its last second."""
    FULL = "full"
    """The disk of a gatherer is full for a while."""
    JOIN = "join"
    """One more gatherer begins."""
    DRAIN = "drain"
    """A gatherer is told to leave."""
    HELPER = "helper"
    """A helper dies, and is started again after a while."""


ALL: Final = tuple(Kind)


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


def schedule(random: Random, kinds: Sequence[Kind], gatherers: int, helpers: int) -> list[Fault]:
    """Some faults, in order. At most one disk is lost, and one gatherer drained."""
    chosen: list[Fault] = []
    for _ in range(random.randint(1, 6)):
        kind = random.choice(list(kinds))
        if kind in (Kind.LOSE, Kind.DRAIN) and any(each.kind is kind for each in chosen):
            continue
        if kind is Kind.HELPER and not helpers:
            continue
        who = random.randrange(helpers if kind is Kind.HELPER else gatherers)
        chosen.append(Fault(random.uniform(FIRST_S, LAST_S), kind, who, random.uniform(0.5, 12.0)))
    gone = {each.who for each in chosen if each.kind in (Kind.LOSE, Kind.DRAIN)}
    if len(gone) >= gatherers:
        chosen = [each for each in chosen if each.kind is not Kind.DRAIN]
    return sorted(chosen, key=lambda each: (each.at_s, each.kind, each.who))
