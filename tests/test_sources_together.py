"""Two gatherers and one directory: the shorter form of the soak."""

from __future__ import annotations

import random
from contextlib import closing

from tests.soak.files import gather_files
from tests.soak.progress import Progress


def test_killed_and_started_again() -> None:
    """Of files that two gatherers read, killed and started again meanwhile, none is lost or done twice."""
    with closing(Progress(every_s=60.0)) as progress:
        assert "all summarised and archived once" in gather_files(3_000, 2, random.Random(1), progress)
