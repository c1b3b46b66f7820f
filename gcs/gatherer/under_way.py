"""URLs that were taken off the queue, and whose outcome is not on disk yet.

Whatever is taken off a host's queue is taken here: to be fetched, to be lent, or to be dropped because by now
something forbids it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from gcs.core.failures import Cause
from gcs.core.robots import Rules
from gcs.gatherer.frontier import Frontier, Site
from gcs.gatherer.job import Job, Visit
from gcs.gatherer.visit import Visitor
from gcs.store.store import Store

DROPPED_AT_ONCE: Final = 64
"""URLs of a host that are dropped in one of its turns."""


class UnderWay:
    """Takes URLs off the queues of hosts, and knows which of them are not settled."""

    def __init__(
        self,
        store: Store,
        frontier: Frontier,
        visitor: Visitor,
        judged: Callable[[Visit], None],
        *,
        budget: int | None,
        epoch: Callable[[], int],
        clock: Callable[[], float],
    ) -> None:
        """`judged` is told of what is dropped here; of a host at most `budget` pages are fetched.

        `epoch` gives that of what operators have ruled.
        """
        self._store, self._frontier, self._visitor = store, frontier, visitor
        self._judged, self._clock, self._epoch = judged, clock, epoch
        self._budget = budget or math.inf
        self._keys: Counter[str] = Counter()
        """How often each was taken: once more if it was queued again, and taken, before it was settled."""

    def __contains__(self, key: str) -> bool:
        return key in self._keys

    def __iter__(self) -> Iterator[str]:
        """Their keys, in order, as of now."""
        return iter(sorted(self._keys))

    def __len__(self) -> int:
        return len(self._keys)

    def settled(self, keys: Iterable[str]) -> None:
        """The outcomes of these are on disk."""
        for key in keys:
            self._let_go(key)

    def _let_go(self, key: str) -> None:
        if self._keys[key] > 1:
            self._keys[key] -= 1
        else:
            del self._keys[key]

    def next_job(self, site: Site, now: float, *, only_new: bool = False) -> Job | None:
        """The next URL of a host, whatever it is; None when it has no more."""
        job = self._frontier.next_job(site, now, only_new=only_new)
        if job is not None:
            self._keys[job.queued.key] += 1
        return job

    def next_allowed(self, site: Site, rules: Rules, now: float, *, only_new: bool = False) -> Job | None:
        """The next URL of a host that nothing forbids by now; those before it are dropped, some at a time."""
        for _ in range(DROPPED_AT_ONCE):
            job = self.next_job(site, now, only_new=only_new)
            if job is None:
                return None
            if site.pages >= self._budget and job.again is None:
                refused: Visit | None = self._visitor.lost(job, Cause.BUDGET, now)
            elif not rules.allowed(job.path):
                refused = self._visitor.forbidden(job, now)
            else:
                refused = self._visitor.unwanted(job, now)
            if refused is None:
                site.pages += job.again is None
                job.epoch = self._epoch()
                self._frontier.began(job)
                return job
            self._judged(refused)
        return None

    def drop_unwanted(self, site: Site, now: float) -> None:
        """Drop what is queued for a host that is not to be asked for anything, some at a time."""
        for _ in range(DROPPED_AT_ONCE):
            job = self.next_job(site, now)
            if job is None:
                return
            refused = self._visitor.unwanted(job, now)
            if refused is None:
                self.put_back(job)
                return
            self._judged(refused)

    def put_back(self, job: Job) -> None:
        """Queue a URL again of which nothing has come."""
        key = job.queued.key
        self._let_go(key)
        if job.again is not None:
            self._store.put_back_visits([key])
        elif not self._frontier.put_first(job):
            self._store.give_back([key])
            self._frontier.wake([job.host], self._clock())

    def give_up(self, host: str, cause: str, now: float) -> None:
        """Drop all that is queued for a host, some now, the rest in its turns; what is due again fails."""
        self._frontier.give_up(host, cause, now)
        site = self._frontier.site(host)
        if site is not None:
            site.given_up = cause
            self.drop_some(site, now)

    def drop_some(self, site: Site, now: float) -> None:
        """Drop what is queued for a host that was given up, some at a time."""
        for _ in range(DROPPED_AT_ONCE):
            job = self.next_job(site, now)
            if job is None:
                return
            self._judged(self._visitor.lost(job, site.given_up, now))

    def fail_some(self, now: float) -> None:
        """Let pages fail that are due again at hosts that were given up, some at a time."""
        for again, cause in self._frontier.given_up.take(DROPPED_AT_ONCE):
            self._keys[again.queued.key] += 1
            self._judged(self._visitor.lost(Job.revisit(again), cause, now))
