"""One address of the API: what serves it, and what it is called, takes and gives."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from gcs.monitor.answers import JSON

ANSWER: Final = ("facts", "lines", "code")
"""What came of a question of an operator: for programs, for people, and as an exit code."""
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
    gives: tuple[str, ...] = ()
    """What is always in its answer, if that is an object."""
    media: str = JSON
    is_open: bool = False
    """Whether it needs no session."""
