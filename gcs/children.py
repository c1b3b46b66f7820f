"""This program as a child of itself: what it is called, and the environment that tells it all it needs.

No password is on a command line.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import gcs
from gcs import notify
from gcs.config import Config, variables

PROGRAM: Final = (sys.executable, str(Path(gcs.__file__).parent.parent / "cli.py"))


def environment(config: Config, inherited: Mapping[str, str]) -> dict[str, str]:
    """What a child is told: this configuration, and nothing else of ours."""
    ours = (*notify.VARIABLES, "GCS_")
    others = {name: value for name, value in inherited.items() if not name.startswith(ours)}
    return others | variables(config)
