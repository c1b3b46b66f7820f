"""`gcs profile`."""

from __future__ import annotations

from functools import partial

import click

from gcs.commandline import JSON, Group, ask, examples
from gcs.profiles.records import KINDS


@click.group(cls=Group)
def profile() -> None:
    """Save queries, and have new and changed pages that fit them delivered."""


@profile.command(
    "add",
    epilog=examples(
        "gcs profile add trains 'title:railway lang:en' --to webhook https://example.org/hook",
        """gcs profile add trains '"grand central"' --to atom /srv/www/trains.xml""",
        "gcs profile add trains 'railway OR station' --to email reader@example.org",
    ),
)
@click.argument("name")
@click.argument("query")
@click.option(
    "--to",
    "to",
    type=(click.Choice(KINDS), str),
    required=True,
    metavar=f"[{'|'.join(KINDS)}] TARGET",
    help="Where matches go: a file on the machines of the gatherers, a URL, or an address for mail.",
)
@JSON
@click.pass_context
def profile_add(ctx: click.Context, *, name: str, query: str, to: tuple[str, str], as_json: bool) -> None:
    """Match a query, as `gcs search` has it, against every page that is fetched from now on."""
    from gcs.operate import profiles

    kind, target = to
    ask(ctx, partial(profiles.add, name=name, query=query, kind=kind, target=target), as_json=as_json)


@profile.command("list")
@JSON
@click.pass_context
def profile_list(ctx: click.Context, *, as_json: bool) -> None:
    """List all profiles, and how their deliveries go."""
    from gcs.operate import profiles

    ask(ctx, profiles.listed, as_json=as_json)


@profile.command("show")
@click.argument("name")
@JSON
@click.pass_context
def profile_show(ctx: click.Context, *, name: str, as_json: bool) -> None:
    """Say all about one profile, also why its matches cannot be delivered."""
    from gcs.operate import profiles

    ask(ctx, partial(profiles.show, name=name), as_json=as_json)


@profile.command("retry")
@click.argument("name")
@JSON
@click.pass_context
def profile_retry(ctx: click.Context, *, name: str, as_json: bool) -> None:
    """Try at once to deliver what waits, also for a profile that was set aside."""
    from gcs.operate import profiles

    ask(ctx, partial(profiles.retry, name=name), as_json=as_json)


@profile.command("remove")
@click.argument("name")
@JSON
@click.pass_context
def profile_remove(ctx: click.Context, *, name: str, as_json: bool) -> None:
    """Let a profile go, with what waits for it."""
    from gcs.operate import profiles

    ask(ctx, partial(profiles.remove, name=name), as_json=as_json)
