"""Priorities on their way to gatherers that run: real processes, on a real Redis."""

from __future__ import annotations

import json
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from click.testing import CliRunner

import cli
from gcs import config
from gcs.core.urls import key
from gcs.rank import taking
from gcs.store.records import State
from gcs.store.store import Store
from tests import servers
from tests.crawling import server
from tests.gatherers import gatherers


def test_every_owner_gets_its_priorities(tmp_path: Path) -> None:
    """Each of two gatherers has, of all URLs that it owns and the ranking knows, what the ranking says."""
    settings = [
        "rebalance.cooldown=500ms",
        "member.leave_when_finished=false",
        "store.segment_rows=1000000",
        "fetch.delay=150ms",
    ]
    with (
        servers.redis_server("redis") as redis,
        server(tmp_path / "web", 5, 6, 250) as served,
        gatherers(redis, served, tmp_path / "gatherers", settings) as group,
    ):
        options = ["-s", f"redis.url={redis.url}", "-s", "member.heartbeat=200ms"]

        def run(*arguments: str, code: int = 0) -> str:
            result = CliRunner().invoke(cli.main, [*arguments, *options])
            assert result.exit_code == code, result.output
            return result.stdout or result.stderr

        for name in "AB":
            group.start(name)
        group.until(lambda seen: len(seen) == 2 and all(m.pulse.epoch for m in seen.values()), "two")
        run("seed", "add", *served.web.seeds)
        group.until(
            lambda seen: (
                len(seen) == 2 and all(m.pulse.facts.get("done") and m.pulse.ended for m in seen.values())
            ),
            "the end",
        )
        places = [group.processes[name].directory for name in "AB"]
        into = [word for place in places for word in ("--into", str(place))]
        ranked = json.loads(run("rank", *into, "-o", str(tmp_path / "ranking"), "--json"))
        assert ranked["failed"] == {}
        assert ranked["delivered"] == ranked["new"] + ranked["old"] > 100
        group.stop()
    table = pq.read_table(tmp_path / "ranking").to_pylist()
    said = {key(row["url"]): (float(row["in_degree"]), row["in_degree"] + row["out_degree"]) for row in table}
    taken = 0
    for place in places:
        with Store.open(place, config.Store(keep_free_bytes=0), resume=True) as store:
            assert store.get_meta(taking.RANKING)
            owned = [each for each, row in store.scan("") if row.state is not State.PASSED and each in said]
            found = [(each.key, (each.new, each.old)) for each in store.priorities(owned) if each]
            assert found == [(each, said[each]) for each in owned]
            taken += len(found)
    assert taken == ranked["known"] > 100


def test_rankings_on_a_schedule(tmp_path: Path) -> None:
    """One of two gatherers ranks what it can read of both, and tells both, at most once in an interval."""
    into = tmp_path / "gatherers"
    settings = [
        "rank.every=10s",
        f"rank.directories={into / 'A'} {into / 'B'} {into / 'nobody'}",
        "store.segment_rows=100",
        "fetch.delay=0s",
        "member.leave_when_finished=false",
        "log.format=json",
    ]

    def told(event: str) -> list[dict[str, Any]]:
        lines = [each for name in "AB" for each in (into / f"{name}.log").read_text().splitlines()]
        said = [json.loads(each) for each in lines if each.startswith("{")]
        return [each for each in said if each["event"] == event]

    with (
        servers.redis_server("redis") as redis,
        server(tmp_path / "web", 5, 4, 100) as served,
        gatherers(redis, served, into, settings) as group,
    ):
        began = time.time()
        for name in "AB":
            group.start(name)
        group.until(lambda seen: len(seen) == 2 and all(m.pulse.epoch for m in seen.values()), "two")
        group.seed(served.web.seeds)
        servers.until(lambda: told("ranked"), "a ranking", timeout_s=120)
        assert time.time() - began >= 10
        (ranked,) = told("ranked")
        assert ranked["links_missing_of"] == []
        assert ranked["delivered"] == ranked["new"] + ranked["old"]
        assert ranked["known"] > 100
        for name in "AB":
            group.kill(name)
            group.start(name)
        servers.until(lambda: len(told("ranking")) > 1, "another ranking", timeout_s=120)
        first, second = (datetime.fromisoformat(each["timestamp"]) for each in told("ranking")[:2])
        assert abs(second - first) > timedelta(seconds=9)
        servers.until(lambda: len(told("ranked")) > 1, "the end of that", timeout_s=120)
        group.stop()
    known = 0
    for name in "AB":
        with Store.open(into / name, config.Store(keep_free_bytes=0), resume=True) as store:
            known += sum(store.priorities([each]) != [None] for each, _ in store.scan(""))
    assert known >= max(each["known"] for each in told("ranked"))
