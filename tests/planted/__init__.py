"""Bugs that are planted on purpose, one to a patch, to see whether the simulation finds them.

    python -m tests.planted            plants all of them, one after the other
    python -m tests.planted --only turn-without-rest

A patch is a unified diff below a sentence that says what is wrong with it. It is applied to a copy of the
tree by what it changes, wherever in the file that is by now: so it stays good while other lines come and go.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
TREE: Final = HERE.parent.parent
_COPIED: Final = ("gcs", "tuplespace")


class Misfit(Exception):
    """A patch does not fit the tree any more."""


@dataclass(frozen=True, slots=True)
class Hunk:
    """Some lines of a file, and what they become."""

    path: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Planted:
    """One bug."""

    name: str
    says: str
    hunks: tuple[Hunk, ...]

    def plant(self, tree: Path) -> None:
        """Change a tree; raises Misfit."""
        for hunk in self.hunks:
            path = tree / hunk.path
            if not path.is_file():
                raise Misfit(f"{self.name}: there is no {hunk.path}")
            text = path.read_text(encoding="utf-8")
            if text.count(hunk.before) != 1:
                raise Misfit(
                    f"{self.name}: what it changes is {text.count(hunk.before)} times in {hunk.path}"
                )
            path.write_text(text.replace(hunk.before, hunk.after), encoding="utf-8")


def planted() -> list[Planted]:
    """All of them, by name."""
    return [read(path) for path in sorted(HERE.glob("*.patch"))]


def read(path: Path) -> Planted:
    """The bug in a patch."""
    head, *files = path.read_text(encoding="utf-8").split("\n--- a/")
    hunks = tuple(hunk for file in files for hunk in _hunks(file))
    return Planted(path.stem, head.strip(), hunks)


def _hunks(file: str) -> Iterator[Hunk]:
    """The hunks of one file's part of a diff, of which the first line is the file's name."""
    names, *hunks = file.split("\n@@")
    for hunk in hunks:
        lines = hunk.rstrip("\n").split("\n")[1:]
        before = "".join(f"{line[1:]}\n" for line in lines if not line.startswith("+"))
        after = "".join(f"{line[1:]}\n" for line in lines if not line.startswith("-"))
        yield Hunk(names.split("\n")[0], before, after)


def copied(place: Path) -> Path:
    """A copy of what a simulation needs of the tree."""
    for name in _COPIED:
        shutil.copytree(TREE / name, place / name, ignore=shutil.ignore_patterns("__pycache__"))
    return place
