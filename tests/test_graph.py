"""The graph: nodes, edges and degrees of what was kept, against the same counted by hand."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gcs.config import Store as StoreSettings
from gcs.core.urls import key
from gcs.graph import figures, places
from gcs.graph.tables import edges, nodes, visits
from gcs.store.columns import pack_columns, pack_row
from gcs.store.records import Batch, Finished, State
from gcs.store.store import Store
from gcs.summary.records import Summary
from tests.crawling import gcs_here
from tests.graphs import Visit, keep, loaded

URLS = [f"http://{host}/{n}" for host in ("a.de", "www.b.co.uk", "b.co.uk", "10.0.0.1") for n in range(3)]
VISITS = st.lists(
    st.builds(
        Visit,
        st.sampled_from(URLS[:6]),
        st.just(0),
        st.lists(st.sampled_from(URLS), max_size=6),
        st.sampled_from([0.0, 0.25, 1.0]),
        st.booleans(),
    ),
    min_size=1,
    max_size=12,
)


def in_order(made: list[Visit]) -> list[Visit]:
    """The same visits, one after the other; a page's first is never one that found nothing new."""
    seen: set[str] = set()
    ordered = []
    for number, each in enumerate(made):
        unchanged = each.unchanged and each.url in seen
        ordered.append(Visit(each.url, 1_000_000 * (number + 1), each.links, each.change, unchanged))
        seen.add(each.url)
    return ordered


def by_hand(made: list[Visit]) -> dict[str, tuple[int, int, int | None, float | None]]:
    """By URL: in-degree, out-degree, the last visit, and what changed."""
    links: dict[str, set[str]] = {}
    last: dict[str, Visit] = {}
    for each in made:
        last[each.url] = each
        if not each.unchanged:
            links[each.url] = set(each.links)
    named = Counter(target for targets in links.values() for target in targets)
    return {
        url: (
            named[url],
            len(links.get(url, ())),
            last[url].at_us if url in last else None,
            last[url].change if url in last else None,
        )
        for url in {*named, *last}
    }


@settings(max_examples=20, deadline=None)
@given(VISITS, st.integers(0, 12))
def test_the_graph_is_what_the_latest_visits_found(made: list[Visit], at: int) -> None:
    """Every URL is a node once, with the degrees that the links in force give it, at any time asked for."""
    ordered = in_order(made)
    until_us = at * 1_000_000
    with TemporaryDirectory() as place:
        half = len(ordered) // 2
        stores = [keep(Path(place) / "1", ordered[:half]), keep(Path(place) / "2", ordered[half:])]
        with loaded(Path(place), *stores) as engine:
            for until, some in ((None, ordered), (until_us, [v for v in ordered if v.at_us <= until_us])):
                graph = nodes(until).select("url", "in_degree", "out_degree", "visited_us", "change")
                found = engine.rows(graph)
                assert len(found) == len({url for url, *_ in found})
                assert {url: tuple(rest) for url, *rest in found} == by_hand(some)
                pairs = engine.rows(edges(visits(until)))
                assert len(pairs) == len(set(pairs)) == sum(row[0] for row in by_hand(some).values())


PAGES = [
    Visit("http://www.a.de/", 1, ["http://a.de/x", "http://b.co.uk/", "http://b.co.uk/", "http://c.com/"]),
    Visit("http://a.de/x", 86_400_000_000, ["http://www.a.de/"], epoch=3),
    Visit("http://b.co.uk/", 86_400_000_001, []),
    Visit("http://b.co.uk/", 86_400_000_002, [], 0.0, True),
]


def test_links_between_domains_and_countries(tmp_path: Path) -> None:
    """A domain is a registered one, a country that of the last label; what is of none is counted as such."""
    with loaded(tmp_path, keep(tmp_path / "1", PAGES)) as engine:
        known = places.places(engine, nodes().select("url"))
        links = edges(visits())
        domains = places.between(links, known, "domain")
        assert sorted(engine.rows(domains)) == [
            ("a.de", "a.de", 2),
            ("a.de", "b.co.uk", 1),
            ("a.de", "c.com", 1),
        ]
        countries = engine.keep("countries", places.between(links, known, "country"))
        assert figures.largest(engine, countries, 5) == [("DE", "-", 1), ("DE", "GB", 1)]
        assert figures.inside(engine, countries) == (2, 4)


def test_sizes(tmp_path: Path) -> None:
    """Means are of pages that were visited; a link that a page repeats counts once."""
    with loaded(tmp_path, keep(tmp_path / "1", PAGES)) as engine:
        every = engine.keep("nodes", nodes())
        size = figures.size(engine, every)
        assert (size.nodes, size.visited, size.edges, size.without_links) == (4, 3, 4, 1)
        assert (size.mean_out, size.median_out, size.largest_out) == (4 / 3, 1.0, 3)
        assert (size.mean_in, size.largest_in) == (1.0, 1)
        assert figures.distribution(engine, every, "out") == [(0, 1), (1, 1), (3, 1)]
        assert figures.distribution(engine, every, "in") == [(1, 4)]


@pytest.mark.parametrize(
    ("counts", "middle"), [([], 0.0), ([(3, 1)], 3.0), ([(1, 2), (4, 2)], 2.5), ([(1, 2), (4, 3)], 4.0)]
)
def test_medians(counts: list[tuple[int, int]], middle: float) -> None:
    """The middle one of all, or the mean of the two in the middle."""
    assert figures.median(counts) == middle


class TestCommands:
    """`gcs graph`, on a small crawl."""

    def test_stats(self, tmp_path: Path) -> None:
        """It says how large the graph is beside the paper's, and how it grew by day and by epoch."""
        place = str(keep(tmp_path / "crawl", PAGES))
        said = json.loads(gcs_here("graph", "stats", "--into", place, "--json").stdout)
        tables = {each["title"]: each["rows"] for each in said["tables"]}
        assert tables["Sizes"][1] == ["pages that were visited", 3, 420_989]
        assert tables["Visits by day"] == [["1970-01-01", 1, 1], ["1970-01-02", 3, 2]]
        assert tables["Links from domain to domain"][0] == ["a.de", "b.co.uk", 1]
        by_epoch = gcs_here("graph", "stats", "--into", place, "--by", "epoch", "--json").stdout
        assert json.loads(by_epoch)["tables"][-1]["rows"] == [[0, 3, 2], [3, 1, 1]]
        before = gcs_here("graph", "stats", "--into", place, "--until", "1970-01-01T12:00", "--json").stdout
        assert json.loads(before)["tables"][0]["rows"][1][1] == 1
        assert (
            "50.0% of 4 links stay within one domain." in gcs_here("graph", "stats", "--into", place).stdout
        )

    def test_what_cannot_be_read(self, tmp_path: Path) -> None:
        """Where all but the files of a store cannot be read they are counted, and that is said."""
        place = keep(tmp_path / "crawl", PAGES)
        arguments = ("graph", "stats", "--into", str(place), "--json")
        copied = gcs_here(*arguments)
        assert copied.stderr == ""
        (place / "db").mkdir(exist_ok=True)
        (place / "db" / "CURRENT").write_text("MANIFEST-000001\n")
        damaged = gcs_here(*arguments)
        assert (damaged.exit_code, damaged.stdout) == (0, copied.stdout)
        said = json.loads(damaged.stderr)
        assert (said["level"], said["store"]) == ("warning", str(place))
        assert "cannot be read" in said["event"]

    def test_degree(self, tmp_path: Path) -> None:
        """The distribution is printed, and drawn."""
        place, plot = str(keep(tmp_path / "crawl", PAGES)), tmp_path / "out.svg"
        said = json.loads(gcs_here("graph", "degree", "--into", place, "--plot", str(plot), "--json").stdout)
        assert said["figures"][0]["series"][0]["x"] == [0, 1, 3]
        assert said["findings"] == ["1 page with an out-degree of 0 is not in the figure."]
        assert b"<svg" in plot.read_bytes()
        assert "not 'out.txt'" in gcs_here("graph", "degree", "--into", place, "--plot", "out.txt").stderr

    def test_export(self, tmp_path: Path) -> None:
        """Edges as lines and as Parquet, with the nodes; nothing is overwritten."""
        place = str(keep(tmp_path / "crawl", PAGES))
        lines = gcs_here("graph", "export", "edges", "--into", place).stdout.splitlines()
        assert min(lines) == "http://a.de/x\thttp://www.a.de/"
        assert len(lines) == 4
        countries = gcs_here("graph", "export", "countries", "--into", place).stdout.splitlines()
        assert sorted(countries) == ["DE\t-\t1", "DE\tDE\t2", "DE\tGB\t1"]
        written = gcs_here("graph", "export", "parquet", "--into", place, "-o", str(tmp_path / "graph"))
        assert written.stderr == "4 nodes, 4 edges.\n"
        assert pq.read_table(tmp_path / "graph" / "nodes").num_rows == 4
        again = gcs_here("graph", "export", "parquet", "--into", place, "-o", str(tmp_path / "graph"))
        assert (again.exit_code, "is there already" in again.stderr) == (2, True)

    def test_what_is_in_no_file(self, tmp_path: Path) -> None:
        """What a gatherer that runs has kept is in the graph, once, be it in a file by now or not."""
        with Store.open(tmp_path, StoreSettings(keep_free_bytes=0), resume=False) as store:
            for number in range(6):
                url, at_us = f"http://a.de/{number}", 1_000_000 * (number + 1)
                row = Summary(url=url, key=key(url), fetched_at=at_us / 1e6, status=200).to_row()
                links = [f"http://a.de/{number + 1}", "http://b.de/"]
                done = Finished(key=key(url), state=State.DONE, status=200, at=1.0, attempts=1)
                done.summary = pack_row(list(row.values()))
                done.links = pack_columns([url, links, "", "", "a", str(at_us), ""])
                store.commit(Batch(finished=[done]))
                if number == 2:
                    store.flush_segments(everything=True)
                said = gcs_here("graph", "export", "edges", "--into", str(tmp_path))
                assert len(said.stdout.splitlines()) == 2 * (number + 1)
                assert len(set(said.stdout.splitlines())) == 2 * (number + 1)

    def test_what_cannot_be(self, tmp_path: Path) -> None:
        """No crawl, a crawl without links, and a time that is none are each told in one sentence."""
        nothing = gcs_here("graph", "stats", "--into", str(tmp_path))
        assert (nothing.exit_code, "holds no crawl" in nothing.stderr) == (2, True)
        keep(tmp_path, [])
        for file in tmp_path.glob("*/*.parquet"):
            file.unlink()
        empty = gcs_here("graph", "degree", "--into", str(tmp_path))
        assert (empty.exit_code, "no links have been kept there yet" in empty.stderr) == (2, True)
        assert gcs_here("graph", "stats", "--until", "soon").exit_code == 2
        assert gcs_here("graph", "export", "parquet").exit_code == 2
