"""The book of one gatherer for an audit: what came, where it stands, what went to and came from others."""

from __future__ import annotations

from collections import Counter
from typing import Any

from gcs.gatherer.handover import FETCHED_AGAIN, FOUND_AGAIN
from gcs.store.records import State
from gcs.store.store import Store


def book_of(store: Store) -> dict[str, Any]:
    """The book as of the last commit."""
    # A commit may end in its thread between two lines; what is read between two same ledgers is of one.
    ledger, counts, boxes = store.ledger(), store.counts(), store.outboxes()
    while ledger != store.ledger():
        ledger, counts, boxes = store.ledger(), store.counts(), store.outboxes()
    return {
        "accepted": ledger.accepted,
        "moved_in": ledger.moved_in,
        "moved_out": ledger.moved_out,
        "erased": ledger.erased,
        "sent": dict(ledger.sent),
        "received": dict(ledger.received),
        "withdrawn": dict(ledger.withdrawn),
        "queued": counts.queued,
        "done": counts.done,
        "dropped": counts.dropped,
        "passed": counts.passed,
        "in_flight": store.statistics().in_flight,
        "found_again": store.counters().get(FOUND_AGAIN, 0),
        "fetched_again": store.counters().get(FETCHED_AGAIN, 0),
        "outboxes": {to: box.entries for to, box in boxes.items()},
    }


def dropped_of(store: Store) -> dict[str, int]:
    """All that was dropped, counted by reason."""
    return dict(Counter(row.reason for _, row in store.scan("") if row.state is State.DROPPED))
