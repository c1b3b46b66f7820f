"""Rankings: the paper's priorities, PageRank, and their way to stores."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gcs import config
from gcs.core import ranking
from gcs.core.ranking import Priority
from gcs.core.urls import key
from gcs.errors import UsageError
from gcs.graph import engine as engines
from gcs.graph import filed
from gcs.graph.tables import nodes
from gcs.rank import deliver, taking
from gcs.rank.pagerank import pagerank
from gcs.rank.priorities import priorities
from gcs.rank.ranked import rank
from gcs.store.records import Batch, Found
from gcs.store.store import Store
from tests.crawling import gcs_here
from tests.graphs import Visit, keep, loaded

DAY_US = 86_400_000_000
A, B, C, D = (f"http://a.de/{name}" for name in "abcd")
PAGES = [
    Visit(A, 1 * DAY_US, [B, C, C, D]),
    Visit(B, 2 * DAY_US, [C]),
    Visit(A, 11 * DAY_US, [B, C, C, D], 0.5),
    Visit(B, 21 * DAY_US, [C], 0.0, True),
]
NOW_US = 31 * DAY_US


def test_the_papers_priorities(tmp_path: Path) -> None:
    """P_new = I of what was never visited, P_old = C·T·(I + O) of what was, to the last bit."""
    with loaded(tmp_path, keep(tmp_path / "1", PAGES)) as engine:
        table = priorities(nodes(), NOW_US)
        found = {row[0]: row[1:] for row in engine.rows(table.select("url", "p_new", "p_old"))}
    of_a = ranking.p_old(0.5, ranking.age(20 * 86_400), 0, 3)
    assert found == {A: (None, of_a), B: (None, 0.0), C: (2.0, None), D: (1.0, None)}


def test_a_visit_in_the_future(tmp_path: Path) -> None:
    """A page that a faster clock has visited is 0 old, not less."""
    with loaded(tmp_path, keep(tmp_path / "1", [Visit(A, NOW_US + 5, [B])])) as engine:
        table = priorities(nodes(), NOW_US)
        assert sorted(engine.rows(table.select("url", "p_old"))) == [(A, 0.0), (B, None)]


def power_iteration(count: int, links: Sequence[tuple[int, int]], rounds: int) -> list[float]:
    """PageRank in floating point, for comparison; what nodes without links have is spread evenly."""
    matrix = np.zeros((count, count))
    for source, target in links:
        matrix[target, source] = 1
    degrees = matrix.sum(axis=0)
    matrix = np.divide(matrix, degrees, out=np.zeros_like(matrix), where=degrees > 0)
    ranks = np.ones(count)
    for _ in range(rounds):
        passed = 0.85 * matrix @ ranks
        ranks = passed + (count - passed.sum()) / count
    return [float(each) for each in ranks]


@pytest.mark.parametrize("seed", [1, 2])
def test_pagerank(tmp_path: Path, seed: int) -> None:
    """It is what power iteration gives, to a millionth, and 1 on average."""
    random = np.random.default_rng(seed)
    count = 30
    links = sorted({(int(a), int(b)) for a, b in random.integers(0, count, (80, 2)) if a < 20})
    with engines.opened(config.Rank(memory_bytes=512 << 20), tmp_path) as engine:
        pq.write_table(pa.table({"name": [f"n{n}" for n in range(count)]}), tmp_path / "names.parquet")
        ends = zip(*((f"n{a}", f"n{b}") for a, b in links), strict=True)
        edges = dict(zip(("source", "target"), map(list, ends), strict=True))
        pq.write_table(pa.table(edges), tmp_path / "links.parquet")
        ranked = pagerank(
            engine,
            engine.read("names", [tmp_path / "names.parquet"], {"name": "string"}),
            engine.read("links", [tmp_path / "links.parquet"], {"source": "string", "target": "string"}),
            rounds=15,
        )
        found = {str(name): value for name, value in engine.rows(ranked)}
    expected = power_iteration(count, links, 15)
    assert found == pytest.approx({f"n{n}": value for n, value in enumerate(expected)}, rel=1e-6)


def test_ranks_beside_priorities(tmp_path: Path) -> None:
    """With pagerank and domain every URL has a rank too, which is what owners of new ones are told."""
    pages = [*PAGES, Visit(C, DAY_US, ["http://www.b.com/", "http://b.com/x"])]
    with loaded(tmp_path, keep(tmp_path / "1", pages)) as engine:
        by_page = rank(engine, by="pagerank", now_us=NOW_US, directory=tmp_path / "ranking")
        assert by_page.sizes(engine) == (3, 3, 6)
        ranks = dict(engine.rows(by_page.table.select("url", "rank")))
        assert sum(ranks.values()) == pytest.approx(len(ranks))
        best, *_ = by_page.best(engine, "new", 3)
        assert best == min(
            ((url, ranks[url]) for url in ranks.keys() - {A, B, C}), key=lambda each: (-each[1], each)
        )
        told = {row.key: row for row in deliver.read(by_page.delivery(engine))}
        assert told[key(D)] == Priority(key(D), ranks[D], 1.0)
    with loaded(tmp_path, tmp_path / "1") as engine:
        by_domain = rank(engine, by="domain", now_us=NOW_US, directory=tmp_path / "ranking")
        ranks = dict(engine.rows(by_domain.table.select("url", "rank")))
    assert ranks["http://www.b.com/"] == ranks["http://b.com/x"] > ranks[A] == ranks[B]


class TestDelivery:
    """Rows become batches, and batches commits."""

    def test_batches_are_bounded(self) -> None:
        """By number, and by the bytes of their keys."""
        short = [Priority("k", 1.0, 1.0)] * 4_500
        assert [len(each) for each in deliver.batches(iter(short))] == [2_000, 2_000, 500]
        long = [Priority("k" * 100_000, 1.0, 1.0)] * 7
        assert [len(each) for each in deliver.batches(iter(long))] == [3, 3, 1]

    def test_an_order_says_all(self) -> None:
        """What is heard is what was said."""
        rows = [Priority("a", 1.5, 2.0), Priority("b", 0.0, 7.0)]
        assert taking.heard(taking.said(rows, 5, 1)) == (rows, 5)

    def test_never_back(self) -> None:
        """Rows of an older ranking than the one that is known are not taken; those of the same one are."""
        rows = [Priority("a", 1.0, 1.0)]
        assert taking.batch_of(rows, 5, b"6") is None
        for known in (None, b"4", b"5"):
            batch = taking.batch_of(rows, 5, known)
            assert batch is not None
            assert (batch.priorities, batch.meta) == (rows, {taking.RANKING: b"5"})


def stored(place: Path, urls: Sequence[str]) -> Path:
    """A store that knows some URLs, and has what was kept of `PAGES`."""
    with Store.open(place, config.Store(keep_free_bytes=0), resume=False) as store:
        store.commit(Batch(found=[Found(key(url)) for url in urls]))
    return keep(place, PAGES)


class TestCommand:
    """`gcs rank`, where no gatherer runs."""

    def test_into_the_store(self, tmp_path: Path) -> None:
        """The table is kept, the best are shown, and the store has the priorities of what it knows."""
        place = stored(tmp_path / "crawl", [A, B, C])
        result = gcs_here("rank", "--into", str(place), "--json")
        assert result.exit_code == 0, result.output
        said = json.loads(result.stdout)
        assert (said["new"], said["old"], said["edges"]) == (2, 2, 4)
        assert (said["delivered"], said["known"]) == (4, 3)
        assert said["best"]["new"][0] == {"url": C, "priority": 2.0}
        assert said["best"]["old"][0]["url"] == A
        assert pq.read_table(place / "ranking").num_rows == 4
        with Store.open(place, config.Store(keep_free_bytes=0), resume=True) as store:
            expected = [Priority(key(A), 0.0, 3.0), Priority(key(C), 2.0, 2.0), None]
            assert store.priorities([key(A), key(C), key(D)]) == expected
            locked = gcs_here("rank", "--into", str(place))
        assert (locked.exit_code, "in use by another process" in locked.stderr) == (7, True)

    def test_a_table_only(self, tmp_path: Path) -> None:
        """With --no-deliver nothing is told to the store, which may be open; an old table is replaced."""
        place, table = stored(tmp_path / "crawl", [A]), tmp_path / "table"
        for by in ("pagerank", "in-degree"):
            shown = gcs_here("rank", "--into", str(place), "--no-deliver", "-o", str(table), "--by", by)
            assert shown.stdout.startswith(
                "2 URLs never visited and 2 pages visited before, ranked by 4 edges"
            )
        assert pq.read_table(table).column_names[-1] == "p_old"
        assert not list(place.glob(".ranking-*"))
        with Store.open(place, config.Store(keep_free_bytes=0), resume=True) as store:
            assert store.priorities([key(A)]) == [None]

    def test_nothing_else_is_replaced(self, tmp_path: Path) -> None:
        """A directory with something else in it than a ranking is not replaced by one."""
        place, mine = stored(tmp_path / "crawl", [A]), tmp_path / "mine"
        mine.mkdir()
        (mine / "letter").write_text("dear")
        refused = gcs_here("rank", "--into", str(place), "--no-deliver", "-o", str(mine))
        assert (refused.exit_code, "something else" in refused.stderr) == (2, True)
        assert (mine / "letter").read_text() == "dear"

    def test_a_newer_ranking_stays(self, tmp_path: Path) -> None:
        """A store refuses what is older than what it has."""
        place = stored(tmp_path / "crawl", [A])
        settings = replace(config.Config(), store=config.Store(keep_free_bytes=0))
        with loaded(tmp_path, place) as engine:
            ranked = rank(engine, by="in-degree", now_us=NOW_US, directory=tmp_path / "ranking")
            files = ranked.delivery(engine)
            assert deliver.into_stores([place], settings, files, NOW_US) == deliver.Delivered(4, 1)
            with pytest.raises(UsageError, match="newer ranking"):
                deliver.into_stores([place], settings, files, NOW_US - 1)


def test_less_memory_than_data(tmp_path: Path) -> None:
    """A ranking of more than fits into the memory that it may have ends all the same."""
    urls = [f"http://www.site-{n % 50}.example/section/with/a/path/page-{n}.html" for n in range(400_000)]
    pages = [Visit(urls[n], n + 1, urls[n * 400 : n * 400 + 400]) for n in range(1_000)]
    place = keep(tmp_path / "1", pages)
    with engines.opened(config.Rank(memory_bytes=64 << 20), tmp_path) as engine:
        filed.load(engine, [place])
        ranked = rank(engine, by="in-degree", now_us=1, directory=tmp_path / "ranking")
        assert ranked.sizes(engine) == (399_000, 1_000, 400_000)
