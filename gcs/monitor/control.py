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
from gcs.monitor.endpoints import ANSWER, Endpoint
from gcs.monitor.gate import Refused
from gcs.monitor.watch import Watch
from gcs.operate import planning, ruling, work
from gcs.operate.asking import Question

AT_ONCE: Final = 4
WHO: Final = "somebody at the web page"


class Control:
    """The changes."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._changing = trio.CapacityLimiter(AT_ONCE)

    def endpoints(self) -> list[Endpoint]:
        """What can be changed."""
        return [
            self._change("pause", "Begin no more fetches", requests.Pause, _paused),
            self._change("resume", "Go on with what was paused", requests.Pause, _resumed),
            self._change("drain", "Let a gatherer give all to others, and leave", requests.Drain, _drained),
            self._change("rebalance", "Share the web out anew", requests.Rebalance, _rebalanced),
            self._change("plans/dry-run", "Say what a new plan would be", requests.DryRun, _foreseen),
            self._change("seeds", "Give the crawl URLs to begin with", requests.Seeds, _seeded),
            self._change("delay", "Ask a host less often", requests.Delay, _delayed),
            self._change("block", "Fetch nothing of a part of the web", requests.Block, _blocked),
            self._change("unblock", "Fetch what was blocked", requests.Unblock, _unblocked),
        ]

    def _change(
        self, path: str, summary: str, body: type[Struct], question: Callable[[Any], Question]
    ) -> Endpoint:
        async def change(request: Request) -> Response:
            asked = question(await requests.body_of(request, body))
            try:
                self._changing.acquire_on_behalf_of_nowait(asked)
            except trio.WouldBlock:
                raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, "Others change something now.", 5.0) from None
            try:
                said = await asked(self._watch.board, self._watch.config)
            finally:
                self._changing.release_on_behalf_of(asked)
            self._watch.note("operator", "info", f"By {WHO}: {' '.join(said.lines[:1])}")
            return told(said)

        return Endpoint("POST", path, summary, change, body=body, gives=ANSWER)


def _check_name(asked: requests.Pause) -> None:
    if (asked.what == ruling.CRAWL) == bool(asked.name):
        needs = "takes no name" if asked.what == ruling.CRAWL else "needs a name"
        raise Refused(HTTPStatus.BAD_REQUEST, f"{asked.what.capitalize()} {needs}.")


def _paused(asked: requests.Pause) -> Question:
    _check_name(asked)
    return partial(ruling.pause, what=asked.what, name=asked.name, by=WHO)


def _resumed(asked: requests.Pause) -> Question:
    _check_name(asked)
    return partial(ruling.resume, what=asked.what, name=asked.name)


def _drained(asked: requests.Drain) -> Question:
    return partial(work.drain, name=asked.name, wait=False, within_s=None, tell=_silently)


def _rebalanced(asked: requests.Rebalance) -> Question:
    return partial(
        planning.rebalance,
        reason=asked.reason,
        method=asked.method,
        within_s=asked.within_s,
        tell=_silently,
    )


def _foreseen(asked: requests.DryRun) -> Question:
    return partial(planning.foresee, method=asked.method, within_s=asked.within_s)


def _seeded(asked: requests.Seeds) -> Question:
    return partial(work.seed, urls=asked.urls)


def _delayed(asked: requests.Delay) -> Question:
    return partial(ruling.delay, host=asked.host, delay_s=asked.delay_s)


def _blocked(asked: requests.Block) -> Question:
    return partial(ruling.block, text=asked.what, for_s=asked.for_s)


def _unblocked(asked: requests.Unblock) -> Question:
    return partial(ruling.unblock, text=asked.what)


def _silently(_: str) -> None:
    """How far something has come is seen on the page."""
