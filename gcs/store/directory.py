"""The directory of a store: its lock, the version of its format, and the room on its disk.

DIR/format        one line that says what this is, and its version
DIR/lock          locked by the process that has the store open; names it
DIR/db/           RocksDB
DIR/warc/         pages
DIR/summaries/    Parquet
DIR/links/        Parquet
DIR/crawl.log     one line per fetch
"""

import fcntl
import os
import re
from pathlib import Path
from typing import Final

from gcs.store.errors import StoreError, no_room, translated

VERSION: Final = 4
_FORMAT_FILE = "format"
_LOCK_FILE = "lock"
_FORMAT = re.compile(r"gcs store (\d+)\n")
_CHECK_EVERY_S = 1.0


class Lock:
    """The right of one process to a directory; the kernel takes it back when the process dies."""

    def __init__(self, directory: Path) -> None:
        """Take it, or raise StoreError and say who has it."""
        path = directory / _LOCK_FILE
        with translated(directory):
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.pread(self._file, 32, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(self._file)
            raise StoreError(
                f"{directory}: in use by another process (pid {owner}); end that one first, or choose "
                "another directory."
            ) from None
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Let others have it."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def prepare(directory: Path, *, resume: bool) -> Lock:
    """Make or check the directory of a store and lock it; raises StoreError with one sentence."""
    with translated(directory):
        if directory.exists() and not directory.is_dir():
            raise StoreError(f"{directory}: is not a directory; choose another one.")
        directory.mkdir(parents=True, exist_ok=True)
    lock = Lock(directory)
    try:
        _check(directory, resume=resume)
    except StoreError:
        lock.release()
        raise
    return lock


def _check(directory: Path, *, resume: bool) -> None:
    path = directory / _FORMAT_FILE
    with translated(directory):
        is_store = path.exists()
        is_empty = not is_store and all(each.name == _LOCK_FILE for each in directory.iterdir())
        if is_empty:
            _write_format(path)
            return
        if not is_store:
            raise StoreError(f"{directory}: is not empty and holds no crawl; choose another directory.")
        said = path.read_text("utf-8", "replace")
    check_version(directory, said)
    if not resume:
        raise StoreError(f"{directory}: already holds a crawl; resume it, or choose another directory.")


def check(directory: Path) -> None:
    """Refuse a directory that holds no crawl which this program can read."""
    path = directory / _FORMAT_FILE
    with translated(directory):
        if not path.is_file():
            raise StoreError(f"{directory}: holds no crawl; name the directory that was given as --into.")
        said = path.read_text("utf-8", "replace")
    check_version(directory, said)


def _write_format(path: Path) -> None:
    aside = path.with_suffix(".new")
    with aside.open("w", encoding="utf-8") as stream:
        stream.write(format_line())
        stream.flush()
        os.fsync(stream.fileno())
    aside.replace(path)
    sync_directory(path.parent)


def format_line() -> str:
    """What says the version, in the file and in the database."""
    return f"gcs store {VERSION}\n"


def check_version(directory: Path, said: str) -> None:
    """Refuse what this program cannot read."""
    found = _FORMAT.fullmatch(said)
    if found is None:
        raise StoreError(f"{directory}: what it holds is not a crawl of GCS; choose another directory.")
    if int(found[1]) > VERSION:
        raise StoreError(
            f"{directory}: written by a newer GCS (format {found[1]}, this one knows {VERSION}); update GCS."
        )
    if int(found[1]) < VERSION:
        raise StoreError(
            f"{directory}: written by an older GCS (format {found[1]}, this one knows {VERSION}); choose "
            "another directory."
        )


def sync_directory(directory: Path) -> None:
    """Make sure that files which were made, renamed or removed in it stay so."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class Room:
    """Watches that a disk keeps some bytes free."""

    def __init__(self, directory: Path, keep_free_bytes: int) -> None:
        """For the disk that the directory is on."""
        self._directory = directory
        self._keep_free_bytes = keep_free_bytes
        self._checked_at = -_CHECK_EVERY_S

    def check(self, now: float) -> None:
        """Raise DiskFull if there is too little; looks at most once a second while there is enough."""
        if now - self._checked_at < _CHECK_EVERY_S:
            return
        if not self.is_enough():
            raise no_room(self._directory)
        self._checked_at = now

    def is_enough(self) -> bool:
        """Whether as many bytes are free as are to be kept so; raises StoreError likewise."""
        return self.free_bytes() >= self._keep_free_bytes

    def free_bytes(self) -> int:
        """How much there is; raises StoreError where the disk does not say."""
        with translated(self._directory):
            disk = os.statvfs(self._directory)
        return disk.f_bavail * disk.f_frsize
