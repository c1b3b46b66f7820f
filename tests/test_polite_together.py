"""Several gatherers that ask the same hosts and addresses, judged by what the servers saw."""

from __future__ import annotations

import time
from pathlib import Path

from tests import crawling, servers
from tests.gatherers import gatherers

DELAY_S = 0.02
TOLERANCE_S = 0.005


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
        crawling.server(tmp_path / "web", 5, 6, 500, hosts_per_address=2) as served,
        gatherers(redis, served, tmp_path / "gatherers", settings) as group,
    ):
        group.seed([served.web.seeds[0]])
        for name in ("a", "b", "c"):
            group.start(name, f"fetch.agent={name}")
        group.until(lambda members: len(members) == 3, "three members")
        for _ in range(8):
            group.ask(lambda board: board.ask_for_plan("operator", "test"))
            time.sleep(1)
        assert set(group.wait(60).values()) == {0}
        verdict = served.judged()
    assert not verdict.missing
    assert not verdict.duplicates
    assert not verdict.impolite(DELAY_S, tolerance_s=TOLERANCE_S)
    assert min(verdict.closest_at_address_s.values()) >= DELAY_S - TOLERANCE_S
