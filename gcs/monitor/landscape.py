"""The URL tree, who owns what of it, and who is fast for what: as the plan in force has it.

All of it is read off the charter once for each plan, and kept as the bytes of its answer. That takes a while,
so whoever wants one has a thread for it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from gcs.core.holdings import Charter
from gcs.core.rounds.knowledge import Knowledge
from gcs.core.tree import Expansion, Superpage
from gcs.core.urls import HOST, PATH, SCHEME, readable
from gcs.monitor.answers import Body
from gcs.operate.looking import View

MOST_RATES: Final = 200
_HOT: Final = 10


class Landscape:
    """The tree and the rates of one plan."""

    def __init__(self, view: View, charter: Charter | None) -> None:
        self.epoch = charter.epoch if charter else 0
        self._gatherers: list[str] = []
        self._sites: list[dict[str, Any]] = []
        if charter is None or not charter.state:
            self.tree = Body.of(_tree(None, None, {}))
            return
        knowledge = Knowledge.from_bytes(charter.state)
        owners = _owners(knowledge.expansion, charter, view)
        self.tree = Body.of(_tree(charter, knowledge, owners))
        self.tree.pack()
        names = [view.name(each) for each in knowledge.learned.gatherers]
        order = sorted(range(len(names)), key=names.__getitem__)
        self._gatherers = [names[number] for number in order]
        self._sites = _rates(view, charter, knowledge, order)

    def rates(self, most: int) -> dict[str, Any]:
        """Pages per second by site and gatherer, the heaviest sites first."""
        return {"gatherers": self._gatherers, "sites": self._sites[:most]}


Owners = Mapping[int, Mapping[str, float]]
"""By superpage: the share of each owner, by name."""


def _owners(expansion: Expansion, charter: Charter, view: View) -> Owners:
    found: defaultdict[int, dict[str, float]] = defaultdict(dict)
    for start, number in expansion.boundaries():
        found[number][view.name(charter.owners.owner(start))] = 1.0
    for start, owner in charter.owners:
        found[expansion.locate_index(start)][view.name(owner)] = 1.0
    return {number: {name: 1 / len(who) for name in who} for number, who in found.items()}


def _tree(charter: Charter | None, knowledge: Knowledge | None, owners: Owners) -> dict[str, Any]:
    if charter is None or knowledge is None:
        return {"epoch": 0, "at": None, "strategy": "", "superpages": 0, "weight": 0.0, "nodes": []}
    nodes = _nodes(knowledge, owners)
    return {
        "epoch": charter.epoch,
        "at": charter.history[-1].at if charter.history else None,
        "strategy": charter.strategy,
        "superpages": len(knowledge.expansion.superpages),
        "weight": nodes[0]["weight"],
        "nodes": nodes,
    }


def _nodes(knowledge: Knowledge, owners: Owners) -> list[dict[str, Any]]:
    """Nodes and superpages, parents before their children; what is below a node is added up in it.

    A node that is one superpage, with nothing spelt out below it, is that superpage.
    """
    expansion = knowledge.expansion
    pages: defaultdict[int, list[int]] = defaultdict(list)
    for number in range(len(expansion.superpages)):
        pages[id(expansion.node_of(number))].append(number)
    found: list[dict[str, Any]] = []
    above: dict[int, tuple[int, str]] = {}
    """By node: the place of the row above it, and its own step."""
    for node in expansion.nodes():
        parent, step = above.get(id(node), (None, ""))
        hot = sorted(node.hot.counts.items(), key=lambda each: -each[1])[:_HOT]
        row = _row(parent, "node", _label(step), readable(node.prefix))
        row["hot"] = [(_label(token), count) for token, count in hot]
        own = pages[id(node)]
        if not node.children and len(own) == 1:
            found.append(row | {"kind": "superpage"} | _levels(knowledge, owners, own[0]))
            continue
        place = len(found)
        found.append(row)
        above |= {id(child): (place, step) for step, child in node.children.items()}
        for number in own:
            page = expansion.superpages[number]
            row = _row(place, "superpage", _interval(page), str(page))
            found.append(row | _levels(knowledge, owners, number))
    for row in reversed(found):
        if row["parent"] is not None:
            _add(found[row["parent"]], row)
    return [_rounded(row) for row in found]


def _levels(knowledge: Knowledge, owners: Owners, number: int) -> dict[str, Any]:
    weight = float(knowledge.expansion.visits[number])
    return {
        "weight": weight,
        "queued": float(knowledge.queued[number]),
        "done": float(knowledge.done[number]),
        "owners": {name: share * weight for name, share in owners.get(number, {}).items()},
    }


def _add(above: dict[str, Any], row: Mapping[str, Any]) -> None:
    for name in ("weight", "queued", "done"):
        above[name] += row[name]
    for name, weight in row["owners"].items():
        if weight:
            above["owners"][name] = above["owners"].get(name, 0.0) + weight


def _row(parent: int | None, kind: str, label: str, name: str) -> dict[str, Any]:
    levels = {"weight": 0.0, "queued": 0.0, "done": 0.0}
    return {"parent": parent, "kind": kind, "label": label, "name": name, **levels, "owners": {}, "hot": []}


def _label(step: str) -> str:
    return readable(step.lstrip(HOST + PATH)) or "/"


def _interval(page: Superpage) -> str:
    if not page.low and page.high is None:
        return "all others"
    return f"[{_label(page.low) if page.low else ''} … {_label(page.high) if page.high else ''})"


def _rounded(row: dict[str, Any]) -> dict[str, Any]:
    levels = {name: round(row[name], 1) for name in ("weight", "queued", "done")}
    return {**row, **levels, "owners": {name: round(weight, 1) for name, weight in row["owners"].items()}}


def _rates(view: View, charter: Charter, knowledge: Knowledge, order: Sequence[int]) -> list[dict[str, Any]]:
    learned = knowledge.learned
    heaviest = np.argsort(-learned.weight, kind="stable")[:MOST_RATES]
    means = learned.paces.means()
    return [
        {
            "site": _site(learned.names[number]),
            "weight": round(float(learned.weight[number]), 1),
            "owner": view.name(charter.owners.owner(learned.names[number])),
            "pages_per_s": [_rate(float(means[number, column])) for column in order],
        }
        for number in heaviest.tolist()
    ]


def _site(name: str) -> str:
    """What people call a site: a domain, which may have no scheme in its key, or a host."""
    return ".".join(reversed(name.partition(SCHEME)[0].strip(HOST).split(HOST)))


def _rate(pace_s: float) -> float | None:
    return round(1 / pace_s, 3) if math.isfinite(pace_s) and pace_s > 0 else None
