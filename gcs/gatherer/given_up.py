"""Hosts that were given up while pages of theirs are due again.

What is queued for such a host is dropped in its turns. Pages that are visited again have none of their own:
they fail here, without their host being asked for each of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

from gcs.core.politeness import FAILURES_KEPT_S
from gcs.store.records import Again, host_of

GIVEN_UP: Final = 1_000
"""Pages that wait to fail, of which more are not read."""


class GivenUp:
    """Hosts that were given up, while their failures are remembered, and the pages that fail with them."""

    def __init__(self) -> None:
        self._hosts: dict[str, tuple[float, str]] = {}
        """Until when, and why; in the order of time."""
        self._pages: deque[tuple[Again, str]] = deque()

    def __len__(self) -> int:
        return len(self._pages)

    def add(self, host: str, cause: str, now: float) -> None:
        """Give a host up."""
        self._hosts.pop(host, None)
        self._hosts[host] = now + FAILURES_KEPT_S, cause

    def answered(self, host: str) -> None:
        """A host has answered: it is asked for its pages again."""
        self._hosts.pop(host, None)

    def claim(self, due: Iterable[Again], now: float) -> list[Again]:
        """Take those of some pages whose hosts were given up; the others are returned."""
        self._forget(now)
        left = []
        for again in due:
            if (known := self._hosts.get(host_of(again.queued.key))) is not None:
                self._pages.append((again, known[1]))
            else:
                left.append(again)
        return left

    def take(self, count: int) -> list[tuple[Again, str]]:
        """Some pages that fail now, and why."""
        return [self._pages.popleft() for _ in range(min(count, len(self._pages)))]

    def clear(self) -> list[Again]:
        """Forget all pages; they have to be put back."""
        pages = [again for again, _ in self._pages]
        self._pages.clear()
        return pages

    def _forget(self, now: float) -> None:
        while self._hosts:
            host, (until, _) = next(iter(self._hosts.items()))
            if now < until:
                return
            del self._hosts[host]
