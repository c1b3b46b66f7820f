"""The directory of a crawl: one gatherer's store, or those of several and what they share.

DIR/fleet.json    how many gatherers there are, and the settings with which the crawl began
DIR/seeds         URLs that no gatherer has on its disk yet
DIR/lock          locked by the process that runs them all
DIR/space/        the private server where they meet
DIR/monitor/      what the web page needs, if it is served
DIR/1/, DIR/2/…   what each keeps, as `gcs.store.directory` says
DIR/1.log         what it has logged
DIR/1.lock        locked while it runs
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from gcs.core.holdings import Holdings, Standing
from gcs.errors import UsageError
from gcs.gatherer.node import DRAINING, HOLDINGS
from gcs.store import directory as directories
from gcs.store.errors import StoreError, translated
from gcs.store.view import View

VERSION: Final = 1
_FILE: Final = "fleet.json"
_SEEDS: Final = "seeds"
_OURS: Final = frozenset({"lock", "seeds", "fleet", "space", "monitor"})
"""What may be left of a start that went no further, by the stems of their names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """What is remembered of a crawl by several gatherers."""

    gatherers: int
    settings: Sequence[str]
    private: bool
    """Whether every seed lies in `fetch.allow`."""
    own_server: bool
    """Whether they meet in a private server."""
    sources: Sequence[str] = ()
    """What it needs of sources."""
    version: int = VERSION

    @classmethod
    def of(cls, directory: Path) -> Fleet | None:
        """The one that crawls into a directory; None where there is none. Raises StoreError."""
        path = directory / _FILE
        if not path.is_file():
            return None
        with translated(directory):
            text = path.read_text(encoding="utf-8")
        try:
            said = json.loads(text)
            if said["version"] == VERSION:
                return cls(**said)
        except (ValueError, KeyError, TypeError):
            raise StoreError(f"{path}: cannot be read; choose another directory.") from None
        raise StoreError(f"{path}: written by another version of GCS; choose another directory.")

    def remember(self, directory: Path) -> None:
        """Keep it."""
        _keep(directory / _FILE, json.dumps(asdict(self), indent=2) + "\n")


def parts(directory: Path) -> list[Path]:
    """The stores of a crawl, also of gatherers that have left; raises UsageError when there is none."""
    if Fleet.of(directory) is not None:
        stores = [each for each in directory.iterdir() if each.name.isdigit() and (each / "format").exists()]
        return sorted(stores, key=lambda each: int(each.name))
    if not (directory / "format").exists():
        raise UsageError(f"{directory} holds no crawl; name the directory that was given as --into.")
    return [directory]


def places(directory: Path, gatherers: int) -> list[Path]:
    """Where each of several gatherers keeps everything."""
    return [directory / str(number) for number in range(1, gatherers + 1)]


def number(directory: Path, asked: int | None, *, resume: bool) -> int:
    """How many gatherers are to crawl into a directory; raises GcsError if it cannot be as many as asked."""
    fleet = Fleet.of(directory)
    if not resume:
        if fleet is not None:
            raise StoreError(f"{directory}: already holds a crawl; resume it, or choose another directory.")
        return asked or 1
    if fleet is None:
        if asked not in (None, 1) and (directory / "format").exists():
            raise UsageError(
                f"{directory} was begun with one gatherer; leave -n {asked} out to go on with it."
            )
        return asked or 1
    if asked == 1 and fleet.gatherers > 1:
        raise UsageError(f"{directory} was begun with several gatherers; leave -n 1 out to go on with it.")
    wanted = asked or fleet.gatherers
    for place in places(directory, fleet.gatherers)[wanted:]:
        if not _has_left(place):
            raise UsageError(
                f"{directory} has {fleet.gatherers} gatherers, and {place} still holds a part of the crawl; "
                f"drain that gatherer first, or leave -n {asked} out."
            )
    return wanted


def _has_left(place: Path) -> bool:
    """Whether a gatherer was drained, and has given away what it held."""
    try:
        with View(place) as view:
            held = view.get_meta(HOLDINGS)
            if view.get_meta(DRAINING) is None or view.counts().queued:
                return False
    except StoreError:
        return not (place / "format").exists()
    return held is None or not Holdings.from_bytes(held).pieces(
        Standing.HELD, Standing.LEAVING, Standing.COMING
    )


def prepare(directory: Path) -> directories.Lock:
    """Make and lock the directory of several gatherers; raises StoreError where there is something else."""
    with translated(directory):
        if directory.exists() and not directory.is_dir():
            raise StoreError(f"{directory}: is not a directory; choose another one.")
        directory.mkdir(parents=True, exist_ok=True)
    lock = directories.Lock(directory)
    if Fleet.of(directory) is None and any(each.stem not in _OURS for each in directory.iterdir()):
        lock.release()
        raise StoreError(f"{directory}: is not empty and holds no crawl; choose another directory.")
    return lock


def waiting_seeds(directory: Path) -> list[str]:
    """URLs that no gatherer has on its disk yet."""
    path = directory / _SEEDS
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def keep_seeds(directory: Path, seeds: Sequence[str]) -> None:
    """Let these wait, and no others."""
    path = directory / _SEEDS
    if seeds:
        _keep(path, "".join(f"{each}\n" for each in seeds))
    else:
        path.unlink(missing_ok=True)


def _keep(path: Path, text: str) -> None:
    """Replace a file in one step."""
    aside = path.with_suffix(".new")
    with translated(path.parent):
        with aside.open("w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        aside.replace(path)
        directories.sync_directory(path.parent)
