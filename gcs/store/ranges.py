"""Ranges of rows, some at a time: for a hand-over, and to send again what was passed on."""

from gcs.store.database import ROWS, Database
from gcs.store.encoding import STATE

_LOOKED_AT = 16
"""How many times as many rows as are wanted are looked at."""


def read(
    database: Database, start: str, end: str | None, limit: int, *, passed: bool
) -> tuple[list[tuple[bytes, bytes]], str | None]:
    """Entries of the table of rows in [start, end) that were passed on, or all others.

    Also the key from which to go on: None if there is no more. A long run of others ends it early.
    """
    entries: list[tuple[bytes, bytes]] = []
    left = _LOOKED_AT * limit
    for entry in database.scan(ROWS, start.encode(), None if end is None else end.encode()):
        if len(entries) == limit or not left:
            return entries, entry[0].decode()
        left -= 1
        if (not entry[1][0] & STATE) is passed:
            entries.append(entry)
    return entries, None
