"""The command line: parses, loads the configuration, calls one function, and turns errors into a sentence.

Commands import what they run inside themselves, so that help and completion start fast. Those of operators
are in `gcs.operate.commands`, `gcs helper` is in `gcs.helper.commands`, what all share in `gcs.commandline`.
"""

import json
import math
import os
import traceback
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from gcs import __version__, config
from gcs.commandline import INTO, JSON, Duration, Group, Invocation, ask, examples, show
from gcs.errors import ExitCode, GcsError, UsageError
from gcs.graph import commands as graphs
from gcs.helper import commands as helper
from gcs.index.commands import index, search
from gcs.operate import commands as operate
from gcs.profiles.commands import profile
from gcs.rank.commands import rank
from gcs.simulate.commands import Experiments

COMPLETION = {
    "bash": "For every new shell: gcs completion bash > ~/.local/share/bash-completion/completions/gcs",
    "zsh": "For every new shell, in ~/.zshrc after compinit: source <(gcs completion zsh)",
    "fish": "For every new shell: gcs completion fish > ~/.config/fish/completions/gcs.fish",
}
_NOT_KEPT = ("redis", "log", "metrics", "monitor")
"""Sections that are about where a crawl runs, not about what it is: a resumed one may have others."""
EPILOG = "\b\nExit codes:\n" + "\n".join(f"  {code.value:<4} {code.meaning}" for code in ExitCode)


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
    outcomes = [(_sentence(cause), _exit_code(cause)) for cause in _leaves(error)]
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


def _sentence(error: BaseException) -> str:
    """What is wrong; a server that does not answer cannot know what its user could do."""
    from tuplespace.errors import Unavailable

    advice = "`gcs doctor` says whether this machine can use it"
    return f"{str(error).rstrip('.')}; {advice}." if isinstance(error, Unavailable) else str(error)


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
@click.option(
    "--monitor", "monitor_url", metavar="URL", default="", help="Ask this monitor over HTTP instead of Redis."
)
@click.option(
    "--token-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="A file with the monitor's token, instead of $GCS_TOKEN.",
)
@click.pass_context
def main(
    ctx: click.Context,
    *,
    file: Path | None,
    overrides: tuple[str, ...],
    log_level: str | None,
    debug: bool,
    monitor_url: str,
    token_file: Path | None,
) -> None:
    """GCS: gatherers that crawl the web together."""
    # Nothing here multiplies matrices; the threads that NumPy begins for it would wait in a loop.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if log_level:
        overrides += (f"log.level={log_level}",)
    ctx.obj = Invocation(file, overrides, debug, monitor_url, token_file)


@main.group("config", cls=Group)
def config_group() -> None:
    """Check or show the configuration; change settings of gatherers that run."""


@config_group.command("check")
@click.pass_obj
def config_check(invocation: Invocation) -> None:
    """Say whether the configuration is right."""
    loaded = invocation.load()
    click.echo(f"The configuration is right ({loaded.file or 'no file'}).")


@config_group.command(
    "show",
    epilog=examples("gcs config show", "gcs config show --crawl", "gcs config show --into /var/lib/gcs"),
)
@click.option("--crawl", is_flag=True, help="What `gcs config set` has set in the crawl, and for whom.")
@click.option(
    "--into",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    help="The directory of a gatherer of this machine: with what was set there by `gcs config set`.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object, a key for each setting.")
@click.pass_context
def config_show(ctx: click.Context, *, crawl: bool, directory: Path | None, as_json: bool) -> None:
    """Show every setting, its value and where that comes from."""
    if crawl:
        from gcs.operate import setting as settings

        ask(ctx, settings.shown, as_json=as_json)
    loaded = ctx.ensure_object(Invocation).load()
    if directory is not None:
        from gcs.operate import setting as settings

        loaded = settings.at_gatherer(loaded, directory)
    shown = list(loaded.shown())
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


@main.command(
    epilog=examples(
        "gcs crawl https://example.org/ --scope +domain:example.org --max-pages 1000 --into example",
        "gcs crawl --resume --into example",
        "gcs crawl --revisit --into example",
        "gcs crawl file:///srv/docs --into docs",
    )
)
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
@click.option(
    "--revisit", is_flag=True, help="Visit every page that is kept there once more, and what is new."
)
@click.option("--max-pages", type=click.IntRange(1), metavar="N", help="Stop after so many pages.")
@click.option("--max-time", type=Duration(), metavar="T", help="Stop after so long, such as 10m or 1h30m.")
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
@click.option("--monitor", is_flag=True, help="Serve the web page meanwhile, at monitor.listen.")
@click.option("--stay", is_flag=True, help="With --monitor: serve it on after the end, until Ctrl-C.")
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
    revisit: bool,
    max_pages: int | None,
    max_time: float | None,
    rules: tuple[str, ...],
    expansion: Path | None,
    asked: int | None,
    monitor: bool,
    stay: bool,
) -> None:
    """Crawl from these URLs on, until there is nothing left or a limit is reached."""
    if stay and not monitor:
        raise click.UsageError("--stay is about the web page: give --monitor too.")
    if rules:
        invocation = replace(invocation, overrides=(*invocation.overrides, f"crawl.scope={' '.join(rules)}"))
    if revisit:
        resume, invocation = True, replace(invocation, overrides=(*invocation.overrides, "revisit.once=true"))
    from gcs.gatherer import parts, session
    from gcs.gatherer.crawl import Limits
    from gcs.gatherer.seeds import read_seeds
    from gcs.sources.chosen import named

    if monitor and (directory / "format").exists():
        raise UsageError(
            f"{directory} was begun by one gatherer alone; leave --monitor out to go on with it."
        )
    gatherers = parts.number(directory, asked, resume=resume)
    before = session.settings_of(directory) if resume else ()
    loaded = invocation.load_again(before)
    if allowed := named(loaded.config, urls):
        invocation = replace(invocation, overrides=(*invocation.overrides, *allowed))
        loaded = invocation.load_again(before)

    limits = Limits(max_pages or math.inf, math.inf if max_time is None else max_time)
    every = [*urls, *(read_seeds(seeds) if seeds else ())]
    kept = loaded.changed([each for each in config.SECTIONS if each not in _NOT_KEPT])
    kept = [each for each in kept if not each.startswith("revisit.once=")]
    request = session.Request(every, directory, resume, expansion, kept, limits, monitor, stay, revisit)
    if gatherers == 1 and not monitor and parts.Fleet.of(directory) is None:
        ctx.exit(session.crawl(loaded.config, request))
    from gcs.gatherer import fleet

    ctx.exit(fleet.crawl(loaded.config, request, gatherers))


@main.command(
    epilog=examples(
        "gcs gatherer --into /var/lib/gcs -s redis.url=redis://redis.example -s member.name=alpha"
    )
)
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


@main.command(
    epilog=examples(
        "gcs monitor -s redis.url=redis://redis.example",
        "gcs monitor -s monitor.listen=127.0.0.1:0 --into /var/lib/gcs/monitor",
    )
)
@click.option(
    "--into",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("monitor"),
    show_default=True,
    help="Where tokens and what was seen are kept.",
)
@click.pass_obj
@click.pass_context
def monitor(ctx: click.Context, invocation: Invocation, *, directory: Path) -> None:
    """Serve the web page of the crawl of the configuration: see how it goes, and steer it."""
    loaded = invocation.load()
    from gcs.monitor import daemon

    ctx.exit(daemon.run(loaded.config, directory, partial(click.echo, err=True)))


@main.command(
    epilog=examples("gcs export jsonl --into example -o pages.jsonl", "gcs export csv --into example")
)
@click.argument("format", type=click.Choice(["jsonl", "sml", "parquet", "csv", "warc", "kml"]))
@INTO
@click.option(
    "-o", "--output", type=click.File("wb", lazy=True), default="-", help="Write to this file instead."
)
@click.pass_obj
def export(invocation: Invocation, *, format: str, directory: Path, output: Any) -> None:  # noqa: A002 - the argument's name
    """Write what a crawl has kept.

    Summaries as jsonl, sml or parquet, links as csv, WARC files by name; languages and pages by country as
    kml, for Google Earth.
    """
    invocation.load()
    from gcs import export as exporting

    count = exporting.export(directory, format, output)
    click.echo(f"{count:,} records.", err=True)


@main.group(cls=Group)
def check() -> None:
    """Say what GCS would make of a URL, without crawling."""


@check.command("url", epilog=examples("gcs check url https://example.org/a/../b?utm_source=x"))
@click.argument("url")
@JSON
@click.pass_obj
def check_url(invocation: Invocation, *, url: str, as_json: bool) -> None:
    """Show a URL's canonical form and its place in the URL tree."""
    loaded = invocation.load()
    from gcs import checks

    show(checks.url(loaded.config, url), as_json=as_json)


@check.command(
    "scope", epilog=examples("gcs check scope https://example.org/a -s crawl.scope=+domain:example.org")
)
@click.argument("url")
@click.option("--depth", type=click.IntRange(0), default=0, help="How many links away from a seed it is.")
@JSON
@click.pass_obj
def check_scope(invocation: Invocation, *, url: str, depth: int, as_json: bool) -> None:
    """Say whether a URL belongs to the crawl, and which rule decides."""
    loaded = invocation.load()
    from gcs import checks

    show(checks.scope(loaded.config, url, depth=depth), as_json=as_json)


@check.command(
    "robots",
    epilog=examples("gcs check robots https://example.org/private -s fetch.agent='me (+https://me.example)'"),
)
@click.argument("url")
@JSON
@click.pass_obj
def check_robots(invocation: Invocation, *, url: str, as_json: bool) -> None:
    """Ask a host for its robots.txt, and say whether it allows a URL."""
    loaded = invocation.load()
    from gcs import checks

    show(checks.robots(loaded.config, url), as_json=as_json)


@main.command(epilog=examples("gcs doctor --into /var/lib/gcs --host example.org"))
@INTO
@click.option("--host", default="localhost", show_default=True, help="The name to look up as a test of DNS.")
@JSON
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


@main.command(epilog=examples("gcs demo --hosts 200 --pages 5000"))
@click.option("--hosts", type=click.IntRange(10), default=100, show_default=True, help="Hosts of the web.")
@click.option("--pages", type=click.IntRange(10), default=1500, show_default=True, help="Pages, about.")
@click.option("--seed", type=click.IntRange(0), default=7, show_default=True, help="Another web.")
@click.option(
    "--into",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where everything is kept; a new temporary directory if not given.",
)
@click.option(
    "--monitor/--no-monitor",
    default=True,
    show_default=True,
    help="Serve the web page meanwhile; without it, one gatherer crawls alone.",
)
@click.option("--stay", is_flag=True, help="Serve the page on after the end, until Ctrl-C.")
@click.pass_obj
@click.pass_context
def demo(
    ctx: click.Context,
    invocation: Invocation,
    *,
    hosts: int,
    pages: int,
    seed: int,
    into: Path | None,
    monitor: bool,
    stay: bool,
) -> None:
    """Crawl a synthetic web on this machine to its end, and compare with what its servers saw."""
    loaded = invocation.load()
    from gcs import demo as demonstration

    ctx.exit(
        demonstration.run(
            loaded.config, hosts=hosts, pages=pages, seed=seed, into=into, monitor=monitor, stay=stay
        )
    )


@main.command(
    epilog=examples("gcs plan --pages 4e9 --months 6", "gcs plan --pages 1e8 --months 1 --into example")
)
@click.option(
    "--pages", type=click.FloatRange(1000), default=4e9, show_default=True, help="How many pages the web has."
)
@click.option(
    "--months",
    type=click.FloatRange(0, min_open=True),
    default=6.0,
    show_default=True,
    help="How long it may take, in months of 30 days.",
)
@click.option(
    "--alpha",
    type=click.FloatRange(0, 1, min_open=True),
    default=0.9,
    show_default=True,
    help="Which share of what is fetched is new.",
)
@graphs.DIRECTORIES
@graphs.SCRATCH
@JSON
@click.pass_obj
def plan(
    invocation: Invocation,
    *,
    pages: float,
    months: float,
    alpha: float,
    directories: tuple[Path, ...],
    scratch: Path | None,
    as_json: bool,
) -> None:
    """Say what crawling a whole web would take, judged by what this crawl has measured.

    Gatherers, helpers, bandwidth, storage, memory of Redis and time for ranking, beside the paper's estimate
    (004, section 5.3).
    """
    loaded = invocation.load()
    from gcs import wholeweb

    report = wholeweb.plan(
        loaded.config, directories, pages=pages, months=months, alpha=alpha, scratch=scratch
    )
    graphs.shown(report, as_json=as_json)


@main.command("install-units", epilog=examples("gcs install-units --dry-run", "gcs install-units --user"))
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


@main.command(epilog=examples("gcs completion bash > gcs.bash", "gcs completion fish | source"))
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(*, shell: str) -> None:
    """Print what lets a shell complete commands, options and settings."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(f"# {COMPLETION[shell]}")
    click.echo(kind(main, {}, "gcs", "_GCS_COMPLETE").source())


@main.group(cls=Experiments)
def simulate() -> None:
    """Repeat the papers' experiments, and compare."""


config_group.add_command(operate.config_set)
config_group.add_command(operate.config_unset)
main.add_command(graphs.graph)
main.add_command(helper.helper)
main.add_command(rank)
main.add_command(search)
main.add_command(index)
main.add_command(profile)
for _each in operate.COMMANDS:
    main.add_command(_each)

if __name__ == "__main__":
    main()
