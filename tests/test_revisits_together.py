"""Pages that are visited again by several gatherers, as real processes, while ranges change hands."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

from gcs.config import Config
from gcs.core.urls import key
from gcs.gatherer.book import book_of
from gcs.operate.ledger import add_up
from gcs.store.records import State
from gcs.store.store import Store
from gcs.store.view import View
from tests.crawling import server
from tests.gatherers import Gatherers, gatherers
from tests.servers import redis_server, until

ALPHA = 0.5
WINDOW = 120
NAMES = ("one", "two")


class Line(NamedTuple):
    """What a log says of one answer."""

    status: int
    size: int
    url: str
    found: str
    """What another visit has found; "" for a first one."""


def logged(group: Gatherers, *names: str) -> list[Line]:
    """The answers that gatherers have got, each in its order."""
    found = []
    for name in names:
        log = group.processes[name].directory / "crawl.log"
        for words in map(str.split, log.read_text().splitlines() if log.exists() else []):
            notes = [note.removeprefix("revisit:") for note in words[-1].split(",") if "revisit:" in note]
            if words[2].isdigit():
                found.append(Line(int(words[1]), int(words[2]), words[3], "".join(notes)))
    return found


def stayed(group: Gatherers, before: dict[str, list[Line]]) -> set[str]:
    """What its first owner still has; of what has changed hands the new one has nothing to ask with."""
    found = set()
    for name, lines in before.items():
        with View(group.processes[name].directory) as view:
            rows = {line.url: view.get(key(line.url)) for line in lines}
        found |= {url for url, row in rows.items() if row is not None and row.state is State.DONE}
    return found


def test_a_round_with_a_hand_over_in_the_middle(tmp_path: Path) -> None:
    """Every page is visited once more, once, in the proportion α, for few bytes; the books balance."""
    settings = ["fetch.concurrency=2", "store.segment_rows=500"]
    with (
        server(tmp_path / "web", 5, hosts=12, pages=1500, latency_ms=40, etags=True) as served,
        redis_server("redis") as redis,
        gatherers(redis, served, tmp_path / "g", settings) as group,
    ):
        for name in NAMES:
            group.start(name)
        group.until(lambda seen: len(seen) == 2 and all(m.pulse.epoch for m in seen.values()), "two")
        group.seed(served.web.seeds)
        until(
            lambda: min(parts := [len(logged(group, each)) for each in NAMES]) > WINDOW and sum(parts) > 500,
            "a part of the web",
            timeout_s=120,
        )
        for name in NAMES:
            group.kill(name)
        before = {name: logged(group, name) for name in NAMES}
        first = {line.url: line.size for lines in before.values() for line in lines if line.status < 400}
        kept = stayed(group, before)
        again = ["revisit.once=true", f"revisit.alpha={ALPHA}"]
        for name in NAMES:
            group.start(name, *again)
        seen = sum(map(len, before.values()))
        until(lambda: len(logged(group, *NAMES)) > seen + 2 * WINDOW, "some visits", timeout_s=60)
        group.start("three", *again)
        assert group.wait(120) == {"one": 0, "two": 0, "three": 0}
        after = {name: logged(group, name)[len(before.get(name, [])) :] for name in group.processes}
        books = {}
        moved_in: dict[str, int] = {}
        for name, process in group.processes.items():
            with Store.open(process.directory, Config().store, resume=True) as store:
                books[store.identity] = book_of(store) | {"reasons": {}}
                moved_in[name] = store.ledger().moved_in
        coverage = served.judged().coverage
    visits = [line for lines in after.values() for line in lines if line.found]
    counts = Counter(line.url for line in visits)
    assert set(counts) == set(first)
    # What changes hands while it is visited may be visited once more.
    assert counts.total() - len(counts) <= moved_in["three"]
    assert {line.found for line in visits} == {"unchanged"}
    assert len(kept) > len(first) / 2
    in_full = sum(size for url, size in first.items() if url in kept)
    assert sum(line.size for line in visits if line.url in kept) < 0.05 * in_full
    assert coverage == 1.0
    assert add_up(books).is_balanced
    assert moved_in["three"]
    for name in NAMES:
        kinds = [bool(line.found) for line in after[name]]
        both = kinds[kinds.index(True) :][:WINDOW]  # from when on old ones were known to be due
        assert sum(both) / len(both) == pytest.approx(1 - ALPHA, abs=0.05)
