"""The act `files`: a directory of very many files, by two gatherers that are killed again and again."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq
from warcio.archiveiterator import ArchiveIterator

from gcs.board import Member
from gcs.config import Config
from gcs.core.urls import url
from gcs.store.ranges import Which
from gcs.store.store import Store
from tests.filetree import directories, plant
from tests.gatherers import Gatherers, gatherers
from tests.servers import redis_server
from tests.soak import Failed
from tests.soak.progress import Progress

NAMES = ("one", "two")
_SLOWEST = 30.0
"""Files a second on the busiest machine."""


@dataclass(frozen=True)
class NoWeb:
    """What gatherers are told of a web that they do not crawl."""

    hosts: Path


def gather_files(files: int, kills: int, rng: random.Random, progress: Progress) -> str:
    """The whole run; says what came of it or raises Failed."""
    with (
        tempfile.TemporaryDirectory() as directory,
        redis_server("valkey") as redis,
    ):
        place, root = Path(directory), Path(directory, "files")
        urls = plant(root, files)
        (root / "endless").symlink_to(root)
        (place / "hosts").touch()
        # The usual delay: there is none between files.
        settings = [f"sources.files={root}", "fetch.delay=1s"]
        with gatherers(redis, NoWeb(place / "hosts"), place / "gatherers", settings) as group:
            for name in NAMES:
                group.start(name)
            group.until(lambda members: len(members) == len(NAMES), "two members")
            group.seed([f"file://{root}/"])
            for number in range(kills):
                share = (number + 1) / (kills + 1)
                group.until(partial(_reached, share * files), "files", files / _SLOWEST)
                name = rng.choice(NAMES)
                progress.say(f"{name} is killed and started again at {share:.0%}")
                group.kill(name)
                group.start(name)
            codes = group.wait(120 + files / _SLOWEST)
            if any(codes.values()):
                raise Failed(f"a gatherer has ended with {codes}")
            wanted = {*urls, *_pieces(group), *directories(root)}
            by_each = _account(group, wanted, f"file://{root}/endless")
    shares = " and ".join(f"{count:,}" for count in by_each)
    return f"{files:,} files, {kills} kills: all summarised and archived once, by the two {shares}"


def _reached(count: float, members: dict[str, Member]) -> bool:
    return sum(float(member.pulse.facts.get("done", 0)) for member in members.values()) > count


def _pieces(group: Gatherers) -> Iterator[str]:
    """The pieces of large directories, as they were found."""
    for line in _lines(group):
        if "?after=" in line[3]:
            yield line[3]


def _lines(group: Gatherers) -> Iterator[list[str]]:
    for process in group.processes.values():
        with (process.directory / "crawl.log").open(encoding="utf-8") as log:
            for line in log:
                yield line.split()


def _account(group: Gatherers, wanted: set[str], link: str) -> list[int]:
    """Hold what is on the disks against what was there; gives how many each gatherer has summarised."""
    logged = Counter(line[3] for line in _lines(group))
    _once("logged", logged, wanted | {link})
    summarised, archived, by_each = Counter[str](), Counter[str](), []
    for process in group.processes.values():
        rows = list(_summarised(process.directory))
        by_each.append(len(rows))
        summarised.update(rows)
        archived.update(_archived(process.directory))
    _once("summarised", summarised, wanted)
    _once("archived", archived, wanted)
    held = Counter[str]()
    for process in group.processes.values():
        with Store.open(process.directory, Config().store, resume=True) as store:
            held.update(map(url, store.keys("", None, 10**9, Which.HELD)[0]))
    _once("held", held, wanted | {link})
    return by_each


def _summarised(place: Path) -> Iterable[str]:
    for part in sorted(place.glob("summaries/part-*")):
        yield from pq.read_table(part, columns=["url"]).column("url").to_pylist()


def _archived(place: Path) -> Iterator[str]:
    for part in sorted(place.glob("warc/*.warc.gz")):
        with part.open("rb") as stream:
            for record in ArchiveIterator(stream):
                if record.rec_type == "resource":
                    yield record.rec_headers.get_header("WARC-Target-URI")


def _once(what: str, found: Counter[str], wanted: set[str]) -> None:
    missing, twice = wanted - found.keys(), [each for each, count in found.items() if count > 1]
    strange = found.keys() - wanted
    if missing or twice or strange:
        told = f"{len(missing)} not {what}, {len(twice)} {what} twice, {len(strange)} that are none"
        raise Failed(f"{told}: {[*missing, *twice, *strange][:5]}")
