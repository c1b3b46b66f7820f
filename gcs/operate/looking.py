"""Who is there, and what is in force.

A gatherer is there if its counter grows. One look cannot see that, so there are always two: as far apart as a
heartbeat of the configuration takes, and some more for a gatherer that is busy.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import trio

from gcs import board as boards
from gcs.board import Board, Member
from gcs.config import Config
from gcs.core.holdings import Charter
from gcs.core.rulings import ALL, Rulings
from gcs.gatherer.reload import ruled

_BEATS: Final = 2.5
_MORE_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class View:
    """A crawl, as it was seen."""

    members: Mapping[str, Member] = field(default_factory=dict)
    """All that are there, or were, by id."""
    living: frozenset[str] = frozenset()
    """Ids of those whose counters grow."""
    charter: Charter | None = None
    rulings: Rulings = field(default_factory=Rulings)
    finished: bool = False
    """Whether it was proven that nothing is left to do."""
    finished_at: float = 0.0
    """When that was, as Unix time, about: by the clock of Redis."""
    seeds_wait: bool = False
    is_busy: bool = False
    """Whether anybody has done anything between the looks."""
    at: float = 0.0
    """When that was, as Unix time."""
    config: Config = field(default_factory=Config)
    """That of whoever looks, with what operators have set for all gatherers."""

    @property
    def expected(self) -> list[Member]:
        """Those that have neither left nor been given up, by name."""
        departed = self.charter.departed if self.charter else ()
        found = [
            member
            for member in self.members.values()
            if member.pulse.standing != "left" and (member.id not in departed or member.id in self.living)
        ]
        return sorted(found, key=lambda member: (member.pulse.name, member.id))

    @property
    def present(self) -> list[Member]:
        """Those that are there, by name."""
        return [member for member in self.expected if member.id in self.living]

    @property
    def absent(self) -> list[Member]:
        """Those that are expected and say nothing, by name."""
        return [member for member in self.expected if member.id not in self.living]

    @property
    def returns(self) -> bool:
        """Whether pages are visited again for ever, by a policy."""
        return any(fact(each, "returns") for each in self.expected)

    @property
    def next_visit_at(self) -> float | None:
        """When the next page is due again by a policy, as Unix time; None if there is none."""
        times = [fact(each, "next_visit_at") for each in self.expected if fact(each, "returns")]
        return min((float(at) for at in times if at), default=None)

    def name(self, gatherer: str) -> str:
        """What a gatherer is called."""
        if gatherer in self.members:
            return self.members[gatherer].pulse.name
        return self.charter.members.get(gatherer, gatherer) if self.charter else gatherer

    def standing(self, member: Member) -> str:
        """What a gatherer says it does; that it is silent if it says nothing any more."""
        if member.id in self.living or member.pulse.standing == "left":
            return member.pulse.standing
        return "silent" if member in self.expected else "lost"

    def silence_s(self, member: Member) -> float:
        """How long ago it was heard of, by its own clock."""
        return max(0.0, self.at - member.at)

    def is_overdue(self, member: Member) -> bool:
        """Whether it should have been heard of by now; one that has just come was seen once only."""
        return member.id not in self.living and self.silence_s(member) > patience_s(self.config)


def patience_s(config: Config) -> float:
    """How long a gatherer may take for a heartbeat."""
    return _BEATS * config.member.heartbeat_s + _MORE_S


def fact(member: Member, name: str) -> Any:
    """A statistic of a gatherer; 0 if it does not say."""
    return member.pulse.facts.get(name, 0)


class Looker:
    """Looks again and again, and remembers whose counters have grown."""

    def __init__(self, board: Board, config: Config) -> None:
        self._board, self._config = board, config
        self._in_force = config
        """The configuration, with what operators have set for all gatherers."""
        self._beats: dict[str, int] = {}
        self._grown: dict[str, float] = {}
        """When a counter was last seen to have grown, by our clock."""
        self._activity: dict[str, int] = {}
        self._charter: Charter | None = None

    async def look(self) -> View:
        """One look; says who is there if there was another one before it."""
        members = await self._board.members()
        now = await self._board.now()
        rulings = Rulings.from_bytes(now.get(boards.RULINGS, (0, b""))[1]).in_force(time.time())
        config = ruled(self._config, rulings.settings, ALL).config
        self._in_force = config
        seen = trio.current_time()
        for each, member in members.items():
            if each in self._beats and member.beat != self._beats[each]:
                self._grown[each] = seen
        self._beats = {each: member.beat for each, member in members.items()}
        activity = {each: member.pulse.activity for each, member in members.items()}
        is_busy = any(each in activity and activity[each] != n for each, n in self._activity.items())
        self._activity = activity
        epoch = now.get(boards.CHARTER, (0, b""))[0]
        if epoch and (self._charter is None or self._charter.epoch != epoch):
            self._charter = await self._board.charter(epoch)
        return View(
            members=members,
            living=frozenset(
                each
                for each, at in self._grown.items()
                if each in members
                and seen - at <= self._patience_s
                and members[each].pulse.standing != "left"
            ),
            charter=self._charter if epoch else None,
            rulings=rulings,
            finished=(token := now.get(boards.FINISHED, (0, b""))[0]) > epoch,
            # A token is the server's time in microseconds, unless that has gone back.
            finished_at=token / 1e6 if token > epoch else 0.0,
            seeds_wait=await self._board.seeds_wait(),
            is_busy=is_busy,
            at=time.time(),
            config=config,
        )

    @property
    def _patience_s(self) -> float:
        """How long a gatherer may take for a heartbeat."""
        return patience_s(self._in_force)

    async def look_twice(self) -> View:
        """Look until all that are expected have been seen to live, or have had the time for it."""
        view = await self.look()
        is_busy = False
        deadline = trio.current_time() + self._patience_s
        while view.absent and trio.current_time() < deadline:
            await trio.sleep(self._in_force.member.heartbeat_s / 4)
            view = await self.look()
            is_busy = is_busy or view.is_busy
        return replace(view, is_busy=is_busy)
