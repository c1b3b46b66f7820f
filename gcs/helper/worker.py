"""The worker: takes bundles of URLs, asks for them one after the other, reads them, and answers.

It keeps nothing: what it holds is leased, and what it has found out is sent at once. It stops asking when
the time of a bundle is over by a clock that also counts while the machine sleeps, so the gatherer that lent
the host knows without any message when it may ask there itself.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Final

import structlog
import trio

from gcs.core.traps import fingerprint
from gcs.fetch.fetching import Fetching
from gcs.fetch.outcome import Failure, Origin, Outcome, Response
from gcs.helper.papers import ANSWER, BUNDLE, HANDED_S, PART_BYTES, VERSION, Answer, Bundle, Page, Refused
from gcs.summary import Document, read
from gcs.summary.plugins import NONE, Plugins
from gcs.summary.wire import is_modest
from gcs.world import REAL, World
from tuplespace import LeaseLost, Space, Taken, TupleSpaceError

ANSWER_EVERY_S: Final = 0.25
VOUCH_EVERY_S: Final = 2.0
"""How often at most it asks for somebody to vouch for what came, for each bundle."""
ANSWER_TTL_S: Final = 300.0
NOT_THE_WEB: Final = "not the web"
TOO_MUCH: Final = "too much to be told"
Vouch = Callable[[], Awaitable[bool]]
_PAUSE_S: Final = 2.0
_PARTING_S: Final = 3.0
_LOOK_S: Final = 0.5
_STATUS_TOO_MANY: Final = 429
_STATUS_FAILS: Final = 500


@dataclass(frozen=True, slots=True)
class Badge:
    """Who a helper is, and the keys that it shares with the gatherers."""

    name: str
    key: bytes
    """Of its answers."""
    bundles_key: bytes
    """Of the bundles that it takes."""


@dataclass(slots=True)
class Work:
    """What was done so far."""

    bundles: int = 0
    pages: int = 0
    failures: int = 0
    refused: int = 0
    bytes: int = 0
    under_way: int = 0


class Worker:
    """Serves bundles, several at a time."""

    def __init__(
        self,
        transport: Fetching,
        urls: Space,
        summaries: Callable[[Bundle], Space],
        badge: Badge,
        *,
        slots: int,
        lease_s: float = HANDED_S,
        plugins: Plugins = NONE,
        may_take: Callable[[], Awaitable[None]] | None = None,
        ready: Callable[[], Awaitable[None]] | None = None,
        on_page: Callable[[Origin, Outcome], None] | None = None,
        vouch: Vouch | None = None,
        moved: Callable[[int], None] | None = None,
        work: Work | None = None,
        follows: bool = True,
        world: World = REAL,
    ) -> None:
        """`may_take` is waited for before every bundle, `ready` before every request.

        `on_page` is told every outcome, `moved` the bytes of bundles and answers. `vouch` says before every
        answer whether what came is what it seems to be. `follows` if it stops to be made anew under the name
        that a bundle wants; else it asks for nothing under another name.
        """
        self._follows = follows
        self._vouch, self._awake_s = vouch, world.awake
        self._transport, self._urls, self._summaries, self._badge = transport, urls, summaries, badge
        self._lease_s = lease_s
        self._slots, self._plugins, self._ready, self._on_page = slots, plugins, ready, on_page
        self._may_take, self._moved = may_take, moved
        self._stopped = trio.Event()
        self._taking: set[trio.CancelScope] = set()
        self._waiting: set[trio.CancelScope] = set()
        self._complained = False
        self.work = work or Work()
        """What was done so far, here and before."""
        self.other_agent = ""
        """The name under which bundles want to be asked for, if it is not that of the transport."""
        self._log = structlog.get_logger()

    async def run(self) -> None:
        """Work until stopped; what was begun is answered first."""
        async with trio.open_nursery() as nursery:
            for _ in range(self._slots):
                nursery.start_soon(self._serve)

    def stop(self) -> None:
        """Ask for nothing more, and give back what is held."""
        self._stopped.set()
        for waiting in [*self._taking, *self._waiting]:
            waiting.cancel()

    def rest(self) -> None:
        """Take nothing more until it may; what was taken goes on."""
        for taking in list(self._taking):
            taking.cancel()

    async def _serve(self) -> None:
        while not self._stopped.is_set():
            try:
                await self._next_bundle()
                self._complained = False
            except TupleSpaceError as error:
                if not self._complained:
                    self._log.warning("no bundle", why=str(error))
                self._complained = True
                with trio.move_on_after(_PAUSE_S):
                    await self._stopped.wait()

    async def _next_bundle(self) -> None:
        """Wait for a bundle, and serve it."""
        with trio.CancelScope() as taking:
            self._taking.add(taking)
            try:
                if self._may_take is not None:
                    await self._may_take()
                async with self._urls.take(BUNDLE, str, bytes, lease=self._lease_s) as taken:
                    self._taking.discard(taking)
                    began_s = self._awake_s()
                    # It may have been handed over long ago, to a machine that slept.
                    await taken.renew()
                    if not taken.lost:
                        await self._opened(taken, began_s)
            except LeaseLost:
                self._log.warning("a bundle took too long")
            finally:
                self._taking.discard(taking)

    async def _opened(self, taken: Taken, began_s: float) -> None:
        data = taken.tuple[2]
        assert isinstance(data, bytes)
        self._count(len(data))
        try:
            bundle = Bundle.opened(data, self._badge.bundles_key)
        except Refused as refused:
            self.work.refused += 1
            self._log.warning("a bundle was refused", why=str(refused))
            return
        if taken.deliveries[0] > 1:
            return  # somebody has had it before, and nobody knows what was asked then
        if bundle.agent and bundle.agent != self._transport.agent:
            if not self._follows:
                # What robots.txt says to that name need not be what it says to this one.
                await self._reply(bundle).send(last=True)
                return
            self.other_agent = bundle.agent
            self.stop()
        self.work.under_way += 1
        try:
            await self._ask(bundle, taken, began_s)
        finally:
            self.work.under_way -= 1
        self.work.bundles += 1

    def _reply(self, bundle: Bundle) -> _Reply:
        every_s = ANSWER_EVERY_S if self._vouch is None else VOUCH_EVERY_S
        return _Reply(bundle, self._summaries(bundle), self._badge, every_s, self._awake_s, self._count)

    def _count(self, size_bytes: int) -> None:
        if self._moved is not None:
            self._moved(size_bytes)

    async def _ask(self, bundle: Bundle, taken: Taken, began_s: float) -> None:
        """Ask for the URLs of a bundle, one after the other, and answer now and then."""
        reply = self._reply(bundle)
        reply.until_s = began_s + bundle.within_s
        try:
            for number in range(len(bundle.paths)):
                # Who cannot renew the lease does not know whether another one has got it.
                if not await self._may_ask(bundle, reply, began_s) or trio.current_time() > taken.sure_until:
                    break
                if not await self._asked(bundle, number, reply, began_s):
                    break
                if reply.is_due(self._awake_s()) and number + 1 < len(bundle.paths):
                    await self._answer(reply)
            await self._vouch_for(reply)
        finally:
            # Also when it is cancelled: somebody waits for this. It is not given back: it was asked for.
            if self._vouch is None:
                reply.settle(is_the_web=True)
            with trio.move_on_after(_PARTING_S, shield=True):
                await taken.commit()
                await reply.send(last=True)

    async def _answer(self, reply: _Reply) -> None:
        """Answer what there is."""
        await self._vouch_for(reply)
        await reply.send(last=False)

    async def _vouch_for(self, reply: _Reply) -> None:
        """Have it vouched for what came; of what has to be answered before that is done nothing is said."""
        if self._vouch is None:
            reply.settle(is_the_web=True)
        elif reply.pages and not self._stopped.is_set():
            with trio.move_on_after(max(0.0, reply.until_s - self._awake_s())) as waiting:
                self._waiting.add(waiting)
                try:
                    reply.settle(is_the_web=await self._vouch())
                finally:
                    self._waiting.discard(waiting)

    async def _may_ask(self, bundle: Bundle, reply: _Reply, began_s: float) -> bool:
        """Wait until the next request may be sent; False if there is to be none."""
        if self._ready is not None:
            await self._ready()
        while not self._stopped.is_set():
            now = self._awake_s()
            if now - began_s >= bundle.within_s or reply.next_at - began_s >= bundle.within_s:
                return False
            if now >= reply.next_at:
                return True
            if reply.pages and reply.next_at - now > ANSWER_EVERY_S:
                await self._answer(reply)
                continue
            with trio.move_on_after(min(reply.next_at - now, _LOOK_S)):
                await self._stopped.wait()
        return False

    async def _asked(self, bundle: Bundle, number: int, reply: _Reply, began_s: float) -> bool:
        """Ask for one URL; whether the next may be asked for."""
        sent: list[float] = []
        left_s = began_s + bundle.within_s - self._awake_s()
        outcome: Outcome | None = None
        with trio.move_on_after(left_s) as asking:
            self._waiting.add(asking)
            outcome = await self._transport.fetch(
                bundle.origin,
                bundle.paths[number],
                timeout_s=left_s,
                max_body_bytes=bundle.max_body_bytes,
                on_sent=lambda _: sent.append(self._awake_s()),
            )
        self._waiting.discard(asking)
        if outcome is None:
            return False
        if self._on_page is not None:
            self._on_page(bundle.origin, outcome)
        slow_s = min(bundle.delay_factor * outcome.total_s, bundle.max_delay_s)
        reply.next_at = (sent[-1] if sent else self._awake_s()) + max(bundle.delay_s, slow_s)
        if isinstance(outcome, Failure):
            self.work.failures += 1
            reply.add(Page(number, failure=outcome.reason.value))
            return False
        self.work.pages += 1
        self.work.bytes += len(outcome.raw)
        reply.add(self._told(bundle, number, outcome))
        return outcome.status < _STATUS_FAILS and outcome.status != _STATUS_TOO_MANY

    def _told(self, bundle: Bundle, number: int, response: Response) -> Page:
        """What is told of a response: a page is read first."""
        document: Document | None = None
        print_ = None
        if 200 <= response.status < 300:
            path, level = bundle.paths[number], bundle.level
            document = read(
                response.body,
                url=f"{bundle.origin}{path}",
                content_type=response.headers.get("content-type", ""),
                level="links" if level == "links" else "full",
                plugins=self._plugins,
            )
            print_ = fingerprint(response.body, path)
            if not is_modest(document):
                return Page(number, failure=TOO_MUCH)
        return Page.told(number, response, document, print_, keep=bundle.keep)


class _Reply:
    """What is to be answered to a bundle; of a page only when it is settled that it came from the web."""

    def __init__(
        self,
        bundle: Bundle,
        summaries: Space,
        badge: Badge,
        every_s: float,
        awake_s: Callable[[], float],
        count: Callable[[int], None],
    ) -> None:
        self._bundle, self._space, self._badge = bundle, summaries, badge
        self._every_s, self._awake_s, self._count = every_s, awake_s, count
        self.pages: list[Page] = []
        """Those of which it is not settled."""
        self._settled: list[Page] = []
        self.next_at = -math.inf
        """When the next request may be sent."""
        self.until_s = math.inf
        """Until when there may be answers."""
        self._bytes = self._part = 0
        self._sent_at = self._awake_s()

    def add(self, page: Page) -> None:
        """One more page."""
        self.pages.append(page)
        self._bytes += len(page.raw or b"") + len(page.head)

    def is_due(self, now_s: float) -> bool:
        """Whether it is time to answer what there is."""
        return self._bytes >= PART_BYTES or now_s - self._sent_at >= self._every_s

    def settle(self, *, is_the_web: bool) -> None:
        """All that has come so far came from the web, or may have come from somebody else."""
        self._settled += self.pages if is_the_web else _failed(self.pages, NOT_THE_WEB)
        self.pages = []

    async def send(self, *, last: bool) -> None:
        """Answer what is settled; what is too large for that is left to the gatherer."""
        pages, self._settled, self._bytes, self._sent_at = self._settled, [], 0, self._awake_s()
        bundle, badge = self._bundle, self._badge
        names = bundle.gatherer, bundle.id, badge.name
        try:
            data = Answer(VERSION, self._part, last, pages).sealed(badge.key, *names)
        except Refused:
            pages = _failed(pages, TOO_MUCH)
            data = Answer(VERSION, self._part, last, pages).sealed(badge.key, *names)
        self._part += 1
        self._count(len(data))
        await self._space.out(ANSWER, *names, data, ttl=ANSWER_TTL_S)


def _failed(pages: Iterable[Page], why: str) -> list[Page]:
    return [page if page.failure else Page(page.number, failure=why) for page in pages]
