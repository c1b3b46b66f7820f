"""What can be changed: the same questions that the command line asks, for those whose role is to operate."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import Any, Final

import trio
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from gcs.monitor import requests
from gcs.monitor.answers import told
from gcs.monitor.endpoints import Endpoint
from gcs.monitor.gate import SESSION, Refused
from gcs.monitor.keys import OPERATOR
from gcs.monitor.shapes.crawl import Told
from gcs.monitor.watch import Watch
from gcs.operate import planning, ruling, work
from gcs.operate.asking import Question
from gcs.operate.facts import DrainFacts, Foreseen, RebalancedFacts, RuledFacts, SeededFacts

AT_ONCE: Final = 4
"""Changes of one kind that are under way at once."""
WHO: Final = "somebody at the web page"
PROGRAM: Final = "a program with the token"
_LONGEST: Final = 100


class Control:
    """The changes."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._ruling, self._planning = (trio.CapacityLimiter(AT_ONCE) for _ in range(2))
        """Plans take minutes, also dry ones: a pause must not find all places taken by them."""

    def endpoints(self) -> list[Endpoint]:
        """What can be changed."""
        rule, plan = partial(self._change, self._ruling), partial(self._change, self._planning)
        return [
            rule("pause", "Begin no more fetches", requests.Pause, _paused, RuledFacts),
            rule("resume", "Go on with what was paused", requests.Pause, _resumed, RuledFacts),
            rule("drain", "Let a gatherer give all to others", requests.Drain, _drained, DrainFacts),
            plan("rebalance", "Share the web out", requests.Rebalance, _rebalanced, RebalancedFacts),
            plan(
                "plans/dry-run",
                "Say what a plan would be",
                requests.DryRun,
                _foreseen,
                Foreseen,
                is_noted=False,
            ),
            rule("seeds", "Give URLs to begin with", requests.Seeds, _seeded, SeededFacts),
            rule("delay", "Ask a host less often", requests.Delay, _delayed, RuledFacts),
            rule("block", "Fetch nothing of a part of the web", requests.Block, _blocked, RuledFacts),
            rule("unblock", "Fetch what was blocked", requests.Unblock, _unblocked, RuledFacts),
        ]

    def _change(
        self,
        places: trio.CapacityLimiter,
        path: str,
        summary: str,
        body: type[Struct],
        question: Callable[[Any, str], Question],
        facts: type,
        *,
        is_noted: bool = True,
    ) -> Endpoint:
        async def change(request: Request) -> Response:
            by = whose(request)
            asked = question(await requests.body_of(request, body), by)
            try:
                places.acquire_on_behalf_of_nowait(asked)
            except trio.WouldBlock:
                raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, "Others change something now.", 5.0) from None
            try:
                said = await asked(self._watch.board, self._watch.config)
            finally:
                places.release_on_behalf_of(asked)
            if is_noted:
                self._watch.note("operator", "info", f"By {by}: {' '.join(said.lines[:1])}")
            return told(said)

        gives = Told[facts]  # type: ignore[valid-type] # it is described, not checked
        return Endpoint("POST", path, summary, change, body=body, gives=gives)


def whose(request: Request) -> str:
    """Who wants a change, as far as is known: tokens are shared by all with a role."""
    if request.scope[SESSION].name:
        return WHO
    said = request.headers.get(OPERATOR, "")[:_LONGEST]
    return said if said.isprintable() and said.strip() else PROGRAM


def _check_name(asked: requests.Pause) -> None:
    if (asked.what == ruling.CRAWL) == bool(asked.name):
        needs = "takes no name" if asked.what == ruling.CRAWL else "needs a name"
        raise Refused(HTTPStatus.BAD_REQUEST, f"{asked.what.capitalize()} {needs}.")


def _paused(asked: requests.Pause, by: str) -> Question:
    _check_name(asked)
    return partial(ruling.pause, what=asked.what, name=asked.name, by=by)


def _resumed(asked: requests.Pause, _: str) -> Question:
    _check_name(asked)
    return partial(ruling.resume, what=asked.what, name=asked.name)


def _drained(asked: requests.Drain, _: str) -> Question:
    return partial(work.drain, name=asked.name, wait=False, within_s=None, tell=_silently)


def _rebalanced(asked: requests.Rebalance, _: str) -> Question:
    return partial(
        planning.rebalance,
        reason=asked.reason,
        method=asked.method,
        within_s=asked.within_s,
        tell=_silently,
    )


def _foreseen(asked: requests.DryRun, _: str) -> Question:
    return partial(planning.foresee, method=asked.method, within_s=asked.within_s)


def _seeded(asked: requests.Seeds, _: str) -> Question:
    return partial(work.seed, urls=asked.urls)


def _delayed(asked: requests.Delay, _: str) -> Question:
    return partial(ruling.delay, host=asked.host, delay_s=asked.delay_s)


def _blocked(asked: requests.Block, _: str) -> Question:
    return partial(ruling.block, text=asked.what, for_s=asked.for_s)


def _unblocked(asked: requests.Unblock, _: str) -> Question:
    return partial(ruling.unblock, text=asked.what)


def _silently(_: str) -> None:
    """How far something has come is seen on the page."""
