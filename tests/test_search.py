"""`gcs search` as users call it: in a directory, and over gatherers that crawl."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import Result

from tests import treeweb
from tests.crawling import gcs_here
from tests.gatherers import Gatherers, gatherers
from tests.servers import redis_server, until

PAGES = 60


def _page(page: int, links: str) -> bytes:
    kind = "even" if page % 2 == 0 else "odd"
    text = f"An {kind} page, number{page}, about horses."
    return f"<html lang=en><title>Page {page}</title><p>{text}<p>{links}".encode()


def _told(result: Result) -> dict[str, object]:
    told: dict[str, object] = json.loads(result.stdout)
    return told


def _search(group: Gatherers, *arguments: str) -> Result:
    return gcs_here("search", *arguments, "-s", f"redis.url={group.config.redis.url}")


def test_searching_over_gatherers(tmp_path: Path) -> None:
    """All gatherers are searched while they run; who does not answer is named, what is forgotten is gone."""
    settings = ["index.engine=embedded", "member.leave_when_finished=false", "member.heartbeat=0.2s"]
    with (
        redis_server("valkey") as redis,
        treeweb.serve(tmp_path / "hosts", pages=PAGES, hosts=6, write=_page) as web,
        gatherers(redis, web, tmp_path / "g", settings) as group,
    ):
        for name in ("one", "two"):
            group.start(name)
        group.until(lambda members: len(members) == 2, "two members")
        group.seed([web.url(0)])

        def found(*words: str) -> dict[str, object]:
            return _told(_search(group, *words, "--json"))

        until(lambda: found("horse")["total"] == PAGES, "all pages to be found", timeout_s=60)
        told = found("title:page number17")
        assert [each["url"] for each in told["results"]] == [web.url(17)]  # type: ignore[attr-defined] # JSON
        assert told["silent"] == []
        assert found("even", "--limit", "20", "--page", "2")["total"] == PAGES // 2
        shown = _search(group, '"odd page" number3')
        assert shown.exit_code == 0
        assert "1 to 1 of 1 found among 60 pages." in shown.stdout
        assert web.url(3) in shown.stdout
        refused = _search(group, "nothing:x")
        assert (refused.exit_code, len(refused.stderr.splitlines())) == (2, 1)
        host = web.names[1]
        forgotten = gcs_here("forget", host, "-s", f"redis.url={group.config.redis.url}")
        assert forgotten.exit_code == 0, forgotten.stderr
        until(lambda: found("horse")["total"] == PAGES - PAGES // 6, "a host to be gone", timeout_s=60)
        group.kill("two")
        partly = _search(group, "horse")
        assert partly.exit_code == 4
        assert "two has not answered." in partly.stdout


def test_a_directory_without_an_index(tmp_path: Path) -> None:
    """Where nothing was crawled, or nothing is indexed, one sentence says what to do."""
    nothing = gcs_here("search", "x", "--into", str(tmp_path / "none"))
    assert nothing.exit_code == 2
    assert "holds no crawl" in nothing.stderr
    too_far = gcs_here("search", "x", "--limit", "100", "--page", "11", "--into", str(tmp_path))
    assert "best 1,000" in too_far.stderr
