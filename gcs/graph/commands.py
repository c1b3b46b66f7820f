"""The commands about the graph of a crawl; what they do is imported when it is needed."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from gcs.commandline import JSON, Group, Invocation, examples

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gcs.config import Rank
    from gcs.graph.engine import Engine
    from gcs.simulate.report import Report

DIRECTORIES = click.option(
    "--into",
    "directories",
    type=click.Path(file_okay=False, path_type=Path),
    multiple=True,
    default=(Path("crawl"),),
    show_default="crawl",
    help="Where the crawl is kept; more than once for gatherers with directories of their own.",
)
SCRATCH = click.option(
    "--scratch",
    type=click.Path(file_okay=False, exists=True, path_type=Path),
    help="Where what needs no memory is kept meanwhile; the directory of the crawl if not given.",
)
SPARK_MASTER = click.option(
    "--spark-master", metavar="URL", help="Compute on this Spark cluster; short for two settings of [rank]."
)
_FORMATS: Final = ("parquet", "edges", "domains", "countries")


class Moment(click.ParamType[int]):
    """A time, as ISO 8601 has it; without a zone it is UTC."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Microseconds of Unix time."""
        if isinstance(value, int):
            return value
        try:
            at = datetime.fromisoformat(value)
        except ValueError:
            self.fail(f"{value!r} is not a time such as 2026-01-31 or 2026-01-31T12:00", param, ctx)
        return round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1e6)


UNTIL = click.option(
    "--until",
    "until_us",
    type=Moment(),
    metavar="TIME",
    help="The graph as it was then: 2026-01-31T12:00.",
)


def with_master(invocation: Invocation, spark_master: str | None, *settings: str) -> Invocation:
    """The same, on a Spark cluster if one is named, with settings."""
    master = (f"rank.spark_master={spark_master}", "rank.engine=spark") if spark_master else ()
    return replace(invocation, overrides=(*invocation.overrides, *master, *settings))


@contextmanager
def engine_of(settings: Rank, directories: tuple[Path, ...], scratch: Path | None) -> Iterator[Engine]:
    """An engine that knows the tables of a crawl."""
    from gcs.gatherer import parts
    from gcs.graph import engine as engines
    from gcs.graph import filed

    stores = [store for directory in directories for store in parts.parts(directory)]
    with engines.opened(settings, scratch or directories[0]) as engine:
        filed.load(engine, stores)
        yield engine


def shown(report: Report, *, as_json: bool, plot: Path | None = None) -> None:
    """Print a report, and draw it if that is wanted."""
    click.echo(report.to_json() if as_json else report.to_text())
    if plot:
        report.plot(plot)


@click.group(cls=Group)
def graph() -> None:
    """What the links of a crawl say: sizes, degrees, and files for others; also while it runs."""


@graph.command(epilog=examples("gcs graph stats --into example", "gcs graph stats --until 2026-01-31 --json"))
@DIRECTORIES
@UNTIL
@click.option(
    "--by",
    "period",
    type=click.Choice(["epoch", "day"]),
    default="day",
    show_default=True,
    help="How the crawl grew: by day, or by what operators had ruled.",
)
@click.option("--top", type=click.IntRange(1), default=20, show_default=True, help="So many pairs of places.")
@SPARK_MASTER
@SCRATCH
@JSON
@click.pass_obj
def stats(
    invocation: Invocation,
    *,
    directories: tuple[Path, ...],
    until_us: int | None,
    period: str,
    top: int,
    spark_master: str | None,
    scratch: Path | None,
    as_json: bool,
) -> None:
    """Nodes, edges and mean degrees, and links between domains and countries."""
    settings = with_master(invocation, spark_master).load().config.rank
    from gcs.graph import report

    with engine_of(settings, directories, scratch) as engine:
        shown(report.stats(engine, until_us=until_us, period=period, top=top), as_json=as_json)


@graph.command(epilog=examples("gcs graph degree --into example", "gcs graph degree in --plot in.svg --json"))
@click.argument("way", type=click.Choice(["out", "in"]), default="out")
@DIRECTORIES
@UNTIL
@click.option(
    "--plot", type=click.Path(dir_okay=False, path_type=Path), help="Draw it into this .png or .svg file too."
)
@SPARK_MASTER
@SCRATCH
@JSON
@click.pass_obj
def degree(
    invocation: Invocation,
    *,
    way: str,
    directories: tuple[Path, ...],
    until_us: int | None,
    plot: Path | None,
    spark_master: str | None,
    scratch: Path | None,
    as_json: bool,
) -> None:
    """How many pages name so many others, or are named by so many."""
    settings = with_master(invocation, spark_master).load().config.rank
    from gcs.graph import report
    from gcs.simulate.report import check_plot

    if plot:
        check_plot(plot)
    with engine_of(settings, directories, scratch) as engine:
        shown(report.degree(engine, way=way, until_us=until_us), as_json=as_json, plot=plot)


@graph.command(
    epilog=examples(
        "gcs graph export parquet -o graph", "gcs graph export edges -o edges.tsv", "gcs graph export domains"
    )
)
@click.argument("format", type=click.Choice(_FORMATS))
@DIRECTORIES
@UNTIL
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, allow_dash=True),
    default=Path("-"),
    help="Write to this.",
)
@SPARK_MASTER
@SCRATCH
@click.pass_obj
def export(
    invocation: Invocation,
    *,
    format: str,  # noqa: A002 - the argument's name
    directories: tuple[Path, ...],
    until_us: int | None,
    output: Path,
    spark_master: str | None,
    scratch: Path | None,
) -> None:
    """Write nodes and edges as Parquet, or edges, links between domains or countries as lines."""
    settings = with_master(invocation, spark_master).load().config.rank
    from gcs.graph import export as exporting

    is_stream = output == Path("-")
    if format == "parquet" and is_stream:
        raise click.UsageError("Parquet is written into a directory: name it with -o.")
    with engine_of(settings, directories, scratch) as engine:
        if format == "parquet":
            counts = exporting.to_parquet(engine, output, until_us)
            click.echo(f"{counts['nodes']:,} nodes, {counts['edges']:,} edges.", err=True)
            return
        with click.open_file(str(output), "wb") as stream:
            count = exporting.to_lines(engine, format, stream, until_us)
        click.echo(f"{count:,} lines.", err=True)
