"""Whoever watches a run while it goes on: what must be so at every moment, and at some.

- The epochs that a gatherer follows only grow, over all its lives; so do the tokens of elections, and what is
  put up on the board, unless Redis has lost what stood there.
- Every plan says of every key who owns it, once.
- No key is held by two that may fetch it.
- The end is declared once, and when it is, nothing is queued, under way, lent or on its way anywhere.
- What waits in Redis from one gatherer for another stays within its bound, and so does what a gatherer keeps
  in memory. While much waits on its disk for others, it begins no fetches.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import trio

from gcs.config import Config
from gcs.core.holdings import Charter, Standing
from gcs.gatherer.node import Node
from gcs.simulate.cluster.bounds import Sizes, exceeded
from gcs.simulate.cluster.machines import GathererMachine
from gcs.simulate.cluster.network import Redis
from gcs.simulate.cluster.trace import BROKEN, Trace
from gcs.simulate.cluster.visits import LATE_S, has_visits, is_in_round, level_of, overdue
from tuplespace import Event

_TIMES: Final = 4
"""What waits in Redis for one that does not come may be sent again once, until that is known."""
_DUE_S: Final = 15.0
"""A page may become due while it is proven that none is; or its gatherer may be allowed one more visit."""
_PACKED_AT: Final = 6
_NEEDED: Final = frozenset({"join", "drain", "lost"})
"""Reasons for a plan that may cross with the end: somebody has come, was told to leave, or is gone."""


class Witness:
    """Watches one run."""

    def __init__(
        self,
        config: Config,
        sizes: Sizes,
        redis: Redis,
        gatherers: Sequence[GathererMachine],
        trace: Trace,
    ) -> None:
        self._config, self._sizes, self._redis, self._gatherers = config, sizes, redis, gatherers
        self._trace = trace
        self.found: list[str] = []
        """Promises that were broken."""
        self._adopted: dict[str, int] = {}
        self._charters: set[int] = set()
        self._up: dict[str, tuple[int, float]] = {}
        """By what is put up: its highest epoch, and when that was."""
        self._levels: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
        """By gatherer: the levels of its timetable, each with its time."""
        self._due_from: dict[str, float] = {}
        """By gatherer: since when it was found to have a page to visit each time somebody looked."""
        self._is_declared = False
        redis.server.bags[f"{config.crawl.name}:board"].listeners.append(self._heard)

    def disturbed(self) -> None:
        """Something has happened after which the end may have to be proven again."""
        self._is_declared = False

    def _break(self, what: str) -> None:
        self.found.append(f"at {trio.current_time():.3f}: {what}")
        self._trace.note(f"{BROKEN} {what}")

    # At moments

    def published(self, said: Mapping[str, Any]) -> None:
        """There is a new plan; only one that is needed may be made after the end, and makes it begin anew."""
        if not _NEEDED.isdisjoint(str(said["reason"]).split(", ")):
            self.disturbed()

    def adopted(self, said: Mapping[str, Any]) -> None:
        """A gatherer follows another plan."""
        name, epoch = str(said["gatherer"]), int(said["epoch"])
        before = self._adopted.get(name, 0)
        if epoch <= before:
            self._break(f"{name} follows the plan of epoch {epoch} after that of {before}")
        self._adopted[name] = epoch

    def _heard(self, event: Event) -> None:
        """Something was written on the board."""
        if event.kind != "out" or event.fields[0] != "now":
            return
        _, what, epoch, _ = event.fields
        assert isinstance(what, str)
        assert isinstance(epoch, int)
        highest, at = self._up.get(what, (0, 0.0))
        if epoch < highest and self._redis.forgot_at < at:  # what is put up when it dies is forgotten
            self._break(f"{what} of epoch {epoch} was put up after that of {highest}")
        self._up[what] = max((epoch, trio.current_time()), (highest, at))

    def declared(self, said: Mapping[str, Any]) -> None:
        """Somebody declares the end."""
        by = next(each for each in self._gatherers if each.name == said["gatherer"])
        assert by.gatherer is not None
        if self._is_declared:
            self._break(f"{by.name} declares the end, which was declared before")
        # With a policy it is over again and again, until the next page is due.
        self._is_declared = self._config.revisit.policy == "none"
        charter = by.gatherer.node.charter
        departed = frozenset(charter.departed) if charter else frozenset()
        for machine in self._gatherers:
            if machine.is_lost or not machine.starts or machine.identity in departed:
                continue
            left = left_to_do(machine)
            if left:
                self._break(f"{by.name} declares the end, but {machine.name} has {left}")
            elif (due := self.overdue(machine, _DUE_S)) and self._should_have_visited(machine):
                self._break(f"{by.name} declares the end, but at {machine.name} {len(due)} pages are due")

    # All the time

    def look(self) -> None:
        """See that all is as it must be."""
        running = [each for each in self._gatherers if each.is_running and each.gatherer is not None]
        nodes = [each.gatherer.node for each in running if each.gatherer is not None]
        for node in nodes:
            if node.charter is not None and node.epoch not in self._charters:
                self._charters.add(node.epoch)
                self._check_plan(node.charter)
        self._check_holdings([node for node in nodes if node.may_begin()])
        self._check_inboxes()
        for machine in running:
            self._check_memory(machine)
            self._check_outboxes(machine)
        for machine in running:
            if (level := level_of(machine)) is not None:
                self._levels[machine.name].append((trio.current_time(), level))
        due = [each.name for each in running if has_visits(each)]
        self._due_from = {name: self._due_from.get(name, trio.current_time()) for name in due}

    def overdue(self, machine: GathererMachine, late_s: float = LATE_S) -> list[str]:
        """Pages that a gatherer should have visited long ago."""
        return overdue(machine, self._levels[machine.name], late_s)

    def _should_have_visited(self, machine: GathererMachine) -> bool:
        """Whether a gatherer had pages to visit for so long that it cannot have said that it has none."""
        due_from = self._due_from.get(machine.name, math.inf)
        return is_in_round(machine) or trio.current_time() > due_from + _DUE_S

    def _check_plan(self, charter: Charter) -> None:
        pieces = list(charter.owners)
        starts = [start for start, _ in pieces]
        if not starts or starts[0] != "" or any(a >= b for a, b in pairwise(starts)):
            self._break(f"the plan of epoch {charter.epoch} does not cover every key once: {starts}")
        strangers = {owner for _, owner in pieces} - charter.members.keys()
        if strangers:
            self._break(f"by the plan of epoch {charter.epoch} {strangers} own something, who are no members")

    def _check_holdings(self, nodes: Sequence[Node]) -> None:
        held = sorted(
            (
                (piece.start, piece.end, node.name)
                for node in nodes
                for piece in node.holdings.pieces(Standing.HELD)
            ),
            key=lambda each: (each[0], each[2]),
        )
        for (start, end, one), (begins, _, other) in pairwise(held):
            if one != other and (end is None or begins < end):
                self._break(f"{one} and {other} both hold what is between {start!r} and {end!r}")
                return

    def _check_memory(self, machine: GathererMachine) -> None:
        assert machine.gatherer is not None
        for what in exceeded(machine.gatherer, self._sizes):
            self._break(f"{machine.name}: {what}")

    def _check_outboxes(self, machine: GathererMachine) -> None:
        assert machine.gatherer is not None
        node = machine.gatherer.node
        waiting = sum(box.bytes for box in node.store.outboxes().values())
        if waiting > self._config.exchange.outbox_bytes and node.may_begin():
            self._break(f"{machine.name} may fetch though {waiting} bytes wait for others")

    def _check_inboxes(self) -> None:
        most = _TIMES * max(self._config.exchange.in_redis_bytes, self._config.exchange.batch_bytes)
        for name, bag in self._redis.server.bags.items():
            if ":inbox:" not in name or not bag.tuples:
                continue
            waiting: Counter[str] = Counter()
            for stored in bag.tuples.values():
                _, sender, *_ = stored.item.fields
                packed = stored.item.fields[_PACKED_AT]
                assert isinstance(packed, bytes)
                waiting[str(sender)] += len(packed)
            for sender, size in waiting.items():
                if size > most:
                    self._break(f"{size} bytes of {sender} wait in {name}, and {most} are allowed")


def left_to_do(machine: GathererMachine) -> str:
    """What a gatherer has left to do; "" for nothing."""
    with machine.opened() as store:
        queued, outboxes = store.counts().queued, store.outboxes()
    waiting = sum(box.entries for box in outboxes.values() if box.next > box.first)
    crawl = machine.gatherer.crawl if machine.gatherer is not None and machine.is_running else None
    # With a policy a page may become due, and be visited, at any moment.
    is_standing = crawl is not None and crawl.revisiting is not None and crawl.revisiting.is_endless
    under_way = len(crawl.under_way) if crawl is not None and not is_standing else 0
    found = {"queued": queued, "in outboxes": waiting, "under way": under_way}
    return ", ".join(f"{count} {what}" for what, count in found.items() if count)
