"""The same transport for `httpx.AsyncClient`: for everything but the crawl's own pages.

    async with Transport(settings) as transport:
        client = httpx.AsyncClient(transport=HttpxTransport(transport), follow_redirects=True)

Each request, and so each hop of a redirect, goes through the guard and the limits. A body comes decoded and
within bounds; the headers that told how it was sent are left out. The outcome itself, which tells what was
cut off, is the response's extension "outcome". A failure is one of httpx's exceptions, caused by
`Unanswered`, which holds it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from ipaddress import ip_network

import httpx

from gcs import config
from gcs.fetch import decoding
from gcs.fetch.outcome import DEFAULT_PORTS, Failure, Origin, Reason, Response
from gcs.fetch.transport import Transport

_ERRORS: Mapping[Reason, type[httpx.TransportError] | type[httpx.DecodingError]] = {
    Reason.DNS: httpx.ConnectError,
    Reason.ADDRESS: httpx.ConnectError,
    Reason.PORT: httpx.ConnectError,
    Reason.REQUEST: httpx.LocalProtocolError,
    Reason.CONNECT: httpx.ConnectError,
    Reason.TLS: httpx.ConnectError,
    Reason.TIMEOUT: httpx.ReadTimeout,
    Reason.SLOW: httpx.ReadTimeout,
    Reason.HEADERS: httpx.RemoteProtocolError,
    Reason.PROTOCOL: httpx.RemoteProtocolError,
    Reason.DISCONNECTED: httpx.RemoteProtocolError,
    Reason.RATIO: httpx.DecodingError,
    Reason.CODING: httpx.DecodingError,
    Reason.PROXY: httpx.ProxyError,
}
# The transport frames messages and chooses the codings that it can take off.
_NOT_PASSED_ON = frozenset(
    {b"host", b"connection", b"accept-encoding", b"content-length", b"transfer-encoding", b"keep-alive"}
)
_NOT_TRUE_ANY_MORE = frozenset({"content-encoding", "content-length", "transfer-encoding"})


_ANYWHERE = tuple(ip_network(each) for each in ("0.0.0.0/0", "::/0"))


def unguarded(settings: config.Fetch) -> config.Fetch:
    """The settings of a transport to places that operators have named: they may be anywhere."""
    return replace(settings, allow=_ANYWHERE, proxy="", max_body_bytes=1 << 16, concurrency=16, per_host=4)


class Unanswered(Exception):
    """The failure behind one of httpx's exceptions."""

    def __init__(self, failure: Failure) -> None:
        """Keep the failure."""
        super().__init__(failure.detail)
        self.failure = failure


class HttpxTransport(httpx.AsyncBaseTransport):
    """Lets httpx ask through a Transport, which stays its owner's: closing the client leaves it open."""

    def __init__(self, transport: Transport, *, max_body_bytes: int | None = None) -> None:
        """`max_body_bytes` replaces the setting, for answers that may be longer or must be shorter."""
        self._transport = transport
        self._max_body_bytes = max_body_bytes

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Ask; raises one of httpx's exceptions where there is no response."""
        url = request.url
        if url.scheme not in ("http", "https"):
            raise httpx.UnsupportedProtocol(
                f"The scheme {url.scheme!r} is not http or https.", request=request
            )
        if url.userinfo:
            # httpx has made a header of it already; it must not be in a URL at all.
            raise _error(request, Failure(Reason.REQUEST, "The URL has a user name or password in it."))
        origin = Origin(url.scheme, url.raw_host.decode("ascii"), url.port or DEFAULT_PORTS[url.scheme])
        outcome = await self._transport.request(
            request.method,
            origin,
            url.raw_path.decode("ascii"),
            headers=b"".join(self._lines(request)),
            body=await request.aread(),
            timeout_s=_timeout_s(request),
            max_body_bytes=self._max_body_bytes,
        )
        if isinstance(outcome, Failure):
            raise _error(request, outcome)
        return _response(request, outcome)

    def _lines(self, request: httpx.Request) -> Iterator[bytes]:
        yield f"Accept-Encoding: {decoding.ACCEPTED}\r\n".encode()
        for name, value in request.headers.raw:
            lower = name.lower()
            if lower == b"user-agent" and value.startswith(b"python-httpx/"):
                yield f"User-Agent: {self._transport.agent}\r\n".encode()
            elif lower not in _NOT_PASSED_ON:
                yield name + b": " + value + b"\r\n"


def _error(request: httpx.Request, failure: Failure) -> httpx.RequestError:
    error = _ERRORS[failure.reason](failure.detail, request=request)
    error.__cause__ = Unanswered(failure)
    return error


def _timeout_s(request: httpx.Request) -> float | None:
    """The longest of httpx's timeouts, which are per step, for the whole; None leaves it to the settings."""
    timeouts = request.extensions.get("timeout", {})
    given = [seconds for seconds in timeouts.values() if seconds is not None]
    return max(given, default=None)


def _response(request: httpx.Request, outcome: Response) -> httpx.Response:
    lines = outcome.head.decode("latin-1").split("\n")
    pairs = [(name, value.strip(" \t\r")) for name, _, value in (line.partition(":") for line in lines[1:-2])]
    # httpx would take the coding off once more; the length of what it gets is its own to say.
    dropped = _NOT_TRUE_ANY_MORE if request.method != "HEAD" else frozenset({"content-encoding"})
    version, _, reason = lines[0].strip("\r").partition(" ")
    return httpx.Response(
        outcome.status,
        headers=[
            (name.encode("latin-1"), value.encode("latin-1"))
            for name, value in pairs
            if name.lower() not in dropped
        ],
        content=outcome.body,
        extensions={
            "http_version": version.encode("ascii"),
            "reason_phrase": reason.partition(" ")[2].encode("latin-1"),
            "outcome": outcome,
        },
    )
