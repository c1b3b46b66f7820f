"""What a gatherer keeps in memory, and how much that may be: in some runs so little that a small web is much.

The sizes are those that the parts have anyway. A run with small ones forgets, waits and refuses all the time,
where one with the usual sizes would need a web of millions of pages for that. In some runs a turn is kept for
long too, so that whatever else happens has time to meet it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields
from typing import Any, Final
from unittest.mock import patch

from gcs.core import politeness, traps
from gcs.gatherer import crawl, findings, frontier, handover, links, tally, under_way, writer
from gcs.gatherer.gatherer import Gatherer
from gcs.helper import clerk, intake, lender

_OF_A_PAGE: Final = 40
"""Links and targets that one page adds at most; what is remembered is looked at from page to page."""
_PARTS_AT_ONCE: Final = 16
"""Answers of helpers that are taken at once."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much each part keeps."""

    remembered: int = links.REMEMBERED
    awake: int = frontier.AWAKE
    window: int = frontier.WINDOW
    parked: int = frontier.PARKED
    unread: int = crawl.UNREAD
    read_at_once: int = crawl.READ_AT_ONCE
    dropped_at_once: int = under_way.DROPPED_AT_ONCE
    batch: int = writer.BATCH
    held_bytes: int = intake.HELD_BYTES
    bundles: int = clerk.AT_ONCE
    fingerprints: int = 1 << 12
    """Several times as many as the webs have pages; the usual table is 4 MB that every start goes through."""
    subtrees: int = 20_000
    rows: int = findings._TABLE
    hosts: int = findings._HOSTS
    counted: int = tally._TABLE
    rows_read: int = handover.ROWS
    rows_sent: int = handover.ROWS_AT_ONCE
    unsent_bytes: int = handover.UNSENT_BYTES
    open_s: float = politeness.OPEN_S
    open_requests: int = politeness.OPEN_REQUESTS


USUAL: Final = Sizes()
SMALL: Final = Sizes(
    remembered=40,
    awake=3,
    window=3,
    parked=4,
    unread=3,
    read_at_once=2,
    dropped_at_once=2,
    batch=4,
    held_bytes=12 << 10,
    bundles=2,
    subtrees=3,
    rows=4,
    hosts=3,
    counted=2,
    rows_read=3,
    rows_sent=6,
    unsent_bytes=1 << 10,
)
LONG_TURNS: Final[Mapping[str, Any]] = {"open_s": 15.0, "open_requests": 60}
_CONSTANTS: Final = {
    "window": (frontier, "WINDOW"),
    "parked": (frontier, "PARKED"),
    "unread": (crawl, "UNREAD"),
    "read_at_once": (crawl, "READ_AT_ONCE"),
    "dropped_at_once": (under_way, "DROPPED_AT_ONCE"),
    "batch": (writer, "BATCH"),
    "held_bytes": (intake, "HELD_BYTES"),
    "bundles": (clerk, "AT_ONCE"),
    "rows": (findings, "_TABLE"),
    "hosts": (findings, "_HOSTS"),
    "counted": (tally, "_TABLE"),
    "rows_read": (handover, "ROWS"),
    "rows_sent": (handover, "ROWS_AT_ONCE"),
    "unsent_bytes": (handover, "UNSENT_BYTES"),
    "open_s": (politeness, "OPEN_S"),
    "open_requests": (politeness, "OPEN_REQUESTS"),
}
_DEFAULTS: Final = {
    "remembered": (links.Targets, "remembered"),
    "awake": (frontier.Frontier, "awake"),
    "fingerprints": (traps.Novelty, "fingerprints"),
    "subtrees": (traps.Novelty, "subtrees"),
}


@contextmanager
def in_force(sizes: Sizes) -> Iterator[None]:
    """Have all parts that are made from now on keep so much."""
    with ExitStack() as stack:
        for field in fields(sizes):
            size = getattr(sizes, field.name)
            if field.name in _CONSTANTS:
                stack.enter_context(patch.object(*_CONSTANTS[field.name], size))
            else:
                made, name = _DEFAULTS[field.name]
                initial: Any = vars(made)["__init__"]
                stack.enter_context(patch.dict(initial.__kwdefaults__, {name: size}))
        yield


def exceeded(gatherer: Gatherer, sizes: Sizes) -> list[str]:
    """What a gatherer keeps more of than it may, in words."""
    return [
        f"{count} {what}, and {most} are allowed"
        for what, count, most in _kept(gatherer, sizes)
        if count > most
    ]


def _kept(gatherer: Gatherer, sizes: Sizes) -> Iterator[tuple[str, int, int]]:
    """What a gatherer keeps: what it is, how much there is, and how much there may be."""
    node, crawling, lending = gatherer.node, gatherer.crawl, gatherer.lender
    at_once = node.config.fetch.concurrency + crawl.LENDERS
    visitor = crawling._visitor
    yield "links are remembered", visitor._targets.remembered, 2 * (sizes.remembered + _OF_A_PAGE)
    sites = crawling.frontier._sites.values()
    # Others are awake for an errand only.
    yield "hosts are awake", sum(bool(site.window) for site in sites), sizes.awake
    for site in sites:
        if len(site.window) > sizes.window + at_once or len(site.parked) > sizes.parked + sizes.window:
            yield f"URLs of {site.host!r} are at hand", len(site.window), sizes.window + at_once
            yield f"URLs of {site.host!r} are passed over", len(site.parked), sizes.parked + sizes.window
    lent = _PARTS_AT_ONCE * node.config.helpers.bundle
    yield "pages are unread", len(crawling._unread), 2 * sizes.unread + lent
    waiting = sizes.batch + sizes.read_at_once + at_once * (1 + sizes.dropped_at_once) + lent
    yield "outcomes wait to be written", len(crawling.writer._finished), waiting
    yield "bytes of strangers are held back", lending._intake._weight(), sizes.held_bytes
    for desk in lending._clerks:
        if lending._books.record(desk):
            yield f"bundles are with {desk}", lending.held(desk), sizes.bundles + lender._AHEAD
    novelty = visitor.admission.novelty
    yield "subtrees repeat something", len(novelty._tallies), sizes.subtrees
    yield "subtrees are closed", len(novelty._closed), sizes.subtrees
    for name in ("written", "places", "place_bytes", "spoken", "links"):
        # The rest of all that have no row of their own has one.
        yield f"rows are in {name}", len(getattr(crawling.findings, name)), sizes.rows + 1
    yield "hosts are described", len(crawling.findings.hosts), sizes.hosts
    yield "hosts are counted", len(crawling.tally.hosts.counts), 2 * sizes.counted
    yield "types are counted", len(crawling.tally.types.counts), 2 * sizes.counted
