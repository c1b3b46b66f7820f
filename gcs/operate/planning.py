"""`gcs rebalance`: a new plan on request, or only a look at what it would be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import trio

from gcs.board import Board
from gcs.config import Config
from gcs.core.reasons import OPERATOR
from gcs.core.urls import readable
from gcs.errors import ExitCode
from gcs.operate.asking import Answer, Tell, counted, order, require_living, table
from gcs.operate.facts import Foreseen, MoveFacts, RebalancedFacts
from gcs.operate.looking import Looker, View

_POLL_S: Final = 0.25
_MOST_SHOWN: Final = 20
Move = tuple[str, str | None, str, str]
"""A range [from, to), its holder and its owner."""


async def rebalance(
    board: Board, config: Config, *, reason: str, method: str, within_s: float, tell: Tell
) -> Answer:
    """Ask for a new plan, wait until all follow it, and say what moves."""
    looker = Looker(board, config)
    view = await looker.look_twice()
    require_living(view)
    before = view.charter.epoch if view.charter else 0
    await board.ask_for_plan(OPERATOR, reason, method=method)
    with trio.move_on_after(within_s):
        while not _is_adopted(view, before):
            tell(_progress(view, before))
            await trio.sleep(_POLL_S)
            view = await looker.look()
    charter = view.charter
    if charter is None or charter.epoch <= before:
        sentence = f"No new plan was made within {within_s:.0f} s; `gcs status` says what it waits for."
        nothing: RebalancedFacts = {"epoch": before, "adopted": False}
        return Answer(nothing, [sentence], ExitCode.REDIS)
    late = [each.pulse.name for each in view.present if each.pulse.epoch < charter.epoch]
    moves = charter.sources.changes(charter.owners)
    facts: RebalancedFacts = {
        "epoch": charter.epoch,
        "reason": charter.reason,
        "adopted": not late,
        "late": late,
        **_forecast(view, charter.members, charter.forecast),
        "moves": _shown(view, moves),
    }
    who = f"followed by all but {', '.join(late)}" if late else "followed by all"
    lines = [f"Plan {charter.epoch} is {who}.", *_lines(view, facts, moves, method)]
    return Answer(facts, lines, ExitCode.REDIS if late else ExitCode.OK)


def _is_adopted(view: View, before: int) -> bool:
    epoch = view.charter.epoch if view.charter else 0
    return epoch > before and all(each.pulse.epoch >= epoch for each in view.present)


def _progress(view: View, before: int) -> str:
    if view.charter is None or view.charter.epoch <= before:
        return "waiting for a new plan"
    late = [each.pulse.name for each in view.present if each.pulse.epoch < view.charter.epoch]
    return f"waiting for {', '.join(late)} to follow it"


async def foresee(board: Board, config: Config, *, method: str, within_s: float) -> Answer:
    """Ask one gatherer what a new plan would be."""
    view = await Looker(board, config).look_twice()
    require_living(view)
    answers = await order(board, view, "plan", {"method": method}, within_s=within_s, to=[view.present[0].id])
    if answers.complaints:
        return Answer(answers.facts, answers.complaints, answers.code)
    said = next(iter(answers.given.values()))
    moves: list[Move] = [(low, high, holder, owner) for low, high, holder, owner in said["moves"]]
    facts: Foreseen = {**_forecast(view, said["members"], said["forecast"]), "moves": _shown(view, moves)}
    return Answer(facts, ["Nothing was changed.", *_lines(view, facts, moves, method)])


def _forecast(view: View, members: Mapping[str, str], forecast: Mapping[str, Any]) -> Foreseen:
    """What a plan promises, with names."""
    times = {members.get(each, view.name(each)): seconds for each, seconds in forecast["times"].items()}
    longest, bound = max(times.values(), default=0.0), float(forecast["bound"])
    return {
        "remaining_s": times,
        "bound_s": bound,
        "over_bound": longest / bound if bound > 0 else None,
        "urls_moved": forecast["moved"],
        "links_cut": forecast["cut_links"],
        "method": forecast["method"],
        "superpages": forecast["superpages"],
    }


def _shown(view: View, moves: Iterable[Move]) -> list[MoveFacts]:
    return [
        {"from": readable(low), "holder": view.name(holder) or None, "owner": view.name(owner)}
        for low, _, holder, owner in moves
    ]


def _lines(view: View, facts: Foreseen, moves: Sequence[Move], asked: str) -> list[str]:
    by_pair = Counter((view.name(holder) or "nobody", view.name(owner)) for _, _, holder, owner in moves)
    rows = [[*pair, count] for pair, count in sorted(by_pair.items())]
    over, method = facts["over_bound"], facts["method"]
    lines = [
        f"Changes hands: {counted(len(moves), 'range')} with about {facts['urls_moved']:,.0f} URLs.",
        *(table(["from", "to", "ranges"], rows[:_MOST_SHOWN]) if rows else []),
        "",
        *table(["gatherer", "T s"], sorted(facts["remaining_s"].items())),
        f"Largest T: {'not known yet' if over is None else f'{over:.2f} times the lower bound'}.",
        f"Links cut: {facts['links_cut']:,.0f}, superpages: {facts['superpages']:,}, by {method}.",
    ]
    if asked == "II" and method != "II":
        lines.append("Partition II needs superpages whose links, and what those cost, are known.")
    return lines
