"""The tuples of profiles, in a space of their own.

("profile", name, data)                       a saved query, and where its matches go
("version", number)                           another one whenever a profile was added or removed
("match", profile, gatherer, number, data)    a page that is to be delivered
("bell", profile)                             some matches of it may wait
("mark", profile, gatherer, number)           the last that was delivered of those that a gatherer has found
("state", profile, data)                      how its deliveries go

A match is written before its bell, and a bell goes only when no match is left: so where matches wait there is
a bell, or somebody who will ring it. What a gatherer writes twice, because it was killed before it had kept
how far it had come, has the number of what was written first, and is dropped by the mark.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from gcs import spaces
from gcs.config import Config
from gcs.profiles.records import Match, Profile, State
from tuplespace import Fence, Space, Spaces

MOST_WAITING: Final = 10_000
"""Matches of one profile that wait at most; of more, the newest are left out and counted."""
_INDEX: Final = {
    "profile": (1,),
    "match": (1, 2, 3),
    "bell": (1,),
    "mark": (1, 2),
    "state": (1,),
}


class Book:
    """The profiles of one crawl."""

    def __init__(self, client: Spaces, config: Config, *, now: Callable[[], float] = time.time) -> None:
        self.space: Space = spaces.space(client, config, "profiles", index=_INDEX)
        self._now = now

    # Profiles

    async def version(self) -> int:
        """Says whether the profiles are the same as before; 0 while there never was one."""
        found = await self.space.rdp("version", int)
        return int(found[1]) if found else 0  # type: ignore[arg-type] # as the template says

    async def profiles(self) -> dict[str, Profile]:
        """All, by name, in the order in which they were added."""
        found = [Profile.from_bytes(bytes(row[2])) async for row in self.space.scan("profile", str, bytes)]  # type: ignore[arg-type] # as the template says
        return {each.name: each for each in sorted(found, key=lambda each: (each.added, each.name))}

    async def profile(self, name: str) -> Profile | None:
        """One of them."""
        found = await self.space.rdp("profile", name, bytes)
        return Profile.from_bytes(bytes(found[2])) if found else None  # type: ignore[arg-type] # the same

    async def add(self, profile: Profile) -> None:
        """Let a profile hold from now on, in place of one of the same name."""
        said = ("profile", profile.name, profile.to_bytes())
        if await self.space.swap(("profile", profile.name, bytes), said) is None:
            await self.space.out(*said)
        await self._changed()

    async def remove(self, name: str) -> bool:
        """Let a profile go, with what waits for it; False if there is none."""
        if await self.space.inp("profile", name, bytes) is None:
            return False
        await self._changed()
        await self.remove_matches(name)
        await self.space.inp("state", name, bytes)
        return True

    async def remove_matches(self, name: str) -> None:
        """Let all go that waits for a profile."""
        while await self.space.inp("match", name, str, int, bytes) is not None:
            pass
        while await self.space.inp("mark", name, str, int) is not None:
            pass
        while await self.space.inp("bell", name) is not None:
            pass

    async def _changed(self) -> None:
        said = ("version", int(self._now() * 1e6))
        if await self.space.swap(("version", int), said) is None:
            await self.space.out(*said)

    # Matches

    async def found(self, matches: Iterable[tuple[str, Match]]) -> None:
        """Let pages wait for their delivery, each for a profile."""
        by_profile: dict[str, list[Match]] = {}
        for name, match in matches:
            by_profile.setdefault(name, []).append(match)
        for name, some in by_profile.items():
            room = max(0, MOST_WAITING - await self.waiting(name))
            kept = some[:room]
            await self.space.out_many(
                ("match", name, each.gatherer, each.number, each.to_bytes()) for each in kept
            )
            if len(kept) < len(some):
                await self._left_out(name, len(some) - len(kept))
            if await self.space.rdp("bell", name) is None:
                await self.space.out("bell", name)

    async def _left_out(self, name: str, count: int) -> None:
        state = await self.state(name)
        await self.set_state(name, replace(state, left_out=state.left_out + count))

    async def waiting(self, name: str) -> int:
        """How many matches wait for a profile."""
        return await self.space.count("match", name, str, int, bytes)

    async def first(self, name: str, most: int) -> list[Match]:
        """The matches of a profile that have waited longest, in order."""
        found: list[Match] = []
        async for row in self.space.scan("match", name, str, int, bytes):
            found.append(Match.from_bytes(bytes(row[4])))  # type: ignore[arg-type] # as the template says
            if len(found) >= most:
                break
        return found

    async def bells(self) -> list[str]:
        """Profiles of which matches may wait."""
        return list(dict.fromkeys([str(row[1]) async for row in self.space.scan("bell", str)]))

    async def still(self, name: str) -> None:
        """Take the bell of a profile away, unless a match has come."""
        while await self.space.inp("bell", name) is not None:
            pass
        if await self.space.rdp("match", name, str, int, bytes) is not None:
            await self.space.out("bell", name)

    # Deliveries

    async def mark(self, name: str, gatherer: str) -> int:
        """The number of the last match by a gatherer that was delivered; -1 if none was."""
        found = await self.space.rdp("mark", name, gatherer, int)
        return int(found[3]) if found else -1  # type: ignore[arg-type] # as the template says

    async def done(self, name: str, match: Match, *, fence: Fence) -> None:
        """Note that a match was delivered; raises Fenced when somebody else delivers by now."""
        said = ("mark", name, match.gatherer, match.number)
        if await self.space.swap(("mark", name, match.gatherer, int), said, fence=fence) is None:
            await self.space.out(*said, fence=fence)
        await self.drop(name, match)

    async def drop(self, name: str, match: Match) -> None:
        """Let a match go, as often as it is there."""
        while await self.space.inp("match", name, match.gatherer, match.number, bytes) is not None:
            pass

    async def state(self, name: str) -> State:
        """How the deliveries of a profile go."""
        found = await self.space.rdp("state", name, bytes)
        return State.from_bytes(bytes(found[2])) if found else State()  # type: ignore[arg-type] # the same

    async def states(self) -> dict[str, State]:
        """How those of all profiles go of which something was tried, by name."""
        return {
            str(row[1]): State.from_bytes(bytes(row[2]))  # type: ignore[arg-type] # the same
            async for row in self.space.scan("state", str, bytes)
        }

    async def set_state(self, name: str, state: State, *, fence: Fence | None = None) -> None:
        """Say how they go."""
        said = ("state", name, state.to_bytes())
        if await self.space.swap(("state", name, bytes), said, fence=fence) is None:
            await self.space.out(*said, fence=fence)
