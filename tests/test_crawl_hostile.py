"""A crawl of a hostile web: every nastiness ends within its limits, and a good site beside it is unharmed."""

from __future__ import annotations

from pathlib import Path

import pytest

from gcs.core import traps
from gcs.core.urls import key
from gcs.gatherer.crawl import Ending, Limits
from gcs.store.records import State
from gcs.store.store import Store
from tests import hostile
from tests.crawling import configured, crawl


async def test_every_nastiness_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever hosts do, each URL ends with a reason, nothing inside is asked, and good pages are fetched."""
    monkeypatch.setattr(traps, "SLOWED_FROM", {"exact": 20, "shape": 20})
    monkeypatch.setattr(traps, "DROPPED_FROM", {"exact": 60, "shape": 60})
    async with hostile.serve(tmp_path) as served:
        config = configured(
            served.hosts,
            fetch={
                "allow": (hostile.NETWORK,),
                "timeout_s": 2.0,
                "connect_timeout_s": 1.0,
                "max_body_bytes": 1 << 20,
                "max_wait_s": 0.05,
                "max_delay_s": 0.1,
            },
            crawl={"max_pages_per_host": 150},
        )
        seeds = [*served.nasty_seeds(), served.good_seed]
        ending = await crawl(config, seeds, tmp_path / "crawl", limits=Limits(seconds=90))
        assert served.trespasses == 0
        assert ending is Ending.FINISHED
    with Store.open(tmp_path / "crawl", config.store, resume=True) as store:
        rows = {url: store.get(key(url)) for url in seeds}
        good = [store.get(key(url)) for url in served.good_pages]
    assert all(row is not None and row.state is not State.QUEUED for row in rows.values())
    assert all(row is not None and row.status == 200 for row in good)
    assert [url for url, row in rows.items() if row is not None and not row.reason and row.status < 100] == []
