"""`gcs helper`: help a crawl with this machine, and invite others to."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from gcs.commandline import JSON, CommandGroup, Invocation, ask, examples, show

_INVITATION = click.option(
    "--invitation",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file that `gcs helper invite` made.",
)
_BY_HAND = click.option(
    "--by-hand",
    is_flag=True,
    help="Only say what the server has to be told; for clusters and managed servers.",
)


@click.group(
    cls=CommandGroup,
    epilog=examples("gcs helper --invitation desk7.invitation --hours 20:00-07:00 --when-idle 10m"),
)
@_INVITATION
@click.option("--hours", metavar="HOURS", help="When to help, such as 20:00-07:00 or mon-fri 20:00-07:00.")
@click.option("--when-idle", metavar="T", help="Help when nobody has used this machine for so long: 10m.")
@click.option(
    "--on-battery",
    type=click.Choice(["yes", "no"]),
    default="no",
    show_default=True,
    help="Whether to help on battery.",
)
@click.option("--max-bandwidth", metavar="SIZE", help="Bytes a second at most, such as 500KB.")
@click.option("--max-cpu", type=float, metavar="PERCENT", help="Of one processor at most.")
@click.option("--max-memory", metavar="SIZE", help="Memory at most, such as 300MiB.")
@click.option("--at-once", type=click.IntRange(1, 1000), metavar="N", help="Hosts that are asked at once.")
@click.pass_context
def helper(
    ctx: click.Context,
    *,
    invitation: Path | None,
    hours: str | None,
    when_idle: str | None,
    on_battery: str,
    max_bandwidth: str | None,
    max_cpu: float | None,
    max_memory: str | None,
    at_once: int | None,
) -> None:
    """Help a crawl with this machine while it is idle: fetch and summarise pages, and keep nothing."""
    if ctx.invoked_subcommand is not None:
        return
    loaded = ctx.ensure_object(Invocation).load()
    from gcs.core.consent import Terms
    from gcs.helper import daemon
    from gcs.helper.invitation import Invitation

    try:
        terms = Terms.read(
            hours=hours,
            when_idle=when_idle,
            on_battery=on_battery == "yes",
            max_bandwidth=max_bandwidth,
            max_cpu=max_cpu,
            max_memory=max_memory,
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    invited = Invitation.read(daemon.invitation_path(invitation))
    slots = at_once or min(loaded.config.fetch.concurrency, daemon.MOST_SLOTS)
    ctx.exit(daemon.run(loaded.config, invited, daemon.Offer(terms, slots)))


@helper.command(
    "invite", epilog=examples("gcs helper invite desk7 --canary http://intranet.example/robots.txt")
)
@click.argument("name")
@click.option("--site", default="", help="The site where it helps; needed if there are several.")
@click.option(
    "--into",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file to write; NAME.invitation if not given.",
)
@click.option("--url", default="", help="Where helpers reach the server, if not where gatherers do.")
@click.option("--canary", default="", help="A page by which helpers tell the web from a captive portal.")
@_BY_HAND
@JSON
@click.pass_context
def helper_invite(
    ctx: click.Context,
    *,
    name: str,
    site: str,
    into: Path | None,
    url: str,
    canary: str,
    by_hand: bool,
    as_json: bool,
) -> None:
    """Invite a machine to help: make a user with the least rights, and a file to copy there."""
    from gcs.helper.invitation import SUFFIX
    from gcs.operate import inviting

    wanted = inviting.Wanted(name, site, into or Path(f"{name}{SUFFIX}"), url, canary, by_hand)
    ask(ctx, partial(inviting.invite, wanted=wanted), as_json=as_json)


@helper.command("revoke", epilog=examples("gcs helper revoke desk7"))
@click.argument("name")
@_BY_HAND
@JSON
@click.pass_context
def helper_revoke(ctx: click.Context, *, name: str, by_hand: bool, as_json: bool) -> None:
    """End an invitation at once."""
    from gcs.operate import inviting

    ask(ctx, partial(inviting.revoke, name=name, by_hand=by_hand), as_json=as_json)


@helper.command("list")
@JSON
@click.pass_context
def helper_list(ctx: click.Context, *, as_json: bool) -> None:
    """Show who is invited, and who is there."""
    from gcs.operate import inviting

    ask(ctx, inviting.listed, as_json=as_json)


def _tell_helper(ctx: click.Context, what: str, *, as_json: bool) -> None:
    import trio

    from gcs.helper import pause as control

    ctx.ensure_object(Invocation).load()
    said = trio.run(control.tell, what)
    show({"helps": said.may_work, "why": said.sentence, "process": said.pid}, as_json=as_json)


@helper.command("pause")
@JSON
@click.pass_context
def helper_pause(ctx: click.Context, *, as_json: bool) -> None:
    """Have the helper on this machine stop at once, until it is resumed."""
    _tell_helper(ctx, "pause", as_json=as_json)


@helper.command("resume")
@JSON
@click.pass_context
def helper_resume(ctx: click.Context, *, as_json: bool) -> None:
    """Let the helper on this machine go on."""
    _tell_helper(ctx, "resume", as_json=as_json)


@helper.command("status")
@JSON
@click.pass_context
def helper_status(ctx: click.Context, *, as_json: bool) -> None:
    """Say whether the helper on this machine works, and why."""
    _tell_helper(ctx, "status", as_json=as_json)


@helper.command("pack", epilog=examples("gcs helper pack --into gcs-helper"))
@click.option(
    "--into",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("gcs-helper"),
    show_default=True,
    help="The file to write.",
)
@click.pass_context
def helper_pack(ctx: click.Context, *, into: Path) -> None:
    """Write the helper as one file, for machines with the same system and Python as this one."""
    ctx.ensure_object(Invocation).load()
    from gcs.helper import pack

    size = pack.pack(into)
    click.echo(
        f"{into} has {size / 1e6:.0f} MB. Copy it with an invitation, and run: ./{into.name} --invitation …"
    )
