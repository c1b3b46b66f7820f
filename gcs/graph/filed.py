"""The tables of some stores, for an engine: what is in files, and what its gatherer has not written into any.

Rows wait in the journal of a store until they become a file that is named after its entries. Whoever looks at
the journal first, and then at the files, sees of each row whether it is in one, also while they are written:
of what was kept when the journal was looked at none is missing, and none is there twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import structlog

from gcs.errors import UsageError
from gcs.graph.engine import Engine, Segments
from gcs.store.errors import StoreError
from gcs.store.records import LINKS, SUMMARIES
from gcs.store.segments import covered, files
from gcs.store.view import View

_KINDS: Final = (SUMMARIES, LINKS)


def load(engine: Engine, stores: Sequence[Path]) -> None:
    """Let an engine know the tables of some stores; raises UsageError where there is nothing in them yet."""
    found: dict[str, list[Path]] = {kind: [] for kind in _KINDS}
    aside = engine.scratch / "unfiled"
    aside.mkdir()
    for number, store in enumerate(stores):
        for kind, paths in _of(store, aside, number).items():
            found[kind] += paths
    if not found[SUMMARIES] or not found[LINKS]:
        places = ", ".join(map(str, stores))
        raise UsageError(f"{places}: no links have been kept there yet (with summary.level=full they are).")
    engine.load(Segments(found[SUMMARIES], found[LINKS]))


def _of(store: Path, aside: Path, number: int) -> dict[str, list[Path]]:
    """By kind: the files of a store, and one aside for what is in none of them."""
    try:
        with View(store) as view:
            return {kind: _of_kind(store, view, kind, aside / f"{kind}-{number}.parquet") for kind in _KINDS}
    except StoreError as error:
        # Files can be read also where nothing else of a store was copied to.
        if (store / "db" / "CURRENT").exists():
            structlog.get_logger().warning(
                "only what is in files is counted: the rest cannot be read", store=str(store), why=str(error)
            )
    return {kind: files(store, kind) for kind in _KINDS}


def _of_kind(store: Path, view: View, kind: str, aside: Path) -> list[Path]:
    found = files(store, kind)
    first = covered(found[-1]).tail if found else 0
    packed = (view.packed(kind, entry) for entry, _ in view.waiting(kind) if entry >= first)
    entries = [each for each in packed if each is not None]
    if not entries:
        return found
    from gcs.store import parquet

    parquet.write(aside, kind, entries)
    return [*found, aside]
