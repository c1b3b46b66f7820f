"""The act `full`: the disk of one gatherer is full for a while.

It says so once, fetches no more than it can hold, and still says that it lives; the others go on. When there
is room it goes on by itself, and nothing is lost or fetched again.
"""

from __future__ import annotations

import random
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from gcs.gatherer.writer import FULL_DISK_PAUSE_S
from gcs.simulate.verdict import read_log
from tests.crawling import server
from tests.disks import CannotMount, Disk, small_disk
from tests.gatherers import gatherers
from tests.servers import redis_server
from tests.soak import Skipped
from tests.soak.progress import Progress
from tests.soak.trial import HELD, SETTINGS, Trial

SIZE: Final = "256m"
FULL: Final = "two"
_LATENCY_MS: Final = 120
"""So that the crawl lasts until there is a plan by which both have work."""


def fill_disk(pages: int, hosts: int, rng: random.Random, progress: Progress, *, times: int = 1) -> str:
    """Fill the disk of one; gives the verdict, or raises Failed or Skipped."""
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        try:
            disk = stack.enter_context(small_disk(place / "disk", SIZE))
        except CannotMount as error:
            raise Skipped(str(error)) from error
        web = server(place / "web", rng.randrange(1000), hosts=hosts, pages=pages, latency_ms=_LATENCY_MS)
        served = stack.enter_context(web)
        redis = stack.enter_context(redis_server("redis"))
        group = stack.enter_context(gatherers(redis, served, place / "gatherers", SETTINGS))
        group.put(FULL, disk.place / "gatherer")
        trial = Trial(group, served, progress)
        trial.begin("one", FULL)
        late: list[int] = []
        for number in range(times):
            share = 0.3 + 0.6 * number / times
            trial.at(share, "a disk is full", lambda: late.append(_filled(trial, disk)))
        trial.end()
        said = len(trial.said(FULL, "waiting"))
        verdict = trial.verdict(
            f"it said {said} times that its disk is full" if said != times else "",
            *(f"{each} pages were fetched when the disk was full" for each in late if each > HELD),
        )
        return f"{times} times a disk was full, {sum(late)} pages were fetched meanwhile; {verdict}"


def _filled(trial: Trial, disk: Disk) -> int:
    """Fill a disk until that is noticed, and for a while; gives how much was fetched without room."""
    trial.until(
        lambda: not trial.group.members()[FULL].pulse.facts["waits_for_room"], "the word that there is room"
    )
    said = len(trial.said(FULL, "waiting"))
    trial.until(lambda: trial.group.members()[FULL].pulse.facts["done"], "pages to write")
    disk.fill()
    trial.until(lambda: len(trial.said(FULL, "waiting")) > said, "the word that the disk is full")
    since = time.time()
    trial.until(lambda: trial.group.members()[FULL].pulse.facts["waits_for_room"], "its heartbeat to say so")
    trial.until(lambda: time.time() > since + FULL_DISK_PAUSE_S / 2, "a while")
    asked = [each for each in read_log(trial.served.log) if each.agent == FULL and each.start > since]
    disk.make_room()
    return len(asked)
