"""Simulated clusters, one seed after the other, on all cores."""

from __future__ import annotations

import itertools
import os
import random
import time

from gcs.simulate.cluster.campaign import Cast, Result, play_all, shrunk
from gcs.simulate.cluster.command import told
from tests.soak import Failed
from tests.soak.progress import Progress

_ENOUGH = 10
"""After so many failures it is no use to go on."""


def simulate(runs: int, for_s: float | None, chance: random.Random, progress: Progress) -> str:
    """Run so many seeds, or for so long; raises Failed, with a seed that broke a promise made short."""
    first = chance.randrange(1 << 30)
    began = time.monotonic()
    failed: list[Result] = []
    done = 0

    def note(result: Result) -> bool:
        nonlocal done
        done += 1
        if result.violations:
            failed.append(result)
        took_s = time.monotonic() - began
        share = done / runs if for_s is None else min(1.0, took_s / for_s)
        line = f"simulation: {share:4.0%}, {done:,} runs, {done / took_s:.1f} a second, {len(failed)} failed"
        progress.show(line, time.monotonic())
        return len(failed) < _ENOUGH

    seeds = itertools.takewhile(
        lambda seed: seed < first + runs if for_s is None else time.monotonic() - began < for_s,
        itertools.count(first),
    )
    play_all(Cast(), seeds, os.cpu_count() or 1, note)
    if failed:
        numbers = ", ".join(str(each.seed) for each in failed)
        progress.say(told(Cast(), shrunk(Cast(), failed[0])))
        raise Failed(f"gcs simulate cluster --seed N shows them: {numbers}")
    return f"{done:,} runs from seed {first} on, all promises kept"
