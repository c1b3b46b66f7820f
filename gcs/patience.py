"""Patience for a service that fails again and again: `python -m gcs.patience note|wait DIRECTORY`.

Its unit calls `note` when the service has ended, which remembers failures in a directory, and `wait` before
it is started, which takes the longer the more of them there were lately. systemd 254 has a setting for that;
our units have to work with 252.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

LATELY_S: Final = 900.0
FREE: Final = 2
"""So many failures cost nothing: a service that was killed is back at once."""
FIRST_S: Final = 5.0
LONGEST_S: Final = 300.0
_MOST: Final = 100


def pause_s(failures: Sequence[float], now: float) -> float:
    """How long to wait before the next start: twice as long after each failure, within bounds."""
    lately = sum(0 <= now - at < LATELY_S for at in failures)
    return 0.0 if lately <= FREE else min(LONGEST_S, FIRST_S * 2.0 ** (lately - FREE - 1))


def note(directory: Path, now: float, environ: Mapping[str, str]) -> None:
    """Remember that the service has failed, if it has."""
    if environ.get("SERVICE_RESULT", "success") == "success":
        return
    kept = [*_failures(directory), now][-_MOST:]
    (directory / "failures").write_text("".join(f"{at:.0f}\n" for at in kept))


def wait(directory: Path, now: float, sleep: Callable[[float], None]) -> None:
    """Wait for as long as is right."""
    failures = _failures(directory)
    seconds = pause_s(failures, now)
    if seconds:
        sys.stderr.write(f"<5>it has failed {len(failures)} times lately; waiting for {seconds:.0f} s\n")
        sys.stderr.flush()
        sleep(seconds)


def _failures(directory: Path) -> list[float]:
    try:
        return [float(line) for line in (directory / "failures").read_text().split()]
    except (FileNotFoundError, ValueError):
        return []


def main(arguments: Sequence[str]) -> None:
    """Do what the unit asks for."""
    what, directory = arguments
    if what == "note":
        note(Path(directory), time.time(), os.environ)
    else:
        wait(Path(directory), time.time(), time.sleep)


if __name__ == "__main__":
    main(sys.argv[1:])
