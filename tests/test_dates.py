"""Dates as servers, sitemaps and feeds write them."""

from __future__ import annotations

import pytest

from gcs.core.dates import moment

AT = 1_706_702_400.0


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("Wed, 31 Jan 2024 12:00:00 GMT", AT),
        ("2024-01-31T12:00:00Z", AT),
        ("2024-01-31T13:00:00+01:00", AT),
        ("2024-01-31T12:00:00", AT),
        ("2024-01-31", AT + 12 * 3600 - 1),
        ("", None),
        ("yesterday", None),
        ("2024-13-31", None),
        ("9" * 100, None),
    ],
)
def test_moments(text: str, at: float | None) -> None:
    """HTTP's, RSS's and ISO's dates are understood, a day lasts to its end, and others mean nothing."""
    assert moment(text) == at
