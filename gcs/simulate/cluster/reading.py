"""Pages that are read once: the same page says the same in every run, whoever reads it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Final
from unittest.mock import patch

from gcs.gatherer import visit
from gcs.summary.pipeline import Level, read
from gcs.summary.plugins import Plugins
from gcs.summary.records import Document

READERS: Final = Plugins()
"""Those of every gatherer."""
_REMEMBERED: Final = 8_192
"""Pages; all webs of a process have fewer, but for what changes."""


@lru_cache(maxsize=_REMEMBERED)
def _read(body: bytes, url: str, content_type: str, level: Level) -> Document:
    return read(body, url=url, content_type=content_type, level=level, plugins=READERS)


def _remembered(body: bytes, *, url: str, content_type: str, level: Level, plugins: Plugins) -> Document:
    """As `read`."""
    assert plugins is READERS
    return _read(body, url, content_type, level)


@contextmanager
def in_force() -> Iterator[None]:
    """Have gatherers read no page that was read before."""
    with patch.object(visit, "read", _remembered):
        yield
