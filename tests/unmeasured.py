"""Processes whose coverage nobody needs: they are killed, or run what is covered elsewhere."""

from __future__ import annotations

import os


def environment() -> dict[str, str]:
    """That of this process, but coverage does not measure who gets it."""
    return {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_PROCESS")}
