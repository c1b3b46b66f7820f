"""Why there is a new plan: what counts most, and what people are told."""

from __future__ import annotations

import pytest

from gcs.core.reasons import REASONS, in_words, main_reason


@pytest.mark.parametrize(
    ("line", "main", "words"),
    [
        ("join", "join", "a gatherer joined"),
        ("drain, lost", "lost", "a gatherer leaves and a gatherer was lost"),
        ("operator", "operator", "an operator asked for it"),
        (
            "idle, operator: even out",
            "operator",
            "a gatherer had nothing to do and an operator asked for it (even out)",
        ),
        ("operator: lost: no, join it", "operator", "an operator asked for it (lost: no, join it)"),
        (
            "operator: now, queued>1000",
            "operator",
            "an operator asked for it (now) and queued>1000 came true",
        ),
        ("queued>1000", "event", "queued>1000 came true"),
        ("", "event", "somebody wanted one"),
    ],
)
def test_lines(line: str, main: str, words: str) -> None:
    """A line of reasons has one that counts most, and reads as what comes after "since"."""
    assert (main_reason(line), in_words(line)) == (main, words)


def test_every_reason_has_words() -> None:
    """No reason that gatherers agree on is told as it is."""
    for each in REASONS:
        assert each in ("event", main_reason(each))
        assert in_words(each) != each
