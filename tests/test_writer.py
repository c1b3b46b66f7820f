"""The one writer of a crawl."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import trio

from gcs import config
from gcs.gatherer.territory import ALONE
from gcs.gatherer.writer import Writer
from gcs.store.records import Batch
from gcs.store.store import Store
from gcs.world import REAL
from tests.test_fetch import until
from tests.test_store_segments import SCHEMAS, page, rows, summary_row


def _has_files(store: Store, count: int) -> bool:
    return len(store.segments("summaries")) == count


async def test_few_rows_are_in_files_too(tmp_path: Path) -> None:
    """Who reads the files of a crawl that finds little sees all after a while, and every row once."""
    settings = config.Store(keep_free_bytes=0)
    with Store.open(tmp_path, settings, resume=False, schemas=SCHEMAS) as store:
        writer = Writer(store, ALONE, REAL, files_every_s=0.1, meta=dict, committed=lambda *_: None)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(writer.run)
            nursery.start_soon(writer.flush)
            for number in range(2):
                await writer.commit(Batch(finished=[page(number)]))
                await until(partial(_has_files, store, number + 1))
            nursery.cancel_scope.cancel()
        assert rows(tmp_path, "summaries") == [summary_row(0), summary_row(1)]
    assert len(rows(tmp_path, "links")) == 6
