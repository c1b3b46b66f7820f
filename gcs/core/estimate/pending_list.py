"""The pending list: P(n) URLs are known and wait when n pages have been crawled (004, section 5.2).

In a web of N pages, each page crawled takes itself off the list and adds S links to pages anywhere, of which
the share that is not known yet is new:

    P(n) = P(n−1) + S·(N − (P(n−1) + n) + 1)/N − 1,    P(1) = S                 (5.2)
    P(n) = a^(n−1)·(S + 1 − N) + N − n,                a = 1 − S/N              (5.3)
    D(n) = ln(a)·a^(n−1)·(S + 1 − N) − 1                                        (5.4)

The list is longest where D(n) = 0. The paper prints −1 for the +1 in (5.2), of which (5.3) then is not the
solution, and differentiates a^(n−1) by n as if it were a power of n; (5.4) as printed is never 0. Its table
5.3 has a slip of its own: a = 1 − 2·10⁻⁷, right for N = 10⁹, is kept in the rows of all other N.

With a this near to 1 nothing may be computed as 1 − S/N: log1p and expm1 keep all digits.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

PRINTED_LOG_A: Final = math.log1p(-2e-7)
"""ln(a) of table 5.3, in all its rows."""


class Peak(NamedTuple):
    """Where the pending list is longest: after n1 pages, with p_max URLs."""

    n1: int
    p_max: int


def pending(n: float, nodes: float, out_degree: float) -> float:
    """P(n): how many URLs wait after n ≥ 1 pages of a web of so many nodes (5.3)."""
    return _pending(n, nodes, out_degree, _log_a(nodes, out_degree))


def pending_as_printed(n: float, nodes: float, out_degree: float) -> float:
    """What (5.2) gives as printed, with −1: up to 2 less, and −2 instead of 0 in the end."""
    log_a = _log_a(nodes, out_degree)
    return _pending(n, nodes, out_degree, log_a) + 2 * math.expm1((n - 1) * log_a)


def growth(n: float, nodes: float, out_degree: float) -> float:
    """D(n): by how much the pending list grows per page."""
    log_a = _log_a(nodes, out_degree)
    return -log_a * math.exp((n - 1) * log_a) * (nodes - out_degree - 1) - 1


def growth_as_printed(n: float, nodes: float, out_degree: float) -> float:
    """(5.4) as printed: negative for every n ≥ 1, so that (5.5) has no solution."""
    log_a = _log_a(nodes, out_degree)
    return -(n - 1) * math.exp((n - 2) * log_a) * (nodes - out_degree - 1) - 1


def peak(nodes: float, out_degree: float) -> Peak:
    """The number of pages after which the pending list is longest, and its length then.

    n1/N comes to ln(S)/S and P_max/N to 1 − (1 + ln(S))/S, whatever N is.
    """
    return _peak(nodes, out_degree, _log_a(nodes, out_degree))


def peak_as_printed(nodes: float, out_degree: float) -> Peak:
    """A row of table 5.3, with its slip: a is that of S = 200 and N = 10⁹, whatever they are."""
    _log_a(nodes, out_degree)
    return _peak(nodes, out_degree, PRINTED_LOG_A)


def _log_a(nodes: float, out_degree: float) -> float:
    if not 1 < out_degree < nodes - 1:
        raise ValueError(
            f"pages have more than one link, and fewer than there are other pages: "
            f"{out_degree:g} links among {nodes:g} pages is not a web that can be crawled"
        )
    return math.log1p(-out_degree / nodes)


def _pending(n: float, nodes: float, out_degree: float, log_a: float) -> float:
    """(5.3), as what has been discovered less what has been crawled: two nearly equal terms would cancel."""
    return (nodes - out_degree - 1) * -math.expm1((n - 1) * log_a) + out_degree + 1 - n


def _peak(nodes: float, out_degree: float, log_a: float) -> Peak:
    root = 1 - math.log(-log_a * (nodes - out_degree - 1)) / log_a
    n1 = max(1, round(root))
    return Peak(n1, round(_pending(n1, nodes, out_degree, log_a)))
