"""The sink: that an OpenSearch gets what a gatherer has, whatever fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import trio

from gcs import config
from gcs.core.urls import part
from gcs.index import sink
from gcs.index.feed import with_forgotten
from gcs.index.records import Forgotten
from gcs.operate.parts import host_prefix
from gcs.store.records import Batch
from gcs.store.store import Store
from tests.opensearch import OpenSearch, serving
from tests.searching import entry, keep, opened


async def _sent(there: OpenSearch, store: Store, is_there: Callable[[], bool]) -> None:
    index = config.Index(engine="opensearch", url=there.url, name="pages")
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sink.Sink(replace(config.Config(), index=index), store).run)
            while not is_there():  # noqa: ASYNC110 - another thread has it
                await trio.sleep(0.02)
            nursery.cancel_scope.cancel()


def test_every_page_is_sent_once_it_can_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through failures and restarts all pages are there as they were fetched last, and no others."""
    monkeypatch.setattr(sink, "_FIRST_REST_S", 0.01)
    monkeypatch.setattr(sink, "_LONGEST_REST_S", 0.05)
    monkeypatch.setattr(sink, "_PAGES", 7)

    def urls() -> set[str]:
        return {page["url"] for page in list(there.pages.values())}

    with serving(failing=0.3) as there, opened(tmp_path / "s", segment_rows=100) as store:
        pages = [entry(f"http://a.example/{n}", "en", f"Number {n}", "old", at_us=n + 1) for n in range(60)]
        keep(store, pages[:20])
        store.flush_segments(everything=True)
        keep(store, pages[20:40])
        trio.run(_sent, there, store, lambda: len(urls()) == 40)
        keep(store, pages[40:])
        keep(store, [entry("http://a.example/1", "en", "Changed", "new", at_us=100)])
        keep(store, [entry("http://a.example/2", "", "", "", at_us=101, status=410)])
        keep(store, [entry("http://b.example/", "de", "Anderswo", "x", at_us=102)])
        wanted = {each.url for each in pages} - {"http://a.example/2"} | {"http://b.example/"}
        trio.run(_sent, there, store, lambda: urls() == wanted)
        assert there.pages[sink.identity(pages[1].key)]["title"] == "Changed"
        gone = with_forgotten(None, Forgotten(*part(host_prefix("b.example")), 200))
        store.commit(Batch(meta=gone))
        trio.run(_sent, there, store, lambda: "http://b.example/" not in urls())
        assert len(urls()) == 59
        asked = there.requests
        there.failing = 0.0
        keep(store, [entry("http://a.example/3", "en", "older", "x", at_us=1)])
        trio.run(_sent, there, store, lambda: there.requests > asked)
    assert there.pages[sink.identity(pages[3].key)]["title"] == "Number 3"
