"""`gcs simulate`: one command per experiment, made from the experiment's own parameters.

An experiment's numeric parameters become options with the same names and defaults, so that a command line
can vary what Python can. Modules are imported when their command runs: numpy takes a while.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import click

from gcs.errors import UsageError
from gcs.simulate.report import Report, check_plot

EXPERIMENTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "twoma": "Sites that move between access points by learning automata (000, figures 2 to 4).",
        "oma": "Pages that find their partners by learning automata (001, figures 3 to 6).",
        "placement": "All five placements and uniform, on the same environments.",
        "distribution": "Hash, proximity and superpages with nodes in several regions (002).",
        "partition": "Partition I, improved, against the LP bound (003, section 5.3).",
        "frontier": "The size of the frontier and other whole-web estimates (004, sections 5.2 and 5.3).",
        "freshness": "How current copies stay, by policy of revisits (004, section 4.3.3).",
        "hotpages": "Queue and crossing links with and without hot-page tables (003, section 6).",
    }
)
CLUSTER: Final = "cluster"
# What a parameter means, where its name alone does not say.
HELP: Final[Mapping[str, str]] = MappingProxyType(
    {
        "arm_counts": "Numbers of access points to compare.",
        "changes": "How often the best arms change.",
        "connections": "Connections of a gatherer.",
        "countries": "Countries with a gatherer each.",
        "domains": "Domains in each country.",
        "hours": "Hours of crawling.",
        "more_countries": "Countries of the second table.",
        "object_counts": "Numbers of pages to compare.",
        "proxy": "Seconds that the proxy of the second gatherer adds.",
        "replan": "Seconds between plans of the superpages.",
        "regions": "Regions that gatherers and servers are in.",
        "server": "Seconds that a server takes to answer, on average.",
        "site_counts": "Numbers of web sites to compare.",
        "superpages": "Superpages at most.",
        "tables": "Sizes of the hot-page table, as parts of all pages.",
        "sites": "Web sites.",
        "arms": "Access points.",
        "states": "States of an arm.",
        "repeats": "Repeats to average over.",
        "runs": "Crawler runs.",
        "period": "Runs between changes of the best arms.",
        "slowdown": "How much longer a site takes outside its best arm.",
        "noise": "Standard deviation of a duration, as a part of its mean.",
        "sigma": "Sigma of the log-normal sizes.",
        "objects": "Pages.",
        "limit": "Iterations after which a repeat is given up.",
        "gatherers": "Gatherers.",
        "pages": "Pages of a site, or of the graph.",
        "degree": "Mean number of links of a page.",
        "every": "Days after which a page is visited again, on average.",
        "exponent": "Exponent of the distribution of in-degrees.",
        "local": "Part of the links that stay within their site.",
    }
)


class Experiments(click.Group):
    """The group of all experiments, in the order of the papers."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Their names, and that of the simulated cluster."""
        return [*EXPERIMENTS, CLUSTER]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of one."""
        if cmd_name == CLUSTER:
            return importlib.import_module("gcs.simulate.cluster.command").cluster  # type: ignore[no-any-return]
        return Experiment(cmd_name) if cmd_name in EXPERIMENTS else None


class Experiment(click.Command):
    """The command of one experiment, whose module is imported when it is called, not when it is listed."""

    def __init__(self, name: str) -> None:
        super().__init__(name, help=EXPERIMENTS[name], short_help=EXPERIMENTS[name])
        self._name = name

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Its options, known once the experiment is."""
        experiment: Callable[..., Report] = importlib.import_module(f"gcs.simulate.{self._name}").run
        parameters = inspect.signature(experiment).parameters.values()
        self.params = [_option(p, kind) for p in parameters if (kind := _kind(p.default))]
        self.params += [
            click.Option(
                ["--seed"],
                type=click.IntRange(0),
                metavar="N",
                default=1,
                show_default=True,
                help="Where chance begins.",
            ),
            click.Option(["--json", "as_json"], is_flag=True, help="Print everything as JSON."),
            click.Option(
                ["--plot"],
                type=click.Path(dir_okay=False, path_type=Path),
                help="Draw the figures: .png or .svg.",
            ),
        ]
        self.callback = partial(_show, self._name, experiment)
        return super().get_params(ctx)


def _show(
    name: str,
    experiment: Callable[..., Report],
    *,
    seed: int,
    as_json: bool,
    plot: Path | None,
    **parameters: Any,
) -> None:
    if plot is not None:
        check_plot(plot)
    report = _run(name, experiment, seed, parameters)
    if plot is not None:
        report.plot(plot)
    click.echo(report.to_json() if as_json else report.to_text())


class _List(click.ParamType[tuple[Any, ...]]):
    """Several values of one kind, with commas between them."""

    def __init__(self, kind: click.ParamType[Any]) -> None:
        self._kind = kind
        self.name = f"{kind.name} list"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Each of them, as its own kind has it."""
        parts = value.split(",") if isinstance(value, str) else value
        return tuple(self._kind.convert(part, param, ctx) for part in parts)


_KINDS: Final[Mapping[type, click.ParamType[Any]]] = MappingProxyType(
    {int: click.IntRange(1), float: click.FloatRange(0), str: click.STRING}
)


def _kind(default: object) -> click.ParamType[Any] | None:
    """What an option with this default takes; None for a parameter that only Python can give."""
    if isinstance(default, tuple):
        kinds = {type(value) for value in default}
        only = _KINDS.get(kinds.pop()) if len(kinds) == 1 else None
        return None if only is None else _List(only)
    return _KINDS.get(type(default))


def _option(parameter: inspect.Parameter, kind: click.ParamType[Any]) -> click.Option:
    flag = "--" + parameter.name.replace("_", "-")
    several = isinstance(parameter.default, tuple)
    first = parameter.default[0] if several else parameter.default
    one = "NAME" if isinstance(first, str) else "N"
    return click.Option(
        [flag, parameter.name],
        type=kind,
        metavar=f"{one},…" if several else one,
        default=",".join(map(str, parameter.default)) if several else parameter.default,
        show_default=True,
        help=HELP.get(parameter.name),
    )


def _run(name: str, experiment: Callable[..., Report], seed: int, parameters: Mapping[str, Any]) -> Report:
    """Run it with a progress bar on a terminal; numbers that make no sense are one sentence."""
    hidden = not sys.stderr.isatty()
    with click.progressbar(length=1000, label=name, file=sys.stderr, hidden=hidden) as bar:
        shown = 0

        def progress(part: float) -> None:
            nonlocal shown
            steps = int(part * 1000) - shown
            if steps > 0:
                shown += steps
                bar.update(steps)

        try:
            return experiment(seed=seed, progress=progress, **parameters)
        except ValueError as error:
            raise UsageError(f"{name} cannot be run like this: {error}") from error
