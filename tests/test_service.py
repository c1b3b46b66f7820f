"""A gatherer as a service, on a notify socket: what its manager hears, and what signals do."""

from __future__ import annotations

import re
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import trio

from gcs.config import SETTINGS, Config
from gcs.errors import ExitCode
from gcs.gatherer.reload import reloaded
from gcs.gatherer.service import Service
from gcs.notify import Notifier
from gcs.store.records import Batch, Committed
from tests.crawling import ROOT, command
from tests.manager import Manager, Message, manager
from tests.servers import Node, redis_server
from tests.test_node import Gatherer, gatherer

WATCHDOG_S = 2.0


# Another configuration


def test_nothing_has_changed() -> None:
    """To read the same again changes nothing."""
    outcome = reloaded(Config(), Config())
    assert (outcome.config, outcome.changed, outcome.after_restart) == (Config(), (), ())


def test_what_takes_effect() -> None:
    """Of a configuration that differs, what can be changed takes effect, and the rest is named."""
    now, new = Config(), Config()
    new = replace(
        new,
        fetch=replace(new.fetch, delay_s=2.0, agent="me"),
        member=replace(new.member, name="b", heartbeat_s=3.0),
        exchange=replace(new.exchange, every_s=1.0),
    )
    outcome = reloaded(now, new)
    assert outcome.changed == ("fetch.delay", "member.heartbeat", "exchange.every")
    assert outcome.after_restart == ("fetch.agent", "member.name")
    assert outcome.config.fetch == replace(now.fetch, delay_s=2.0)
    assert outcome.config.member == replace(now.member, heartbeat_s=3.0)
    assert reloaded(outcome.config, new).changed == ()


@pytest.mark.parametrize(("before", "after"), [(0.0, 1.0), (1.0, 0.0)])
def test_whether_hosts_rest_at_all(before: float, after: float) -> None:
    """Gatherers that wait take turns: to begin or end with that needs a restart."""
    now, new = (replace(Config(), fetch=replace(Config().fetch, delay_s=each)) for each in (before, after))
    assert reloaded(now, new).after_restart == ("fetch.delay",)


def test_every_setting_is_either() -> None:
    """A setting that differs either takes effect or is named as one that needs a restart."""
    for setting in SETTINGS.values():
        other = replace(getattr(Config(), setting.section), **{setting.field: "other"})
        outcome = reloaded(Config(), replace(Config(), **{setting.section: other}))
        assert len(outcome.changed) + len(outcome.after_restart) == 1, setting.name


# In this process


async def heard(listening: Manager, seconds: float) -> list[Message]:
    """What is said within a time, while others work; only ten messages wait in a socket."""
    said = []
    for _ in range(round(seconds / 0.1)):
        await trio.sleep(0.1)
        said += listening.listen()
    return said


async def until(listening: Manager, condition: Callable[[Message], object]) -> Message:
    """The first thing to be said that fits."""
    while True:
        for message in await heard(listening, 0.1):
            if condition(message):
                return message


@contextmanager
def served(here: Gatherer, listening: Manager, watchdog_s: float = 1.0) -> Iterator[Service]:
    """The gatherer as a service that is watched closely."""
    notifier = Notifier(listening.address, watchdog_s=watchdog_s)
    yield Service(here.node, here.membership, here.exchange, notifier, lambda: here.node.config)


async def test_a_full_disk_is_no_illness(tmp_path: Path) -> None:
    """While the disk is full the watchdog is fed, and the status says what the gatherer waits for."""
    with manager(str(tmp_path / "notify")) as listening:
        async with gatherer(tmp_path / "s", store={"keep_free_bytes": 1 << 50}) as here:
            with served(here, listening) as service:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(service.report)
                    nursery.start_soon(here.exchange.send)
                    nursery.start_soon(here.node.adopt, here.charter(1, here.node.id))
                    waiting = "waiting for room on the disk: 0.0 pages/s, 0 queued, plan 1"
                    await until(listening, lambda said: waiting in said.get("STATUS", ""))
                    later = await heard(listening, 2.5)
                    nursery.cancel_scope.cancel()
    assert len(later) > 3
    assert all("WATCHDOG" in said and waiting in said["STATUS"] for said in later)


async def test_a_disk_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a write does not return the watchdog is not fed; when it has returned it is again."""
    goes_on = threading.Event()
    with manager(str(tmp_path / "notify")) as listening:
        async with gatherer(tmp_path / "s") as here:
            commit = here.node.store.commit

            def hang(batch: Batch) -> Committed:
                goes_on.wait(60)
                return commit(batch)

            monkeypatch.setattr(here.node.store, "commit", hang)
            with served(here, listening) as service:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(service.report)
                    nursery.start_soon(here.exchange.send)
                    nursery.start_soon(here.node.adopt, here.charter(1, here.node.id))
                    hung = await until(listening, lambda said: "store hung" in said.get("STATUS", ""))
                    assert service.trouble() == "store hung"
                    goes_on.set()
                    await until(listening, lambda said: "WATCHDOG" in said)
                    assert not service.trouble()
                    nursery.cancel_scope.cancel()
    assert hung == {"STATUS": "store hung"}


async def test_an_exchange_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sending that goes on for longer than Redis is waited for is an illness."""

    async def hang() -> None:
        await trio.sleep_forever()

    with manager(str(tmp_path / "notify")) as listening:
        async with gatherer(tmp_path / "s", redis={"timeout_s": 0.4}) as here:
            monkeypatch.setattr(here.exchange, "_send_all", hang)
            with served(here, listening) as service:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(service.report)
                    nursery.start_soon(here.exchange.send)
                    await until(listening, lambda said: said == {"READY": "1"})
                    await until(listening, lambda said: "WATCHDOG" in said)
                    await until(listening, lambda said: said == {"STATUS": "exchange hung"})
                    nursery.cancel_scope.cancel()


async def test_no_manager(tmp_path: Path) -> None:
    """Without a manager nobody is told anything."""
    async with gatherer(tmp_path / "s") as here:
        with manager(str(tmp_path / "notify")) as listening, served(here, listening):
            pass
        service = Service(here.node, here.membership, here.exchange, Notifier(), Config)
        await service.report()
        service.stopping()


# As a process


@contextmanager
def running(
    redis: Node, listening: Manager, place: Path, settings: str = ""
) -> Iterator[subprocess.Popen[str]]:
    """A real gatherer, whose settings are in a file beside its directory."""
    place.mkdir()
    (place / "config.toml").write_text(settings)
    line = command("--config", str(place / "config.toml"), "gatherer", "--into", str(place / "store"))
    line += ["-s", f"redis.url={redis.url}", "-s", "redis.timeout=1s", "-s", "store.keep_free=0B"]
    with (
        (place / "log").open("w") as log,
        subprocess.Popen(
            line, cwd=ROOT, stderr=log, text=True, env=listening.environment(watchdog_s=WATCHDOG_S)
        ) as process,
    ):
        try:
            yield process
        finally:
            process.kill()


def well(message: dict[str, str]) -> bool:
    """Whether it is fed, and says how it is."""
    status = r"\w+: [0-9.]+ pages/s, [0-9,]+ queued, plan [0-9]+"
    return "WATCHDOG" in message and re.fullmatch(status, message["STATUS"]) is not None


def test_a_life(tmp_path: Path) -> None:
    """A gatherer is ready, tells how it is, reloads, refuses a wrong file, and stops when told to."""
    right = "[exchange]\nevery = '100ms'\n[summary]\nlevel = 'links'\n"
    with redis_server("valkey", unix_socket=True) as redis, manager(str(tmp_path / "notify")) as listening:
        with running(redis, listening, tmp_path / "g", "[exchange]\nevery = '200ms'\n") as process:
            listening.until(lambda said: "READY" in said)
            listening.until(well)
            file = tmp_path / "g" / "config.toml"
            for text in (right, "[exchange]\nevery = 5\n"):
                file.write_text(text)
                process.send_signal(signal.SIGHUP)
                assert "MONOTONIC_USEC" in listening.until(lambda said: "RELOADING" in said)
                listening.until(lambda said: "READY" in said)
            process.send_signal(signal.SIGTERM)
            stopping = listening.until(lambda said: "STOPPING" in said)
            assert process.wait(60) == ExitCode.INTERRUPTED
        log = (tmp_path / "g" / "log").read_text()
    assert int(stopping["EXTEND_TIMEOUT_USEC"]) == 80_000_000
    assert '"changed": "exchange.every"' in log
    assert '"settings": "summary.level"' in log
    assert f"{file}:2: exchange.every is 5 but must be a duration" in log
    assert log.count("the one before stays in force") == 1


def test_a_hung_loop_and_a_lost_redis(tmp_path: Path) -> None:
    """A gatherer without Redis is well; one whose event loop does not run says nothing."""
    with (
        redis_server("valkey", unix_socket=True) as redis,
        manager(str(tmp_path / "notify")) as listening,
        running(redis, listening, tmp_path / "g") as process,
    ):
        listening.until(well)
        redis.pause()
        without = listening.listen(4.0)
        redis.resume()
        process.send_signal(signal.SIGSTOP)
        listening.listen(0.1)
        hung = listening.listen(2 * WATCHDOG_S)
        process.send_signal(signal.SIGCONT)
        listening.until(well)
        redis.kill()
        dead = listening.listen(3.0)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == ExitCode.INTERRUPTED
    assert len(without) > 3
    assert all(map(well, [*without, *dead]))
    assert hung == []
