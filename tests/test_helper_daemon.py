"""The helper as a whole, in this process, beside a real Redis."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import redis
import trio

from gcs.config import Config, load
from gcs.core.consent import Terms
from gcs.errors import ConfigError, ExitCode, UsageError
from gcs.helper import daemon, limits
from gcs.helper.daemon import Offer
from gcs.helper.invitation import Invitation
from gcs.helper.pause import tell
from gcs.notify import Notifier
from tests.crawling import gcs_here
from tests.scripted import Peer, ok, serve
from tests.servers import redis_server
from tests.soak.helpers import SITE
from tests.test_fetch import until

WORD = b"The canary sings.\n"


async def invited(into: Path, *options: str) -> Invitation:
    """Invite a helper."""
    line = "helper", "invite", "desk7", "--into", str(into), *options
    said = await trio.to_thread.run_sync(partial(gcs_here, *line))
    assert said.exit_code == 0, said.output
    return Invitation.read(into)


@asynccontextmanager
async def helping(invitation: Invitation, terms: Terms, control: Path) -> AsyncIterator[list[ExitCode]]:
    """A helper that runs; how it has ended."""
    config = daemon._configured(own(), invitation)
    ended: list[ExitCode] = []

    async def runs() -> None:
        ended.append(
            await daemon._run(config, invitation, Offer(terms, 4, control), Notifier.from_environment({}))
        )

    async with trio.open_nursery() as nursery:
        nursery.start_soon(runs)
        yield ended
        nursery.cancel_scope.cancel()


def own() -> Config:
    return load(overrides=["fetch.allow=127.0.0.0/8"], environ={}, system_file=Path("/nonexistent")).config


async def until_it_says(what: str, control: Path) -> None:
    """Wait until a helper says something of itself."""
    with trio.fail_after(60):
        while True:
            try:
                if what in (await tell("status", control)).sentence:
                    return
            except UsageError:
                pass
            await trio.sleep(0.05)


async def test_one_that_is_refused_says_so_and_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A helper whose invitation was revoked tells its owner, and ends after a while as misconfigured."""
    monkeypatch.setattr(daemon, "REFUSED_S", 1.5)
    monkeypatch.setattr(daemon, "_SAY_EVERY_S", 0.2)
    with redis_server() as node:
        settings = ["-s", f"redis.url={node.url}", "-s", SITE]
        invitation = await invited(tmp_path / "invitation", *settings)
        async with helping(invitation, Terms(on_battery=True), tmp_path) as ended:
            await until_it_says("It may work", tmp_path)
            await trio.to_thread.run_sync(gcs_here, "helper", "revoke", "desk7", *settings)
            await until_it_says("The crawl's server refuses this invitation.", tmp_path)
            await until(lambda: bool(ended))
        assert ended == [ExitCode.CONFIG]


async def test_one_whose_server_is_away_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that does not answer is no reason to end."""
    monkeypatch.setattr(daemon, "REFUSED_S", 0.5)
    monkeypatch.setattr(daemon, "_SAY_EVERY_S", 0.2)
    with redis_server() as node:
        invitation = await invited(tmp_path / "invitation", "-s", f"redis.url={node.url}", "-s", SITE)
        async with helping(invitation, Terms(on_battery=True), tmp_path) as ended:
            await until_it_says("It may work", tmp_path)
            node.stop()
            await trio.sleep(2)
            assert (await tell("status", tmp_path)).sentence == "It may work at any time."
            assert not ended


async def test_one_whose_server_cannot_write_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that lets a helper in but takes nothing, since its disk does not, is no reason to end."""
    monkeypatch.setattr(daemon, "REFUSED_S", 0.5)
    monkeypatch.setattr(daemon, "_SAY_EVERY_S", 0.1)
    disk = tmp_path / "disk"
    disk.mkdir()
    with redis_server(extra=[f"dir {disk}", "save 3600 1"]) as node, node.client() as admin:
        invitation = await invited(tmp_path / "invitation", "-s", f"redis.url={node.url}", "-s", SITE)
        async with helping(invitation, Terms(on_battery=True), tmp_path) as ended:
            await until_it_says("It may work", tmp_path)
            disk.rmdir()
            admin.bgsave()
            await until(lambda: admin.info("persistence")["rdb_last_bgsave_status"] == "err")
            with pytest.raises(redis.ResponseError, match="MISCONF"):
                admin.set("x", 1)
            await trio.sleep(1.5)
            assert (await tell("status", tmp_path)).sentence == "It may work at any time."
            assert not ended


async def test_the_canary_counts_as_traffic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look at the canary goes through the owner's limit of bandwidth."""
    used: list[int] = []
    monkeypatch.setattr(limits.Bandwidth, "use", lambda _, size_bytes: used.append(size_bytes))

    async def script(peer: Peer) -> None:
        while await peer.request():
            await peer.send(ok(WORD))

    with redis_server() as node:
        async with serve(script) as server:
            canary = f"{server.origin}/canary"
            settings = ["-s", f"redis.url={node.url}", "-s", SITE]
            invitation = await invited(tmp_path / "invitation", "--canary", canary, *settings)
            terms = Terms(on_battery=True, max_bandwidth_bytes=1 << 20)
            async with helping(invitation, terms, tmp_path):
                await until_it_says("It may work", tmp_path)
    assert sum(used) > len(ok(WORD))


def test_too_little_memory_is_refused() -> None:
    """A limit that the helper is near already before it begins is refused with a sentence."""
    mib = 1 << 20
    daemon._check_memory(None, 100 * mib)
    daemon._check_memory(100 * mib, None)
    daemon._check_memory(200 * mib, 100 * mib)
    with pytest.raises(UsageError, match=r"--max-memory 100MiB .* uses 90 MiB.* more than 113 MiB\."):
        daemon._check_memory(100 * mib, 90 * mib)


def test_too_little_memory_on_the_command_line(tmp_path: Path) -> None:
    """`gcs helper` does not begin with less memory than it has."""
    invitation = Invitation("x", "crawl", "office", False, "redis://127.0.0.1:1", "u", "p", "00", "00")
    (tmp_path / "i").write_text(invitation.text())
    said = gcs_here("helper", "--invitation", str(tmp_path / "i"), "--max-memory", "20MiB")
    assert (said.exit_code, "leaves no room for work" in said.output) == (2, True), said.output


def test_which_invitation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a name it is systemd's, or the only one in the directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CREDENTIALS_DIRECTORY", raising=False)
    with pytest.raises(ConfigError, match="Nobody has invited this machine yet"):
        daemon.invitation_path(None)
    (tmp_path / "desk7.invitation").touch()
    assert daemon.invitation_path(None) == Path("desk7.invitation")
    (tmp_path / "desk8.invitation").touch()
    with pytest.raises(ConfigError, match=r"several invitations here \(desk7.invitation, desk8.invitation\)"):
        daemon.invitation_path(None)
    assert daemon.invitation_path(Path("other")) == Path("other")
    (tmp_path / "invitation").touch()
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    assert daemon.invitation_path(None) == tmp_path / "invitation"
