"""What may be asked for, with every bound: the parameters of addresses, and the bodies of changes.

The description for programs (`gcs.monitor.openapi`) is made from these same types.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Final, Literal, TypeVar

import msgspec
import trio
from msgspec import Meta, Struct
from starlette.requests import ClientDisconnect, Request

from gcs.monitor.gate import Refused

MOST_BYTES: Final = 256 << 10
"""The longest body of a request."""
_WITHIN_S: Final = 10.0
T = TypeVar("T")

_Line = Annotated[str, Meta(max_length=300)]
_Url = Annotated[str, Meta(min_length=1, max_length=4_000)]
_Name = Annotated[str, Meta(min_length=1, max_length=300)]
_Number = Annotated[int, Meta(ge=0, le=1 << 53)]
_Method = Literal["", "I", "II", "auto"]
_What = Literal["crawl", "gatherer", "host"]


class Nothing(Struct, forbid_unknown_fields=True):
    """No parameters."""


class Events(Struct, forbid_unknown_fields=True):
    """Events after one of that number."""

    after: _Number = 0
    most: Annotated[int, Meta(ge=1, le=1_000)] = 200


class Rates(Struct, forbid_unknown_fields=True):
    """How many sites."""

    most: Annotated[int, Meta(ge=1, le=200)] = 60


class Hosts(Struct, forbid_unknown_fields=True):
    """Which hosts: in what order, and with which part of a name."""

    order: Literal["slowest", "largest", "errors", "aside"] = "slowest"
    most: Annotated[int, Meta(ge=1, le=500)] = 50
    q: _Line = ""


class Latest(Struct, forbid_unknown_fields=True):
    """Which of the latest pages: with these words, of a language, a gatherer, a host, before a number."""

    q: _Line = ""
    language: _Line = ""
    gatherer: _Line = ""
    host: _Line = ""
    before: _Number = 0
    most: Annotated[int, Meta(ge=1, le=500)] = 50


class Topics(Struct, forbid_unknown_fields=True):
    """Which events, with commas between; all if not given."""

    topics: _Line = ""


class Why(Struct, forbid_unknown_fields=True):
    """A URL."""

    url: _Url


class Search(Struct, forbid_unknown_fields=True):
    """A query, how many results make a page, and which page of them."""

    q: Annotated[str, Meta(min_length=1, max_length=1_000)]
    limit: Annotated[int, Meta(ge=1, le=100)] = 10
    page: Annotated[int, Meta(ge=1, le=1_000)] = 1


class OneHost(Struct, forbid_unknown_fields=True):
    """The name of a host."""

    name: _Name


class Top(Struct, forbid_unknown_fields=True):
    """So many of each, at most."""

    top: Annotated[int, Meta(ge=1, le=10_000)] = 40


class SignIn(Struct, forbid_unknown_fields=True):
    """A token."""

    token: Annotated[str, Meta(max_length=500)]


class Pause(Struct, forbid_unknown_fields=True):
    """What is to wait, or to go on: the whole crawl, which has no name, or a gatherer or host by its name."""

    what: _What = "crawl"
    name: _Line = ""


class Drain(Struct, forbid_unknown_fields=True):
    """A gatherer, by its name or id."""

    name: _Name


class Rebalance(Struct, forbid_unknown_fields=True):
    """Why there is to be a new plan, and how superpages are to be shared out; "" as configured."""

    reason: _Line = ""
    method: _Method = ""
    within_s: Annotated[float, Meta(gt=0, le=600)] = 120.0


class DryRun(Struct, forbid_unknown_fields=True):
    """How superpages would be shared out; "" as configured."""

    method: _Method = ""
    within_s: Annotated[float, Meta(gt=0, le=600)] = 120.0


class Seeds(Struct, forbid_unknown_fields=True):
    """URLs to begin with."""

    urls: Annotated[list[_Url], Meta(min_length=1, max_length=1_000)]


class Delay(Struct, forbid_unknown_fields=True):
    """The least time between two requests to a host; null as configured."""

    host: _Name
    delay_s: Annotated[float, Meta(gt=0, le=86_400)] | None


class Block(Struct, forbid_unknown_fields=True):
    """A host, or a URL and what is below it, and for how long; null for good."""

    what: _Url
    for_s: Annotated[float, Meta(gt=0, le=10 * 365 * 86_400)] | None = None


class Unblock(Struct, forbid_unknown_fields=True):
    """A host, or a URL, that is blocked."""

    what: _Url


def query_of(request: Request, kind: type[T]) -> T:
    """The parameters of a request; raises Refused for others."""
    try:
        return msgspec.convert(dict(request.query_params), kind, strict=False)
    except msgspec.ValidationError as error:
        raise Refused(HTTPStatus.BAD_REQUEST, f"This cannot be understood: {error}.") from None


async def body_of(request: Request, kind: type[T]) -> T:
    """What a request says; raises Refused for anything else."""
    data = bytearray()
    try:
        with trio.fail_after(_WITHIN_S):
            async for part in request.stream():
                data += part
                if len(data) > MOST_BYTES:
                    raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "This is too long.")
        return msgspec.json.decode(bytes(data) or b"{}", type=kind)
    except (trio.TooSlowError, ClientDisconnect):
        raise Refused(HTTPStatus.REQUEST_TIMEOUT, "The request did not come to its end.") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Refused(HTTPStatus.BAD_REQUEST, f"This cannot be understood: {error}.") from None
