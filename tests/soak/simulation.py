"""Simulated clusters, one seed after the other, on all cores."""

from __future__ import annotations

import os
import random
import time

from gcs.simulate.cluster.campaign import Cast, Result, play_all
from tests.soak import Failed
from tests.soak.progress import Progress


def simulate(runs: int, chance: random.Random, progress: Progress) -> str:
    """Run so many seeds; raises Failed with those that broke a promise."""
    first = chance.randrange(1 << 30)
    failed: list[Result] = []
    done = 0

    def note(result: Result) -> bool:
        nonlocal done
        done += 1
        if result.violations:
            failed.append(result)
        line = f"simulation: {done:,} of {runs:,} runs, {len(failed)} failed"
        progress.show(line, time.monotonic())
        return len(failed) < 10

    play_all(Cast(), range(first, first + runs), os.cpu_count() or 1, note)
    if failed:
        seeds = ", ".join(str(each.seed) for each in failed)
        raise Failed(f"gcs simulate cluster --seed N shows them: {seeds}: {failed[0].violations[0]}")
    return f"{done:,} runs from seed {first} on, all promises kept"
