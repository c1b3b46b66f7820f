"""Files that only grow, and whose length is recorded elsewhere.

A file is right up to its recorded length and nothing after that counts: it is cut to it when the store is
opened and when a commit fails. So an append needs no undo log, and nobody ever reads half of what was
appended.
"""

import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from gcs.store.directory import sync_directory

SERIAL_DIGITS: Final = 5
_NAME = re.compile(r"-\d{14}-(\d{5,})\.warc\.(?:gz|zst)\Z")


class AppendOnly:
    """One open file."""

    def __init__(self, path: Path, length: int) -> None:
        """Open or make it, and cut it to the length that was recorded."""
        self.path = path
        self.length = length
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self.cut(length)

    def append(self, data: bytes) -> None:
        """Write at the end; raises OSError, and then the file has to be cut."""
        left = memoryview(data)
        while left:
            left = left[os.write(self._file, left) :]
        self.length += len(data)

    def sync(self) -> None:
        """Make sure that it is on disk."""
        os.fdatasync(self._file)

    def cut(self, length: int) -> None:
        """Go back to a length; a file that is shorter stays as it is, for a zero byte is no record."""
        self.length = min(length, os.fstat(self._file).st_size)
        os.ftruncate(self._file, self.length)

    def close(self) -> None:
        """Close it; twice does no harm."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


@dataclass(frozen=True, slots=True)
class Position:
    """How far an archive was written: the number and name of its last file, and that file's length."""

    serial: int = 0
    name: str = ""
    length: int = 0


class Archive:
    """WARC files, one after the other: a new one is begun when the last has reached its size.

    Files are named by a prefix, the time and a serial number that goes up by one.
    """

    def __init__(
        self,
        directory: Path,
        *,
        prefix: str,
        suffix: str,
        max_bytes: int,
        head: Callable[[str], bytes],
        clock: Callable[[], str],
    ) -> None:
        """`head(name)` gives the record that a file begins with, `clock()` the 14 digits of the time."""
        self._directory = directory
        self._prefix = prefix
        self._suffix = suffix
        self._max_bytes = max_bytes
        self._head = head
        self._clock = clock
        self._file: AppendOnly | None = None
        self.position = Position()

    def restore(self, position: Position) -> None:
        """Go back to a recorded position: cut its file, and remove those that were begun after it."""
        self.close()
        self._directory.mkdir(exist_ok=True)
        for path in self._directory.iterdir():
            if _serial_of(path.name) > position.serial:
                path.unlink()
        if position.name:
            file = AppendOnly(self._directory / position.name, position.length)
            position = replace(position, length=file.length)
            if position.name.endswith(self._suffix):
                self._file = file
            else:
                file.close()
        self.position = position

    def append(self, pages: Iterable[Iterable[bytes]]) -> Position:
        """Append the records of some pages, sync them, and say where they end; no page is cut in two."""
        begun = False
        gathered: list[bytes] = []
        size = self._file.length if self._file else self._max_bytes
        serial, name = self.position.serial, self.position.name
        for page in pages:
            if size >= self._max_bytes:
                self._finish(gathered)
                gathered = []
                serial += 1
                name = f"{self._prefix}-{self._clock()}-{serial:0{SERIAL_DIGITS}}{self._suffix}"
                self._file = AppendOnly(self._directory / name, 0)
                gathered.append(self._head(name))
                size = len(gathered[0])
                begun = True
            for record in page:
                gathered.append(record)
                size += len(record)
        if gathered:
            assert self._file is not None
            self._file.append(b"".join(gathered))
            self._file.sync()
        if begun:
            sync_directory(self._directory)
        self.position = Position(serial, name, size if self._file else 0)
        return self.position

    def _finish(self, gathered: list[bytes]) -> None:
        if self._file is not None:
            self._file.append(b"".join(gathered))
            self._file.sync()
            self._file.close()

    def close(self) -> None:
        """Close the file that is open, if one is."""
        if self._file is not None:
            self._file.close()
            self._file = None


def _serial_of(name: str) -> int:
    """The number in a file's name; 0 for a file that is not of an archive."""
    found = _NAME.search(name)
    return int(found[1]) if found else 0
