"""Faults that belong together: several at once where something is done that must not be done by halves.

Faults that know nothing of each other hardly ever meet where it matters. Here they do: each theme is one
thing that gatherers do together, and what goes wrong just then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Final

from gcs.simulate.cluster.faults import (
    AFTERWARDS_S,
    DOER,
    FIRST_S,
    FORGETTING_S,
    FORGOTTEN_S,
    LAST_S,
    LONGEST_S,
    MOST_SHARE_S,
    SHORTEST_S,
    Fault,
    Kind,
    Moment,
)

_STRIKES: Final = (
    *(Kind.KILL, Kind.STOP, Kind.PAUSE, Kind.CUT, Kind.SPLIT, Kind.LOSSY, Kind.DELAY),
    *(Kind.REDIS, Kind.FORGET, Kind.FULL, Kind.SLOW),
)
"""What goes wrong with a gatherer that is just busy, or with Redis."""
_SILENT: Final = (Kind.PAUSE, Kind.PAUSE, Kind.CUT)
"""How one is silent for so long that it is thought lost."""
_BACK_S: Final = (-4.0, 2.0)
"""So long after it is back, or before, somebody comes for whom a plan is needed."""
_STAYS: Final = 0.6
"""Of those that are back, the share to which nothing else happens soon."""
_GOES: Final = (Kind.LOSE, Kind.LOSE, Kind.KILL)
_HOLD_UP: Final = (Kind.DELAY, Kind.LOSSY, Kind.CUT)
"""What lets time pass between what a leader has learned and what it says."""
_HELD_UP: Final = 0.5
"""Of the plans that somebody comes, leaves or is lost for, the share that takes long."""
_GONE_AGAIN_S: Final = (0.3, 3.0)
"""One that has come is told to leave so soon."""
_EARLY_S: Final = 12.0
"""From so early on it is waited for what comes once or twice in a run, or never."""
_SOON_S: Final = 2.0
"""Redis is back so soon that who has a turn still uses it."""
_AGAIN_S: Final = (1.0, 6.0)
"""So long after it has gone away, Redis does so again when somebody next takes a turn."""
_TAKEN: Final = (Moment.RIVAL, Moment.RIVAL, Moment.TURN)
"""When one has a turn, which others mostly wait for."""
_HOLDERS: Final = (Kind.CUT, Kind.CUT, Kind.LAG, None, None)
"""What goes wrong with who has a turn that Redis forgets: it cannot reach it, or is slow, or nothing does."""
_ENDS: Final = (Kind.STOP, Kind.STOP, Kind.STOP, Kind.KILL)
"""How one ends that has lent something."""
_BEGUN_S: Final = (0.05, 0.5)
"""So long after it was lent a helper has begun with it, and has not ended."""


def _struck(random: Random, moments: Sequence[Moment], there: int, from_s: float) -> list[Fault]:
    """One or two that strike at some moments, half of the time whoever is just busy."""
    return [
        _at(random, random.choice(_STRIKES), random.choice(moments), _somebody(random, there), from_s)
        for _ in range(random.randint(1, 2))
    ]


def _somebody(random: Random, there: int) -> int:
    """Whoever is just busy, or any of those who are there."""
    return random.choice([DOER, random.randrange(there)])


def _held_up(random: Random, moment: Moment, from_s: float) -> list[Fault]:
    """Who calls for a plan does not get on with it for a while."""
    return [Fault(from_s, random.choice(_HOLD_UP), DOER, random.uniform(SHORTEST_S, LONGEST_S), moment)]


def _at(random: Random, kind: Kind, moment: Moment, who: int, from_s: float) -> Fault:
    longest_s = FORGETTING_S if kind is Kind.FORGET else LONGEST_S
    return Fault(
        from_s,
        kind,
        who,
        random.uniform(SHORTEST_S, longest_s),
        moment,
        random.uniform(0.0, random.choice(AFTERWARDS_S)),
    )


def _ending(random: Random, gatherers: int, _: int) -> list[Fault]:
    """Somebody comes, leaves or is lost when the end is declared, for which a plan is needed."""
    kind = random.choice([Kind.JOIN, Kind.JOIN, Kind.JOIN, Kind.DRAIN, Kind.LOSE, Kind.KILL, Kind.FORGET])
    who = _somebody(random, gatherers)
    first = _at(random, kind, Moment.END, who, random.uniform(FIRST_S, LAST_S[0]))
    if random.random() < _HELD_UP:
        return [first, *_held_up(random, Moment.RECALL, first.at_s)]
    there = gatherers + (kind is Kind.JOIN)
    return [first, *_struck(random, [Moment.END, Moment.RECALL, Moment.RECALL], there, first.at_s)]


def _planning(random: Random, gatherers: int, _: int) -> list[Fault]:
    """Something goes wrong from when a plan is called for until all follow it."""
    from_s = random.uniform(FIRST_S, LAST_S[0])
    return _struck(random, [Moment.CALL, Moment.PARTS, Moment.PLAN], gatherers, from_s)


def _passing(random: Random, gatherers: int, _: int) -> list[Fault]:
    """One comes and is told to leave while a plan is made that counts on it."""
    comes = Fault(random.uniform(FIRST_S, LAST_S[0]), Kind.JOIN, 0, SHORTEST_S)
    leaves = Fault(comes.at_s + random.uniform(*_GONE_AGAIN_S), Kind.DRAIN, gatherers, SHORTEST_S)
    if random.random() < _HELD_UP:
        return [comes, leaves, *_held_up(random, Moment.CALL, comes.at_s)]
    moments = [Moment.CALL, Moment.CALL, Moment.PARTS]
    return [comes, leaves, *_struck(random, moments, gatherers + 1, comes.at_s)]


def _returning(random: Random, gatherers: int, _: int) -> list[Fault]:
    """One is thought lost when something is to change hands, and is back when the next plan is made.

    It may be slow before and after, and may not stay.
    """
    comes = Fault(random.uniform(FIRST_S, LAST_S[0]), Kind.JOIN, 0, SHORTEST_S)
    who, for_s = _somebody(random, gatherers), random.uniform(*FORGOTTEN_S)
    after_s = random.uniform(0.0, random.choice(AFTERWARDS_S))
    silent = Fault(comes.at_s, random.choice(_SILENT), who, for_s, Moment.PLAN, after_s)
    back_s = after_s + for_s + random.uniform(*_BACK_S)
    together = [comes, silent, replace(comes, moment=Moment.PLAN, after_s=back_s)]
    if random.random() < _HELD_UP:
        together.append(replace(silent, kind=Kind.DELAY, for_s=2 * for_s))
    if random.random() < _STAYS:
        return together
    gone_s = after_s + for_s + random.uniform(*_GONE_AGAIN_S)
    return [*together, replace(silent, kind=random.choice(_GOES), after_s=gone_s)]


def _sharing(random: Random, _: int, hosts: int) -> list[Fault]:
    """Redis forgets who has a turn that another one waits for; its holder may not know, or may be slow."""
    from_s, for_s = random.uniform(FIRST_S, _EARLY_S), random.uniform(SHORTEST_S, _SOON_S)
    after_s = random.uniform(0.0, random.choice(AFTERWARDS_S))
    forgets = Fault(from_s, Kind.FORGET, 0, for_s, Moment.RIVAL, after_s)
    kind = random.choice(_HOLDERS)
    wrong = [] if kind is None else [Fault(from_s, kind, DOER, LONGEST_S, Moment.RIVAL)]
    return [_shared(random, hosts), forgets, *wrong]


def _sharing_again(random: Random, _: int, hosts: int) -> list[Fault]:
    """Redis forgets who has a turn that others want too, for it was away just before.

    After the first time hosts rest, and then all that waited for one take turns at once.
    """
    before = Fault(random.uniform(FIRST_S, LAST_S[0]), Kind.REDIS, 0, random.uniform(SHORTEST_S, _SOON_S))
    again_s, for_s = before.at_s + random.uniform(*_AGAIN_S), random.uniform(SHORTEST_S, _SOON_S)
    after_s, moment = random.uniform(0.0, random.choice(AFTERWARDS_S)), random.choice(_TAKEN)
    return [_shared(random, hosts), before, Fault(again_s, Kind.FORGET, 0, for_s, moment, after_s)]


def _lending(random: Random, _: int, hosts: int) -> list[Fault]:
    """One ends that has lent a host which another one waits for, and helpers are slow."""
    from_s = random.uniform(FIRST_S, _EARLY_S)
    slow = Fault(from_s, Kind.LAG, DOER, LONGEST_S, Moment.LOAN)
    away_s, after_s = random.uniform(SHORTEST_S, LONGEST_S), random.uniform(*_BEGUN_S)
    ends = Fault(from_s, random.choice(_ENDS), DOER, away_s, Moment.LOAN, after_s)
    return [_shared(random, hosts), slow, ends]


def _shared(random: Random, hosts: int) -> Fault:
    """As many as can have one address, so that more than one gatherer wants it."""
    return Fault(0.0, Kind.SHARE, random.randrange(hosts), random.choice(MOST_SHARE_S))


_THEMES: Final[Sequence[Callable[[Random, int, int], list[Fault]]]] = (
    _ending,
    _planning,
    _passing,
    _returning,
    _sharing,
    _sharing_again,
    _lending,
)


def themed(random: Random, gatherers: int, hosts: int) -> list[Fault]:
    """The faults of one theme."""
    return random.choice(_THEMES)(random, gatherers, hosts)
