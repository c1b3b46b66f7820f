"""The monitor's API, asked by its own description what nobody would: nothing fails, and roles hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from schemathesis.checks import not_a_server_error
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests import servers
from tests.described import exact, operations
from tests.monitors import Monitor, monitor, until

EXAMPLES = 6
"""For each of some thirty operations, good and bad."""
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
HARD = settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Monitor]:
    """A monitor that sees nobody, so that what is asked of gatherers is refused at once."""
    place = tmp_path_factory.mktemp("monitor")
    with servers.redis_server("redis") as redis, monitor(redis.url, place, "member.heartbeat=50ms") as one:
        until(lambda: one.get("overview")["state"] == "stuck")
        yield one


def asked_for(page: Monitor) -> list[Any]:
    """All that the API describes, but the stream, which never ends, and signing in."""
    found = operations(exact(page.get("openapi.json")))
    chosen = [each for each in found if each.path.rpartition("/")[2] not in ("stream", "session")]
    assert len(chosen) >= 30
    return chosen


def asked(operation: Any, check: Callable[[Any], None]) -> None:
    """Ask an operation some things that it describes, and some that it does not."""
    for mode in GenerationMode:

        @seed(7)
        @HARD
        @given(case=operation.as_strategy(generation_mode=mode))
        def ask(case: Any) -> None:
            # Who asks is for the test to say.
            case.headers = {name: value for name, value in case.headers.items() if name != "Authorization"}
            case.cookies = {}
            check(case)

        ask()


def test_without_a_role(page: Monitor) -> None:
    """Whatever a viewer, or nobody, wants to change is refused, and nothing has changed."""

    def state() -> tuple[Any, Any]:
        return page.get("status")["facts"]["rulings"], page.get("seeds")["facts"]["waiting"]

    before = state()

    def check(case: Any) -> None:
        for headers in ({"authorization": f"Bearer {page.tokens['view']}"}, {}):
            said = case.call(base_url=page.url.rstrip("/"), headers=headers, timeout=20)
            assert said.status_code in (401, 403, 415), (case.method, case.path, said.status_code)

    changes = [each for each in asked_for(page) if each.method.upper() != "GET"]
    assert len(changes) >= 9
    for operation in changes:
        asked(operation, check)
    assert state() == before


def test_with_a_role(page: Monitor) -> None:
    """Whatever an operator asks for, nothing fails inside, and answers are as they are described."""
    headers = {"authorization": f"Bearer {page.tokens['operate']}"}
    statuses: Counter[int] = Counter()

    def check(case: Any) -> None:
        url = page.url.rstrip("/")
        said = case.call_and_validate(base_url=url, headers=headers, checks=CHECKS, timeout=20)
        statuses[said.status_code] += 1

    for operation in asked_for(page):
        asked(operation, check)
    assert statuses[200] > 30
    assert statuses[400] > 30
    assert not statuses[401] + statuses[403] + statuses[429]
