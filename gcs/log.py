"""Logging: structlog, configured once by the command line, written to standard error.

Lines are pretty on a terminal, JSON everywhere else, and under systemd carry the priority that journald
reads from the start of a line. Whoever logs is given a logger; nothing in GCS reads the environment for it
but `chosen`, here.
"""

import logging
import os
import sys
from collections.abc import Mapping
from typing import Any, TextIO

import structlog
from structlog.typing import Processor, WrappedLogger

# See sd-daemon(3).
_PRIORITIES = {"critical": 2, "error": 3, "warning": 4, "info": 6, "debug": 7}
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def configure(format: str, level: str, stream: TextIO | None = None) -> None:  # noqa: A002 - the setting's name
    """Make structlog write lines of at least this level to the stream (standard error) in this format."""
    stream = stream or sys.stderr
    structlog.configure(
        processors=_PROCESSORS[chosen(format, stream)](),
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=structlog.WriteLoggerFactory(file=stream),
        cache_logger_on_first_use=True,
    )


def chosen(format: str, stream: TextIO, environ: Mapping[str, str] = os.environ) -> str:  # noqa: A002 - the setting's name
    """The format that `auto` stands for on this stream; any other is itself."""
    if format != "auto":
        return format
    if _is_journal(stream, environ):
        return "journald"
    return "pretty" if stream.isatty() else "json"


def _is_journal(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Whether systemd connected the stream to the journal: the variable alone is inherited by children."""
    try:
        status = os.fstat(stream.fileno())
    except OSError:
        return False
    return environ.get("JOURNAL_STREAM") == f"{status.st_dev}:{status.st_ino}"


def _pretty() -> list[Processor]:
    return [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="%H:%M:%S", utc=False),
        structlog.dev.ConsoleRenderer(colors="NO_COLOR" not in os.environ),
    ]


def _json() -> list[Processor]:
    return [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        structlog.processors.JSONRenderer(default=str),
    ]


def _journald() -> list[Processor]:
    return [
        structlog.processors.format_exc_info,
        structlog.processors.LogfmtRenderer(key_order=["event"], bool_as_flag=False),
        _with_priority,
    ]


def _with_priority(_logger: WrappedLogger, method: str, line: Any) -> str:
    """Journald keeps time and level itself, so a rendered line has only its priority and its fields."""
    return f"<{_PRIORITIES[method]}>{line}"


_PROCESSORS = {"pretty": _pretty, "json": _json, "journald": _journald}
