"""The command line: what it prints, and the exit code it ends with."""

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import structlog
from click.testing import CliRunner, Result

import cli
from gcs import __version__
from gcs.config import SETTINGS, Config
from gcs.errors import ConfigError, ExitCode
from tuplespace.errors import TupleSpaceError, Unavailable

GCS = Path(sys.executable).with_name("gcs")


@pytest.fixture(autouse=True)
def _as_on_a_bare_machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No variable of the machine reaches the tests, and structlog is left as it was."""
    for variable in [each for each in os.environ if each.startswith("GCS_")]:
        monkeypatch.delenv(variable)
    monkeypatch.setattr("gcs.config.SYSTEM_FILE", Path("/nonexistent"))
    before = structlog.get_config()
    yield
    structlog.configure(**before)


def gcs(*arguments: str) -> Result:
    """Run one command in this process."""
    return CliRunner().invoke(cli.main, arguments)


def demo_that(monkeypatch: pytest.MonkeyPatch, run: Any) -> None:
    """Put this function in the place of the demonstration."""
    module = ModuleType("gcs.demo")
    monkeypatch.setattr(module, "run", run, raising=False)
    monkeypatch.setitem(sys.modules, "gcs.demo", module)
    monkeypatch.setattr("gcs.demo", module, raising=False)


def demo_raising(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Put a demonstration that fails in the place of the real one."""

    def run(_config: Config, **_options: int) -> int:
        raise error

    demo_that(monkeypatch, run)


class TestHelp:
    """What the command says about itself."""

    def test_version(self) -> None:
        """The version is the package's."""
        assert gcs("--version").output == f"gcs, version {__version__}\n"

    def test_exit_codes(self) -> None:
        """The help lists every exit code with its meaning."""
        output = gcs("--help").output
        for code in ExitCode:
            assert f"{code.value:<4} {code.meaning}\n" in output

    def test_help_needs_no_configuration(self) -> None:
        """A broken configuration does not keep anyone from reading the help of a command."""
        result = gcs("-s", "nonsense", "demo", "--help")
        assert (result.exit_code, "--pages" in result.output) == (0, True)

    def test_seeds_from_the_standard_input(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Seeds may come through a pipe; what is wrong with one is said before anybody is asked."""
        result = CliRunner().invoke(
            cli.main, ["-s", "redis.url=redis://x.invalid", "seed", "add", "-f", "-"], input="gopher://a/"
        )
        assert result.exit_code == ExitCode.USAGE
        assert "gopher://a/ cannot be crawled" in result.stderr

    def test_installed(self) -> None:
        """The console script is installed and runs."""
        done = subprocess.run([GCS, "--version"], capture_output=True, text=True, check=True)
        assert done.stdout == f"gcs, version {__version__}\n"


class TestCompletion:
    """`gcs completion`."""

    @pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
    def test_script(self, shell: str) -> None:
        """The script begins with how to keep it, and asks gcs what comes next."""
        result = gcs("completion", shell)
        first, _, script = result.output.partition("\n")
        assert first.startswith("# For every new shell")
        assert f"_GCS_COMPLETE={shell}_complete" in script

    @pytest.mark.parametrize(
        ("words", "found"),
        [
            ("gcs sta", "status"),
            ("gcs seed a", "add"),
            ("gcs status --w", "--watch"),
            ("gcs status -s fetch.delay_", "fetch.delay_factor="),
            ("gcs config set rebalance.coo", "rebalance.cooldown="),
            ("gcs config unset fetch.max_d", "fetch.max_delay"),
        ],
    )
    def test_what_comes_next(self, words: str, found: str) -> None:
        """Commands, options and the names of settings are completed."""
        asked = {
            "_GCS_COMPLETE": "bash_complete",
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split()) - 1),
        }
        result = CliRunner().invoke(cli.main, env=asked, prog_name="gcs")
        assert result.output.split() == [f"plain,{found}"]


class TestConfig:
    """`gcs config`."""

    def test_check(self, tmp_path: Path) -> None:
        """A right configuration is said to be right, with the file that was read."""
        file = tmp_path / "mine.toml"
        file.write_text("")
        assert (
            gcs("--config", str(file), "config", "check").output == f"The configuration is right ({file}).\n"
        )
        assert gcs("config", "check").output == "The configuration is right (no file).\n"

    def test_check_fails(self) -> None:
        """A wrong configuration is one sentence on standard error and exit code 3."""
        result = gcs("-s", "log.levle=info", "config", "check")
        assert result.stderr == "gcs: -s: unknown setting log.levle; did you mean log.level?\n"
        assert (result.stdout, result.exit_code) == ("", 3)

    def test_show_is_toml(self) -> None:
        """What is shown is TOML that says the same again, with the origin of each value."""
        result = gcs("-s", "redis.timeout=5s", "--log-level", "error", "config", "show")
        tables = tomllib.loads(result.output)
        assert [f"{section}.{key}" for section, table in tables.items() for key in table] == list(SETTINGS)
        assert tables["redis"]["timeout"] == "5s"
        assert tables["log"]["level"] == "error"
        origins = {
            line.split(" = ")[0]: line.split(" # ")[1] for line in result.output.splitlines() if "=" in line
        }
        assert (origins["timeout"], origins["level"], origins["lease"]) == ("-s", "-s", "default")

    def test_show_json(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """For scripts there is one JSON object, with secrets masked there too."""
        monkeypatch.setenv("GCS_REDIS_PASSWORD", "hunter2")
        table = json.loads(gcs("config", "show", "--json").output)
        assert list(table) == list(SETTINGS)
        assert table["redis.password"] == {"value": "********", "from": "GCS_REDIS_PASSWORD"}
        assert table["space.max_depth"] == {"value": 8, "from": "default"}


class TestDemo:
    """`gcs demo`."""

    def test_options_and_exit_code(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The demonstration is given the options, and its result is the exit code."""
        calls = []

        def run(config: Config, **options: object) -> int:
            calls.append(options)
            return len(calls)

        demo_that(monkeypatch, run)
        assert gcs("demo").exit_code == 1
        assert (
            gcs(
                "demo", "--hosts", "12", "--pages", "70", "--seed", "2", "--into", "x", "--no-monitor"
            ).exit_code
            == 2
        )
        assert calls == [
            {"hosts": 100, "pages": 1500, "seed": 7, "into": None, "monitor": True, "stay": False},
            {"hosts": 12, "pages": 70, "seed": 2, "into": Path("x"), "monitor": False, "stay": False},
        ]

    def test_usage(self) -> None:
        """A number out of range is wrong usage, exit code 2."""
        assert gcs("demo", "--pages", "0").exit_code == ExitCode.USAGE

    def test_settings_after_the_command(self) -> None:
        """Settings may be given after the command too, and are checked there as before it."""
        result = gcs("config", "show", "-s", "redis.timeout=5s", "--json")
        assert json.loads(result.output)["redis.timeout"]["value"] == "5s"
        assert gcs("config", "check", "-s", "redis.timeout=long").exit_code == ExitCode.CONFIG


class TestErrors:
    """Errors become one sentence and a documented exit code."""

    def test_the_tuple_space(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """An error of the tuple space ends with exit code 4."""
        demo_raising(monkeypatch, TupleSpaceError("Redis is away."))
        result = gcs("demo")
        assert (result.stderr, result.exit_code) == ("gcs: Redis is away.\n", 4)

    def test_a_server_that_does_not_answer(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Who cannot reach Redis is told what to do next."""
        demo_raising(monkeypatch, Unavailable("redis://a has not answered for 2 s: refused."))
        told = gcs("demo").stderr
        assert told.startswith("gcs: redis://a has not answered for 2 s: refused; `gcs doctor` says ")

    def test_groups(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """An error that comes out of nurseries is told like a plain one."""
        inner = ExceptionGroup("inner", [ConfigError("No."), TupleSpaceError("Away.")])
        demo_raising(monkeypatch, ExceptionGroup("outer", [inner]))
        result = gcs("demo")
        assert (result.stderr, result.exit_code) == ("gcs: No.\n", 3)

    @pytest.mark.parametrize(
        "error",
        [KeyboardInterrupt(), BaseExceptionGroup("", [TupleSpaceError("Away."), KeyboardInterrupt()])],
    )
    def test_interrupted(self, monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
        """Control-C ends with exit code 130, whatever else went wrong on the way out."""
        demo_raising(monkeypatch, error)
        result = gcs("demo")
        assert (result.stderr, result.exit_code) == ("gcs: interrupted.\n", 130)

    @pytest.mark.parametrize(
        "error", [ZeroDivisionError(), ExceptionGroup("", [ConfigError("No."), KeyError()])]
    )
    def test_bugs_keep_their_traceback(self, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
        """An error that nobody expected is not dressed up as one that was."""
        demo_raising(monkeypatch, error)
        assert gcs("demo").exception is error

    def test_debug(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """With --debug the traceback comes before the sentence, and the exit code stays."""
        demo_raising(monkeypatch, ConfigError("No."))
        result = gcs("--debug", "demo")
        assert result.stderr.startswith("Traceback")
        assert result.stderr.endswith("\ngcs: No.\n")
        assert result.exit_code == 3

    def test_unknown_command(self) -> None:
        """An unknown command is wrong usage."""
        assert gcs("dmeo").exit_code == ExitCode.USAGE
