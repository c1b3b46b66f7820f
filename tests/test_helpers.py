"""Helpers as real processes on a real Redis: they come, go and are killed; and what they may not do."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

import pytest
import redis

from gcs.helper.invitation import Invitation
from gcs.operate import ledger
from tests.crawling import gcs_here, server
from tests.gatherers import Gatherers, gatherers
from tests.servers import redis_server

SITE = "helpers.sites=office"


def invited(group: Gatherers, name: str, *options: str) -> Invitation:
    return Invitation.read(group.invite(name, *options))


def connection(invitation: Invitation) -> redis.Redis:
    return redis.Redis.from_url(
        invitation.url, username=invitation.username, password=invitation.password, protocol=2
    )


@pytest.mark.alone
def test_they_come_and_go_and_are_killed(tmp_path: Path) -> None:
    chance = random.Random(5)
    slow = ["fetch.concurrency=4", "fetch.per_host=2"]
    with (
        server(tmp_path / "web", 5, hosts=40, pages=2500, latency_ms=10) as served,
        redis_server() as node,
        gatherers(node, served, tmp_path / "g", [SITE, *slow, "member.leave_when_finished=false"]) as group,
    ):
        names = ["h0", "h1", "h2"]
        files = {name: group.invite(name) for name in names}
        for name in names:
            group.help(name, files[name], settings=slow)
        group.start("one")
        group.start("two")
        group.until(lambda members: {"one", "two"} <= members.keys(), "both")
        group.seed(served.web.seeds)
        lost = 0
        while not all(each.pulse.standing == "finished" for each in group.members().values()):
            time.sleep(chance.uniform(0.5, 2.0))
            name = chance.choice(names)
            child = group.processes[name].child
            assert child is not None
            if child.poll() is not None:
                group.help(name, files[name], settings=slow)
            elif chance.random() < 0.6:
                group.kill(name)
                lost += 1
            else:
                child.send_signal(signal.SIGTERM)
                assert child.wait(10) in (0, -signal.SIGTERM)  # the latter before it has begun
        helped = sum(member.pulse.facts["helped"] for member in group.members().values())
        account = group.ask(lambda board: ledger.audit(board, group.config))
        seen = served.judged()
    assert helped > 200
    assert lost
    assert (seen.coverage, seen.forbidden) == (1.0, {})
    # What a killed helper had fetched, and not yet answered, is fetched again: a quarter of a second of it.
    assert seen.duplicates <= lost * 4 * 32
    assert account.code == 0, account.lines


def test_an_invitation_is_for_two_spaces_and_nothing_else(tmp_path: Path) -> None:
    with (
        server(tmp_path / "web", 5, hosts=3, pages=20) as served,
        redis_server() as node,
        gatherers(node, served, tmp_path / "g", [SITE]) as group,
    ):
        group.seed(served.web.seeds)
        invitation = invited(group, "desktop")
        assert (group.place / "desktop.invitation").stat().st_mode & 0o777 == 0o600
        assert "@" not in invitation.url
        with redis.Redis.from_url(node.url) as own, connection(invitation) as theirs:
            keys = [key for key in own.keys("*") if b":seeds}" in key or b":board}" in key]
            assert keys
            for key in keys:
                with pytest.raises(redis.exceptions.NoPermissionError):
                    theirs.execute_command("HGET", key, "x")
            for line in (
                "FLUSHALL",
                "CONFIG GET maxmemory",
                "CONFIG SET maxmemory 1",
                "ACL LIST",
                "KEYS *",
                "FUNCTION FLUSH",
                "SHUTDOWN",
                "SCRIPT LOAD x",
                "EVAL return 0",
                "SUBSCRIBE x",
                "DEL x",
            ):
                with pytest.raises(redis.exceptions.NoPermissionError):
                    theirs.execute_command(*line.split())
            assert theirs.ping()


def test_a_revoked_one_is_out_at_once(tmp_path: Path) -> None:
    with (
        server(tmp_path / "web", 5, hosts=3, pages=20) as served,
        redis_server() as node,
        gatherers(node, served, tmp_path / "g", [SITE]) as group,
    ):
        settings = ["-s", f"redis.url={node.url}", "-s", SITE]
        group.help("desktop", group.invite("desktop"))
        deadline = time.monotonic() + 20
        while "away" in gcs_here("helper", "list", *settings).output and time.monotonic() < deadline:
            time.sleep(0.2)
        assert "It may work" in gcs_here("helper", "list", *settings).output
        again = gcs_here("helper", "invite", "desktop", "--into", str(tmp_path / "x"), *settings)
        assert again.exit_code == 2
        assert "desktop is invited already" in again.output
        invitation = Invitation.read(group.place / "desktop.invitation")
        with connection(invitation) as theirs:
            assert theirs.ping()
            gone = gcs_here("helper", "revoke", "desktop", *settings)
            assert gone.exit_code == 0, gone.output
            with pytest.raises((redis.exceptions.ConnectionError, redis.exceptions.AuthenticationError)):
                theirs.ping()
        with connection(invitation) as theirs, pytest.raises(redis.exceptions.AuthenticationError):
            theirs.ping()
        assert "Nobody is invited" in gcs_here("helper", "list", *settings).output
        assert gcs_here("helper", "revoke", "desktop", *settings).exit_code == 2


def test_bad_input_is_one_sentence(tmp_path: Path) -> None:
    junk = tmp_path / "junk"
    junk.write_text("{}")
    for arguments, code, sentence in (
        (["--invitation", str(tmp_path / "none")], 3, "cannot be read"),
        (["--invitation", str(junk)], 3, "invitation of version None"),
        (["--hours", "late"], 2, "late"),
        (["invite", "x"], 3, "redis.url must name"),
        (["invite", "x", "-s", "redis.url=redis://127.0.0.1:1"], 3, "helpers.sites names no site"),
    ):
        said = gcs_here("helper", *arguments)
        assert said.exit_code == code, said.output
        assert sentence in said.output
