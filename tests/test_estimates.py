"""What fresh links are taken for, between two rankings."""

from __future__ import annotations

from pathlib import Path

from gcs.config import Store as StoreSettings
from gcs.core.ranking import Priority
from gcs.core.urls import key
from gcs.gatherer.crawl import RANKED
from gcs.gatherer.estimates import Estimates
from gcs.store.records import Batch, Found, host_of
from gcs.store.store import Store

PAGE, LINK = key("http://a.test/page"), key("http://a.test/link")
OTHERS = [key(f"http://a.test/{number}") for number in range(RANKED)]
AWAY = key("http://b.test/")


def of(store: Store) -> Estimates:
    """As a crawl has them."""
    return Estimates(
        lambda page: None if (ranked := store.priorities([page])[0]) is None else ranked.new,
        lambda host: store.mean_priority(host, RANKED),
        is_ranked=store.has_priorities,
    )


def test_links_of_popular_pages_are_wanted(tmp_path: Path) -> None:
    """A link of a popular page is wanted before others of its host, also after a restart; others are not."""
    settings = StoreSettings(keep_free_bytes=0)
    with Store.open(tmp_path, settings, resume=False) as store:
        store.commit(Batch(found=[Found(each, 0) for each in (PAGE, LINK, *OTHERS[:5], AWAY)]))
        estimates = of(store)
        assert estimates.of_page(PAGE) is None
        assert not estimates.is_wanted(LINK, 20.0)
        ranked = [Priority(PAGE, 400.0, 9.0), *(Priority(each, 3.0, 3.0) for each in OTHERS[:5])]
        committed = store.commit(Batch(priorities=[*ranked, Priority(OTHERS[9], 1.0, 1.0)]))
        assert committed.ranked == {each.key for each in ranked}
        estimates.ranked(committed.ranked)
        assert not estimates.is_wanted(LINK, 20.0)  # the mean of its host is above 60
        estimates.ranked(store.commit(Batch(priorities=[Priority(PAGE, 100.0, 9.0)])).ranked)
        assert estimates.of_page(PAGE) == 10.0
    with Store.open(tmp_path, settings, resume=True) as store:
        again = of(store)
        assert again.of_page(PAGE) == 10.0
        assert store.mean_priority(host_of(PAGE), RANKED) == (100 + 5 * 3) / 6
        assert again.is_wanted(LINK, 20.0)
        assert not again.is_wanted(LINK, 10.0)
        assert not again.is_wanted(AWAY, 1e9)
