"""What happened in a run, for people and for comparing: what, who, which epoch."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import structlog
import trio

TRACED: Final = 400
BROKEN: Final = "A PROMISE IS BROKEN:"
"""What is noted when somebody sees that."""


class Trace:
    """The last things that happened, a sum of all, and errors."""

    def __init__(self, place: Path) -> None:
        """`place` is where the stores of the run are; it is another one every time, and left out."""
        self._place = f"{place}/"
        self.lines: deque[str] = deque(maxlen=TRACED)
        self.digest = 0
        """Equal for equal runs."""
        self.errors: list[str] = []
        self.listeners: dict[str, Callable[[Mapping[str, Any]], None]] = {}
        """By event: who wants to know at once that a daemon has logged it."""

    def note(self, what: str, **facts: object) -> None:
        """Something happened."""
        shown = " ".join(f"{name}={value}" for name, value in facts.items())
        line = f"{trio.current_time():8.3f} {what} {shown}".replace(self._place, "")
        self.digest = hash((self.digest, line))
        self.lines.append(line)

    def log(self, _: Any, method: str, said: MutableMapping[str, Any]) -> Mapping[str, Any]:
        """What a daemon writes to its log, as a processor of structlog."""
        event = str(said.pop("event"))
        problem = said.pop("exc_info", None)
        if problem or method in ("error", "exception", "critical"):
            self.errors.append(f"{event}: {said}")
        self.note(f"{method}: {event}", **said)
        if event in self.listeners:
            self.listeners[event](said)
        raise structlog.DropEvent

    @contextmanager
    def in_force(self) -> Iterator[None]:
        """Have everything that is logged come here."""
        before = structlog.get_config()
        structlog.configure(processors=[self.log], cache_logger_on_first_use=False)
        try:
            yield
        finally:
            structlog.configure(**before)
