"""One address of the API: what serves it, and what it is called, takes and gives."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from gcs.monitor.answers import JSON

Handler = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One of them, below `api/`."""

    method: str
    path: str
    summary: str
    handler: Handler
    query: type[Struct] | None = None
    body: type[Struct] | None = None
    gives: Any = None
    """The type of its answer, if that is JSON."""
    events: Mapping[str, Any] = field(default_factory=dict)
    """The types of its events, by topic, if it sends some."""
    media: str = JSON
    is_open: bool = False
    """Whether it needs no session."""
