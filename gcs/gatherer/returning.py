"""Hosts with pages that are to be visited again: which of them is called, and when.

New pages and old ones are fetched in the proportion α, over all hosts together (`gcs.core.revisits.share`).
A host that has both is asked for what is owed. One that has only old ones has no turn of its own: it is
*called* when old ones are owed, and then comes before all others. When no new page can be had soon, hosts
are called without owing anything.

A host may have as many pages in memory as there is room left: with few hosts much of it, with many its share,
so that one with very many old pages, or one that may have few visits, keeps no other from being called.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final

from gcs.core.revisits.share import Share
from gcs.store.records import Again, host_of

if TYPE_CHECKING:
    from gcs.gatherer.revisiting import Revisiting

ADOPTED: Final = "revisits-adopted"
"""Set once all pages were adopted, until a crawl fetches some without thinking of coming back."""
WAITING: Final = 2_000
"""Pages that are in memory at most."""
READ_AT_ONCE: Final = 200
LOOK_EVERY_S: Final = 0.5
DROPPED_S: Final = 30.0
"""Pages of a host that were dropped are not read again for so long."""
SOON_S: Final = 5.0
"""A new page that can be asked for within this time counts as one that is there."""
_HOUR_S: Final = 3600.0


class Returning:
    """Pages that are due, by host."""

    def __init__(self, revisiting: Revisiting) -> None:
        self.revisiting = revisiting
        self.share = Share(revisiting.settings.alpha)
        self.per_host = revisiting.settings.per_host
        self._pages: dict[str, deque[Again]] = {}
        self._count = 0
        self._callable: deque[str] = deque()
        self._resting: list[tuple[float, str]] = []
        self._rests: set[str] = set()
        """Hosts that had as many visits as they may have for now."""
        self.called: dict[str, bool] = {}
        """Hosts that were called and have not been asked yet, and whether that was owed."""
        self._look_at = self._looked_at = 0.0
        self._dropped: dict[str, float] = {}
        """Hosts whose pages were dropped, and until when no others are read."""

    def __len__(self) -> int:
        return self._count

    def look(self, now: float, may_fetch: Callable[[str], bool] = lambda _: True) -> list[Again]:
        """Read pages that are due, and may be fetched; they have to be added, or put back."""
        if now < self._look_at or self._count >= WAITING:
            return []
        self._looked_at = now
        self._dropped = {host: until for host, until in self._dropped.items() if until > now}
        found = self.revisiting.due(now, READ_AT_ONCE, self._room(), may_fetch)
        self._look_at = now if len(found) == READ_AT_ONCE else now + LOOK_EVERY_S
        return found

    def _room(self) -> Callable[[str], bool]:
        """What says whether a host may have one page more, and counts it."""
        has = Counter({host: len(waiting) for host, waiting in self._pages.items()})
        left = WAITING - self._count

        def has_room(host: str) -> bool:
            nonlocal left
            if host in self._dropped or has[host] >= left:
                return False
            has[host] += 1
            left -= 1
            return True

        return has_room

    def add(self, pages: Iterable[Again]) -> None:
        """Let pages wait for their hosts."""
        for again in pages:
            host = host_of(again.queued.key)
            waiting = self._pages.get(host)
            if waiting is None:
                waiting = self._pages[host] = deque()
                if host not in self._rests:
                    self._callable.append(host)
            waiting.append(again)
            self._count += 1

    def rouse(self, now: float) -> None:
        """Hosts that have rested for long enough can be called again."""
        while self._resting and self._resting[0][0] <= now:
            _, host = heappop(self._resting)
            self._rests.discard(host)
            self._callable.append(host)

    def call(self, *, owed: bool) -> str | None:
        """The next host to be asked for an old page; None if there is none, or if enough were called."""
        if owed and self.share.owed <= sum(self.called.values()):
            return None
        while self._callable:
            host = self._callable.popleft()
            # A host may stand there twice; one that rests comes back when that is over.
            if host in self._pages and host not in self.called and host not in self._rests:
                self.called[host] = owed
                return host
        return None

    def has(self, host: str) -> bool:
        """Whether a page of a host waits, and may be asked for."""
        return host in self._pages and (host in self.called or self.per_host is None)

    def next_of(self, host: str, now: float) -> Again | None:
        """Take the next page of a host; None if it has none."""
        waiting = self._pages.get(host)
        self.called.pop(host, None)
        if waiting is None:
            return None
        again = self._next_wanted(waiting)
        if not waiting:
            del self._pages[host]
        elif self.per_host is None:
            self._callable.append(host)
        if self.per_host is not None and again is not None:
            self._rests.add(host)
            heappush(self._resting, (now + _HOUR_S / self.per_host, host))
        return again

    def _next_wanted(self, waiting: deque[Again]) -> Again | None:
        """Take a page that nobody queued, moved or erased while it waited."""
        while waiting:
            again = waiting.popleft()
            self._count -= 1
            if self.revisiting.is_wanted(again.queued.key):
                return again
        return None

    def drop(self, host: str) -> list[Again]:
        """Forget the pages of a host, which is not to be asked for a while; they have to be put back."""
        self._dropped[host] = self._looked_at + DROPPED_S
        return self.forget(host)

    def forget(self, host: str) -> list[Again]:
        """Forget the pages of a host; others of it can be read at once."""
        self.called.pop(host, None)
        dropped = list(self._pages.pop(host, ()))
        self._count -= len(dropped)
        return dropped

    def clear(self) -> list[Again]:
        """Forget all pages; they have to be put back."""
        self._callable.clear()
        return [again for host in list(self._pages) for again in self.forget(host)]
