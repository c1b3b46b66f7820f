"""`gcs superpages` and `gcs host`: who owns which part of the web."""

from __future__ import annotations

from typing import cast

from gcs.board import Board
from gcs.config import Config
from gcs.core.holdings import Charter
from gcs.core.rounds.knowledge import Knowledge
from gcs.core.urls import part, readable
from gcs.errors import UsageError
from gcs.operate.asking import Answer, counted, order, table
from gcs.operate.facts import HostFacts, KnownHost, RangeFacts, SuperpageFacts, SuperpagesFacts
from gcs.operate.looking import Looker, View
from gcs.operate.parts import host_prefix


def _charter(view: View) -> Charter:
    if view.charter is None:
        raise UsageError("there is no plan yet: gatherers make the first one when they come together.")
    return view.charter


async def superpages(board: Board, config: Config, *, top: int) -> Answer:
    """The ranges of the plan, and the heaviest superpages, with their owners."""
    return superpages_in(await Looker(board, config).look(), top)


def superpages_in(view: View, top: int) -> Answer:
    """The same of what was seen; of thousands this takes a while."""
    charter = _charter(view)
    ranges: list[RangeFacts] = [
        {"from": readable(start), "owner": view.name(owner)} for start, owner in charter.owners
    ]
    pages = superpages_of(view, charter)
    facts: SuperpagesFacts = {
        "epoch": charter.epoch,
        "ranges": ranges[:top],
        "ranges_in_all": len(ranges),
        "superpages": pages[:top],
        "superpages_in_all": len(pages),
    }
    heaviest = [
        [each["superpage"], ", ".join(each["owners"]), each["weight"], each["queued"], each["done"]]
        for each in pages[:top]
    ]
    lines = [
        *table(["from", "owner"], [[each["from"], each["owner"]] for each in ranges[:top]]),
        *_more(len(ranges) - top, "range"),
        "",
        *table(["superpage", "owner", "weight", "queued", "done"], heaviest),
        *_more(len(pages) - top, "superpage"),
    ]
    return Answer(facts, lines)


def _more(count: int, what: str) -> list[str]:
    return [f"and {counted(count, f'more {what}')}; see --top"] if count > 0 else []


def superpages_of(view: View, charter: Charter) -> list[SuperpageFacts]:
    """All superpages as the leader knew them, the heaviest first."""
    knowledge = Knowledge.from_bytes(charter.state)
    expansion = knowledge.expansion
    owners: list[set[str]] = [set() for _ in expansion.superpages]
    for start, number in expansion.boundaries():
        owners[number].add(view.name(charter.owners.owner(start)))
    for start, owner in charter.owners:
        owners[expansion.locate_index(start)].add(view.name(owner))
    found: list[SuperpageFacts] = [
        {
            "superpage": str(page),
            "owners": sorted(owners[number]),
            "weight": round(expansion.visits[number]),
            "queued": round(knowledge.queued[number]),
            "done": round(knowledge.done[number]),
        }
        for number, page in enumerate(expansion.superpages)
    ]
    return sorted(found, key=lambda each: -each["weight"])


async def host(board: Board, config: Config, *, name: str) -> Answer:
    """Who owns a host, and what each gatherer that has rows of it says."""
    prefix = host_prefix(name)
    view = await Looker(board, config).look_twice()
    charter = _charter(view)
    low, high = part(prefix)
    inside = [start for start in charter.owners.starts if low < start < high]
    owners = list(dict.fromkeys(view.name(charter.owners.owner(start)) for start in (low, *inside)))
    answers = await order(board, view, "host", {"prefix": prefix})
    rows = [
        {"gatherer": view.name(each), **row}
        for each, answer in sorted(answers.given.items(), key=lambda item: view.name(item[0]))
        for row in answer["hosts"]
    ]
    columns = ["gatherer", "host", "queued", "done", "dropped", "passed", "extent"]
    lines = [f"{name} belongs to {' and '.join(owners)}.", *answers.complaints]
    if rows:
        shown = [[row[column] for column in columns] for row in rows]
        lines += ["", *table([*columns[:-1], "may be fetched"], shown)]
    else:
        lines.append("No gatherer has heard of it.")
    known = cast("list[KnownHost]", rows)
    facts: HostFacts = {"host": name, "owners": owners, "known": known, **answers.facts}
    return Answer(facts, lines, answers.code)
