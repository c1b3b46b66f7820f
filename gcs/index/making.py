"""`gcs index`: brings the indexes of a crawl on this machine up to date; also while the crawl runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from gcs.errors import UsageError
from gcs.gatherer import parts
from gcs.index import DIRECTORY, FORGOTTEN
from gcs.index.feed import forgotten
from gcs.index.records import Position
from gcs.index.worker import Filling
from gcs.store.records import SUMMARIES
from gcs.store.view import View


def make(directory: Path, tell: Callable[[str], None]) -> Mapping[str, object]:
    """Bring the index of each store up to date, and say how much is in them; raises UsageError."""
    rows = 0
    stores = parts.parts(directory)
    for store in stores:
        rows += _fill(store, lambda done, store=store: tell(f"{store}: {done:,} summaries")).rows  # type: ignore[misc] # a name
    return {"stores": len(stores), "summaries": rows}


def _fill(store: Path, tell: Callable[[int], None]) -> Position:
    try:
        filling = Filling(store)
    except ValueError as error:
        if "lock" in str(error).lower():
            raise UsageError(f"{store}: its index is being filled by another process.") from None
        place = store / DIRECTORY
        raise UsageError(f"{place} cannot be read; remove it, and it is made anew: {error}") from None
    with View(store) as view:
        filling.forget(forgotten(view.get_meta(FORGOTTEN)))
        first = view.journal(SUMMARIES).head
        while filling.at().entry < first:
            filling.files(first)
            tell(filling.at().rows)
        for number, rows in view.waiting(SUMMARIES):
            packed = view.packed(SUMMARIES, number)
            if number >= filling.at().entry and packed is not None:
                filling.rows(number, [(rows, packed)])
    filling.close()
    return filling.at()
