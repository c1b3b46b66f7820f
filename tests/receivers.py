"""Receivers of matches, for tests: a web hook that fails at random, and a small server for mail."""

from __future__ import annotations

import json
import random
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

from gcs.profiles.targets import HEADER


@dataclass
class Hook:
    """A web hook: what it was given, in order, also what it then refused to have got."""

    failing: float = 0.0
    """The share of requests that fail: before they count, or after."""
    rng: random.Random = field(default_factory=lambda: random.Random(1))
    got: list[dict[str, Any]] = field(default_factory=list)
    refused: int = 0
    untold: int = 0
    """How many of them it has all the same, so that they have to come again."""
    url: str = ""

    @property
    def ids(self) -> list[str]:
        """Each id once, in the order in which they first came."""
        return list(dict.fromkeys(each["id"] for each in self.got))


@contextmanager
def hook(failing: float = 0.0, seed: int = 1) -> Iterator[Hook]:
    """One on loopback."""
    received = Hook(failing, random.Random(seed))

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            chance = received.rng.random() / received.failing if received.failing else 1.0
            if chance >= 1 / 3:
                said = json.loads(body)
                assert self.headers[HEADER] == said["id"]
                received.got.append(said)
            if chance < 1:
                received.refused += 1
                received.untold += chance >= 1 / 3
            if chance < 2 / 3 and chance >= 1 / 3:
                self.close_connection = True  # it has the match, and nobody is told
                return
            self.send_response(204 if chance >= 1 else 503)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """The list is enough."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.handle_error = lambda *_: None  # type: ignore[method-assign] # whoever is killed says no good-bye
        received.url = f"http://127.0.0.1:{server.server_address[1]}/hook"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield received
        finally:
            server.shutdown()


class _Session(socketserver.StreamRequestHandler):
    """As much of SMTP as is needed to get a mail."""

    def handle(self) -> None:
        said = cast("MailServer", self.server)
        self._say("220 tests")
        while line := self.rfile.readline().decode().strip():
            verb = line.partition(" ")[0].upper()
            if verb == "EHLO":
                self._say("250 tests")
            elif verb == "DATA":
                self._say("354 go on")
                lines = []
                while (each := self.rfile.readline()).rstrip(b"\r\n") != b".":
                    lines.append(each)
                said.letters.append(b"".join(lines))
                self._say("250 kept")
            elif verb == "QUIT":
                self._say("221 bye")
                return
            else:
                self._say("250 fine" if verb in ("MAIL", "RCPT", "RSET", "NOOP") else "502 unknown")

    def _say(self, line: str) -> None:
        self.wfile.write(f"{line}\r\n".encode())


class MailServer(socketserver.ThreadingTCPServer):
    """Keeps the letters that it is given."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Session)
        self.letters: list[bytes] = []

    @property
    def url(self) -> str:
        """Its address, as the configuration has it."""
        return f"smtp://127.0.0.1:{self.server_address[1]}"


@contextmanager
def mail_server() -> Iterator[MailServer]:
    """One on loopback."""
    with MailServer() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()
