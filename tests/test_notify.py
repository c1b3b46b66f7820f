"""What a daemon tells its service manager, and when it counts as well."""

from __future__ import annotations

import os
import secrets
import socket
import time
from contextlib import suppress
from pathlib import Path

import pytest

from gcs.core.vitals import Sign, silent
from gcs.notify import Notifier
from tests.manager import manager


@pytest.fixture(params=["path", "abstract"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a manager may listen."""
    return str(tmp_path / "notify") if request.param == "path" else f"@gcs-{secrets.token_hex(8)}"


def test_what_is_told(address: str) -> None:
    """Every report has the form that sd_notify(3) describes."""
    with manager(address) as listening:
        notifier = Notifier(address, watchdog_s=2.0)
        notifier.ready()
        notifier.status("two\nlines", is_well=True)
        notifier.status("ill", is_well=False)
        before = time.monotonic() * 1e6
        notifier.reloading()
        notifier.stopping()
        notifier.stopping(within_s=1.5)
        ready, well, ill, reloading, stopping, slowly = listening.listen()
    assert ready == {"READY": "1"}
    assert well == {"STATUS": "two lines", "WATCHDOG": "1"}
    assert ill == {"STATUS": "ill"}
    assert before - 1 <= int(reloading.pop("MONOTONIC_USEC")) <= time.monotonic() * 1e6
    assert reloading == {"RELOADING": "1"}
    assert stopping == {"STOPPING": "1"}
    assert slowly == {"STOPPING": "1", "EXTEND_TIMEOUT_USEC": "1500000"}


def test_the_environment(address: str) -> None:
    """The manager is the one that the environment names, and children do not inherit it."""
    environ = {
        "NOTIFY_SOCKET": address,
        "WATCHDOG_USEC": "2500000",
        "WATCHDOG_PID": str(os.getpid()),
        "A": "b",
    }
    notifier = Notifier.from_environment(environ)
    assert (notifier.is_heard, notifier.watchdog_s, environ) == (True, 2.5, {"A": "b"})
    with manager(address) as listening:
        notifier.ready()
        assert listening.listen() == [{"READY": "1"}]


@pytest.mark.parametrize(
    ("environ", "is_heard", "watchdog_s"),
    [
        ({}, False, None),
        ({"WATCHDOG_USEC": "1000000"}, False, None),
        ({"NOTIFY_SOCKET": "vsock:2:1"}, False, None),
        ({"NOTIFY_SOCKET": "/n"}, True, None),
        ({"NOTIFY_SOCKET": "/n", "WATCHDOG_USEC": "0"}, True, None),
        ({"NOTIFY_SOCKET": "/n", "WATCHDOG_USEC": "soon"}, True, None),
        ({"NOTIFY_SOCKET": "/n", "WATCHDOG_USEC": "1000000"}, True, 1.0),
        ({"NOTIFY_SOCKET": "/n", "WATCHDOG_USEC": "1000000", "WATCHDOG_PID": "1"}, True, None),
    ],
)
def test_who_is_watched(environ: dict[str, str], is_heard: bool, watchdog_s: float | None) -> None:
    """There is a watchdog only where the manager asks this very process for signs of life."""
    notifier = Notifier.from_environment(environ)
    assert (notifier.is_heard, notifier.watchdog_s, environ) == (is_heard, watchdog_s, {})


def test_nobody_to_tell(tmp_path: Path) -> None:
    """Without a manager, or with one that is gone, nothing happens."""
    Notifier().ready()
    Notifier(str(tmp_path / "gone")).ready()


def test_no_watchdog_is_fed_that_is_not_there(address: str) -> None:
    """A service without a watchdog says only how it is."""
    with manager(address) as listening:
        Notifier(address).status("well", is_well=True)
        assert listening.listen() == [{"STATUS": "well"}]


def test_a_manager_that_is_slow(address: str) -> None:
    """What the manager does not take at once is told later, in order, and nobody waits for it."""
    notifier = Notifier(address)
    with manager(address) as listening, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        where = f"\0{address[1:]}" if address.startswith("@") else address
        with suppress(BlockingIOError):
            while True:
                other.sendto(b"X=1", socket.MSG_DONTWAIT, where)
        notifier.reloading()
        notifier.ready()
        listening.listen()
        notifier.status("well", is_well=True)
        said = [next(iter(each)) for each in listening.listen()]
    assert said == ["RELOADING", "READY", "STATUS"]


def test_silent_parts() -> None:
    """A part is ill when it has not answered within the interval after its rest."""
    quick, resting, unborn = Sign(), Sign(), Sign()
    signs = {"quick": quick, "resting": resting, "unborn": unborn}
    quick.answered(100.0)
    resting.answered(100.0, rest_s=60.0)
    assert silent(signs, 110.0, 10.0) == []
    assert silent(signs, 110.1, 10.0) == ["quick"]
    assert silent(signs, 170.1, 10.0) == ["quick", "resting"]
    quick.answered(170.0)
    resting.answered(170.0)
    assert silent(signs, 170.1, 10.0) == []
