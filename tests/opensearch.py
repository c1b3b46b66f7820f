"""As much of OpenSearch as the sink uses, on loopback: bulk with external versions, deleting by query.

It answers as the documentation of the REST API says, and fails as a busy cluster does: with 503 for a
request, or with 429 for single pages of one.
"""

from __future__ import annotations

import base64
import json
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_TYPES = {"text": str | list, "keyword": str | list, "long": int}


@dataclass
class OpenSearch:
    """What it has, by id; with versions, also of what was deleted."""

    user: str = "admin"
    password: str = "se:cret"
    failing: float = 0.0
    rng: random.Random = field(default_factory=lambda: random.Random(2))
    mapping: dict[str, Any] | None = None
    pages: dict[str, dict[str, Any]] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)
    requests: int = 0
    port: int = 0

    @property
    def url(self) -> str:
        """Its address, as the configuration has it."""
        return f"http://{self.user}:{self.password.replace(':', '%3A')}@127.0.0.1:{self.port}"

    def fails(self) -> bool:
        """Whether it does, this time."""
        return self.rng.random() < self.failing

    def bulk(self, lines: list[bytes]) -> dict[str, Any]:
        """Each action of a request by itself, as the answer says."""
        items, rest = [], iter(lines)
        for line in rest:
            ((action, about),) = json.loads(line).items()
            page = json.loads(next(rest)) if action == "index" else None
            items.append({action: {"_id": about["_id"], "status": self._one(about, page)}})
        return {"errors": any(next(iter(each.values()))["status"] >= 300 for each in items), "items": items}

    def _one(self, about: dict[str, Any], page: dict[str, Any] | None) -> int:
        name, version = about["_id"], about["version"]
        assert about["version_type"] == "external_gte"
        if self.fails():
            return 429
        if version < self.versions.get(name, -1):
            return 409
        known, self.versions[name] = name in self.pages, version
        if page is None:
            return 200 if self.pages.pop(name, None) else 404
        assert self.mapping is not None
        properties = self.mapping["mappings"]["properties"]
        assert all(isinstance(value, _TYPES[properties[each]["type"]]) for each, value in page.items())
        self.pages[name] = page
        return 200 if known else 201

    def delete_by_query(self, asked: dict[str, Any]) -> dict[str, Any]:
        """All pages within some ranges."""
        ranges = [each["range"] for each in asked["query"]["bool"]["filter"]]

        def inside(page: dict[str, Any]) -> bool:
            return all(
                bounds.get("gte", page[name]) <= page[name]
                and ("lt" not in bounds or page[name] < bounds["lt"])
                for each in ranges
                for name, bounds in each.items()
            )

        gone = [name for name, page in self.pages.items() if inside(page)]
        for name in gone:
            del self.pages[name]
        return {"deleted": len(gone)}


@contextmanager
def serving(failing: float = 0.0) -> Iterator[OpenSearch]:
    """One that runs."""
    said = OpenSearch(failing=failing)
    expected = "Basic " + base64.b64encode(f"{said.user}:{said.password}".encode()).decode()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_PUT(self) -> None:
            body = self._body()
            if said.mapping is None:
                said.mapping = json.loads(body)
                self._answer(200, {"acknowledged": True})
            else:
                self._answer(400, {"error": {"type": "resource_already_exists_exception"}})

        def do_POST(self) -> None:
            body = self._body()
            said.requests += 1
            if self.headers["Authorization"] != expected:
                self._answer(401, {})
            elif said.fails():
                self._answer(503, {"error": "unavailable"})
            elif self.path == "/pages/_bulk":
                assert self.headers["Content-Type"] == "application/x-ndjson"
                assert body.endswith(b"\n")
                self._answer(200, said.bulk(body.splitlines()))
            elif self.path.startswith("/pages/_delete_by_query"):
                self._answer(200, said.delete_by_query(json.loads(body)))
            else:
                self._answer(404, {})

        def _body(self) -> bytes:
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))

        def _answer(self, status: int, value: object) -> None:
            body = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """What it has is enough."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        said.port = server.server_address[1]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield said
        finally:
            server.shutdown()
