"""`gcs status`, `gcs nodes` and `gcs queues`: what gatherers say of themselves with their heartbeats."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import trio

from gcs.board import Board, Member
from gcs.config import Config
from gcs.core.rulings import ALL, FOR_GOOD, Rulings
from gcs.gatherer.tally import size
from gcs.operate.asking import Answer, counted, table
from gcs.operate.condition import condition
from gcs.operate.looking import Looker, View, fact
from gcs.operate.parts import named
from tuplespace import TupleSpaceError

_EVERY_S: Final = 1.0
_SUMS: Final = ("pages", "bytes", "queued", "under_way", "done", "dropped", "outbox")


async def status(board: Board, config: Config) -> Answer:
    """How the crawl is, on one screen."""
    return _status(await Looker(board, config).look_twice(), config)


async def watch(board: Board, config: Config, *, show: Callable[[Answer], None]) -> Answer:
    """Show the same every second, until Ctrl-C; there is nothing to be told after that."""
    with trio.open_signal_receiver(signal.SIGINT) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_repaint, Looker(board, config), config, show)
            await anext(signals)
            nursery.cancel_scope.cancel()
    return Answer({}, [])


async def _repaint(looker: Looker, config: Config, show: Callable[[Answer], None]) -> None:
    view = await looker.look_twice()
    while True:
        show(_status(view, config))
        await trio.sleep(_EVERY_S)
        try:
            view = await looker.look()
        except TupleSpaceError as error:
            show(Answer({"error": str(error)}, [str(error)]))
            await trio.sleep(_EVERY_S)


def _status(view: View, config: Config) -> Answer:
    found = condition(view, forget_after_s=config.member.forget_after_s)
    totals: dict[str, Any] = {name: sum(int(fact(each, name)) for each in view.expected) for name in _SUMS}
    totals["pages_per_s"] = round(sum(_rate(each) for each in view.present), 3)
    facts = {
        "crawl": config.crawl.name,
        "state": found.state.value,
        "why": found.why,
        "totals": totals,
        "plan": _plan(view),
        "rulings": _rulings(view.rulings),
        "gatherers": [_gatherer(view, each) for each in view.members.values()],
    }
    lines = [
        f"crawl {config.crawl.name}",
        str(found),
        "",
        f"{totals['pages']:,} pages, {size(totals['bytes'])}, {totals['pages_per_s']:,.1f} pages/s",
        _counts_line(totals),
        _plan_line(view),
        *_ruling_lines(view.rulings),
        "",
        *_nodes_table(view),
    ]
    return Answer(facts, lines)


def _counts_line(totals: Mapping[str, int]) -> str:
    return (
        f"{totals['queued']:,} queued, {totals['under_way']:,} of them under way; {totals['done']:,} done, "
        f"{totals['dropped']:,} dropped; {totals['outbox']:,} on their way to other gatherers"
    )


async def nodes(board: Board, config: Config) -> Answer:
    """All gatherers, with what they do."""
    view = await Looker(board, config).look_twice()
    facts = {"gatherers": [_gatherer(view, each) for each in view.members.values()]}
    return Answer(facts, _nodes_table(view))


async def queues(board: Board, config: Config) -> Answer:
    """What waits at each gatherer, and for whom."""
    view = await Looker(board, config).look_twice()
    facts = [
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
    return Answer({"queues": facts}, table(["gatherer", "queued", "under way", "outbox", "passed"], rows))


def _gatherer(view: View, member: Member) -> dict[str, Any]:
    pulse = member.pulse
    return {
        "name": pulse.name,
        "id": member.id,
        "standing": view.standing(member),
        "heard_s_ago": round(view.silence_s(member), 1),
        "epoch": pulse.epoch,
        "rulings": pulse.rulings,
        "quiet": pulse.quiet,
        "leaving": {view.name(to): count for to, count in pulse.leaving.items()},
        "coming": {view.name(sender): count for sender, count in pulse.coming.items()},
        **pulse.facts,
    }


def _nodes_table(view: View) -> list[str]:
    head = ["gatherer", "id", "standing", "plan", "pages", "pages/s", "queued", "outbox", "leaving", "coming"]
    rows = [
        [
            each.pulse.name,
            each.id,
            view.standing(each),
            _adopted(view, each),
            fact(each, "pages"),
            _rate(each),
            fact(each, "queued"),
            fact(each, "outbox"),
            sum(each.pulse.leaving.values()),
            sum(each.pulse.coming.values()),
            float(fact(each, "remaining_s")),
        ]
        for each in sorted(view.members.values(), key=lambda member: (member.pulse.name, member.id))
    ]
    return table([*head, "T s"], rows) if rows else ["no gatherer has ever been there"]


def _adopted(view: View, member: Member) -> str:
    """Whether a gatherer follows the plan in force; epochs are too long to be compared by eye."""
    if view.charter is None or not member.pulse.epoch:
        return "none"
    return "newest" if member.pulse.epoch == view.charter.epoch else "older"


def _rate(member: Member) -> float:
    """Pages per second, while it works."""
    return 0.0 if member.pulse.quiet else float(fact(member, "rate"))


def _plan(view: View) -> dict[str, Any] | None:
    charter = view.charter
    if charter is None:
        return None
    return {
        "epoch": charter.epoch,
        "reason": charter.reason,
        "strategy": charter.strategy,
        "ranges": len(charter.owners),
        "members": dict(charter.members),
        "forecast": dict(charter.forecast),
    }


def _plan_line(view: View) -> str:
    charter = view.charter
    if charter is None:
        return "no plan yet"
    return (
        f"plan {charter.epoch}, because of {charter.reason or 'nothing said'}; strategy {charter.strategy}, "
        f"{counted(len(charter.members), 'gatherer')}, {counted(len(charter.owners), 'range')}"
    )


def _rulings(rulings: Rulings) -> dict[str, Any]:
    return {
        "epoch": rulings.epoch,
        "paused": sorted(rulings.paused),
        "resting": {named(prefix): until or None for prefix, until in sorted(rulings.resting.items())},
        "barred": sorted(map(named, rulings.barred)),
    }


def _ruling_lines(rulings: Rulings) -> list[str]:
    """What is ruled, a line each."""
    return [
        *("the crawl is paused" if who == ALL else f"{who} is paused" for who in sorted(rulings.paused)),
        *(f"{named(prefix)} {_rest(until)}" for prefix, until in sorted(rulings.resting.items())),
        *(f"{named(prefix)} is blocked" for prefix in sorted(rulings.barred)),
    ]


def _rest(until: float) -> str:
    if until == FOR_GOOD:
        return "is paused"
    return f"is blocked until {datetime.fromtimestamp(until, UTC):%Y-%m-%d %H:%M} UTC"
