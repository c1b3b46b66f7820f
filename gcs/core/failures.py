"""The failure policy, as a table: which failure waits how long, how often it is tried again, whom it counts
against, when a host is set aside and when it is given up.

`POLICIES` owns the decisions by cause: the reasons why there is no response (`gcs.fetch.outcome.Reason`, by
their values), and `status` those by HTTP status. What is in neither is no failure: a 404 is an answer. Every
cause also has the number under which Heritrix's crawl log knows it (Heritrix user manual, status codes), so
that tools made for its logs read ours.

Waiting doubles with every attempt. Failures *in a row* count against a host, and one success ends the row:
from the third on it is set aside for a while that doubles too, and after the twelfth it is given up, with
all that is queued for it; by then it was tried for about four hours. A host that says itself that it is asked
too much (429, 503) is set aside at once, and for as long as it asks for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Final

ASIDE_FROM: Final = 3
ASIDE_S: Final = 60.0
GIVEN_UP_FROM: Final = 12
PUSHED_BACK_S: Final = 30.0
MAX_RETRY_AFTER_S: Final = 86_400.0
MAX_WAIT_S: Final = 3600.0


class Cause(StrEnum):
    """Why a URL is not asked for, or not any more, apart from a failed fetch."""

    ROBOTS = "robots"
    ROBOTS_UNREACHABLE = "robots-unreachable"
    SCOPE = "scope"
    BLOCKED = "blocked"
    DEPTH = "depth"
    BUDGET = "budget"
    TRAP = "trap"
    ILLEGAL = "illegal"
    HOST = "host"
    DELETED = "deleted"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class Policy:
    """One row: how often to try again, after how long at first, whether it is the host's fault."""

    retries: int
    wait_s: float
    blames_host: bool
    code: int
    because: str
    pushes_back: bool = False


def _row(
    retries: int, wait_s: float, host: str, code: int, because: str, *, pushes_back: bool = False
) -> Policy:
    return Policy(retries, wait_s, host == "host", code, because, pushes_back)


POLICIES: Final[Mapping[str, Policy]] = MappingProxyType(
    {
        # cause                retries, wait_s, blames, Heritrix's code, in words
        "dns": _row(3, 60, "host", -1, "its name was not found"),
        "connect": _row(3, 30, "host", -2, "no connection could be made"),
        "tls": _row(1, 300, "host", -2, "no secure connection could be made"),
        "proxy": _row(5, 30, "page", -2, "the proxy failed"),
        "disconnected": _row(2, 30, "host", -3, "the connection was lost"),
        "protocol": _row(1, 60, "host", -3, "the answer is not HTTP"),
        "headers": _row(0, 0, "page", -3, "the answer's header is too large"),
        "coding": _row(1, 60, "page", -3, "the answer cannot be decoded"),
        "timeout": _row(2, 60, "host", -4, "the answer took too long"),
        "slow": _row(1, 300, "host", -4, "the answer came too slowly"),
        "request": _row(0, 0, "page", -7, "the URL cannot be sent"),
        "ratio": _row(0, 0, "page", -4000, "the answer is a decompression bomb"),
        "address": _row(0, 0, "host", -5001, "its address may not be asked"),
        "port": _row(0, 0, "page", -5001, "its port may not be asked"),
        Cause.ROBOTS_UNREACHABLE: _row(5, 300, "host", -61, "robots.txt could not be had"),
        Cause.ROBOTS: _row(0, 0, "page", -9998, "robots.txt forbids it"),
        Cause.SCOPE: _row(0, 0, "page", -5000, "it is out of scope"),
        Cause.BLOCKED: _row(0, 0, "page", -5001, "a rule excludes it"),
        Cause.DEPTH: _row(0, 0, "page", -4001, "it is too many links away from a seed"),
        Cause.BUDGET: _row(0, 0, "page", -5003, "its host's budget is used up"),
        Cause.TRAP: _row(0, 0, "page", -4000, "it looks like a trap"),
        Cause.ILLEGAL: _row(0, 0, "page", -7, "the URL is not valid"),
        Cause.HOST: _row(0, 0, "page", -8, "its host was given up"),
        Cause.DELETED: _row(0, 0, "page", -6000, "it was removed from the queue"),
        Cause.TIME: _row(0, 0, "page", -5004, "the crawl's time is over"),
    }
)
_TOO_MUCH = _row(8, 30, "host", 0, "the host asks for less", pushes_back=True)
_GATEWAY = _row(3, 60, "host", 0, "the host's gateway fails")
_STATUSES: Final[Mapping[int, Policy]] = MappingProxyType(
    {
        408: _row(2, 30, "host", 0, "the host waited too long for the request"),
        420: _TOO_MUCH,
        425: _row(2, 30, "page", 0, "the host wants it asked for later"),
        429: _TOO_MUCH,
        500: _row(2, 60, "page", 0, "the host fails at this page"),
        502: _GATEWAY,
        503: _TOO_MUCH,
        504: _GATEWAY,
        509: _TOO_MUCH,
        **dict.fromkeys((*range(520, 528), 530), _GATEWAY),
    }
)
_OTHER_SERVER_ERROR = _row(1, 300, "page", 0, "the host fails")
_FINAL_SERVER_ERRORS = frozenset({501, 505, 508, 510, 511})


@dataclass(frozen=True, slots=True)
class Verdict:
    """What to do after an attempt; the defaults are those after a success.

    A URL with neither `retry_after_s` nor `dropped` is done. With `host_given_up`, everything that is
    queued for the host is dropped too.
    """

    code: int
    retry_after_s: float | None = None
    dropped: str = ""
    host_failed: bool = False
    host_pause_s: float = 0.0
    host_given_up: bool = False


def status(code: int) -> Policy | None:
    """The row of an HTTP status; None for an answer that is no failure."""
    if code in _STATUSES:
        return _STATUSES[code]
    if 500 <= code <= 599 and code not in _FINAL_SERVER_ERRORS:
        return _OTHER_SERVER_ERROR
    return None


def code_of(cause: str | int) -> int:
    """The fetch status of the crawl log: an HTTP status is its own, other causes have Heritrix's number."""
    return cause if isinstance(cause, int) else POLICIES[cause].code


def because(cause: str | int) -> str:
    """A cause in words."""
    if isinstance(cause, str):
        return POLICIES[cause].because
    row = status(cause)
    return f"status {cause}" if row is None else f"{row.because} (status {cause})"


def decide(
    cause: str | int,
    attempts: int,
    host_failures: int,
    *,
    retry_after_s: float | None = None,
    max_wait_s: float = MAX_WAIT_S,
) -> Verdict:
    """What follows from an attempt with a failed fetch's reason, or a response's status.

    `attempts` counts this one, `host_failures` the failures of the host in a row before it, and
    `retry_after_s` is what the response asked for. Of ourselves we wait for at most `max_wait_s`.
    """
    row = status(cause) if isinstance(cause, int) else POLICIES[cause]
    code = code_of(cause)
    if row is None:
        return Verdict(code)
    failures = host_failures + row.blames_host
    given_up = row.blames_host and failures >= GIVEN_UP_FROM
    pause_s = _pause(row, failures, retry_after_s, max_wait_s) if row.blames_host else 0.0
    if given_up or attempts > row.retries:
        times = "" if attempts == 1 else f", {attempts} times"
        return Verdict(
            code,
            dropped=f"{because(cause)}{times}",
            host_failed=row.blames_host,
            host_pause_s=pause_s,
            host_given_up=given_up,
        )
    wait_s = min(row.wait_s * 2.0 ** min(attempts - 1, 20), max_wait_s)
    return Verdict(
        code,
        retry_after_s=max(wait_s, retry_after_s or 0.0),
        host_failed=row.blames_host,
        host_pause_s=pause_s,
    )


def _pause(row: Policy, failures: int, retry_after_s: float | None, max_wait_s: float) -> float:
    """For how long a host is set aside after so many failures in a row."""
    if row.pushes_back:
        own_s = min(PUSHED_BACK_S * 2.0 ** min(failures - 1, 20), max_wait_s)
        return max(own_s, min(retry_after_s or 0.0, MAX_RETRY_AFTER_S))
    if failures < ASIDE_FROM:
        return 0.0
    return min(ASIDE_S * 2.0 ** min(failures - ASIDE_FROM, 20), max_wait_s)


def retry_after(value: str, now: float) -> float | None:
    """The seconds that a Retry-After header asks for, at most a day; None when it says nothing readable."""
    value = value.strip()
    if value.isascii() and value.isdigit():
        return min(float(value), MAX_RETRY_AFTER_S)
    try:
        when = parsedate_to_datetime(value)
        if when.tzinfo is None:
            when = when.replace(tzinfo=UTC)
        return min(max(when.timestamp() - now, 0.0), MAX_RETRY_AFTER_S)
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
