"""`gcs rank`; what it does is imported when it is needed."""

from __future__ import annotations

from pathlib import Path

import click

from gcs.commandline import JSON, Command, Invocation, examples, tell
from gcs.graph.commands import DIRECTORIES, SCRATCH, SPARK_MASTER, with_master


@click.command(
    cls=Command,
    epilog=examples(
        "gcs rank --into example",
        "gcs rank --into /data/one --into /data/two -s redis.url=redis://redis.example",
        "gcs rank --into example --no-deliver --by pagerank -o ranking",
    ),
)
@DIRECTORIES
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    help='The directory for the table, as Parquet; "ranking" in that of the crawl if not given.',
)
@click.option(
    "--by",
    type=click.Choice(["in-degree", "pagerank", "domain"]),
    help="What new URLs are ranked by; short for rank.by.",
)
@click.option(
    "--deliver/--no-deliver",
    default=True,
    show_default=True,
    help="Give the priorities to the gatherers that own the URLs, or to their stores if none runs.",
)
@click.option(
    "--top", type=click.IntRange(0), default=10, show_default=True, help="Show so many of the best."
)
@click.option(
    "--give-way",
    is_flag=True,
    help="Let others have processor time first, and be the first to end where memory is short.",
)
@SPARK_MASTER
@SCRATCH
@JSON
@click.pass_obj
@click.pass_context
def rank(
    ctx: click.Context,
    invocation: Invocation,
    *,
    directories: tuple[Path, ...],
    output: Path | None,
    by: str | None,
    deliver: bool,
    top: int,
    give_way: bool,
    spark_master: str | None,
    scratch: Path | None,
    as_json: bool,
) -> None:
    """Rank the URLs of a crawl by their links, and let gatherers visit them in that order.

    What was never visited is ranked by P_new, its in-degree; what was, by P_old: how much it changed, how
    long ago it was visited, and its degrees. If redis.url is set, gatherers that run get the priorities over
    Redis; else the stores in the directories do, and no gatherer may have them open.
    """
    overrides = (f"rank.by={by}",) if by else ()
    invocation = with_master(invocation, spark_master, *overrides)
    from gcs import memory
    from gcs.gatherer import session
    from gcs.rank import service

    if give_way:
        memory.give_way()

    config = invocation.load_again(session.settings_of(directories[0])).config
    request = service.Request(
        directories, output or directories[0] / "ranking", scratch, deliver=deliver, top=top
    )
    answer = service.rank(config, request)
    tell(answer, as_json=as_json)
    ctx.exit(answer.code)
