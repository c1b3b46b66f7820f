"""The gatherer's side: lends URLs to those who would fetch them, and takes back what comes of it.

A loan holds its host's turn, so nobody asks there twice. It ends with the last answer, or when its time is
over: an offer lies in URLTS for a while only, and who takes it asks for nothing later than the bundle says.
What is not answered by then is queued again; what comes later is refused. So helpers may vanish at any
moment, and a space that is full, empty, slow or away holds nobody up.

That a host gave no answer is never taken from others: it may be their network that fails. Such a URL is asked
for here, and its host is kept for a while.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final

import msgpack
import structlog
import trio

from gcs.config import Config
from gcs.core.trust import Trust
from gcs.gatherer.crawl import Crawl
from gcs.gatherer.job import Loan, Visit
from gcs.gatherer.lending import Wish
from gcs.helper import desks, papers
from gcs.helper.clerk import Clerk
from gcs.helper.dealings import Account, Books, Probing
from gcs.helper.desks import AMONG_GATHERERS, Desk, Presence
from gcs.helper.intake import Intake
from gcs.helper.loaned import Out, bundled
from gcs.helper.papers import HANDED_S, Refusal
from gcs.helper.scrutiny import Case, Scrutiny
from gcs.world import REAL, World

TRUST: Final = "trust"
"""The name under which it is kept in the store who is trusted."""
EXPECTED_S: Final = 3.0
"""How long a bundle should take."""
OFFERED_S: Final = 5.0
"""How long an offer lies in URLTS."""
AMONG_GATHERERS_S: Final = (1.0, 3.0, 4.0)
"""For a page that another gatherer tries: how long it is offered, may have been handed over, and may take."""
PROBES_AT_ONCE: Final = 2
"""Hosts that other gatherers may have at a time: a small share of all."""
_SLACK_S: Final = 4.0
LONGEST_S: Final = OFFERED_S + HANDED_S + 2 * EXPECTED_S + _SLACK_S
"""No loan to helpers takes longer, unless one request has to wait for longer."""
PARTING_S: Final = 3.0
"""So long a gatherer that ends waits for what is lent."""
_TEND_EVERY_S: Final = 1.0
_SWEEP_EVERY_S: Final = 0.1
_SHORT_S: Final = 10.0
"""A host that has to rest for longer is not lent a second time for a check."""
_AHEAD: Final = 8
"""So many bundles more than there is room for may lie at a desk to be confirmed there."""


class Lender:
    """Lends to the desks that the books name, and to other gatherers."""

    def __init__(
        self,
        crawl: Crawl,
        config: Callable[[], Config],
        me: str,
        open_desk: Callable[[str], Desk],
        books: Books,
        *,
        epoch: Callable[[], int],
        barred: Callable[[str], bool],
        members: Callable[[], int],
        again: Callable[[Sequence[str]], Awaitable[Sequence[str]]],
        leaves: Callable[[], bool] = lambda: False,
        trust: bytes = b"",
        probing: Probing | None = None,
        world: World = REAL,
    ) -> None:
        """`me` is the id of this gatherer; `members` says how many share the desks.

        `config` gives the configuration in force, `epoch` that of what operators have ruled, and `barred`
        whether they have barred a URL. `again` has pages fetched again that a helper was wrong about, and
        says which; `leaves` says whether this gatherer leaves for good; `trust` is what was kept as `TRUST`.
        """
        self._again, self._leaves, self._trust = again, leaves, trust
        self.scrutiny = Scrutiny(
            crawl,
            Trust.restored(msgpack.unpackb(trust)) if trust else Trust(),
            replicate=self._replicate,
            may_fetch=lambda key: crawl.may_fetch(key) and not barred(key),
            random=world.random,
        )
        self._world, self._crawl, self._config, self.me, self._books = world, crawl, config, me, books
        self._open_desk, self._epoch, self._members, self._probing = open_desk, epoch, members, probing
        self._barred, self._ruled = barred, epoch()
        self._own = desks.of_gatherer(me)
        self._clerks: dict[str, Clerk] = {}
        self._nursery: trio.Nursery | None = None
        self._out: dict[str, Out] = {}
        self._offered = trio.Event()
        """Set when something is lent."""
        self._probes = 0
        self._parting_at: float | None = None
        self.account = Account()
        self._intake = Intake(
            crawl,
            config,
            me,
            books,
            self._out,
            self.scrutiny,
            self.account,
            epoch=epoch,
            is_blocked=self._is_blocked,
            end=self.end,
            probing=probing,
        )
        self._log = structlog.get_logger()

    @property
    def present(self) -> dict[str, list[Presence]]:
        """By desk: the helpers that are there."""
        return {name: clerk.present for name, clerk in self._clerks.items() if not name.startswith("@")}

    def shunned(self) -> list[str]:
        """The helpers that were wrong too often to be asked, by name."""
        return self.scrutiny.trust.barred()

    # The crawl asks

    def has_room(self) -> bool:
        """Whether somebody would take more."""
        return any(room > 0 for _, room in self._rooms())

    def _rooms(self) -> list[tuple[str, int]]:
        """By desk of helpers: how many more bundles they would take."""
        return [(name, clerk.room) for name, clerk in self._clerks.items() if not name.startswith("@")]

    def wish(self, host: str, now: float, delay_s: float, *, spare: bool) -> Wish | None:
        """What to lend of a host."""
        if self._intake.is_kept(host, now):
            return None
        if (
            self._probing is not None
            and self._probes < PROBES_AT_ONCE
            and (peer := self._probing.wanted(host)) is not None
        ):
            return Wish(desks.of_gatherer(peer), 1, 0.0, *AMONG_GATHERERS_S)
        rooms = self._rooms() if spare else []
        if not rooms:
            return None
        desk, room = max(rooms, key=lambda each: each[1])
        if room <= 0:
            return None
        most = min(papers.MOST_URLS, self._config().helpers.bundle)
        if delay_s > 0:
            most = max(1, min(most, int(EXPECTED_S / delay_s)))
        expected_s = max(EXPECTED_S, most * delay_s)
        return Wish(desk, most, expected_s, OFFERED_S, HANDED_S, _SLACK_S + 2 * expected_s)

    def took(self, host: str, seconds: float) -> None:
        """A page was fetched here."""
        if self._probing is not None:
            self._probing.took(host, seconds)

    def keeps(self, key: str) -> bool:
        """Whether a URL is to be fetched here, to see whether somebody was right."""
        return self.scrutiny.keeps(key)

    def lent_to(self, key: str) -> str:
        """At whose desk a URL is now; "" if it is not lent."""
        for out in self._out.values():
            if any(job.queued.key == key for job in out.loan.jobs.values()):
                return out.desk
        return ""

    def judged(self, visit: Visit) -> bool:
        """What has come of a URL here; whether it is to be fetched once more."""
        return self.scrutiny.judged(visit)

    @property
    def is_settled(self) -> bool:
        """Whether nothing has to be fetched again; who leaves could not have it fetched later."""
        trust = self.scrutiny.trust
        return not trust.again and not (self._leaves() and trust.is_owed)

    def doubt(self, keys: Iterable[str]) -> None:
        """Have pages fetched again that another gatherer was told lies about."""
        self.scrutiny.trust.doubt(keys)

    def meta(self) -> dict[str, bytes]:
        """Who is trusted, if that has changed: kept with the pages that were believed, never after them."""
        packed: bytes = msgpack.packb(self.scrutiny.trust.state())
        if packed == self._trust:
            return {}
        self._trust = packed
        return {TRUST: packed}

    def lend(self, loan: Loan, wish: Wish) -> None:
        """Offer a loan to somebody."""
        self.account.lent += len(loan.jobs)
        if self._probing is not None and (peer := desks.gatherer_of(wish.to)):
            self._probing.given(loan.turn.host, peer)
        self._offer(loan, wish, list(loan.jobs), None, 0.0)

    def _replicate(self, case: Case, numbers: Sequence[int]) -> bool:
        """Have another stranger confirm what one has said; False if there is none."""
        trust = self.scrutiny.trust
        others = [
            (room, desk)
            for desk, room in self._rooms()
            if room > -_AHEAD and (record := self._books.record(desk)) and record != case.helper
            if self._clerks[desk].present and trust.may_confirm(record)
        ]
        rest_s = max(case.loan.delay_s, self._slow_s(case.loan.took_s))
        until = self._crawl.now() + rest_s + LONGEST_S
        if not others or rest_s > _SHORT_S or not self._crawl.loans.may_last(case.loan.turn, until):
            return False
        expected_s = max(EXPECTED_S, len(numbers) * case.loan.delay_s)
        within_s = _SLACK_S + 2 * expected_s
        wish = Wish(max(others)[1], len(numbers), expected_s, OFFERED_S, HANDED_S, within_s)
        self._offer(case.loan, wish, list(numbers), case, rest_s)
        return True

    def _slow_s(self, took_s: float) -> float:
        """The distance that a host needs which took so long to answer."""
        fetch = self._config().fetch
        return min(fetch.delay_factor * took_s, fetch.max_delay_s) if fetch.delay_s else 0.0

    def _offer(
        self, loan: Loan, wish: Wish, numbers: Sequence[int], case: Case | None, rest_s: float
    ) -> None:
        """Have a bundle written, after a rest."""
        jobs = [loan.jobs[number] for number in numbers]
        id_, epoch = self._world.token(papers.ID_BYTES), self._epoch()
        bundle = bundled(self._config(), self.me, id_, epoch, jobs, loan.delay_s, wish)
        until = trio.current_time() + rest_s + wish.longest_s
        out = Out(bundle, loan, wish, until, case=case, numbers=numbers, rest_s=rest_s)
        out.claimed_by = until
        out.stranger = self._books.record(out.desk) if not out.desk.startswith("@") else ""
        self._out[bundle.id] = out
        self._offered.set()
        self._probes += out.desk.startswith("@")
        self._clerk(out.desk).offer(out)

    # Tasks

    async def run(self) -> None:
        """Offer, take back, and see to it that every loan ends."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            self._clerk(self._own)
            nursery.start_soon(self._sweep)
            nursery.start_soon(self._mend)
            while True:
                self._tend()
                await trio.sleep(_TEND_EVERY_S)

    def _clerk(self, name: str) -> Clerk:
        """Who sees to a desk."""
        clerk = self._clerks.get(name)
        if clerk is None:
            assert self._nursery is not None
            among_us = name.startswith("@")
            stranger = "" if among_us else self._books.stranger(name)
            clerk = self._clerks[name] = Clerk(self, self._open_desk(name), stranger)

            async def run() -> None:
                await clerk.run(looks=not among_us, listens=not among_us or name == self._own)

            self._nursery.start_soon(run)
        return clerk

    def _tend(self) -> None:
        """Open the desks that there are, close those that are no more, and forget who is not invited."""
        wanted = set(self._books.desks())
        for name in wanted - self._clerks.keys():
            self._clerk(name)
        for name in [each for each in self._clerks if not each.startswith("@") and each not in wanted]:
            self._clerks.pop(name).scope.cancel()
            for out in [each for each in self._out.values() if each.desk == name]:
                out.answered.clear()
                out.told.clear()
        invited = self._books.records()
        for helper in self.scrutiny.trust.helpers():
            if helper not in invited or self._leaves():  # nobody would find out here any more
                self.scrutiny.dismiss(helper)

    async def _mend(self) -> None:
        """Have fetched again what was wrong, once it is on disk."""
        while True:
            trust = self.scrutiny.trust
            ready = [key for key in trust.again if key not in self._crawl.under_way]
            if ready:
                trust.queued(await self._again(ready))
            await trio.sleep(_SWEEP_EVERY_S if trust.again else _TEND_EVERY_S)

    async def _sweep(self) -> None:
        """End the loans whose time is over."""
        while True:
            self._offered = trio.Event()
            if not self._out and not self.scrutiny.has_cases:
                await self._world.until(self._offered, _TEND_EVERY_S)
            await trio.sleep(_SWEEP_EVERY_S)
            now = trio.current_time()
            if self._crawl.is_ending:
                self._part(now)
            if self._epoch() != self._ruled:
                self._ruled = self._epoch()
                self._recall()
            for out in list(self._out.values()):
                if out.until <= now:
                    self.end(out)
                elif not out.answered and not out.is_asked_after and out.claimed_by <= now:
                    self._ask_after(out)
            self.scrutiny.sweep(now)

    def _ask_after(self, out: Out) -> None:
        if (clerk := self._clerks.get(out.desk)) is not None:
            clerk.ask_after(out)

    def _part(self, now: float) -> None:
        """The crawl ends: take back what nobody has begun, and wait for the rest, but not for long.

        What is left is queued. Its hosts' turns stay held: somebody may still be asking there.
        """
        if self._parting_at is None:
            self._parting_at = now
            for out in self._out.values():
                out.claimed_by = now
        if now < self._parting_at + PARTING_S:
            return
        for out in list(self._out.values()):
            del self._out[out.bundle.id]
            if out.case is not None:
                self.scrutiny.drop(out.case)
            self._crawl.loans.abandoned(out.loan)

    def _recall(self) -> None:
        """Operators have ruled anew: what they have blocked is dropped or waits, whoever has it."""
        for out in list(self._out.values()):
            jobs = out.loan.jobs
            blocked = [number for number, job in jobs.items() if self._is_blocked(job.queued.key)]
            if blocked and out.case is None:
                for number in blocked:
                    out.told.pop(number, None)
                out.recalled.update(blocked)
                self._crawl.loans.put_back(out.loan, blocked)
                if not jobs and not out.is_asked_after:
                    self._ask_after(out)

    def _is_blocked(self, key: str) -> bool:
        return self._barred(key) or not self._crawl.may_fetch(key)

    # Clerks ask

    def key(self, desk: str) -> bytes | None:
        """What seals bundles at a desk; None if nothing is lent there."""
        return AMONG_GATHERERS if desk.startswith("@") else self._books.key(desk)

    def is_invited(self, desk: str, helper: str) -> bool:
        """Whether a helper has business at a desk."""
        return self._books.helper_key(desk, helper) is not None

    def is_trusted(self, desk: str) -> bool:
        """Whether the helper of an open site's desk is asked; nobody is while much is held back."""
        return not self.scrutiny.trust.is_barred(self._books.record(desk)) and self._intake.has_room()

    def held(self, desk: str) -> int:
        """How many bundles a stranger has, or has answered and are being checked."""
        out = sum(each.desk == desk for each in self._out.values())
        return out + self.scrutiny.held(self._books.record(desk))

    def share(self) -> int:
        """Among how many gatherers the helpers are shared."""
        return self._members()

    async def can_read(self) -> None:
        """Wait until more may come."""
        await self._crawl.can_read()

    def answered(self, desk: str, bundle: str, helper: str, data: bytes) -> bool:
        """Take an answer, or refuse it."""
        return self._intake.answered(desk, bundle, helper, data)

    def refused(self, desk: str, why: Refusal) -> None:
        """Something came that is not taken."""
        self._intake.refused(desk, why)

    def end(self, out: Out) -> None:
        """Nothing more comes of a loan."""
        if self._out.pop(out.bundle.id, None) is None:
            return
        self._probes -= out.desk.startswith("@")
        if (clerk := self._clerks.get(out.desk)) is not None:
            clerk.ended(out)
        is_invited = out.stranger in self._books.records()
        if out.case is not None:
            self.scrutiny.confirmed(out.case, out.stranger, out.told if is_invited else {})
            return
        self.account.unanswered += len(out.loan.jobs) - len(out.told)
        if is_invited:
            self.scrutiny.complete(out.stranger, out.loan, out.told)
        else:
            self._crawl.loans.ended(out.loan)
