"""A small disk for tests, which can be filled."""

from __future__ import annotations

import errno
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_CHUNK: Final = bytes(64 << 10)


class CannotMount(Exception):
    """No disk can be had here; the message says why."""


@dataclass(frozen=True, slots=True)
class Disk:
    """A file system of its own."""

    place: Path

    @property
    def _filler(self) -> Path:
        return self.place / "filler"

    def fill(self) -> None:
        """Leave no room at all."""
        with self._filler.open("ab", buffering=0) as filler:
            for size in (len(_CHUNK), 1):
                try:
                    while filler.write(_CHUNK[:size]):
                        pass
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise

    def make_room(self) -> None:
        """Take away what it was filled with."""
        self._filler.unlink()


@contextmanager
def small_disk(place: Path, size: str) -> Iterator[Disk]:
    """A disk in memory, of a size as in `64m`, for the length of a block; raises CannotMount."""
    place.mkdir()
    if sys.platform != "linux":
        raise CannotMount("only Linux has tmpfs")
    line = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)]
    try:
        done = subprocess.run(line, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise CannotMount("there is no program mount") from None
    if done.returncode:
        raise CannotMount(f"a disk cannot be mounted: {done.stderr.strip()}")
    try:
        yield Disk(place)
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)
