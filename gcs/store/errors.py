"""What can go wrong with a store.

StoreError        it cannot be opened or used: locked, newer, no store, damaged
└── DiskFull      there is no room; nothing of the batch was kept, and it can be committed again later
"""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gcs.errors import ExitCode, GcsError

_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_NO_ROOM_WORDS = ("No space left", "Disk quota exceeded", "File too large")


class StoreError(GcsError):
    """The store cannot be opened or used; the message says why and what to do."""

    exit_code = ExitCode.STORE


class DiskFull(StoreError):
    """There is no room for a batch: none of it was kept, and it can be committed again when there is."""


def no_room(place: Path) -> DiskFull:
    """The sentence about a full disk."""
    return DiskFull(f"{place}: the disk is full; the crawl waits until there is room again.")


@contextmanager
def translated(place: Path) -> Iterator[None]:
    """Turn the errors of files and of RocksDB, which knows only one class of them, into ours."""
    try:
        yield
    except GcsError:
        raise
    except OSError as error:
        if error.errno in _NO_ROOM:
            raise no_room(place) from error
        raise StoreError(f"{place}: {error.strerror or error}; the store cannot be used.") from error
    except Exception as error:
        # rocksdict raises `Exception` itself, so that its errors cannot be told by class; a subclass is ours.
        if type(error) is not Exception:
            raise
        if any(words in str(error) for words in _NO_ROOM_WORDS):
            raise no_room(place) from error
        raise StoreError(f"{place}: the database says: {error}; the store cannot be used.") from error
