"""What can go wrong in a run, and when."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

FIRST_S, LAST_S = 0.5, (25.0, 50.0)
"""Most come while the first plans are made, the others while all have something to do."""
SHORTEST_S, LONGEST_S = 0.5, 12.0
FORGOTTEN_S: Final = (25.0, 35.0)
"""Who is silent for so long is thought lost, or nearly."""
FAILING_S: Final = 3.5
"""A host fails for less than this: for so long each of its pages is tried again."""
FORGETTING_S: Final = 6.0
"""A Redis that has died is started soon: what comes back with it has to be good for something still."""
AFTERWARDS_S: Final = (0.0, 0.5, 2.0)
"""It comes then at once, or within so long."""
SHARE_AT_MOST: Final = 4
"""So many hosts at most have the address of another one: the whole seconds modulo this, and one more."""
MOST_SHARE_S: Final = tuple(times * SHARE_AT_MOST - 0.5 for times in (1, 2, 3))
"""So most do; for more than half of the longest time, beside addresses of their own."""
DOER: Final = -1
"""Stands for the gatherer whose doing it is that a moment has come."""


class Kind(StrEnum):
    """What can go wrong, or is done on purpose."""

    KILL = "kill"
    """A gatherer's process dies, and is started again after a while."""
    STOP = "stop"
    """A gatherer is told to stop, ends in its own time, and is started again after a while."""
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
    LAG = "lag"
    """What a gatherer fetches, or any helper, takes seconds to come: all else has to wait meanwhile."""
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


class Moment(StrEnum):
    """What a fault may wait for: something is just being done that must not be done by halves."""

    CALL = "call"
    """A leader asks all for their reports."""
    RECALL = "recall"
    """One does so though the end was declared."""
    PARTS = "parts"
    """The parts of a plan are there, and it is not in force yet."""
    PLAN = "plan"
    """A plan is in force, and nobody follows it yet."""
    END = "end"
    """The end is declared, and nobody has gone yet."""
    TURN = "turn"
    """One takes a turn that lay there, and that another one has had before."""
    RIVAL = "rival"
    """One wants a turn too that another one has just taken: its doing, which Redis may still forget."""
    LOAN = "loan"
    """One lends helpers a host of which another one waits for a turn."""


OF_HELPERS: Final = frozenset({Kind.HELPER, Kind.STALL, Kind.LIAR, Kind.TURNCOAT})
OF_HOSTS: Final = frozenset({Kind.DOWN, Kind.HANG, Kind.BUSY})
LIARS: Final = frozenset({Kind.LIAR, Kind.TURNCOAT})
FROM_THE_BEGINNING: Final = frozenset({Kind.LIAR, Kind.SHARE})


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that goes wrong."""

    at_s: float
    kind: Kind
    who: int
    for_s: float
    moment: Moment | None = None
    """If there is one, it happens when that comes for the first time from `at_s` on, or never."""
    after_s: float = 0.0
    """And so long after that."""

    def __str__(self) -> str:
        """For people."""
        who = "who did it" if self.who == DOER else f"#{self.who}"
        when = "" if self.moment is None else f", {self.after_s:.2f}s after the next {self.moment}"
        return f"{self.at_s:.1f}s{when}: {self.kind} {who} for {self.for_s:.1f}s"
