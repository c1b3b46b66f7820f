"""Distributions with plug-ins, installed where Python looks for them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def install(place: Path, name: str, code: str, points: Mapping[str, Mapping[str, str]]) -> None:
    """A module of this name with this code, and its entry points by group and name."""
    (place / f"{name}.py").write_text(code)
    info = place / f"{name}-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    groups = [
        f"[{group}]\n" + "".join(f"{point} = {function}\n" for point, function in named.items())
        for group, named in points.items()
    ]
    (info / "entry_points.txt").write_text("\n".join(groups))
