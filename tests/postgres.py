"""A PostgreSQL server for tests: a real one, on a socket of its own, run by another user if need be."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_DEBIAN = "/usr/lib/postgresql"
_NAMES = ("postgres", "nobody")


def binaries() -> Path | None:
    """Where its programs are; None if they are not installed."""
    found = sorted(Path(_DEBIAN).glob("*/bin/initdb"), reverse=True)
    program = shutil.which("initdb")
    return found[0].parent if found else Path(program).parent if program else None


@contextmanager
def postgres() -> Iterator[str]:
    """A server; gives SQLAlchemy's address of it, for a superuser."""
    programs = binaries()
    assert programs is not None
    with tempfile.TemporaryDirectory(prefix="pg", dir="/tmp") as place:
        user, data = _other_user(), f"{place}/data"
        if user is not None:
            os.chown(place, user, -1)

        def run(program: str, *arguments: str) -> None:
            command = [str(programs / program), "-D", data, *arguments]
            subprocess.run(command, user=user, check=True, cwd=place, stdout=subprocess.DEVNULL)

        run("initdb", "-U", "super", "-A", "trust", "-N")
        options = f"-c listen_addresses='' -k {place} -c fsync=off"
        run("pg_ctl", "-w", "-t", "120", "-l", f"{place}/log", "-o", options, "start")
        try:
            yield f"postgresql+psycopg://super@/postgres?host={place}"
        finally:
            run("pg_ctl", "-w", "-m", "immediate", "stop")


def _other_user() -> int | None:
    """PostgreSQL refuses to be run by root."""
    if os.geteuid():
        return None
    for name in _NAMES:
        try:
            return pwd.getpwnam(name).pw_uid
        except KeyError:
            continue
    return None
