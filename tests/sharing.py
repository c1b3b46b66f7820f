"""Which test runs in which of several processes, and what runs first.

The tests of a file share servers and other things that are dear to make, so they run in one process. Of files
that share next to nothing, and whose tests take long, each test is by itself. What takes longest begins
first: nobody waits in the end for one process that has just begun with it.
"""

from __future__ import annotations

from typing import Final

import pytest
from xdist.scheduler import LoadScopeScheduling

APART: Final = frozenset(
    {
        "test_benchmarks",
        "test_collusion",
        "test_gatherers",
        "test_lending",
        "test_loans",
        "test_malice",
        "test_monitor_crawl",
        "test_monitoring",
        "test_outages",
        "test_service",
        "test_soak",
        "test_standstill",
    }
)
"""Files whose tests are by themselves."""
LONGEST: Final = (
    "test_operations",
    "test_store_model",
    "test_rank_spark",
    "test_gatherers",
    "test_standstill",
    "test_outages",
    "test_malice",
    "test_monitor_page",
    "test_systemd_real",
    "test_failures",
    "test_conformance",
    "test_monitor",
    "test_node",
    "test_fleet",
    "test_benchmarks",
    "test_collusion",
    "test_lending",
    "test_loans",
    "test_monitoring",
    "test_demo",
    "test_monitor_crawl",
    "test_soak",
    "test_space_model",
    "test_revisit_crawl",
    "test_monitor_access",
    "test_crawl_killed",
    "test_simulate_freshness",
    "test_simulated_cluster",
    "test_service",
    "test_helper_pack",
    "test_crawl_hostile",
    "test_election",
    "test_rank_together",
    "test_simulate_placement",
)
"""Files that take longest, in this order; all others come after them."""
_RANKS: Final = {name: rank for rank, name in enumerate(LONGEST)}


def rank(nodeid: str) -> int:
    """Where a test stands in line."""
    return _RANKS.get(_file(nodeid), len(LONGEST))


class Sharing(LoadScopeScheduling):  # type: ignore[misc] # it has no annotations
    """Gives every process a file at a time, or a test, in the order in which they were collected."""

    def __init__(self, config: pytest.Config, log: object = None) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        return nodeid if _file(nodeid) in APART else nodeid.partition("::")[0]


def _file(nodeid: str) -> str:
    return nodeid.partition("::")[0].rpartition("/")[2].removesuffix(".py")
