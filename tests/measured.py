"""Which processes that tests start are measured by coverage: those that run what is covered nowhere else.

Counting lines takes as long as running them, so all others run without.
"""

from __future__ import annotations

import os
from typing import Final

_TOLD: Final = "COVERAGE_PROCESS"
"""How the names of variables begin that have coverage measure a process."""
_ASIDE: Final = "ASIDE_"


def this_process_only() -> None:
    """Let coverage measure nothing that is started from now on, unless its environment is asked for here."""
    for name in [each for each in os.environ if each.startswith(_TOLD)]:
        os.environ[_ASIDE + name] = os.environ.pop(name)


def environment() -> dict[str, str]:
    """That of this process, with which coverage measures who gets it."""
    return {name.removeprefix(_ASIDE): value for name, value in os.environ.items()}
