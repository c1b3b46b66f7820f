"""Placement by learning automata, which move sites from one gatherer to another. (000 and 001.)

A replan is a crawler run: the durations of all sites since the last one go into one step of the automaton,
and the arms in which it leaves the sites are the owners. New sites are dealt to arms by a hash, evenly on
average; what they took before, while they belonged to the range of the plan that they lie in, does not count.
When a gatherer joins or leaves, the papers have nothing to say; here a newcomer gets the share that it wins
by that hash, and what a leaver had is dealt out by it. One that is alone owns everything, and nothing moves.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np

from gcs.core.automata import FloatArray, IntArray, Moves, Oma, Pair, Twoma
from gcs.core.placement.interface import Probe, named
from gcs.core.plan import Domain, Plan, Sites, by_site, rendezvous


class _Migrating(ABC):
    """What both automata share: sites with numbers, an arm and a state for each, durations of this run."""

    def __init__(
        self, gatherers: Sequence[str], *, domain: Domain, rng: np.random.Generator, states: int
    ) -> None:
        self._sites = Sites(domain)
        self._gatherers = named(gatherers)
        self._rng = rng
        self._states = states
        self._number: dict[str, int] = {}
        self._arm = np.empty(0, dtype=np.int64)
        self._state = np.empty(0, dtype=np.int64)
        self._seconds: dict[int, float] = {}
        self._plan: Plan | None = None

    def owner(self, key: str) -> str:
        """By the plan, that is the arm in which the key's site is; before there is one, by a hash."""
        return self._plan.owner(key) if self._plan else rendezvous(self._sites.of(key), self._gatherers)

    def observe(self, key: str, gatherer: str, seconds: float, *, pages: int = 1) -> None:
        """Add to the duration of the key's site in this run; only its owner's fetches count."""
        number = self._numbered(key)
        placed = number < len(self._arm) or self._plan is None
        if placed and gatherer == self.owner(key):
            self._seconds[number] = self._seconds.get(number, 0.0) + seconds

    def probes(self) -> Sequence[Probe]:
        """None: the automata learn by moving sites."""
        return ()

    def replan(self, gatherers: Sequence[str] | None = None) -> Plan:
        """One step of the automaton, after the newcomers among sites and gatherers have got their places."""
        members = self._gatherers if gatherers is None else named(gatherers)
        durations = self._durations()
        if len(self._gatherers) > 1:
            self._arm, self._state = self._stepped(durations)
        if members != self._gatherers:
            self._regroup(members)
        self._forget()
        self._plan = self._planned()
        return self._plan

    def know(self, site: str) -> None:
        """Note that a site exists."""
        self._number.setdefault(site, len(self._number))

    def state(self, known: Collection[str]) -> tuple[Sequence[str], Mapping[str, tuple[int, int]]]:
        """The gatherers, and arm and state of these sites, as plain values; after a replan."""
        places = zip(self._number, self._arm.tolist(), self._state.tolist(), strict=True)
        return self._gatherers, {site: (arm, state) for site, arm, state in places if site in known}

    def restore(self, state: tuple[Sequence[str], Mapping[str, tuple[int, int]]]) -> None:
        """Go on with what `state` gave, and with the gatherers of then."""
        gatherers, places = state
        self._gatherers = named(gatherers)
        self._number = {site: number for number, site in enumerate(places)}
        table = np.array(list(places.values()), dtype=np.int64).reshape(-1, 2)
        self._arm, self._state = table[:, 0], table[:, 1]
        self._plan = self._planned()

    def adopt(self, owners: Mapping[str, str]) -> None:
        """Begin with sites that have owners already."""
        arms = {gatherer: arm for arm, gatherer in enumerate(self._gatherers)}
        self._number = {site: number for number, site in enumerate(owners)}
        self._arm = np.array([arms[owner] for owner in owners.values()], dtype=np.int64)
        self._state = self._first_states(len(owners))
        self._plan = self._planned()

    def _planned(self) -> Plan:
        arms = zip(self._number, self._arm.tolist(), strict=True)
        return by_site({site: self._gatherers[arm] for site, arm in arms}, otherwise=self._gatherers[0])

    @abstractmethod
    def _stepped(self, durations: FloatArray) -> tuple[IntArray, IntArray]:
        """Arms and states after one step."""

    @abstractmethod
    def _first_states(self, count: int) -> IntArray:
        """The states in which sites begin."""

    def _forget(self) -> None:
        """Begin a new run."""
        self._seconds.clear()

    def _numbered(self, key: str) -> int:
        return self._number.setdefault(self._sites.of(key), len(self._number))

    def _durations(self) -> FloatArray:
        """How long each site took in this run, NaN for those that were not accessed; new ones get an arm."""
        new = list(self._number)[len(self._arm) :]
        if new:
            self._arm = np.concatenate([self._arm, self._dealt(new)])
            self._state = np.concatenate([self._state, self._first_states(len(new))])
        durations = np.full(len(self._arm), np.nan)
        durations[list(self._seconds)] = list(self._seconds.values())
        return durations

    def _dealt(self, sites: Iterable[str]) -> IntArray:
        arms = {gatherer: arm for arm, gatherer in enumerate(self._gatherers)}
        return np.array([arms[rendezvous(site, self._gatherers)] for site in sites], dtype=np.int64)

    def _regroup(self, gatherers: tuple[str, ...]) -> None:
        """Who stays keeps its sites, but for the shares of newcomers."""
        before, self._gatherers = self._gatherers, gatherers
        arms = {gatherer: arm for arm, gatherer in enumerate(gatherers)}
        won = self._dealt(self._number)
        kept = np.array([arms.get(gatherer, -1) for gatherer in before], dtype=np.int64)[self._arm]
        newcomer = np.array([gatherer not in before for gatherer in gatherers])
        moved = (kept < 0) | newcomer[won]
        self._arm = np.where(moved, won, kept)
        self._state = np.where(moved, 0, self._state)


class TwomaPlacement(_Migrating):
    """A site that takes longer than the mean of its gatherer's sites moves towards leaving it."""

    def __init__(
        self, gatherers: Sequence[str], *, domain: Domain, rng: np.random.Generator, states: int = 5
    ) -> None:
        super().__init__(gatherers, domain=domain, rng=rng, states=states)

    def _first_states(self, count: int) -> IntArray:
        return self._rng.integers(0, self._states, count)

    def _stepped(self, durations: FloatArray) -> tuple[IntArray, IntArray]:
        automaton = Twoma(
            len(durations),
            len(self._gatherers),
            rng=self._rng,
            states=self._states,
            arm=self._arm,
            state=self._state,
        )
        automaton.step(durations)
        return automaton.arm, automaton.state


class OmaPlacement(_Migrating):
    """Sites that are wanted together move towards the same gatherer, faster or slower by what they take."""

    def __init__(
        self,
        gatherers: Sequence[str],
        *,
        domain: Domain,
        rng: np.random.Generator,
        states: int = 8,
        rules: Mapping[Pair, Moves] | None = None,
    ) -> None:
        super().__init__(gatherers, domain=domain, rng=rng, states=states)
        self._rules = rules
        self._partner: dict[int, int] = {}

    def together(self, key: str, other: str) -> None:
        """Two keys were wanted together; a site is in one pair at most in a run, the first."""
        a, b = self._numbered(key), self._numbered(other)
        if a != b and a not in self._partner and b not in self._partner:
            self._partner[a], self._partner[b] = b, a

    def _first_states(self, count: int) -> IntArray:
        return np.full(count, self._states - 1, dtype=np.int64)

    def _stepped(self, durations: FloatArray) -> tuple[IntArray, IntArray]:
        automaton = Oma(
            len(durations),
            len(self._gatherers),
            rng=self._rng,
            states=self._states,
            rules=self._rules,
            arm=self._arm,
            state=self._state,
        )
        pairs = np.array([(a, b) for a, b in self._partner.items() if a < b], dtype=np.int64).reshape(-1, 2)
        automaton.step(durations, pairs)
        return automaton.arm, automaton.state

    def _forget(self) -> None:
        super()._forget()
        self._partner.clear()
