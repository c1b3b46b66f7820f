"""The index: that it finds what queries mean, and that it has what the store has, whatever is killed."""

from __future__ import annotations

import json
import os
import shutil
import signal
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from gcs import config
from gcs.child import Child, ChildDied, started
from gcs.core.query import BadQuery, parse
from gcs.core.urls import key, part
from gcs.core.words import Words
from gcs.errors import UsageError
from gcs.gatherer.parts import Fleet
from gcs.index import DIRECTORY, FORGOTTEN, engine
from gcs.index.engine import _MERGED, _MOST_AT_ONCE, Reader, Writer, evenly
from gcs.index.entries import Entry
from gcs.index.feed import forgotten, with_forgotten
from gcs.index.making import make
from gcs.index.records import Forgotten, NoIndex, Position
from gcs.index.searching import Searcher, search_directory
from gcs.index.service import LOOK_EVERY_S, Indexing
from gcs.index.texts import Texts
from gcs.index.worker import Filling
from gcs.operate.parts import host_prefix
from gcs.store.directory import Room
from gcs.store.records import Batch
from gcs.store.store import Store
from tests.effort import examples
from tests.searching import entry, keep, opened

_WORDS = ["house", "houses", "running", "run", "Häuser", "haus", "casas", "casa", "検索", "索検"]
_WORDS += ["検", "索索", "検索検索", "索x検索", "한국어", "ไทย", "the", "of", "der", "de"]
LANGUAGES = st.sampled_from(["en", "de", "es", "ja", "xx", ""])
TEXTS = st.lists(st.sampled_from(_WORDS), max_size=6).map(" ".join)
_PAGES = st.lists(st.tuples(LANGUAGES, TEXTS, TEXTS, TEXTS), min_size=1, max_size=12)
_LEAF = st.builds(
    lambda field, words: field + (words[0] if len(words) == 1 else f'"{" ".join(words)}"'),
    st.sampled_from(["", "", "title:", "about:", "text:", "url:"]),
    st.lists(st.sampled_from([*_WORDS, "example", "p1"]), min_size=1, max_size=3),
)
_EXACT = st.sampled_from(["lang:de", "lang:xx", "host:example", "host:h1.example", "type:text"])
QUERIES = st.recursive(
    _LEAF | _EXACT,
    lambda inner: st.lists(st.tuples(st.sampled_from(["", "-", "OR "]), inner), min_size=1, max_size=3).map(
        lambda parts: "(" + " ".join(sign + each for sign, each in parts) + ")"
    ),
    max_leaves=5,
)


@settings(max_examples=examples(25))
@given(pages=_PAGES, queries=st.lists(QUERIES, min_size=1, max_size=8))
def test_the_index_finds_what_a_query_holds_of(
    pages: list[tuple[str, str, str, str]], queries: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The index finds exactly the pages that a query holds of, in whichever language they are."""
    directory = tmp_path_factory.mktemp("index") / DIRECTORY
    words = Words()
    kept = [
        entry(f"http://h{n % 3}.example/p{n}", language, title, text)._replace(description=about)
        for n, (language, title, about, text) in enumerate(pages)
    ]
    writer = Writer(directory, words)
    half = len(kept) // 2
    writer.add(kept[:half], Position(1, half))
    writer.add(kept[half:], Position(2, len(kept)))
    reader = Reader(directory, words)
    for text in queries:
        try:
            query = parse(text)
        except BadQuery:
            continue
        found = reader.find(query, 100)
        assert {hit.row for hit in found.hits} == {
            number for number, each in enumerate(kept) if query.holds(each.paper(words))
        }, text
        assert found.total == len(found.hits)


def _found(store: Store, text: str) -> list[str]:
    return sorted(each.url for each in Searcher.of(store).search(parse(text), 50).found)


async def _filled(store: Store) -> None:
    indexing = Indexing(store)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(indexing.run)
        assert await indexing.caught_up(60)
        nursery.cancel_scope.cancel()


def test_pages_are_found_from_journal_and_files(tmp_path: Path) -> None:
    """What is in files, and what is only committed yet, is found, shown and counted alike."""
    pages = [
        entry(f"http://a.example/{n}", "en", f"Number {n}", f"word{n} and words", at_us=n) for n in range(30)
    ]
    with opened(tmp_path / "s", segment_rows=100) as store:
        keep(store, pages[:10])
        keep(store, pages[10:20])
        trio.run(_filled, store)
        store.flush_segments(everything=True)
        keep(store, pages[20:])
        trio.run(_filled, store)
        assert _found(store, "word17 OR word3 OR word25") == [pages[n].url for n in (17, 25, 3)]
        assert Searcher.of(store).search(parse("words"), 5).total == 30
    found = search_directory(tmp_path / "s", "title:number words", 10, 20)
    assert (found.total, found.pages, len(found.found)) == (30, 30, 10)
    one = search_directory(tmp_path / "s", "word7", 10, 0).found[0]
    assert (one.title, one.text[slice(*one.text_marks[0])]) == ("Number 7", "word7")


def test_an_index_that_is_made_later_has_every_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An index that is made from files, in steps that end within them and with them, has every page once."""
    monkeypatch.setattr(Filling, "at_once", lambda *_: 10)
    with opened(tmp_path / "s", segment_rows=100) as store:
        for first, count in ((0, 25), (25, 10), (35, 20)):
            keep(store, [entry(f"http://a.example/{first + n}", "en", "t", "every") for n in range(count)])
            store.flush_segments(everything=True)
    assert make(tmp_path / "s", lambda _: None) == {"stores": 1, "summaries": 55}
    assert search_directory(tmp_path / "s", "every", 1, 0).total == 55
    assert make(tmp_path / "s", lambda _: None) == {"stores": 1, "summaries": 55}


def test_an_index_that_is_made_later_is_in_one_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many files there are, an index that is made of them has one segment, and so one dictionary."""
    monkeypatch.setattr("gcs.index.engine._MOST_AT_ONCE", 5)
    with opened(tmp_path / "s", segment_rows=100) as store:
        for first, count in ((0, 7), (7, 1), (8, 20), (28, 12)):
            keep(store, [entry(f"http://a.example/{first + n}", "en", "t", "every") for n in range(count)])
            store.flush_segments(everything=True)
    assert make(tmp_path / "s", lambda _: None) == {"stores": 1, "summaries": 40}
    assert search_directory(tmp_path / "s", "every", 1, 0).total == 40
    committed = json.loads((tmp_path / "s" / DIRECTORY / "meta.json").read_bytes())
    assert len(committed["segments"]) == 1


@given(pages=st.integers(1, 10_000_000))
def test_pages_are_committed_in_steps_that_merge(pages: int) -> None:
    """The steps of an index are a power of eight, or one, and each is small enough, and large enough."""
    step = evenly(pages)
    steps = -(-pages // step)
    assert step <= _MOST_AT_ONCE
    assert steps == 1 or step > _MOST_AT_ONCE // _MERGED
    assert steps in (1, 8, 64, 512)


def test_the_newest_visit_counts(tmp_path: Path) -> None:
    """A page that was visited again is found by what it says now, one that is gone is not found any more."""
    with opened(tmp_path / "s") as store:
        keep(store, [entry(f"http://a.example/{n}", "en", "old", "before") for n in range(3)])
        trio.run(_filled, store)
        keep(store, [entry("http://a.example/0", "en", "new", "after", at_us=5)])
        keep(store, [entry("http://a.example/1", "", "", "", at_us=6, status=404)])
        keep(store, [entry("http://a.example/2", "", "", "", at_us=7)], unchanged=True)
        trio.run(_filled, store)
        assert _found(store, "before") == ["http://a.example/2"]
        assert _found(store, "after") == ["http://a.example/0"]
        assert Reader(store.directory / DIRECTORY, Words()).pages == 2


def test_pages_whose_keys_are_alike_are_several(tmp_path: Path) -> None:
    """Pages whose digests are alike in part do not replace each other, and each is known by its own key."""
    writer = Writer(tmp_path / DIRECTORY, Words())
    by_part: dict[str, list[str]] = {}
    for n in range(2_000):
        url = f"http://a.example/{n}"
        by_part.setdefault(writer._pages.values(key(url))[0], []).append(url)
    first, second = next(urls for urls in by_part.values() if len(urls) > 1)[:2]
    writer.add([entry(first, "en", "t", "one"), entry(second, "en", "t", "two", at_us=2)], Position(1, 2))
    writer.add([entry(first, "en", "t", "three", at_us=3)], Position(2, 3))
    reader = Reader(tmp_path / DIRECTORY, Words())
    assert reader.pages == 2
    assert reader.newest([key(first), key(second)]) == {key(first): 3, key(second): 2}
    assert [hit.row for hit in reader.find(parse("two"), 10).hits] == [1]


def test_what_is_forgotten_is_told_by_the_page_that_is_there(tmp_path: Path) -> None:
    """Times may go back, by another clock: the page of the last row counts, however much is forgotten."""
    writer, reading = Writer(tmp_path / DIRECTORY, Words()), partial(Reader, tmp_path / DIRECTORY, Words())
    urls = [f"http://a.example/{n}" for n in range(30)]
    writer.add([entry(url, "en", "t", "one", at_us=100) for url in urls], Position(1, 30))
    writer.add([entry(url, "en", "t", "two", at_us=50) for url in urls[:20]], Position(2, 50))
    keys = [key(url) for url in urls]
    with patch.object(engine, "_DELETED_AT_ONCE", 3):
        writer.forget([Forgotten("", None, 60)], [*keys, *keys])
    assert reading().newest(keys) == dict.fromkeys(keys[20:], 100)
    assert len(reading().find(parse("two"), 50).hits) == 0
    other = Writer(tmp_path / "other", Words())
    assert other._pages.values(keys[0]) != writer._pages.values(keys[0])


def test_frequent_words_are_found_and_phrases_pass_over_them(tmp_path: Path) -> None:
    """Frequent words are found, also alone; in a phrase they have to be there, and keep the others apart."""
    texts = ["It is the end of the world.", "The world, of which that is one end.", "An end, a world."]
    pages = [entry(f"http://a.example/{n}", "en", "t", text) for n, text in enumerate(texts)]
    pages.append(entry("http://a.example/3", "en", "To be or not to be", "a question"))
    writer = Writer(tmp_path / DIRECTORY, Words())
    writer.add(pages, Position(1, len(pages)))
    reader = Reader(tmp_path / DIRECTORY, Words())

    def found(text: str) -> list[int]:
        return sorted(hit.row for hit in reader.find(parse(text), 10).hits)

    assert found('"the end of the world"') == [0]
    assert found("the end of the world") == [0, 1]
    assert found('"end a world"') == [2]
    assert found("the") == found('"the of"') == [0, 1]
    assert found('"to be or not to be"') == found('title:"not to be"') == [3]
    assert found('title:"be to not"') == []


def test_a_page_that_another_has_found_gone_is_not_found(tmp_path: Path) -> None:
    """A page that changed hands, and is gone or another one since, is not found as it was."""
    directory = tmp_path / "crawl"
    directory.mkdir()
    Fleet(gatherers=2, settings=(), private=True, own_server=True).remember(directory)
    urls = [f"http://a.example/{n}" for n in range(3)]
    with opened(directory / "1") as store:
        keep(store, [entry(url, "en", "old", "before") for url in urls])
        trio.run(_filled, store)
    with opened(directory / "2") as store:
        keep(store, [entry(urls[0], "", "", "", at_us=5, status=410)])
        keep(store, [entry(urls[1], "en", "new", "after", at_us=6)])
        trio.run(_filled, store)
        reader = Reader(store.directory / DIRECTORY, Words())
        assert (reader.pages, len(reader.newest(map(key, urls)))) == (1, 2)
    found = search_directory(directory, "before OR after", 10, 0)
    assert {each.url: each.title for each in found.found} == {urls[1]: "new", urls[2]: "old"}
    assert found.pages == 4


def test_a_page_that_comes_while_somebody_searches_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was committed after a search began, and is found by it, is read from the journal as it is then."""
    with opened(tmp_path / "s") as store:
        keep(store, [entry("http://a.example/0", "en", "t", "every")])
        trio.run(_filled, store)
        find = Reader.find

        def later(*arguments: Any, **options: Any) -> Any:
            monkeypatch.setattr(Reader, "find", find)
            keep(store, [entry("http://a.example/1", "en", "t", "every")])
            trio.run(_filled, store)
            return find(*arguments, **options)

        monkeypatch.setattr(Reader, "find", later)
        assert len(search_directory(tmp_path / "s", "every", 10, 0).found) == 2


def test_a_journal_that_becomes_a_file_while_it_is_read(tmp_path: Path) -> None:
    """Rows that were in the journal when files were listed, and in a file when it is read, are shown."""
    with opened(tmp_path / "s") as store:
        keep(store, [entry(f"http://a.example/{n}", "en", "t", "every") for n in range(3)])

        class Flushed:
            def packed(self, kind: str, number: int) -> bytes | None:
                return store.packed(kind, number)

            def waiting(self, kind: str) -> list[tuple[int, int]]:
                store.flush_segments(everything=True)
                return store.waiting(kind)

        assert sorted(Texts(store.directory).read([0, 2], Flushed())) == [0, 2]


def test_an_index_waits_while_there_is_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While less is free than is to be kept free nothing is indexed; then all is."""
    free = [1 << 30]
    monkeypatch.setattr(Room, "free_bytes", lambda _: free[0])

    async def waited(store: Store) -> None:
        indexing = Indexing(store)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(indexing.run)
            assert not await indexing.caught_up(3 * LOOK_EVERY_S)
            free[0] = 1 << 30
            assert await indexing.caught_up(60)
            nursery.cancel_scope.cancel()

    settings = config.Store(keep_free_bytes=1 << 20, pages="none")
    with Store.open(tmp_path / "s", settings, resume=False) as store:
        keep(store, [entry("http://a.example/0", "en", "t", "every")])
        free[0] = 0
        trio.run(waited, store)
        assert _found(store, "every") == ["http://a.example/0"]


def test_an_index_that_is_damaged_is_told_of(tmp_path: Path) -> None:
    """Of an index that cannot be read one sentence says that it can be removed; also of one in use."""
    with opened(tmp_path / "s") as store:
        keep(store, [entry("http://a.example/0", "en", "t", "every")])
    make(tmp_path / "s", lambda _: None)
    writer = Writer(tmp_path / "s" / DIRECTORY, Words())
    with pytest.raises(UsageError, match="another process"):
        make(tmp_path / "s", lambda _: None)
    writer.close()
    (tmp_path / "s" / DIRECTORY / "meta.json").write_text("{")
    with pytest.raises(UsageError, match="remove it"):
        make(tmp_path / "s", lambda _: None)
    shutil.rmtree(tmp_path / "s" / DIRECTORY)
    assert make(tmp_path / "s", lambda _: None) == {"stores": 1, "summaries": 1}


def test_what_was_forgotten_is_not_found(tmp_path: Path) -> None:
    """Pages that were forgotten leave the index, and do not come back with a new one; later ones come."""
    start = host_prefix("b.example")
    with opened(tmp_path / "s") as store:
        keep(store, [entry(f"http://{name}.example/x", "en", "t", "same") for name in "abc"])
        store.flush_segments(everything=True)
        keep(store, [entry("http://b.example/", "en", "t", "same")])
        keep(store, [entry("http://b.example/gone", "", "", "", status=404)])
        trio.run(_filled, store)
        reader, gone = Reader(store.directory / DIRECTORY, Words()), key("http://b.example/gone")
        assert len(_found(store, "same")) == 4
        assert reader.newest([gone]) == {gone: 1}
        stored = with_forgotten(None, Forgotten(*part(start), 10))
        stored = with_forgotten(stored[FORGOTTEN], Forgotten(*part(start), 20))
        assert len(forgotten(stored[FORGOTTEN])) == 1
        store.commit(Batch(meta=stored))
        trio.run(_filled, store)
        assert _found(store, "same") == ["http://a.example/x", "http://c.example/x"]
        assert reader.newest([gone]) == {}
        keep(store, [entry("http://b.example/x", "en", "t", "same again", at_us=30)])
        trio.run(_filled, store)
        trio.run(_filled, store)
        assert _found(store, "same host:b.example") == ["http://b.example/x"]
    (tmp_path / "s" / DIRECTORY / "gcs-index").write_text("0")
    with pytest.raises(NoIndex):
        Reader(tmp_path / "s" / DIRECTORY, Words())
    assert make(tmp_path / "s", lambda _: None) == {"stores": 1, "summaries": 6}
    assert {each.url for each in search_directory(tmp_path / "s", "same", 10, 0).found} == {
        "http://a.example/x",
        "http://b.example/x",
        "http://c.example/x",
    }


def test_nothing_is_lost_or_twice_when_the_worker_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that is killed at any moment is started again, and in the end every page is found once."""
    monkeypatch.setattr("gcs.index.service._PAUSE_S", 0.05)
    monkeypatch.setattr("gcs.index.feed.MAX_BYTES", 2_000)
    workers: list[trio.Process] = []
    monkeypatch.setattr(Child, "__init__", lambda self, process: _noted(self, process, workers))

    async def disturbed(store: Store) -> None:
        indexing = Indexing(store)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(indexing.run)
            for n in range(30):
                keep(store, [entry(f"http://a.example/{n}-{m}", "en", "t", f"every w{n}") for m in range(5)])
                if n % 13 == 5:
                    store.flush_segments(everything=True)
                if n % 10 == 9:
                    if n % 20 == 9:
                        assert await indexing.caught_up(60)
                    while not workers or workers[-1].returncode is not None:  # noqa: ASYNC110 - a process
                        await trio.sleep(0.01)
                    os.kill(workers[-1].pid, signal.SIGKILL)
                    await workers[-1].wait()
            assert await indexing.caught_up(60)
            nursery.cancel_scope.cancel()

    with opened(tmp_path / "s", segment_rows=100_000) as store:
        trio.run(disturbed, store)
        assert len(workers) >= 3
        assert Searcher.of(store).search(parse("every"), 10).total == 150
        assert len(_found(store, "w17")) == 5


_MADE = Child.__init__


def _noted(child: Child, process: trio.Process, workers: list[trio.Process]) -> None:
    _MADE(child, process)
    workers.append(process)


async def test_a_child_that_is_gone_says_so() -> None:
    """Who asks a process that has ended is told, and does not wait."""
    async with started("gcs.index.worker", "/proc/nowhere") as child:
        with pytest.raises(ChildDied):
            await child.ask("no such question")


def test_an_index_of_one_page_is_read_by_others_while_it_is_written(tmp_path: Path) -> None:
    """Who searches sees each commit, and needs no lock."""
    words = Words()
    writer = Writer(tmp_path / DIRECTORY, words)
    reader = Reader(tmp_path / DIRECTORY, words)
    pages: list[Entry] = []
    for n in range(3):
        pages.append(entry(f"http://a.example/{n}", "en", "t", "x"))
        writer.add(pages[-1:], Position(n + 1, n + 1))
        assert reader.pages == n + 1
        assert reader.position() == (n + 1, n + 1)
    with pytest.raises(ValueError, match=r"(?i)lock"):
        Writer(tmp_path / DIRECTORY, words)
