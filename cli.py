"""The command line: parses, loads the configuration, calls one function, and turns errors into a sentence.

Commands import what they run inside themselves, so that help and completion start fast.
"""

import json
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from gcs import __version__, config, log
from gcs.errors import ExitCode, GcsError
from gcs.simulate.commands import Experiments

EPILOG = "\b\nExit codes:\n" + "\n".join(f"  {code.value:<4} {code.meaning}" for code in ExitCode)


@dataclass(frozen=True)
class Invocation:
    """What the options before the command say."""

    file: Path | None
    overrides: tuple[str, ...]
    debug: bool

    def load(self) -> config.Loaded:
        """Read the configuration and start logging as it says."""
        loaded = config.load(file=self.file, overrides=self.overrides)
        log.configure(loaded.config.log.format, loaded.config.log.level)
        return loaded


class Commands(click.Group):
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


@main.group("config")
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


@main.command()
@click.option(
    "--tuples", type=click.IntRange(1), default=3000, show_default=True, help="How many tuples to pass."
)
@click.option(
    "--workers", type=click.IntRange(2), default=3, show_default=True, help="How many processes take them."
)
@click.pass_obj
@click.pass_context
def demo(ctx: click.Context, invocation: Invocation, *, tuples: int, workers: int) -> None:
    """Show the tuple space at work: a worker is killed, and no tuple is lost."""
    invocation.load()
    from gcs import demo as demonstration

    ctx.exit(demonstration.run(tuples=tuples, workers=workers))


@main.group(cls=Experiments)
def simulate() -> None:
    """Repeat the papers' experiments, and compare."""


if __name__ == "__main__":
    main()
