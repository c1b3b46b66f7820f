"""Gatherers that crawl together, as real processes: through disasters, and with every placement."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from gcs.config import Config
from gcs.core.rulings import ALL
from gcs.gatherer.book import book_of
from gcs.operate.ledger import add_up
from gcs.store.store import Store
from tests import treeweb
from tests.crawling import server
from tests.gatherers import gatherers
from tests.relay import relays
from tests.servers import redis_server, until
from tests.soak.gatherers import disasters
from tests.soak.progress import Progress
from tests.soak.trial import Trial

JSON = "log.format=json"
DISTANCE_S = 0.15


def test_disasters(progress: Progress) -> None:
    assert "coverage 1.0000" in disasters(2000, 30, random.Random(1), progress)


def test_a_disk_is_lost_for_good(progress: Progress) -> None:
    assert "coverage 1.0000" in disasters(2000, 30, random.Random(2), progress, lose_one=True)


def test_a_disk_is_lost_after_another_gatherer_has_left(tmp_path: Path) -> None:
    """What only the one that left knew to have passed on is known to those who stay."""
    pages = 600
    settings = ["member.forget_after=5s", "fetch.concurrency=4"]
    with (
        redis_server() as redis,
        treeweb.serve(tmp_path / "hosts", pages=pages, hosts=12) as web,
        gatherers(redis, web, tmp_path / "g", settings) as group,
    ):
        for name in ("one", "two", "three"):
            group.start(name)
        group.until(lambda members: len(members) == 3, "three members")
        group.seed([web.url(0)])
        until(lambda: len(web.fetched) > pages / 2, "half of the pages", timeout_s=150)
        group.rule(lambda rulings, epoch: rulings.pause(ALL, epoch))
        group.drain("one")
        assert group.wait(150, but=("two", "three")) == {"one": 0}
        group.lose("two")
        group.rule(lambda rulings, epoch: rulings.resume(ALL, epoch))
        assert group.wait(150, but=("one", "two")) == {"three": 0}
        books = {}
        for name in ("one", "three"):
            with Store.open(group.processes[name].directory, Config().store, resume=True) as store:
                books[store.identity] = book_of(store) | {"reasons": {}}
    assert set(range(pages)) - set(web.fetched) == set()
    assert add_up(books).is_balanced


@pytest.mark.parametrize("strategy", ["superpage", "hash", "proximity", "twoma", "oma"])
def test_every_placement_covers_the_web(strategy: str, tmp_path: Path, progress: Progress) -> None:
    settings, is_measured = [JSON, f"placement.strategy={strategy}"], strategy == "superpage"
    with (
        server(tmp_path / "web", 5, hosts=15, pages=800) as served,
        redis_server() as redis,
        gatherers(redis, served, tmp_path / "g", settings, is_measured=is_measured) as group,
    ):
        trial = Trial(group, served, progress)
        trial.begin("one", "two")
        trial.end()
        assert "coverage 1.0000" in trial.verdict()


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
        assert child.wait(60) == 3
        said = group.processes["two"].log.read_text()
    assert "another gatherer named one is in the crawl" in said


def test_what_another_reaches_much_faster_changes_hands(tmp_path: Path, progress: Progress) -> None:
    """Half of the hosts are far from one gatherer, the others from the other; pages that are tried tell."""
    # Who is slower for that has more left, too: a plan for that reason would begin with the tries anew.
    settings = [JSON, "fetch.concurrency=8", "rebalance.imbalance=100"]
    with (
        server(tmp_path / "web", 5, hosts=30, pages=4000) as served,
        redis_server() as redis,
        gatherers(redis, served, tmp_path / "g", settings) as group,
    ):
        trial = Trial(group, served, progress)
        near = {host.name: host.address for host in served.web.hosts}
        far = {name: address.replace("127.", "127.2", 1) for name, address in near.items()}
        with relays(DISTANCE_S, served.web.port, {far[name]: near[name] for name in near}):
            for index, gatherer in enumerate(("one", "two")):
                hosts = tmp_path / f"hosts-{gatherer}"
                lines = [
                    f"{(far if number % 2 == index else near)[name]} {name}\n"
                    for number, name in enumerate(sorted(near))
                ]
                hosts.write_text("".join(lines))
                # Nobody tries a page under another name than its owner's.
                trial.start(gatherer, f"fetch.hosts={hosts}", "fetch.agent=both")
            group.seed(served.web.seeds)
            trial.end()
            rounds = [said for name in group.processes for said in trial.said(name, "leads a round")]
            assert "locality" in {reason for said in rounds for reason in said["reasons"]}
            assert "coverage 1.0000" in trial.verdict()
