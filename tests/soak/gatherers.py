"""The act `gatherers`: a crawl by several, through joins, kills, a lost leader, a lost Redis and a drain."""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from pathlib import Path

from gcs.config import Config
from gcs.store.store import Store
from tests.crawling import server
from tests.gatherers import gatherers
from tests.servers import Node, redis_server
from tests.soak.progress import Progress
from tests.soak.trial import SETTINGS, Trial


def disasters(
    pages: int, hosts: int, rng: random.Random, progress: Progress, *, lose_one: bool = False
) -> str:
    """The whole run; gives the verdict or raises Failed. `lose_one` deletes the disk of one for good."""
    settings = [*SETTINGS, *(["member.forget_after=5s"] if lose_one else [])]
    with (
        tempfile.TemporaryDirectory() as place,
        server(Path(place, "web"), rng.randrange(1000), hosts=hosts, pages=pages) as served,
        redis_server(appendonly=True) as redis,
        gatherers(redis, served, Path(place, "gatherers"), settings) as group,
    ):
        trial = Trial(group, served, progress)
        trial.begin("one", "two")
        trial.at(0.1, "a third joins", lambda: trial.start("three"))
        trial.at(0.25, "one is killed and started again", lambda: trial.restart("two"))
        if lose_one:
            trial.at(0.5, "one is lost with its disk", lambda: _lost(trial, "two"))
        else:
            trial.at(0.4, "the leader is killed", lambda: trial.restart(trial.leading()))
            trial.at(0.55, "Redis is killed", lambda: _killed(redis))
            trial.at(0.7, "one is drained", lambda: group.drain("one"))
        trial.end(but=("two",) if lose_one else ())
        return f"{trial.kills} kills, {trial.verdict()}"


def _killed(redis: Node) -> None:
    redis.kill()
    time.sleep(3.0)
    redis.restart()


def _lost(trial: Trial, name: str) -> None:
    trial.kill(name)
    trial.excuse_gifts([name], time.time())
    directory = trial.group.processes[name].directory
    with Store.open(directory, Config().store, resume=True) as store:
        # Rows of pages that others had fetched, and handed over to it, are lost with it too.
        # So are the pages that it had fetched and handed over to others.
        trial.excused += store.counts().done + store.ledger().moved_out
    shutil.rmtree(directory)
