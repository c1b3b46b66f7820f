"""Who may own what: the sides that gatherers are on in a round, and how a plan is made to respect them.

*Free* gatherers are planned for. *Pinned* ones did not answer, and keep exactly what they hold. All others
own nothing afterwards: who is leaving, who is lost, and "" for what nobody holds.

A *host* is a name with all its schemes and ports, for politeness is owed to the name. Its keys are one range.
"""

from __future__ import annotations

import bisect
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from gcs.core.placement import Plan, rendezvous
from gcs.core.urls import HOST, SCHEME

NOBODY: Final = ""
_NO_HOST: Final = HOST + SCHEME
"""The holder of what nobody holds."""
_Owner = TypeVar("_Owner")


@dataclass(frozen=True, slots=True)
class Sides:
    """The gatherers of a round, each list in order, and who holds what today."""

    free: Sequence[str]
    pinned: Sequence[str]
    leaving: Sequence[str]
    holdings: Plan

    @classmethod
    def of(
        cls,
        members: Collection[str],
        holdings: Plan | None,
        pinned: Collection[str],
        leaving: Collection[str],
    ) -> Sides:
        """Sort everyone out; raises ValueError when there is nobody to plan for."""
        free = sorted({*members} - {*pinned} - {*leaving})
        if not free or NOBODY in free:
            raise ValueError("a plan needs a member with a name that has answered and is not leaving")
        return cls(
            free, sorted(set(pinned)), sorted({*leaving} - {*pinned}), holdings or Plan(("",), (NOBODY,))
        )

    @property
    def present(self) -> list[str]:
        """All who are there, in the order in which they are numbered."""
        return sorted({*self.free, *self.pinned, *self.leaving})

    @property
    def staying(self) -> list[str]:
        """All who own something afterwards."""
        return sorted({*self.free, *self.pinned})

    @property
    def anything_held(self) -> bool:
        """Whether any range has a holder."""
        return any(holder != NOBODY for holder in self.holdings.owners)

    def respected(self, plan: Plan) -> Plan:
        """The plan, but what it gives to others than free gatherers is dealt, and the pinned keep theirs."""
        dealt = [(start, who if who in self.free else rendezvous(start, self.free)) for start, who in plan]
        return self._pinned(Plan.of(dealt))

    def kept(self, keys: Iterable[str], *, split_hosts: bool) -> Plan:
        """The plan that moves nothing: what nobody may keep goes to the first of the free gatherers."""
        first = self.free[0]
        plan = Plan.of((start, who if who in self.free else first) for start, who in self.holdings)
        return self._pinned(plan if split_hosts else whole_hosts(plan, keys))

    def _pinned(self, plan: Plan) -> Plan:
        if not self.pinned:
            return plan
        starts = sorted({*plan.starts, *self.holdings.starts})
        holders = [(start, self.holdings.owner(start)) for start in starts]
        return Plan.of((start, who if who in self.pinned else plan.owner(start)) for start, who in holders)


def host_of(key: str) -> str | None:
    """The first key of the host that a key lies in, or None for one above all hosts.

    Local files have no host: no server has to be spared, so they may always be cut.
    """
    end = key.find(SCHEME)
    return None if end < 0 or key.startswith(_NO_HOST) else key[: end + 1]


def end_of_host(host: str) -> str:
    """The first key after a host, given its first."""
    return host[:-1] + HOST


def cut_hosts(starts: Iterable[str]) -> list[str]:
    """The hosts that have one of these boundaries inside, in order."""
    found = {host for start in starts if (host := host_of(start)) is not None and start > host}
    return sorted(found)


def whole_hosts(plan: Plan, keys: Iterable[str]) -> Plan:
    """The plan with every host whole: that goes to who has most of it, by sampled keys, then by ranges."""
    cut = cut_hosts(plan.starts)
    votes: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for sampled, places in ((1, cut), (1, plan.starts), (len(plan) + len(cut), keys)):
        for key in places:
            if (host := within(cut, key)) is not None:
                votes[host][plan.owner(key)] += sampled
    owners = {host: min(votes[host].items(), key=lambda vote: (-vote[1], vote[0]))[0] for host in cut}
    return Plan.of(uncut(plan, owners, plan.owner))


def uncut(
    pieces: Iterable[tuple[str, _Owner]], hosts: Mapping[str, _Owner], of: Callable[[str], _Owner]
) -> list[tuple[str, _Owner]]:
    """Starts and owners in which these hosts have owners of their own; `of` tells the owner of any key."""
    cut = sorted(hosts)
    outside = {start: owner for start, owner in pieces if within(cut, start) is None}
    ends = {end: of(end) for host in cut if within(cut, end := end_of_host(host)) is None}
    return sorted({**ends, **outside, **hosts}.items(), key=lambda piece: piece[0])


def within(hosts: Sequence[str], key: str) -> str | None:
    """The one of these hosts, which are in order, in which a key lies."""
    at = bisect.bisect_right(hosts, key) - 1
    return hosts[at] if at >= 0 and key < end_of_host(hosts[at]) else None
