"""The API for programs: an OpenAPI 3.1 document, made from the addresses and the types that serve them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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


def document(endpoints: Iterable[Endpoint]) -> dict[str, Any]:
    """The whole description."""
    listed = list(endpoints)
    types = [kind for each in listed for kind in (each.query, each.body) if kind is not None]
    _, schemas = msgspec.json.schema_components(types, ref_template=_REFERENCE)
    paths: dict[str, dict[str, Any]] = {}
    for each in listed:
        paths.setdefault(f"/api/{each.path}", {})[each.method.lower()] = _operation(each, schemas)
    bodies = {each.body.__name__ for each in listed if each.body is not None}
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
            "schemas": {name: schema for name, schema in schemas.items() if name in bodies}
            | {"Error": _ERROR},
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "session": {"type": "apiKey", "in": "cookie", "name": "gcs_session"},
            },
        },
    }


def _operation(endpoint: Endpoint, schemas: Mapping[str, Any]) -> dict[str, Any]:
    words = endpoint.path.replace("/", "-").replace(".", "-").split("-")
    made: dict[str, Any] = {
        "operationId": endpoint.method.lower() + "".join(word.capitalize() for word in words),
        "summary": endpoint.summary,
        "responses": _responses(endpoint),
    }
    if endpoint.is_open:
        made["security"] = [{}]
    if endpoint.query is not None:
        made["parameters"] = _parameters(schemas[endpoint.query.__name__])
    if endpoint.body is not None:
        schema = {"$ref": _reference(endpoint.body)}
        made["requestBody"] = {"required": True, "content": {JSON: {"schema": schema}}}
    return made


def _parameters(schema: Mapping[str, Any]) -> list[dict[str, Any]]:
    required = schema.get("required", [])
    return [
        {"name": name, "in": "query", "required": name in required, "schema": each}
        for name, each in schema["properties"].items()
    ]


def _responses(endpoint: Endpoint) -> dict[str, Any]:
    refused = {"description": "", "content": {JSON: {"schema": {"$ref": _REFERENCE.format(name="Error")}}}}
    answers: dict[str, Any] = {
        status: {**refused, "description": why} | ({"headers": _RETRY} if status in ("429", "503") else {})
        for status, why in _REFUSALS.items()
    }
    if endpoint.method == "DELETE":
        return answers | {"204": {"description": "Done"}}
    schema: dict[str, Any] = {"type": "string"}
    if endpoint.media == JSON:
        schema = {
            "type": "object",
            "required": list(endpoint.gives),
            "properties": {name: {} for name in endpoint.gives},
        }
    told = {"description": "The answer", "content": {endpoint.media: {"schema": schema}}}
    return answers | {"200": told}


def _reference(kind: type[Struct]) -> str:
    return _REFERENCE.format(name=kind.__name__)
