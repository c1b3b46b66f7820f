"""What all commands share: what was said before a command, settings after it, and how an answer is shown.

Everything here is imported whenever `gcs` starts, so it imports little itself.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from gcs import config, log
from gcs.settings import duration_s

if TYPE_CHECKING:
    from gcs.operate.asking import Answer, Question


_LEAST_WIDTH: Final = 14


class Remote(NamedTuple):
    """A question as the HTTP API of a monitor has it."""

    method: str
    path: str
    values: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class Invocation:
    """What the options before the command say."""

    file: Path | None
    overrides: tuple[str, ...]
    debug: bool
    monitor: str = ""
    """The URL of a monitor that is to be asked instead of Redis."""
    token_file: Path | None = None

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


def _begun(_: click.Context, __: click.Parameter, begun: str) -> list[str]:
    """The settings that begin so, for a shell."""
    return [f"{name}=" for name in config.SETTINGS if name.startswith(begun)]


def examples(*lines: str) -> str:
    """The end of a command's help."""
    return "\b\n" + "\n".join([f"Example{'s' if len(lines) > 1 else ''}:", *(f"  {line}" for line in lines)])


def _settings_option() -> click.Option:
    return click.Option(
        ["-s", "--set"],
        multiple=True,
        metavar="SECTION.KEY=VALUE",
        help="Change one setting.",
        expose_value=False,
        callback=_with_settings,
        shell_complete=_begun,
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


class Duration(click.ParamType[float]):
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


JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
INTO = click.option(
    "--into",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("crawl"),
    show_default=True,
    help="Where the crawl is kept.",
)
WITHIN = click.option(
    "--timeout",
    "within_s",
    type=Duration(),
    default=120.0,
    metavar="T",
    help="How long to wait, such as 30s or 10m; two minutes if not given.",
)


def show(facts: Mapping[str, object], *, as_json: bool) -> None:
    """Facts, one to a line."""
    if as_json:
        click.echo(json.dumps(facts, indent=2, ensure_ascii=False))
        return
    for line in fact_lines(facts):
        click.echo(line)


def fact_lines(facts: Mapping[str, object]) -> list[str]:
    """The same facts, for people."""
    width = max(_LEAST_WIDTH, *(len(name) + 1 for name in facts))
    return [f"{name.replace('_', ' ') + ':':<{width}} {_worded(value)}" for name, value in facts.items()]


def _worded(value: object) -> object:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value in (None, "", []):
        return "-"
    return ", ".join(map(str, value)) if isinstance(value, list) else value


def ask(ctx: click.Context, question: Question, *, as_json: bool, remote: Remote | None = None) -> None:
    """Ask the crawl, print the answer, and end with its exit code; a monitor is asked the `remote` one."""
    invocation = ctx.ensure_object(Invocation)
    loaded = invocation.load()
    if invocation.monitor:
        if remote is None:
            raise click.UsageError("a monitor cannot be asked this: leave --monitor out.")
        from gcs.monitor import client

        answer = client.ask(client.Place.of(invocation.monitor, invocation.token_file), remote)
    else:
        from gcs.operate import asking

        answer = asking.ask(loaded.config, question)
    clear_progress()
    tell(answer, as_json=as_json)
    ctx.exit(answer.code)


def tell(answer: Answer, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(answer.facts, indent=2, ensure_ascii=False))
        return
    for line in answer.lines:
        click.echo(line)


def progress(sentence: str) -> None:
    """A line that the next one replaces; only where somebody looks."""
    if sys.stderr.isatty():
        click.echo(f"\r\x1b[K{sentence}", err=True, nl=False)


def clear_progress() -> None:
    progress("")
