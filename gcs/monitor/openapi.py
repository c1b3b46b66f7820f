"""The API for programs: an OpenAPI 3.1 document, made from the addresses and the types that serve them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec
from msgspec import Struct

import gcs
from gcs.monitor.answers import JSON
from gcs.monitor.endpoints import Endpoint

VERSION: Final = "3.1.0"
_REFERENCE: Final = "#/components/schemas/{name}"
_ERROR: Final = {
    "type": "object",
    "required": ["error"],
    "properties": {"error": {"type": "string", "description": "What is wrong, in a sentence."}},
}
_REFUSALS: Final = {
    "400": "It makes no sense, or cannot be done now",
    "401": "Not signed in, or the wrong token",
    "403": "Not allowed for this role, or from this page",
    "408": "The request did not come to its end",
    "413": "The request is too long",
    "415": "The request is not JSON",
    "421": "The host is not one of the monitor's",
    "429": "Too many wrong tokens",
    "503": "Redis cannot be used, or too many ask at once",
}
_RETRY: Final = {"Retry-After": {"schema": {"type": "integer"}, "description": "Seconds to wait."}}


def document(endpoints: Iterable[Endpoint], cookie: str) -> dict[str, Any]:
    """The whole description; `cookie` is what sessions are called."""
    listed = list(endpoints)
    described = _Described(listed)
    paths: dict[str, dict[str, Any]] = {}
    for each in listed:
        paths.setdefault(f"/api/{each.path}", {})[each.method.lower()] = _operation(each, described)
    return {
        "openapi": VERSION,
        "info": {
            "title": "GCS monitor",
            "version": gcs.__version__,
            "description": "See how a crawl goes, and steer it. docs/monitor.md says what the answers mean.",
        },
        "servers": [{"url": "..", "description": "The monitor's base path."}],
        "paths": paths,
        "security": [{"token": []}, {"session": []}],
        "components": {
            "schemas": described.components | {"Error": _ERROR},
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "session": {"type": "apiKey", "in": "cookie", "name": cookie},
            },
        },
    }


class _Described:
    """The types of some addresses: how each is referred to, and what is behind that."""

    def __init__(self, endpoints: Iterable[Endpoint]) -> None:
        listed = list(endpoints)
        kinds = [kind for each in listed for kind in (each.body, each.gives, *each.events.values())]
        kinds = [kind for kind in kinds if kind is not None]
        schemas, self.components = msgspec.json.schema_components(kinds, ref_template=_REFERENCE)
        self._by_kind = list(zip(kinds, schemas, strict=True))

    def __getitem__(self, kind: Any) -> dict[str, Any]:
        return next(schema for each, schema in self._by_kind if each == kind)


def _operation(endpoint: Endpoint, described: _Described) -> dict[str, Any]:
    words = endpoint.path.replace("/", "-").replace(".", "-").split("-")
    made: dict[str, Any] = {
        "operationId": endpoint.method.lower() + "".join(word.capitalize() for word in words),
        "summary": endpoint.summary,
        "responses": _responses(endpoint, described),
    }
    if endpoint.is_open:
        made["security"] = [{}]
    if endpoint.query is not None:
        made["parameters"] = _parameters(endpoint.query)
    if endpoint.body is not None:
        made["requestBody"] = {"required": True, "content": {JSON: {"schema": described[endpoint.body]}}}
    if endpoint.events:
        made["x-events"] = {topic: described[kind] for topic, kind in endpoint.events.items()}
    return made


def _parameters(query: type[Struct]) -> list[dict[str, Any]]:
    (_,), components = msgspec.json.schema_components([query])
    schema = components[query.__name__]
    required = schema.get("required", [])
    return [
        {"name": name, "in": "query", "required": name in required, "schema": each}
        for name, each in schema["properties"].items()
    ]


def _responses(endpoint: Endpoint, described: _Described) -> dict[str, Any]:
    refused = {"description": "", "content": {JSON: {"schema": {"$ref": _REFERENCE.format(name="Error")}}}}
    answers: dict[str, Any] = {
        status: {**refused, "description": why} | ({"headers": _RETRY} if status in ("429", "503") else {})
        for status, why in _REFUSALS.items()
    }
    if endpoint.method == "DELETE":
        return answers | {"204": {"description": "Done"}}
    schema = {"type": "string"} if endpoint.gives is None else described[endpoint.gives]
    told = {"description": "The answer", "content": {endpoint.media: {"schema": schema}}}
    return answers | {"200": told}
