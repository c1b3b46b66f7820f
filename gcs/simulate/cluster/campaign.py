"""Many runs: seeds are dealt out to processes, and what fails is made short.

Each process has the same fixed hash seed, without which sets have another order every time.

    python -m gcs.simulate.cluster.campaign

is such a process: it reads a plot from each line of its input, and writes what came of it.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

import trio

from gcs.simulate.cluster.faults import Fault, Kind, Moment
from gcs.simulate.cluster.fetching import HOSTS
from gcs.simulate.cluster.schedules import schedule

_ENVIRONMENT: Final = {"PYTHONHASHSEED": "0"}
_COLLECT: Final = (50_000, 50, 100)
"""A run makes and drops much, and lives for a second; what is left of it goes when it is over."""


@dataclass(frozen=True, slots=True)
class Cast:
    """What all runs of a campaign have in common."""

    gatherers: int = 4
    helpers: int = 2
    pages: int = 200
    kinds: Sequence[Kind] = tuple(Kind)

    def faults(self, seed: int) -> list[Fault]:
        """What goes wrong in the run of a seed."""
        if not self.kinds:
            return []
        return schedule(Random(f"faults {seed}"), self.kinds, self.gatherers, self.helpers, HOSTS)


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one run."""

    seed: int
    kept: Sequence[int]
    """Which of the seed's faults happened, by their numbers."""
    violations: Sequence[str]
    simulated_s: float
    requests: int
    digest: int
    trace: Sequence[str] = field(default_factory=list)


class Player:
    """A process that plays plots, one at a time."""

    def __init__(self, cast: Cast, *, tree: Path | None = None) -> None:
        """`tree` is a copy of the program to be played with, if it is not to be this one."""
        self._cast = cast
        line = [sys.executable, "-m", "gcs.simulate.cluster.campaign"]
        self._process = subprocess.Popen(
            line,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **_ENVIRONMENT},
            cwd=tree,
            start_new_session=True,  # Ctrl-C is for who plays with it, and has nothing to say itself
        )

    def play(self, seed: int, kept: Sequence[int] | None = None) -> Result:
        """Run a seed, with all of its faults or some of them."""
        faults = self._cast.faults(seed)
        numbers = range(len(faults)) if kept is None else kept
        return self.replay(seed, {number: faults[number] for number in numbers})

    def replay(self, seed: int, faults: Mapping[int, Fault]) -> Result:
        """Run a seed with faults that are not its own, each with a number."""
        asked = {
            "cast": asdict(self._cast),
            "seed": seed,
            "kept": list(faults),
            "faults": [asdict(fault) for fault in faults.values()],
        }
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asked).encode() + b"\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the process that played seed {seed} has died")
        return Result(**json.loads(answer))

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()


def play_all(
    cast: Cast,
    seeds: Iterable[int],
    jobs: int,
    on_result: Callable[[Result], bool],
    *,
    tree: Path | None = None,
) -> None:
    """Play seeds in several processes; `on_result` says whether to go on."""

    async def serve(player: Player, waiting: Iterator[int], scope: trio.CancelScope) -> None:
        for seed in waiting:
            result = await trio.to_thread.run_sync(player.play, seed, abandon_on_cancel=True)
            if not on_result(result):
                scope.cancel()

    async def run() -> None:
        waiting = iter(seeds)
        with ExitStack() as stack:
            async with trio.open_nursery() as nursery:
                for _ in range(jobs):
                    player = Player(cast, tree=tree)
                    stack.callback(player.close)
                    nursery.start_soon(serve, player, waiting, nursery.cancel_scope)

    trio.run(run)


def shrunk(cast: Cast, result: Result) -> Result:
    """The same failure with as few faults as are needed for it."""
    player = Player(cast)
    try:
        smaller = True
        while smaller:
            smaller = False
            for number in result.kept:
                kept = [each for each in result.kept if each != number]
                tried = player.play(result.seed, kept)
                if tried.violations:
                    result, smaller = tried, True
                    break
        return result
    finally:
        player.close()


def _played(asked: dict[str, Any]) -> Result:
    from gcs.simulate.cluster import trial

    said = asked["cast"]
    cast = Cast(
        said["gatherers"], said["helpers"], said["pages"], tuple(Kind(each) for each in said["kinds"])
    )
    faults = [_fault(**each) for each in asked["faults"]]
    outcome = trial.run(trial.Plot(asked["seed"], cast.gatherers, cast.helpers, cast.pages, faults))
    return Result(
        asked["seed"],
        asked["kept"],
        outcome.violations,
        outcome.simulated_s,
        outcome.requests,
        outcome.digest,
        outcome.trace,
    )


def _fault(kind: str, moment: str | None, **rest: Any) -> Fault:
    return Fault(kind=Kind(kind), moment=None if moment is None else Moment(moment), **rest)


def _tidy() -> None:
    """Let go of what a run has left; what stays, such as webs, need not be looked through the next time."""
    gc.collect()
    gc.freeze()


def main() -> None:
    """Play what is asked for, until there is no more."""
    from gcs.simulate.cluster import trial  # noqa: F401 - what is loaded now need not be looked through again

    gc.set_threshold(*_COLLECT)
    _tidy()
    for line in sys.stdin:
        print(json.dumps(asdict(_played(json.loads(line)))), flush=True)  # noqa: T201 - that is the answer
        _tidy()


if __name__ == "__main__":
    main()
