"""`gcs search` in a crawl of gatherers: each one looks through what it has fetched, the best are shown."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final

from gcs.board import Board
from gcs.config import Config
from gcs.index import presenting
from gcs.index.results import Result, Results, merged, understood, without_stale
from gcs.operate.asking import Answer, Answers, order, require_living
from gcs.operate.looking import Looker, View

WITHIN_S: Final = 10.0
"""How long gatherers have to answer; those that take longer are named."""


async def search(
    board: Board, config: Config, *, text: str, limit: int, offset: int, view: View | None = None
) -> Answer:
    """The best pages of a query; raises UsageError. Who has just looked at the crawl gives its view."""
    understood(text)
    view = view or await Looker(board, config).look_twice()
    require_living(view)
    arguments = {"query": text, "count": offset + limit}
    asked = await order(board, view, "search", arguments, within_s=WITHIN_S)
    results = merged(_heard(each) for each in asked.given.values())
    results = Results(results.total, results.pages, results.found[: offset + limit])
    results = await _fresh(board, view, results, asked)
    page = Results(results.total, results.pages, results.found[offset:])
    return presenting.answer(text, page, offset, limit, asked)


def _heard(answer: Mapping[str, Any]) -> Results:
    """What one gatherer has found."""
    return Results(answer["total"], answer["pages"], [Result(*each) for each in answer["found"]])


async def _fresh(board: Board, view: View, results: Results, asked: Answers) -> Results:
    """The same without what the owner of a page has fetched anew: it is asked about what others have said."""
    said = {each[-1]: who for who, answer in asked.given.items() for each in answer["found"]}
    by_owner: defaultdict[str, list[str]] = defaultdict(list)
    if view.charter is not None:
        for each in results.found:
            owner = view.charter.owners.owner(each.key)
            if owner != said.get(each.key) and owner in asked.given:
                by_owner[owner].append(each.key)
    newest: dict[str, int] = {}
    for owner, keys in by_owner.items():
        answers = await order(board, view, "newest", {"keys": keys}, within_s=WITHIN_S, to=[owner])
        for answer in answers.given.values():
            newest |= answer["newest"]
    return without_stale(results, newest)
