"""The act `failover`: in the middle of a crawl Sentinel makes a replica the master, which has missed some.

The replica's link to its master is cut first, so what gatherers write for a while reaches the master only.
Then the master is killed. What gatherers had sent to each other is sent again, and what was in force is put
up again. The old master comes back as a replica, and the next time it is its turn.
"""

from __future__ import annotations

import random
import tempfile
import time
from pathlib import Path
from typing import Final

from tests.crawling import server
from tests.gatherers import gatherers
from tests.servers import PASSWORD, Node, SentinelGroup, sentinel_group
from tests.soak.progress import Progress
from tests.soak.trial import SETTINGS, Trial

CUT_OFF_S: Final = 1.0
"""How long the replica misses what is written."""
_NAMES: Final = ("one", "two", "three")


def fail_over(pages: int, hosts: int, rng: random.Random, progress: Progress, *, times: int = 1) -> str:
    """Kill masters; gives the verdict or raises Failed."""
    with (
        tempfile.TemporaryDirectory() as place,
        server(Path(place, "web"), rng.randrange(1000), hosts=hosts, pages=pages, latency_ms=10) as served,
        sentinel_group("redis") as sentinels,
        gatherers(sentinels.url, served, Path(place, "gatherers"), SETTINGS) as group,
    ):
        trial = Trial(group, served, progress)
        trial.begin(*_NAMES)
        missed: list[int] = []
        for number in range(times):
            share = 0.4 + 0.5 * number / times
            trial.at(share, "the master is killed", lambda: missed.append(_replaced(sentinels)))
        trial.end()
        verdict = trial.verdict(*("the replica had missed nothing" for each in missed if not each))
        return f"{times} failovers, in which {sum(missed):,} bytes were lost; {verdict}"


def _replaced(sentinels: SentinelGroup) -> int:
    """Kill the master when its replica has missed something; gives how much that was, in bytes."""
    missed: list[int] = []
    old = sentinels.master
    (replica,) = (server for server in sentinels.servers if server is not old)
    new = sentinels.failover(before=lambda master: missed.append(_miss(master, replica)))
    with new.client() as client:
        client.config_set("masterauth", PASSWORD)
        client.config_rewrite()  # as the sentinels have done with the wrong one
    old.restart()
    return missed[0]


def _miss(master: Node, replica: Node) -> int:
    """Cut a replica off from its master for a while; gives what was written meanwhile, in bytes."""
    with replica.client() as client:
        client.config_set("masterauth", "not the password")
        client.client_kill_filter(_type="master")
        time.sleep(CUT_OFF_S)
        had = int(client.info("replication")["slave_repl_offset"])
    with master.client() as client:
        return int(client.info("replication")["master_repl_offset"]) - had
