"""What searching costs: latency, size and time to index at a million summaries, and from fetched to findable.

    python -m benchmarks.search [--pages N] [--engines N] [--keep DIR] [--json]
    python -m benchmarks.search --of DIR [--json]

Summaries are synthetic, in four languages with stems and one without spaces (`benchmarks.language`), in the
proportions of the fields that pages have. They are committed to a store as a gatherer does, so that files,
journal and index are those of a crawl. With --keep DIR what was built is built once.
With --of DIR only sizes are told: those of the index of a crawl that was kept there.
Searches take longer where others use the machine; their CPU time, which is told too, says by how much.
Compared with: SQLite's FTS5, with the same terms and no texts, at as many summaries as --engines says.
(DuckDB's index is an extension that is downloaded when it is installed, and is made anew for every change.)
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from random import Random

import numpy as np
import trio

from benchmarks.language import Language, Ranks
from benchmarks.result import Row
from gcs import config
from gcs.core.query import parse
from gcs.core.urls import key
from gcs.core.words import Words
from gcs.index import DIRECTORY
from gcs.index.engine import Reader, Writer
from gcs.index.entries import Entry, filed
from gcs.index.records import Position
from gcs.index.searching import Searcher
from gcs.index.service import Indexing
from gcs.index.worker import Filling
from gcs.store.columns import pack_row
from gcs.store.records import SUMMARIES, Batch, Finished, Found, State
from gcs.store.segments import files
from gcs.store.store import Store
from gcs.summary.records import Document, Fetched, Heading, Summary

TELLING = 100_000
"""Up to this rank words are asked for that say something."""
LANGUAGES = ("en", "de", "fr", "es", "ja")
SHARES = (0.55, 0.15, 0.1, 0.1, 0.1)
PAGES_AT_ONCE = 500
PIECE = 100_000
"""So many summaries are made from one seed."""
QUERIES = 400
SETTINGS = config.Store(keep_free_bytes=0, pages="none")


class Texts:
    """Synthetic summaries, each by its number."""

    def __init__(self, seed: int = 5) -> None:
        self._random = np.random.default_rng(seed)
        self._ranks = Ranks(seed)
        self._languages = {code: Language(code) for code in LANGUAGES}

    def sample(self, language: str, count: int) -> list[str]:
        """Words of a language, as often as they are."""
        return self._languages[language].words(self._ranks.draw(count))

    def telling(self, language: str, count: int) -> list[str]:
        """Words that say something: none that is very frequent, and of each magnitude of ranks as many."""
        ranks = np.exp(self._random.uniform(np.log(100), np.log(TELLING), count))
        return self._languages[language].words(ranks.astype(np.int64))

    def summary(self, number: int) -> tuple[Document, Fetched]:
        """A summary of a page."""
        language = str(self._random.choice(LANGUAGES, p=SHARES))
        lengths = self._random.integers([3, 0, 0, 0, 55], [12, 30, 6, 25, 85])
        title, description, keywords, headings, text = (
            self.sample(language, int(count)) for count in lengths
        )
        between = self._languages[language].between
        document = Document(
            format="text/html",
            title=between.join(title),
            description=between.join(description),
            keywords=tuple(keywords),
            headings=tuple(
                Heading(2, between.join(headings[at : at + 5])) for at in range(0, len(headings), 5)
            ),
            excerpt=between.join(text)[:500],
            language=language,
            charset="utf-8",
        )
        host = f"www.site{number * 7919 % 20_011}.example"
        url = f"http://{host}/{self.sample('en', 1)[0]}/{number}.html"
        return document, Fetched(
            url=url,
            key=key(url),
            parent="",
            via="link",
            depth=3,
            status=200,
            media_type="text/html",
            fetched_at=1_700_000_000_000_000 + number,
            fetch_s=0.1,
            bytes=20_000,
            truncated="",
            digest="",
            etag="",
            last_modified="",
            epoch=0,
        )

    def queries(self, count: int) -> Iterator[str]:
        """Queries as people ask them: one to four words, sometimes a phrase, a field, a language."""
        random = Random(3)
        for _ in range(count):
            language = random.choices(LANGUAGES, SHARES)[0]
            words = self.sample(language, random.choice([1, 2, 2, 3, 4]))
            if language == "ja":
                words = words[:1]
            query = " ".join(words)
            kind = random.random()
            if kind < 0.15 and len(words) > 1:
                query = f'"{words[0]} {words[1]}"'
            elif kind < 0.25:
                query = f"title:{query}"
            elif kind < 0.35:
                query = f"{query} lang:{language}"
            yield query


def fill(store: Store, texts: Texts, first: int, count: int) -> int:
    """Commit summaries to a store, as a gatherer does; says how many bytes of text they have."""
    size = 0
    for at in range(first, first + count, PAGES_AT_ONCE):
        made = [texts.summary(number) for number in range(at, min(at + PAGES_AT_ONCE, first + count))]
        store.commit(Batch(found=[Found(fetched.key, 1, "", "link", 1) for _, fetched in made]))
        finished = []
        for document, fetched in made:
            size += text_bytes(document, fetched)
            done = Finished(key=fetched.key, state=State.DONE, status=200, at=1.7e9, attempts=1)
            done.summary = pack_row(Summary.row(document, fetched))
            finished.append(done)
        store.commit(Batch(finished=finished))
        if store.segments_due():
            store.flush_segments()
    return size


def text_bytes(document: Document, fetched: Fetched) -> int:
    """How long all that is indexed of a summary is."""
    headings = [each.text for each in document.headings]
    said = [
        document.title,
        document.description,
        *document.keywords,
        *headings,
        document.excerpt,
        fetched.url,
    ]
    return sum(len(each.encode()) for each in said)


def size_of(directory: Path) -> int:
    """How much the files in a directory have."""
    return sum(path.stat().st_size for path in directory.iterdir() if path.is_file())


def sizes(index: Path, text: int) -> list[Row]:
    """How large an index is, and its parts, as shares of the text that it is of."""
    parts = {"postings": ".idx", "positions": ".pos", "dictionaries of terms": ".term"}
    share = size_of(index) / text
    rows = [Row("size of the index, share of the text", f"{share:.1%}", "", None, "< 40%", share < 0.4)]
    for name, ending in parts.items():
        size = sum(path.stat().st_size for path in index.glob(f"*{ending}"))
        rows.append(Row(f"of that {name}", f"{size / text:.1%}", "", None))
    return rows


def real(store: Path) -> list[Row]:
    """The sizes of the index of a crawl, all of whose summaries are in files."""
    entries = (entry for path in files(store, SUMMARIES) for entry in filed(path) if not entry.unchanged)
    lengths = [sum(len(text.encode()) for text in entry.texts().values()) for entry in entries]
    mean = sum(lengths) / max(1, len(lengths))
    told = [
        Row("summaries", f"{len(lengths):,}", "", None),
        Row("text of a summary", f"{mean:.0f} bytes", "", None),
    ]
    return [*told, *sizes(store / DIRECTORY, sum(lengths))]


def indexed(store: Path, pages: int) -> float:
    """Make the index of a store; summaries per CPU second."""
    filling = Filling(store)
    began = time.process_time()
    while filling.at().rows < pages:
        filling.files(filling.at().entry)
    filling.close()
    return pages / (time.process_time() - began)


def built(directory: Path, pages: int) -> tuple[int, float]:
    """A store with so many summaries and its index; bytes of text, and summaries indexed per CPU second."""
    facts = directory / "facts.json"
    if not facts.exists():
        with Store.open(directory / "store", SETTINGS, resume=False, finely=True) as store:
            size = sum(
                fill(store, Texts(seed=first), first, min(PIECE, pages - first))
                for first in range(0, pages, PIECE)
            )
        rate = indexed(directory / "store", pages)
        facts.write_text(json.dumps([size, rate]))
    size, rate = json.loads(facts.read_text())
    return size, rate


def latencies(store: Store, texts: Texts) -> tuple[list[float], list[float]]:
    """How long searches take that find, read and mark up ten results, and their CPU time; in ms, sorted."""
    searcher = Searcher.of(store)
    queries = [parse(each) for each in texts.queries(QUERIES)]
    for query in queries[:20]:
        searcher.search(query, 10)
    found, busy = [], []
    for query in queries:
        began, began_cpu = time.perf_counter(), time.process_time()
        searcher.search(query, 10)
        found.append((time.perf_counter() - began) * 1e3)
        busy.append((time.process_time() - began_cpu) * 1e3)
    return sorted(found), sorted(busy)


def findable(store: Store, texts: Texts, first: int, rounds: int = 10) -> list[float]:
    """How long it takes from a commit until a search finds what it had, in seconds."""
    found, pause = [], Random(1)

    async def measured() -> None:
        indexing = Indexing(store)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(indexing.run)
            await indexing.caught_up(600)
            reader = Reader(store.directory / DIRECTORY, Words())
            for number in range(rounds):
                document, fetched = texts.summary(first + number)
                word = f"findable{first + number}"
                done = Finished(key=fetched.key, state=State.DONE, status=200, at=1.7e9, attempts=1)
                done.summary = pack_row(Summary.row(document._replace(title=word), fetched))
                await trio.sleep(pause.random())
                store.commit(Batch(found=[Found(fetched.key, 1, "", "link", 1)]))
                began = trio.current_time()
                store.commit(Batch(finished=[done]))
                while not reader.find(parse(word), 1).hits:  # noqa: ASYNC110 - another process finds it
                    await trio.sleep(0.02)
                found.append(trio.current_time() - began)
            nursery.cancel_scope.cancel()

    trio.run(measured)
    return sorted(found)


def _entries(texts: Texts, count: int) -> list[Entry]:
    made = []
    for number in range(count):
        document, fetched = texts.summary(number)
        made.append(
            Entry(
                url=fetched.url,
                key=fetched.key,
                status=200,
                media_type="text/html",
                fetched_us=fetched.fetched_at,
                unchanged=False,
                title=document.title,
                description=document.description,
                keywords=document.keywords,
                headings=[each.text for each in document.headings],
                excerpt=document.excerpt,
                language=document.language,
            )
        )
    return made


def engines(directory: Path, count: int) -> list[Row]:
    """Tantivy and FTS5 with the same terms: size, time to index, latency of one and two words."""
    texts = Texts()
    entries = _entries(texts, count)
    size = sum(sum(len(text.encode()) for text in entry.texts().values()) for entry in entries)
    words, rows = Words(), []
    asked = [[words.stem(each, "en") for each in texts.sample("en", 1 + n % 2)] for n in range(QUERIES)]
    # Both get terms that are made already, and are asked for terms, so that only the engines differ.
    plain = [entry._replace(language="") for entry in entries]
    writer = Writer(directory / "tantivy", words)
    ours = _timed(lambda: _index_tantivy(writer, plain))
    reader = Reader(directory / "tantivy", words)
    queries = [parse(" ".join(each)) for each in asked]
    ours_ms = _p95([_timed_wall(lambda query=query: reader.find(query, 10)) for query in queries])
    base = sqlite3.connect(directory / "fts5.sqlite")
    theirs = _timed(lambda: _index_sqlite(base, plain, words))
    theirs_ms = _p95([_timed_wall(lambda each=each: _find_sqlite(base, each)) for each in asked])
    ours_size, theirs_size = size_of(directory / "tantivy"), (directory / "fts5.sqlite").stat().st_size
    rows = [
        ("size of the index, share of the text", ours_size / size, theirs_size / size, ".0%"),
        ("CPU to index a summary, µs", ours / count * 1e6, theirs / count * 1e6, ".0f"),
        ("p95 of a search, ms", ours_ms, theirs_ms, ".1f"),
    ]
    return [Row(f"{what} ({count:,})", f"{a:{how}}", f"FTS5 {b:{how}}", b / a) for what, a, b, how in rows]


def _index_tantivy(writer: Writer, entries: Sequence[Entry]) -> None:
    for at in range(0, len(entries), 5_000):
        some = entries[at : at + 5_000]
        writer.add(some, Position(at, at + len(some)))
    writer.close()


def _index_sqlite(base: sqlite3.Connection, entries: Sequence[Entry], words: Words) -> None:
    base.execute("pragma journal_mode=wal")
    base.execute("pragma synchronous=normal")
    base.execute("create virtual table pages using fts5(title, about, text, url, content='')")
    for at in range(0, len(entries), 5_000):
        with base:
            base.executemany(
                "insert into pages(rowid, title, about, text, url) values (?, ?, ?, ?, ?)",
                (
                    (at + n, *(" ".join(words.terms(text)) for text in entry.texts().values()))
                    for n, entry in enumerate(entries[at : at + 5_000])
                ),
            )
    with base:
        base.execute("insert into pages(pages) values ('optimize')")
    base.execute("pragma wal_checkpoint(truncate)")
    base.execute("vacuum")


def _find_sqlite(base: sqlite3.Connection, asked: Sequence[str]) -> None:
    base.execute(
        "select rowid, bm25(pages, 4, 2, 1, 1) from pages where pages match ? order by 2 limit 10",
        [" AND ".join(f'"{each}"' for each in asked)],
    ).fetchall()


def _timed(work: object) -> float:
    began = time.process_time()
    assert callable(work)
    work()
    return time.process_time() - began


def _timed_wall(work: object) -> float:
    began = time.perf_counter()
    assert callable(work)
    work()
    return (time.perf_counter() - began) * 1e3


def _p95(values: Sequence[float]) -> float:
    return sorted(values)[int(len(values) * 0.95)]


def measured(directory: Path, pages: int, compared: int) -> list[Row]:
    """All figures."""
    size, rate = built(directory, pages)
    texts = Texts(seed=7)
    with Store.open(directory / "store", SETTINGS, resume=True) as store:
        found, busy = latencies(store, texts)
        p95, shares = _p95(found), sizes(directory / "store" / DIRECTORY, size)
        late = findable(store, texts, store.counts().accepted)
    rows = [
        Row(f"p95 of a search, {pages:,} summaries", f"{p95:.1f} ms", "", None, "< 50 ms", p95 < 50),
        Row("median of a search", f"{statistics.median(found):.1f} ms", "", None),
        Row("p95 of a search, CPU alone", f"{_p95(busy):.1f} ms", "", None),
        *shares,
        Row("text of a summary", f"{size / pages:.0f} bytes", "", None),
        Row("summaries indexed per CPU second", f"{rate:,.0f}", "", None),
        Row("from committed to findable, worst", f"{late[-1]:.2f} s", "", None, "< 5 s", late[-1] < 5),
    ]
    if compared:
        with tempfile.TemporaryDirectory() as aside:
            rows += engines(Path(aside), compared)
    return rows


def main() -> None:
    """Measure, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=1_000_000)
    parser.add_argument(
        "--engines", type=int, default=0, metavar="N", help="compare engines with N summaries"
    )
    parser.add_argument("--keep", type=Path, help="build there, or use what was built there")
    parser.add_argument("--of", type=Path, metavar="DIR", help="only say how large the index of a store is")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    place = nullcontext(str(asked.keep)) if asked.keep else tempfile.TemporaryDirectory()
    with place as directory:
        Path(directory).mkdir(parents=True, exist_ok=True)
        rows = real(asked.of) if asked.of else measured(Path(directory), asked.pages, asked.engines)
    if asked.json:
        print(json.dumps([asdict(row) for row in rows], indent=2))
        return
    for row in rows:
        judged = f"  goal {row.goal}: {'yes' if row.reached else 'NO'}" if row.goal else ""
        compared = f"  {row.compared_with} ({row.ratio:.1f} times)" if row.ratio is not None else ""
        print(f"{row.what:<55} {row.ours:>14}{compared}{judged}")


if __name__ == "__main__":
    main()
