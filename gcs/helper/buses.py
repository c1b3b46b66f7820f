"""How long nobody has touched the desktop, by what answers on D-Bus: GNOME's compositor, and logind.

There is no D-Bus library here: systemd's own commands ask, `busctl` and `loginctl`.

GNOME knows its idle time to the millisecond. logind knows only what a desktop tells it: `IdleHint` is set
when the desktop itself finds that it is idle, after some minutes, and `IdleSinceHintMonotonic` is when the
hint last changed. So the time since then is less than the real one, never more. Some desktops never tell
(their hint stands at "no, since 0"), and of consoles only the terminal's last use is known; neither counts.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import trio

_MUTTER: Final = "org.gnome.Mutter.IdleMonitor"
_MUTTER_PATH: Final = "/org/gnome/Mutter/IdleMonitor/Core"
_GRAPHICAL: Final = frozenset({"x11", "wayland", "mir"})
_PROPERTIES: Final = ("Type", "Class", "Active", "Remote", "IdleHint", "IdleSinceHintMonotonic")


class Gnome:
    """GNOME's compositor, on the bus of the session."""

    name = "GNOME"

    def __init__(self, busctl: str) -> None:
        """Asked with this command."""
        self._command = (
            busctl,
            "--user",
            "--json=short",
            "call",
            _MUTTER,
            _MUTTER_PATH,
            _MUTTER,
            "GetIdletime",
        )

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> Gnome | None:
        """None without the command."""
        busctl = shutil.which("busctl", path=environ.get("PATH"))
        return cls(busctl) if busctl else None

    async def idle_s(self) -> float | None:
        """The seconds since the last input; None if there is no GNOME."""
        said = await output(self._command)
        try:
            return int(json.loads(said)["data"][0]) / 1000
        except (ValueError, KeyError, IndexError, TypeError):
            return None


class Logind:
    """logind, which knows of the sessions of all users."""

    name = "logind"

    def __init__(self, loginctl: str, *, clock: Callable[[], float]) -> None:
        """Asked with this command; the clock must be the system's monotonic one, by which logind goes too."""
        self._loginctl = loginctl
        self._clock = clock

    @classmethod
    def of(cls, environ: Mapping[str, str], *, clock: Callable[[], float]) -> Logind | None:
        """None without the command."""
        loginctl = shutil.which("loginctl", path=environ.get("PATH"))
        return cls(loginctl, clock=clock) if loginctl else None

    async def idle_s(self) -> float | None:
        """The seconds that all screens in use have been idle; None if one of them does not tell."""
        listed = await output((self._loginctl, "list-sessions", "--no-legend"))
        sessions = [words[0] for line in listed.splitlines() if (words := line.split())]
        if not sessions:
            return None
        wanted = [f"--property={name}" for name in _PROPERTIES]
        return screens_idle_s(
            await output((self._loginctl, "show-session", *wanted, "--", *sessions)), self._clock()
        )


def screens_idle_s(shown: str, now_s: float) -> float | None:
    """The idle time of the screen that was used last, by what `loginctl show-session` says of all sessions.

    Only sessions that are in front of somebody count: those of people, with a display, active on their seat.
    """
    times = []
    for session in _blocks(shown):
        if session.get("Class") != "user" or session.get("Type") not in _GRAPHICAL:
            continue
        if session.get("Active") != "yes" or session.get("Remote") == "yes":
            continue
        since = session.get("IdleSinceHintMonotonic", "0")
        if not since.isdecimal() or int(since) == 0:
            return None
        times.append(max(0.0, now_s - int(since) / 1e6) if session.get("IdleHint") == "yes" else 0.0)
    return min(times, default=None)


def _blocks(shown: str) -> Iterator[Mapping[str, str]]:
    for block in shown.split("\n\n"):
        yield dict(line.split("=", 1) for line in block.splitlines() if "=" in line)


async def output(command: Sequence[str]) -> str:
    """What a command writes; "" if it fails. Cancelling it ends the command."""
    try:
        done = await trio.run_process(command, capture_stdout=True, stderr=subprocess.DEVNULL, check=False)
    except OSError:
        return ""
    return done.stdout.decode(errors="replace") if done.returncode == 0 else ""
