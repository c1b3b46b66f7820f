"""The commands that rule: pause, resume, delay, block and unblock."""

from __future__ import annotations

from functools import partial

import click

from gcs.commandline import JSON, Command, Duration, Remote, ask, examples


def _name_of(what: str, name: str | None) -> str:
    """The name of what is paused or resumed: the crawl has none, the others need one."""
    if (what == "crawl") != (name is None):
        needs = "takes no name" if what == "crawl" else "needs a name"
        raise click.UsageError(f"{what} {needs}.")
    return name or ""


_WHAT = click.argument("what", type=click.Choice(["crawl", "gatherer", "host"]), default="crawl")
_NAME = click.argument("name", required=False)


@click.command(
    cls=Command, epilog=examples("gcs pause", "gcs pause gatherer alpha", "gcs pause host www.example.org")
)
@_WHAT
@_NAME
@JSON
@click.pass_context
def pause(ctx: click.Context, *, what: str, name: str | None, as_json: bool) -> None:
    """Begin no more fetches: of the whole crawl, of a gatherer, or of a host."""
    from gcs.operate import ruling

    whom = {"what": what, "name": _name_of(what, name)}
    question = partial(ruling.pause, what=what, name=whom["name"], by=ruling.operator())
    ask(ctx, question, as_json=as_json, remote=Remote("POST", "pause", whom))


@click.command(
    cls=Command, epilog=examples("gcs resume", "gcs resume gatherer alpha", "gcs resume host www.example.org")
)
@_WHAT
@_NAME
@JSON
@click.pass_context
def resume(ctx: click.Context, *, what: str, name: str | None, as_json: bool) -> None:
    """Go on with what was paused; the whole crawl includes all gatherers."""
    from gcs.operate import ruling

    whom = {"what": what, "name": _name_of(what, name)}
    question = partial(ruling.resume, what=what, name=whom["name"])
    ask(ctx, question, as_json=as_json, remote=Remote("POST", "resume", whom))


@click.command(
    cls=Command, epilog=examples("gcs delay www.example.org 10s", "gcs delay www.example.org --as-configured")
)
@click.argument("host", metavar="HOST")
@click.argument("delay_s", type=Duration(), metavar="[T]", required=False)
@click.option("--as-configured", is_flag=True, help="Set no delay for it any more.")
@JSON
@click.pass_context
def delay(
    ctx: click.Context, *, host: str, delay_s: float | None, as_configured: bool, as_json: bool
) -> None:
    """Ask a host less often than is configured: at most once in a time such as 10s."""
    if (delay_s is None) != as_configured:
        raise click.UsageError("give either a time such as 10s, or --as-configured.")
    from gcs.operate import ruling

    remote = Remote("POST", "delay", {"host": host, "delay_s": delay_s})
    ask(ctx, partial(ruling.delay, host=host, delay_s=delay_s), as_json=as_json, remote=remote)


@click.command(
    cls=Command,
    epilog=examples("gcs block www.example.org --for 2d", "gcs block http://example.org/calendar"),
)
@click.argument("text", metavar="HOST|URL")
@click.option("--for", "for_s", type=Duration(), metavar="T", help="For so long, such as 2d.")
@JSON
@click.pass_context
def block(ctx: click.Context, *, text: str, for_s: float | None, as_json: bool) -> None:
    """Fetch nothing of a host, or of a URL and what is below it; without --for, its URLs are dropped."""
    from gcs.operate import ruling

    remote = Remote("POST", "block", {"what": text, "for_s": for_s})
    ask(ctx, partial(ruling.block, text=text, for_s=for_s), as_json=as_json, remote=remote)


@click.command(
    cls=Command,
    epilog=examples("gcs unblock www.example.org", "gcs retry --status=-5001 --host www.example.org"),
)
@click.argument("text", metavar="HOST|URL")
@JSON
@click.pass_context
def unblock(ctx: click.Context, *, text: str, as_json: bool) -> None:
    """Fetch what was blocked; what was dropped meanwhile stays so until `gcs retry`."""
    from gcs.operate import ruling

    remote = Remote("POST", "unblock", {"what": text})
    ask(ctx, partial(ruling.unblock, text=text), as_json=as_json, remote=remote)
