"""Gatherers that crawl together, as real processes: through disasters, and with every placement."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.crawling import server
from tests.gatherers import gatherers
from tests.servers import redis_server
from tests.soak.gatherers import disasters
from tests.soak.progress import Progress


@pytest.fixture
def progress() -> Iterator[Progress]:
    """Says nothing that anybody sees."""
    with closing(Progress(every_s=1000.0)) as shown:
        yield shown


def test_disasters(progress: Progress) -> None:
    assert "coverage 1.0000" in disasters(3000, 30, random.Random(1), progress)


def test_a_disk_is_lost_for_good(progress: Progress) -> None:
    assert "coverage 1.0000" in disasters(3000, 30, random.Random(2), progress, lose_one=True)


@pytest.mark.parametrize("strategy", ["superpage", "hash", "proximity", "twoma", "oma"])
def test_every_placement_covers_the_web(strategy: str, tmp_path: Path) -> None:
    with server(tmp_path / "web", 5, hosts=15, pages=800) as served, redis_server() as redis:
        with gatherers(redis, served, tmp_path / "g", [f"placement.strategy={strategy}"]) as group:
            group.start("one")
            group.start("two")
            group.seed(served.web.seeds)
            assert set(group.wait(60).values()) == {0}
        seen = served.judged()
    assert (seen.coverage, seen.duplicates, seen.forbidden) == (1.0, 0, {})


def test_a_second_gatherer_of_the_same_name_is_refused(tmp_path: Path) -> None:
    stay = ["member.leave_when_finished=false"]
    with (
        server(tmp_path / "web", 5, hosts=5, pages=50) as served,
        redis_server() as redis,
        gatherers(redis, served, tmp_path / "g", stay) as group,
    ):
        group.start("one")
        group.until(lambda members: "one" in members, "the first")
        group.start("two", "member.name=one")
        child = group.processes["two"].child
        assert child is not None
        assert child.wait(30) == 3
        said = group.processes["two"].log.read_text()
    assert "another gatherer named one is in the crawl" in said
