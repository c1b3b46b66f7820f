"""`gcs status`, `gcs nodes` and `gcs queues`: what gatherers say of themselves with their heartbeats."""

from __future__ import annotations

from typing import Final

from gcs.board import Board, Member
from gcs.config import Config
from gcs.helper import desks
from gcs.operate.asking import Answer, table
from gcs.operate.facts import NodesFacts, QueueFacts, QueuesFacts
from gcs.operate.looking import Looker, View, fact
from gcs.operate.overview import Overview, Watcher, gatherer_facts, plan_line, ruling_lines

_PLANS: Final = 3


async def status(board: Board, config: Config) -> Answer:
    """How the crawl is, on one screen."""
    async with desks.opened(config, board.client) as open_desk:
        seen = await Watcher(board, config, open_desk).look_twice()
    return told(seen)


def told(seen: Overview) -> Answer:
    """The same of what was seen."""
    return Answer(seen.facts(), _lines(seen))


def _lines(seen: Overview) -> list[str]:
    lines = [f"crawl {seen.crawl}", str(seen.condition), *(f"! {each}" for each in seen.alarms), ""]
    lines += [
        *seen.head(),
        plan_line(seen.view),
        *ruling_lines(seen.view.rulings),
        "",
        *_nodes_table(seen.view),
    ]
    for section in (seen.helper_rows(), seen.plan_rows()[:_PLANS]):
        lines += ["", *section] if section else []
    return lines


async def nodes(board: Board, config: Config) -> Answer:
    """All gatherers, with what they do."""
    return nodes_of(await Looker(board, config).look_twice())


def nodes_of(view: View) -> Answer:
    """The same of what was seen."""
    facts: NodesFacts = {"gatherers": [gatherer_facts(view, each) for each in view.members.values()]}
    return Answer(facts, _nodes_table(view))


async def queues(board: Board, config: Config) -> Answer:
    """What waits at each gatherer, and for whom."""
    return queues_of(await Looker(board, config).look_twice())


def queues_of(view: View) -> Answer:
    """The same of what was seen."""
    facts: list[QueueFacts] = [
        {
            "name": each.pulse.name,
            "id": each.id,
            "queued": fact(each, "queued"),
            "under_way": fact(each, "under_way"),
            "outbox": {view.name(to): count for to, count in sorted(each.pulse.pending.items())},
            "passed": fact(each, "passed"),
        }
        for each in view.expected
    ]
    rows = [
        [
            each["name"],
            each["queued"],
            each["under_way"],
            ", ".join(f"{to} {count:,}" for to, count in each["outbox"].items()),
            each["passed"],
        ]
        for each in facts
    ]
    head = ["gatherer", "queued", "under way", "outbox", "passed"]
    said: QueuesFacts = {"queues": facts}
    return Answer(said, table(head, rows) if rows else ["no gatherer is there"])


def _nodes_table(view: View) -> list[str]:
    head = ["gatherer", "id", "standing", "plan", "pages", "pages/s", "queued", "outbox", "leaving", "coming"]
    rows = [
        [
            each.pulse.name,
            each.id,
            view.standing(each),
            _adopted(view, each),
            fact(each, "pages"),
            0.0 if each.pulse.quiet else float(fact(each, "rate")),
            fact(each, "queued"),
            fact(each, "outbox"),
            sum(each.pulse.leaving.values()),
            sum(each.pulse.coming.values()),
            float(fact(each, "remaining_s")),
            f"{float(fact(each, 'overhead_percent')):.3f}",
        ]
        for each in sorted(view.members.values(), key=lambda member: (member.pulse.name, member.id))
    ]
    return table([*head, "T s", "C %"], rows) if rows else ["no gatherer has ever been there"]


def _adopted(view: View, member: Member) -> str:
    """Whether a gatherer follows the plan in force; epochs are too long to be compared by eye."""
    if view.charter is None or not member.pulse.epoch:
        return "none"
    return "newest" if member.pulse.epoch == view.charter.epoch else "older"
