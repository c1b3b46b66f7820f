"""`gcs search` and `gcs index`."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from gcs.commandline import INTO, JSON, Command, Invocation, Remote, ask, examples, progress, show, tell


@click.command(
    cls=Command,
    epilog=examples(
        "gcs search 'grand central'",
        """gcs search 'title:"grand central" lang:en -host:example.org' --limit 20""",
        "gcs search --into crawl 'type:application/pdf budget' --json",
    ),
)
@click.argument("query")
@click.option(
    "--into",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    help="Search what is kept here, instead of asking gatherers.",
)
@click.option("--limit", type=click.IntRange(1, 100), default=10, show_default=True, help="So many, at most.")
@click.option("--page", type=click.IntRange(1), default=1, show_default=True, help="Which page of results.")
@JSON
@click.pass_context
def search(
    ctx: click.Context, *, query: str, directory: Path | None, limit: int, page: int, as_json: bool
) -> None:
    """Find pages by their words, the best first; also while they are being crawled.

    All words have to be there, in any form that they have in the page's language. "two words" follow each
    other, title: about: text: url: host: lang: and type: say where, -word leaves out, OR is one or the other.

    If redis.url is set the gatherers of the crawl are asked. Else, or with --into, a directory is looked
    into: "crawl" if none is named.
    """
    from gcs.index import presenting

    offset = presenting.offset_of(page, limit)
    invocation = ctx.ensure_object(Invocation)
    if directory is None and (invocation.monitor or invocation.load().config.redis.url):
        from gcs.operate import searching

        remote = Remote("GET", "search", {"q": query, "limit": limit, "page": page})
        question = partial(searching.search, text=query, limit=limit, offset=offset)
        ask(ctx, question, as_json=as_json, remote=remote)
    invocation.load()
    from gcs.index.searching import search_directory

    results = search_directory(directory or Path("crawl"), query, limit, offset)
    tell(presenting.answer(query, results, offset, limit), as_json=as_json)


@click.command(cls=Command, epilog=examples("gcs index --into crawl"))
@INTO
@JSON
@click.pass_context
def index(ctx: click.Context, *, directory: Path, as_json: bool) -> None:
    """Bring the index of a crawl on this machine up to date, for `gcs search`; also while it runs.

    A crawl with -s index.engine=embedded does this by itself.
    """
    ctx.ensure_object(Invocation).load()
    from gcs.index import making

    show(making.make(directory, progress), as_json=as_json)
