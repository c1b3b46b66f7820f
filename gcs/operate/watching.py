"""`gcs status --watch`: the crawl on a terminal, painted anew every second until Ctrl-C.

On a terminal the picture has the size of the window and is painted over the one before, on the alternate
screen; what was there comes back in the end. Elsewhere there is a line now and then, and when something has
changed that matters. For programs there is a JSON object to a line.
"""

from __future__ import annotations

import errno
import json
import shutil
import signal
import textwrap
from collections.abc import Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import Final, Protocol, Self, TextIO

import trio

from gcs.board import Board
from gcs.config import Config
from gcs.helper import desks
from gcs.operate.asking import Answer
from gcs.operate.overview import Overview, Watcher, ruling_lines
from tuplespace import TupleSpaceError

EVERY_S: Final = 1.0
LINE_EVERY_S: Final = 10.0
_LEAST: Final = 3
"""Lines of a list that are worth their room: its head, an entry, and how many more there are."""
_ENTER: Final = "\x1b[?1049h\x1b[?25l\x1b[2J"
_LEAVE: Final = "\x1b[?25h\x1b[?1049l"
_HOME, _END_OF_LINE, _BELOW = "\x1b[H", "\x1b[K", "\x1b[J"
_BOLD, _RED, _PLAIN = "\x1b[1m", "\x1b[31m", "\x1b[0m"


class Display(Protocol):
    """Where an overview is shown."""

    def __enter__(self) -> Self:
        """Begin."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave everything as it was."""

    def show(self, seen: Overview) -> None:
        """Show the newest."""

    def trouble(self, sentence: str) -> None:
        """Nothing can be seen at the moment."""

    def resized(self) -> None:
        """There is another amount of room."""


async def watch(board: Board, config: Config, *, display: Display) -> Answer:
    """Show the crawl again and again; Ctrl-C or SIGTERM ends that, and there is nothing to be told then.

    Raises BrokenPipeError when nobody reads what is shown any more.
    """
    is_read = True
    try:
        await _watch(board, config, display)
    except* BrokenPipeError:
        is_read = False
    if not is_read:
        raise BrokenPipeError(errno.EPIPE, "nobody reads it any more")
    return Answer({}, [])


async def _watch(board: Board, config: Config, display: Display) -> None:
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGWINCH) as signals:
        async with desks.opened(config, board.client) as open_desk, trio.open_nursery() as nursery:
            with display:
                nursery.start_soon(_look, Watcher(board, config, open_desk), display)
                async for number in signals:
                    if number != signal.SIGWINCH:
                        break
                    display.resized()
                nursery.cancel_scope.cancel()


async def _look(watcher: Watcher, display: Display) -> None:
    seen: Overview | None = None
    while True:
        try:
            seen = await (watcher.look() if seen else watcher.look_twice())
            display.show(seen)
        except TupleSpaceError as error:
            display.trouble(str(error))
        await trio.sleep(EVERY_S)


class Lines:
    """A line at a time, for a file or a pipe."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._told: tuple[object, ...] = ()
        self._told_at = -LINE_EVERY_S

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing has to be put back."""

    def show(self, seen: Overview) -> None:
        """A line, if it is time or the state or an alarm is another one."""
        kinds = (seen.condition.state, len(seen.alarms), len(seen.view.present))
        if kinds != self._told or seen.view.at - self._told_at >= LINE_EVERY_S:
            self._told, self._told_at = kinds, seen.view.at
            self._say(seen.line())

    def trouble(self, sentence: str) -> None:
        """The same sentence is said once."""
        if self._told != (sentence,):
            self._told = (sentence,)
            self._say(sentence)

    def resized(self) -> None:
        """A line has no width."""

    def _say(self, text: str) -> None:
        self._stream.write(f"{text}\n")
        self._stream.flush()


class Objects(Lines):
    """A JSON object to a line, for programs."""

    def show(self, seen: Overview) -> None:
        """One for every look."""
        self._say(json.dumps(seen.facts(), ensure_ascii=False))

    def trouble(self, sentence: str) -> None:
        """One with an error in it."""
        self._say(json.dumps({"error": sentence}, ensure_ascii=False))


class Terminal:
    """The whole of a terminal."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._seen: Overview | None = None
        self._trouble = ""

    def __enter__(self) -> Self:
        self._stream.write(_ENTER)
        return self

    def __exit__(self, *_: object) -> None:
        """Leave what was there before, and the last picture below it."""
        self._stream.write(_LEAVE)
        if self._seen is not None:
            columns = shutil.get_terminal_size().columns
            self._stream.write("\n".join(picture(self._seen, columns, None)) + "\n")
        self._stream.flush()

    def show(self, seen: Overview) -> None:
        """Paint over the picture before."""
        self._seen, self._trouble = seen, ""
        self._paint()

    def trouble(self, sentence: str) -> None:
        """What was seen last stays, under the sentence."""
        self._trouble = sentence
        self._paint()

    def resized(self) -> None:
        """Lines may have been folded: begin with an empty screen."""
        self._stream.write("\x1b[2J")
        self._paint()

    def _paint(self) -> None:
        columns, rows = shutil.get_terminal_size()
        lines = picture(self._seen, columns, rows - 1 - bool(self._trouble)) if self._seen else ["looking …"]
        if self._trouble:
            lines = [_clipped(self._trouble, columns), *lines]
        painted = [f"{_style(number, line)}{_END_OF_LINE}" for number, line in enumerate(lines[:rows])]
        self._stream.write(_HOME + "\n".join(painted) + _BELOW)
        self._stream.flush()


def _style(number: int, line: str) -> str:
    if line.startswith("! "):
        return f"{_RED}{line}{_PLAIN}"
    return f"{_BOLD}{line}{_PLAIN}" if number == 0 else line


def picture(seen: Overview, columns: int, rows: int | None) -> list[str]:
    """The lines that fit; lists that are cut say by how much."""
    clock = f"{datetime.fromtimestamp(seen.view.at, UTC):%H:%M:%S} UTC"
    title = f"crawl {seen.crawl}"
    top = [f"{title}{clock:>{max(1, columns - len(title))}}", *_folded(str(seen.condition), columns)]
    top += [line for each in seen.alarms for line in _folded(f"! {each}", columns)]
    top += ["", *(line for each in seen.head() for line in _folded(each, columns))]
    lists = [
        seen.gatherer_rows(columns),
        seen.helper_rows(),
        ["last plans", *seen.plan_rows()] if seen.plans else [],
        ["rulings", *ruled] if (ruled := ruling_lines(seen.view.rulings)) else [],
        seen.superpage_rows(),
    ]
    lists = [each for each in lists if each]
    if rows is not None:
        lists = _cut(lists, rows - len(top))
    lines = [*top, *(line for each in lists for line in ("", *each))]
    return [_clipped(line, columns) for line in (lines if rows is None else lines[:rows])]


def _cut(lists: Sequence[Sequence[str]], room: int) -> list[list[str]]:
    """What has room, with an empty line before each: all but the first are shortened, then left out."""
    lengths = [len(each) for each in lists]
    while sum(lengths) + len(lengths) > room and lengths:
        longest = max(lengths[1:], default=0)
        if longest > _LEAST:
            lengths[lengths.index(longest, 1)] -= 1
        elif len(lengths) > 1:
            lengths.pop()
        elif lengths[0] > _LEAST:
            lengths[0] -= 1
        else:
            break
    return [
        list(each) if length == len(each) else [*each[: length - 1], f"and {len(each) - length + 1} more"]
        for each, length in zip(lists, lengths, strict=False)
    ]


def _folded(text: str, columns: int) -> list[str]:
    return textwrap.wrap(text, max(20, columns), subsequent_indent="  ") or [""]


def _clipped(text: str, columns: int) -> str:
    return text if len(text) <= columns else f"{text[: columns - 1]}…"
