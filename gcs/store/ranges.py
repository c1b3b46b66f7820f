"""Ranges of rows, some at a time: for a hand-over, and to send again what was passed on."""

from enum import Enum

from gcs.store.database import ROWS, Database
from gcs.store.encoding import STATE, VIA_NUMBER, via_of
from gcs.store.records import SEED

_LOOKED_AT = 16
"""How many times as many rows as are wanted are looked at."""


class Which(Enum):
    """Which rows of a range are read, by their first bytes: of the others nothing is taken apart."""

    PASSED = frozenset(byte for byte in range(256) if not byte & STATE)
    HELD = frozenset(byte for byte in range(256) if byte & STATE)
    """All others."""
    SEEDS = frozenset(byte for byte in range(256) if byte & STATE and via_of(byte) == VIA_NUMBER[SEED])
    """Those that nobody named."""


def read(
    database: Database, start: str, end: str | None, limit: int, which: Which
) -> tuple[list[tuple[bytes, bytes]], str | None]:
    """Entries of the table of rows in [start, end) that are wanted.

    Also the key from which to go on: None if there is no more. A long run of others ends it early.
    """
    entries: list[tuple[bytes, bytes]] = []
    left, wanted = _LOOKED_AT * limit, which.value
    for entry in database.scan(ROWS, start.encode(), None if end is None else end.encode()):
        if len(entries) == limit or not left:
            return entries, entry[0].decode()
        left -= 1
        if entry[1][0] in wanted:
            entries.append(entry)
    return entries, None
