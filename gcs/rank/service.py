"""What `gcs rank` does: compute, keep, deliver, and say what came out."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trio

from gcs import board as boards
from gcs.commandline import clear_progress, progress
from gcs.config import Config
from gcs.errors import ExitCode
from gcs.gatherer import parts
from gcs.graph import engine as engines
from gcs.graph import filed
from gcs.graph.engine import Engine
from gcs.operate.asking import Answer, counted
from gcs.rank import deliver
from gcs.rank.ranked import Ranking
from gcs.rank.ranked import rank as computed


@dataclass(frozen=True, slots=True)
class Request:
    """What is to be ranked."""

    directories: Sequence[Path]
    output: Path
    scratch: Path | None
    deliver: bool
    top: int


def rank(config: Config, request: Request) -> Answer:
    """Rank the URLs of a crawl; raises GcsError when that cannot be done."""
    stores = [store for directory in request.directories for store in parts.parts(directory)]
    if request.deliver and config.redis.url:
        progress("gatherers write what they have into files")
        trio.run(deliver.have_filed, config)
    with engines.opened(config.rank, request.scratch or request.directories[0]) as engine:
        filed.load(engine, stores)
        began, now_us = time.perf_counter(), round(time.time() * 1e6)
        progress("ranking")
        ranking = computed(engine, by=config.rank.by, now_us=now_us, directory=request.output)
        took_s = time.perf_counter() - began
        facts, lines = _said(engine, ranking, took_s, request.top)
        if request.deliver:
            delivered = _deliver(config, stores, ranking.delivery(engine), now_us)
            clear_progress()
            facts |= {"delivered": delivered.rows, "known": delivered.known, "failed": delivered.failed}
            lines.append(
                f"{counted(delivered.rows, 'priority', 'priorities')} delivered, "
                f"{delivered.known:,} of them of URLs that are known there."
            )
            lines += [
                f"{name} has not taken all of its priorities: {why}."
                for name, why in delivered.failed.items()
            ]
            return Answer(facts, lines, delivered.code)
    clear_progress()
    return Answer(facts, lines, ExitCode.OK)


def _deliver(
    config: Config, stores: Sequence[Path], files: Sequence[Path], ranking: int
) -> deliver.Delivered:
    if not config.redis.url:
        return deliver.into_stores(stores, config, files, ranking)

    async def sent() -> deliver.Delivered:
        async with boards.opened(config) as board:
            return await deliver.to_gatherers(board, config, files=files, ranking=ranking, tell=progress)

    return trio.run(sent)


def _said(engine: Engine, ranking: Ranking, took_s: float, top: int) -> tuple[dict[str, Any], list[str]]:
    new, old, edges = ranking.sizes(engine)
    best = {kind: ranking.best(engine, kind, top) for kind in ("new", "old")}
    facts = {
        "new": new,
        "old": old,
        "edges": edges,
        "by": ranking.by,
        "seconds": round(took_s, 3),
        "table": str(ranking.directory),
        "best": {
            kind: [{"url": url, "priority": value} for url, value in rows] for kind, rows in best.items()
        },
    }
    ranked = f"{counted(new, 'URL')} never visited and {counted(old, 'page')} visited before"
    lines = [
        f"{ranked}, ranked by {counted(edges, 'edge')} in {took_s:.1f} s.",
        f"The table is in {ranking.directory}.",
    ]
    for kind, named in (
        ("new", "To visit first, of what was never visited"),
        ("old", "To visit again first"),
    ):
        if best[kind]:
            lines.append(f"{named}:")
            lines += [f"  {value:>12,.4g}  {url}" for url, value in best[kind]]
    return facts, lines
