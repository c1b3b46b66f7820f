"""A crawl that is killed at any moment loses nothing, and tears nothing: the shorter form of the soak."""

from __future__ import annotations

import random
from contextlib import closing

from tests.soak.crawl import kill_crawl
from tests.soak.progress import Progress


def test_killed_and_resumed() -> None:
    """Killed again and again and resumed each time, a crawl ends complete, with every record whole."""
    with closing(Progress(every_s=60.0)) as progress:
        assert "coverage 1.0000" in kill_crawl(3, random.Random(1), progress)
