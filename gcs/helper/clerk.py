"""A clerk sees to one desk: who is there, what is offered, what comes back. None waits for another.

So a site that is away or hangs, or a stranger who fills its own spaces, holds up nobody but itself.
"""

from __future__ import annotations

import math
from typing import Final, Protocol

import structlog
import trio

from gcs.helper.desks import Desk, Presence
from gcs.helper.loaned import Out
from gcs.helper.papers import ANSWER, BUNDLE, Refusal
from tuplespace import SpaceFull, TupleError, TupleSpaceError

AT_ONCE: Final = 10
"""Bundles that a stranger has, or whose answers are being checked, at a time: by what is found out about one,
the others cannot be saved any more."""
_ANSWERS_AT_ONCE: Final = 16
_LOOK_EVERY_S: Final = 1.0
_LOOK_SOON_S: Final = 0.25
"""When all that there was room for has been offered: small bundles are done in less than a second."""
_LOOK_WITHIN_S: Final = 2.0
_SEND_WITHIN_S: Final = 2.0
_PATIENCE: Final = 0.8
"""After this share of the time that it lies there, an offer is taken back."""
_PAUSE_S: Final = 1.0
_PENANCE_S: Final = 0.05
_SILENT: Final = 3
"""Loans in a row without any use after which a stranger gets no more for a while."""
_TRIED, _USELESS = 64, 0.5
"""Or if, of so many pages that it took, it had nothing to say about more than this share."""
_SHUNNED_S: Final = 300.0


class Office(Protocol):
    """Where a clerk belongs."""

    me: str

    def key(self, desk: str) -> bytes | None:
        """What seals bundles at a desk; None if nothing is lent there."""

    def is_invited(self, desk: str, helper: str) -> bool:
        """Whether a helper has business at a desk."""

    def answered(self, desk: str, bundle: str, helper: str, data: bytes) -> bool:
        """Take an answer, or refuse it, which is False."""

    def refused(self, desk: str, why: Refusal) -> None:
        """Something came that is no answer."""

    def end(self, out: Out) -> None:
        """Nothing more comes of a loan."""

    def share(self) -> int:
        """Among how many gatherers the helpers are shared."""

    def held(self, desk: str) -> int:
        """How many bundles a stranger has, or has answered and are being checked."""

    def is_trusted(self, desk: str) -> bool:
        """Whether the helper of an open site's desk is asked at all."""

    async def can_read(self) -> None:
        """Wait until more may come."""


class Clerk:
    """Sees to one desk."""

    def __init__(self, office: Office, desk: Desk, stranger: str) -> None:
        """`stranger` is the name of whom the desk is for, if that one has to be checked."""
        self._office, self._desk, self._stranger = office, desk, stranger
        self.present: list[Presence] = []
        """The helpers that are there."""
        self.room = 0
        """How many more bundles they would take."""
        self.scope = trio.CancelScope()
        self._outbox, self._offers = trio.open_memory_channel[Out](math.inf)
        self._after, self._unclaimed = trio.open_memory_channel[Out](math.inf)
        self._silent = self._tried = self._useless = 0
        self._shunned_until = -math.inf
        self._junk = 0
        self._log = structlog.get_logger().bind(desk=desk.name)

    async def run(self, *, looks: bool, listens: bool) -> None:
        """Until cancelled: offer, and see who is there and what comes back."""
        with self.scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._offer)
                nursery.start_soon(self._ask_after)
                if looks:
                    nursery.start_soon(self._look)
                if listens:
                    nursery.start_soon(self._listen)

    # Who is there

    async def _look(self) -> None:
        while True:
            try:
                with trio.fail_after(_LOOK_WITHIN_S):
                    await self._count()
            except (TupleSpaceError, trio.TooSlowError):
                self.room = 0
            self._see_junk()
            left_s = _LOOK_EVERY_S
            if self.room > 0:
                await trio.sleep(_LOOK_SOON_S)
                left_s = _LOOK_EVERY_S - _LOOK_SOON_S if self.room > 0 else 0.0
            await trio.sleep(left_s)

    async def _count(self) -> None:
        """See who is there, and how much more they would take."""
        office, name = self._office, self._desk.name
        there = await self._desk.present(self._stranger)
        self.present = [each for each in there if office.is_invited(name, each.name)]
        slots = sum(each.slots for each in self.present)
        if self._stranger:
            room = min(2 * slots, AT_ONCE) - office.held(name) if self._is_asked() else 0
        else:
            # What lies there for everybody to take, once over; and as much again, so that nobody waits.
            room = 2 * slots - await self._desk.urls.count(BUNDLE, str, bytes) if slots else 0
        self.room = -(-max(0, room) // max(1, office.share()))

    def _is_asked(self) -> bool:
        return trio.current_time() >= self._shunned_until and self._office.is_trusted(self._desk.name)

    def _see_junk(self) -> None:
        """What stood there for answers and was none is the work of whoever writes there."""
        for _ in range(min(self._desk.summaries.unreadable - self._junk, _ANSWERS_AT_ONCE)):
            self._office.refused(self._desk.name, Refusal.FORM)
        self._junk = self._desk.summaries.unreadable

    def ended(self, out: Out) -> None:
        """A loan has ended: who takes and has nothing to say is not given more for a while."""
        if not self._stranger or out.is_cut_short or not (out.answered or out.is_claimed):
            return
        self._silent = 0 if out.useful else self._silent + 1
        self._tried += len(out.numbers)
        self._useless += len(out.numbers) - out.useful
        if self._silent >= _SILENT or (self._tried >= _TRIED and self._useless > _USELESS * self._tried):
            self._shunned_until = trio.current_time() + _SHUNNED_S
            self.room = 0
            self._log.warning("a helper is of no use for now", tried=self._tried, useless=self._useless)
        if self._silent >= _SILENT or self._tried >= _TRIED:
            self._silent = self._tried = self._useless = 0

    # What is offered

    def offer(self, out: Out) -> None:
        """Have a bundle written, after a rest."""
        self.room -= 1
        self._outbox.send_nowait(out)

    def ask_after(self, out: Out) -> None:
        """Take a bundle back if nobody has taken it; then its loan ends."""
        out.is_asked_after = True
        self._after.send_nowait(out)

    async def _offer(self) -> None:
        async with trio.open_nursery() as nursery:
            async for out in self._offers:
                if out.rest_s:
                    nursery.start_soon(self._offer_later, out)
                else:
                    await self._offer_one(out)

    async def _offer_later(self, out: Out) -> None:
        await trio.sleep(out.rest_s)
        await self._offer_one(out)

    async def _offer_one(self, out: Out) -> None:
        key = self._office.key(out.desk)
        if key is None or trio.current_time() > out.until - out.wish.longest_s + _SEND_WITHIN_S:
            self._office.end(out)
            return
        with trio.move_on_after(_SEND_WITHIN_S) as sending:
            try:
                data = out.bundle.sealed(key)
                await self._desk.urls.out(BUNDLE, out.bundle.id, data, ttl=out.wish.offered_s)
            except TupleSpaceError as error:
                self._log.warning("nothing can be lent", why=str(error))
                self.room = 0
                if isinstance(error, SpaceFull | TupleError):
                    self._office.end(out)
        if sending.cancelled_caught:
            self.room = 0
        # Unless it was refused it may be there, whatever came of writing it, and its time begins now.
        out.until = trio.current_time() + out.wish.longest_s
        out.claimed_by = trio.current_time() + _PATIENCE * out.wish.offered_s

    async def _ask_after(self) -> None:
        async for out in self._unclaimed:
            try:
                with trio.fail_after(_LOOK_WITHIN_S):
                    async with self._desk.urls.take(BUNDLE, out.bundle.id, bytes, wait=False) as found:
                        # Who has had it, and lost the lease, may not have noticed, and be asking still.
                        is_untouched = found.deliveries == [1]
            except (TupleSpaceError, trio.TooSlowError):
                continue  # it may have been taken
            if is_untouched:
                self._office.end(out)
            elif trio.current_time() < out.claimed_by + (1 - _PATIENCE) * out.wish.offered_s:
                out.is_claimed = True  # else its time was over, and nobody knows

    # What comes back

    async def _listen(self) -> None:
        """Take the answers that come to the desk; those of a stranger one at a time."""
        told = False
        while True:
            await self._office.can_read()
            try:
                await self._take()
                told = False
            except TupleSpaceError as error:
                if not told:
                    self._log.warning("no answers", why=str(error))
                told = True
                await trio.sleep(_PAUSE_S)

    async def _take(self) -> None:
        office, name = self._office, self._desk.name
        many = 1 if self._stranger else _ANSWERS_AT_ONCE
        async with self._desk.summaries.take(ANSWER, office.me, str, str, bytes, many=many) as taken:
            for _, _, bundle, helper, data in taken:
                is_taken = isinstance(data, bytes) and office.answered(name, str(bundle), str(helper), data)
                if not is_taken:
                    # Who writes what nobody wants has to wait; others do not wait for that one.
                    await trio.sleep(_PENANCE_S if self._stranger else 0)
                await trio.lowlevel.checkpoint()
