"""The warden: whether the helper may work now, for all who work, and who is told at once when it may not.

It looks around as often as `decide` wants, looks at the canary when there is doubt, and minds the memory.
What it knows changes in one step, without waiting; whoever waits for the change is woken by it. A pause does
not wait for a look: it counts at once.
"""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

import trio

from gcs.core.consent import Consent, Network, Surroundings, Terms, decide
from gcs.helper import limits
from gcs.helper.limits import Room
from gcs.helper.portal import Doubt, network_mark

MEMORY_PATIENCE_S: Final = 300.0
"""How long the memory may stay nearly full before a new process is better: no other would free it."""

VOUCH_EVERY_S: Final = 2.0
"""How often at most the canary is looked at for those who want it vouched for what they fetched."""
_SOON_S: Final = 1.0

Look = Callable[[], Awaitable[Surroundings]]
CheckNetwork = Callable[[], Awaitable[Network]]


class Warden:
    """Says whether to work; `run` keeps it up to date."""

    def __init__(
        self,
        terms: Terms,
        look: Look,
        check_network: CheckNetwork,
        *,
        mark: Callable[[], tuple[str, ...]] = network_mark,
        memory: Callable[[], int | None] = limits.memory_bytes,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Nothing is known yet, so nothing may be done yet."""
        self._terms = terms
        self._look = look
        self._check_network = check_network
        self._mark = mark
        self._memory = memory
        self._clock = clock
        self._doubt = Doubt()
        self._paused = self._refused = False
        self._vouching = trio.Lock()
        self._looks = self._answered = 0
        self._vouched, self._vouched_at = False, -math.inf
        self._seen: Surroundings | None = None
        self._nearly_full_since: float | None = None
        self._room = Room.TAKE
        self._consent = Consent(may=False, why="It has just begun to look around.", look_again_s=0.0)
        self._may, self._may_not, self._must_not = trio.Event(), trio.Event(), trio.Event()
        self._may_not.set()
        self._must_not.set()
        self._nudge = trio.Event()
        self._left = trio.Event()

    @property
    def may_work(self) -> bool:
        """Whether work may be begun."""
        return self._consent.may

    @property
    def sentence(self) -> str:
        """Why, in plain words."""
        return self._consent.why

    def pause(self) -> None:
        """Stop at once."""
        self._paused = True
        self._decide()

    def resume(self) -> None:
        """Work again, if after a new look nothing else speaks against it."""
        self._paused = False
        self._seen = None
        self._decide()
        self._nudge.set()

    def refused(self, is_refused: bool) -> None:  # noqa: FBT001 - the word for it
        """The server of the crawl does not let this helper in, or does so again."""
        if is_refused != self._refused:
            self._refused = is_refused
            self._decide()

    def failed(self) -> None:
        """A page could not be fetched for a reason that may be the network's."""
        if self._doubt.failed():
            self._decide()
            self._nudge.set()

    def succeeded(self) -> None:
        """A page was fetched."""
        self._doubt.succeeded()

    async def wait_until_may_work(self) -> None:
        """Return when work may be begun, which is at once if it may be now."""
        while not self.may_work:
            await self._may.wait()

    async def wait_until_may_not_work(self) -> None:
        """Return when nothing may be begun, which is at once if it may not now."""
        await self._may_not.wait()

    async def wait_until_must_stop(self) -> None:
        """Return when no work may go on, which is at once if it may not now.

        With little memory left work is not begun, but may go on.
        """
        await self._must_not.wait()

    async def wait_until_must_leave(self) -> None:
        """Return when the process has to end, because it needs more memory than was agreed to."""
        await self._left.wait()

    async def vouch(self) -> bool:
        """Whether what has been fetched up to now came from the web, and not from a portal.

        That is so if the canary is found after it, on the network where it was found before. One look is
        enough for all who asked before it began; the next one waits for a while.
        """
        asked = self._looks
        async with self._vouching:
            if self._answered <= asked:
                await trio.sleep(max(0.0, self._vouched_at + VOUCH_EVERY_S - self._clock()))
                self._looks, self._vouched_at = self._looks + 1, self._clock()
                self._vouched = await self._is_still_clear()
                self._answered = self._looks
            return self._vouched

    async def _is_still_clear(self) -> bool:
        self._doubt.is_due(self._mark(), self._clock())
        was_clear = self._doubt.network is Network.CLEAR
        await self._see_network()
        self._decide()
        return was_clear and self._doubt.network is Network.CLEAR

    async def run(self) -> None:
        """Keep looking around, until cancelled."""
        while True:
            self._nudge = trio.Event()
            self._mind_memory()
            seen = await self._look()
            # A resume meanwhile wants a look that began after it; the next one does.
            if not self._nudge.is_set():
                self._seen = seen
            due = self._doubt.is_due(self._mark(), self._clock())
            self._decide()
            if due and self._is_worth_checking():
                await self._see_network()
                continue  # that took a while, in which somebody may have come back
            with trio.move_on_after(self._consent.look_again_s):
                await self._nudge.wait()

    def _is_worth_checking(self) -> bool:
        """Whether nothing but the network speaks against work: nobody is bothered with a canary otherwise."""
        if self._seen is None:
            return False
        clear = replace(self._seen, paused=self._paused, network=Network.CLEAR)
        return decide(self._terms, clear).may

    async def _see_network(self) -> None:
        mark = self._mark()
        self._doubt.is_due(mark, self._clock())
        found = await self._check_network()
        self._doubt.learn(found, mark, self._clock())

    def _mind_memory(self) -> None:
        now = self._clock()
        self._room = limits.room(self._memory(), self._terms.max_memory_bytes)
        if self._room is Room.TAKE:
            self._nearly_full_since = None
        elif self._nearly_full_since is None:
            self._nearly_full_since = now
        elif now - self._nearly_full_since >= MEMORY_PATIENCE_S:
            self._room = Room.LEAVE

    def _decide(self) -> None:
        """Put together what is known, and tell everybody; nothing waits here."""
        now = None
        if self._seen is not None:
            now = decide(self._terms, replace(self._seen, paused=self._paused, network=self._doubt.network))
        must_stop = now is None or not now.may or self._refused or self._room is Room.LEAVE
        if now is None:
            why = "The owner has paused it." if self._paused else "It looks around."
            now = Consent(may=False, why=why, look_again_s=_SOON_S)
        elif self._refused and not self._paused:
            now = Consent(may=False, why=_REFUSED, look_again_s=now.look_again_s)
        elif now.may and self._room is not Room.TAKE:
            now = Consent(may=False, why=_FULL[self._room], look_again_s=_SOON_S)
        self._consent = now
        self._may = _turned(self._may, on=now.may)
        self._may_not = _turned(self._may_not, on=not now.may)
        self._must_not = _turned(self._must_not, on=must_stop)
        if self._room is Room.LEAVE:
            self._left.set()


def _turned(event: trio.Event, *, on: bool) -> trio.Event:
    """The event that says whether something is so; those who wait for it are woken when it becomes so."""
    if on:
        event.set()
    return event if on or not event.is_set() else trio.Event()


_REFUSED: Final = "The crawl's server refuses this invitation."
_FULL: Final = {
    Room.WAIT: "Nearly all of the memory agreed to is in use.",
    Room.LEAVE: "It needs more memory than agreed to, and ends.",
}
