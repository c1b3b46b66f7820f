"""The command line: parses, loads the configuration, calls one function, and turns errors into a sentence.

Commands import what they run inside themselves, so that help and completion start fast.
"""

import json
import math
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gcs import __version__, config, log
from gcs.errors import ExitCode, GcsError
from gcs.settings import duration_s
from gcs.simulate.commands import Experiments

if TYPE_CHECKING:
    from gcs.operate.asking import Answer, Question

EPILOG = "\b\nExit codes:\n" + "\n".join(f"  {code.value:<4} {code.meaning}" for code in ExitCode)


@dataclass(frozen=True)
class Invocation:
    """What the options before the command say."""

    file: Path | None
    overrides: tuple[str, ...]
    debug: bool

    def read(self) -> config.Loaded:
        """Read the configuration."""
        return config.load(file=self.file, overrides=self.overrides)

    def load(self) -> config.Loaded:
        """Read the configuration and start logging as it says."""
        loaded = self.read()
        log.configure(loaded.config.log.format, loaded.config.log.level)
        return loaded

    def load_again(self, settings: Sequence[str]) -> config.Loaded:
        """The same, with settings of an earlier run where nothing else is said now."""
        loaded = self.load()
        kept = [each for each in settings if loaded.origins.get(each.partition("=")[0]) == config.DEFAULT]
        return replace(self, overrides=(*kept, *self.overrides)).load() if kept else loaded


def _with_settings(ctx: click.Context, _: click.Parameter, overrides: tuple[str, ...]) -> None:
    """Add settings that were given after the command to those before it."""
    invocation = ctx.find_object(Invocation)
    if overrides and invocation:
        ctx.obj = replace(invocation, overrides=invocation.overrides + overrides)


def _settings_option() -> click.Option:
    return click.Option(
        ["-s", "--set"],
        multiple=True,
        metavar="SECTION.KEY=VALUE",
        help="Change one setting.",
        expose_value=False,
        callback=_with_settings,
    )


class Command(click.Command):
    """A command, which takes settings after its name too."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params.append(_settings_option())


class Group(click.Group):
    """A group of such commands."""

    command_class = Command


class CommandGroup(Group):
    """A group of such commands that is one itself."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.invoke_without_command, self.no_args_is_help = True, False
        self.params.append(_settings_option())


class Commands(Group):
    """The group of all commands, where errors become sentences and exit codes."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; an error that nobody expected keeps its traceback."""
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except (Exception, KeyboardInterrupt, BaseExceptionGroup) as error:
            sentence, code = _outcome(error)
            if code is None:
                raise
            invocation = ctx.find_object(Invocation)
            if invocation and invocation.debug:
                traceback.print_exception(error)
            click.echo(f"gcs: {sentence}", err=True)
            raise click.exceptions.Exit(code) from error


def _outcome(error: BaseException) -> tuple[str, ExitCode | None]:
    """What an error means to the user; no code when any part of it was not expected."""
    outcomes = [(str(cause), _exit_code(cause)) for cause in _leaves(error)]
    for wanted in (None, ExitCode.INTERRUPTED):
        for sentence, code in outcomes:
            if code is wanted:
                return sentence or "interrupted.", code
    return outcomes[0]


def _leaves(error: BaseException) -> Iterator[BaseException]:
    """The errors inside nested groups, which trio raises from nurseries."""
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _leaves(each)
    else:
        yield error


def _exit_code(error: BaseException) -> ExitCode | None:
    if isinstance(error, KeyboardInterrupt):
        return ExitCode.INTERRUPTED
    if isinstance(error, GcsError):
        return error.exit_code
    from tuplespace.errors import TupleSpaceError

    return ExitCode.REDIS if isinstance(error, TupleSpaceError) else None


@click.group(cls=Commands, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="gcs")
@click.option(
    "--config", "file", type=click.Path(path_type=Path), help="Read this file instead of $GCS_CONFIG."
)
@click.option(
    "-s", "--set", "overrides", multiple=True, metavar="SECTION.KEY=VALUE", help="Change one setting."
)
@click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), help="Short for -s log.level=…"
)
@click.option("--debug", is_flag=True, help="Show the traceback of an error too.")
@click.pass_context
def main(
    ctx: click.Context, *, file: Path | None, overrides: tuple[str, ...], log_level: str | None, debug: bool
) -> None:
    """GCS: gatherers that crawl the web together."""
    if log_level:
        overrides += (f"log.level={log_level}",)
    ctx.obj = Invocation(file, overrides, debug)


@main.group("config", cls=Group)
def config_group() -> None:
    """Check or show the configuration."""


@config_group.command("check")
@click.pass_obj
def config_check(invocation: Invocation) -> None:
    """Say whether the configuration is right."""
    loaded = invocation.load()
    click.echo(f"The configuration is right ({loaded.file or 'no file'}).")


@config_group.command("show")
@click.option("--json", "as_json", is_flag=True, help="One JSON object, a key for each setting.")
@click.pass_obj
def config_show(invocation: Invocation, *, as_json: bool) -> None:
    """Show every setting, its value and where that comes from."""
    shown = list(invocation.load().shown())
    if as_json:
        table = {setting.name: {"value": value, "from": origin} for setting, value, origin in shown}
        click.echo(json.dumps(table, indent=2, ensure_ascii=False))
        return
    section = None
    for setting, value, origin in shown:
        if setting.section != section:
            click.echo(f"{'' if section is None else chr(10)}[{setting.section}]")
            section = setting.section
        assignment = f"{setting.key} = {json.dumps(value, ensure_ascii=False)}"
        click.echo(f"{assignment:<40} # {origin}")


class _Duration(click.ParamType[float]):
    """A length of time, as settings have it."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds."""
        if isinstance(value, float):
            return value
        try:
            return duration_s(value)
        except ValueError:
            self.fail(f"{value!r} is not a duration such as 90s or 1h30m", param, ctx)


@main.command()
@click.argument("urls", nargs=-1, metavar="URL...")
@click.option(
    "--seeds", type=click.Path(dir_okay=False, path_type=Path), help="A file with more URLs, one to a line."
)
@click.option(
    "--into",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("crawl"),
    show_default=True,
    help="Where the crawl is kept.",
)
@click.option("--resume", is_flag=True, help="Go on with the crawl that is kept there.")
@click.option("--max-pages", type=click.IntRange(1), metavar="N", help="Stop after so many pages.")
@click.option("--max-time", type=_Duration(), metavar="T", help="Stop after so long, such as 10m or 1h30m.")
@click.option(
    "--scope",
    "rules",
    multiple=True,
    metavar="RULE",
    help="What belongs to the crawl, such as +domain:example.org; the last that fits decides.",
)
@click.option(
    "--expansion",
    type=click.Path(dir_okay=False, path_type=Path),
    help="A first expansion of the URL tree: URL prefixes and cuts, one to a line.",
)
@click.option(
    "-n",
    "asked",
    type=click.IntRange(1, 100),
    metavar="N",
    help="How many gatherers; one, or as many as before.",
)
@click.pass_obj
@click.pass_context
def crawl(
    ctx: click.Context,
    invocation: Invocation,
    *,
    urls: tuple[str, ...],
    seeds: Path | None,
    directory: Path,
    resume: bool,
    max_pages: int | None,
    max_time: float | None,
    rules: tuple[str, ...],
    expansion: Path | None,
    asked: int | None,
) -> None:
    """Crawl from these URLs on, until there is nothing left or a limit is reached."""
    if rules:
        invocation = replace(invocation, overrides=(*invocation.overrides, f"crawl.scope={' '.join(rules)}"))
    from gcs.gatherer import fleet, parts, session
    from gcs.gatherer.crawl import Limits
    from gcs.gatherer.seeds import read_seeds

    gatherers = parts.number(directory, asked, resume=resume)
    loaded = invocation.load_again(session.settings_of(directory) if resume else ())

    limits = Limits(max_pages or math.inf, math.inf if max_time is None else max_time)
    every = [*urls, *(read_seeds(seeds) if seeds else ())]
    kept = loaded.changed([each for each in config.SECTIONS if each not in ("redis", "log", "metrics")])
    request = session.Request(every, directory, resume, expansion, kept, limits)
    if gatherers == 1:
        ctx.exit(session.crawl(loaded.config, request))
    ctx.exit(fleet.crawl(loaded.config, request, gatherers))


@main.command()
@click.option(
    "--into",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("gatherer"),
    show_default=True,
    help="Where this gatherer keeps everything; its identity is there too.",
)
@click.pass_obj
@click.pass_context
def gatherer(ctx: click.Context, invocation: Invocation, *, directory: Path) -> None:
    """Run a gatherer: join the crawl of the configuration, and crawl together with the others."""
    loaded = invocation.load()
    from gcs.gatherer import daemon

    ctx.exit(daemon.run(loaded.config, directory, lambda: invocation.read().config))


_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
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


@main.group(cls=CommandGroup)
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


@helper.command("invite")
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
@_JSON
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
    from gcs.operate import inviting

    wanted = inviting.Wanted(name, site, into or Path(f"{name}.invitation"), url, canary, by_hand)
    _ask(ctx, partial(inviting.invite, wanted=wanted), as_json=as_json)


@helper.command("revoke")
@click.argument("name")
@_BY_HAND
@_JSON
@click.pass_context
def helper_revoke(ctx: click.Context, *, name: str, by_hand: bool, as_json: bool) -> None:
    """End an invitation at once."""
    from gcs.operate import inviting

    _ask(ctx, partial(inviting.revoke, name=name, by_hand=by_hand), as_json=as_json)


@helper.command("list")
@_JSON
@click.pass_context
def helper_list(ctx: click.Context, *, as_json: bool) -> None:
    """Show who is invited, and who is there."""
    from gcs.operate import inviting

    _ask(ctx, inviting.listed, as_json=as_json)


def _tell_helper(ctx: click.Context, what: str, *, as_json: bool) -> None:
    import trio

    from gcs.helper import pause as control

    ctx.ensure_object(Invocation).load()
    said = trio.run(control.tell, what)
    _show({"helps": said.may_work, "why": said.sentence, "process": said.pid}, as_json=as_json)


@helper.command("pause")
@_JSON
@click.pass_context
def helper_pause(ctx: click.Context, *, as_json: bool) -> None:
    """Have the helper on this machine stop at once, until it is resumed."""
    _tell_helper(ctx, "pause", as_json=as_json)


@helper.command("resume")
@_JSON
@click.pass_context
def helper_resume(ctx: click.Context, *, as_json: bool) -> None:
    """Let the helper on this machine go on."""
    _tell_helper(ctx, "resume", as_json=as_json)


@helper.command("status")
@_JSON
@click.pass_context
def helper_status(ctx: click.Context, *, as_json: bool) -> None:
    """Say whether the helper on this machine works, and why."""
    _tell_helper(ctx, "status", as_json=as_json)


_INTO = click.option(
    "--into",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("crawl"),
    show_default=True,
    help="Where the crawl is kept.",
)
_WITHIN = click.option(
    "--timeout",
    "within_s",
    type=_Duration(),
    default=120.0,
    metavar="T",
    help="How long to wait, such as 30s or 10m; two minutes if not given.",
)


def _show(facts: Mapping[str, object], *, as_json: bool) -> None:
    """Facts, one to a line."""
    if as_json:
        click.echo(json.dumps(facts, indent=2, ensure_ascii=False))
        return
    for name, value in facts.items():
        shown = (
            "yes" if value is True else "no" if value is False else "-" if value in (None, "", []) else value
        )
        click.echo(f"{name.replace('_', ' ') + ':':<14} {shown}")


@main.command()
@click.argument("url")
@_INTO
@_JSON
@click.pass_obj
def why(invocation: Invocation, *, url: str, directory: Path, as_json: bool) -> None:
    """Say where a URL stands in a crawl, and which rule decided; also while it runs."""
    from gcs import inquiry
    from gcs.gatherer import session

    loaded = invocation.load_again(session.settings_of(directory))
    _show(inquiry.why(loaded.config, directory, url), as_json=as_json)


@main.command()
@click.argument("format", type=click.Choice(["jsonl", "sml", "parquet", "csv", "warc"]))
@_INTO
@click.option(
    "-o", "--output", type=click.File("wb", lazy=True), default="-", help="Write to this file instead."
)
@click.pass_obj
def export(invocation: Invocation, *, format: str, directory: Path, output: Any) -> None:  # noqa: A002 - the argument's name
    """Write what a crawl has kept: summaries as jsonl, sml or parquet, links as csv, WARC files by name."""
    invocation.load()
    from gcs import export as exporting

    count = exporting.export(directory, format, output)
    click.echo(f"{count:,} records.", err=True)


@main.group(cls=Group)
def check() -> None:
    """Say what GCS would make of a URL, without crawling."""


@check.command("url")
@click.argument("url")
@_JSON
@click.pass_obj
def check_url(invocation: Invocation, *, url: str, as_json: bool) -> None:
    """Show a URL's canonical form and its place in the URL tree."""
    loaded = invocation.load()
    from gcs import checks

    _show(checks.url(loaded.config, url), as_json=as_json)


@check.command("scope")
@click.argument("url")
@click.option("--depth", type=click.IntRange(0), default=0, help="How many links away from a seed it is.")
@_JSON
@click.pass_obj
def check_scope(invocation: Invocation, *, url: str, depth: int, as_json: bool) -> None:
    """Say whether a URL belongs to the crawl, and which rule decides."""
    loaded = invocation.load()
    from gcs import checks

    _show(checks.scope(loaded.config, url, depth=depth), as_json=as_json)


@check.command("robots")
@click.argument("url")
@_JSON
@click.pass_obj
def check_robots(invocation: Invocation, *, url: str, as_json: bool) -> None:
    """Ask a host for its robots.txt, and say whether it allows a URL."""
    loaded = invocation.load()
    from gcs import checks

    _show(checks.robots(loaded.config, url), as_json=as_json)


@main.command()
@_INTO
@click.option("--host", default="localhost", show_default=True, help="The name to look up as a test of DNS.")
@_JSON
@click.pass_obj
@click.pass_context
def doctor(ctx: click.Context, invocation: Invocation, *, directory: Path, host: str, as_json: bool) -> None:
    """Say whether this machine and its Redis are fit for a crawl."""
    loaded = invocation.load()
    from gcs import doctor as doctors

    findings = list(doctors.examine(loaded.config, directory, name=host))
    if as_json:
        click.echo(json.dumps([finding.as_json for finding in findings], indent=2, ensure_ascii=False))
    else:
        for finding in findings:
            click.echo(f"{finding.grade.value:<8} {finding.what + ':':<18} {finding.sentence}")
    ctx.exit(doctors.verdict(findings))


def _ask(ctx: click.Context, question: "Question", *, as_json: bool) -> None:
    """Ask the crawl, print the answer, and end with its exit code."""
    loaded = ctx.ensure_object(Invocation).load()
    from gcs.operate import asking

    answer = asking.ask(loaded.config, question)
    _clear_progress()
    _tell(answer, as_json=as_json)
    ctx.exit(answer.code)


def _tell(answer: "Answer", *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(answer.facts, indent=2, ensure_ascii=False))
        return
    for line in answer.lines:
        click.echo(line)


def _progress(sentence: str) -> None:
    """A line that the next one replaces; only where somebody looks."""
    if sys.stderr.isatty():
        click.echo(f"\r\x1b[K{sentence}", err=True, nl=False)


def _clear_progress() -> None:
    _progress("")


@main.command()
@click.option("--watch", is_flag=True, help="Show it every second, until Ctrl-C.")
@_JSON
@click.pass_context
def status(ctx: click.Context, *, watch: bool, as_json: bool) -> None:
    """Say whether the crawl is finished, crawling, paused, waiting or stuck, and why."""
    from gcs.operate import status as looking

    def show(answer: "Answer") -> None:
        if as_json:
            click.echo(json.dumps(answer.facts, ensure_ascii=False))
            return
        if sys.stdout.isatty():
            click.clear()
        _tell(answer, as_json=False)

    if not watch:
        _ask(ctx, looking.status, as_json=as_json)
    from gcs.operate import asking

    asking.ask(ctx.ensure_object(Invocation).load().config, partial(looking.watch, show=show))


@main.command()
@_JSON
@click.pass_context
def nodes(ctx: click.Context, *, as_json: bool) -> None:
    """List the gatherers, with what they do."""
    from gcs.operate import status as looking

    _ask(ctx, looking.nodes, as_json=as_json)


@main.command()
@_JSON
@click.pass_context
def queues(ctx: click.Context, *, as_json: bool) -> None:
    """Show what waits at each gatherer, and for whom."""
    from gcs.operate import status as looking

    _ask(ctx, looking.queues, as_json=as_json)


@main.command()
@click.option("--limit", type=click.IntRange(1), default=40, show_default=True, help="Of each, at most.")
@_JSON
@click.pass_context
def superpages(ctx: click.Context, *, limit: int, as_json: bool) -> None:
    """Show the ranges of the plan in force and its heaviest superpages, with their owners."""
    from gcs.operate import ownership

    _ask(ctx, partial(ownership.superpages, limit=limit), as_json=as_json)


@main.command()
@click.argument("name", metavar="HOST")
@_JSON
@click.pass_context
def host(ctx: click.Context, *, name: str, as_json: bool) -> None:
    """Say which gatherer owns a host, and what each one knows of it."""
    from gcs.operate import ownership

    _ask(ctx, partial(ownership.host, name=name), as_json=as_json)


@main.command()
@click.option("--reason", default="", metavar="TEXT", help="Why; it is kept with the plan.")
@click.option("--dry-run", is_flag=True, help="Only say what a new plan would be.")
@click.option(
    "--partition",
    "method",
    type=click.Choice(["I", "II", "auto"]),
    help="How to share superpages out; as configured if not given.",
)
@_WITHIN
@_JSON
@click.pass_context
def rebalance(
    ctx: click.Context, *, reason: str, dry_run: bool, method: str | None, within_s: float, as_json: bool
) -> None:
    """Share the web out anew, and say what moves."""
    from gcs.operate import planning

    question = partial(planning.foresee, method=method or "", within_s=within_s)
    if not dry_run:
        question = partial(
            planning.rebalance, reason=reason, method=method or "", within_s=within_s, tell=_progress
        )
    _ask(ctx, question, as_json=as_json)


@main.command()
@click.argument("urls", nargs=-1, metavar="URL...")
@click.option(
    "--seeds", type=click.Path(dir_okay=False, path_type=Path), help="A file with more URLs, one to a line."
)
@_JSON
@click.pass_context
def seed(ctx: click.Context, *, urls: tuple[str, ...], seeds: Path | None, as_json: bool) -> None:
    """Give the crawl URLs to begin with."""
    from gcs.gatherer.seeds import read_seeds
    from gcs.operate import work

    every = [*urls, *(read_seeds(seeds) if seeds else ())]
    _ask(ctx, partial(work.seed, urls=every), as_json=as_json)


def _name_of(what: str, name: str | None) -> str:
    """The name of what is paused or resumed: the crawl has none, the others need one."""
    if (what == "crawl") != (name is None):
        needs = "takes no name" if what == "crawl" else "needs a name"
        raise click.UsageError(f"{what} {needs}.")
    return name or ""


_WHAT = click.argument("what", type=click.Choice(["crawl", "gatherer", "host"]), default="crawl")
_NAME = click.argument("name", required=False)


@main.command()
@_WHAT
@_NAME
@_JSON
@click.pass_context
def pause(ctx: click.Context, *, what: str, name: str | None, as_json: bool) -> None:
    """Begin no more fetches: of the whole crawl, of a gatherer, or of a host."""
    from gcs.operate import ruling

    _ask(ctx, partial(ruling.pause, what=what, name=_name_of(what, name)), as_json=as_json)


@main.command()
@_WHAT
@_NAME
@_JSON
@click.pass_context
def resume(ctx: click.Context, *, what: str, name: str | None, as_json: bool) -> None:
    """Go on with what was paused; the whole crawl includes all gatherers."""
    from gcs.operate import ruling

    _ask(ctx, partial(ruling.resume, what=what, name=_name_of(what, name)), as_json=as_json)


@main.command()
@click.argument("text", metavar="HOST|URL")
@click.option("--for", "for_s", type=_Duration(), metavar="T", help="For so long, such as 2d.")
@_JSON
@click.pass_context
def block(ctx: click.Context, *, text: str, for_s: float | None, as_json: bool) -> None:
    """Fetch nothing of a host, or of a URL and what is below it; without --for, its URLs are dropped."""
    from gcs.operate import ruling

    _ask(ctx, partial(ruling.block, text=text, for_s=for_s), as_json=as_json)


@main.command()
@click.argument("text", metavar="HOST|URL")
@_JSON
@click.pass_context
def unblock(ctx: click.Context, *, text: str, as_json: bool) -> None:
    """Fetch what was blocked; what was dropped meanwhile stays so until `gcs retry`."""
    from gcs.operate import ruling

    _ask(ctx, partial(ruling.unblock, text=text), as_json=as_json)


@main.command()
@click.argument("text", metavar="HOST|URL")
@_WITHIN
@_JSON
@click.pass_context
def forget(ctx: click.Context, *, text: str, within_s: float, as_json: bool) -> None:
    """Forget all URLs of a host, or a URL and what is below it, as if they had never been known."""
    from gcs.operate import work

    _ask(ctx, partial(work.forget, text=text, within_s=within_s), as_json=as_json)


@main.command()
@click.option("--status", required=True, metavar="STATUS", help="Such as 404, 5xx, or -5001: blocked.")
@click.option("--host", default="", metavar="HOST", help="Of this host only.")
@_WITHIN
@_JSON
@click.pass_context
def retry(ctx: click.Context, *, status: str, host: str, within_s: float, as_json: bool) -> None:
    """Queue again what was answered with some status."""
    from gcs.operate import work

    _ask(ctx, partial(work.retry, status=status, host=host, within_s=within_s), as_json=as_json)


@main.command()
@click.argument("name", metavar="NODE")
@click.option("--wait", is_flag=True, help="Wait until it has left.")
@_JSON
@click.pass_context
def drain(ctx: click.Context, *, name: str, wait: bool, as_json: bool) -> None:
    """Let a gatherer, by name or id, give all it has to the others, and leave."""
    from gcs.operate import work

    _ask(ctx, partial(work.drain, name=name, wait=wait, tell=_progress), as_json=as_json)


@main.command()
@_JSON
@click.pass_context
def audit(ctx: click.Context, *, as_json: bool) -> None:
    """Add up the ledgers of all gatherers: whether every URL is accounted for."""
    from gcs.operate import ledger

    _ask(ctx, ledger.audit, as_json=as_json)


@main.command()
@click.option("--hosts", type=click.IntRange(10), default=100, show_default=True, help="Hosts of the web.")
@click.option("--pages", type=click.IntRange(10), default=1500, show_default=True, help="Pages, about.")
@click.option("--seed", type=click.IntRange(0), default=7, show_default=True, help="Another web.")
@click.option(
    "--into",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where everything is kept; a new temporary directory if not given.",
)
@click.pass_obj
@click.pass_context
def demo(
    ctx: click.Context, invocation: Invocation, *, hosts: int, pages: int, seed: int, into: Path | None
) -> None:
    """Crawl a synthetic web on this machine to its end, and compare with what its servers saw."""
    loaded = invocation.load()
    from gcs import demo as demonstration

    ctx.exit(demonstration.run(loaded.config, hosts=hosts, pages=pages, seed=seed, into=into))


@main.command("install-units")
@click.option("--user", is_flag=True, help="A user's own: a helper for a desktop.")
@click.option(
    "--prefix",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write below this directory instead of /etc or ~/.config.",
)
@click.option("--force", is_flag=True, help="Replace what is there and differs.")
@click.option("--dry-run", is_flag=True, help="Only print what would be written.")
def install_units(*, user: bool, prefix: Path | None, force: bool, dry_run: bool) -> None:
    """Write units for systemd that start this gcs, and say what to run next."""
    from gcs import units

    chosen = list(units.units(prefix or units.default_prefix(user=user), user=user))
    if dry_run:
        for unit in chosen:
            click.echo(f"# {unit.path} ({unit.standing})\n{unit.text}")
        return
    found = [(unit, unit.standing) for unit in chosen]
    units.install(chosen, force=force)
    for unit, before in found:
        done = "unchanged" if before is units.Standing.SAME else "written"
        click.echo(f"{done:<9} {unit.path}")
    click.echo("Next:")
    for step in units.next_steps(user=user):
        click.echo(f"  {step}")


@main.group(cls=Experiments)
def simulate() -> None:
    """Repeat the papers' experiments, and compare."""


if __name__ == "__main__":
    main()
