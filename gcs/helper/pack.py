"""The helper as one file: GCS and what a helper needs of other packages, for machines like this one.

The file is a Python zip application. Libraries in machine code cannot be run from within a zip, so it unpacks
itself where the machine keeps things in memory, runs from there, and leaves nothing behind. It runs on the
same system, processor and version of Python as the one that packed it, and says so elsewhere.
"""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Final

from gcs.errors import UsageError

_OURS: Final = ("gcs", "tuplespace")
_SKIPPED: Final = frozenset({"cryptography", "_distutils_hack", "pip", "setuptools"})
"""What others import if it is there, and a helper has no use for."""
_LEFT_OUT: Final = ("__pycache__", "tests", "test", "testing", "include")
_FIRST: Final = b"#!/usr/bin/env python3\n"
_FIND: Final = """
import json, sys
import cli, gcs.helper.daemon, gcs.helper.invitation, gcs.core.consent
places = {getattr(each, "__file__", None) or "" for each in list(sys.modules.values())}
print(json.dumps([sys.path, sorted(filter(None, places))]))
"""


def pack(into: Path) -> int:
    """Write the file; says how large it is. Raises UsageError if it is there already."""
    if into.exists():
        raise UsageError(f"{into} exists; name another file with --into.")
    main = resources.files("gcs.helper").joinpath("unpack.py").read_text(encoding="utf-8")
    made = f"{sysconfig.get_platform()} {sys.implementation.cache_tag}"
    with into.open("wb") as stream:
        stream.write(_FIRST)
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
            archive.writestr("__main__.py", f"MADE_FOR = {made!r}\n{main}")
            for path, name in _files():
                archive.write(path, f"site/{name}")
    into.chmod(0o755)
    return into.stat().st_size


def _files() -> Iterator[tuple[Path, str]]:
    """All files that are needed, and where they go."""
    root = Path(__file__).parent.parent.parent
    yield root / "cli.py", "cli.py"
    for package in _OURS:
        yield from _below(root / package, root)
    site = Path(sysconfig.get_path("platlib"))
    for name in sorted(_needed(site)):
        place = site / name
        if place.is_file():
            yield place, name
        else:
            yield from _below(place, site)
        libraries = site / f"{name}.libs"
        if libraries.is_dir():
            yield from _below(libraries, site)


def _below(place: Path, root: Path) -> Iterator[tuple[Path, str]]:
    for path in sorted(place.rglob("*")):
        inside = path.relative_to(root)
        if path.is_file() and not any(part in _LEFT_OUT for part in inside.parts[1:]):
            yield path, str(inside)


def _needed(site: Path) -> set[str]:
    """The names in the directory of packages that a helper imports from."""
    found = subprocess.run([sys.executable, "-c", _FIND], check=True, capture_output=True, text=True)
    _, places = json.loads(found.stdout)
    inside = (Path(each).relative_to(site) for each in places if Path(each).is_relative_to(site))
    names = {each.parts[0] for each in inside}
    return {name for name in names if name not in _SKIPPED and not name.startswith("__editable__")}
