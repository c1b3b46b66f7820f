"""What rankings say of the URLs of a store: kept beside their rows, as numbers, until the next ranking."""

import struct
from collections.abc import Sequence
from itertools import islice
from typing import Final

from gcs.core.ranking import Priority
from gcs.core.urls import AFTER, PATH
from gcs.store.database import PRIORITIES, ROWS, Database
from gcs.store.drafting import Draft
from gcs.store.encoding import STATE
from gcs.store.records import Batch, State

_NUMBERS: Final = struct.Struct(">dd")


def enter(batch: Batch, draft: Draft) -> frozenset[str]:
    """Write the priorities that a batch brings, and forget those of URLs that it takes away.

    Those that come with rows of another gatherer count where there are none: ours may be of a later ranking.
    Says of which URLs there are some by that: those that are known here.
    """
    put, table = draft.writes.put, draft.writes.tables[PRIORITIES]
    gone = {*batch.erased, *batch.released}
    names = [each.encode() for each in gone]
    for name, known_gone in zip(names, draft.database.get_many(PRIORITIES, names), strict=True):
        if known_gone is not None:  # to delete what is not there leaves something to be passed over, too
            draft.writes.delete(name, table)
    moved = [key for key in draft.moved_priorities if key not in gone]
    ours = draft.database.get_many(PRIORITIES, [key.encode() for key in moved])
    for moved_key, our in zip(moved, ours, strict=True):
        if our is None:
            put(moved_key.encode(), draft.moved_priorities[moved_key], table)
    keys = [each.key.encode() for each in batch.priorities]
    rows, known = draft.database.get_many(ROWS, keys), list[str](moved)
    for each, key, row in zip(batch.priorities, keys, rows, strict=True):
        if row is not None and row[0] & STATE != State.PASSED and each.key not in gone:
            put(key, _NUMBERS.pack(each.new, each.old), table)
            known.append(each.key)
    return frozenset(known)


def are_known(database: Database) -> bool:
    """Whether there is a URL of which a ranking has said something."""
    return next(iter(database.scan(PRIORITIES, b"")), None) is not None


def of_rows(database: Database, entries: Sequence[tuple[bytes, bytes]]) -> dict[int, bytes]:
    """What is known of some rows, by their numbers, as it goes with them to another gatherer."""
    values = database.get_many(PRIORITIES, [key for key, _ in entries])
    return {number: value for number, value in enumerate(values) if value is not None}


def read(database: Database, keys: Sequence[str]) -> list[Priority | None]:
    """What is known of some URLs, in the order of the keys."""
    values = database.get_many(PRIORITIES, [key.encode() for key in keys])
    return [
        None if packed is None else Priority(key, *_NUMBERS.unpack(packed))
        for key, packed in zip(keys, values, strict=True)
    ]


def mean_new(database: Database, host: str, most: int) -> float | None:
    """The mean of P_new of URLs of a host, the first in order if it has many; None if none was ranked."""
    rows = database.scan(PRIORITIES, (host + PATH).encode(), (host + AFTER).encode())
    found = [_NUMBERS.unpack(packed)[0] for _, packed in islice(rows, most)]
    return sum(found) / len(found) if found else None
