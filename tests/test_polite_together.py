"""Several gatherers that ask the same hosts and addresses, judged by what the servers saw."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from gcs.simulate.verdict import Request, read_log
from tests import crawling, servers
from tests.gatherers import gatherers

DELAY_S = 0.1
TOLERANCE_S = 0.005


def changes(requests: Sequence[Request], place: Callable[[Request], str]) -> list[float]:
    """The seconds between two requests at the same place, one after the other, of different gatherers."""
    last: dict[str, Request] = {}
    apart = []
    for request in requests:
        before = last.get(place(request))
        if before is not None and before.agent != request.agent:
            apart.append(request.start - before.start)
        last[place(request)] = request
    return apart


@pytest.mark.alone
def test_gatherers_are_as_polite_as_one(tmp_path: Path) -> None:
    """Hosts that are split, and addresses that hosts share, are asked no sooner than one gatherer would."""
    settings = [
        f"fetch.delay={DELAY_S * 1000:.0f}ms",
        "fetch.delay_factor=0",
        "placement.split_hosts=true",
        "partition.worth=0",
    ]
    with (
        servers.redis_server() as redis,
        crawling.server(tmp_path / "web", 5, 6, 240, hosts_per_address=2) as served,
        gatherers(redis, served, tmp_path / "gatherers", settings) as group,
    ):
        group.seed([served.web.seeds[0]])
        for name in ("a", "b", "c"):
            group.start(name, f"fetch.agent={name}")
        group.until(lambda members: len(members) == 3, "three members")
        for _ in range(6):
            group.ask(lambda board: board.ask_for_plan("operator", "test"))
            time.sleep(1)
        assert set(group.wait(150).values()) == {0}
        verdict = served.judged()
        requests = sorted(read_log(served.log), key=lambda request: request.start)
    assert not verdict.missing
    assert not verdict.duplicates
    addresses = {host.name: host.address for host in served.web.hosts}
    at_hosts = changes(requests, lambda request: request.host)
    at_addresses = changes(requests, lambda request: addresses[request.host])
    assert at_hosts
    assert at_addresses
    assert min((*at_hosts, *at_addresses)) >= DELAY_S - TOLERANCE_S
    closest = min((*verdict.closest_s.values(), *verdict.closest_at_address_s.values()))
    assert closest >= DELAY_S - TOLERANCE_S
    assert max((*verdict.most_at_once.values(), *verdict.most_at_once_at_address.values())) == 1
