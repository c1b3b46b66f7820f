"""In which order pages are visited, new ones and ones already visited (004, section 4.3.3).

A new page's priority is its in-degree, P_new = I. One that was visited before has P_old = C·T·(I + O): how
much its links changed between the last two visits, how long ago the last one was, and how well connected it
is. Of what is visited, the share α is new.

The formula gives a page that was once found unchanged the priority 0 for ever, however long ago that was. It
is kept as published; the policy `revisit_priority` gives C a floor.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Iterator
from fractions import Fraction
from itertools import islice
from typing import Final, TypeVar

T_CRAWL_S: Final = 15_552_000.0
"""The time to crawl the whole web, as the paper defines it: six months of 30 days."""
ALPHA: Final = 0.9
CHANGE_FLOOR: Final = 0.05

_Page = TypeVar("_Page")


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


def revisit_priority(
    changed: float,
    since_s: float,
    in_degree: float,
    out_degree: float,
    *,
    crawl_s: float = T_CRAWL_S,
    floor: float = CHANGE_FLOOR,
) -> float:
    """P_old with C at least `floor`, so that no page is forgotten because it did not change once."""
    return p_old(max(changed, floor), age(since_s, crawl_s=crawl_s), in_degree, out_degree)


def interleave(new: Iterable[_Page], old: Iterable[_Page], *, alpha: float = ALPHA) -> Iterator[_Page]:
    """Both in their own order, such that of the first n exactly ⌈αn⌉ are new.

    When one has ended, what follows is the rest of the other.
    """
    share = _exact(alpha)
    news, olds = iter(new), iter(old)
    owed = Fraction(0)
    while True:
        owed += share
        mine, other = (news, olds) if owed > 0 else (olds, news)
        owed -= mine is news
        try:
            page = next(mine)
        except StopIteration:
            yield from other
            return
        yield page


def select(
    new: Iterable[tuple[_Page, float]],
    old: Iterable[tuple[_Page, float]],
    count: int,
    *,
    alpha: float = ALPHA,
) -> list[_Page]:
    """The next `count` pages to visit, from pages with their priorities; equal ones in the order given."""
    mixed = interleave(_best(new, count), _best(old, count), alpha=alpha)
    return list(islice(mixed, count))


def _best(pages: Iterable[tuple[_Page, float]], count: int) -> list[_Page]:
    return [page for page, _ in heapq.nlargest(count, pages, key=lambda rated: rated[1])]


def _exact(alpha: float) -> Fraction:
    """The share as it is written: as a binary fraction, 0.9 of 10 would be a little more than 9."""
    if not 0 <= alpha <= 1:
        raise ValueError(f"the share of new pages is between 0 and 1, not {alpha}")
    return Fraction(repr(float(alpha)))
