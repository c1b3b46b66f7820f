"""Dates as servers, sitemaps and feeds write them, and as operators are told them."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

_LONGEST = 64


def moment(text: str) -> float | None:
    """The Unix time of a date of HTTP, of RSS (RFC 5322) or of ISO 8601; None for what is none, or too vague.

    A day without an hour is its end: what changed on it may have changed at any time until then.
    """
    text = text.strip()
    if not text or len(text) > _LONGEST:
        return None
    try:
        if text[0].isdigit():
            when = datetime.fromisoformat(text)
            if len(text) == len("2024-01-31"):
                when = when.replace(hour=23, minute=59, second=59)
        else:
            when = parsedate_to_datetime(text)
        if when.tzinfo is None:
            when = when.replace(tzinfo=UTC)
        return when.timestamp()
    except (ValueError, TypeError, OverflowError, IndexError):
        return None


def for_people(at: float) -> str:
    """A Unix time as operators are told it."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"
