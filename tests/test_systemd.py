"""The systemd unit: systemd takes it, and what it says to `gcs` is right."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

import cli
from gcs.config import SETTINGS
from gcs.errors import ExitCode
from tests.crawling import ROOT

UNIT = ROOT / "systemd" / "gcs-gatherer@.service"
TEXT = UNIT.read_text()


def said(name: str) -> str:
    """The value of a line."""
    (value,) = re.findall(rf"^{name}=(.*)$", TEXT, re.MULTILINE)
    return str(value)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_takes_it(tmp_path: Path) -> None:
    """There is nothing in the unit that systemd does not know."""
    program = said("ExecStart").split()[0]
    unit = tmp_path / "gcs-gatherer@a.service"
    unit.write_text(TEXT.replace(program, sys.executable))
    checked = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False
    )
    assert (checked.returncode, checked.stderr) == (0, "")


def test_what_it_runs() -> None:
    """Command, options, settings and variables exist."""
    _, name, *arguments = shlex.split(said("ExecStart"))
    command = cli.main.get_command(click.Context(cli.main), name)
    assert isinstance(command, click.Command)
    options = {option for parameter in command.params for option in parameter.opts}
    assert {each for each in arguments if each.startswith("-")} <= options
    assert arguments[arguments.index("-s") + 1].partition("=")[0] in SETTINGS
    assert arguments[arguments.index("--into") + 1] == f"/var/lib/{said('StateDirectory')}"
    variables = {setting.variable for setting in SETTINGS.values()}
    assert set(re.findall(r"GCS_[A-Z_]+", TEXT)) <= variables


def test_exit_codes() -> None:
    """What cannot get better is not tried again, and a gatherer that was told to stop has not failed."""
    assert said("RestartPreventExitStatus").split() == [f"{ExitCode.USAGE:d}", f"{ExitCode.CONFIG:d}"]
    assert said("SuccessExitStatus") == f"{ExitCode.INTERRUPTED:d}"
