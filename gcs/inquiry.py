"""`gcs why --into`: where a URL stands in a crawl on this machine, and why; also while the crawl runs."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from gcs.config import Config
from gcs.core.traps import Novelty
from gcs.gatherer import parts
from gcs.gatherer.admission import Admission
from gcs.gatherer.crawl import NOVELTY
from gcs.gatherer.seeds import target_of
from gcs.gatherer.testimony import known
from gcs.store.records import Row
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
        return {"url": target.url, **known(max(rows, key=lambda row: row.state))}
    return {"url": target.url, "state": "unknown", "rule": rule}
