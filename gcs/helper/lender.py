"""The gatherer's side: lends URLs to those who would fetch them, and takes back what comes of it.

A loan holds its host's turn, so nobody asks there twice. It ends with the last answer, or when its time is
over: an offer lies in URLTS for a while only, and who takes it asks for nothing later than the bundle says.
What is not answered by then is queued again; what comes later is refused. So helpers may vanish at any
moment, and a space that is full, empty, slow or away holds nobody up.

That a host gave no answer is never taken from others: it may be their network that fails. Such a URL is asked
for here, and its host is kept for a while.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import msgpack
import structlog
import trio

from gcs.config import Config
from gcs.core.trust import Trust
from gcs.gatherer.crawl import Crawl
from gcs.gatherer.job import Loan, Visit
from gcs.gatherer.lending import Wish
from gcs.helper import desks, papers
from gcs.helper.desks import AMONG_GATHERERS, Desk, Presence
from gcs.helper.papers import ANSWER, BUNDLE, HANDED_S, Answer, Bundle, Page, Refusal, Refused
from gcs.helper.scrutiny import Case, Scrutiny, Told
from gcs.store.records import Batch
from gcs.world import REAL, World
from tuplespace import SpaceFull, TupleError, TupleSpaceError

TRUST: Final = "trust"
"""The name under which it is kept in the store who is trusted."""
KEPT_S: Final = 300.0
"""So long a host is not lent again of which a helper got no answer."""
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
_ANSWERS_AT_ONCE: Final = 16
_LOOK_EVERY_S: Final = 1.0
_SWEEP_EVERY_S: Final = 0.1
_PAUSE_S: Final = 1.0
_SEND_WITHIN_S: Final = 2.0
_SHORT_S: Final = 10.0
"""A host that has to rest for longer is not lent a second time for a check."""
_SILENT: Final = 3
"""Loans in a row without any answer after which a stranger gets no more for a while."""
_SHUNNED_S: Final = 300.0
_PENANCE_S: Final = 0.05
_AHEAD: Final = 8
"""So many bundles more than there is room for may lie at a desk to be confirmed there."""
_LIES: Final = frozenset({Refusal.SEAL, Refusal.SIZE, Refusal.FORM, Refusal.UNTRUE, Refusal.STRANGER})
"""What nobody writes who follows the rules."""
_KEPT: Final = 100_000


class Books(Protocol):
    """Who may be lent to, and who is believed."""

    def desks(self) -> Iterable[str]:
        """The names of the desks at which others wait for URLs."""

    def key(self, desk: str) -> bytes | None:
        """What seals bundles there; None if nothing is lent there."""

    def stranger(self, desk: str) -> str:
        """Whose desk it is, if that one has to be checked; "" if all who work there are trusted."""

    def helper_key(self, desk: str, helper: str) -> bytes | None:
        """What seals the answers of a helper; None for one that has no business there."""


class Probing(Protocol):
    """Which pages other gatherers are to try."""

    def wanted(self, host: str) -> str | None:
        """The gatherer that should try a page of a host; None for none. Said once for each page."""

    def took(self, host: str, seconds: float) -> None:
        """A page was fetched here."""

    def tried(self, host: str, gatherer: str, took_s: float) -> None:
        """A gatherer has tried one, and that took so long."""


@dataclass(slots=True)
class Out:
    """A loan that is out."""

    bundle: Bundle
    loan: Loan
    wish: Wish
    until: float
    """By trio's clock: when it ends, answered or not."""
    answered: set[tuple[str, int]] = field(default_factory=set)
    """The parts that have come, with who sent them."""
    told: dict[int, Told] = field(default_factory=dict)
    """What has come of a stranger's answer, by the number of the URL in the loan."""
    case: Case | None = None
    """What is to be confirmed, if somebody else has said the same before."""
    rest_s: float = 0.0
    """How long the host has to rest before it is offered."""
    numbers: Sequence[int] = ()
    """The numbers in the loan of the URLs of the bundle."""

    @property
    def desk(self) -> str:
        """Where it lies."""
        return self.wish.to


@dataclass(slots=True)
class Account:
    """What came of lending so far."""

    lent: int = 0
    returned: int = 0
    unanswered: int = 0
    refused: Counter[str] = field(default_factory=Counter)


class Lender:
    """Lends to the desks that the books name, and to other gatherers."""

    def __init__(
        self,
        crawl: Crawl,
        config: Config,
        me: str,
        open_desk: Callable[[str], Desk],
        books: Books,
        *,
        epoch: Callable[[], int],
        members: Callable[[], int],
        again: Callable[[Sequence[str]], Awaitable[None]],
        trust: bytes = b"",
        probing: Probing | None = None,
        world: World = REAL,
    ) -> None:
        """`me` is the id of this gatherer; `members` says how many share the desks.

        `again` has pages fetched again that a helper was wrong about; `trust` is what was kept as `TRUST`.
        """
        self._again, self._trust = again, trust
        self._wrong, self._refetched = trio.open_memory_channel[Sequence[str]](math.inf)
        self.scrutiny = Scrutiny(
            crawl,
            Trust.restored(msgpack.unpackb(trust)) if trust else Trust(),
            replicate=self._replicate,
            again=self._wrong.send_nowait,
            random=world.random,
        )
        self._world = world
        self._crawl, self._config, self._me, self._books = crawl, config, me, books
        self._open_desk, self._epoch, self._members, self._probing = open_desk, epoch, members, probing
        self._own = open_desk(desks.of_gatherer(me))
        self._desks: dict[str, Desk] = {}
        self._listening: dict[str, trio.CancelScope] = {}
        self._rooms: dict[str, int] = {}
        self._out: dict[str, Out] = {}
        self._kept: dict[str, float] = {}
        self._probes = 0
        self._silent: Counter[str] = Counter()
        self._shunned: dict[str, float] = {}
        self._send, self._sending = trio.open_memory_channel[Out](math.inf)
        self.present: dict[str, list[Presence]] = {}
        """By desk: the helpers that are there."""
        self.account = Account()
        self._log = structlog.get_logger()

    # The crawl asks

    def has_room(self) -> bool:
        """Whether somebody would take more."""
        return any(room > 0 for room in self._rooms.values())

    def wish(self, host: str, now: float, delay_s: float, *, spare: bool) -> Wish | None:
        """What to lend of a host."""
        if self._kept and self._kept.get(host, 0.0) > now:
            return None
        if (
            self._probing is not None
            and self._probes < PROBES_AT_ONCE
            and (peer := self._probing.wanted(host)) is not None
        ):
            return Wish(desks.of_gatherer(peer), 1, 0.0, *AMONG_GATHERERS_S)
        if not spare or not self._rooms:
            return None
        desk, room = max(self._rooms.items(), key=lambda each: each[1])
        if room <= 0:
            return None
        most = min(papers.MOST_URLS, self._config.helpers.bundle)
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

    def judged(self, visit: Visit) -> None:
        """What has come of a URL here."""
        self.scrutiny.judged(visit)

    def lend(self, loan: Loan, wish: Wish) -> None:
        """Offer a loan to somebody."""
        self.account.lent += len(loan.jobs)
        self._offer_soon(loan, wish, list(loan.jobs), None, 0.0)

    def _replicate(self, case: Case, numbers: Sequence[int]) -> bool:
        """Have another stranger confirm what one has said; False if there is none."""
        others = [
            desk
            for desk, room in self._rooms.items()
            if (name := self._books.stranger(desk)) and name != case.helper and room > -_AHEAD
            if self.present.get(desk) and not self.scrutiny.trust.is_new(name)
        ]
        rest_s = max(case.loan.delay_s, self._slow_s(case.loan.took_s))
        until = self._crawl.now() + rest_s + LONGEST_S
        if not others or rest_s > _SHORT_S or not self._crawl.loans.may_last(case.loan.turn, until):
            return False
        desk = max(others, key=self._rooms.__getitem__)
        expected_s = max(EXPECTED_S, len(numbers) * case.loan.delay_s)
        wish = Wish(desk, len(numbers), expected_s, OFFERED_S, HANDED_S, _SLACK_S + 2 * expected_s)
        self._offer_soon(case.loan, wish, list(numbers), case, rest_s)
        return True

    def _slow_s(self, took_s: float) -> float:
        """The distance that a host needs which took so long to answer."""
        fetch = self._config.fetch
        return min(fetch.delay_factor * took_s, fetch.max_delay_s) if fetch.delay_s else 0.0

    def _offer_soon(
        self, loan: Loan, wish: Wish, numbers: Sequence[int], case: Case | None, rest_s: float
    ) -> None:
        """Have a bundle written, after a rest."""
        fetch = self._config.fetch
        origin = loan.jobs[numbers[0]].origin
        bundle = Bundle(
            version=papers.VERSION,
            id=self._world.token(papers.ID_BYTES),
            crawl=self._config.crawl.name,
            gatherer=self._me,
            scheme=origin.scheme,
            host=origin.host,
            port=origin.port,
            paths=[loan.jobs[number].path for number in numbers],
            delay_s=loan.delay_s,
            delay_factor=fetch.delay_factor if fetch.delay_s else 0.0,
            max_delay_s=fetch.max_delay_s,
            expected_s=wish.expected_s,
            within_s=wish.within_s,
            epoch=self._epoch(),
            agent=fetch.agent,
            level=self._config.summary.level,
            keep=self._config.store.pages != "none",
            max_body_bytes=min(papers.MAX_BODY_BYTES, fetch.max_body_bytes),
        )
        until = trio.current_time() + rest_s + wish.longest_s
        out = Out(bundle, loan, wish, until, case=case, numbers=numbers, rest_s=rest_s)
        self._out[bundle.id] = out
        self._probes += wish.to.startswith("@")
        if wish.to in self._rooms:
            self._rooms[wish.to] -= 1
        self._send.send_nowait(out)

    # Tasks

    async def run(self) -> None:
        """Offer, take back, and see to it that every loan ends."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._offer)
            nursery.start_soon(self._sweep)
            nursery.start_soon(self._listen, self._own)
            nursery.start_soon(self._mend)
            while True:
                await self._tend(nursery)
                await self._keep_trust()
                await trio.sleep(_LOOK_EVERY_S)

    async def _offer(self) -> None:
        async with trio.open_nursery() as nursery:
            async for out in self._sending:
                if out.rest_s:
                    nursery.start_soon(self._offer_later, out)
                else:
                    await self._offer_one(out)

    async def _offer_later(self, out: Out) -> None:
        await trio.sleep(out.rest_s)
        await self._offer_one(out)

    async def _offer_one(self, out: Out) -> None:
        key = self._key(out.desk)
        if key is None or trio.current_time() > out.until - out.wish.longest_s + _SEND_WITHIN_S:
            self._end(out)
            return
        with trio.move_on_after(_SEND_WITHIN_S):
            try:
                data = out.bundle.sealed(key)
                await self._desk(out.desk).urls.out(BUNDLE, out.bundle.id, data, ttl=out.wish.offered_s)
            except TupleSpaceError as error:
                self._log.warning("nothing can be lent", desk=out.desk, why=str(error))
                self._rooms[out.desk] = 0
                if isinstance(error, SpaceFull | TupleError):
                    self._end(out)
        # Unless it was refused it may be there, whatever came of writing it, and its time begins now.
        out.until = trio.current_time() + out.wish.longest_s

    async def _mend(self) -> None:
        """Have fetched again what was wrong."""
        async for keys in self._refetched:
            await self._again(keys)

    async def _keep_trust(self) -> None:
        """Write down who is trusted, when that has changed."""
        packed = msgpack.packb(self.scrutiny.trust.state())
        if packed != self._trust and self.scrutiny.trust.state():
            self._trust = packed
            await self._crawl.commit(Batch(meta={TRUST: packed}))

    def _desk(self, name: str) -> Desk:
        return self._desks.get(name) or self._open_desk(name)

    def _key(self, desk: str) -> bytes | None:
        return AMONG_GATHERERS if desk.startswith("@") else self._books.key(desk)

    async def _tend(self, nursery: trio.Nursery) -> None:
        """Open the desks that there are, close those that are no more, and see who is at each."""
        wanted = set(self._books.desks())
        for name in wanted - self._desks.keys():
            self._desks[name] = self._open_desk(name)
            nursery.start_soon(self._listen, self._desks[name])
        for name in self._desks.keys() - wanted:
            self._listening.pop(name).cancel()
            del self._desks[name]
            self._rooms.pop(name, None)
            self.present.pop(name, None)
        for name, desk in list(self._desks.items()):
            try:
                helpers = await desk.present()
                if stranger := self._books.stranger(name):
                    helpers = [each for each in helpers if each.name == stranger]
                self.present[name] = helpers
                slots = sum(each.slots for each in helpers)
                # What lies there for everybody to take, once over; and as much again, so that nobody waits.
                waiting = await desk.urls.count(BUNDLE, str, bytes) if slots else 0
                stranger = self._books.stranger(name)
                out = sum(each.desk == name for each in self._out.values())
                if (
                    self.scrutiny.trust.is_barred(stranger)
                    or self._shunned.get(name, 0.0) > trio.current_time()
                ):
                    room = 0
                elif stranger:
                    room = max(0, 2 * slots - max(waiting, out))
                else:
                    room = max(0, 2 * slots - waiting)
                self._rooms[name] = -(-room // max(1, self._members()))
            except TupleSpaceError:
                self._rooms[name] = 0

    async def _listen(self, desk: Desk) -> None:
        """Take the answers that come to a desk."""
        told = False
        with trio.CancelScope() as listening:
            self._listening[desk.name] = listening
            while True:
                await self._crawl.can_read()
                try:
                    async with desk.summaries.take(
                        ANSWER, self._me, str, str, bytes, many=_ANSWERS_AT_ONCE
                    ) as taken:
                        for _, _, bundle, helper, data in taken:
                            if not self._answered(desk.name, str(bundle), str(helper), data):
                                # Who writes what nobody wants has to wait; others do not wait for that one.
                                await trio.sleep(_PENANCE_S if self._books.stranger(desk.name) else 0)
                            await trio.lowlevel.checkpoint()
                    told = False
                except TupleSpaceError as error:
                    if not told:
                        self._log.warning("no answers", desk=desk.name, why=str(error))
                    told = True
                    await trio.sleep(_PAUSE_S)

    def _answered(self, desk: str, id_: str, helper: str, data: object) -> bool:
        """Take an answer, or refuse it."""
        assert isinstance(data, bytes)
        try:
            self._take(desk, id_, helper, data)
        except Exception as error:  # noqa: BLE001 - whatever somebody has written, others go on
            refused = error if isinstance(error, Refused) else Refused(Refusal.FORM)
            if refused is not error:
                self._log.exception("an answer could not be read", helper=helper)
            self.account.refused[refused.why.name.lower()] += 1
            self._log.debug("an answer was refused", helper=helper, why=str(refused))
            stranger = self._books.stranger(desk)
            if stranger and refused.why in _LIES:
                self.scrutiny.lied(stranger)
            return False
        return True

    def _take(self, desk: str, id_: str, helper: str, data: bytes) -> None:
        """Take an answer; raises Refused."""
        out = self._out.get(id_)
        probe = desk == self._own.name
        if out is None or out.desk != (desks.of_gatherer(helper) if probe else desk):
            raise Refused(Refusal.UNKNOWN)
        key = AMONG_GATHERERS if probe else self._books.helper_key(desk, helper)
        if key is None:
            raise Refused(Refusal.STRANGER)
        answer = Answer.opened(data, key, self._me, id_, helper)
        if (helper, answer.part) in out.answered:
            raise Refused(Refusal.REPEATED)
        out.answered.add((helper, answer.part))
        for page in answer.pages:
            self._take_back(out, page, helper, probe=probe)
        if answer.last or not out.loan.jobs:
            self._end(out)

    def _take_back(self, out: Out, page: Page, helper: str, *, probe: bool) -> None:
        """Take what is said of one page; raises Refused."""
        if page.number >= len(out.numbers):
            raise Refused(Refusal.UNTRUE)
        number = out.numbers[page.number]
        if number not in out.loan.jobs or number in out.told:
            raise Refused(Refusal.REPEATED)
        host = out.loan.turn.host
        if page.failure:
            self._keep(host)
            return
        response = page.response(out.bundle)
        if response.truncated == "length" and out.bundle.max_body_bytes < self._config.fetch.max_body_bytes:
            self._keep(host)
            return
        self.account.returned += 1
        if self._books.stranger(out.desk):
            out.told[number] = Told(page, response)
            return
        if probe and self._probing is not None:
            self._probing.tried(host, helper, response.total_s)
        self._crawl.loans.returned(
            out.loan, number, response, page.read, page.fingerprint, "" if probe else helper
        )

    def _keep(self, host: str) -> None:
        """Do not lend a host for a while."""
        now = self._crawl.now()
        if len(self._kept) >= _KEPT:
            self._kept = {each: until for each, until in self._kept.items() if until > now}
        self._kept[host] = now + KEPT_S

    def _end(self, out: Out) -> None:
        if self._out.pop(out.bundle.id, None) is None:
            return
        self._probes -= out.desk.startswith("@")
        stranger = self._books.stranger(out.desk)
        if stranger:
            # Who takes and never answers is not given more for a while.
            self._silent[out.desk] = 0 if out.answered else self._silent[out.desk] + 1
            if self._silent[out.desk] >= _SILENT:
                self._silent[out.desk] = 0
                self._shunned[out.desk] = trio.current_time() + _SHUNNED_S
        if out.case is not None:
            self.scrutiny.confirmed(out.case, stranger if out.told else "", out.told)
            return
        self.account.unanswered += len(out.loan.jobs) - len(out.told)
        if stranger:
            self.scrutiny.complete(stranger, out.loan, out.told)
        else:
            self._crawl.loans.ended(out.loan)

    async def _sweep(self) -> None:
        """End the loans whose time is over."""
        while True:
            await trio.sleep(_SWEEP_EVERY_S if self._out else _LOOK_EVERY_S)
            now = trio.current_time()
            for out in [each for each in self._out.values() if each.until <= now]:
                self._end(out)
            self.scrutiny.sweep(now)
