"""What can go wrong in GCS, and the exit code that says so.

    GcsError
    ├── ConfigError     a setting is unknown, of the wrong type or out of range
    ├── UsageError      a command was called with something it cannot work with
    ├── MonitorError    a monitor that was asked over HTTP does not answer, or refuses
    └── DemoFailed      the demonstration's account does not balance (in gcs.demo)

Expected outcomes (a limit that was reached, no seed that could be fetched) are values, which a command
turns into an `ExitCode`; an exception here means that the command could not do what it was asked.
The message of each is one sentence for the user: what is wrong, and what to do.
"""

from enum import IntEnum
from typing import ClassVar


class ExitCode(IntEnum):
    """How a `gcs` command can end; scripts rely on these numbers."""

    meaning: str

    def __new__(cls, code: int, meaning: str) -> "ExitCode":
        """Keep the meaning beside the number, so that help and documents cannot drift from it."""
        member = int.__new__(cls, code)
        member._value_ = code
        member.meaning = meaning
        return member

    OK = 0, "ended as asked"
    USAGE = 2, "wrong usage of the command line"
    CONFIG = 3, "wrong configuration"
    REDIS = 4, "Redis or the monitor cannot be reached or used, or a gatherer has not answered"
    LIMIT = 5, "a limit was reached"
    NO_SEED = 6, "no seed could be fetched"
    STORE = 7, "the store is locked, or of a newer version"
    UNBALANCED = 8, "the ledger of the crawl does not balance"
    VIOLATED = 9, "a simulated cluster has broken a promise"
    INTERRUPTED = 130, "interrupted, and can be resumed"


class GcsError(Exception):
    """The root of all errors of GCS."""

    exit_code: ClassVar[ExitCode]


class ConfigError(GcsError):
    """A setting is unknown, of the wrong type or out of range; names its source and what is allowed."""

    exit_code = ExitCode.CONFIG


class UsageError(GcsError):
    """A command was called with something it cannot work with."""

    exit_code = ExitCode.USAGE


class MonitorError(GcsError):
    """A monitor that was asked over HTTP does not answer, or refuses."""

    exit_code = ExitCode.REDIS
