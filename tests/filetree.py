"""Directories of files for tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

FLAT = 5
"""Every fifth file is in one directory."""


def plant(root: Path, files: int) -> list[str]:
    """Make so many files with words of their own, in some two hundred directories; gives their URLs."""
    urls = []
    for number in range(files):
        where = "flat" if number % FLAT == 0 else f"d{number % 29}/e{number % 7}"
        place = root / where
        if number < FLAT * 29 * 7:
            place.mkdir(parents=True, exist_ok=True)
        text = f"File {number}\nThis one has some words of its own, such as word{number}.\n"
        (place / f"{number}.txt").write_text(text, encoding="ascii")
        urls.append(f"file://{root}/{where}/{number}.txt")
    return urls


def directories(root: Path) -> Iterator[str]:
    """The URLs of all directories of a tree."""
    yield f"file://{root}/"
    for place in root.rglob("*"):
        if place.is_dir() and not place.is_symlink():
            yield f"file://{place}/"
