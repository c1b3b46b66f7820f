"""`gcs why` in a crawl of gatherers: what is made of what they tell, and the command itself."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from click.testing import CliRunner

import cli
from gcs.core.politeness import LineOutlook, Workbench
from gcs.operate.inquiry import next_step
from gcs.store.records import Row, State
from tests import servers
from tests.crawling import server
from tests.gatherers import gatherers
from tests.test_operate import member, until, view

QUEUED = {"state": "queued", "status": None, "attempts": 0}


def told(**said: Any) -> dict[str, Any]:
    """What a gatherer tells of a URL that could be fetched at once."""
    host = {"rest_s": 0.0, "distance_s": 1.0, "crawl_delay_s": 0.0, "failures": 0, "lines": []}
    plain = {
        "row": QUEUED,
        "range": "held",
        "scope": "no rule is against it",
        "under_way": False,
        "lent_to": "",
        "retry_s": 0.0,
        "aside_s": 0.0,
        "host_queued": 7,
        "paused": False,
        "rests": False,
        "barred": False,
        "host": host,
    }
    return plain | said


@pytest.mark.parametrize(
    ("said", "turn", "step"),
    [
        ({"row": None}, "", "nothing: no page that was fetched has named it"),
        ({"row": None, "scope": "crawl.skip has jpg"}, "", "crawl.skip has jpg"),
        ({"row": {"state": "done"}}, "", "nothing"),
        ({"row": {"state": "passed"}}, "", "another gatherer is to fetch it"),
        ({"under_way": True}, "", "A fetches it now"),
        ({"under_way": True, "lent_to": "office"}, "", "it is lent to office"),
        ({"barred": True}, "", "it is dropped when its turn comes: an operator has blocked it; "),
        ({"range": "coming"}, "", "it waits: its range is coming at A, and has to arrive first"),
        ({"paused": True}, "", "it waits: an operator has paused the crawl or this gatherer; "),
        ({"rests": True}, "", "it waits: an operator has paused or blocked it; "),
        ({"retry_s": 90.0}, "", "it is tried again in 1m30s"),
        ({"aside_s": 60.0}, "", "its host is asked again in 1m"),
        ({}, "B", "its host waits for its turn, which B has; 7 are queued at its host"),
        (
            {"host": {"rest_s": 0.5, "lines": [["@1.2.3.4", 1.25, True, True]]}},
            "",
            "its host may be asked in 1.2 s",
        ),
        ({"host": None}, "", "its host may be asked now; 7 are queued at its host"),
    ],
)
def test_next_step(said: dict[str, Any], turn: str, step: str) -> None:
    """What becomes of a URL next is one sentence, with the first thing that is in its way."""
    assert next_step(view(member("A")), "a", told(**said), turn).startswith(step)


def test_outlook() -> None:
    """The workbench says how long a host, its name and its addresses rest, and what it knows of failures."""
    bench = Workbench(1, 4, 1.0, 0.0, 60.0)
    assert bench.outlook("h", 100.0) is None
    bench.locate("h", ["1.2.3.4"], "h.test")
    bench.set_crawl_delay("h", 5.0)
    bench.wake("h", 100.0)
    turn = bench.take(100.0)
    assert turn is not None
    bench.sent(turn, 100.0)
    bench.done(turn, 101.0, failed=True)
    outlook = bench.outlook("h", 102.0)
    assert outlook is not None
    assert (outlook.rest_s, outlook.distance_s, outlook.failures, outlook.under_way) == (3.0, 5.0, 1, 0)
    assert outlook.lines == (
        LineOutlook("h.test", 3.0, is_shared=False, is_open=False),
        LineOutlook("@1.2.3.4", 0.0, is_shared=False, is_open=False),
    )
    assert not bench.is_open("h.test")


def test_when_it_is_tried_again() -> None:
    """The row of a URL that failed says when it is tried again; that of others does not."""
    failed = Row(State.QUEUED, 503, "503", 0, "link", "", 1.0, 1, 1, (90_500).to_bytes(8, "big"))
    done = Row(State.DONE, 200, "", 0, "link", "", 1.0, 1, 1, bytes(16))
    assert (failed.retry_at, done.retry_at) == (90.5, 0.0)


@pytest.fixture
def _logs_as_before() -> Iterator[None]:
    before = structlog.get_config()
    yield
    structlog.configure(**before)


@pytest.mark.usefixtures("_logs_as_before")
def test_command(tmp_path: Path) -> None:
    """A URL is followed from when nobody knows it, over the queue of its owner, until it is done."""
    with (
        servers.redis_server("redis") as redis,
        server(tmp_path / "web", 5, 3, 30) as served,
        gatherers(redis, served, tmp_path / "g", ["member.leave_when_finished=false"]) as group,
    ):
        options = ["-s", f"redis.url={redis.url}", "-s", "member.heartbeat=200ms"]
        (seed, *_) = served.web.seeds

        def run(*arguments: str, code: int = 0) -> Any:
            result = CliRunner().invoke(cli.main, [*arguments, "--json", *options])
            assert result.exit_code == code, (arguments, result.output)
            return json.loads(result.stdout) if not result.stderr else result.stderr

        assert "no gatherer is there" in run("why", seed, code=2)
        for name in ("alpha", "beta"):
            group.start(name)
        group.until(lambda seen: len(seen) == 2 and all(m.pulse.epoch for m in seen.values()), "two")
        unknown = run("why", seed)
        assert (unknown["state"], unknown["gatherer"] in ("alpha", "beta")) == ("unknown", True)
        assert run("why", f"{seed}picture.jpg")["next"] == "crawl.skip has jpg"

        run("pause")
        group.seed([seed])
        until(lambda: run("why", seed)["state"] == "queued")
        waiting = run("why", seed)
        assert waiting["next"].startswith("it waits: an operator has paused the crawl")
        assert (waiting["rulings"], waiting["via"], waiting["depth"]) == (["paused"], "seed", 0)
        assert (waiting["range"], waiting["robots"], waiting["host_queued"]) == (
            "held",
            "not asked for yet",
            1,
        )

        run("resume")
        until(lambda: run("why", seed)["state"] == "done")
        done = run("why", seed)
        assert (done["status"], done["next"], done["robots"]) == (200, "nothing", "allowed")
        assert done["gatherer"] not in done["passed_on_by"]

        group.kill(done["gatherer"])
        time.sleep(1)
        assert run("why", seed, code=4)["silent"] == [done["gatherer"]]
