"""The files for systemd: systemd takes them, what they say to `gcs` is right, and `gcs` writes them."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from datetime import datetime
from pathlib import Path

import click
import pytest

import cli
from gcs import patience
from gcs.config import SETTINGS
from gcs.errors import ExitCode, UsageError
from gcs.units import Unit, default_prefix, install, units
from tests.crawling import ROOT, gcs_here

SOURCE = ROOT / "systemd"
GATHERER = SOURCE / "gcs-gatherer@.service"
MONITOR = SOURCE / "gcs-monitor.service"
DAEMONS = [GATHERER, MONITOR, SOURCE / "gcs-helper.service", SOURCE / "user" / "gcs-helper.service"]

needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd is not installed, which has systemd-analyze"
)


def said(unit: Path, name: str) -> list[str]:
    """The values of a key."""
    return [str(value) for value in re.findall(rf"^{name}=(.*)$", unit.read_text(), re.MULTILINE)]


def written(place: Path, *, user: bool = False) -> list[Path]:
    """All units, with programs that are there in place of those that are not."""
    programs = place / "bin"
    programs.mkdir()
    for name in ("gcs", "python"):
        (programs / name).symlink_to("/bin/true")
    chosen = list(units(place, user=user, programs=Path("/opt/gcs/bin")))
    install(
        [Unit(each.path, each.text.replace("/opt/gcs/bin", str(programs))) for each in chosen], force=False
    )
    return [unit.path for unit in chosen if unit.path.suffix != ".conf"]


def analyze(place: Path, *words: str, user: bool) -> subprocess.CompletedProcess[str]:
    """What systemd says of some units."""
    environment = os.environ | {"XDG_RUNTIME_DIR": str(place)}
    manager = ["--user"] if user else []
    return subprocess.run(
        ["systemd-analyze", *manager, *words], capture_output=True, text=True, check=False, env=environment
    )


@needs_systemd
@pytest.mark.parametrize("user", [False, True])
def test_systemd_takes_them(tmp_path: Path, user: bool) -> None:
    """There is nothing in the units that systemd does not know."""
    paths = [str(path) for path in written(tmp_path, user=user)]
    assert len(paths) == (1 if user else 7)
    checked = analyze(tmp_path, "verify", "--man=no", "--recursive-errors=no", *paths, user=user)
    assert (checked.returncode, checked.stderr) == (0, "")


@needs_systemd
def test_systemd_does_not_take_what_it_does_not_know(tmp_path: Path) -> None:
    """The control: a key of a later systemd would be found."""
    unit = tmp_path / "a.service"
    unit.write_text("[Service]\nExecStart=/bin/true\nRestartStepsOfTheFuture=5\n")
    checked = analyze(tmp_path, "verify", "--man=no", "--recursive-errors=no", str(unit), user=False)
    assert checked.returncode == 1


@needs_systemd
@pytest.mark.parametrize(
    ("base", "next_", "within_s"),
    [("19:00", "20:00", 3600), ("22:13", "22:30", 1800), ("04:59", "05:00", 1800), ("05:31", "20:00", 86400)],
)
def test_a_machine_that_is_switched_on_at_night(base: str, next_: str, within_s: int, tmp_path: Path) -> None:
    """The timer of nights starts the helper within half an hour of the night, and not in the day."""
    (when,) = re.findall(r"^OnCalendar=(.*)$", (SOURCE / "gcs-helper.timer").read_text(), re.MULTILINE)
    said = analyze(tmp_path, "calendar", f"--base-time=2026-03-03 {base}", when, user=False).stdout
    found = re.search(r"Next elapse: \w+ (\S+ \S+)", said)
    assert found, said
    elapse = datetime.fromisoformat(found[1])
    assert f"{elapse:%H:%M}" == next_
    assert (elapse - datetime.fromisoformat(f"2026-03-03 {base}")).total_seconds() <= within_s


@needs_systemd
@pytest.mark.parametrize("user", [False, True])
def test_services_are_hardened(tmp_path: Path, user: bool) -> None:
    """Every service has an exposure of 2.0 at most, by systemd's own measure."""
    for path in written(tmp_path, user=user):
        if path.suffix == ".service":
            judged = analyze(
                tmp_path, "security", "--offline=true", "--threshold=20", "--no-pager", str(path), user=user
            )
            assert judged.returncode == 0, judged.stdout


@pytest.mark.parametrize("unit", DAEMONS, ids=lambda unit: str(unit.relative_to(SOURCE)))
def test_what_daemons_run(unit: Path) -> None:
    """Command, options, settings and variables exist."""
    (line,) = said(unit, "ExecStart")
    _, name, *arguments = shlex.split(line)
    command = cli.main.get_command(click.Context(cli.main), name)
    assert command is not None
    options = {option for parameter in command.params for option in parameter.opts}
    assert {each for each in arguments if each.startswith("-")} <= options
    variables = {setting.variable for setting in SETTINGS.values()} | {"GCS_CONFIG"}
    assert set(re.findall(r"GCS_[A-Z_]+", unit.read_text())) <= variables


def test_what_a_gatherer_and_a_monitor_are_told() -> None:
    """Settings exist, and their directories are those that systemd makes for them."""
    (line,) = said(GATHERER, "ExecStart")
    arguments = shlex.split(line)
    assert arguments[arguments.index("-s") + 1].partition("=")[0] in SETTINGS
    for unit in (GATHERER, MONITOR):
        arguments = shlex.split(said(unit, "ExecStart")[0])
        assert [arguments[arguments.index("--into") + 1]] == [f"/var/lib/{said(unit, 'StateDirectory')[0]}"]


@pytest.mark.parametrize("unit", DAEMONS, ids=lambda unit: str(unit.relative_to(SOURCE)))
def test_exit_codes(unit: Path) -> None:
    """What cannot get better is not tried again, and a daemon that was told to stop has not failed."""
    hopeless = [ExitCode.USAGE, ExitCode.CONFIG, ExitCode.STORE]
    assert said(unit, "RestartPreventExitStatus") == [" ".join(f"{code:d}" for code in hopeless)]
    assert said(unit, "SuccessExitStatus") == [f"{ExitCode.INTERRUPTED:d}"]
    assert said(unit, "Type") == ["notify"]


# Patience


def test_patience() -> None:
    """The first failures cost nothing, then each costs twice as much, and old ones do not count."""
    now = 10_000.0
    pauses = [patience.pause_s([now - 1] * count, now) for count in range(11)]
    assert pauses == [0, 0, 0, 5, 10, 20, 40, 80, 160, 300, 300]
    assert patience.pause_s([now - patience.LATELY_S] * 10, now) == 0
    assert patience.pause_s([now + 1] * 10, now) == 0


def test_failures_are_remembered(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Only failures are noted, and the wait before a start comes from them."""
    slept: list[float] = []
    for result in ("success", "exit-code", "watchdog", "signal"):
        patience.wait(tmp_path, 1000.0, slept.append)
        patience.note(tmp_path, 1000.0, {"SERVICE_RESULT": result})
    assert slept == []
    patience.wait(tmp_path, 1001.0, slept.append)
    assert slept == [5.0]
    assert capsys.readouterr().err == "<5>it has failed 3 times lately; waiting for 5 s\n"
    (tmp_path / "failures").write_text("damaged\n")
    patience.wait(tmp_path, 1001.0, slept.append)
    assert slept == [5.0]


def test_patience_as_units_call_it(tmp_path: Path) -> None:
    """The module runs with the arguments that are in the units."""
    for unit in DAEMONS:
        for key in ("ExecStartPre", "ExecStopPost"):
            (line,) = said(unit, key)
            program, *arguments = shlex.split(line)
            assert program.lstrip("-") == "/opt/gcs/bin/python"
            words = [each.replace("${RUNTIME_DIRECTORY}", str(tmp_path)) for each in arguments]
            environment = os.environ | {"SERVICE_RESULT": "signal", "PYTHONPATH": str(ROOT)}
            subprocess.run([sys.executable, *words], check=True, env=environment, cwd="/")
    assert len((tmp_path / "failures").read_text().split()) == 4


# Writing them


def test_install_units(tmp_path: Path) -> None:
    """`gcs install-units` writes all files, with the programs of this installation, and says what to run."""
    programs = Path(sys.executable).parent
    prefix = ["--prefix", str(tmp_path)]
    done = gcs("install-units", *prefix)
    if "is hidden from system services" in done:
        pytest.skip(f"{programs} is hidden from system services")
    assert "systemctl daemon-reload" in done
    names = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert {"systemd/system/gcs-gatherer@.service", "sysusers.d/gcs.conf", "tmpfiles.d/gcs.conf"} <= names
    assert len(names) == 9
    text = (tmp_path / "systemd/system/gcs-gatherer@.service").read_text()
    assert f"ExecStart={programs}/gcs gatherer" in text
    assert "/opt/gcs" not in text
    assert gcs("install-units", *prefix).count("unchanged") == 9


def gcs(*words: str) -> str:
    """What a command says, good or bad."""
    return gcs_here(*words).output


def test_what_is_there_stays(tmp_path: Path) -> None:
    """A file that differs is not replaced, and then none is written, unless that is forced."""
    target = tmp_path / "systemd" / "user" / "gcs-helper.service"
    target.parent.mkdir(parents=True)
    target.write_text("mine\n")
    words = ["install-units", "--user", "--prefix", str(tmp_path)]
    refused = gcs_here(*words)
    assert refused.exit_code == ExitCode.USAGE
    assert f"{target}: there already, and different; --force replaces it." in refused.output
    assert target.read_text() == "mine\n"
    assert f"# {target} (differs)" in gcs(*words, "--dry-run")
    assert target.read_text() == "mine\n"
    forced = gcs_here(*words, "--force")
    assert (forced.exit_code, target.read_text().count("ExecStart=")) == (0, 1)
    assert f"written   {target}" in forced.output
    assert "systemctl --user enable --now gcs-helper.service" in forced.output


def test_nothing_is_written_when_one_differs(tmp_path: Path) -> None:
    """All or nothing: what is refused leaves no half of an installation."""
    chosen = list(units(tmp_path, user=False, programs=Path("/opt/gcs/bin")))
    chosen[-1].write()
    changed = Unit(chosen[-1].path, "other\n")
    with pytest.raises(UsageError, match="there already"):
        install([*chosen[:-1], changed], force=False)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [changed.path]


def test_where_nobody_may_write(tmp_path: Path) -> None:
    """A directory that cannot be made is one sentence."""
    (tmp_path / "systemd").write_text("a file\n")
    refused = gcs_here("install-units", "--user", "--prefix", str(tmp_path))
    assert refused.exit_code == ExitCode.USAGE
    assert "cannot be written" in refused.output


def test_programs_that_services_cannot_see(tmp_path: Path) -> None:
    """Units that could not start anything are refused; a user's own can."""
    programs = Path("/home/me/gcs/bin")
    with pytest.raises(UsageError, match="is hidden from system services"):
        list(units(tmp_path, user=False, programs=programs))
    assert list(units(tmp_path, user=True, programs=programs))


def test_where_they_belong(monkeypatch: pytest.MonkeyPatch) -> None:
    """An administrator's units are in /etc, a user's where XDG says."""
    monkeypatch.setenv("HOME", "/home/me")
    assert default_prefix({}, user=False) == Path("/etc")
    assert default_prefix({}, user=True) == Path("/home/me/.config")
    assert default_prefix({"XDG_CONFIG_HOME": "/x"}, user=True) == Path("/x")


def test_they_are_in_the_wheel(tmp_path: Path) -> None:
    """An installed package has all files that the source has."""
    source = tmp_path / "source"
    keep = shutil.ignore_patterns(".*", "tests", "benchmarks", "docs", "__pycache__", "*.egg-info", "build")
    shutil.copytree(ROOT, source, symlinks=True, ignore=keep)
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*build, "--wheel-dir", str(tmp_path), str(source)], check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("gcs/systemd/")}
    files = {path.relative_to(SOURCE) for path in SOURCE.rglob("*") if path.is_file()}
    assert names >= {f"gcs/systemd/{path}" for path in files if path.suffix != ".md"}
