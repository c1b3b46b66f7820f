"""What asks for pages, as far as a crawl, a helper and robots.txt need it: the transport, or a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from gcs.fetch.outcome import Failure, Origin, Outcome


class Fetching(Protocol):
    """Asks for pages."""

    agent: str
    """Who asks, as it tells servers."""

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

    async def addresses(self, host: str) -> Sequence[str] | Failure:
        """The addresses of a host that may be asked."""

    async def delay(self, origin: Origin) -> float | Failure:
        """The seconds that it takes to connect to an origin, of which nothing is asked."""
