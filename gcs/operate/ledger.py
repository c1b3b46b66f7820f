"""`gcs audit`: whether every URL that was accepted is accounted for.

Each gatherer keeps a ledger in the same commits as its rows, so by itself it always adds up:

    accepted + moved in - moved out - erased = queued + done + dropped

URLs that are in flight are queued until their outcome is on disk. Between each two gatherers

    sent by A to B = received by B from A + in A's outbox for B

where A clears its outbox a moment after B has received, so while URLs move, the two sides are of different
moments. Two audits that say the same are of a crawl that stood still between them, and have to balance.
Gatherers that are gone for good cannot be asked any more: what was sent to them counts for nothing. When B
was thought gone and is back, it may have received, or not, what A withdrew to send it elsewhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import trio

from gcs.board import Board
from gcs.config import Config
from gcs.errors import ExitCode
from gcs.operate.asking import Answer, Answers, order, require_living, table
from gcs.operate.looking import Looker, View

_TRIES: Final = 6
_LOOK_AT_ALL_S: Final = 300.0
Books = Mapping[str, Mapping[str, Any]]
"""What each gatherer has answered to the order `audit`, by id."""


class Verdict(StrEnum):
    """What an audit comes to."""

    BALANCED = "balanced"
    MOVING = "moving"
    UNBALANCED = "unbalanced"
    INCOMPLETE = "incomplete"


@dataclass(frozen=True, slots=True)
class Side:
    """The ledger of one gatherer, added up."""

    gatherer: str
    came: int
    """accepted + moved in - moved out - erased."""
    stands: int
    """queued + done + dropped."""

    @property
    def missing(self) -> int:
        """URLs that came and are nowhere; below 0, that are here and never came."""
        return self.came - self.stands


@dataclass(frozen=True, slots=True)
class Pair:
    """What went from one gatherer to another."""

    sender: str
    receiver: str
    sent: int
    received: int
    waiting: int
    """In the sender's outbox."""
    withdrawn: int
    """Taken out of it, and sent elsewhere, when the receiver was thought to be gone."""

    @property
    def missing(self) -> int:
        """URLs that were sent and are nowhere; below 0, that were received before the outbox was cleared."""
        unknown = self.sent - self.received - self.waiting
        return unknown if unknown < 0 else max(0, unknown - self.withdrawn)


@dataclass(frozen=True, slots=True)
class Audit:
    """All ledgers, added up."""

    sides: list[Side]
    pairs: list[Pair]
    totals: Mapping[str, int]
    failures: Mapping[str, int]
    """How often which reason was met; tries that were repeated count each time."""

    @property
    def is_balanced(self) -> bool:
        """Whether nothing is missing anywhere."""
        return not any(side.missing for side in self.sides) and not any(pair.missing for pair in self.pairs)


_TOTALS: Final = ("accepted", "moved_in", "moved_out", "erased", "queued", "in_flight", "done", "dropped")


def add_up(books: Books) -> Audit:
    """What the ledgers of all gatherers come to."""
    sides = [
        Side(
            each,
            book["accepted"] + book["moved_in"] - book["moved_out"] - book["erased"],
            book["queued"] + book["done"] + book["dropped"],
        )
        for each, book in sorted(books.items())
    ]
    pairs = [
        Pair(
            sender,
            receiver,
            books[sender]["sent"].get(receiver, 0),
            books[receiver]["received"].get(sender, 0),
            books[sender]["outboxes"].get(receiver, 0),
            books[sender]["withdrawn"].get(receiver, 0),
        )
        for sender in sorted(books)
        for receiver in sorted(books)
        if sender != receiver
    ]
    totals = {name: sum(book[name] for book in books.values()) for name in _TOTALS}
    for name in ("lent", "found_again", "fetched_again"):
        totals[name] = sum(book.get(name, 0) for book in books.values())
    totals["in_outboxes"] = sum(sum(book["outboxes"].values()) for book in books.values())
    failures: Counter[str] = Counter()
    for book in books.values():
        failures.update(book["reasons"])
    return Audit(sides, [pair for pair in pairs if pair.sent or pair.received], totals, dict(failures))


def judge(audit: Audit, *, is_stable: bool, is_complete: bool) -> Verdict:
    """What an audit means, knowing whether it was the same twice and whether all have answered."""
    if any(side.missing for side in audit.sides):
        return Verdict.UNBALANCED
    if not is_complete:
        return Verdict.INCOMPLETE
    if audit.is_balanced:
        return Verdict.BALANCED
    return Verdict.UNBALANCED if is_stable else Verdict.MOVING


async def audit(board: Board, config: Config, *, by_reason: bool = False) -> Answer:
    """Ask all gatherers for their ledgers until they balance or stand still, and add them up.

    With `by_reason` every dropped URL is looked at, and counted by why it was.
    """
    view = await Looker(board, config).look_twice()
    require_living(view)
    answers = await order(board, view, "audit", {})
    found, is_stable = add_up(answers.given), False
    for _ in range(_TRIES):
        if found.is_balanced or is_stable:
            break
        # Acknowledgements come with heartbeats.
        await trio.sleep(2 * config.member.heartbeat_s)
        answers = await order(board, view, "audit", {})
        before, found = found, add_up(answers.given)
        is_stable = before == found
    verdict = judge(found, is_stable=is_stable, is_complete=answers.code is ExitCode.OK)
    shown = _shown(view, answers, found, verdict)
    if not by_reason:
        return shown
    reasons = await order(board, view, "dropped", {}, within_s=_LOOK_AT_ALL_S)
    dropped = Counter[str]()
    for each in reasons.given.values():
        dropped.update(each["dropped"])
    lines = [f"dropped, {reason}: {count:,}" for reason, count in dropped.most_common()]
    facts = {**shown.facts, "dropped_by_reason": dict(dropped)}
    return Answer(facts, [*lines, *reasons.complaints, *shown.lines], shown.code or reasons.code)


_CODES: Final = {Verdict.UNBALANCED: ExitCode.UNBALANCED, Verdict.INCOMPLETE: ExitCode.REDIS}


def _shown(view: View, answers: Answers, found: Audit, verdict: Verdict) -> Answer:
    books = {view.name(each): book for each, book in answers.given.items()}
    facts: dict[str, Any] = {
        "verdict": verdict.value,
        "totals": dict(found.totals),
        "failures": dict(found.failures),
        "gatherers": {
            view.name(side.gatherer): {"came": side.came, "stands": side.stands, "missing": side.missing}
            for side in found.sides
        },
        "pairs": [
            {
                "from": view.name(pair.sender),
                "to": view.name(pair.receiver),
                "sent": pair.sent,
                "received": pair.received,
                "outbox": pair.waiting,
                "withdrawn": pair.withdrawn,
                "missing": pair.missing,
            }
            for pair in found.pairs
        ],
        "ledgers": books,
        **answers.facts,
    }
    rows = [[name, *(book[column] for column in _TOTALS)] for name, book in sorted(books.items())]
    rows.append(["all", *(found.totals[column] for column in _TOTALS)])
    pairs = [list(each.values()) for each in facts["pairs"]]
    lines = [
        *table(["gatherer", *(column.replace("_", " ") for column in _TOTALS)], rows),
        "",
        *(
            table(["from", "to", "sent", "received", "outbox", "withdrawn", "missing"], pairs)
            if pairs
            else []
        ),
        *([""] if pairs else []),
        *answers.complaints,
        *_losses(found),
        _sentence(view, found, verdict),
    ]
    return Answer(facts, lines, _CODES.get(verdict, ExitCode.OK))


def _losses(found: Audit) -> list[str]:
    """What gatherers that were lost for good have cost."""
    passed, fetched = found.totals["found_again"], found.totals["fetched_again"]
    if not passed and not fetched:
        return []
    again = f"{passed:,} URLs were passed on again, and {fetched:,} pages it had handed over queued again"
    return [f"After a gatherer was lost, {again}."]


def _sentence(view: View, found: Audit, verdict: Verdict) -> str:
    """The verdict, and what is wrong."""
    if verdict is Verdict.MOVING:
        return "moving: every ledger adds up, but URLs move too fast to compare both sides; pause the crawl."
    if verdict is not Verdict.UNBALANCED:
        return f"{verdict.value}."
    wrong = [f"{view.name(side.gatherer)} {side.missing:+,}" for side in found.sides if side.missing]
    wrong += [
        f"from {view.name(pair.sender)} to {view.name(pair.receiver)} {pair.missing:+,}"
        for pair in found.pairs
        if pair.missing
    ]
    return f"unbalanced: missing URLs: {'; '.join(wrong)}."
