"""What to fetch next: the hosts that have work, and a few URLs of each.

All URLs are in the store; here are only those of hosts that are awake. Whether a host may be asked now is the
workbench's decision, and what it is asked for the store's. A host is *awake* from when something is queued
for it until its queue is found empty. It has to be *located* before it can be asked: politeness counts
addresses too. Of very many hosts only some are awake at a time; the others wait in the store, and are looked
for when there is room. A host that must not be asked for long is *set aside*: it gives its place to others.

Where a robots.txt redirects to, another host has to be asked: that is an *errand*, done in a turn of that
host, which is awake for it even if nothing is queued for it here. A host whose own rules are being asked for
elsewhere is *held* meanwhile.

Of a host that belongs to this gatherer only in part, what may not be fetched is passed over, and kept out of
the way for as long as it is little; when there is more, the host waits until its ranges have changed hands.
"""

from __future__ import annotations

import bisect
import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush
from typing import Final

from gcs.core.holdings import Extent
from gcs.core.politeness import Turn, Workbench
from gcs.core.urls import AFTER, PATH, is_of_source, url
from gcs.fetch.outcome import Origin
from gcs.fetch.robots import Inquiry
from gcs.gatherer.given_up import GIVEN_UP, GivenUp
from gcs.gatherer.job import Job
from gcs.gatherer.returning import SOON_S, Returning
from gcs.gatherer.territory import ALONE, Territory
from gcs.store.records import HostCounts, Queued
from gcs.store.store import Store
from gcs.world import REAL, World

WINDOW: Final = 32
LOOKED_AT: Final = 2_000
"""Hosts in the store that are looked at before others have their turn."""
ROUSE_S: Final = 0.02
"""How long hosts are woken in one go by a crawl: each is read from disk, while nobody else has a turn."""
PARKED: Final = 1024
"""URLs of a host that may be passed over before the host has to wait."""
LOOKS: Final = 10
"""How often pages that are due again are read before others have their turn."""
CALLS: Final = 64
"""Hosts that are called for old pages in one go, for some of them may have to rest."""
SEEK_EVERY_S: Final = 0.25
"""How often a host is sought that can be asked for a new page soon, while there was none."""
AWAKE: Final = 10_000
LONG_S: Final = 30.0
"""A host that rests for longer need not be awake for it."""


class Site:
    """A host that is awake: what to ask it for."""

    __slots__ = (
        *("errands", "given_up", "host", "is_source", "origin", "pages", "parked", "rules_sought", "window"),
    )

    def __init__(self, host: str, pages: int) -> None:
        self.host = host
        self.pages = pages
        """Pages of it that were fetched, over all runs."""
        self.origin, _ = Origin.split(url(host + PATH))
        self.is_source = is_of_source(host)
        """Whether it is no web server: it has no robots.txt and no address, and nobody else can ask it."""
        self.window: deque[Queued] = deque()
        self.parked: list[str] = []
        """Keys that were handed out and may not be fetched here."""
        self.errands: deque[Inquiry] = deque()
        """What it is to be asked for the sake of others."""
        self.rules_sought = False
        """Whether its robots rules were looked for where they may be known already."""
        self.given_up = ""
        """Why nothing more is asked of it."""


class Frontier:
    """Hosts with work, in an order that is polite and fair to all."""

    def __init__(
        self,
        store: Store,
        bench: Workbench,
        *,
        territory: Territory = ALONE,
        awake: int = AWAKE,
        returning: Returning | None = None,
        rouse_s: float | None = None,
        world: World = REAL,
    ) -> None:
        """`rouse_s` is how long hosts are woken in one go; the rest are woken the next time."""
        self._store, self._bench, self._limit = store, bench, awake
        self._rouse_s, self._timer = math.inf if rouse_s is None else rouse_s, world.timer
        self.returning = returning
        """The pages that are visited again, if any are."""
        self.given_up = GivenUp()
        self._soon: Site | None = None
        """One that can be asked for a new page soon, when last seen."""
        self._seek_at = 0.0
        self._territory = territory
        self._sites: dict[str, Site] = {}
        self._unlocated: deque[Site] = deque()
        self._waiting: Iterator[HostCounts] | None = None
        # Whether hosts may wait in the store that no iterator ahead will find.
        self._missed = True
        self._aside: dict[str, float] = {}
        self._returns: list[tuple[float, str]] = []

    def wake(self, hosts: Iterable[str], now: float) -> None:
        """URLs were queued for these hosts."""
        until = self._timer() + self._rouse_s
        for host in hosts:
            if host in self._sites or host in self._aside:
                continue
            if len(self._sites) >= self._limit or self._timer() > until:
                self._missed = True
                return
            self._rouse(host, now)

    def wake_due(self, now: float) -> None:
        """Wake hosts that have something to try again, and hosts that wait in the store if there is room."""
        self.wake(self._store.due(now=now), now)
        while self._returns and self._returns[0][0] <= now:
            _, host = heappop(self._returns)
            if self._aside.get(host, math.inf) <= now:
                del self._aside[host]
                self.wake([host], now)
        until = self._timer() + self._rouse_s
        for _ in range(LOOKED_AT):
            if self._timer() > until:
                break
            if len(self._sites) >= self._limit or not (self._waiting is not None or self._missed):
                break
            if self._waiting is None:
                self._waiting, self._missed = self._store.hosts(), False
            counts = next(self._waiting, None)
            if counts is None:
                self._waiting = None
            elif counts.queued and counts.host not in self._sites and counts.host not in self._aside:
                self._rouse(counts.host, now)
        if self.returning is not None:
            self._look_for_old(self.returning, now)

    # Pages that are visited again

    def _look_for_old(self, returning: Returning, now: float) -> None:
        returning.rouse(now)
        for _ in range(LOOKS):
            if len(self.given_up) >= GIVEN_UP:
                return
            found = returning.look(now, self._territory.may_fetch)
            if not found:
                return
            returning.add(self.given_up.claim(found, now))

    def _call(self, returning: Returning, now: float, *, owed: bool) -> bool:
        """Have a host asked for an old page; whether there is one to be asked."""
        host = returning.call(owed=owed)
        if host is None:
            return False
        if host in self._aside:
            self._store.put_back_visits(each.queued.key for each in returning.drop(host))
            return True
        site = self._sites.get(host)
        if site is None:
            site = self._sites[host] = Site(host, self._store.host(host).done)
        self._awaken(site, now)
        if owed:
            self._bench.hurry(host, now)
        return True

    @property
    def is_looking(self) -> bool:
        """Whether hosts in the store have not been looked at yet, or pages wait that are to fail."""
        return self._waiting is not None or self._missed or bool(self.given_up)

    @property
    def next_return(self) -> float:
        """When the next host comes back that was set aside; infinite if there is none."""
        return self._returns[0][0] if self._returns else math.inf

    @property
    def old(self) -> int:
        """Pages that are due again, and wait for their hosts."""
        return len(self.returning) if self.returning is not None else 0

    @property
    def has_old(self) -> bool:
        """Whether pages that are due again have not been taken yet, whatever they wait for."""
        if self.returning is None:
            return False
        return bool(self.old or self.given_up or self._store.has_barred_visits)

    def give_up(self, host: str, cause: str, now: float) -> None:
        """Let the pages of a host that are due again fail, until it answers."""
        if self.returning is not None:
            self.given_up.add(host, cause, now)
            self.given_up.claim(self.returning.forget(host), now)

    def began(self, job: Job) -> None:
        """A URL is asked for: it counts for the proportion of new and old ones."""
        returning = self.returning
        if returning is None:
            return
        if job.again is None:
            if len(returning):
                returning.share.took_new()
        elif job.is_owed:
            returning.share.took_old()

    def _rouse(self, host: str, now: float) -> None:
        if self._territory.extent(host) is Extent.NONE:
            return
        site = Site(host, self._store.host(host).done)
        if not self._fill(site, now):
            return
        self._sites[host] = site
        if self._bench.is_located(host):
            self._bench.wake(host, now)
        else:
            self._unlocated.append(site)

    def _fill(self, site: Site, now: float) -> bool:
        queued = self._store.next_of(site.host, WINDOW, now=now)
        if queued and self._territory.extent(site.host) is not Extent.ALL:
            queued = self._allowed(site, queued, now)
        site.window.extend(queued)
        if not queued and site.parked:
            self._store.give_back(site.parked)
            site.parked = []
        return bool(queued)

    def _allowed(self, site: Site, queued: list[Queued], now: float) -> list[Queued]:
        """Those of a host's URLs that may be fetched here; looks further while there is none."""
        while queued:
            allowed = [each for each in queued if self._territory.may_fetch(each.key)]
            site.parked += [each.key for each in queued if not self._territory.may_fetch(each.key)]
            if allowed or len(site.parked) > PARKED:
                return allowed
            queued = self._store.next_of(site.host, WINDOW, now=now)
        return []

    def release(self, ranges: Sequence[tuple[str, str | None]]) -> None:
        """What may be fetched of some ranges has changed: put their hosts back, to be woken as is right."""
        starts = sorted(start for start, _ in ranges)
        ends = sorted((end for _, end in ranges if end is not None))
        released = []
        for host in self._sites:
            begun = bisect.bisect_left(starts, host + AFTER)
            over = bisect.bisect_right(ends, host + PATH)
            if begun > over:  # more ranges begin before its end than end before its beginning
                released.append(host)
        for host in released:
            self._put_back(self._sites[host])
            if not self._sites[host].errands:
                del self._sites[host]
                self._bench.sleep(host)
        self._missed = True
        self.put_back_old()

    def site(self, host: str) -> Site | None:
        """A host, if it is awake."""
        return self._sites.get(host)

    def aside_until(self, host: str) -> float:
        """When a host that was set aside comes back; 0.0 for all others."""
        return self._aside.get(host, 0.0)

    @property
    def to_locate(self) -> int:
        """How many hosts have addresses that are not known, and that nobody is looking for."""
        return len(self._unlocated)

    def unlocated(self) -> Site | None:
        """A host whose addresses are not known yet, each once."""
        return self._unlocated.popleft() if self._unlocated else None

    def located(self, site: Site, addresses: Sequence[str], now: float) -> None:
        """The addresses of a host were found; from now on it can have its turn."""
        self._bench.locate(site.host, addresses, site.origin.host)
        if self._sites.get(site.host) is site:
            self._bench.wake(site.host, now)

    def set_aside(self, site: Site, until: float, now: float) -> list[Inquiry]:
        """Ask a host for nothing before a time; if that is far off, others have its place until then.

        The errands are returned for which that is too long.
        """
        self._bench.set_aside(site.host, until)
        if until - now < LONG_S or self._sites.get(site.host) is not site:
            return []
        self._put_back(site)
        if self.returning is not None:
            self._store.put_back_visits(each.queued.key for each in self.returning.drop(site.host))
        del self._sites[site.host]
        self._bench.sleep(site.host)
        self._aside[site.host] = until
        heappush(self._returns, (until, site.host))
        errands = list(site.errands)
        site.errands.clear()
        return errands

    # Rules that are asked for elsewhere

    def send(self, errand: Inquiry, host: str, now: float) -> bool:
        """Have a host asked something in one of its turns; False if it must not be asked for long."""
        if host in self._aside:
            return False
        site = self._sites.get(host)
        if site is None:
            site = self._sites[host] = Site(host, self._store.host(host).done)
        site.errands.append(errand)
        self._awaken(site, now)
        return True

    def errands(self, site: Site) -> list[Inquiry]:
        """Take the next errand to a host, with all others that are about the same."""
        target = site.errands[0].target
        same = [errand for errand in site.errands if errand.target == target]
        site.errands = deque(errand for errand in site.errands if errand.target != target)
        return same

    def drop(self, errand: Inquiry, host: str, now: float) -> None:
        """Do not do an errand that waits."""
        site = self._sites[host]
        site.errands.remove(errand)
        self._sleep_if_idle(site, now)

    def settle(self, site: Site, now: float) -> None:
        """After errands: a host for which nothing is left to do goes to sleep."""
        if self._sites.get(site.host) is site:
            self._sleep_if_idle(site, now)

    def hold(self, site: Site) -> None:
        """Let a host have no turn until it is resumed, or there are errands to it."""
        if not site.errands:
            self._bench.sleep(site.host)

    def resume(self, site: Site, now: float) -> None:
        """Let a host that was held have its turns again."""
        if self._sites.get(site.host) is site:
            self._awaken(site, now)

    def _awaken(self, site: Site, now: float) -> None:
        """Wake a host; while it was held, or before it got its errand, it may have been forgotten."""
        if self._bench.is_located(site.host):
            self._bench.wake(site.host, now)
        elif site not in self._unlocated:
            self._unlocated.append(site)

    # Turns

    def take(self, now: float) -> tuple[Turn, Site] | None:
        """The next host that may be asked now; None when there is none."""
        returning = self.returning
        if returning is not None and len(returning):
            while returning.share.owed and self._call(returning, now, owed=True):
                pass
        turn = self._bench.take(now)
        if turn is None and returning is not None and len(returning):
            for _ in range(CALLS):
                if turn is not None or self._has_new_soon(now) or not self._call(returning, now, owed=False):
                    break
                turn = self._bench.take(now)
        return None if turn is None else (turn, self._sites[turn.host])

    def _has_new_soon(self, now: float) -> bool:
        """Whether something new waits only for its host's delay; what waits for longer does not count."""
        if self._soon is not None and self._is_soon(self._soon, now):
            return True
        if self._soon is None and now < self._seek_at:
            return False
        self._soon = next((site for site in self._sites.values() if self._is_soon(site, now)), None)
        self._seek_at = now + SEEK_EVERY_S
        return self._soon is not None

    def _is_soon(self, site: Site, now: float) -> bool:
        is_awake = bool(site.window) and self._sites.get(site.host) is site
        return is_awake and self._bench.may_come(site.host, now, now + SOON_S)

    def next_job(self, site: Site, now: float, *, only_new: bool = False) -> Job | None:
        """The next URL of a host; None when it has no more. A host without more goes to sleep."""
        if self._sites.get(site.host) is not site:
            return None  # it fell asleep meanwhile, and whoever woke it again has its URLs
        job = None
        if self.returning is not None and not only_new:
            job = self._next_old(self.returning, site, now)
        while job is None and site.window:
            queued = site.window.popleft()
            if self._store.awaits_fetch(queued.key):
                job = Job.of(queued)
        self._sleep_if_idle(site, now)
        return job

    def _next_old(self, returning: Returning, site: Site, now: float) -> Job | None:
        """A page to be visited again, if the host was called for it, or one is owed."""
        host = site.host
        owed = returning.called.get(host, True)
        if host not in returning.called and not (returning.share.owed and returning.has(host)):
            return None
        again = returning.next_of(host, now)
        if again is None:
            return None
        job = Job.revisit(again)
        job.is_owed = owed
        return job

    def _is_called(self, site: Site) -> bool:
        return self.returning is not None and site.host in self.returning.called

    def _sleep_if_idle(self, site: Site, now: float) -> None:
        if site.window or self._is_called(site):
            return
        # It may have been woken for an errand when there was no place left.
        has_place = len(self._sites) <= self._limit
        if not (has_place and self._fill(site, now)) and not site.errands:
            self._put_back(site)
            del self._sites[site.host]
            self._bench.sleep(site.host)
            self._missed |= not has_place

    def put_first(self, job: Job) -> bool:
        """Let a URL that was taken be the next of its host.

        False if that is asleep, or awake for something else while there is no place left for it, or if the
        URL is not ours any more.
        """
        site = self._sites.get(job.host)
        if site is None or not self._territory.may_fetch(job.queued.key):
            return False
        if not site.window and len(self._sites) > self._limit:
            return False
        site.window.appendleft(job.queued)
        site.pages = max(0, site.pages - 1)
        return True

    def _put_back(self, site: Site) -> None:
        self._store.give_back([*site.parked, *(queued.key for queued in site.window)])
        site.parked = []
        site.window.clear()

    def give_back(self) -> None:
        """Put what was not asked for back into the store's queue."""
        for site in self._sites.values():
            self._put_back(site)
        self._sites.clear()
        self.put_back_old()

    def put_back_old(self) -> None:
        """Put pages that are due again, and were not asked for, back into their lines."""
        if self.returning is not None:
            left = [*self.returning.clear(), *self.given_up.clear()]
            self._store.put_back_visits(each.queued.key for each in left)
            self._store.release_visits()
