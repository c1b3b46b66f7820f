"""What a gatherer measures beside its crawl: plans, others, what goes between them, and helpers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import trio

from gcs.core.holdings import Standing
from gcs.core.reasons import REASONS
from gcs.gatherer.crawl_meters import Begun, CrawlMeters, labelled
from gcs.gatherer.exchange import Exchange
from gcs.gatherer.membership import STANDINGS, Membership
from gcs.gatherer.node import Node
from gcs.helper.lender import Lender
from gcs.helper.papers import Refusal
from gcs.leader.leader import OUTCOMES, Leader
from gcs.metrics import Kind, Labelled, Meter, exposition
from gcs.store.records import Ledger


@dataclass(frozen=True, slots=True)
class Gathering:
    """How a gatherer is at a moment, beside its crawl."""

    node: Node
    membership: Membership
    leader: Leader
    lender: Lender
    exchange: Exchange
    begun: Begun
    ledger: Ledger
    facts: Mapping[str, Any]
    now: float

    def gatherers(self) -> Labelled:
        """Gatherers that have neither left nor been given up."""
        alive = {each.id for each in self.membership.alive()}
        there = {each.id for each in self.membership.members.values() if each.pulse.standing != "left"}
        charter = self.node.charter
        departed = set(charter.departed if charter else ())
        return labelled({"alive": len(alive), "silent": len(there - alive - departed)})

    def ranges(self) -> Labelled:
        """Ranges of the URL space by where they stand."""
        states = {"held": Standing.HELD, "leaving": Standing.LEAVING, "coming": Standing.COMING}
        return {(name,): len(self.node.holdings.pieces(each)) for name, each in states.items()}

    def exchanged(self) -> Labelled:
        """URLs that went to others and came from them."""
        now, then = self.ledger, self.begun.ledger
        return labelled(
            {
                "sent": sum(now.sent.values()) - sum(then.sent.values()),
                "received": sum(now.received.values()) - sum(then.received.values()),
            }
        )

    def moved(self) -> Labelled:
        """Rows that changed hands with their ranges."""
        now, then = self.ledger, self.begun.ledger
        return labelled({"in": now.moved_in - then.moved_in, "out": now.moved_out - then.moved_out})

    def helpers(self) -> Labelled:
        """Helpers by what they do."""
        slots = [each.slots for desk in self.lender.present.values() for each in desk]
        working = sum(each > 0 for each in slots)
        return labelled({"working": working, "waiting": len(slots) - working})


METERS: Final[Sequence[Meter[Gathering]]] = (
    Meter(
        "gcs_standing",
        Kind.GAUGE,
        "1 for what the gatherer does, 0 for all else.",
        lambda it: {(each,): it.membership.standing() == each for each in STANDINGS},
        ("standing",),
    ),
    Meter(
        "gcs_gatherers",
        Kind.GAUGE,
        "Gatherers of the crawl, this one included: those that are heard of, and those that should be.",
        Gathering.gatherers,
        ("state",),
    ),
    Meter(
        "gcs_redis_up",
        Kind.GAUGE,
        "1 if Redis answered the last heartbeat; else 0.",
        lambda it: it.membership.is_within_reach,
    ),
    Meter(
        "gcs_heartbeat_age_seconds",
        Kind.GAUGE,
        "How long ago Redis last answered; +Inf before it did.",
        lambda it: it.now - it.membership.reached_at,
    ),
    Meter("gcs_plan_epoch", Kind.GAUGE, "The plan in force; 0 before the first.", lambda it: it.node.epoch),
    Meter(
        "gcs_plan_age_seconds",
        Kind.GAUGE,
        "How long ago it was adopted, or the process was started.",
        lambda it: it.now - it.node.adopted_at,
    ),
    Meter(
        "gcs_plans_adopted_total",
        Kind.COUNTER,
        "Plans adopted, by the reason that counts most.",
        lambda it: {(each,): it.node.plans[each] for each in REASONS},
        ("reason",),
    ),
    Meter(
        "gcs_rounds_total",
        Kind.COUNTER,
        "Rounds of planning that this gatherer has led, by what came of them.",
        lambda it: {(each,): it.leader.rounds[each] for each in OUTCOMES},
        ("outcome",),
    ),
    Meter(
        "gcs_rankings_total",
        Kind.COUNTER,
        "Rankings on schedule that this gatherer was elected for, by what came of them.",
        lambda it: {(each,): it.node.rankings[each] for each in ("delivered", "failed")},
        ("outcome",),
    ),
    Meter(
        "gcs_ranges",
        Kind.GAUGE,
        "Ranges of the URL space, by where they stand.",
        Gathering.ranges,
        ("state",),
    ),
    Meter(
        "gcs_moved_urls_total",
        Kind.COUNTER,
        "URLs that changed hands with their range.",
        Gathering.moved,
        ("direction",),
    ),
    Meter(
        "gcs_exchanged_urls_total",
        Kind.COUNTER,
        "URLs put into outboxes, and received from others.",
        Gathering.exchanged,
        ("direction",),
    ),
    Meter(
        "gcs_outbox_urls", Kind.GAUGE, "URLs that wait for other gatherers.", lambda it: it.facts["outbox"]
    ),
    Meter("gcs_outbox_bytes", Kind.GAUGE, "Their size on disk.", lambda it: it.facts["outbox_bytes"]),
    Meter(
        "gcs_outbox_limit_bytes",
        Kind.GAUGE,
        "Above this size no fetches are begun (exchange.outbox).",
        lambda it: it.node.config.exchange.outbox_bytes,
    ),
    Meter(
        "gcs_outbox_full",
        Kind.GAUGE,
        "1 while no fetches are begun for that reason; else 0.",
        lambda it: it.node.outbox_is_full,
    ),
    Meter(
        "gcs_coordination_bytes_total",
        Kind.COUNTER,
        "Bytes of tuples about who fetches what.",
        lambda it: labelled({"sent": it.node.traffic.sent_bytes, "received": it.node.traffic.received_bytes}),
        ("direction",),
    ),
    Meter(
        "gcs_tuples_unreadable_total",
        Kind.COUNTER,
        "What stood in the crawl's spaces in place of tuples, and was dropped.",
        lambda it: it.exchange.unreadable,
    ),
    Meter(
        "gcs_remaining_seconds",
        Kind.GAUGE,
        "How long what is queued would take, at the rate since the last plan.",
        lambda it: it.facts["remaining_s"],
    ),
    Meter(
        "gcs_helpers",
        Kind.GAUGE,
        "Helpers that are there, by whether they take work.",
        Gathering.helpers,
        ("state",),
    ),
    Meter(
        "gcs_helpers_slots",
        Kind.GAUGE,
        "Hosts that they can ask at once.",
        lambda it: sum(each.slots for desk in it.lender.present.values() for each in desk),
    ),
    Meter(
        "gcs_helpers_barred",
        Kind.GAUGE,
        "Helpers that were wrong too often, and are not asked any more.",
        lambda it: len(it.lender.scrutiny.trust.barred()),
    ),
    Meter(
        "gcs_urls_lent", Kind.GAUGE, "URLs that others are fetching now.", lambda it: it.node.crawl.loans.lent
    ),
    Meter("gcs_lent_urls_total", Kind.COUNTER, "URLs lent to others.", lambda it: it.lender.account.lent),
    Meter(
        "gcs_returned_urls_total",
        Kind.COUNTER,
        "Of these, those that came back with an answer.",
        lambda it: it.lender.account.returned,
    ),
    Meter(
        "gcs_unanswered_urls_total",
        Kind.COUNTER,
        "Of these, those that came back without one, and were queued again.",
        lambda it: it.lender.account.unanswered,
    ),
    Meter(
        "gcs_answers_refused_total",
        Kind.COUNTER,
        "Answers of helpers that were refused, by reason.",
        lambda it: {
            (why,): it.lender.account.refused[why] for why in (each.name.lower() for each in Refusal)
        },
        ("reason",),
    ),
    Meter(
        "gcs_helped_pages_total",
        Kind.COUNTER,
        "Pages that helpers have fetched; gcs_pages_total has them too.",
        lambda it: it.node.crawl.tally.helped - it.begun.helped,
    ),
)


class GathererMeters:
    """The meters of a gatherer, those of its crawl included."""

    def __init__(
        self,
        crawl: CrawlMeters,
        node: Node,
        membership: Membership,
        leader: Leader,
        lender: Lender,
        exchange: Exchange,
    ) -> None:
        self._crawl, self._node, self._membership = crawl, node, membership
        self._leader, self._lender, self._exchange = leader, lender, exchange

    async def __call__(self) -> str:
        """What they say now."""
        crawling = await self._crawl()
        node = self._node
        gathering = Gathering(
            node,
            self._membership,
            self._leader,
            self._lender,
            self._exchange,
            self._crawl.begun,
            node.store.ledger(),
            node.facts(),
            trio.current_time(),
        )
        return crawling + exposition(METERS, gathering)
