"""`gcs plan`: needs from what was measured, beside the paper's."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from gcs import config, wholeweb
from gcs.core.estimate import Measured, Need, needs
from gcs.errors import UsageError
from tests import servers
from tests.crawling import gcs_here
from tests.graphs import Visit, keep

SIX_MONTHS_S = 15_552_000
MEASURED = Measured(
    pages=1_000_000,
    gatherers=2,
    pages_per_s=100.0,
    fetched_bytes=20_000.0,
    stored_bytes=5_000.0,
    links=200.0,
    pages_per_host=50.0,
    edges=200_000_000,
    edges_per_s=2_000_000.0,
)


def named(measured: Measured, *, alpha: float = 1.0) -> dict[str, Need]:
    """The needs of the paper's web, by name."""
    return {each.name: each for each in needs(measured, 4e9, SIX_MONTHS_S, alpha=alpha)}


class TestNeeds:
    """For 4·10⁹ pages in six months."""

    def test_the_papers_own(self) -> None:
        """257 pages/s, 5,144 participants, 1,200 GB, 5.15 MB/s, 400,000 s of ranking: 2.6% of the time."""
        found = named(MEASURED)
        assert found["pages a second, all together"].paper == pytest.approx(257.2, abs=0.1)
        assert found["helpers, if they fetched everything"].paper == pytest.approx(5_144, abs=1)
        assert found["storage"].paper == 1_200
        assert found["results of volunteers"].paper == pytest.approx(5.15, abs=0.01)
        assert found["ranking everything once"].paper == 400_000
        assert found["ranking, of the whole time"].paper == pytest.approx(2.57, abs=0.01)

    def test_as_measured(self) -> None:
        """Each need follows from one measured number, and says which."""
        found = named(MEASURED, alpha=0.9)
        rate = 4e9 / 0.9 / SIX_MONTHS_S
        assert found["gatherers"].here == math.ceil(rate / 100)
        assert found["bandwidth from the web"].here == pytest.approx(rate * 20_000 / 1e6)
        assert found["storage"].here == 20_000
        assert found["ranking everything once"].here == 400_000
        assert found["longest list of pending URLs"].here == found["longest list of pending URLs"].paper
        assert "too few" not in found["ranking everything once"].note
        assert "too few" in named(replace(MEASURED, edges=1_000))["ranking everything once"].note

    def test_what_was_not_measured(self) -> None:
        """It is left open, and the note says why; once it was measured, it counts."""
        found = named(MEASURED)
        assert (found["memory of Redis"].here, found["helpers, if they fetched everything"].here) == (
            None,
            None,
        )
        more = named(replace(MEASURED, redis_bytes_per_host=500.0, helper_pages_per_s=2.0))
        assert more["memory of Redis"].here == 4e9 / 50 * 500 / 1e9
        assert more["helpers, if they fetched everything"].here == 129


LINE = "2026-01-01T00:00:0{second}.5Z {status} {size} http://a.de/{n} L1 - text/html #1 2026+1 - c {note}\n"
PAGES = [Visit(f"http://h{n % 2}.de/{n}", n + 1, [f"http://h0.de/{n + 1}"]) for n in range(8)]


def crawled(place: Path) -> Path:
    """A crawl of eight pages in two seconds, two of them by helpers, and one page that was not there."""
    lines = [
        LINE.format(second=n // 4, status=200, size=1_000, n=n, note="helper:x" if n > 5 else "-")
        for n in range(8)
    ]
    lines += [LINE.format(second=1, status=404, size=500, n=9, note="-"), "torn\n"]
    keep(place, PAGES)
    (place / "crawl.log").write_text("".join(lines))
    return place


def test_what_a_log_says(tmp_path: Path) -> None:
    """Pages, bytes of all answers, the seconds in which something was fetched, and what helpers did."""
    found = wholeweb.logged(crawled(tmp_path) / "crawl.log")
    assert (found.pages, found.bytes, len(found.seconds)) == (8, 8_500, 2)
    assert (dict(found.helped), len(found.helped_seconds)) == ({"x": 2}, 1)
    assert wholeweb.logged(tmp_path / "none").pages == 0


def test_measured(tmp_path: Path) -> None:
    """From a log, the disk, the graph and a real Redis."""
    place = crawled(tmp_path / "crawl")
    with servers.redis_server("redis") as redis:
        settings = replace(config.Config(), redis=config.Redis(url=redis.url))
        found = wholeweb.measured(settings, [place], tmp_path)
    assert (found.pages, found.pages_per_s, found.helper_pages_per_s) == (8, 3.0, 2.0)
    assert (found.fetched_bytes, found.links, found.pages_per_host) == (8_500 / 8, 1.0, 4.0)
    assert found.stored_bytes > 100
    assert found.redis_bytes_per_host is not None
    assert found.redis_bytes_per_host > 100_000


def test_the_command(tmp_path: Path) -> None:
    """It prints what it takes, and refuses a crawl that has fetched nothing."""
    place = crawled(tmp_path / "crawl")
    said = gcs_here("plan", "--pages", "4e9", "--months", "6", "--into", str(place), "--json")
    assert said.exit_code == 0, said.output
    rows = {row[0]: row for row in json.loads(said.stdout)["tables"][0]["rows"]}
    assert rows["gatherers"][2] == math.ceil(4e9 / 0.9 / SIX_MONTHS_S / 3)
    (place / "crawl.log").unlink()
    nothing = gcs_here("plan", "--into", str(place))
    assert (nothing.exit_code, "nothing has been fetched yet" in nothing.stderr) == (2, True)
    with pytest.raises(UsageError, match="nothing has been fetched"):
        wholeweb.measured(config.Config(), [place], tmp_path)
