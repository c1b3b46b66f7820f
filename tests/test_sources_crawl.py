"""Crawls of directories, as users run them, and what keeps web pages away from files."""

from __future__ import annotations

import json
import os
import sqlite3
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from warcio.archiveiterator import ArchiveIterator

from gcs.config import Config, Revisit
from gcs.core.revisits.memory import Look, Memory
from gcs.core.revisits.standing import APPOINTED, Standing
from gcs.core.sources import NO_SCHEDULE, Reach, Schedule
from gcs.core.urls import Rejected, key
from gcs.gatherer.crawl import Ending, Limits
from gcs.gatherer.links import Targets
from gcs.gatherer.parts import Fleet
from gcs.gatherer.revisiting import GRADED, Revisiting
from gcs.sources import files
from gcs.store.records import Batch, State
from gcs.store.store import Store
from tests.crawling import configured, crawl, gcs, gcs_here
from tests.filetree import directories, plant
from tests.scripted import Peer
from tests.scripted import serve as serve_script

NOT_ALLOWED = 2


def summaries(place: Path) -> list[dict[str, object]]:
    """The rows of all summaries."""
    return [row for part in sorted(place.glob("summaries/part-*")) for row in pq.read_table(part).to_pylist()]


def records(place: Path) -> Iterator[tuple[str, str, bytes]]:
    """Type, URL and content of what was archived."""
    for part in sorted(place.glob("warc/*.warc.gz")):
        with part.open("rb") as stream:
            for record in ArchiveIterator(stream):
                kind, url = record.rec_type, record.rec_headers.get_header("WARC-Target-URI") or ""
                yield kind, url, record.content_stream().read()


def statuses(place: Path) -> dict[str, int]:
    """The status of every URL in the log; one that is there twice is an error."""
    lines = [line.split() for line in (place / "crawl.log").read_text().splitlines()]
    assert max(Counter(line[3] for line in lines).values()) == 1
    return {line[3]: int(line[1]) for line in lines}


def test_a_directory_and_all_below(tmp_path: Path) -> None:
    """Every file below a seed is read and summarised once, and archived as a resource."""
    root, place = tmp_path / "docs", tmp_path / "crawl"
    urls = plant(root, 300)
    (root / "page.html").write_text("<title>A page</title><p>and <a href='d1/e1/1.txt'>text</a>")
    (root / "endless").symlink_to(root)
    done = gcs("crawl", f"file://{root}", "--into", str(place))
    assert done.returncode == 0, done.stderr
    expected = dict.fromkeys([*urls, *directories(root), f"file://{root}/page.html"], 200)
    assert statuses(place) == expected | {f"file://{root}": 301, f"file://{root}/endless": 301}
    rows = {row["url"]: row for row in summaries(place)}
    assert len(rows) == len(expected)
    assert rows[f"file://{root}/page.html"]["title"] == "A page"
    assert {rows[url]["media_type"] for url in urls} == {"text/plain"}
    kept = [(url, body) for kind, url, body in records(place) if kind == "resource"]
    assert len(kept) == len(expected)
    assert dict(kept)[urls[7]] == (root / "d7/e0/7.txt").read_bytes()


def test_seeds_that_nobody_has_allowed(tmp_path: Path) -> None:
    """A directory that a list of seeds names is refused unless the configuration has it."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "seeds").write_text(f"file://{tmp_path}/docs\n")
    arguments = ("crawl", "--seeds", str(tmp_path / "seeds"), "--into", str(tmp_path / "crawl"))
    refused = gcs_here(*arguments)
    assert refused.exit_code == NOT_ALLOWED
    assert "[sources]" in refused.stderr
    assert not (tmp_path / "crawl").exists()
    assert gcs_here(*arguments, "-s", f"sources.files={tmp_path}").exit_code == 0


def test_goes_on(tmp_path: Path) -> None:
    """A crawl of files that was interrupted remembers which directory was allowed, and ends complete."""
    root, place = tmp_path / "docs", tmp_path / "crawl"
    urls = plant(root, 300)
    first = gcs("crawl", f"file://{root}", "--into", str(place), "--max-pages", "100")
    assert first.returncode == 5, first.stderr
    again = gcs("crawl", "--resume", "--into", str(place))
    assert again.returncode == 0, again.stderr
    found = statuses(place)
    assert [url for url in urls if found.get(url) != 200] == []


def test_no_source_is_left_behind(tmp_path: Path) -> None:
    """A crawl goes on only with all of its sources, also with those whose addresses are not kept."""
    place, database = tmp_path / "crawl", tmp_path / "shop.db"
    with sqlite3.connect(database) as connection:
        connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
    connection.close()
    address = ("-s", f"sources.databases=shop=sqlite:///{database}")
    first = gcs_here("crawl", "db://shop/", "--into", str(place), "--max-pages", "1", *address)
    assert first.exit_code == 5, first.stderr
    for how in ("--resume", "--revisit"):
        refused = gcs_here("crawl", how, "--into", str(place))
        assert refused.exit_code == 3
        assert "has the database shop" in refused.stderr
        assert "shop=address" in refused.stderr
    assert gcs_here("crawl", "--resume", "--into", str(place), *address).exit_code == 0
    assert statuses(place)["db://shop/main/orders/"] == 200


def test_no_source_of_several_gatherers_is_left_behind(tmp_path: Path) -> None:
    """The same is remembered of a crawl by several gatherers."""
    Fleet(gatherers=2, settings=[], private=True, own_server=True, sources=["db://shop/"]).remember(tmp_path)
    refused = gcs_here("crawl", "--resume", "--into", str(tmp_path))
    assert (refused.exit_code, "has the database shop" in refused.stderr) == (3, True)


def test_coming_back(tmp_path: Path) -> None:
    """Another visit finds what has changed, what is new and what is gone, and reads nothing else again."""
    root, place = tmp_path / "docs", tmp_path / "crawl"
    plant(root, 40)
    long_ago = (1_000_000_000, 1_000_000_000)
    for each in [root, *root.rglob("*")]:
        os.utime(each, long_ago)
    patched = pytest.MonkeyPatch()
    with patched.context() as patch:
        patch.setattr(files, "_SETTLED_S", 0.0)
        assert gcs_here("crawl", f"file://{root}", "--into", str(place)).exit_code == 0
        (root / "d1/e1/1.txt").write_text("Something else entirely, in other words than before.")
        (root / "flat/new.txt").write_text("new")
        (root / "d2/e2/2.txt").unlink()
        done = gcs_here("crawl", "--revisit", "--into", str(place))
    assert done.exit_code == 0, done.stderr
    notes = {line.split()[3]: line.split()[-1] for line in (place / "crawl.log").read_text().splitlines()}
    assert notes[f"file://{root}/d1/e1/1.txt"] == "revisit:changed"
    assert notes[f"file://{root}/d2/e2/2.txt"] == "revisit:missing"
    assert notes[f"file://{root}/flat/new.txt"] == "-"
    assert notes[f"file://{root}/d3/e3/3.txt"] == "revisit:unchanged"
    kept = Counter(url for kind, url, _ in records(place) if kind == "resource")
    assert kept[f"file://{root}/d1/e1/1.txt"] == 2
    assert kept[f"file://{root}/d3/e3/3.txt"] == 1


def test_why_and_check(tmp_path: Path) -> None:
    """`gcs why` and `gcs check url` speak of a file as of a page."""
    root, place = tmp_path / "docs", tmp_path / "crawl"
    root.mkdir()
    (root / "a.txt").write_text("x")
    assert gcs_here("crawl", f"file://{root}", "--into", str(place)).exit_code == 0
    why = json.loads(gcs_here("why", f"file://{root}/a.txt", "--into", str(place), "--json").stdout)
    assert (why["state"], why["status"]) == ("done", 200)
    checked = json.loads(gcs_here("check", "url", f"file://{root}/x/../a.txt", "--json").stdout)
    assert (checked["url"], checked["is_allowed"]) == (f"file://{root}/a.txt", False)
    assert checked["surt"] == f":file){root}/a.txt"
    assert gcs_here("check", "robots", f"file://{root}/a.txt").exit_code == NOT_ALLOWED


def test_scope_and_depth(tmp_path: Path) -> None:
    """Rules of the scope hold for files as they do for pages."""
    root, place = tmp_path / "docs", tmp_path / "crawl"
    for name in ("public", "private"):
        (root / name).mkdir(parents=True)
        (root / name / "a.txt").write_text("x")
    rule = f"-prefix:file://{root}/private"
    assert gcs_here("crawl", f"file://{root}", "--into", str(place), "--scope", rule).exit_code == 0
    assert {url for url in statuses(place) if "private" in url} == set()
    assert statuses(place)[f"file://{root}/public/a.txt"] == 200


async def test_a_schedule(tmp_path: Path) -> None:
    """What is below a source with a schedule is visited again by that; other pages by the policy."""
    root = tmp_path / "docs"
    (root / "often").mkdir(parents=True)
    (root / "often" / "a.txt").write_text("x")
    (root / "b.txt").write_text("x")
    config = configured(
        _no_hosts(tmp_path),
        sources={"files": (str(root),), "every": (f"{root}/often=1h",)},
        revisit={"policy": "uniform", "least_s": 60.0},
    )
    ending = await crawl(config, [f"file://{root}/"], tmp_path / "crawl", limits=Limits(pages=4))
    assert ending is Ending.PAGES
    with Store.open(tmp_path / "crawl", config.store, resume=True) as store:
        known = store.all_remembered([key(f"file://{root}/{path}") for path in ("often/a.txt", "b.txt")])
    often, usual = (Memory.from_bytes(each.memory) for each in known if each is not None)
    assert often.standing is not None
    assert often.standing.grade == APPOINTED
    assert 3590 < often.standing.since - often.visited_at < 3610
    assert usual.standing is not None
    assert usual.standing.grade != APPOINTED


def test_a_schedule_that_comes_late(tmp_path: Path) -> None:
    """A schedule holds also for pages that were fetched before it, but for a round, which comes to all."""
    schedule = Schedule({"file:///srv/often": 3600.0})
    names = [key(f"file:///srv/{name}") for name in ("often/a", "often/b", "c")]

    def coming_back(schedule: Schedule, *, once: bool = False) -> Revisiting:
        settings = Revisit(policy="uniform", once=once)
        return Revisiting(settings, store, superpage=lambda _: "", clock=lambda: 1e9, schedule=schedule)

    with Store.open(tmp_path, Config().store, resume=False) as store:
        before = [(each, coming_back(NO_SCHEDULE).adopted(each, Look(1e9), 0, 0.0)) for each in names]
        store.commit(Batch(remembered=before, meta={GRADED: b"uniform"}))
        assert coming_back(NO_SCHEDULE).is_graded
        now = coming_back(schedule)
        assert not now.is_graded
        assert {each.key: each.after.standing for each in now.regraded(before)} == {
            each: Standing(APPOINTED, 1e9 + 3600) for each in names[:2]
        }
        adopted = [now.adopted(each, Look(1e9), 0, 0.0).standing for each in names]
        assert adopted == [*[Standing(APPOINTED, 1e9 + 3600)] * 2, Standing(0, 1e9)]
        assert coming_back(schedule, once=True).is_graded
        assert coming_back(schedule, once=True).adopted(names[0], Look(1e9), 0, 0.0) == before[0][1]


def test_a_schedule_needs_a_policy(tmp_path: Path) -> None:
    """A schedule without a policy for the rest is refused, with what to do."""
    found = gcs_here("crawl", f"file://{tmp_path}", "-s", f"sources.every={tmp_path}=1h", "--into", "/none")
    assert found.exit_code == 3
    assert "revisit.policy" in found.stderr


class TestWebPages:
    """Web pages must not lead to files, whatever they say."""

    REACH = Reach(["file:///srv/docs"], to_web=True)

    @pytest.mark.parametrize(
        "href",
        ["file:///srv/docs/a", "FILE:/srv/docs/a", "file:a", " file:///srv/docs/a", "fi\nle:///srv/docs/a"],
    )
    def test_links(self, href: str) -> None:
        """A link of a web page to a file means nothing, also if the crawl may read that file."""
        assert Targets(reach=self.REACH).resolve("http://a.example/", [href]) == [None]

    @pytest.mark.parametrize("base", ["file:///srv/docs/", "file:", "FILE:///srv/docs/x"])
    def test_bases(self, base: str) -> None:
        """A web page cannot say that its links are relative to a file."""
        found = Targets(reach=self.REACH).resolve("http://a.example/", ["a", "/srv/docs/a", "./b"], base)
        assert all(target is not None and target.url.startswith("http://a.example/") for target in found)

    async def test_redirects(self, tmp_path: Path) -> None:
        """A page that redirects to a file is dropped, and the file is not read."""
        (tmp_path / "secret").write_text("secret")

        async def handler(peer: Peer) -> None:
            while await peer.request():
                location = f"Location: file://{tmp_path}/secret\r\nContent-Length: 0\r\n\r\n"
                await peer.send(f"HTTP/1.1 302 Found\r\n{location}".encode())

        async with serve_script(handler) as server:
            config = configured(
                _no_hosts(tmp_path), fetch={"robots": "ignore"}, sources={"files": (str(tmp_path),)}
            )
            seed = f"http://127.0.0.1:{server.port}/"
            await crawl(config, [seed], tmp_path / "crawl")
        with Store.open(tmp_path / "crawl", config.store, resume=True) as store:
            row = store.get(key(seed))
            assert row is not None
            assert row.state is State.DROPPED
            assert store.counts().accepted == 1


class TestLinksOfFiles:
    """How far links lead that stand in files."""

    PAGE = "file:///srv/docs/a/index.html"

    def test_below_the_roots(self) -> None:
        """Links lead to files below the roots and nowhere else; to the web only if that is wanted."""
        hrefs = [
            "b.html",
            "../c",
            "../../other",
            "/etc/passwd",
            "//host/x",
            "http://a.example/",
            "nntp://h/g",
        ]
        found = Targets(reach=Reach(["file:///srv/docs"])).resolve(self.PAGE, hrefs)
        urls = [target and target.url for target in found]
        assert urls == ["file:///srv/docs/a/b.html", "file:///srv/docs/c", None, None, None, None, None]
        found = Targets(reach=Reach(["file:///srv/docs"], to_web=True)).resolve(self.PAGE, hrefs)
        assert [target and target.url for target in found][5] == "http://a.example/"

    @pytest.mark.parametrize("base", ["http://a.example/", "db://shop/", "file:///etc/"])
    def test_bases(self, base: str) -> None:
        """A file that says to be elsewhere leads no further for it."""
        targets = Targets(reach=Reach(["file:///srv/docs", "db://shop"]))
        assert targets.resolve(self.PAGE, ["./x", "/y", "z?1", "http://b.example/"], base) == [None] * 4
        (found,) = targets.resolve(self.PAGE, ["./x"], "../b/")
        assert found is not None
        assert found.url == "file:///srv/docs/b/x"

    def test_seeds(self) -> None:
        """A seed that is no part of a source of the crawl is refused."""
        targets = Targets(reach=Reach(["file:///srv/docs"]))
        assert targets.seed("file:///srv/docs/../docs/b").url == "file:///srv/docs/b"
        for refused in ("file:///srv", "file:///etc/passwd", "file:///srv/docs-old", "db://shop/"):
            with pytest.raises(Rejected, match="sources"):
                targets.seed(refused)


async def test_nobody_is_asked_without_a_name(tmp_path: Path) -> None:
    """A crawl of files that nobody has given a name asks no web server, though links lead there."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.html").write_text("<a href=http://127.0.0.1:9/>web</a>")
    config = configured(
        _no_hosts(tmp_path),
        fetch={"allow": (), "robots": "ignore"},
        sources={"files": (str(tmp_path / "docs"),), "follow": True},
    )
    await crawl(config, [f"file://{tmp_path}/docs/"], tmp_path / "crawl")
    with Store.open(tmp_path / "crawl", config.store, resume=True) as store:
        row = store.get(key("http://127.0.0.1:9/"))
    assert row is not None
    assert (row.state, row.reason) == (State.DROPPED, "request")


def _no_hosts(place: Path) -> Path:
    hosts = place / "hosts"
    hosts.touch()
    return hosts
