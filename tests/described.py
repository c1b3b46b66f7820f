"""The monitor's API by its own description, for tests."""

from __future__ import annotations

from typing import Any

import schemathesis
from schemathesis.core.result import Ok


def operations(document: Any) -> list[Any]:
    """All that a description names."""
    found = schemathesis.openapi.from_dict(document).get_all_operations()
    return [each.ok() for each in found if isinstance(each, Ok)]


def exact(schema: Any) -> Any:
    """The same description, by which nothing may be in an answer that it does not name."""
    if isinstance(schema, list):
        return [exact(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: exact(each) for name, each in schema.items()}
    return {"additionalProperties": False, **made} if "properties" in made else made
