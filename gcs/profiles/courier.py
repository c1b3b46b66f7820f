"""Delivers matches: one gatherer at a time, which is elected; each profile's in order, many profiles at once.

What fails is tried again, after longer and longer rests; a profile that has failed for too long is set aside,
with what waits for it, until somebody says that it is to be tried again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Final

import structlog
import trio

from gcs.profiles.book import Book
from gcs.profiles.records import Profile, State
from gcs.profiles.targets import Deliver
from tuplespace import Fence, Fenced, TupleSpaceError, election

COURIER: Final = "courier"
LEASE_S: Final = 10.0
LOOK_EVERY_S: Final = 0.5
AT_ONCE: Final = 16
"""Profiles whose matches are delivered at the same time."""
_SOME: Final = 50
_IDLE_LOOKS: Final = 20
"""After so many looks at which nothing was to do, another may be elected."""
_REST: Final = 9
"""To look at thousands of profiles takes a tenth of the time at most."""
_FIRST_REST_S: Final = 1.0
_LONGEST_REST_S: Final = 300.0
_PAUSE_S: Final = 2.0


def failed(state: State, why: str, now: float, patience_s: float) -> State:
    """How deliveries go after one that has failed."""
    since = state.failing_since or now
    rest_s = min(_LONGEST_REST_S, _FIRST_REST_S * 2 ** min(state.failures, 30))
    return replace(
        state,
        failures=state.failures + 1,
        failing_since=since,
        not_before=now + rest_s,
        why=why,
        aside=now - since >= patience_s,
    )


def delivered(state: State, now: float) -> State:
    """How they go after one that was delivered."""
    return replace(state.afresh(), delivered=state.delivered + 1, last=now)


class Courier:
    """Delivers, if it is elected."""

    def __init__(
        self, book: Book, deliver: Deliver, patience_s: float, *, now: Callable[[], float] = time.time
    ) -> None:
        self._book, self._deliver, self._patience_s, self._now = book, deliver, patience_s, now
        self._log = structlog.get_logger()
        self._busy: set[str] = set()

    async def run(self) -> None:
        """Deliver, again and again; never ends by itself."""
        while True:
            try:
                if await self._is_rung():
                    async with election(self._book.space, COURIER, lease=LEASE_S) as term:
                        await self._serve(term.fence)
            except* TupleSpaceError as errors:
                self._log.warning("matches cannot be delivered; trying again", why=str(errors.exceptions[0]))
            await trio.sleep(_PAUSE_S)

    async def settled(self) -> None:
        """Wait until nothing is left that could be delivered now."""
        while await self._due():  # noqa: ASYNC110 - another gatherer may deliver it
            await trio.sleep(LOOK_EVERY_S)

    async def _is_rung(self) -> bool:
        return await self._book.version() > 0 and bool(await self._due())

    async def _due(self) -> list[str]:
        """Profiles of which something may be delivered now."""
        bells = await self._book.bells()
        states = await self._book.states() if bells else {}
        now = self._now()
        every = [(name, states.get(name, State())) for name in bells]
        return [name for name, state in every if not state.aside and state.not_before <= now]

    async def _serve(self, fence: Fence) -> None:
        """Deliver until there was nothing to do for a while."""
        idle = 0
        async with trio.open_nursery() as nursery:
            while idle < _IDLE_LOOKS:
                # What is known of those that are busy now may be old before they are not.
                began, busy = trio.current_time(), frozenset(self._busy)
                due = await self._due()
                looked_s = trio.current_time() - began
                idle = 0 if due or self._busy else idle + 1
                for name in due:
                    if name not in busy and len(self._busy) < AT_ONCE:
                        self._busy.add(name)
                        nursery.start_soon(self._one, name, fence)
                await trio.sleep(max(LOOK_EVERY_S, _REST * looked_s))

    async def _one(self, name: str, fence: Fence) -> None:
        """Deliver what waits for a profile, in order, until something fails."""
        try:
            # Somebody else may have been elected: it delivers, and nothing is noted here any more.
            with suppress(Fenced):
                profile = await self._book.profile(name)
                while profile is not None and (some := await self._book.first(name, _SOME)):
                    for match in some:
                        if match.number <= await self._book.mark(name, match.gatherer):
                            await self._book.drop(name, match)
                            continue
                        why = await self._deliver(profile, match)
                        await self._noted(profile, why, fence)
                        if why is not None:
                            return
                        await self._book.done(name, match, fence=fence)
                if profile is None:
                    await self._book.remove_matches(name)
                await self._book.still(name)
        finally:
            self._busy.discard(name)

    async def _noted(self, profile: Profile, why: str | None, fence: Fence) -> None:
        """Say how the deliveries of a profile go, after another one."""
        # Meanwhile somebody may have said that it is to be tried again, or may have left something out.
        state = await self._book.state(profile.name)
        if why is None:
            state = delivered(state, self._now())
        else:
            state = failed(state, why, self._now(), self._patience_s)
            log = self._log.warning if state.aside else self._log.info
            log(
                "a profile is set aside" if state.aside else "a delivery failed",
                profile=profile.name,
                why=why,
                failures=state.failures,
            )
        await self._book.set_state(profile.name, state, fence=fence)
