"""Monitoring of real processes: what they say is well formed, true, and never goes back."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

from tests.crawling import ROOT, command, gcs, server
from tests.gatherers import Gatherers, gatherers
from tests.scrapes import Scrape, get, place_of, scrape
from tests.servers import redis_server
from tests.test_alarms import TABLES

LISTEN = "metrics.listen=127.0.0.1:0"
STAY = "member.leave_when_finished=false"


def place(group: Gatherers, name: str) -> str:
    return place_of(group.processes[name].log)


def until(
    places: list[str],
    condition: Callable[[list[Scrape]], object],
    what: str,
    *,
    timeout_s: float = 150.0,
) -> list[list[Scrape]]:
    """Scrape again and again; all that was said until a condition held."""
    deadline = time.monotonic() + timeout_s
    seen: list[list[Scrape]] = []
    while not seen or not condition(seen[-1]):
        assert time.monotonic() < deadline, (what, seen[-1])
        seen.append([scrape(each) for each in places])
        time.sleep(0.1)
    return seen


def scrape_soon(where: str) -> Scrape:
    """What a process says that has just been started."""
    for _ in range(300):
        with suppress(OSError):
            return scrape(where)
        time.sleep(0.1)
    return scrape(where)


def never_less(seen: list[Scrape]) -> None:
    """No counter goes down, and none goes away."""
    for before, after in pairwise(seen):
        now = after.grown()
        for sample, value in before.grown().items():
            assert now[sample] >= value, sample


def finished(scrapes: list[Scrape]) -> bool:
    return all(each.at("gcs_standing", standing="finished") == 1 for each in scrapes)


def test_a_crawl_by_two_with_a_helper(tmp_path: Path) -> None:
    """From the first page to the end: what two gatherers and a helper say adds up, and never goes back."""
    slow = ["fetch.concurrency=4", "fetch.per_host=2"]
    with (
        server(tmp_path / "web", 5, hosts=20, pages=600, latency_ms=10) as served,
        redis_server() as node,
        gatherers(node, served, tmp_path / "g", [STAY, LISTEN, "helpers.sites=office", *slow]) as group,
    ):
        group.help("desk", group.invite("desk"), settings=[LISTEN])
        group.start("one")
        group.start("two")
        places = [place(group, "one"), place(group, "two")]
        begun = until(
            places,
            lambda both: (
                {each["gcs_plan_epoch"] for each in both} != {0.0}
                and all(each.at("gcs_gatherers", state="alive") == 2 for each in both)
                and all(each.at("gcs_standing", standing="crawling") for each in both)
            ),
            "both",
        )
        assert all(each["gcs_pages_total"] == 0 for each in begun[-1])
        group.seed(served.web.seeds)
        seen = until([*places, place(group, "desk")], lambda all_: finished(all_[:2]), "the end")
        assert get(places[0], "/healthz") == (200, "All is well.\n")
        members = group.members()
    for each in zip(*seen, strict=True):
        never_less(list(each))
    one, two, desk = seen[-1]
    names = {role: {meter.name for meter in table} for role, table in TABLES.items()}
    assert one.kinds.keys() == names["all"] | names["crawl, gatherer"] | names["gatherer"]
    assert desk.kinds.keys() == names["all"] | names["helper"]
    both = (one, two)
    facts = [members[name].pulse.facts for name in ("one", "two")]
    assert [each["gcs_pages_total"] for each in both] == [each["pages"] for each in facts]
    assert [each["gcs_fetched_bytes_total"] for each in both] == [each["bytes"] for each in facts]
    # Who has met none says nothing of them.
    failures = [each["gcs_failures_total"] for each in both if "gcs_failures_total" in each]
    assert sum(failures) == sum(each["failed"] for each in facts)
    for state in ("queued", "done", "dropped", "passed"):
        said = [each.at("gcs_urls", state=state) for each in both]
        assert said == [each[state] for each in facts]
    assert one["gcs_plan_epoch"] == two["gcs_plan_epoch"] == members["one"].pulse.epoch
    assert sum(each["gcs_rounds_total"] for each in both) >= 1
    assert all(each["gcs_plans_adopted_total"] >= 1 for each in both)
    assert one.at("gcs_exchanged_urls_total", direction="sent") == two.at(
        "gcs_exchanged_urls_total", direction="received"
    )
    assert all(each["gcs_outbox_urls"] == each["gcs_outbox_full"] == 0 for each in both)
    assert all(each["gcs_redis_up"] == each["gcs_well"] == 1 for each in (*both, desk))
    assert all(each["gcs_disk_free_bytes"] > 0 and each["gcs_commit_seconds_count"] > 0 for each in both)
    assert desk["gcs_helper_pages_total"] >= sum(each["gcs_helped_pages_total"] for each in both) > 0
    assert sum(each.at("gcs_helpers", state="working") for each in both) == 2


def test_a_restart_begins_at_zero(tmp_path: Path) -> None:
    """What the store has counted for longer than the process is not told again after a restart."""
    with (
        server(tmp_path / "web", 5, hosts=5, pages=60) as served,
        redis_server() as node,
        gatherers(node, served, tmp_path / "g", [STAY, f"metrics.listen=unix:{tmp_path}/s"]) as group,
    ):
        group.start("one")
        where = place(group, "one")
        until([where], lambda one: one[0]["gcs_plan_epoch"], "a plan")
        group.seed(served.web.seeds)
        before = until([where], finished, "the end")[-1][0]
        group.kill("one")
        group.start("one")
        after = scrape_soon(where)
    assert before["gcs_pages_total"] > 0
    assert after.at("gcs_urls", state="done") == before.at("gcs_urls", state="done")
    for name in ("gcs_pages_total", "gcs_fetched_bytes_total", "gcs_failures_total", "gcs_moved_urls_total"):
        assert after[name] == 0


def test_redis_is_away(tmp_path: Path) -> None:
    """A gatherer without its Redis says so, and is well all the same."""
    with server(tmp_path / "web", 5, hosts=5, pages=50) as served, redis_server() as node:
        settings = [STAY, LISTEN, "redis.timeout=1s"]
        with gatherers(node, served, tmp_path / "g", settings) as group:
            group.start("one")
            where = place(group, "one")
            until([where], lambda one: one[0]["gcs_redis_up"], "Redis")
            node.pause()
            away = until([where], lambda one: not one[0]["gcs_redis_up"], "no Redis")[-1][0]
            assert away["gcs_heartbeat_age_seconds"] > 0
            assert get(where, "/healthz")[0] == 200
            node.resume()
            until([where], lambda one: one[0]["gcs_redis_up"], "Redis again")


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    """Whatever cannot listen where it should ends with one sentence, and the code for a wrong setting."""
    with (
        server(tmp_path / "web", 5, hosts=5, pages=50) as served,
        redis_server() as node,
        gatherers(node, served, tmp_path / "g", ["helpers.sites=office"]) as group,
        socket.create_server(("127.0.0.1", 0)) as other,
    ):
        taken = f"127.0.0.1:{other.getsockname()[1]}"
        for arguments in (
            ["gatherer", "--into", str(tmp_path / "x"), "-s", f"redis.url={node.url}"],
            ["helper", "--invitation", str(group.invite("desk"))],
            ["crawl", served.web.seeds[0], "--into", str(tmp_path / "x")],
        ):
            ended = gcs(*arguments, "-s", f"metrics.listen={taken}", hosts=served.hosts, timeout=90)
            said = ended.stderr.splitlines()[-1]
            assert ended.returncode == 3
            assert said.startswith(f"gcs: metrics.listen: nothing can listen at {taken}: Address already in")
        assert not (tmp_path / "x").exists()


def test_a_crawl_by_one(tmp_path: Path) -> None:
    """`gcs crawl` says what it measures too."""
    with server(tmp_path / "web", 5, hosts=10, pages=300, latency_ms=20) as served:
        log = tmp_path / "log"
        line = command("crawl", *served.web.seeds, "--into", str(tmp_path / "c"), hosts=served.hosts)
        line += ["-s", LISTEN, "-s", "fetch.concurrency=2", "-s", "store.keep_free=0B"]
        with log.open("wb") as file, subprocess.Popen(line, cwd=ROOT, stderr=file) as child:
            where = place_of(log)
            seen = until([where], lambda one: one[0]["gcs_pages_total"] > 20, "some pages")
            assert get(where, "/healthz")[0] == 200
            child.terminate()
            assert child.wait(60) == 130
    never_less([each[0] for each in seen])
    assert seen[-1][0].at("gcs_urls", state="queued") > 0


def test_several_on_one_machine(tmp_path: Path) -> None:
    """The gatherers of `gcs crawl -n 2` listen at places side by side."""
    with server(tmp_path / "web", 5, hosts=10, pages=300, latency_ms=20) as served:
        line = command(
            "crawl", *served.web.seeds, "-n", "2", "--into", str(tmp_path / "c"), hosts=served.hosts
        )
        line += ["-s", f"metrics.listen=unix:{tmp_path}/s", "-s", "store.keep_free=0B"]
        with subprocess.Popen(line, cwd=ROOT, stderr=subprocess.DEVNULL) as child:
            places = [place_of(tmp_path / "c" / f"{number}.log") for number in (1, 2)]
            names = [dict(labels)["name"] for each in places for _, labels in _infos(scrape(each))]
            child.terminate()
            child.wait(60)
    assert places == [f"unix:{tmp_path}/s", f"unix:{tmp_path}/s.1"]
    assert names == ["g1", "g2"]


def _infos(found: Scrape) -> list[tuple[str, tuple[tuple[str, str], ...]]]:
    return [sample for sample in found.samples if sample[0] == "gcs_info"]
