"""Helpers as real processes on a real Redis: they come, go and are killed; and what they may not do."""

from __future__ import annotations

import itertools
import random
import time
from contextlib import closing
from pathlib import Path

import msgpack
import pytest
import redis

from gcs.helper.desks import _SUMMARIES, HELPER, SUMMARIES
from gcs.helper.invitation import Invitation
from gcs.helper.papers import ANSWER
from gcs.simulate.verdict import read_log
from tests import forging
from tests.crawling import gcs_here, server
from tests.gatherers import Gatherers, gatherers
from tests.servers import PASSWORD, redis_server
from tests.soak.helpers import SITE, helped
from tests.soak.progress import Progress


def invited(group: Gatherers, name: str, *options: str) -> Invitation:
    return Invitation.read(group.invite(name, *options))


def connection(invitation: Invitation) -> redis.Redis:
    return redis.Redis.from_url(
        invitation.url, username=invitation.username, password=invitation.password, protocol=2
    )


@pytest.mark.alone
def test_they_come_and_go_and_are_killed() -> None:
    """Helpers that are killed, leave and come back cost at most what they had not answered."""
    with closing(Progress(every_s=1000.0)) as progress:
        assert "coverage 1.0000" in helped(1200, 30, random.Random(0), progress)


@pytest.mark.alone
def test_a_killed_gatherer_leaves_hosts_to_its_helpers(tmp_path: Path) -> None:
    """One that is started again asks no host that a helper is still asking for the process before it."""
    delay_s = 0.2
    settings = [SITE, "fetch.concurrency=1", f"fetch.delay={delay_s * 1000:.0f}ms", "fetch.delay_factor=0"]
    with (
        server(tmp_path / "web", 5, hosts=20, pages=8000, latency_ms=20) as served,
        redis_server() as node,
        gatherers(node, served, tmp_path / "g", settings) as group,
    ):
        group.help("desktop", group.invite("desktop"), "--at-once", "16")
        group.start("one")
        group.seed(served.web.seeds)
        group.until(lambda members: members and members["one"].pulse.facts["helped"] > 300, "help")
        group.kill("one")
        killed_at, before = time.time(), group.members()["one"].pulse.facts["pages"]
        group.start("one")
        group.until(
            lambda members: members and members["one"].pulse.facts["pages"] > before + 100, "it goes on"
        )
        verdict = served.judged()
        requests = read_log(served.log)
    assert any(killed_at + 1 < request.start for request in requests)
    assert min((*verdict.closest_s.values(), *verdict.closest_at_address_s.values())) > 0.9 * delay_s


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
        deadline = time.monotonic() + 120
        while "It may work" not in (said := gcs_here("helper", "list", *settings).output):
            assert time.monotonic() < deadline, said
            time.sleep(0.2)
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


def test_what_a_server_has_not_done_can_be_asked_for_again(tmp_path: Path) -> None:
    """Who is revoked while the site's server is away is revoked, and its user is removed later."""
    with redis_server() as node, redis_server() as volunteers:
        there = ["-s", f"redis.url={node.url}", "-s", f"helpers.sites=far:open@{volunteers.url}"]
        away = ["-s", f"redis.url={node.url}", "-s", "helpers.sites=far:open@redis://:geheim@127.0.0.1:1"]
        made = gcs_here("helper", "invite", "v1", "--into", str(tmp_path / "v1"), *there)
        assert made.exit_code == 0, made.output
        invitation = Invitation.read(tmp_path / "v1")
        for _ in range(2):
            failed = gcs_here("helper", "revoke", "v1", *away)
            assert failed.exit_code == 4
            assert "v1 is not believed any more, but its user is still on the server" in failed.output
            assert "out of reach" in failed.output
            assert "+acl" not in failed.output
            assert "geheim" not in failed.output
        assert "is revoked, but the server may still" in gcs_here("helper", "list", *there).output
        unnamed = gcs_here("helper", "revoke", "v1", "-s", f"redis.url={node.url}")
        assert (unnamed.exit_code, "--by-hand" in unnamed.output) == (2, True)
        with connection(invitation) as theirs:
            assert theirs.ping()
        gone = gcs_here("helper", "revoke", "v1", *there)
        assert gone.exit_code == 0, gone.output
        with connection(invitation) as theirs, pytest.raises(redis.exceptions.AuthenticationError):
            theirs.ping()
        assert "Nobody is invited" in gcs_here("helper", "list", *there).output
        assert gcs_here("helper", "revoke", "v1", *there).exit_code == 2


def test_a_site_with_a_server_behind_tls(tmp_path: Path) -> None:
    """What a site's own server wants to see stands in files, and a helper is told whom to trust."""
    with (
        redis_server() as node,
        redis_server("redis", tls=True) as far,
        far.client() as admin,
    ):
        admin.config_set("tls-auth-clients", "yes")
        (place := tmp_path / "credentials").mkdir()
        for name, text in (
            ("ca.pem", (far.directory / "ca.pem").read_text()),
            ("cert.pem", pair := (far.directory / "server.pem").read_text()),
            ("key.pem", pair),
            ("password", f"{PASSWORD}\n"),
        ):
            (place / f"far.{name}").write_text(text)
        settings = ["-s", f"redis.url={node.url}", "-s", f"helpers.sites=far@rediss://127.0.0.1:{far.port}"]
        without = gcs_here("helper", "invite", "v1", "--into", str(tmp_path / "v1"), *settings)
        assert without.exit_code == 4
        settings += ["-s", f"helpers.credentials={place}"]
        made = gcs_here("helper", "invite", "v1", "--into", str(tmp_path / "v1"), *settings)
        assert made.exit_code == 0, made.output
        invitation = Invitation.read(tmp_path / "v1")
        assert invitation.tls_ca == (far.directory / "ca.pem").read_text()
        assert invitation.url == f"rediss://127.0.0.1:{far.port}"
        listed = gcs_here("helper", "list", *settings)
        assert listed.output.split() == ["v1", "far", "away"]
        assert gcs_here("helper", "revoke", "v1", *settings).exit_code == 0
        (place / "far.password").write_text("wrong")
        wrong = gcs_here("helper", "invite", "v2", "--into", str(tmp_path / "v2"), *settings)
        assert (wrong.exit_code, "does not accept our user and password" in wrong.output) == (4, True)
        nowhere = gcs_here("helper", "list", *settings, "-s", "helpers.credentials=/nonexistent")
        assert (nowhere.exit_code, "is no directory" in nowhere.output) == (3, True)


def test_who_cannot_be_invited_is_not(tmp_path: Path) -> None:
    """An invitation that fails leaves neither an invited helper nor a file behind."""
    with redis_server() as node:
        settings = ["-s", f"redis.url={node.url}", "-s", "helpers.sites=office far:open@redis://127.0.0.1:1"]
        into = tmp_path / "x.invitation"
        for options, code, sentence in (
            (["--into", str(tmp_path / "no" / "x")], 2, "cannot be written: No such file"),
            (["--canary", "foo"], 2, "--canary has to be a page"),
            (["--canary", "ftp://x/y"], 2, "--canary has to be a page"),
            (["--canary", "file:///etc/passwd"], 2, "--canary has to be a page"),
            (["--url", "notaurl"], 2, "--url has to be an address"),
            (["--site", "far"], 4, "out of reach"),
        ):
            said = gcs_here(
                "helper", "invite", "x", "--site", "office", "--into", str(into), *options, *settings
            )
            assert (said.exit_code, sentence in said.output) == (code, True), said.output
            assert said.output.count("\n") == 1
            assert not into.exists()
        assert "Nobody is invited" in gcs_here("helper", "list", *settings[:3], "helpers.sites=office").output
        into.write_text("mine")
        said = gcs_here("helper", "invite", "x", "--site", "office", "--into", str(into), *settings)
        assert (said.exit_code, into.read_text()) == (2, "mine")


@pytest.mark.parametrize("site", [SITE, "helpers.sites=world:open"])
def test_no_tuple_ends_a_gatherer(tmp_path: Path, site: str) -> None:
    """What a helper writes past the client, with its own rights, ends neither gatherers nor commands."""
    with (
        server(tmp_path / "web", 5, hosts=5, pages=100) as served,
        redis_server() as node,
        gatherers(node, served, tmp_path / "g", [site, "member.leave_when_finished=false"]) as group,
    ):
        invitation = invited(group, "desktop")
        group.start("one")
        group.until(lambda members: "one" in members, "it to be there")
        me = group.members()["one"].id
        space = f"{group.config.crawl.name}:{SUMMARIES}:{invitation.desk}"
        answer, presence = (ANSWER, me, "x", "desktop", b""), (HELPER, "desktop", b"")
        with connection(invitation) as theirs:
            for fields, junk in itertools.product((answer, presence), (b"\xc1", b"", msgpack.packb(7))):
                forging.write(theirs, space, _SUMMARIES, fields, junk)
            forging.write(theirs, space, _SUMMARIES, answer, msgpack.packb([*answer[:4], 7]))
            forging.write(theirs, space, _SUMMARIES, presence, msgpack.packb([*presence[:2], 7]))
            forging.write(theirs, space, _SUMMARIES, answer, msgpack.packb([*answer[:4], bytes(8 << 20)]))
            settings = ["-s", f"redis.url={node.url}", "-s", site]
            said = gcs_here("helper", "list", *settings)
            assert said.exit_code == 0, said.output
            assert "desktop" in said.output
            assert gcs_here("status", *settings).exit_code == 0
        group.seed(served.web.seeds)
        group.until(lambda members: members["one"].pulse.standing == "finished", "it to finish")
        child = group.processes["one"].child
        assert child is not None
        assert child.poll() is None
        assert served.judged().coverage == 1.0


def test_bad_input_is_one_sentence(tmp_path: Path) -> None:
    junk = tmp_path / "junk"
    junk.write_text("{}")
    for arguments, code, sentence in (
        (["--invitation", str(tmp_path / "none")], 3, "cannot be read"),
        (["--invitation", str(junk)], 3, "invitation of version None"),
        (["--hours", "late"], 2, "late"),
        (["invite", "x"], 3, "redis.url must name"),
        (["invite", "../x", "-s", "redis.url=redis://127.0.0.1:1"], 2, "cannot be the name"),
        (["invite", "x ~*", "-s", "redis.url=redis://127.0.0.1:1"], 2, "cannot be the name"),
        (["invite", "x", "-s", "redis.url=redis://127.0.0.1:1"], 3, "helpers.sites names no site"),
    ):
        said = gcs_here("helper", *arguments)
        assert said.exit_code == code, said.output
        assert sentence in said.output
