"""The robots rules of the hosts that are asked, and the inquiries after those that are not known.

A robots.txt is asked for in a turn of its host. Where it redirects to, another host has to be asked in a turn
of its own: that is an errand there, and whose rules are sought is held meanwhile. Nobody's rules are waited
for too long. Without an answer a URL fails instead of being asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final

from gcs.config import Fetch
from gcs.core import robots
from gcs.core.failures import Cause
from gcs.core.politeness import Turn, Workbench
from gcs.core.robots import Rules, Standing
from gcs.core.urls import key
from gcs.fetch.outcome import Origin
from gcs.fetch.robots import Inquiry, RobotsCache
from gcs.gatherer.frontier import Frontier, Site
from gcs.gatherer.job import Visit
from gcs.gatherer.under_way import UnderWay
from gcs.gatherer.visit import Visitor
from gcs.store.records import Found, State, host_of
from gcs.store.store import Store

ERRAND_S: Final = 300.0
"""So long the rules of a host are waited for that another one has.

Several times as long as somebody has a turn there who has died with it: that says nothing about the host.
"""
ROBOTS: Final = "robots "
"""Begins the names under which rules are kept in the store."""
_NO_RULES: Final = robots.everything_allowed()


class Inquiries:
    """Which rules hold where, and asking for them."""

    def __init__(
        self,
        fetch: Fetch,
        store: Store,
        cache: RobotsCache,
        bench: Workbench,
        frontier: Frontier,
        under_way: UnderWay,
        visitor: Visitor,
        *,
        judged: Callable[[Visit], None],
        found: Callable[[Iterable[Found]], None],
        aside: Callable[[str, float], None],
        clock: Callable[[], float],
    ) -> None:
        """`judged` is told of URLs that fail with their hosts, `found` of the sitemaps that rules name.

        `aside` is told of hosts that are asked for nothing before a time.
        """
        self._anything = robots.everything_allowed() if fetch.robots == "ignore" else None
        self._sitemaps = fetch.sitemaps
        self._store, self._cache, self._bench, self._frontier = store, cache, bench, frontier
        self._under_way, self._visitor, self._clock = under_way, visitor, clock
        self._judged, self._found, self._aside = judged, found, aside
        self._errands: dict[Inquiry, float] = {}
        """Those that wait, and since when, in this order."""
        self.asking: list[str] = []
        """The hosts that are being asked for rules now."""

    def rules_of(self, origin: Origin) -> Rules | None:
        """The robots rules of a host, also those that an earlier run was told; None if none hold now."""
        if self._anything is not None:
            return self._anything
        rules = self._cache.known(origin, self._clock())
        if rules is None and (stored := self._store.get_meta(f"{ROBOTS}{origin}")) is not None:
            self._cache.restore([(origin, stored)])
            rules = self._cache.known(origin, self._clock())
        return rules

    def known(self, site: Site, now: float) -> Rules | None:
        """The rules of a host if they still hold; those that an earlier run was told are in the store."""
        if self._anything is not None:
            return self._anything
        if site.is_source:
            return _NO_RULES
        if site.rules_sought:
            return self._cache.known(site.origin, now)
        site.rules_sought = True
        rules = self.rules_of(site.origin)
        if rules is not None:
            # A host that slept may have been forgotten, with its delay.
            self._bench.set_crawl_delay(site.host, rules.crawl_delay_s)
        return rules

    def changed(self) -> dict[str, bytes]:
        """The rules that were fetched since the last call, for the store."""
        return {f"{ROBOTS}{origin}": stored for origin, stored in self._cache.changed()}

    def begin(self, site: Site) -> Inquiry | None:
        """Begin to ask for the rules of a host; None while that is being done."""
        return self._cache.begin(site.origin)

    async def ask(self, turn: Turn, site: Site, inquiries: Sequence[Inquiry]) -> None:
        """Ask a host for its robots.txt, or for what stands for that of others; one answer is for all."""
        for inquiry in inquiries:
            self._errands.pop(inquiry, None)
        began = self._clock()
        self.asking.append(site.host)
        try:
            outcome = await self._cache.fetch(inquiries[0], on_sent=partial(self._bench.sent, turn))
        finally:
            self.asking.remove(site.host)
        now = self._clock()
        told = [
            (inquiry, self._cache.heed(inquiry, outcome), self._bench.failures(_host(inquiry.origin)))
            for inquiry in inquiries
        ]
        lost = any(rules is not None and rules.standing is Standing.UNREACHABLE for _, rules, _ in told)
        for inquiry, rules, _ in told:
            if rules is not None and rules.standing is Standing.UNREACHABLE:
                # Before its turn is over, and also if nothing of it is to be fetched here any more: whoever
                # asks it next has to know how long it rests.
                self._bench.set_aside(_host(inquiry.origin), rules.until)
        self._bench.done(turn, now, response_s=now - began, failed=lost)
        self._frontier.settle(site, now)
        for inquiry, rules, failed_before in told:
            if rules is not None:
                self._learn(inquiry, rules, failed_before, now)
            elif self._may_send(inquiry, now):
                self._errands[inquiry] = now
            else:
                self._learn(inquiry, self._cache.give_up(inquiry), failed_before, now)

    def _may_send(self, inquiry: Inquiry, now: float) -> bool:
        """Have another host asked, unless it is not to be."""
        host, admission = _host(inquiry.asked), self._visitor.admission
        if admission.bars(host) or admission.rests(host, now):
            return False
        return self._frontier.send(inquiry, host, now)

    def _learn(self, inquiry: Inquiry, rules: Rules, failed_before: int, now: float) -> None:
        """Go on with a host whose rules are known; without an answer a URL fails instead of being asked."""
        if self._sitemaps:
            self._found(self._visitor.sitemaps(inquiry.origin, rules.sitemaps))
        site = self._frontier.site(_host(inquiry.origin))
        if site is None:
            return
        self._bench.set_crawl_delay(site.host, rules.crawl_delay_s)
        job = self._under_way.next_job(site, now) if rules.standing is Standing.UNREACHABLE else None
        if job is not None:
            failure = self._cache.failure(site.origin)
            cause = Cause.ROBOTS_UNREACHABLE if failure is None else failure.reason.value
            visit = self._visitor.unanswered(job, cause, max(failed_before, rules.failures - 1), now)
            is_lost = visit.state is State.DROPPED  # one that was visited before is done afterwards
            self._judged(visit)
            if is_lost:
                self._under_way.give_up(site.host, cause, now)
            else:
                self.set_aside(site, rules.until, now)
        self._frontier.resume(site, now)

    def set_aside(self, site: Site, until: float, now: float) -> None:
        """Ask a host for nothing before a time; nor what others wait for, if that is long."""
        self._aside(site.origin.netloc, until)
        for errand in self._frontier.set_aside(site, until, now):
            self._cannot_ask(errand, now)

    def _cannot_ask(self, errand: Inquiry, now: float) -> None:
        """The rules of a host cannot be asked for where they are: it is asked again later."""
        del self._errands[errand]
        failed_before = self._bench.failures(_host(errand.origin))
        self._learn(errand, self._cache.give_up(errand), failed_before, now)

    def drop_errands(self, now: float, *, counts: bool) -> None:
        """Wait for nobody's rules for too long; while nothing may be begun here, the time does not count."""
        if not counts:
            self._errands = dict.fromkeys(self._errands, now)
        while self._errands:
            errand, since = next(iter(self._errands.items()))
            if now - since < ERRAND_S:
                return
            self._frontier.drop(errand, _host(errand.asked), now)
            self._cannot_ask(errand, now)


def _host(origin: Origin) -> str:
    """The host of an origin, as keys have it."""
    return host_of(key(f"{origin}/"))
