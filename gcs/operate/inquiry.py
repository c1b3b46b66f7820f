"""`gcs why` in a crawl of gatherers: its owner, and all others, are asked about a URL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import trio

from gcs.board import Board
from gcs.commandline import fact_lines
from gcs.config import Config
from gcs.core.rounds.knowledge import Knowledge
from gcs.gatherer.seeds import target_of
from gcs.operate.asking import Answer, Answers, order, require_living
from gcs.operate.looking import Looker, View, fact
from gcs.settings import duration
from gcs.summary.names import container_of

Told = Mapping[str, Any]
"""What one gatherer says, see `gcs.gatherer.testimony`."""


async def why(board: Board, config: Config, *, text: str) -> Answer:
    """Where a URL stands, who has it, and what it waits for; raises UsageError."""
    target = target_of(config, text)
    view = await Looker(board, config).look_twice()
    require_living(view)
    answers = await order(board, view, "why", {"url": target.url})
    owner = view.charter.owners.owner(target.key) if view.charter else ""
    best = _best(answers, owner)
    is_known = any(told["row"] for told in answers.given.values())
    if not is_known and (container := container_of(target.url)):
        whole = await why(board, config, text=container)
        inside = {**whole.facts, "url": target.url, "member_of": container}
        return Answer(inside, [*fact_lines(inside), *answers.complaints], whole.code)
    facts: dict[str, Any] = {"url": target.url}
    if best:
        told = answers.given[best]
        turn = await _turn(board, view, best, told)
        row = told["row"] or {"state": "unknown"}
        facts |= {"state": row["state"], "next": next_step(view, best, told, turn)}
        facts |= {name: value for name, value in row.items() if name != "state"}
        # Thousands of superpages take a while to read.
        superpage = await trio.to_thread.run_sync(_superpage, view, target.key)
        facts |= {"gatherer": view.name(owner) or None, "superpage": superpage}
        facts |= _surroundings(told, turn)
        facts |= {"revisit": told["revisit"]} if told.get("revisit") else {}
    facts["passed_on_by"] = sorted(
        view.name(each)
        for each, told in answers.given.items()
        if told["row"] and told["row"]["state"] == "passed"
    )
    lines = [*fact_lines(facts), *answers.complaints]
    return Answer({**facts, **answers.facts}, lines, answers.code)


def _best(answers: Answers, owner: str) -> str:
    """Who knows most: the one where it has come furthest, the owner if that is the same."""
    given = answers.given
    return max(given, key=lambda each: (given[each]["order"], each == owner), default="")


async def _turn(board: Board, view: View, asker: str, told: Told) -> str:
    """Who has the turn that a host waits for: a name, "nobody", or "" if it waits for none."""
    lines = [each[0] for each in _lines(told) if each[2] and not each[3]]
    if not lines:
        return ""
    others = [each.id for each in view.present if each.id != asker]
    answers = await order(board, view, "turns", {"lines": lines}, to=others)
    return next((view.name(each) for each, said in answers.given.items() if said["open"]), "nobody")


def _lines(told: Told) -> Sequence[Sequence[Any]]:
    """Names and addresses: each with its rest, whether it is shared, and whether the teller has its turn."""
    lines: Sequence[Sequence[Any]] = told["host"]["lines"] if told["host"] else ()
    return lines


def next_step(view: View, teller: str, told: Told, turn: str) -> str:
    """What becomes of it next, and what it waits for."""
    row, name = told["row"], view.name(teller)
    if row is None:
        return "nothing: no page that was fetched has named it" if _is_wanted(told) else told["scope"]
    if row["state"] == "done" and (visits := told.get("revisit", {})).get("next_visit"):
        return f"it is visited again from {visits['next_visit']} on: {visits['because']}"
    if row["state"] != "queued":
        return "nothing" if row["state"] != "passed" else "another gatherer is to fetch it"
    if told["under_way"]:
        return f"it is lent to {told['lent_to']}" if told["lent_to"] else f"{name} fetches it now"
    return _hindrance(view, teller, told) or _wait(told, turn)


def _hindrance(view: View, teller: str, told: Told) -> str:
    """What keeps it from being fetched at all at the moment; "" if nothing does."""
    member, name = view.members[teller], view.name(teller)
    hindrances = [
        (
            told["barred"],
            "it is dropped when its turn comes: an operator has blocked it; `gcs unblock` ends that",
        ),
        (
            told["range"] != "held",
            f"it waits: its range is {told['range']} at {name}, and has to arrive first",
        ),
        (told["paused"], "it waits: an operator has paused the crawl or this gatherer; `gcs resume` goes on"),
        (told["rests"], "it waits: an operator has paused or blocked it; `gcs status` says until when"),
        (fact(member, "waits_for_room"), f"it waits: {name} has no room on its disk"),
        (fact(member, "outbox_is_full"), f"it waits: the outbox of {name} is full"),
    ]
    return next((why for holds, why in hindrances if holds), "")


def _wait(told: Told, turn: str) -> str:
    """What it waits for when nothing is in its way."""
    if told["retry_s"] > 0:
        return f"it is tried again in {duration(round(told['retry_s']))}"
    if told["aside_s"] > 0:
        return f"its host is asked again in {duration(round(told['aside_s']))}"
    behind = f"; {told['host_queued']:,} are queued at its host"
    rest_s = _rest_s(told)
    if turn:
        return f"its host waits for its turn, which {turn} has{behind}"
    if rest_s > 0:
        return f"its host may be asked in {rest_s:.1f} s{behind}"
    return f"its host may be asked now{behind}"


def _rest_s(told: Told) -> float:
    """How long the host rests, or a name or an address of it."""
    return float(max([told["host"]["rest_s"] if told["host"] else 0.0, *(each[1] for each in _lines(told))]))


def _is_wanted(told: Told) -> bool:
    return bool(told["scope"].startswith("no rule is against it"))


def _surroundings(told: Told, turn: str) -> dict[str, Any]:
    host = told["host"]
    ruled = {"paused": told["paused"], "resting": told["rests"], "blocked": told["barred"]}
    return {
        "range": told["range"],
        "scope": told["scope"],
        "robots": told["robots"],
        "rulings": [name for name, holds in ruled.items() if holds],
        "lent_to": told["lent_to"],
        "host_queued": told["host_queued"],
        "host_rests_s": round(max(host["rest_s"], *(each[1] for each in _lines(told)), 0.0), 1)
        if host
        else 0.0,
        "distance_s": round(host["distance_s"], 1) if host else None,
        "crawl_delay_s": host["crawl_delay_s"] or None if host else None,
        "failed_in_a_row": host["failures"] if host else 0,
        "turn": turn,
    }


def _superpage(view: View, key: str) -> str | None:
    if view.charter is None or not view.charter.state:
        return None
    return str(Knowledge.from_bytes(view.charter.state).expansion.locate(key))
