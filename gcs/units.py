"""The units for systemd that come with GCS, and where they are to be put.

In the units the programs are those of `/opt/gcs`; what is written names those of this installation.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib import resources
from pathlib import Path
from typing import Final

from gcs.errors import UsageError

_PROGRAMS: Final = "/opt/gcs/bin"
_SYSTEM: Final = {".": "systemd/system", "sysusers.d": "sysusers.d", "tmpfiles.d": "tmpfiles.d"}
_USER: Final = {"user": "systemd/user"}
_ENDINGS: Final = (".service", ".timer", ".target", ".conf")
_HIDDEN: Final = ("/home", "/root", "/run/user", "/tmp", "/var/tmp")  # noqa: S108 - none is written to
"""What the units hide from the services."""


class Standing(StrEnum):
    """What there is where a unit is to be put."""

    NEW = "new"
    SAME = "unchanged"
    OTHER = "differs"


@dataclass(frozen=True, slots=True)
class Unit:
    """One file for systemd."""

    path: Path
    text: str

    @property
    def standing(self) -> Standing:
        """What there is in its place."""
        try:
            return Standing.SAME if self.path.read_text(encoding="utf-8") == self.text else Standing.OTHER
        except (FileNotFoundError, NotADirectoryError):
            return Standing.NEW

    def write(self) -> None:
        """Put it there, whole or not at all."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        aside = self.path.with_name(f".{self.path.name}.new")
        aside.write_text(self.text, encoding="utf-8")
        aside.chmod(0o644)
        aside.replace(self.path)


def default_prefix(environ: Mapping[str, str] = os.environ, *, user: bool) -> Path:
    """Where an administrator's units are, or a user's own."""
    if not user:
        return Path("/etc")
    return Path(environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")


def units(prefix: Path, *, user: bool, programs: Path | None = None) -> Iterator[Unit]:
    """All units for the system, or for a user; what they start is beside this Python unless said."""
    programs = programs or Path(sys.executable).parent
    if not user and str(programs.resolve()).startswith(tuple(f"{each}/" for each in _HIDDEN)):
        raise UsageError(
            f"{programs} is hidden from system services; install GCS elsewhere, such as into /opt/gcs, "
            "or use --user."
        )
    for source, target in (_USER if user else _SYSTEM).items():
        for each in sorted(
            resources.files("gcs").joinpath("systemd", source).iterdir(), key=lambda it: it.name
        ):
            if each.name.endswith(_ENDINGS):
                text = each.read_text(encoding="utf-8").replace(_PROGRAMS, str(programs))
                yield Unit(prefix / target / each.name, text)


def install(chosen: list[Unit], *, force: bool) -> None:
    """Write all that are not there yet; raises UsageError if one is there that differs."""
    other = [str(unit.path) for unit in chosen if unit.standing is Standing.OTHER]
    if other and not force:
        raise UsageError(f"{', '.join(other)}: there already, and different; --force replaces it.")
    for unit in chosen:
        if unit.standing is not Standing.SAME:
            try:
                unit.write()
            except OSError as error:
                raise UsageError(f"{unit.path} cannot be written: {error.strerror}.") from error


def next_steps(*, user: bool) -> list[str]:
    """The commands that make use of what was written."""
    if user:
        return ["systemctl --user daemon-reload", "systemctl --user enable --now gcs-helper.service"]
    return [
        "systemd-sysusers gcs.conf && systemd-tmpfiles --create gcs.conf",
        "systemctl daemon-reload",
        "systemctl enable --now gcs.target gcs-gatherer@NAME",
    ]
