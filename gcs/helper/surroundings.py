"""Finding out how things are on the desktop: the time, how long nobody has touched it, mains or battery.

Idle time is asked of whoever knows it best: the display first (X11, or under Wayland the compositor, or
GNOME), then logind; where nobody tells, the load of the machine stands in for it. The first answer counts.
All are asked again at every look, and none may take longer than `PATIENCE_S`. On macOS only the load is
known, on Windows nothing.

A service of a user starts before the user's desktop, and so without its variables; desktops give them to the
user's service manager later, which is asked for them at every look.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Protocol

import trio

from gcs.core.consent import Idle, QuietSpell, Surroundings
from gcs.helper.buses import Gnome, Logind, output
from gcs.helper.wayland import Compositor
from gcs.helper.x11 import Display

PATIENCE_S: Final = 2.0
POWER: Final = Path("/sys/class/power_supply")
_LOAD_S: Final = 60.0
_NAMES: Final = frozenset({"DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "XDG_SESSION_TYPE"})
"""The variables by which displays are found."""


class Source(Protocol):
    """Somebody who may know how long the desktop has been idle."""

    name: str

    async def idle_s(self) -> float | None:
        """The seconds, at least; None if it does not know."""


class Load:
    """The load of the machine, less the helper's own part in it, for where nobody knows of any input."""

    name = "load"

    def __init__(
        self,
        load: Callable[[], float],
        *,
        cores: int,
        clock: Callable[[], float],
        cpu_s: Callable[[], float] = time.process_time,
    ) -> None:
        """`load` is the average over the last minute; `cpu_s` what this process has used so far."""
        self._load = load
        self._cores = cores
        self._clock = clock
        self._cpu_s = cpu_s
        self._spell = QuietSpell()
        self._used: deque[tuple[float, float]] = deque([(clock(), cpu_s())])

    async def idle_s(self) -> float | None:
        """The seconds for which the machine has had next to nothing to do."""
        now, cpu_s = self._clock(), self._cpu_s()
        self._used.append((now, cpu_s))
        while len(self._used) > 2 and self._used[1][0] <= now - _LOAD_S:
            self._used.popleft()
        since, before_s = self._used[0]
        own = (cpu_s - before_s) / (now - since) if now > since else 0.0
        return self._spell.note(now, self._load(), own=own, cores=self._cores)


class Senses:
    """Looks around, as often as it is asked to."""

    def __init__(self, sources: Callable[[], Awaitable[Sequence[Source]]], *, power: Path = POWER) -> None:
        """The sources that there are at a look are asked in their order."""
        self._sources = sources
        self._power = power

    async def look(self) -> Surroundings:
        """How things are now, as far as it can be seen from outside."""
        now = datetime.now(UTC).astimezone()
        return Surroundings(local_time=now, idle=await self._idle(), on_battery=on_battery(self._power))

    async def _idle(self) -> Idle | None:
        for source in await self._sources():
            with trio.move_on_after(PATIENCE_S):
                seconds = await source.idle_s()
                if seconds is not None:
                    return Idle(seconds, source.name)
        return None


class Desktop:
    """Everybody on this machine who may know how long the desktop has been idle."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        """What a session has told its service manager counts more than this environment."""
        self._environ = environ
        self._named: Mapping[str, str] | None = None
        self._displays: list[Source] = []
        self._others = list(_others(environ))

    async def sources(self) -> list[Source]:
        """Those that there are now, the best first; the same as before if nothing has changed."""
        if sys.platform == "linux":
            named = await self._now()
            if named != self._named:
                self._close()
                self._named, self._displays = named, list(_displays({**self._environ, **named}))
        return [*self._displays, *self._others]

    def _close(self) -> None:
        for each in self._displays:
            if isinstance(each, Compositor):
                each.close()

    async def _now(self) -> Mapping[str, str]:
        """The variables that name displays, as the user's service manager has them."""
        systemctl = _manager(self._environ)
        if systemctl is None:
            return {}
        said = ""
        with trio.move_on_after(PATIENCE_S):
            said = await output((systemctl, "--user", "show-environment"))
        pairs = (line.partition("=")[::2] for line in said.splitlines())
        return {name: value for name, value in pairs if name in _NAMES and not value.startswith("$")}


def _manager(environ: Mapping[str, str]) -> str | None:
    """The command that asks the user's service manager; None if there is none."""
    runtime = environ.get("XDG_RUNTIME_DIR")
    if not runtime or not Path(runtime, "systemd", "private").exists():
        return None
    return shutil.which("systemctl", path=environ.get("PATH"))


def _displays(environ: Mapping[str, str]) -> Iterator[Source]:
    on_wayland = "WAYLAND_DISPLAY" in environ or environ.get("XDG_SESSION_TYPE") == "wayland"
    display: Source | None = None if on_wayland else Display.of(environ)
    compositor: Source | None = Compositor.of(environ, clock=time.monotonic)
    gnome: Source | None = Gnome.of(environ) if on_wayland else None
    yield from (source for source in (display, compositor, gnome) if source is not None)


def _others(environ: Mapping[str, str]) -> Iterator[Source]:
    if sys.platform == "linux" and (logind := Logind.of(environ, clock=time.monotonic)) is not None:
        yield logind
    if hasattr(os, "getloadavg"):
        yield Load(lambda: os.getloadavg()[0], cores=os.cpu_count() or 1, clock=time.monotonic)


def on_battery(power: Path = POWER) -> bool | None:
    """Whether the machine runs on a battery; None where the system does not tell.

    Batteries of mice and the like do not count. Mains that deliver decide; without any, a battery that is
    being discharged does, and mains that are all off.
    """
    try:
        supplies = [_supply(path) for path in sorted(power.iterdir())]
    except OSError:
        return None
    supplies = [supply for supply in supplies if supply["scope"] != "Device"]
    mains = [supply["online"] == "1" for supply in supplies if supply["type"] == "Mains"]
    batteries = [supply["status"] for supply in supplies if supply["type"] in ("Battery", "UPS")]
    if any(mains) or not batteries:
        return False
    return bool(mains) or "Discharging" in batteries


def _supply(path: Path) -> dict[str, str]:
    return {name: _word(path / name) for name in ("type", "scope", "online", "status")}


def _word(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""
