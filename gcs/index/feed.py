"""What has to come out of a store next, for whoever follows its summaries from the first to the newest.

Summaries are numbered by the commits that had them: a journal entry each, until it is in a file. Who follows
keeps the number up to which it has come, and is given what is next, as often as it asks.
"""

from __future__ import annotations

from typing import Final

import msgpack

from gcs.index import FORGOTTEN
from gcs.index.records import Forgotten
from gcs.store.records import SUMMARIES
from gcs.store.store import Store

MAX_BYTES: Final = 4 << 20
"""As much is given at once, about."""


def journalled(store: Store, number: int, max_bytes: int = MAX_BYTES) -> list[tuple[int, bytes]] | None:
    """The journal entries from a number on, rows and packed; none if there are no more yet.

    None if what is next is in a file.
    """
    if number < store.journal(SUMMARIES).head:
        return None
    found: list[tuple[int, bytes]] = []
    size = 0
    for entry, rows in store.waiting(SUMMARIES):
        if entry < number:
            continue
        packed = store.packed(SUMMARIES, entry)
        if packed is None or size >= max_bytes:
            break
        found.append((rows, packed))
        size += len(packed)
    return found


def forgotten(stored: bytes | None) -> list[Forgotten]:
    """What a store has kept of what was forgotten."""
    return [Forgotten(*each) for each in msgpack.unpackb(stored)] if stored else []


def with_forgotten(stored: bytes | None, fresh: Forgotten) -> dict[str, bytes]:
    """What a store is to keep when more is forgotten; earlier ones within the same range go."""
    kept = [each for each in forgotten(stored) if not _within(each, fresh)]
    return {FORGOTTEN: msgpack.packb([*kept, fresh])}


def _within(each: Forgotten, other: Forgotten) -> bool:
    ends = other.end is None or (each.end is not None and each.end <= other.end)
    return other.start <= each.start and ends and each.before_us <= other.before_us
