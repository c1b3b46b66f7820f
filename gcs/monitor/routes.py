"""What can be asked: each address, and the function that answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import structlog
from starlette.applications import Starlette
from starlette.endpoints import HTTPEndpoint
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

import gcs
from gcs.errors import GcsError
from gcs.monitor import openapi, requests
from gcs.monitor.answers import Body, answer, encoded, refusal
from gcs.monitor.endpoints import Endpoint
from gcs.monitor.gate import SESSION, Refused, caller_of
from gcs.monitor.keys import Role
from gcs.monitor.sessions import Session, Sessions
from gcs.monitor.shapes.crawl import SignedIn
from gcs.monitor.shapes.live import EVENTS
from gcs.monitor.stream import MOST_LISTENERS, TOPICS
from gcs.monitor.watch import Watch
from tuplespace import TupleSpaceError

STATIC: Final = Path(__file__).parent / "static"
_WITHIN_S: Final = 10.0
_Handler = Callable[[Request], Awaitable[Response]]


class Pages:
    """The answers to what is asked about sessions and about what is seen."""

    def __init__(self, watch: Watch, sessions: Sessions, base: str) -> None:
        self._watch, self._sessions, self._base = watch, sessions, base
        self.check: Callable[[str, str], Role]
        """Says what a token lets a caller do, or raises Refused; set by whoever has the gate."""

    def endpoints(self) -> list[Endpoint]:
        """What is asked about sessions, and live events."""
        sign_in = partial(Endpoint, gives=SignedIn, is_open=True)
        events = Endpoint(
            "GET",
            "stream",
            "Server-sent events",
            self._stream,
            requests.Topics,
            events=EVENTS,
            media="text/event-stream",
        )
        return [
            sign_in("GET", "session", "Who is signed in", self._session),
            sign_in("POST", "session", "Sign in with a token", self._sign_in, body=requests.SignIn),
            Endpoint("DELETE", "session", "Sign out", self._sign_out, is_open=True),
            events,
        ]

    # Sessions

    async def _session(self, request: Request) -> Response:
        return self._told(request.scope.get(SESSION))

    def _told(self, session: Session | None) -> Response:
        value: SignedIn = {
            "role": session.role.value if session else None,
            "crawl": self._watch.crawl if session else None,
            "version": gcs.__version__ if session else None,
            "expires_at": session.expires_at if session and session.name else None,
        }
        return Response(encoded(value), media_type="application/json")

    async def _sign_in(self, request: Request) -> Response:
        said = await requests.body_of(request, requests.SignIn)
        role = self.check(said.token, caller_of(request.scope))
        session, cookie = self._sessions.begin(role)
        answered = self._told(session)
        answered.set_cookie(
            self._sessions.cookie,
            cookie,
            max_age=round(session.expires_at - self._watch.now()),
            path=self._base,
            secure=request.headers.get("origin", "").startswith("https://"),
            httponly=True,
            samesite="strict",
        )
        return answered

    async def _sign_out(self, request: Request) -> Response:
        session = request.scope.get(SESSION)
        if session is not None:
            self._sessions.end(session)
            self._watch.stream.dismiss()
        answered = Response(status_code=HTTPStatus.NO_CONTENT)
        answered.delete_cookie(self._sessions.cookie, path=self._base, httponly=True, samesite="strict")
        return answered

    # What is seen

    async def _stream(self, request: Request) -> Response:
        asked = requests.query_of(request, requests.Topics).topics
        topics = frozenset(asked.split(",") if asked else TOPICS)
        if not topics <= {*TOPICS}:
            raise Refused(HTTPStatus.BAD_REQUEST, f"The topics are {', '.join(TOPICS)}.")
        stream = self._watch.stream
        if stream.listeners >= MOST_LISTENERS:
            raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, "Too many listen already.", _WITHIN_S)
        return StreamingResponse(
            stream.listen(topics, partial(self._sessions.left_s, request.scope[SESSION])),
            media_type="text/event-stream",
            headers={"cache-control": "no-store", "x-accel-buffering": "no"},
        )


def application(endpoints: Sequence[Endpoint], base: str, cookie: str) -> Starlette:
    """The application with all its addresses below the base path; `cookie` is what sessions are called."""
    described = Body.of(openapi.document(endpoints, cookie))

    async def describe(request: Request) -> Response:
        return answer(request, described)

    async def index(_: Request) -> Response:
        return FileResponse(STATIC / "index.html", headers={"cache-control": "no-cache"})

    async def to_base(_: Request) -> Response:
        return RedirectResponse(base, HTTPStatus.PERMANENT_REDIRECT)

    paths: dict[str, dict[str, _Handler]] = {"openapi.json": {"GET": describe}}
    for each in endpoints:
        paths.setdefault(each.path, {})[each.method] = each.handler
    routes: list[BaseRoute] = [
        Route("/", index),
        *(Route(f"/api/{path}", _by_method(by)) for path, by in paths.items()),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]
    outer: list[BaseRoute] = [Mount(base.rstrip("/"), routes=routes)]
    if base != "/":
        outer.insert(0, Route(base.rstrip("/"), to_base))
    handlers: dict[Any, Callable[[Request, Any], Awaitable[Response]]] = {
        Refused: _refused,
        GcsError: _wrong,
        TupleSpaceError: _away,
        HTTPException: _unknown,
        Exception: _failed,
    }
    return Starlette(routes=outer, exception_handlers=handlers)


def _by_method(handlers: Mapping[str, _Handler]) -> type[HTTPEndpoint]:
    """What answers at one path, by method; another method is told which there are."""
    named = {method.lower(): staticmethod(handler) for method, handler in handlers.items()}
    return type("ByMethod", (HTTPEndpoint,), named)


async def _refused(_: Request, error: Refused) -> Response:
    return refusal(error.status, error.sentence, wait_s=error.wait_s)


async def _wrong(_: Request, error: GcsError) -> Response:
    said = str(error)
    return refusal(HTTPStatus.BAD_REQUEST, said[:1].upper() + said[1:])


async def _away(_: Request, error: TupleSpaceError) -> Response:
    return refusal(HTTPStatus.SERVICE_UNAVAILABLE, f"Redis cannot be used: {error}", wait_s=_WITHIN_S)


async def _unknown(_: Request, error: HTTPException) -> Response:
    status = HTTPStatus(error.status_code)
    answered = refusal(status, f"{status.phrase}.")
    answered.headers.update(error.headers or {})
    return answered


async def _failed(request: Request, error: Exception) -> Response:
    structlog.get_logger().error("an answer failed", path=request.url.path, exc_info=error)
    return refusal(HTTPStatus.INTERNAL_SERVER_ERROR, "This should not happen; the monitor's log says more.")
