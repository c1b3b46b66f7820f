"""A crawl that comes back to pages for ever: what it says of itself while nothing is due, and afterwards."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from click.testing import CliRunner

import cli
from gcs import board as boards
from gcs.board import Member
from gcs.core.dates import for_people
from tests import servers
from tests.crawling import server
from tests.gatherers import gatherers
from tests.manager import manager
from tests.servers import until

POLICY = ["revisit.policy=uniform", "revisit.every=8s", "revisit.least=4s", "revisit.most=9s"]


def test_what_it_says_while_nothing_is_due(tmp_path: Path) -> None:
    """Gatherers that have caught up stay, say when the next page is due, and take it back when one is."""
    seen: list[dict[str, Any]] = []
    with (
        servers.redis_server("redis") as redis,
        server(tmp_path / "web", 5, 2, 6) as served,
        gatherers(redis, served, tmp_path / "gatherers", [*POLICY, "fetch.delay=0s"]) as group,
        manager(str(tmp_path / "notify")) as listening,
    ):

        def has_caught_up() -> bool:
            options = ["-s", f"redis.url={redis.url}", "-s", "member.heartbeat=200ms", "--json"]
            result = CliRunner().invoke(cli.main, ["status", *options])
            assert result.exit_code == 0, result.output
            seen.append(json.loads(result.stdout))
            return bool(seen[-1]["state"] == "caught up")

        for name in "AB":  # one of them may have no page
            group.start(name, within=["env", f"NOTIFY_SOCKET={listening.address}"])
        group.until(lambda known: len(known) == 2 and all(m.pulse.epoch for m in known.values()), "two")
        group.seed(served.web.seeds)
        group.until(
            lambda known: (
                any(m.pulse.facts.get("done") for m in known.values())
                and all(m.pulse.standing == "caught up" for m in known.values())
            ),
            "to have caught up",
        )
        until(has_caught_up, "it to say so")
        first = seen[-1]
        assert first["next_visit_at"] > first["at"] - 5  # a busy machine says it late
        assert first["why"] == f"next page due at {for_people(first['next_visit_at'])}"
        ends = [group.ask(lambda board: board.now()).get(boards.FINISHED)]
        group.until(
            lambda known: sum(m.pulse.facts.get("visited_again", 0) for m in known.values()) >= 6, "visits"
        )
        until(lambda: group.ask(lambda board: board.now()).get(boards.FINISHED) not in ends, "another end")
        until(has_caught_up, "it to say so again")
        assert seen[-1]["next_visit_at"] > first["next_visit_at"]
        listening.until(lambda said: said.get("STATUS", "").startswith("caught up, next page due at"))
        assert [group.processes[name].child.poll() for name in "AB"] == [None, None]  # type: ignore[union-attr]


def test_policies_can_be_changed_while_gatherers_run(tmp_path: Path) -> None:
    """A finished crawl comes back to its pages when that is set, and is finished again when it is not."""
    settings = ["member.leave_when_finished=false", "fetch.delay=0s"]
    with (
        servers.redis_server("redis") as redis,
        server(tmp_path / "web", 5, 2, 6) as served,
        gatherers(redis, served, tmp_path / "gatherers", settings) as group,
    ):

        def run(*arguments: str) -> Any:
            options = ["-s", f"redis.url={redis.url}", "-s", "member.heartbeat=200ms", "--json"]
            result = CliRunner().invoke(cli.main, [*arguments, *options])
            assert result.exit_code == 0, result.output
            return json.loads(result.stdout)

        def visits(known: dict[str, Member]) -> int:
            return sum(m.pulse.facts.get("visited_again", 0) for m in known.values())

        group.start("A")
        group.seed(served.web.seeds)
        group.until(lambda known: known and known["A"].pulse.standing == "finished", "the end")
        run("config", "set", *POLICY[:2])
        group.until(lambda known: known["A"].pulse.facts["ignored"], "a refusal")
        assert "cannot be" in str(group.members()["A"].pulse.facts["ignored"])
        run("config", "set", *POLICY[2:])
        group.until(lambda known: visits(known) >= 6, "visits")
        assert group.members()["A"].pulse.facts["ignored"] == {}
        run("config", "set", "revisit.every=8d", "revisit.least=4d", "revisit.most=9d")
        until(lambda: (run("status")["next_visit_at"] or 0) > time.time() + 86_400, "a visit far off")
        group.until(lambda known: known["A"].pulse.standing == "caught up", "to have caught up")
        run("config", "set", "revisit.policy=none")
        until(lambda: run("status")["state"] == "finished", "the end")
        assert visits(group.members()) < 1000
