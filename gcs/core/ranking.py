"""In which order pages are visited, new ones and ones already visited (004, section 4.3.3).

A new page's priority is its in-degree, P_new = I. One that was visited before has P_old = C·T·(I + O): how
much its links changed between the last two visits, how long ago the last one was, and how well connected it
is. Of what is visited, the share α is new.

The formula gives a page that was once found unchanged the priority 0 for ever, however long ago that was. It
is kept as published; the policy of visits that uses it gives C a floor (`gcs.core.revisits`).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

T_CRAWL_S: Final = 15_552_000.0
"""The time to crawl the whole web, as the paper defines it: six months of 30 days."""
ALPHA: Final = 0.9
CHANGE_FLOOR: Final = 0.05


class Priority(NamedTuple):
    """What a ranking says of one URL to the gatherer that owns it.

    How much a page changed, and how long ago it was visited, its owner knows best, and at any moment: it
    takes C·T·`old` for P_old.
    """

    key: str
    new: float
    """P_new: I, unless pages are ranked otherwise."""
    old: float
    """I + O."""


def p_new(in_degree: float) -> float:
    """The priority of a page never visited (4.3)."""
    return in_degree


def p_old(change: float, age: float, in_degree: float, out_degree: float) -> float:
    """The priority of a page visited before (4.4); `change` is C and `age` is T."""
    return change * age * (in_degree + out_degree)


def change(previous: Collection[str], latest: Collection[str]) -> float:
    """C: the share of the links of two visits that only one of them found (4.2); 1 when neither found any."""
    before, after = set(previous), set(latest)
    union = len(before | after)
    return 1 - len(before & after) / union if union else 1.0


def age(since_s: float, *, crawl_s: float = T_CRAWL_S) -> float:
    """T: the time since the last visit, as a share of the time that crawling the whole web takes (4.1)."""
    if not crawl_s > 0:
        raise ValueError(f"crawling the web takes a positive time, not {crawl_s} s")
    if since_s < 0:
        raise ValueError(f"the last visit is not in the future ({-since_s} s from now)")
    return since_s / crawl_s
