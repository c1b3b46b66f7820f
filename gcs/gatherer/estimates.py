"""How wanted a fresh link is, between two rankings: a guess, at once and for next to nothing.

Its in-degree is at least one, and popular pages lead to popular ones, so it is taken for the geometric mean
of one and the in-degree of the page that names it. If that is above the mean of what the last ranking says
of its host, it goes before all others, as it would by a ranking (`gcs.store.promoting`). The band in which it
waits is in its row; what is known of hosts is read from what the ranking has left in the store when it is
needed, so a restart forgets nothing.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final

from gcs.store.records import host_of

HOSTS: Final = 20_000
"""Hosts whose means are remembered, those last asked for."""


class Estimates:
    """What the last ranking says of pages and hosts."""

    def __init__(
        self,
        in_degree: Callable[[str], float | None],
        mean: Callable[[str], float | None],
        *,
        is_ranked: bool,
    ) -> None:
        """`in_degree` gives that of a page, if it was ranked, and `mean` that of the pages of a host.

        Nothing is asked for before there was a ranking.
        """
        self._in_degree, self._mean, self._is_ranked = in_degree, mean, is_ranked
        self._means: OrderedDict[str, float] = OrderedDict()

    def ranked(self, keys: Iterable[str]) -> None:
        """Something else is known of some URLs: they were ranked, or have come with what was said of them."""
        self._is_ranked = True
        for key in keys:
            self._means.pop(host_of(key), None)

    def of_page(self, key: str) -> float | None:
        """What links of a page are taken for; None if it was not ranked."""
        degree = self._in_degree(key) if self._is_ranked else None
        return None if degree is None else math.sqrt(max(1.0, degree))

    def is_wanted(self, key: str, estimate: float) -> bool:
        """Whether a URL that is taken for so much goes before others of its host."""
        return estimate > self._mean_of(host_of(key))

    def _mean_of(self, host: str) -> float:
        """The mean of a host; infinite if nothing of it was ranked."""
        known = self._means.pop(host, None)
        if known is None:
            known = mean if (mean := self._mean(host)) is not None else math.inf
            if len(self._means) >= HOSTS:
                self._means.popitem(last=False)
        self._means[host] = known
        return known
