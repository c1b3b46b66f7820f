"""Summaries and links as Parquet, read by pyarrow."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcs import config
from gcs.core.urls import key
from gcs.store import parquet
from gcs.store.columns import pack_columns, pack_row
from gcs.store.database import JOURNAL, Database
from gcs.store.parquet import batch_of_columns
from gcs.store.records import Batch, Finished, State
from gcs.store.store import Store
from gcs.summary.records import Edge, Heading, Summary
from gcs.summary.schema import SCHEMA

SMALL = config.Store(keep_free_bytes=0, segment_rows=100)
SCHEMAS = {
    "summaries": pa.schema([("url", pa.string()), ("size", pa.int64()), ("words", pa.list_(pa.string()))]),
    "links": pa.schema([("source", pa.string()), ("target", pa.string()), ("text", pa.string())]),
}


def page(number: int, links: int = 3) -> Finished:
    """A page with a summary and some links."""
    url = f"http://a.com/{number}"
    return Finished(
        key=key(url),
        state=State.DONE,
        status=200,
        at=0.0,
        attempts=1,
        summary=pack_row([url, number, ["a", "b"]]),
        links=pack_columns([url, [f"http://b.org/{n}" for n in range(links)], ["text"] * links]),
    )


def summary_row(number: int) -> dict[str, Any]:
    """What `page` says in its summary."""
    return {"url": f"http://a.com/{number}", "size": number, "words": ["a", "b"]}


def rows(place: Path, kind: str) -> list[dict[str, Any]]:
    """All rows of a kind that are in files."""
    read: list[dict[str, Any]] = ds.dataset(place / kind, format="parquet").to_table().to_pylist()
    return read


def opened(place: Path, *, resume: bool = False) -> Store:
    """A store with small segments."""
    return Store.open(place, SMALL, resume=resume, schemas=SCHEMAS)


def test_rows_come_back_as_they_were_given(tmp_path: Path) -> None:
    """After a close every row that was committed is in a file, once and unchanged, in order."""
    with opened(tmp_path) as store:
        for number in range(7):
            store.commit(Batch(finished=[page(10 * number + n) for n in range(10)]))
            store.flush_segments()
    assert rows(tmp_path, "summaries") == [summary_row(n) for n in range(70)]
    assert rows(tmp_path, "links") == [
        {"source": f"http://a.com/{n}", "target": f"http://b.org/{m}", "text": "text"}
        for n in range(70)
        for m in range(3)
    ]
    assert len(list((tmp_path / "links").iterdir())) == 2


def test_summaries_and_edges_have_a_place(tmp_path: Path) -> None:
    """A summary and its links, in the schemas that they bring along, are read back equal."""
    summary = Summary(
        url="http://a.com/",
        key=key("http://a.com/"),
        fetched_at=1_700_000_000.5,
        keywords=("x", "ü"),
        headings=(Heading(1, "One"), Heading(2, "Two")),
        noindex=True,
    )
    edges = [
        Edge("http://a.com/", f"http://b.org/{n % 4}", f"t{n}", "nofollow", "a", 1_700_000_000_000_000, n > 3)
        for n in range(5)
    ]
    finished = page(0)
    finished.summary = pack_row(list(summary.to_row().values()))
    *texts, times, repeated = zip(*edges, strict=True)
    finished.links = pack_columns(
        [*texts, [str(each) for each in times], ["1" if each else "" for each in repeated]]
    )
    with Store.open(tmp_path, SMALL, resume=False) as store:
        store.commit(Batch(finished=[finished]))
    table = ds.dataset(tmp_path / "summaries").to_table()
    assert table.schema.equals(SCHEMA["summaries"])
    assert Summary.from_row(table.to_pylist()[0]) == summary
    assert [Edge(**row) for row in rows(tmp_path, "links")] == edges


def test_a_segment_can_be_read_while_the_crawl_runs(tmp_path: Path) -> None:
    """Files are there before the store is closed, and only whole ones."""
    with opened(tmp_path) as store:
        assert not store.segments_due()
        for number in range(40):
            store.commit(Batch(finished=[page(number)]))
        assert store.segments_due()
        paths = store.flush_segments()
        assert [path.parent.name for path in paths] == ["links"]
        assert pq.read_table(paths[0]).num_rows == 102
        assert store.statistics().journalled == {"summaries": 40, "links": 18}
        assert store.statistics().segments == {"summaries": 0, "links": 1}
        assert store.flush_segments() == []
        assert [each.suffix for each in (tmp_path / "links").iterdir()] == [".parquet"]


def test_a_url_is_in_a_segment_once(tmp_path: Path) -> None:
    """Columns with few different values are stored as ids with a dictionary."""
    with opened(tmp_path) as store:
        store.commit(Batch(finished=[page(n, links=50) for n in range(10)]))
        (path,) = store.flush_segments()
    columns = pq.ParquetFile(path).metadata.row_group(0)
    assert all("RLE_DICTIONARY" in columns.column(n).encodings for n in range(3))


def test_the_journal_has_a_bound(tmp_path: Path) -> None:
    """A caller that never writes segments does not fill the journal: a commit writes them then."""
    with opened(tmp_path) as store:
        for number in range(100):
            store.commit(Batch(finished=[page(100 * number + n) for n in range(20)]))
        assert max(store.statistics().journalled.values()) <= 500


def test_journal_entries_go_when_their_segment_is_there(tmp_path: Path) -> None:
    """What is in a file is no longer in the database."""
    with opened(tmp_path) as store:
        store.commit(Batch(finished=[page(n) for n in range(50)]))
    database = Database(tmp_path / "db")
    assert list(database.scan(JOURNAL, b"")) == []
    database.close()


@pytest.mark.parametrize("kept", [True, False])
def test_a_crash_around_the_rename_repeats_or_loses_nothing(tmp_path: Path, *, kept: bool) -> None:
    """Whether or not a segment was renamed before a crash, its rows are there once afterwards."""
    store = opened(tmp_path / "old")
    store.commit(Batch(finished=[page(n) for n in range(50)]))
    written = store._segments.write_one(everything=False)
    assert written is not None
    if not kept:
        written[1].rename(written[1].with_name(f".{written[1].name}.new"))
    _copy(tmp_path / "old", tmp_path / "new")
    store.close()
    with opened(tmp_path / "new", resume=True):
        pass
    assert len(rows(tmp_path / "new", "links")) == 150
    assert rows(tmp_path / "new", "summaries") == [summary_row(n) for n in range(50)]
    assert not list((tmp_path / "new").rglob("*.new"))


def _copy(old: Path, new: Path) -> None:
    """The directory as a crash would leave it."""
    for path in sorted(old.rglob("*")):
        target = new / path.relative_to(old)
        if path.is_dir():
            target.mkdir(parents=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())


def test_segments_are_written_while_batches_are_committed(tmp_path: Path) -> None:
    """With segments written in a thread of its own no row is lost, and none is there twice."""
    with opened(tmp_path) as store:
        stop = threading.Event()

        def flush() -> None:
            while not stop.is_set():
                store.flush_segments()

        thread = threading.Thread(target=flush)
        thread.start()
        for number in range(60):
            store.commit(Batch(finished=[page(20 * number + n) for n in range(20)]))
        stop.set()
        thread.join()
    assert rows(tmp_path, "summaries") == [summary_row(n) for n in range(1200)]
    assert len(rows(tmp_path, "links")) == 3600


def test_text_that_is_no_text_is_written_as_far_as_it_is(tmp_path: Path) -> None:
    """Half of a surrogate pair becomes a question mark; the rest of the row stays."""
    finished = page(1, links=1)
    finished.links = pack_columns(["http://a.com/1", ["http://b.org/\ud800"], ["ok"]])
    with opened(tmp_path) as store:
        store.commit(Batch(finished=[finished]))
    assert rows(tmp_path, "links") == [{"source": "http://a.com/1", "target": "http://b.org/?", "text": "ok"}]


def test_a_page_without_links_has_no_rows(tmp_path: Path) -> None:
    """Empty columns are no rows, and columns without a list are one."""
    none, one = page(1, links=0), page(2)
    one.links = pack_columns(["http://a.com/2", "http://b.org/0", ""])
    with opened(tmp_path) as store:
        store.commit(Batch(finished=[none, one]))
    assert rows(tmp_path, "links") == [{"source": "http://a.com/2", "target": "http://b.org/0", "text": ""}]


TEXTS = st.sampled_from(["", "a", "a", "\0", "b\0c", "ü", "𝄞 x"])


@given(st.lists(st.tuples(TEXTS, st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=5)), min_size=1))
def test_links_come_back_whatever_they_say(pages: list[tuple[str, list[tuple[str, str]]]]) -> None:
    """Links of any pages become rows in their order; a zero byte within a text becomes U+FFFD."""
    packed = [pack_columns([of, *map(list, zip(*links, strict=True))]) for of, links in pages]
    table = batch_of_columns(b"".join([each.data for each in packed]), SCHEMAS["links"])
    expected = [(of, target, text) for of, links in pages for target, text in links]
    assert sum(each.rows for each in packed) == table.num_rows
    assert list(zip(*(column.to_pylist() for column in table.columns), strict=True)) == [
        tuple(text.replace("\0", "\ufffd") for text in row) for row in expected
    ]


def test_a_large_segment_is_written_piece_by_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are read back some at a time, and each time become a row group."""
    monkeypatch.setattr(parquet, "_GROUP_BYTES", 1_000)
    with opened(tmp_path) as store:
        for number in range(10):
            store.commit(Batch(finished=[page(10 * number + n) for n in range(10)]))
        assert len(store.flush_segments()) == 3
    for kind in SCHEMAS:
        groups = [pq.ParquetFile(path).num_row_groups for path in (tmp_path / kind).iterdir()]
        assert max(groups) > 1
    assert rows(tmp_path, "summaries") == [summary_row(n) for n in range(100)]
    assert len(rows(tmp_path, "links")) == 300


def test_columns_have_one_length() -> None:
    """Links whose columns differ in length are refused where they are packed, not where they are written."""
    with pytest.raises(ValueError, match="no common length"):
        pack_columns(["http://a.com/", ["x", "y"], ["one"], "", "a"])
