"""Pages to be searched for, and stores that have them, for tests."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from gcs import config
from gcs.core.urls import key
from gcs.index.entries import Entry
from gcs.store.columns import pack_row
from gcs.store.records import Batch, Finished, Found, State
from gcs.store.store import Store
from gcs.summary.records import Document, Fetched, Summary


def entry(url: str, language: str, title: str, text: str, *, at_us: int = 1, status: int = 200) -> Entry:
    """A page as the index sees it."""
    return Entry(url, key(url), status, "text/html", at_us, False, title, "", (), (), text, language)


def opened(directory: Path, *, segment_rows: int = 1_000) -> Store:
    """A store, made or opened again."""
    settings = config.Store(keep_free_bytes=0, pages="none", segment_rows=segment_rows)
    return Store.open(directory, settings, resume=directory.exists())


def keep(store: Store, entries: Iterable[Entry], *, unchanged: bool = False) -> None:
    """Commit pages as a gatherer does, each for the first time or again."""
    finished = []
    for each in entries:
        document = Document(
            format=each.media_type, title=each.title, excerpt=each.excerpt, language=each.language
        )
        fetched = Fetched(
            url=each.url,
            key=each.key,
            parent="",
            via="link",
            depth=1,
            status=each.status,
            media_type=each.media_type,
            fetched_at=each.fetched_us,
            fetch_s=0.1,
            bytes=1,
            truncated="",
            digest="",
            etag="",
            last_modified="",
            epoch=0,
            unchanged=unchanged,
        )
        made = Finished(key=each.key, state=State.DONE, status=each.status, at=1.0, attempts=1)
        made.summary = pack_row(Summary.row(document, fetched))
        finished.append(made)
    known = store.seen([made.key for made in finished])
    fresh = [Found(made.key, 1, "", "link", 1) for made, has in zip(finished, known, strict=True) if not has]
    store.commit(Batch(found=fresh))
    for made, has in zip(finished, known, strict=True):
        made.is_revisit = has
    store.commit(Batch(finished=finished))
