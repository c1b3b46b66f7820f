"""Who may ask what: every request comes through here, and every answer leaves with the same headers.

A request is refused when it is for a host that we are not (a page elsewhere may have bound our address to a
name of its own), when a change does not come from our own page or from a program with a token, or when the
role is not enough. What is open to all has no data of the crawl in it: the page, and the way to sign in.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Container
from contextlib import suppress
from http import HTTPStatus
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gcs.monitor.answers import refusal
from gcs.monitor.keys import Keys, Patience, Role
from gcs.monitor.sessions import Session, Sessions

SESSION: Final = "gcs.session"
"""Where a request has its session, in the scope."""
LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})
SAFE: Final = frozenset({"GET", "HEAD"})
_API: Final = "api/"
_OPEN: Final = frozenset({"api/session", "api/openapi.json"})
_BY_PASSWORD: Final = frozenset({"api/places.kml"})
"""What Google Earth asks for, which cannot sign in."""
_BEARER, _BASIC = "bearer", "basic"
_HOST: Final = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:[0-9]{1,5})?")
_CSP: Final = "; ".join(
    (
        "default-src 'none'",
        *(f"{kind}-src 'self'" for kind in ("script", "style", "font", "connect", "manifest", "worker")),
        "img-src 'self' data:",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
HEADERS: Final = {
    "content-security-policy": _CSP,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


class Refused(Exception):
    """A request that goes no further, and why."""

    def __init__(
        self, status: HTTPStatus, sentence: str, wait_s: float = 0.0, *, by_password: bool = False
    ) -> None:
        """`by_password` lets a program ask its user for a password."""
        super().__init__(sentence)
        self.status, self.sentence, self.wait_s, self.by_password = status, sentence, wait_s, by_password


class Gate:
    """Stands before an application."""

    def __init__(
        self,
        app: ASGIApp,
        keys: Keys,
        sessions: Sessions,
        *,
        base: str,
        hosts: Container[str],
        clock: Callable[[], float],
    ) -> None:
        """`hosts` are the names that we answer to, beside loopback; one with a port is for that port only."""
        self._app, self._keys, self._sessions = app, keys, sessions
        self._base, self._hosts = base, hosts
        self.patience = Patience(clock)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                if scope["path"].startswith(f"{self._base}{_API}"):
                    headers.setdefault("cache-control", "no-store")
            await send(message)

        try:
            self._admit(scope)
        except Refused as refused:
            answer = refusal(refused.status, refused.sentence, wait_s=refused.wait_s)
            if refused.by_password:
                answer.headers["www-authenticate"] = 'Basic realm="GCS"'
            await answer(scope, receive, send_guarded)
        else:
            await self._app(scope, receive, send_guarded)

    def _admit(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        host = headers.get("host", "").lower()
        self._check_host(host)
        method, path = scope["method"], scope["path"].removeprefix(self._base)
        kind, token = _credentials(headers)
        signed_in, named = self._signed_in(headers), None
        if token and kind == _BEARER:
            named = Session(self._role_of(token, caller_of(scope)))
        elif token and path in _BY_PASSWORD and signed_in is None:
            self._role_of(token, caller_of(scope))
            # Browsers send it with whatever other pages ask for.
            named = Session(Role.VIEW)
        scope[SESSION] = session = named or signed_in
        if method not in SAFE:
            _check_source(headers, host, by_token=named is not None and kind == _BEARER)
        if not path.startswith(_API) or path in _OPEN:
            return
        if session is None:
            by_password = path in _BY_PASSWORD
            raise Refused(HTTPStatus.UNAUTHORIZED, "Sign in first.", by_password=by_password)
        needed = Role.VIEW if method in SAFE else Role.OPERATE
        if not session.role.may(needed):
            raise Refused(HTTPStatus.FORBIDDEN, f"Your role is {session.role}; this needs {needed}.")

    def _check_host(self, host: str) -> None:
        named = _HOST.fullmatch(host)
        if named is None or not (named[1] in LOOPBACK or named[1] in self._hosts or host in self._hosts):
            raise Refused(
                HTTPStatus.MISDIRECTED_REQUEST, "This is not its name; monitor.hosts lists those it has."
            )

    def _role_of(self, token: str, caller: str) -> Role:
        """What the token of a request lets somebody do; a right one need not wait for who tries wrong ones.

        Who shares its address may try as many as it likes: none is found by trying.
        """
        return self._keys.role(token) or self.role(token, caller)

    def role(self, token: str, caller: str) -> Role:
        """What a token lets somebody do who signs in; raises Refused if it is wrong, or too many were."""
        wait_s = self.patience.wait_s(caller)
        if wait_s > 0:
            raise Refused(HTTPStatus.TOO_MANY_REQUESTS, "Too many wrong tokens; wait a little.", wait_s)
        role = self._keys.role(token)
        if role is None:
            self.patience.failed(caller)
            raise Refused(HTTPStatus.UNAUTHORIZED, "This token is wrong.")
        return role

    def _signed_in(self, headers: Headers) -> Session | None:
        """By hand: there may be several of our name, and any others, which need not be well-formed."""
        for each in ";".join(headers.getlist("cookie")).split(";"):
            name, _, value = each.strip().partition("=")
            if (
                name == self._sessions.cookie
                and (session := self._sessions.find(value.strip('"'))) is not None
            ):
                return session
        return None


def _credentials(headers: Headers) -> tuple[str, str]:
    """How a program says who it is, and its token: as such, or as the password of anybody."""
    kind, _, said = headers.get("authorization", "").partition(" ")
    kind, said = kind.lower(), said.strip()
    if kind == _BEARER:
        return kind, said
    if kind == _BASIC:
        with suppress(ValueError):
            return kind, b64decode(said, validate=True).decode().partition(":")[2]
    return "", ""


def _check_source(headers: Headers, host: str, *, by_token: bool) -> None:
    """A change has to come from our own page: browsers say where it comes from, and cannot be made to lie."""
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    foreign = site not in (None, "same-origin") or (
        origin is not None and origin.lower().partition("://")[2] != host
    )
    if foreign or (site is None and origin is None and not by_token):
        raise Refused(HTTPStatus.FORBIDDEN, "A change has to come from the monitor's own page.")
    if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json" and (
        headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
    ):
        raise Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "Send application/json.")


def caller_of(scope: Scope) -> str:
    """Who asks, as far as can be told."""
    client = scope.get("client")
    return str(client[0]) if client else "unix"
