"""`gcs why`: where a URL stands in a crawl, and which rule decided; also while the crawl runs."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from gcs.checks import target_of
from gcs.config import Config
from gcs.core import failures
from gcs.core.traps import Novelty
from gcs.core.urls import url
from gcs.gatherer import parts
from gcs.gatherer.admission import Admission
from gcs.gatherer.crawl import NOVELTY
from gcs.store.records import Row, State
from gcs.store.view import View


def why(config: Config, directory: Path, text: str) -> Mapping[str, object]:
    """What is known about a URL; raises UsageError when there is no crawl to look at."""
    target = target_of(config, text)
    rows: list[Row] = []
    rule = "none; no page that was fetched has named it"
    for store in parts.parts(directory):
        with View(store) as view:
            row, stored = view.get(target.key), view.get_meta(NOVELTY)
        if row is not None:
            rows.append(row)
        novelty = Novelty.from_bytes(stored) if stored else None
        verdict = Admission(config, year=datetime.now(UTC).year, novelty=novelty).decide(target, 0)
        rule = rule if verdict.accepted else verdict.rule
    if rows:
        # Others only remember that they have passed it on.
        return {"url": target.url, **_known(max(rows, key=lambda row: row.state))}
    return {"url": target.url, "state": "unknown", "rule": rule}


def _known(row: Row) -> dict[str, object]:
    said: dict[str, object] = {
        "state": row.state.name.lower(),
        "status": row.status or None,
        "reason": _because(row),
        "attempts": row.attempts,
        "last_tried": datetime.fromtimestamp(row.at, UTC).isoformat() if row.at else None,
        "via": row.via,
        "depth": row.depth,
        "named_by": url(row.parent) if row.parent else None,
    }
    if row.state is State.QUEUED and row.attempts:
        said["reason"] = f"{said['reason']}; it will be tried again"
    return said


def _because(row: Row) -> str | None:
    """The reason in words, where there are some."""
    if row.reason in failures.POLICIES:
        return failures.because(row.reason)
    if row.reason.isdigit():
        return failures.because(int(row.reason))
    return row.reason or None
