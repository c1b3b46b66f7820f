"""The receiving side of a ranking: rows that come in batches, to a gatherer or a store, become commits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from gcs.core.ranking import Priority
from gcs.store.records import Batch

ORDER: Final = "priorities"
FILE: Final = "file"
"""The order to write into files what has come together."""
RANKING: Final = "ranking"
"""Where a store has which ranking it has rows of."""


def said(rows: Sequence[Priority], ranking: int, number: int) -> dict[str, Any]:
    """The arguments of an order: which ranking it is of, by its time, and the number of the batch."""
    return {"ranking": ranking, "number": number, "rows": [tuple(each) for each in rows]}


def heard(arguments: Mapping[str, Any]) -> tuple[list[Priority], int]:
    """The rows of an order, and the ranking that they are of."""
    rows = [Priority(str(each), float(new), float(old)) for each, new, old in arguments["rows"]]
    return rows, int(arguments["ranking"])


def batch_of(rows: Sequence[Priority], ranking: int, known: bytes | None) -> Batch | None:
    """What a store is to commit for some rows; None if it has those of a newer ranking."""
    if known is not None and int(known) > ranking:
        return None
    return Batch(priorities=list(rows), meta={RANKING: str(ranking).encode()})
