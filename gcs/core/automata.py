"""Learning automata that move sites between access points: TWOMA, OMA, and a variant of OMA.

Owns where each site is (its *arm*, an access point) and how sure the automaton is of that (its *state*).
Invariant: at every moment each site is in exactly one arm and in one of that arm's states, from BOUNDARY (0),
from which a site may leave, to the most internal one, which is the furthest from leaving. OMA also keeps the
number of sites in each arm as it was in the beginning.

How it works
------------
An arm is a row of states. Whenever a site is accessed, the world answers with a reward or with a penalty: a
rewarded site goes deeper into its arm, a penalised one towards the boundary, and one that is penalised at the
boundary leaves the arm. Nothing is estimated and nothing is remembered but arm and state, so there is no
learning phase: when the world changes, penalties carry the sites out again. The automata differ in what a
reward is, how far it carries, and where a site goes that leaves.

*TWOMA* (000, section 3) accesses every site once in a crawler run and compares the duration with the mean of
the site's arm in that run. Less is a reward, more is a penalty, one state either way. A site that leaves goes
to any other arm, by chance.

*OMA* (Oommen and Ma; 000, section 2.1, and 001, section 3) accesses sites in pairs that users want together.
Both are rewarded if they are in the same arm, and penalised if they are not, by one state. A site that leaves
goes to its partner's arm, and the site nearest the boundary there takes the free place.

*The variant of OMA* (001, section 4) has both tests: the pair decides between reward and penalty, and the
duration how far it carries. Its five actions are `variant`, and the choice of an `Exchange`.

Each is a table, `state + situation -> state`, which `transitions` makes of the papers' rules and which `step`
looks up for all sites at once. What is left to the classes is who leaves for where.

How the papers are read
-----------------------
- 000 counts its states from N_0 to N_N and uses N = 5: five states, not six.
- Sites are dealt evenly to the arms. They begin in random states in TWOMA, and in the most internal one in
  OMA (001, section 4).
- A site enters a new arm at its boundary.
- The mean is that of the current run, over all sites of the arm, the site itself included.
- A tie neither rewards nor penalises in TWOMA. In the variant of OMA it moves one state, for there "all the
  abstract objects move at least one state".
- A jump that would pass the boundary ends there; only a site that was at the boundary already may leave.
- In a run of OMA all sites are accessed before any is moved. Then all rewards and penalties are dealt out,
  and then the exchanges follow in the order of the pairs. A pair that an earlier exchange has brought
  together exchanges nothing. If both of a pair are at the boundary, chance says which of them moves.
- Action 5 of 001, "they switch arms", never converges when it is done to the letter. The sites of a pair are
  of one group, so when both change places each arm has as many of that group as before: how many of which
  group are in which arm, which is what should be learnt, never changes. `Exchange.SWITCH` is there to show
  this; `Exchange.MOVE`, which the original OMA does, is the default.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum, IntEnum
from typing import Final

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]

BOUNDARY: Final = 0
LEAVES: Final = -1
"""In a transition table, in the place of a state: the site may leave its arm."""

TIE: Final = 1e-9
"""Durations this close to the mean, relatively, are equal to it: the mean of equals is rarely exact."""


class Duration(IntEnum):
    """A site's duration against the average of its arm."""

    LESS = 0
    EQUAL = 1
    MORE = 2


class Pair(IntEnum):
    """Where the two sites of a pair are."""

    APART = 0
    TOGETHER = 1


class Exchange(Enum):
    """Who goes where when a pair is penalised and one of them is at the boundary (001, action 5)."""

    MOVE = "move"
    """The site at the boundary joins its partner; who is nearest the boundary there takes its place."""
    SWITCH = "switch"
    """Both take each other's arm and keep their states, to the letter of 001."""


Moves = Mapping[Duration, int]
"""How many states a site goes, towards the most internal state (+) or the boundary (−)."""

TWOMA: Final[Moves] = {
    Duration.LESS: +1,  # "rewarded and moved one state closer to the most internal state"
    Duration.EQUAL: 0,
    Duration.MORE: -1,  # "penalised and moved one state closer to the boundary state"
}

ORIGINAL: Final[Mapping[Pair, Moves]] = {
    Pair.TOGETHER: dict.fromkeys(Duration, +1),  # "rewarded if accessed together and located in the same arm"
    Pair.APART: dict.fromkeys(Duration, -1),  # "penalised if … located in different arms"
}


def variant(jump: int = 2) -> Mapping[Pair, Moves]:
    """The actions 1 to 4 of 001; `jump` is 2 in the paper, and 3 or 4 in its figure 4."""
    if jump < 1:
        raise ValueError(f"a jump is over one state or more, not {jump}")
    return {
        Pair.TOGETHER: {
            Duration.LESS: +jump,  # action 1: "jumps two states closer to the most internal state"
            Duration.EQUAL: +1,
            Duration.MORE: +1,  # action 2: "only moves one state closer to the most internal state"
        },
        Pair.APART: {
            Duration.LESS: -1,  # action 4: "moves only one state closer to the boundary state"
            Duration.EQUAL: -1,
            Duration.MORE: -jump,  # action 3: "jumps two states closer to boundary state"
        },
    }


def transitions(rules: Sequence[Moves], states: int) -> IntArray:
    """The table of rules: row `len(Duration) * rule + duration`, a column for each state."""
    if states < 1:
        raise ValueError(f"an arm has one state or more, not {states}")
    rows = [moves[duration] for moves in rules for duration in Duration]
    return np.array(
        [[_after(state, move, states) for state in range(states)] for move in rows], dtype=np.int64
    )


def _after(state: int, move: int, states: int) -> int:
    if state == BOUNDARY and move < 0:
        return LEAVES
    return min(max(state + move, BOUNDARY), states - 1)


def step(table: IntArray, situation: IntArray, state: IntArray) -> tuple[IntArray, npt.NDArray[np.bool_]]:
    """The next state of each site, given its row of the table, and whether it may leave its arm."""
    after = table[situation, state]
    leaves = after == LEAVES
    after[leaves] = BOUNDARY
    return after, leaves


def compared(durations: FloatArray, arm: IntArray, arms: int) -> IntArray:
    """Each site's `Duration` against the mean of its arm; NaN means "not accessed", and counts as EQUAL."""
    accessed = ~np.isnan(durations)
    counts = np.bincount(arm[accessed], minlength=arms)
    totals = np.bincount(arm[accessed], weights=durations[accessed], minlength=arms)
    mean = np.divide(totals, counts, out=np.zeros(arms), where=counts > 0)[arm]
    difference = durations - mean
    result = np.full(len(arm), Duration.EQUAL, dtype=np.int64)
    result[difference < -TIE * np.abs(mean)] = Duration.LESS
    result[difference > TIE * np.abs(mean)] = Duration.MORE
    return result


def dealt(sites: int, arms: int, rng: np.random.Generator) -> IntArray:
    """An arm for each site, by chance, so that the sizes of the arms differ by one at most."""
    return rng.permutation(np.arange(sites, dtype=np.int64) % arms)


def pairs_within(groups: IntArray, rng: np.random.Generator) -> IntArray:
    """All sites in random pairs (one per row) of the same group; an odd group leaves one site out."""
    order = rng.permutation(len(groups))
    order = order[np.argsort(groups[order], kind="stable")]
    ordered = groups[order]
    place = np.arange(len(order)) - np.searchsorted(ordered, ordered)
    first = np.flatnonzero((place[:-1] % 2 == 0) & (ordered[:-1] == ordered[1:]))
    pairs = np.stack([order[first], order[first + 1]], axis=1).astype(np.int64)
    return pairs[rng.permutation(len(pairs))]


class Twoma:
    """The Time Weighted Object Migration Automaton over all sites at once."""

    def __init__(
        self,
        sites: int,
        arms: int,
        *,
        rng: np.random.Generator,
        states: int = 5,
        arm: IntArray | None = None,
        state: IntArray | None = None,
    ) -> None:
        """Begin with random arms of equal size and random states, or where `arm` and `state` say."""
        self.arms = _several(arms)
        self.table = transitions([TWOMA], states)
        self.arm = _given(arm, sites, arms) if arm is not None else dealt(sites, arms, rng)
        self.state = _given(state, sites, states) if state is not None else rng.integers(0, states, sites)
        self._rng = rng

    def step(self, durations: FloatArray) -> IntArray:
        """One crawler run, in which each site took so long (NaN: not accessed); returns who changed arms."""
        situation = compared(_measured(durations, self.arm), self.arm, self.arms)
        self.state, leaves = step(self.table, situation, self.state)
        moved = np.flatnonzero(leaves)
        self.arm[moved] = (self.arm[moved] + self._rng.integers(1, self.arms, len(moved))) % self.arms
        return moved


class Oma:
    """The Object Migration Automaton over all sites at once, with the rules of its authors or of 001."""

    def __init__(
        self,
        sites: int,
        arms: int,
        *,
        rng: np.random.Generator,
        states: int = 8,
        rules: Mapping[Pair, Moves] | None = None,
        exchange: Exchange = Exchange.MOVE,
        arm: IntArray | None = None,
        state: IntArray | None = None,
    ) -> None:
        """Begin with random arms of equal size, all sites most internal, or where `arm` and `state` say.

        `rules` are those of 001 (`variant()`) unless others are given.
        """
        rules = variant() if rules is None else rules
        self.arms = _several(arms)
        self.table = transitions([rules[pair] for pair in Pair], states)
        self.exchange = exchange
        self.arm = _given(arm, sites, arms) if arm is not None else dealt(sites, arms, rng)
        innermost = np.full(sites, states - 1, dtype=np.int64)
        self.state = _given(state, sites, states) if state is not None else innermost
        self._rng = rng

    def step(self, durations: FloatArray, pairs: IntArray) -> IntArray:
        """One crawler run with these durations (NaN: not measured) and pairs; returns who changed arms.

        A site is in one pair at most.
        """
        compare = compared(_measured(durations, self.arm), self.arm, self.arms)
        both = pairs.ravel()
        if np.bincount(both, minlength=1).max() > 1:
            raise ValueError("a site is in one pair at most in a run")
        before = self.arm.copy()
        together = np.repeat(self.arm[pairs[:, 0]] == self.arm[pairs[:, 1]], 2)
        situation = len(Duration) * together + compare[both]
        self.state[both], leaves = step(self.table, situation, self.state[both])
        leaving = leaves.reshape(-1, 2)
        some = leaving.any(axis=1)
        if self.exchange is Exchange.SWITCH:
            self.arm[pairs[some]] = self.arm[pairs[some][:, ::-1]]
        elif some.any():
            self._join(pairs[some], leaving[some])
        return np.flatnonzero(self.arm != before)

    def _join(self, pairs: IntArray, leaving: npt.NDArray[np.bool_]) -> None:
        """Move one of each pair, of those that may leave, to the arm of the other."""
        second = leaving[:, 1] & (~leaving[:, 0] | (self._rng.random(len(pairs)) < 0.5))
        ordered = np.where(second[:, np.newaxis], pairs[:, ::-1], pairs)
        chances = self._rng.random(len(pairs))
        shelves = _Shelves(self.arm, self.state, self.arms, self.table.shape[1])
        for (leaver, partner), chance in zip(ordered.tolist(), chances.tolist(), strict=True):
            shelves.join(leaver, partner, chance)
        self.arm, self.state = shelves.unpacked()


class _Shelves:
    """The sites by arm and state, while they are exchanged one after another.

    A shelf is one state of one arm, and `_place` says where on its shelf a site is. So an exchange takes the
    same time however many sites there are.
    """

    def __init__(self, arm: IntArray, state: IntArray, arms: int, states: int) -> None:
        self._states = states
        shelf = arm * states + state
        order = np.argsort(shelf, kind="stable")
        starts = np.searchsorted(shelf[order], np.arange(arms * states))
        place = np.empty_like(shelf)
        place[order] = np.arange(len(order)) - starts[shelf[order]]
        self._shelf: list[int] = shelf.tolist()
        self._place: list[int] = place.tolist()
        self._on: list[list[int]] = [row.tolist() for row in np.split(order, starts[1:])]

    def join(self, leaver: int, partner: int, chance: float) -> None:
        """The leaver goes to its partner's arm; who is nearest the boundary there takes its place.

        `chance`, from 0 up to 1, chooses among those equally near. Nothing happens if the pair has come
        together meanwhile, or if the partner is alone in its arm.
        """
        here, there = self._boundary(leaver), self._boundary(partner)
        displaced = None if here == there else self._nearest(there, partner, chance)
        if displaced is not None:
            self._take(leaver)
            self._take(displaced)
            self._put(leaver, there)
            self._put(displaced, here)

    def unpacked(self) -> tuple[IntArray, IntArray]:
        """Arm and state of each site."""
        arm, state = np.divmod(np.array(self._shelf, dtype=np.int64), self._states)
        return arm, state

    def _boundary(self, site: int) -> int:
        """The first shelf of a site's arm."""
        return self._shelf[site] - self._shelf[site] % self._states + BOUNDARY

    def _nearest(self, boundary: int, partner: int, chance: float) -> int | None:
        """A site of that arm, not the partner, nearest the boundary; None if there is no other."""
        for shelf in range(boundary, boundary + self._states):
            row, shared = self._on[shelf], self._shelf[partner] == shelf
            if len(row) > shared:
                chosen = int(chance * (len(row) - shared))
                return row[chosen + (shared and chosen >= self._place[partner])]
        return None

    def _take(self, site: int) -> None:
        row = self._on[self._shelf[site]]
        last = row.pop()
        if last != site:
            row[self._place[site]] = last
            self._place[last] = self._place[site]

    def _put(self, site: int, shelf: int) -> None:
        self._shelf[site] = shelf
        self._place[site] = len(self._on[shelf])
        self._on[shelf].append(site)


def _several(arms: int) -> int:
    if arms < 2:
        raise ValueError(f"sites can only move between two arms or more, not {arms}")
    return arms


def _given(values: IntArray, sites: int, below: int) -> IntArray:
    if values.shape != (sites,) or (sites and (values.min() < 0 or values.max() >= below)):
        raise ValueError(f"{sites} numbers from 0 to {below - 1} are needed, one for each site")
    return values.astype(np.int64, copy=True)


def _measured(durations: FloatArray, arm: IntArray) -> FloatArray:
    if durations.shape != arm.shape:
        raise ValueError(f"{len(arm)} durations are needed, one for each site")
    return durations
