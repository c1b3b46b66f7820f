"""One question of an operator: what it needs, how it is answered, and orders to gatherers."""

from __future__ import annotations

import re
import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import trio

from gcs import board as boards
from gcs.board import Board
from gcs.config import Config
from gcs.errors import ConfigError, ExitCode, UsageError
from gcs.operate.facts import Missing
from gcs.operate.looking import View

SOON_S: Final = 30.0
"""How long gatherers have to answer what costs them little."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What an operator is told: for programs, for people, and as an exit code."""

    facts: Mapping[str, Any]
    lines: Sequence[str]
    code: ExitCode = ExitCode.OK


Question = Callable[[Board, Config], Awaitable[Answer]]
Tell = Callable[[str], None]
"""Shows how far something has come, where somebody waits for it."""


def ask(config: Config, question: Question) -> Answer:
    """Ask the crawl of the configuration; raises ConfigError when no Redis is named."""
    if not config.redis.url:
        raise ConfigError(
            "redis.url must name the Redis of the crawl, as its gatherers have it, such as "
            "-s redis.url=redis://localhost."
        )

    async def asked() -> Answer:
        async with boards.opened(config) as board:
            return await question(board, config)

    return trio.run(asked)


@dataclass(frozen=True, slots=True)
class Answers:
    """What came of an order to several gatherers, by id."""

    given: Mapping[str, Mapping[str, Any]]
    failed: Mapping[str, str] = field(default_factory=dict)
    """Names, and why."""
    silent: Sequence[str] = ()
    """Names of those that did not answer, or were not there to be asked."""

    @property
    def complaints(self) -> list[str]:
        """A sentence for each that is missing."""
        return [
            *(f"{name}: {why}." for name, why in sorted(self.failed.items())),
            *(f"{name} has not answered." for name in self.silent),
        ]

    @property
    def code(self) -> ExitCode:
        """Whether all have answered."""
        return ExitCode.REDIS if self.failed or self.silent else ExitCode.OK

    @property
    def facts(self) -> Missing:
        """Who is missing."""
        return {"failed": dict(self.failed), "silent": list(self.silent)}


async def order(
    board: Board,
    view: View,
    kind: str,
    arguments: Mapping[str, Any],
    *,
    within_s: float = SOON_S,
    to: Iterable[str] | None = None,
) -> Answers:
    """Ask all gatherers that there are, or some by their ids; those that are silent are not waited for."""
    wanted = [member.id for member in view.expected] if to is None else list(to)
    number = secrets.token_hex(8)
    living = [each for each in wanted if each in view.living]
    for each in living:
        await board.order(each, number, kind, arguments, within_s=within_s)
    answers = await board.answers(number, living, within_s)
    return Answers(
        given={each: answer for each, answer in answers.items() if "error" not in answer},
        failed={view.name(each): str(said["error"]) for each, said in answers.items() if "error" in said},
        silent=sorted(view.name(each) for each in wanted if each not in answers),
    )


def require_living(view: View) -> None:
    """Refuse to go on where nobody would hear it."""
    if not view.living:
        raise UsageError("no gatherer is there; `gcs gatherer` starts one.")


def find(view: View, name: str) -> str:
    """The id of a gatherer that is known by a name or an id; raises UsageError with those that there are."""
    known = sorted(view.expected, key=lambda member: member.id not in view.living)
    for member in known:
        if name in (member.pulse.name, member.id):
            return member.id
    names = ", ".join(sorted(member.pulse.name for member in known))
    raise UsageError(f"no gatherer is named {name}; there are: {names or 'none'}.")


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Lines with columns; numbers are on the right."""
    shown = [[shown_as(cell) for cell in row] for row in rows]
    numeric = [all(_is_number(row[at]) for row in shown) for at in range(len(head))]
    widths = [max(len(row[at]) for row in [list(head), *shown]) for at in range(len(head))]
    return [
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        ).rstrip()
        for row in [list(head), *shown]
    ]


def shown_as(value: object) -> str:
    """A value of a table, for people."""
    if value is None or value == "":
        return "-"
    if isinstance(value, float):
        return f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _is_number(cell: str) -> bool:
    return re.fullmatch(r"-|-?[0-9,.]+[kMG]?", cell) is not None


def counted(number: int, one: str, many: str = "") -> str:
    """Something with its number: `1 range`, `2 ranges`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
