"""What the store costs: ten million URLs in queue and seen-set, and what a page adds to it.

    python -m benchmarks.store [--urls N] [--quick] [--json]

URLs are made from their number: hosts of Zipf sizes, paths of words and numbers, as on the web. The part with
many URLs runs in a process of its own, whose memory is measured as a whole. Compared with: SQLite, which
has as many of the same keys as it can be given in reasonable time, and warcio's own writer of WARC records.
"""

from __future__ import annotations

import argparse
import io
import itertools
import json
import multiprocessing
import resource
import sqlite3
import statistics
import tempfile
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random

from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from benchmarks.result import Row
from gcs import config
from gcs.core.urls import key
from gcs.store.columns import pack_columns, pack_row
from gcs.store.records import Batch, Finished, Found, Queued, State, host_of
from gcs.store.store import Store
from gcs.store.warc import Builder, Exchange
from gcs.summary.records import Summary

ASKED_AT_ONCE = 1_000
PAGES_AT_ONCE = 64
NEW_PER_PAGE = 3
LINKS_PER_PAGE = 80
PAGE_BYTES = 20_000
MOST_IN_SQLITE = 1_000_000
NAMED_BY_PAGE = 20
SETTINGS = config.Store(keep_free_bytes=0)
_SPREAD = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1


@dataclass(frozen=True)
class Large:
    """What the process with many URLs found out."""

    accepted_per_s: float
    seen_per_s: float
    bytes_per_url: float
    peak_bytes: int
    handed_out_per_s: float


class Web:
    """URLs by number."""

    def __init__(self, count: int) -> None:
        """Of a web of about this size."""
        random = Random(11)
        letters = "etaoinshrdlucmfwypvbgk"
        self._words = ["".join(random.choices(letters, k=random.randint(3, 9))) for _ in range(3_000)]
        hosts = max(20, count // 50)
        self._hosts = [self._host(n, random) for n in range(hosts)]
        self._shares = list(itertools.accumulate((n + 1) ** -0.9 for n in range(hosts)))

    def _host(self, number: int, random: Random) -> str:
        prefix = random.choice(["www.", "www.", "", "blog.", "shop."])
        top = random.choice(["com", "com", "com", "org", "net", "de", "co.uk", "jp"])
        return f"{random.choice(['http', 'https'])}://{prefix}{random.choice(self._words)}{number}.{top}"

    def key(self, number: int) -> str:
        """The key of a URL; the same for the same number, different for different ones."""
        some = number * _SPREAD & _MASK
        random = some ^ some >> 29
        # Most of what a page names is on one host.
        of_host = number // NAMED_BY_PAGE * _SPREAD & _MASK if random & 3 else some
        host = bisect_left(self._shares, (of_host >> 11) / (1 << 53) * self._shares[-1])
        words = self._words
        section = words[host * 31 % 2_900 + (random >> 3) % 12]
        kind = random >> 8 & 3
        name = f"{words[random >> 10 & 1023]}-{words[random >> 20 & 2047]}"
        if kind == 0:
            path = f"{section}/{name}-{number}.html"
        elif kind == 1:
            path = f"{section}/{2005 + (random >> 32) % 20}/{1 + (random >> 38) % 12:02}/{name}-{number}"
        elif kind == 2:
            path = f"{section}/item.php?id={number}"
        else:
            path = f"{section}/{words[random >> 32 & 255]}/{number}"
        return key(f"{self._hosts[host]}/{path}")


def in_batches(count: int, size: int) -> Iterator[range]:
    """Numbers from 0 on, some at a time."""
    return (range(at, min(at + size, count)) for at in range(0, count, size))


def size_of(place: Path) -> int:
    """All bytes below a directory."""
    return sum(path.stat().st_size for path in place.rglob("*") if path.is_file())


def measure_large(place: Path, count: int, rounds: int) -> Large:
    """Fill a store, ask it, and look at what it has become."""
    web = Web(count)
    with Store.open(place, SETTINGS, resume=False) as store:
        began = time.perf_counter()
        parents = [""]
        for numbers in in_batches(count, 2_000):
            found = [Found(web.key(n), 3, parents[n // NAMED_BY_PAGE % len(parents)]) for n in numbers]
            store.commit(Batch(found=found))
            parents = [each.key for each in found[::NAMED_BY_PAGE]]
        accepted_per_s = count / (time.perf_counter() - began)
        assert store.counts().queued == count
    bytes_per_url = size_of(place) / count
    with Store.open(place, SETTINGS, resume=True) as store:
        seen_per_s = rate(store.seen, web, count, rounds)
        handed_out_per_s = hand_out(store)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return Large(accepted_per_s, seen_per_s, bytes_per_url, peak, handed_out_per_s)


def rate(ask: Callable[[Sequence[str]], object], web: Web, count: int, rounds: int) -> float:
    """Questions a second, asked a batch at a time, every other one about a URL that is not known.

    The median of the batches: what else the machine does only adds.
    """
    random = Random(5)
    spent = []
    for _ in range(rounds):
        keys = [web.key(random.randrange(2 * count)) for _ in range(ASKED_AT_ONCE)]
        began = time.perf_counter()
        ask(keys)
        spent.append(time.perf_counter() - began)
    return ASKED_AT_ONCE / statistics.median(spent)


def hand_out(store: Store) -> float:
    """URLs a second that a full queue hands out, a window of each host at a time."""
    began = time.perf_counter()
    given = 0
    for host in itertools.islice(store.hosts(), 2_000):
        given += len(store.next_of(host.host, 64, now=0.0))
    return given / (time.perf_counter() - began)


def sqlite_rate(place: Path, count: int, rounds: int) -> float:
    """The same questions to SQLite, a table of keys in the order of keys."""
    web = Web(count)
    database = sqlite3.connect(place / "seen.sqlite")
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("CREATE TABLE seen (key TEXT PRIMARY KEY) WITHOUT ROWID")
    for numbers in in_batches(count, 20_000):
        with database:
            database.executemany("INSERT INTO seen VALUES (?)", sorted((web.key(n),) for n in numbers))
    marks = ",".join("?" * ASKED_AT_ONCE)

    def ask(keys: Sequence[str]) -> object:
        return database.execute(f"SELECT key FROM seen WHERE key IN ({marks})", keys).fetchall()  # noqa: S608

    found = rate(ask, web, count, rounds)
    database.close()
    return found


def cost(work: Callable[[], object], pages: int, rounds: int) -> float:
    """CPU microseconds per page, of all threads, the best of some rounds."""
    best = float("inf")
    for _ in range(rounds):
        began = time.process_time()
        work()
        best = min(best, time.process_time() - began)
    return best / pages * 1e6


class Pages:
    """What a crawl commits: pages that were handed out, and what they name."""

    def __init__(self, place: Path) -> None:
        """On a new store."""
        self._web = Web(100_000)
        self._number = 30_000
        self.store = Store.open(place, SETTINGS, resume=False)
        self.store.commit(Batch(found=[Found(self._web.key(n)) for n in range(self._number)]))
        self._hosts = itertools.cycle([each.host for each in self.store.hosts()])

    def take(self) -> list[Queued]:
        """The next pages, each of another host."""
        taken: list[Queued] = []
        while len(taken) < PAGES_AT_ONCE:
            taken += self.store.next_of(next(self._hosts), 1, now=0.0)
        return taken

    def batch(self) -> Batch:
        """The next batch, with nothing but rows and queue."""
        batch = Batch(counters={"pages": PAGES_AT_ONCE})
        for each in self.take():
            finished = Finished(
                key=each.key, state=State.DONE, status=200, at=0.0, attempts=1, digest=b"x" * 20
            )
            batch.finished.append(finished)
            for _ in range(NEW_PER_PAGE):
                batch.found.append(Found(self._web.key(self._number), each.depth + 1, each.key))
                self._number += 1
        return batch

    def with_rows(self) -> Batch:
        """The next batch, with a summary and links of each page."""
        batch = self.batch()
        for number, each in enumerate(batch.finished):
            page = f"http://example.org/{number}"
            summary = Summary(url=page, key=each.key, title="A title", excerpt="Some text " * 30)
            each.summary = pack_row(list(summary.to_row().values()))
            targets = [f"http://example.org/some/target/{number * 7 + n}.html" for n in range(LINKS_PER_PAGE)]
            texts = [f"anchor text {n}" for n in range(LINKS_PER_PAGE)]
            each.links = pack_columns([page, targets, texts, "", "a", "1700000000000000", ""])
        return batch


def commit_cost(place: Path, rounds: int) -> float:
    """CPU microseconds per page of a commit without pages and rows."""
    pages = Pages(place)
    batches = [pages.batch() for _ in range(rounds)]
    each = iter(batches)
    found = cost(lambda: pages.store.commit(next(each)), PAGES_AT_ONCE, rounds)
    pages.store.close()
    return found


def rows_cost(place: Path, rounds: int) -> float:
    """CPU microseconds per page that summaries and links add, segments and all."""
    pages = Pages(place)
    plain = iter([pages.batch() for _ in range(rounds)])
    full = iter([pages.with_rows() for _ in range(rounds)])
    without = cost(lambda: pages.store.commit(next(plain)), PAGES_AT_ONCE, rounds)
    began = time.process_time()
    for batch in full:
        pages.store.commit(batch)
        if pages.store.segments_due():
            pages.store.flush_segments()
    pages.store.flush_segments(everything=True)
    spent = (time.process_time() - began) / rounds / PAGES_AT_ONCE * 1e6
    pages.store.close()
    return spent - without


def sqlite_commit_cost(place: Path, rounds: int) -> float:
    """The same for SQLite: a row done and three rows if absent, which are seen-set and queue in one table."""
    web = Web(100_000)
    database = sqlite3.connect(place / "commits.sqlite")
    database.execute("PRAGMA journal_mode = WAL")
    database.execute(
        "CREATE TABLE urls (key TEXT PRIMARY KEY, host TEXT, state INT, meta BLOB) WITHOUT ROWID"
    )
    database.execute("CREATE INDEX queue ON urls (host, state)")
    add = "INSERT OR IGNORE INTO urls VALUES (?, ?, 0, ?)"
    known = [web.key(n) for n in range(30_000)]
    with database:
        database.executemany(add, [(each, host_of(each), b"") for each in known])
    many = range(30_000, 30_000 + rounds * PAGES_AT_ONCE * NEW_PER_PAGE)
    done, new = iter(known), iter([web.key(n) for n in many])

    def commit() -> None:
        ended = [(next(done),) for _ in range(PAGES_AT_ONCE)]
        keys = list(itertools.islice(new, PAGES_AT_ONCE * NEW_PER_PAGE))
        with database:
            database.executemany("UPDATE urls SET state = 2 WHERE key = ?", ended)
            database.executemany(add, [(each, host_of(each), b"meta") for each in keys])

    found = cost(commit, PAGES_AT_ONCE, rounds)
    database.close()
    return found


def sqlite_rows_cost(place: Path, batches: int) -> float:
    """CPU microseconds per page for SQLite to keep a page's links, a batch of pages at a time."""
    database = sqlite3.connect(place / "rows.sqlite")
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("CREATE TABLE links (source TEXT, target TEXT, text TEXT, rel TEXT, kind TEXT)")
    page = [
        ("http://example.org/", f"http://example.org/some/target/{n}.html", f"anchor text {n}", "", "a")
        for n in range(LINKS_PER_PAGE)
    ]

    def write() -> None:
        with database:
            database.executemany("INSERT INTO links VALUES (?, ?, ?, ?, ?)", page * PAGES_AT_ONCE)

    found = cost(write, PAGES_AT_ONCE, batches)
    database.close()
    return found


def html(random: Random) -> bytes:
    """A page of text and links."""
    words = ["".join(random.choices("etaoinshrdlu", k=random.randint(2, 9))) for _ in range(800)]
    text = ""
    while len(text) < PAGE_BYTES:
        text += f'<p>{" ".join(random.choices(words, k=12))} <a href="/{random.choice(words)}">more</a></p>\n'
    return text.encode()


def records_cost(pages: str, body: bytes, rounds: int) -> float:
    """CPU microseconds for the three records of a page."""
    builder = Builder(pages)
    head = b"HTTP/1.1 200 OK\r\nServer: x\r\nContent-Type: text/html\r\nContent-Length: 20000\r\n\r\n"
    request = b"GET /a/b/c.html HTTP/1.1\r\nHost: example.org\r\nUser-Agent: gcs\r\nAccept: */*\r\n\r\n"
    said = {"via": "http://example.org/", "hopsFromSeed": "3", "fetchTimeMs": "27"}
    page = Exchange("http://example.org/a/b/c.html", 1e9, request, head, body, "192.0.2.1", metadata=said)

    def build() -> None:
        for _ in range(50):
            builder.page(page)

    return cost(build, 50, rounds)


def warcio_cost(body: bytes, rounds: int) -> float:
    """The same for warcio's writer."""

    def build() -> None:
        writer = WARCWriter(io.BytesIO(), gzip=True)
        for _ in range(20):
            url = "http://example.org/a/b/c.html"
            head = StatusAndHeaders("200 OK", [("Content-Type", "text/html")], protocol="HTTP/1.1")
            asked = StatusAndHeaders(
                "GET /a/b/c.html HTTP/1.1", [("Host", "example.org")], is_http_request=True
            )
            response = writer.create_warc_record(url, "response", payload=io.BytesIO(body), http_headers=head)
            request = writer.create_warc_record(url, "request", http_headers=asked)
            writer.write_request_response_pair(request, response)
            said = io.BytesIO(b"via: http://example.org/\r\n")
            writer.write_record(writer.create_warc_record(url, "metadata", payload=said))

    return cost(build, 20, rounds)


def measure(count: int, *, quick: bool) -> Iterator[Row]:
    """All lines, one after the other."""
    rounds = 3 if quick else 100
    with tempfile.TemporaryDirectory(prefix="gcs-store-") as name:
        place = Path(name)
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            large = pool.apply(measure_large, (place / "large", count, rounds))
        small = min(count, MOST_IN_SQLITE)
        sqlite = sqlite_rate(place, small, rounds)
        yield Row(
            f"seen-tests, {count:,} URLs",
            f"{large.seen_per_s:,.0f}/s",
            f"SQLite with {small:,} of them, {sqlite:,.0f}/s",
            large.seen_per_s / sqlite,
            "100,000/s",
            large.seen_per_s >= 100_000,
        )
        yield Row(
            "disk, queue and seen-set",
            f"{large.bytes_per_url:.1f} bytes a URL",
            "",
            None,
            "at most 40",
            large.bytes_per_url <= 40,
        )
        megabytes = large.peak_bytes / 1e6
        yield Row("memory, whole process", f"{megabytes:,.0f} MB", "", None, "at most 400", megabytes <= 400)
        yield Row("accepting URLs", f"{large.accepted_per_s:,.0f}/s", "", None)
        yield Row("handing out from a full queue", f"{large.handed_out_per_s:,.0f}/s", "", None)
        yield from measure_pages(place, rounds)


def measure_pages(place: Path, rounds: int) -> Iterator[Row]:
    """What a page costs."""
    spent = commit_cost(place / "commits", rounds)
    by_sqlite = sqlite_commit_cost(place, rounds)
    yield Row(
        "commit, a page and 3 new URLs",
        f"{spent:.0f} µs",
        f"SQLite {by_sqlite:.0f} µs",
        by_sqlite / spent,
        "at most 40 µs",
        spent <= 40,
    )
    body = html(Random(3))
    by_warcio = warcio_cost(body, max(3, rounds // 10))
    for pages in ("warc.gz", "warc.zst"):
        spent = records_cost(pages, body, rounds)
        yield Row(
            f"records of a page of 20 KB, {pages}",
            f"{spent:.0f} µs",
            f"warcio {by_warcio:.0f} µs",
            by_warcio / spent,
            "at most 130 µs",
            spent <= 130,
        )
    spent = rows_cost(place / "rows", rounds)
    by_sqlite = sqlite_rows_cost(place, rounds)
    yield Row(
        "summary and 80 links, segments included",
        f"{spent:.0f} µs",
        f"links in SQLite {by_sqlite:.0f} µs",
        by_sqlite / spent,
        "at most 130 µs",
        spent <= 130,
    )


def main() -> None:
    """Measure, and print a table or JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--urls", type=int, default=10_000_000, help="how many URLs the store is given")
    parser.add_argument("--quick", action="store_true", help="only see that it runs")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    rows = list(measure(20_000 if options.quick else options.urls, quick=options.quick))
    if options.json:
        print(json.dumps([asdict(row) for row in rows], indent=2))
        return
    for row in rows:
        ratio = "" if row.ratio is None else f"{row.ratio:.1f} ×"
        goal = f"{row.goal} {'reached' if row.reached else 'NOT reached'}" if row.goal else ""
        print(f"{row.what:42} {row.ours:>18}  {ratio:>7}  {row.compared_with:42} {goal}")


if __name__ == "__main__":
    main()
