"""`gcs why --into`: where a URL stands in a crawl on this machine, and why; also while the crawl runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from gcs.config import Config
from gcs.core.traps import Novelty
from gcs.gatherer import parts
from gcs.gatherer.admission import Admission
from gcs.gatherer.crawl import NOVELTY
from gcs.gatherer.links import Target
from gcs.gatherer.next_visit import learnt, told
from gcs.gatherer.revisiting import REVISITS
from gcs.gatherer.seeds import target_of
from gcs.gatherer.testimony import known
from gcs.store.records import SUMMARIES, Row
from gcs.store.view import View
from gcs.summary.names import container_of

_SHOWN: Final = ("media_type", "title", "bytes", "refused")


def why(config: Config, directory: Path, text: str) -> Mapping[str, object]:
    """What is known about a URL; raises UsageError when there is no crawl to look at.

    What was inside of an archive stands where that stands, and has a summary if it was among what was read.
    """
    target = target_of(config, text)
    found = _known(config, directory, target)
    container = container_of(target.url)
    if not container or found["state"] != "unknown":
        return found
    whole = _known(config, directory, target_of(config, container))
    summary = _summary(parts.parts(directory), target.url)
    return {**whole, "url": target.url, "member_of": whole["url"], "summary": summary}


def _summary(stores: Sequence[Path], url: str) -> Mapping[str, object] | None:
    """What a member's summary says; None if it has none in files yet."""
    import pyarrow.parquet as pq

    for store in stores:
        for path in sorted((store / SUMMARIES).glob("part-*.parquet"), reverse=True):
            rows = pq.read_table(path, columns=list(_SHOWN), filters=[("url", "==", url)]).to_pylist()
            if rows:
                return dict(rows[-1])
    return None


def _known(config: Config, directory: Path, target: Target) -> Mapping[str, object]:
    rows: list[Row] = []
    rule = "none; no page that was fetched has named it"
    visits: dict[str, Any] = {}
    for store in parts.parts(directory):
        with View(store) as view:
            row, stored = view.get(target.key), view.get_meta(NOVELTY)
            courses = learnt(config.revisit, view.get_meta(REVISITS))
            visits = told(config.revisit, target.key, view.remembered(target.key), courses) or visits
        if row is not None:
            rows.append(row)
        novelty = Novelty.from_bytes(stored) if stored else None
        verdict = Admission(config, year=datetime.now(UTC).year, novelty=novelty).decide(target, 0)
        rule = rule if verdict.accepted else verdict.rule
    if rows:
        # Others only remember that they have passed it on.
        found = {"url": target.url, **known(max(rows, key=lambda row: row.state))}
        return found | ({"revisit": visits} if visits else {})
    return {"url": target.url, "state": "unknown", "rule": rule}
