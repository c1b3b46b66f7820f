"""Gatherers under a real systemd, which is PID 1 of a machine of its own: the units as they are shipped.

Where no such machine can be booted these tests are skipped, and say why; `tests/test_service.py` shows the
same on a notify socket.
"""

from __future__ import annotations

import json
import re
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gcs.errors import ExitCode
from gcs.simulate.web import Web
from gcs.units import units
from tests.crawling import ROOT
from tests.machine import CannotBoot, Machine, machine
from tests.servers import binaries

UNIT = "gcs-gatherer@a.service"
STATUS = r"(\w+): ([0-9.]+) pages/s, ([0-9,]+) queued, plan [0-9]+"
PACE = """
[Service]
WatchdogSec=3s
TimeoutStartSec=20s
RestartSec=100ms
"""
SILENT = "/usr/bin/env -u NOTIFY_SOCKET /opt/gcs/bin/gcs gatherer --into /var/lib/gcs/%i -s member.name=%i"
DROP_INS = {
    "gcs-gatherer@": PACE,
    "gcs-gatherer@mute": f"[Service]\nTimeoutStartSec=5s\nRestart=no\nExecStart=\nExecStart={SILENT}\n",
    "gcs-gatherer@unwatched": "[Service]\nWatchdogSec=0\n",
    "gcs-gatherer@wrong": "[Service]\nEnvironment=GCS_FETCH_DELAY=wrong\n",
    "gcs-gatherer@failing": "[Service]\nExecStart=\nExecStart=/bin/false\n",
}
CONFIG = """
[fetch]
allow = ["127.0.0.0/8"]
hosts = "/run/web/hosts"
delay = "100ms"

[redis]
url = "redis://127.0.0.1:7000"
password_file = "redis-password"

[member]
heartbeat = "200ms"

[store]
keep_free = "0B"

[helpers]
sites = ["office"]
"""


@pytest.fixture(scope="module")
def booted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A machine with GCS in /opt/gcs, its units, a Redis and a web."""
    place = tmp_path_factory.mktemp("machine")
    packages = next(each for each in sys.path if each.endswith("site-packages"))
    programs = place / "bin"
    programs.mkdir()
    python = "/usr/bin/env python3"
    binds = {"/opt/source": ROOT, "/opt/packages": Path(packages), "/opt/server": binaries()["valkey"]}
    if sys.base_prefix != "/usr":
        python = f"/opt/python/bin/python{sys.version_info.major}.{sys.version_info.minor}"
        binds["/opt/python"] = Path(sys.base_prefix)
    for name, words in (("python", ""), ("gcs", "-P -m cli ")):
        script = programs / name
        paths = "LD_LIBRARY_PATH=/opt/python/lib PYTHONPATH=/opt/source:/opt/packages"
        script.write_text(f'#!/bin/sh\n{paths} exec {python} {words}"$@"\n')
        script.chmod(0o755)
    binds["/opt/gcs/bin"] = programs
    for unit in units(place, user=False, programs=Path("/opt/gcs/bin")):
        unit.write()
        binds[f"/etc/{unit.path.relative_to(place)}"] = unit.path
    try:
        with machine(place / "log", binds) as here:
            for name, text in DROP_INS.items():
                here.write(f"/etc/systemd/system/{name}.service.d/test.conf", text)
            here.write("/etc/gcs/config.toml", CONFIG)
            here.write("/etc/gcs/redis-password", "open sesame\n")
            here.run("chmod", "600", "/etc/gcs/redis-password")
            here.run("install", "-d", "-m", "1777", "/var/tmp")
            here.run("systemctl", "daemon-reload")
            _serve(here)
            gcs(here, "helper", "invite", "desk", "--into", "/etc/gcs/invitation")
            yield here
    except CannotBoot as reason:
        pytest.skip(f"{reason}; see tests/test_service.py for the same on a notify socket")


def _serve(here: Machine) -> None:
    """Start a Redis and a web."""
    options = ["--port", "7000", "--requirepass", "open sesame", "--save", ""]
    here.run("systemd-run", "--unit=redis", "/opt/server", *options)
    web = "-m gcs.simulate.webserver --seed 3 --hosts 20 --pages 2000 --port 8000 --into /run/web --plain"
    web += " --slowness 1"
    here.run("systemd-run", "--unit=web", "-p", "RuntimeDirectory=web", "/opt/gcs/bin/python", *web.split())
    here.until(lambda: '"port"' in here.journal("web"), "web")


def status(here: Machine) -> tuple[str, float]:
    """What the gatherer says that it does, and its pages a second."""
    found = re.fullmatch(STATUS, here.show(UNIT, "StatusText"))
    return (found[1], float(found[2])) if found else ("", 0.0)


def gcs(here: Machine, *words: str) -> str:
    """What an operator's command says."""
    secret = "LoadCredential=redis-password:/etc/gcs/redis-password"
    return here.run("systemd-run", "--wait", "--pipe", "--quiet", "-p", secret, "/opt/gcs/bin/gcs", *words)


def until_another(here: Machine, pid: int, restarts: int) -> None:
    """Wait until the gatherer is ready again, as another process."""
    here.until(
        lambda: (
            here.show(UNIT, "NRestarts") == str(restarts)
            and here.show(UNIT, "ActiveState") == "active"
            and here.show(UNIT, "MainPID") not in ("0", str(pid))
        ),
        "restart",
    )


def test_a_life(booted: Machine) -> None:
    """A gatherer is ready, crawls, comes back when it is killed or hangs, reloads, and drains on stop."""
    here = booted
    here.run("systemctl", "start", UNIT)
    assert here.show(UNIT, "ActiveState") == "active"
    assert here.run("stat", "-c", "%U %a", "/var/lib/gcs/a") == "gcs 750"
    gcs(here, "seed", "add", *Web(3, 20, 2000, port=8000, plain=True, slowness=1.0).seeds)
    here.until(lambda: status(here)[1] > 0, "pages")
    assert status(here)[0] == "crawling"

    until_another(here, here.kill(UNIT, signal.SIGKILL), restarts=1)
    assert "Failed with result 'signal'" in here.journal(UNIT)

    until_another(here, here.kill(UNIT, signal.SIGSTOP), restarts=2)
    journal = here.journal(UNIT)
    assert "Failed with result 'watchdog'" in journal
    assert "Fatal Python error: Aborted" in journal

    here.write("/etc/gcs/config.toml", CONFIG.replace('delay = "100ms"', 'delay = "50ms"'))
    here.run("systemctl", "reload", UNIT)
    here.until(lambda: "changed=fetch.delay" in here.journal(UNIT), "other configuration")
    here.write("/etc/gcs/config.toml", CONFIG.replace('delay = "100ms"', "delay = 1"))
    here.run("systemctl", "reload", UNIT)
    here.until(lambda: "the one before stays in force" in here.journal(UNIT), "refusal")
    here.write("/etc/gcs/config.toml", CONFIG)
    assert here.show(UNIT, "ActiveState") == "active"

    here.until(lambda: status(here)[1] > 0, "pages")
    began = time.monotonic()
    here.run("systemctl", "stop", UNIT)
    assert time.monotonic() - began < 45
    *_, after = here.journal(UNIT).split("Stopping gcs-gatherer@a.service")
    assert "event=ended gatherer=a why=interrupted" in after
    assert "Deactivated successfully" in after

    here.run("systemctl", "start", UNIT)
    here.until(lambda: gcs(here, "pause") and "balanced." in gcs(here, "audit"), "balance")
    here.run("systemctl", "stop", UNIT)


def test_one_that_is_not_ready(booted: Machine) -> None:
    """The control: a gatherer that works, but does not say so, has not started."""
    mute = "gcs-gatherer@mute.service"
    booted.run("systemctl", "start", mute, check=False)
    assert (booted.show(mute, "ActiveState"), booted.show(mute, "Result")) == ("failed", "timeout")


def test_one_that_is_not_watched(booted: Machine) -> None:
    """The other control: without a watchdog one that hangs stays as it is."""
    unit = "gcs-gatherer@unwatched.service"
    booted.run("systemctl", "start", unit)
    pid = booted.kill(unit, signal.SIGSTOP)
    time.sleep(5)
    assert (booted.show(unit, "MainPID"), booted.show(unit, "ActiveState")) == (str(pid), "active")
    booted.run("systemctl", "kill", "-s", "KILL", unit)
    booted.run("systemctl", "stop", unit)


def test_a_wrong_configuration(booted: Machine) -> None:
    """What does not get better by itself is not tried again."""
    unit = "gcs-gatherer@wrong.service"
    booted.run("systemctl", "start", unit, check=False)
    result = [booted.show(unit, name) for name in ("ActiveState", "ExecMainStatus", "NRestarts")]
    assert result == ["failed", str(ExitCode.CONFIG.value), "0"]
    assert "GCS_FETCH_DELAY: fetch.delay is" in booted.journal(unit)


def test_no_password(booted: Machine) -> None:
    """Without the file there is an empty credential, which does no harm unless a gatherer is to use it."""
    unit, file = "gcs-gatherer@nobody.service", "/etc/gcs/redis-password"
    booted.run("mv", file, f"{file}.aside")
    booted.run("systemctl", "start", unit, check=False)
    booted.run("mv", f"{file}.aside", file)
    assert booted.show(unit, "ExecMainStatus") == str(ExitCode.CONFIG.value)
    assert "the first line of redis.password_file" in booted.journal(unit)


def test_one_that_fails_again_and_again(booted: Machine) -> None:
    """It is tried at once for a while, and then with patience; to stop it does not wait for that."""
    unit = "gcs-gatherer@failing.service"
    booted.run("systemctl", "start", unit, check=False)
    booted.until(lambda: "it has failed 3 times lately; waiting for 5 s" in booted.journal(unit), "patience")
    began = time.monotonic()
    booted.run("systemctl", "stop", unit)
    assert time.monotonic() - began < 4.5


def test_nights(booted: Machine) -> None:
    """The timer of the evening brings that of the morning along, whose service stops the helper."""
    booted.run("systemctl", "enable", "--now", "gcs-helper.timer")
    for timer in ("gcs-helper.timer", "gcs-helper-stop.timer"):
        assert (booted.show(timer, "ActiveState"), booted.show(timer, "Result")) == ("active", "success")
    booted.run("systemctl", "start", "gcs-helper.service")
    assert booted.show("gcs-helper.service", "ActiveState") == "active"
    assert re.fullmatch(r"(helps|waits): .* 0 pages", booted.show("gcs-helper.service", "StatusText"))
    tell = ["env", "GCS_CONFIG=/dev/null", "XDG_RUNTIME_DIR=/run/gcs-helper", "/opt/gcs/bin/gcs", "helper"]
    assert "paused" in booted.run(*tell, "pause")
    booted.run("systemctl", "start", "gcs-helper-stop.service")
    assert booted.show("gcs-helper.service", "ActiveState") == "inactive"
    booted.run("systemctl", "disable", "--now", "gcs-helper.timer")
    assert booted.show("gcs-helper-stop.timer", "ActiveState") == "inactive"


def test_a_desktop(booted: Machine) -> None:
    """The helper of a user runs under the user's own manager, with all that the unit asks for."""
    # Users' managers need a directory that the system's makes for its first service with mounts of its own.
    booted.run("systemctl", "start", "gcs-helper-stop.service")
    uid = booted.run("id", "-u", "gcs")
    home, runtime = "/var/lib/gcs", f"/run/user/{uid}"
    (unit,) = units(Path(f"{home}/.config"), user=True, programs=Path("/opt/gcs/bin"))
    booted.write(str(unit.path), unit.text)
    booted.write(f"{home}/.config/gcs/invitation", booted.run("cat", "/etc/gcs/invitation"))
    booted.run("chown", "-R", "gcs", f"{home}/.config")
    booted.run("install", "-d", "-o", "gcs", runtime)
    variables = f"Environment=XDG_RUNTIME_DIR={runtime} HOME={home}"
    own = ["systemd-run", "--quiet", f"--uid={uid}", "-p", variables]
    booted.run(*own, "--unit=manager", "-p", "Delegate=yes", "/lib/systemd/systemd", "--user")
    ask = [*own, "--wait", "--pipe", "systemctl", "--user"]
    booted.until(lambda: "default.target" in booted.run(*ask, "list-units", check=False), "manager")
    booted.run(*ask, "start", "gcs-helper.service")
    assert booted.run(*ask, "is-active", "gcs-helper.service") == "active"
    # A desktop that starts later tells the manager where its display is, and the helper finds it.
    display, seen = f"{runtime}/wayland-7", f"{runtime}/seen"
    listens = f"import socket; s = socket.socket(socket.AF_UNIX); s.bind('{display}'); s.listen(); s.accept()"
    listener = [*own, "--unit=display", "/opt/gcs/bin/python", "-c", f"{listens}; open('{seen}', 'w')"]
    booted.run(*listener)
    booted.run(*ask, "set-environment", "WAYLAND_DISPLAY=wayland-7")
    booted.until(lambda: booted.run("ls", seen, check=False) == seen, "a look at the display")
    booted.run("systemctl", "stop", "manager")


def test_the_target(booted: Machine) -> None:
    """What is enabled starts with the target, and stops with it."""
    booted.run("systemctl", "enable", "gcs.target", UNIT)
    booted.run("systemctl", "start", "gcs.target")
    booted.until(lambda: booted.show(UNIT, "ActiveState") == "active", "gatherer")
    booted.run("systemctl", "stop", "gcs.target")
    booted.until(lambda: booted.show(UNIT, "ActiveState") == "inactive", "end")


def test_a_monitor(booted: Machine) -> None:
    """The web page is served under the same hardening; its tokens are its own, and not in the journal."""
    unit = "gcs-monitor.service"
    booted.run("systemctl", "start", unit)
    assert booted.show(unit, "ActiveState") == "active"
    booted.until(lambda: "pages" in booted.show(unit, "StatusText"), unit)
    asked = (
        "import urllib.request as r; print(r.urlopen('http://127.0.0.1:8470/api/session').read().decode())"
    )
    assert '"role":null' in booted.run("/opt/gcs/bin/python", "-c", asked)
    tokens = "/var/lib/gcs/monitor/tokens.json"
    assert booted.run("stat", "-c", "%a %U", tokens) == "600 gcs"
    kept = json.loads(booted.run("cat", tokens))
    assert not any(token in booted.journal(unit) for token in kept.values())
    booted.run("systemctl", "stop", unit)
    assert booted.show(unit, "Result") == "success"
