"""Who asks for what: sources by their schemes, and web servers for all else.

Only a crawl that has sources asks through this; all others ask their transport, and pay nothing for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

import structlog
import trio

from gcs.core.sources import Reach
from gcs.fetch.fetching import Fetching
from gcs.fetch.outcome import Failure, Origin, Outcome, Reason
from gcs.sources.answers import Conditions, response

_MOST_SAID: Final = 300
"""Of what a server may have said itself."""


class Source(Protocol):
    """Something that answers URLs of one scheme."""

    async def fetch(self, url: str, conditions: Conditions) -> Outcome:
        """The answer to a canonical URL; 304 if it is as the conditions say. May be cancelled."""


class Sources:
    """Asks sources and web servers; has the interface of a transport."""

    def __init__(
        self,
        web: Fetching,
        by_scheme: Mapping[str, Source],
        reach: Reach,
        *,
        timeout_s: float,
        asks_web: bool,
    ) -> None:
        """Nothing is asked for beyond the `reach` of the sources, whoever has named it.

        Unless it `asks_web`, nothing is asked of web servers: nobody has said who we are.
        """
        self._web, self._by_scheme, self._reach = web, by_scheme, reach
        self._log = structlog.get_logger()
        self._timeout_s, self._asks_web = timeout_s, asks_web
        self._told: dict[Origin, str] = {}
        """Why a source could not be asked, as it was said last."""
        self.agent = web.agent

    async def fetch(
        self,
        origin: Origin,
        target: str,
        *,
        headers: bytes = b"",
        timeout_s: float | None = None,
        max_body_bytes: int | None = None,
        on_sent: Callable[[float], None] | None = None,
    ) -> Outcome:
        """GET a target; `on_sent` is told the Unix time at which the request was sent."""
        source = self._by_scheme.get(origin.scheme)
        if source is None:
            if not self._asks_web:
                return Failure(Reason.REQUEST, "fetch.agent does not say who asks.")
            return await self._web.fetch(
                origin,
                target,
                headers=headers,
                timeout_s=timeout_s,
                max_body_bytes=max_body_bytes,
                on_sent=on_sent,
            )
        url = f"{origin}{target}"
        if not self._reach.has(url):
            return response(403)
        started, began = time.time(), trio.current_time()
        if on_sent is not None:
            on_sent(started)
        outcome: Outcome | None = None
        with trio.move_on_after(timeout_s or self._timeout_s):
            outcome = await self._asked(source, url, Conditions.of(headers))
        total_s = trio.current_time() - began
        if outcome is None:
            outcome = Failure(Reason.TIMEOUT, "No answer came in time.")
        if isinstance(outcome, Failure):
            self._tell(origin, outcome.detail)
            return Failure(outcome.reason, outcome.detail, started=started, total_s=total_s)
        outcome.started, outcome.total_s = started, total_s
        return outcome

    def _tell(self, origin: Origin, why: str) -> None:
        """Say why a source cannot be asked: whoever has named it can do something about it."""
        if self._told.get(origin) != why:
            self._told[origin] = why
            said = "".join(each if each.isprintable() else "\ufffd" for each in why[:_MOST_SAID])
            self._log.warning("a source cannot be asked", source=str(origin), why=said)

    async def _asked(self, source: Source, url: str, conditions: Conditions) -> Outcome:
        try:
            return await source.fetch(url, conditions)
        except Exception:  # noqa: BLE001 - one row must not end the crawl, and again when that is resumed
            self._log.exception("a source could not be read", url=url)
            return response(500)

    async def addresses(self, host: str) -> Sequence[str] | Failure:
        """The addresses of a web server."""
        return await self._web.addresses(host)

    async def delay(self, origin: Origin) -> float | Failure:
        """The seconds that it takes to connect; sources are as near to all who may use them."""
        return 0.0 if origin.scheme in self._by_scheme else await self._web.delay(origin)
