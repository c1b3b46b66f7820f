"""How answers look: JSON, with an ETag where it may be asked for again; what is refused says why."""

from __future__ import annotations

import gzip
import math
from hashlib import blake2b
from http import HTTPStatus
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from gcs.operate.asking import Answer

JSON: Final = "application/json"
_WORTH_PACKING: Final = 4_096
_encode: Final = msgspec.json.Encoder().encode


class Body:
    """An answer that many may ask for: encoded once, and packed once."""

    __slots__ = ("_packed", "data", "media_type", "tag")

    def __init__(self, data: bytes, media_type: str = JSON) -> None:
        self.data, self.media_type = data, media_type
        self.tag = f'"{blake2b(data, digest_size=12).hexdigest()}"'
        self._packed: bytes | None = None

    @classmethod
    def of(cls, value: Any) -> Body:
        """A value as JSON."""
        return cls(encoded(value))

    def pack(self) -> bytes:
        """The same, compressed; of a long one that takes a while, the first time."""
        if self._packed is None:
            self._packed = gzip.compress(self.data, 6, mtime=0)
        return self._packed


def encoded(value: Any) -> bytes:
    """A value as JSON; what is no finite number is null."""
    return _encode(value)


def answer(request: Request, body: Body, **headers: str) -> Response:
    """A body, or that the asker has it already."""
    told = {"etag": body.tag, "cache-control": "private, no-cache", "vary": "accept-encoding", **headers}
    if request.headers.get("if-none-match") == body.tag:
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=told)
    data = body.data
    if len(data) > _WORTH_PACKING and "gzip" in request.headers.get("accept-encoding", ""):
        data, told["content-encoding"] = body.pack(), "gzip"
    return Response(data, headers=told, media_type=body.media_type)


def outcome(said: Answer) -> Body:
    """What came of a question of an operator."""
    return Body.of({"facts": dict(said.facts), "lines": list(said.lines), "code": int(said.code)})


def told(said: Answer) -> Response:
    """The same, which nobody will ask for again."""
    return Response(outcome(said).data, media_type=JSON)


def refusal(status: HTTPStatus, sentence: str, *, wait_s: float = 0.0) -> Response:
    """Why there is no answer."""
    headers = {"retry-after": str(math.ceil(wait_s))} if wait_s else {}
    if status is HTTPStatus.UNAUTHORIZED:
        headers["www-authenticate"] = "Bearer"
    return Response(encoded({"error": sentence}), status, headers, JSON)
