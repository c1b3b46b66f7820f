"""The commands of operators; what they do is in the other modules here, imported when it is needed."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any, Final

import click

from gcs.commandline import (
    JSON,
    WITHIN,
    Command,
    Duration,
    Group,
    Invocation,
    Remote,
    ask,
    examples,
    progress,
    show,
)
from gcs.operate.ruling_commands import block, delay, pause, resume, unblock


@click.command(
    cls=Command,
    epilog=examples("gcs why https://example.org/page", "gcs why https://example.org/page --into crawl"),
)
@click.argument("url")
@click.option(
    "--into",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    help="Look into the crawl that is kept here, instead of asking gatherers.",
)
@JSON
@click.pass_context
def why(ctx: click.Context, *, url: str, directory: Path | None, as_json: bool) -> None:
    """Say where a URL stands in a crawl, what it waits for, and which rule decided; also while it runs.

    If redis.url is set the gatherers of the crawl are asked. Else, or with --into, a directory is looked
    into: "crawl" if none is named.
    """
    invocation = ctx.ensure_object(Invocation)
    if directory is None and (invocation.monitor or invocation.load().config.redis.url):
        from gcs.operate import inquiry as inquiring

        remote = Remote("GET", "why", {"url": url})
        ask(ctx, partial(inquiring.why, text=url), as_json=as_json, remote=remote)
    from gcs import inquiry
    from gcs.gatherer import session

    place = directory or Path("crawl")
    loaded = invocation.load_again(session.settings_of(place))
    show(inquiry.why(loaded.config, place, url), as_json=as_json)


@click.command(
    cls=Command, epilog=examples("gcs status", "gcs status --watch", "gcs status --json | jq .alarms")
)
@click.option("--watch", is_flag=True, help="Show it every second, until Ctrl-C.")
@JSON
@click.pass_context
def status(ctx: click.Context, *, watch: bool, as_json: bool) -> None:
    """Say whether the crawl is finished, crawling, paused, waiting or stuck, and why."""
    if not watch:
        from gcs.operate import status as looking

        ask(ctx, looking.status, as_json=as_json, remote=Remote("GET", "status"))
    from gcs.operate import asking, watching

    kind = watching.Objects if as_json else watching.Terminal if sys.stdout.isatty() else watching.Lines
    invocation = ctx.ensure_object(Invocation)
    if invocation.monitor:
        raise click.UsageError("--watch looks at Redis: leave --monitor out, or open the monitor's page.")
    config = invocation.load().config
    asking.ask(config, partial(watching.watch, display=kind(sys.stdout)))


@click.command(cls=Command)
@JSON
@click.pass_context
def nodes(ctx: click.Context, *, as_json: bool) -> None:
    """List the gatherers, with what they do."""
    from gcs.operate import status as looking

    ask(ctx, looking.nodes, as_json=as_json, remote=Remote("GET", "nodes"))


@click.command(cls=Command)
@JSON
@click.pass_context
def queues(ctx: click.Context, *, as_json: bool) -> None:
    """Show what waits at each gatherer, and for whom."""
    from gcs.operate import status as looking

    ask(ctx, looking.queues, as_json=as_json, remote=Remote("GET", "queues"))


@click.command(cls=Command, epilog=examples("gcs superpages --top 10"))
@click.option(
    "--top",
    type=click.IntRange(1),
    metavar="N",
    default=40,
    show_default=True,
    help="So many of each, at most.",
)
@JSON
@click.pass_context
def superpages(ctx: click.Context, *, top: int, as_json: bool) -> None:
    """Show the ranges of the plan in force and its heaviest superpages, with their owners."""
    from gcs.operate import ownership

    remote = Remote("GET", "superpages", {"top": top})
    ask(ctx, partial(ownership.superpages, top=top), as_json=as_json, remote=remote)


@click.command(cls=Command, epilog=examples("gcs host www.example.org"))
@click.argument("name", metavar="HOST")
@JSON
@click.pass_context
def host(ctx: click.Context, *, name: str, as_json: bool) -> None:
    """Say which gatherer owns a host, and what each one knows of it."""
    from gcs.operate import ownership

    remote = Remote("GET", "host", {"name": name})
    ask(ctx, partial(ownership.host, name=name), as_json=as_json, remote=remote)


@click.command(
    cls=Command,
    epilog=examples("gcs rebalance --dry-run", "gcs rebalance --reason 'new disks' --timeout 10m"),
)
@click.option("--reason", default="", metavar="TEXT", help="Why; it is kept with the plan.")
@click.option("--dry-run", is_flag=True, help="Only say what a new plan would be.")
@click.option(
    "--partition",
    "method",
    type=click.Choice(["I", "II", "auto"]),
    help="How to share superpages out; as configured if not given.",
)
@WITHIN
@JSON
@click.pass_context
def rebalance(
    ctx: click.Context, *, reason: str, dry_run: bool, method: str | None, within_s: float, as_json: bool
) -> None:
    """Share the web out anew, and say what moves."""
    from gcs.operate import planning

    values: dict[str, Any] = {"method": method or "", "within_s": within_s}
    if dry_run:
        question = partial(planning.foresee, **values)
        remote = Remote("POST", "plans/dry-run", values)
    else:
        values["reason"] = reason
        question = partial(planning.rebalance, **values, tell=progress)
        remote = Remote("POST", "rebalance", values)
    ask(ctx, question, as_json=as_json, remote=remote)


@click.group(cls=Group)
def seed() -> None:
    """Give the crawl URLs to begin with, or see which still wait."""


@seed.command(
    "add", epilog=examples("gcs seed add https://example.org/", "sort urls.txt | gcs seed add -f -")
)
@click.argument("urls", nargs=-1, metavar="[URL]...")
@click.option(
    "-f",
    "--file",
    "files",
    multiple=True,
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    help="A file with more URLs, one to a line; - is the standard input.",
)
@JSON
@click.pass_context
def seed_add(ctx: click.Context, *, urls: tuple[str, ...], files: tuple[Path, ...], as_json: bool) -> None:
    """Give the crawl URLs to begin with, also while it runs or after it has finished."""
    from gcs.gatherer.seeds import read_seeds
    from gcs.operate import work

    every = [*urls, *(url for file in files for url in read_seeds(file))]
    remote = Remote("POST", "seeds", {"urls": every})
    ask(ctx, partial(work.seed, urls=every), as_json=as_json, remote=remote)


@seed.command("list")
@JSON
@click.pass_context
def seed_list(ctx: click.Context, *, as_json: bool) -> None:
    """List the seeds that no gatherer has taken yet."""
    from gcs.operate import work

    ask(ctx, work.seeds, as_json=as_json, remote=Remote("GET", "seeds"))


@click.command(
    cls=Command, epilog=examples("gcs forget www.example.org", "gcs forget http://example.org/old")
)
@click.argument("text", metavar="HOST|URL")
@WITHIN
@JSON
@click.pass_context
def forget(ctx: click.Context, *, text: str, within_s: float, as_json: bool) -> None:
    """Forget all URLs of a host, or a URL and what is below it, as if they had never been known."""
    from gcs.operate import work

    ask(ctx, partial(work.forget, text=text, within_s=within_s), as_json=as_json)


@click.command(
    cls=Command, epilog=examples("gcs retry --status 5xx", "gcs retry --status 404 --host www.example.org")
)
@click.option("--status", required=True, metavar="STATUS", help="Such as 404, 5xx, or -5001: blocked.")
@click.option("--host", default="", metavar="HOST", help="Of this host only.")
@WITHIN
@JSON
@click.pass_context
def retry(ctx: click.Context, *, status: str, host: str, within_s: float, as_json: bool) -> None:
    """Queue again what was answered with some status."""
    from gcs.operate import work

    ask(ctx, partial(work.retry, status=status, host=host, within_s=within_s), as_json=as_json)


@click.command(cls=Command, epilog=examples("gcs drain alpha --wait --timeout 30m"))
@click.argument("name", metavar="NODE")
@click.option("--wait", is_flag=True, help="Wait until it has left.")
@click.option(
    "--timeout",
    "within_s",
    type=Duration(),
    metavar="T",
    help="With --wait: for so long at most, such as 10m. It goes on leaving after that.",
)
@JSON
@click.pass_context
def drain(ctx: click.Context, *, name: str, wait: bool, within_s: float | None, as_json: bool) -> None:
    """Let a gatherer, by name or id, give all it has to the others, and leave."""
    if within_s is not None and not wait:
        raise click.UsageError("--timeout is how long to wait: give --wait too.")
    from gcs.operate import work

    question = partial(work.drain, name=name, wait=wait, within_s=within_s, tell=progress)
    ask(ctx, question, as_json=as_json, remote=None if wait else Remote("POST", "drain", {"name": name}))


@click.command(cls=Command)
@click.option("--reasons", is_flag=True, help="Count also why URLs were dropped; each of them is looked at.")
@JSON
@click.pass_context
def audit(ctx: click.Context, *, reasons: bool, as_json: bool) -> None:
    """Add up the ledgers of all gatherers: whether every URL is accounted for."""
    from gcs.operate import ledger

    ask(ctx, partial(ledger.audit, by_reason=reasons), as_json=as_json)


def _changeable(_: click.Context, __: click.Parameter, begun: str) -> list[str]:
    """The settings that can be changed at run time, for a shell."""
    from gcs.gatherer.reload import AT_ONCE

    return sorted(name for name in AT_ONCE if name.startswith(begun))


def _changeable_values(*asked: Any) -> list[str]:
    return [f"{name}=" for name in _changeable(*asked)]


_FOR = click.option("--for", "gatherer", default="", metavar="GATHERER", help="At one gatherer only.")


@click.command(
    "set",
    cls=Command,
    epilog=examples(
        "gcs config set fetch.delay=2s", "gcs config set fetch.delay=5s rebalance.cooldown=5m --for alpha"
    ),
)
@click.argument(
    "texts", nargs=-1, required=True, metavar="SECTION.KEY=VALUE...", shell_complete=_changeable_values
)
@_FOR
@JSON
@click.pass_context
def config_set(ctx: click.Context, *, texts: tuple[str, ...], gatherer: str, as_json: bool) -> None:
    """Change settings of the gatherers that run; it wins over their files, and lasts until it is unset."""
    from gcs.operate import setting

    ask(ctx, partial(setting.set_, texts=texts, gatherer=gatherer), as_json=as_json)


@click.command(
    "unset",
    cls=Command,
    epilog=examples("gcs config unset fetch.delay", "gcs config unset fetch.delay --for alpha"),
)
@click.argument("names", nargs=-1, required=True, metavar="SECTION.KEY...", shell_complete=_changeable)
@_FOR
@JSON
@click.pass_context
def config_unset(ctx: click.Context, *, names: tuple[str, ...], gatherer: str, as_json: bool) -> None:
    """Let gatherers have again what their own configurations say."""
    from gcs.operate import setting

    ask(ctx, partial(setting.unset, names=names, gatherer=gatherer), as_json=as_json)


COMMANDS: Final = (
    why,
    status,
    nodes,
    queues,
    superpages,
    host,
    rebalance,
    seed,
    pause,
    resume,
    delay,
    block,
    unblock,
    forget,
    retry,
    drain,
    audit,
)
