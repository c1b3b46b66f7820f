"""The command: plants bugs one after the other, and says how many seeds it took to find each."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import click

from gcs.simulate.cluster.campaign import Cast, Result, play_all
from tests.planted import Planted, copied, planted
from tests.soak.progress import Progress


@click.command()
@click.option(
    "--only",
    multiple=True,
    type=click.Choice([each.name for each in planted()]),
    metavar="BUG",
    help="The name of a bug, as its patch has it; may be repeated.",
)
@click.option("--seeds", type=click.IntRange(1), default=2000, show_default=True, help="To try at most.")
@click.option("--first", type=click.IntRange(0), default=1, show_default=True, help="The seed to begin with.")
@click.option("--gatherers", type=click.IntRange(2), default=3, show_default=True, help="Of each cluster.")
@click.option("--pages", type=click.IntRange(20), default=80, show_default=True, help="Of each web.")
@click.option("--jobs", type=click.IntRange(1), default=os.cpu_count() or 1, help="Runs at once.")
def main(*, only: Sequence[str], seeds: int, first: int, gatherers: int, pages: int, jobs: int) -> None:
    """Plant bugs, one at a time, and see after how many seeds the simulation finds each."""
    chosen = [each for each in planted() if not only or each.name in only]
    cast = Cast(gatherers=gatherers, pages=pages)
    lines = []
    with closing(Progress(every_s=10.0)) as progress:
        for each in chosen:
            tried, found = _sought(each, cast, range(first, first + seeds), jobs, progress)
            sign = found.violations[0].split("\n")[0][:100] if found else ""
            lines.append((each.name, str(tried) if found else f"not in {tried}", sign))
            progress.say(" | ".join(lines[-1]))
    width = max(len(name) for name, _, _ in lines)
    click.echo(f"\n{'bug':{width}}  seeds  found by")
    for name, count, sign in lines:
        click.echo(f"{name:{width}}  {count:>5}  {sign}")
    sys.exit(any(not sign for _, _, sign in lines))


def _sought(
    bug: Planted, cast: Cast, seeds: range, jobs: int, progress: Progress
) -> tuple[int, Result | None]:
    """How many seeds were tried until the bug was found, and what showed it; None if nothing did."""
    found: list[Result] = []
    tried = 0

    def note(result: Result) -> bool:
        nonlocal tried
        tried += 1
        progress.show(f"{bug.name}: {tried:,} of {len(seeds):,} seeds", time.monotonic())
        if result.violations:
            found.append(result)
        return not found

    with tempfile.TemporaryDirectory(prefix="gcs-planted-") as place:
        tree = copied(Path(place))
        bug.plant(tree)
        play_all(cast, seeds, jobs, note, tree=tree)
    return tried, found[0] if found else None


if __name__ == "__main__":
    main()
