"""The monitor on a live crawl: what it answers, who may ask, and what it does; over real HTTP and Redis."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from click.testing import CliRunner
from fastkml import validator
from lxml import etree

import cli
from gcs.errors import ExitCode
from gcs.monitor.shapes.live import EVENTS
from gcs.operate.ruling import operator
from tests import servers
from tests.crawling import gcs, server
from tests.described import exact, operations
from tests.gatherers import Gatherers, gatherers
from tests.monitors import READ, Monitor, events, monitor, until
from tests.servers import Node

HOST = "h000.test"
SCHEMA = Path(validator.__file__).parent / "schema" / "ogckml22.xsd"


@dataclass(slots=True)
class Live:
    """A crawl of two gatherers, and its monitor."""

    redis: Node
    group: Gatherers
    monitor: Monitor

    def status(self) -> Any:
        """What `gcs status --json` says."""
        options = ["-s", f"redis.url={self.redis.url}", "-s", "member.heartbeat=200ms"]
        said = gcs("status", "--json", *options, timeout=90)
        assert said.returncode == 0, said.stderr
        return json.loads(said.stdout)


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A crawl that has come to rest, and stays there for as long as nobody changes something."""
    place = tmp_path_factory.mktemp("live")
    settings = ["member.leave_when_finished=false", "fetch.delay=10ms", "rebalance.cooldown=1m"]
    with ExitStack() as stack:
        redis = stack.enter_context(servers.redis_server("redis"))
        served = stack.enter_context(server(place / "web", 5, 5, 60))
        group = stack.enter_context(gatherers(redis, served, place / "gatherers", settings))
        watched = stack.enter_context(monitor(redis.url, place / "monitor"))
        for name in ("one", "two"):
            group.start(name)
        until(lambda: watched.get("overview")["gatherers"]["present"] == 2)
        watched.post("seeds", {"urls": list(served.web.seeds)})
        until(lambda: watched.get("overview")["state"] == "finished")
        yield Live(redis, group, watched)


def test_it_agrees_with_status(live: Live) -> None:
    """What the page shows is what `gcs status --json` says, number by number."""
    rows = until(lambda: _ended(live.monitor.get("gatherers")["gatherers"]))
    said, overview = live.status(), live.monitor.get("overview")
    moving = {"at", "heard_s_ago", "pages_per_s", "unanswered_s", "beat_s", "overhead_percent", "rest_s"}
    assert overview["state"] == said["state"] == "finished"
    assert overview["why"] == said["why"]
    for name, value in said["totals"].items():
        assert name in moving or overview["totals"][name] == value, name
    assert rows.keys() == {row["id"] for row in said["gatherers"]}
    for row in said["gatherers"]:
        for name, value in row.items():
            assert name in moving or rows[row["id"]][name] == value, name
    told = live.monitor.get("status")
    assert told["code"] == 0
    assert told["facts"]["totals"].keys() == said["totals"].keys()
    assert 0 < overview["finished_at"] <= time.time() + 60


def _ended(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Gatherers by id, once all of them say that they have seen the end: they do so after it was declared."""
    is_over = all(row["standing"] == "finished" for row in rows)
    return {row["id"]: row for row in rows} if is_over else {}


def test_what_was_found(live: Live) -> None:
    """Languages, hosts and latest pages are those of the pages that were fetched."""
    pages = live.monitor.get("overview")["totals"]["pages"]
    languages = until(lambda: (said := live.monitor.get("languages"))["pages"] and said)
    assert sum(row["pages"] for row in languages["languages"]) == languages["pages"] <= pages
    assert [table["name"] for table in languages["gatherers"]] == ["one", "two"]
    assert sum(table["pages"] for table in languages["gatherers"]) == languages["pages"]
    countries = live.monitor.get("countries")
    assert countries["countries"] == []
    assert {row["domain"] for row in countries["elsewhere"]} == {"test"}
    hosts = live.monitor.get("hosts", order="largest")["hosts"]
    assert hosts[0]["pages"] == max(row["pages"] for row in hosts) > 0
    until(lambda: any(row["title"] for row in live.monitor.get("pages", most=50)["pages"]))
    latest = live.monitor.get("pages", most=50)
    numbers = [row["number"] for row in latest["pages"]]
    assert numbers == sorted(numbers, reverse=True)
    word = next(row["title"] for row in latest["pages"] if row["title"]).split()[0]
    assert all(
        word in row["title"] + row["url"] + row["excerpt"]
        for row in live.monitor.get("pages", q=word)["pages"]
    )
    assert live.monitor.get("pages", q="no page has these words")["pages"] == []
    traffic = live.monitor.get("traffic")
    assert traffic["gatherers"] == ["one", "two"]
    assert sum(map(sum, traffic["sent_urls"])) > 0


def test_the_tree_adds_up(live: Live) -> None:
    """What is below a node comes to what stands at it, and owners' shares to the whole."""
    tree = live.monitor.get("tree")
    nodes = tree["nodes"]
    assert sum(node["kind"] == "superpage" for node in nodes) == tree["superpages"] > 0
    for number, node in enumerate(nodes):
        below = [each for each in nodes if each["parent"] == number]
        if node["kind"] == "node":
            assert node["weight"] == pytest.approx(
                sum(each["weight"] for each in below), abs=0.5 + len(below)
            )
        assert sum(node["owners"].values()) == pytest.approx(node["weight"], abs=1)
        assert node["parent"] is None or node["parent"] < number
    plans = live.monitor.get("plans")["plans"]
    assert plans[0]["epoch"] == tree["epoch"]
    assert {row["gatherer"] for row in plans[0]["times"]} == {"one", "two"}
    rates = live.monitor.get("rates")
    assert sorted(rates["gatherers"]) == ["one", "two"]
    assert all(len(site["pages_per_s"]) == 2 for site in rates["sites"])


def test_google_earth(live: Live) -> None:
    """What is for Google Earth is KML by the schema of the OGC, and programs may have it by password."""
    with live.monitor.client("view") as client:
        said = client.get("places.kml")
    assert said.headers["content-type"] == "application/vnd.google-earth.kml+xml"
    etree.XMLSchema(file=str(SCHEMA)).assertValid(etree.fromstring(said.content))
    token = live.monitor.tokens["view"]
    assert httpx.get(f"{live.monitor.url}api/places.kml", auth=("", token)).content.startswith(b"<?xml")
    refused = httpx.get(f"{live.monitor.url}api/places.kml")
    assert refused.headers["www-authenticate"].startswith("Basic")


def test_answers_are_as_described(live: Live) -> None:
    """Whatever is asked for, and what comes of some changes, is described in full, with nothing beside it."""
    page = until(lambda: live.monitor.get("pages", most=1)["pages"])[0]
    asked: dict[str, dict[str, Any]] = {
        "why": {"url": page["url"]},
        "host": {"name": HOST},
        "search": {"q": "page"},
    }
    seen = set()
    with live.monitor.client("operate") as client:
        for operation in operations(exact(live.monitor.get("openapi.json"))):
            path = operation.path.removeprefix("/api/")
            if operation.method == "get" and path not in ("stream", "places.kml"):
                said = client.get(path, params=asked.get(path, {}))
            elif path in ("pause", "resume"):
                said = client.post(path, json={"what": "host", "name": HOST})
            elif path == "plans/dry-run":
                said = client.post(path, json={})
            else:
                continue
            assert said.status_code == httpx.codes.OK, path
            operation.validate_response(said)
            seen.add(path)
    assert seen >= {*READ, "session", "superpages", "why", "host", "pause", "resume", "plans/dry-run"}


# Live


def test_live_events(live: Live) -> None:
    """A listener gets a snapshot first, and then what changes, as it is described."""
    with (
        live.monitor.client("view") as client,
        client.stream("GET", "stream", params={"topics": "overview,gatherers,changed,history"}) as said,
    ):
        assert said.headers["content-type"].startswith("text/event-stream")
        lines = said.iter_lines()
        first = events(lines, ["overview", "gatherers", "changed"])
        for topic, value in first.items():
            msgspec.convert(value, EVENTS[topic])
        assert first["gatherers"]["all"]
        assert {row["name"] for row in first["gatherers"]["changed"]} == {"one", "two"}
        assert first["overview"]["state"] == "finished"
        then = events(lines, ["gatherers", "history"])
        for topic, value in then.items():
            msgspec.convert(value, EVENTS[topic])
        assert not then["gatherers"]["all"]
        whole = first["gatherers"]["changed"][0]
        assert all(len(row) < len(whole) for row in then["gatherers"]["changed"])
        assert then["history"]["point"]["gatherers"].keys() == {"one", "two"}
    assert live.monitor.get("overview")["state"] == "finished"
    with live.monitor.client("view") as client:
        assert client.get("stream", params={"topics": "wrong"}).status_code == 400


def test_the_same_is_not_sent_twice(live: Live) -> None:
    """Who has an answer already is told so, and a long one is compressed."""
    with live.monitor.client("view") as client:
        first = client.get("openapi.json")
        assert first.headers["content-encoding"] == "gzip"
        again = client.get("openapi.json", headers={"if-none-match": first.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")


# Steering


def test_pausing_and_resuming(live: Live) -> None:
    """Who paused the crawl is said, and the log of events has it."""
    said = live.monitor.post("pause", {"what": "crawl"})
    assert said["code"] == 0
    assert "is paused" in said["lines"][0]
    overview = until(lambda: (it := live.monitor.get("overview"))["paused"] and it)
    assert [(each["who"], each["by"]) for each in overview["paused"]] == [("all", "a program with the token")]
    assert live.status()["rulings"]["paused"] == ["*"]
    assert live.monitor.post("resume", {"what": "crawl"})["code"] == 0
    until(lambda: not live.monitor.get("overview")["paused"])
    sentences = [each["sentence"] for each in live.monitor.get("events")["events"]]
    assert any("Ruled: the crawl is paused." in each for each in sentences)
    assert any(each.startswith("By a program with the token: ") for each in sentences)
    with live.monitor.client("operate") as client:
        again = client.post("resume", json={"what": "crawl"})
    assert (again.status_code, "is not paused" in again.json()["error"]) == (400, True)


def test_slowing_a_host_down(live: Live) -> None:
    """A host's delay is ruled, shown, and taken back."""
    said = live.monitor.post("delay", {"host": HOST, "delay_s": 7.5})
    assert said["lines"][0].startswith(f"{HOST} is asked at most every 7s500ms")
    assert live.status()["rulings"]["delays"] == {HOST: 7.5}
    rows = until(lambda: live.monitor.get("hosts", order="largest", q=HOST)["hosts"])
    assert {row["delay_s"] for row in rows} == {7.5}
    assert live.monitor.post("delay", {"host": HOST, "delay_s": None})["code"] == 0
    assert live.status()["rulings"]["delays"] == {}
    with live.monitor.client("operate") as client:
        assert client.post("delay", json={"host": f"{HOST}/a", "delay_s": 9}).status_code == 400
        assert client.post("delay", json={"host": HOST, "delay_s": None}).status_code == 400


def test_planning(live: Live) -> None:
    """A dry run changes nothing; a new plan is followed by all, and remembered with its reason."""
    before = live.monitor.get("tree")["epoch"]
    dry = live.monitor.post("plans/dry-run", {})
    assert dry["lines"][0] == "Nothing was changed."
    assert set(dry["facts"]["remaining_s"]) == {"one", "two"}
    assert live.monitor.get("tree")["epoch"] == before
    made = live.monitor.post("rebalance", {"reason": "a test"})
    assert made["facts"]["adopted"]
    plan = until(lambda: (it := live.monitor.get("plans")["plans"][0])["epoch"] > before and it)
    assert (plan["reason"], plan["because"]) == ("operator: a test", "an operator asked for it (a test)")
    until(lambda: live.monitor.get("tree")["epoch"] == plan["epoch"])


def test_why(live: Live) -> None:
    """A URL can be looked up, and nonsense is refused with a sentence."""
    url = until(lambda: live.monitor.get("pages", most=1)["pages"])[0]["url"]
    assert live.monitor.get("why", url=url)["facts"]["state"] == "done"
    with live.monitor.client("view") as client:
        assert "error" in client.get("why", params={"url": "http://"}).json()
    assert live.monitor.get("host", name=HOST)["facts"]["known"]


def test_over_the_command_line(live: Live, tmp_path: Path) -> None:
    """`gcs --monitor` tells over HTTP what it tells from Redis, with the role of its token."""
    token = tmp_path / "token"

    def run(*words: str, role: str = "operate") -> tuple[int, Any]:
        token.write_text(live.monitor.tokens[role] + "\n")
        options = ["--monitor", live.monitor.url, "--token-file", str(token)]
        result = CliRunner().invoke(cli.main, [*options, *words])
        return result.exit_code, result.output

    code, said = run("status", "--json", role="view")
    assert code == 0
    assert json.loads(said)["totals"]["pages"] == live.status()["totals"]["pages"]
    for words in (
        ["nodes"],
        ["queues"],
        ["superpages"],
        ["seed", "list"],
        ["host", HOST],
        ["rebalance", "--dry-run"],
    ):
        code, said = run(*words)
        assert code == 0, (words, said)
    assert "is paused" in run("pause", "host", HOST)[1]
    said = live.monitor.get("events", most=20)["events"]
    assert any(each["sentence"].startswith(f"By {operator()}: {HOST} is paused") for each in said)
    until(lambda: f"{HOST} is paused" in run("status", role="view")[1])
    assert run("resume", "host", HOST)[0] == 0
    assert ((refused := run("pause", role="view"))[0], "needs operate" in refused[1]) == (4, True)
    assert run("audit")[0] == ExitCode.USAGE
    assert run("why", "http://")[0] == ExitCode.USAGE
    token.write_text("wrong")
    wrong = CliRunner().invoke(cli.main, ["--monitor", live.monitor.url, "--token-file", str(token), "nodes"])
    assert (wrong.exit_code, "This token is wrong" in wrong.output) == (ExitCode.REDIS, True)
    away = CliRunner().invoke(cli.main, ["--monitor", "http://127.0.0.1:1/", "nodes"], env={"GCS_TOKEN": "x"})
    assert (away.exit_code, "does not answer" in away.output) == (ExitCode.REDIS, True)
    plain = CliRunner().invoke(
        cli.main, ["--monitor", "http://gcs.example/", "nodes"], env={"GCS_TOKEN": "x"}
    )
    assert (plain.exit_code, "https only" in plain.output) == (ExitCode.CONFIG, True)


# When things go wrong


def test_a_gatherer_that_dies_and_comes_back(live: Live) -> None:
    """Everything is answered while a gatherer is down; that it is silent, and back, is noted."""
    live.group.kill("two")
    overview = until(lambda: (it := live.monitor.get("overview"))["gatherers"]["absent"] == 1 and it)
    assert any("two is silent" in each for each in overview["alarms"])
    for path in READ:
        live.monitor.get(path)
    assert [each["name"] for each in live.monitor.get("languages")["gatherers"]] == ["one", "two"]
    live.group.start("two")
    until(lambda: live.monitor.get("overview")["gatherers"]["absent"] == 0)
    kinds = {each["kind"] for each in live.monitor.get("events")["events"] if each["who"] == "two"}
    assert {"silent", "back", "restarted"} <= kinds


def test_redis_that_is_away(live: Live) -> None:
    """What was seen last stays, with a sentence that says since when nothing can be seen."""
    live.redis.pause()
    try:
        overview = until(lambda: not (it := live.monitor.get("overview"))["reach"]["redis"] and it)
        assert overview["reach"]["sentence"]
        assert overview["totals"]["pages"] > 0
        with live.monitor.client("view") as client:
            refused = client.get("status")
            assert (refused.status_code, "retry-after" in refused.headers) == (503, True)
        assert live.monitor.get("tree")["nodes"]
    finally:
        live.redis.resume()
    until(lambda: live.monitor.get("overview")["reach"]["redis"])
    kinds = [each["kind"] for each in live.monitor.get("events")["events"]]
    assert kinds.count("redis") >= 2


def test_a_restart_of_the_monitor(live: Live, tmp_path: Path) -> None:
    """History, events and sessions outlive it, those that were ended do not; it ends soon for all."""
    directory = tmp_path / "monitor"
    with monitor(live.redis.url, directory) as first:
        origin = {"origin": first.url.rstrip("/")}
        with httpx.Client(base_url=f"{first.url}api/", headers=origin) as client:
            signed_in = [client.post("session", json={"token": first.tokens["view"]}) for _ in range(2)]
            cookies, ended = (dict(each.cookies) for each in signed_in)
            assert client.request("DELETE", "session").status_code == 204
        until(lambda: first.get("history")["recent"]["at"])
        first.post("pause", {"what": "host", "name": HOST})
        first.post("resume", {"what": "host", "name": HOST})
        before = first.get("events")
        points = first.get("history")["recent"]["at"]
        with first.client("view") as client, client.stream("GET", "stream") as said:
            events(said.iter_lines(), ["overview"])
            first.child.send_signal(signal.SIGTERM)
            assert first.child.wait(60) == 0
    with monitor(live.redis.url, directory) as second:
        for found, status in ((cookies, 200), (ended, 401)):
            cookie = "; ".join(f"{name}={value}" for name, value in found.items())
            answer = httpx.get(f"{second.url}api/overview", headers={"cookie": cookie})
            assert answer.status_code == status
        assert second.get("events")["last"] >= before["last"]
        assert set(points) <= {*second.get("history")["recent"]["at"]}
