"""`gcs simulate cluster`: disasters by the seed, and one command that repeats each."""

from __future__ import annotations

import itertools
import json
import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import click

from gcs.errors import ExitCode
from gcs.settings import duration_s
from gcs.simulate.cluster.campaign import Cast, Player, Result, play_all, shrunk
from gcs.simulate.cluster.faults import Kind
from gcs.simulate.cluster.trace import BROKEN

_SHOWN = 40


class _Range(click.ParamType[tuple[int, int]]):
    name = "FROM-TO"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        found = re.fullmatch(r"(\d+)-(\d+)", str(value))
        if found is None or int(found[1]) > int(found[2]):
            self.fail("two numbers such as 1-500 are wanted", param, ctx)
        return int(found[1]), int(found[2])


class _Kinds(click.ParamType[tuple[Kind, ...]]):
    name = "KIND,…"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value in ("all", "none"):
            return tuple(Kind) if value == "all" else ()
        try:
            return tuple(Kind(each) for each in str(value).split(","))
        except ValueError:
            self.fail(f"all, none, or some of: {', '.join(Kind)}", param, ctx)


class _Numbers(click.ParamType[tuple[int, ...]]):
    name = "N,…"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return tuple(int(each) for each in str(value).split(",") if each)
        except ValueError:
            self.fail("numbers such as 0,2 are wanted", param, ctx)


class Time(click.ParamType[float]):
    """A time as users write it."""

    name = "T"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """In seconds."""
        try:
            return duration_s(str(value))
        except ValueError:
            self.fail("a time such as 90s or 2h is wanted", param, ctx)


@click.command()
@click.option("--gatherers", type=click.IntRange(1, 50), default=4, show_default=True, help="Gatherers.")
@click.option("--helpers", type=click.IntRange(0, 50), default=2, show_default=True, help="Helpers.")
@click.option("--pages", type=click.IntRange(20, 100_000), default=200, show_default=True, help="Pages.")
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="The run to see.")
@click.option("--seeds", type=_Range(), help="Several runs instead; what fails is made short.")
@click.option("--for", "for_s", type=Time(), help="Runs from --seed on for so long, such as 10m.")
@click.option("--faults", type=_Kinds(), default="all", show_default=True, help="What may go wrong.")
@click.option("--only", type=_Numbers(), help="Of the faults of the seed, only these.")
@click.option("--jobs", type=click.IntRange(1), default=os.cpu_count() or 1, help="Runs at once.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def cluster(
    ctx: click.Context,
    *,
    gatherers: int,
    helpers: int,
    pages: int,
    seed: int,
    seeds: tuple[int, int] | None,
    for_s: float | None,
    faults: tuple[Kind, ...],
    only: tuple[int, ...] | None,
    jobs: int,
    as_json: bool,
) -> None:
    """Run a whole cluster in one process, on a clock that jumps, through disasters that a seed decides.

    The gatherers and helpers are the real ones. After each run it is checked that every promise of
    docs/reliability.md was kept. A seed that fails is shown with the faults that are needed for it, and
    with the command that repeats it.
    """
    cast = Cast(gatherers, helpers, pages, faults)
    if seeds is None and for_s is None:
        player = Player(cast)
        result = player.play(seed, only)
        player.close()
        _show(cast, result, as_json=as_json)
        ctx.exit(ExitCode.VIOLATED if result.violations else ExitCode.OK)
    failed = _campaign(cast, seed, seeds, for_s, jobs)
    if as_json:
        click.echo(json.dumps([asdict(each) for each in failed], indent=2))
    else:
        for each in failed:
            _show(cast, each, as_json=False)
    ctx.exit(ExitCode.VIOLATED if failed else ExitCode.OK)


def _campaign(
    cast: Cast, seed: int, seeds: tuple[int, int] | None, for_s: float | None, jobs: int
) -> list[Result]:
    """Play many seeds, and say how it goes; the failures, each made short."""
    began = time.monotonic()
    failures: list[Result] = []
    numbers = range(seeds[0], seeds[1] + 1) if seeds else None
    hidden = not sys.stderr.isatty()
    with click.progressbar(
        length=len(numbers) if numbers else round(for_s or 0), label="seeds", file=sys.stderr, hidden=hidden
    ) as bar:
        count, simulated_s = 0, 0.0

        def note(result: Result) -> bool:
            nonlocal count, simulated_s
            count += 1
            simulated_s += result.simulated_s
            if result.violations:
                failures.append(result)
                click.echo(f"\nseed {result.seed} FAILED: {result.violations[0]}", err=True)
            bar.update(1 if numbers else round(time.monotonic() - began) - bar.pos)
            return True

        play_all(cast, numbers or _until(seed, began + (for_s or 0.0)), jobs, note)
    took_s = max(time.monotonic() - began, 1e-9)
    click.echo(
        f"{count:,} runs in {took_s:.0f} s ({count / took_s:.2f} a second, {simulated_s / 3600:.1f} "
        f"simulated hours): {len(failures)} failed.",
        err=True,
    )
    return [shrunk(cast, each) for each in sorted(failures, key=lambda each: each.seed)]


def _until(seed: int, end: float) -> Iterator[int]:
    return itertools.takewhile(lambda _: time.monotonic() < end, itertools.count(seed))


def _show(cast: Cast, result: Result, *, as_json: bool) -> None:
    click.echo(json.dumps(asdict(result), indent=2) if as_json else told(cast, result))


def told(cast: Cast, result: Result) -> str:
    """What came of a run, in words: its faults, what was broken, the last events, how to repeat it."""
    faults = cast.faults(result.seed)
    outcome = "FAILED" if result.violations else "all promises kept"
    lines = [
        f"seed {result.seed}: {result.requests} requests in {result.simulated_s:.0f} simulated s, {outcome}",
        *(f"  fault {number}: {faults[number]}" for number in result.kept),
        *(f"  {violation}" for violation in result.violations),
    ]
    if result.violations:
        lines += [f"    {line}" for line in _last(result.trace)]
        lines.append(f"To repeat it: {_command(cast, result)}")
    return "\n".join(lines)


def _last(trace: Sequence[str]) -> Sequence[str]:
    """The last events: those before a promise was first seen to be broken, if that was before the end."""
    first = next((number for number, line in enumerate(trace) if BROKEN in line), len(trace) - 1)
    return trace[max(0, first + 1 - _SHOWN) : first + 1]


def _command(cast: Cast, result: Result) -> str:
    words = [f"gcs simulate cluster --seed {result.seed}"]
    usual = Cast()
    words += [
        f"--{name} {getattr(cast, name)}"
        for name in ("gatherers", "helpers", "pages")
        if getattr(cast, name) != getattr(usual, name)
    ]
    if tuple(cast.kinds) != tuple(Kind):
        words.append(f"--faults {','.join(cast.kinds) or 'none'}")
    if len(result.kept) < len(cast.faults(result.seed)):
        words.append(f"--only {','.join(map(str, result.kept)) or ','}")
    return " ".join(words)
