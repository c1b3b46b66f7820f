"""Settings that operators change while gatherers run: what a gatherer makes of them, and the commands."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgpack
import pytest
import structlog
from click.testing import CliRunner

import cli
from gcs.config import SETTINGS, Config, read_setting
from gcs.core.rulings import ALL, Rulings
from gcs.errors import ConfigError
from gcs.gatherer.reload import AT_ONCE, reloaded, ruled
from tests import servers
from tests.crawling import server
from tests.gatherers import Gatherers, gatherers


class TestRulings:
    """Settings as a part of what is ruled."""

    def test_set_and_unset(self) -> None:
        """Settings are set for all or one and unset again, and come back from their bytes."""
        rulings = Rulings().set(ALL, {"fetch.delay": "2s"}, 1).set("A", {"fetch.delay": "3s"}, 2)
        assert Rulings.from_bytes(rulings.to_bytes()) == rulings
        assert rulings.unset("A", ["fetch.delay"], 3).settings == {ALL: {"fetch.delay": "2s"}}
        assert rulings.unset("B", ["fetch.delay"], 3).settings == rulings.settings

    def test_other_versions(self) -> None:
        """Rulings of a version without settings, or with more beside them, are understood."""
        said = msgpack.unpackb(Rulings(3).to_bytes())
        assert Rulings.from_bytes(msgpack.packb(said[:6])) == Rulings(3)
        assert Rulings.from_bytes(msgpack.packb([*said, "more"])) == Rulings(3)


class TestRuled:
    """What a gatherer makes of them."""

    def test_who_wins(self) -> None:
        """What is set for one gatherer wins over what is set for all, and that over its configuration."""
        settings = {ALL: {"fetch.delay": "2s", "fetch.max_delay": "9s"}, "A": {"fetch.delay": "3s"}}
        here, there = ruled(Config(), settings, "A"), ruled(Config(), settings, "B")
        assert (here.config.fetch.delay_s, here.config.fetch.max_delay_s) == (3.0, 9.0)
        assert (there.config.fetch.delay_s, there.config.fetch.max_delay_s) == (2.0, 9.0)
        assert here.origins == {"fetch.delay": "A", "fetch.max_delay": ALL}
        assert ruled(Config(), {}, "A").config == Config()

    @pytest.mark.parametrize(
        ("name", "text", "why"),
        [
            ("future.thing", "1", "it is not known here"),
            ("fetch.delay", "soon", "it must be a duration"),
            ("fetch.agent", "me", "it needs a restart"),
            ("fetch.delay", "0s", "it needs a restart"),
        ],
    )
    def test_ignored(self, name: str, text: str, why: str) -> None:
        """What cannot be understood or followed is ignored, with the reason, and the rest is followed."""
        outcome = ruled(Config(), {ALL: {name: text, "exchange.every": "2s"}}, "A")
        assert outcome.ignored[name].startswith(why)
        assert outcome.config == replace(Config(), exchange=replace(Config().exchange, every_s=2.0))

    def test_every_setting_that_can_be_set(self) -> None:
        """Every setting that takes effect at once can be written, read and followed."""
        for name in AT_ONCE:
            setting = SETTINGS[name]
            value = getattr(getattr(Config(), setting.section), setting.field)
            text = setting.kind.written(value)
            assert read_setting(f"{name}={text}", "set") == (setting, value)
            assert ruled(Config(), {ALL: {name: text}}, "A").origins == {name: ALL}

    def test_after_a_reload(self) -> None:
        """A file that is read again changes what is not set, and what is set when it is unset."""
        settings = {ALL: {"exchange.every": "2s"}}
        read = replace(Config(), exchange=replace(Config().exchange, every_s=3.0, again_after_s=9.0))
        given = reloaded(Config(), read).config
        assert ruled(given, settings, "A").config.exchange == replace(read.exchange, every_s=2.0)
        assert ruled(given, {}, "A").config.exchange == read.exchange


def test_wrong_values() -> None:
    """A value is refused in the words that a file would be refused with."""
    with pytest.raises(ConfigError, match=r"gcs config set: fetch\.delay is .* but must be a duration"):
        read_setting("fetch.delay=soon", "gcs config set")
    with pytest.raises(ConfigError, match=r"unknown setting fetch\.dealy; did you mean fetch\.delay"):
        read_setting("fetch.dealy=1s", "gcs config set")


@pytest.fixture
def _logs_as_before() -> Iterator[None]:
    before = structlog.get_config()
    yield
    structlog.configure(**before)


def beats(group: Gatherers, name: str) -> float:
    """Heartbeats a second, over some time."""
    before, began = group.members()[name].beat, time.monotonic()
    time.sleep(1.0)
    return (group.members()[name].beat - before) / (time.monotonic() - began)


def until_fast(group: Gatherers, name: str) -> None:
    """Wait until heartbeats come as fast as they are to; a busy machine may be slow for a while."""
    servers.until(lambda: beats(group, name) > 3, f"the heart of {name} to beat faster", timeout_s=150)


@pytest.mark.usefixtures("_logs_as_before")
def test_commands(tmp_path: Path) -> None:
    """Settings are set for all and for one, refused where they must be, kept over a restart, and unset."""
    with (
        servers.redis_server("redis") as redis,
        server(tmp_path / "web", 5, 3, 30) as served,
        gatherers(redis, served, tmp_path / "g", ["member.leave_when_finished=false"]) as group,
    ):
        options = ["-s", f"redis.url={redis.url}", "-s", "member.heartbeat=200ms"]

        def run(*arguments: str, code: int = 0) -> Any:
            result = CliRunner().invoke(cli.main, [*arguments, "--json", *options])
            assert result.exit_code == code, (arguments, result.output)
            return json.loads(result.stdout) if not result.stderr else result.stderr

        for name in ("alpha", "beta"):
            group.start(name)
        group.until(lambda seen: len(seen) == 2 and all(m.pulse.epoch for m in seen.values()), "two")

        assert "cannot be changed while gatherers run" in run("config", "set", "fetch.agent=me", code=2)
        assert "leave --for out" in run("config", "set", "member.heartbeat=1s", "--for", "beta", code=2)
        assert "needs a restart" in run("config", "set", "fetch.delay=0s", code=2)
        assert "must be a duration" in run("config", "set", "fetch.delay=soon", code=3)
        assert "no gatherer is named x" in run("config", "set", "fetch.delay=1s", "--for", "x", code=2)
        assert "is not set; what is: nothing" in run("config", "unset", "fetch.delay", code=2)

        until_fast(group, "alpha")
        done = run("config", "set", "member.heartbeat=600ms", "exchange.every=1500ms")
        assert (done["late"], done["silent"], done["remarks"]) == ([], [], [])
        assert beats(group, "alpha") < 3
        run("config", "set", "exchange.every=2s", "--for", "beta")
        assert run("status")["state"] != "stuck"
        shown = run("config", "show", "--crawl")["settings"]
        assert shown == {
            "*": {"member.heartbeat": "600ms", "exchange.every": "1s500ms"},
            "beta": {"exchange.every": "2s"},
        }
        here = run("config", "show", "--into", str(tmp_path / "g" / "beta"), "-s", "member.name=beta")
        assert here["exchange.every"] == {"value": "2s", "from": "gcs config set --for beta"}
        assert here["member.heartbeat"] == {"value": "600ms", "from": "gcs config set"}

        before = group.members()["beta"].pulse.incarnation
        group.kill("beta")
        group.ask(lambda board: board.take_down("rulings"))
        group.start("beta")
        group.until(lambda seen: seen["beta"].pulse.incarnation != before, "beta again")
        assert run("config", "show", "--crawl")["settings"] == shown
        assert beats(group, "beta") < 3

        # A newer version of the program knows more settings, and other values.
        newer = {"future.thing": "1", "partition.method": "III"}
        group.ask(lambda board: board.rule(lambda now, epoch: now.set(ALL, newer, epoch)))
        run("config", "unset", "member.heartbeat")
        until_fast(group, "alpha")
        remarks = run("config", "show", "--crawl")["remarks"]
        assert "alpha ignores future.thing: it is not known here." in remarks
        assert "beta ignores partition.method: it must be one of I, II, auto." in remarks
        assert set(remarks) <= set(run("status")["alarms"])
