"""What is read once: the same page, or heartbeat, says the same to everybody in every run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Final
from unittest.mock import patch

from gcs.board import Pulse
from gcs.gatherer import visit
from gcs.helper import worker
from gcs.summary.pipeline import Level, read
from gcs.summary.plugins import Plugins
from gcs.summary.records import Document

READERS: Final = Plugins()
"""Those of every gatherer and helper."""
_REMEMBERED: Final = 8_192
"""Pages; all webs of a process have fewer, but for what changes."""
_PULSES: Final = 64
"""Heartbeats: some for each gatherer that there may be."""
_pulse: Final = lru_cache(maxsize=_PULSES)(Pulse.from_bytes)


@lru_cache(maxsize=_REMEMBERED)
def _read(body: bytes, url: str, content_type: str, level: Level) -> Document:
    return read(body, url=url, content_type=content_type, level=level, plugins=READERS)


def _remembered(body: bytes, *, url: str, content_type: str, level: Level, plugins: Plugins) -> Document:
    """As `read`."""
    assert plugins is READERS
    return _read(body, url, content_type, level)


@contextmanager
def in_force() -> Iterator[None]:
    """Have nobody read what was read before."""
    with (
        patch.object(visit, "read", _remembered),
        patch.object(worker, "read", _remembered),
        patch.object(Pulse, "from_bytes", _pulse),
    ):
        yield
