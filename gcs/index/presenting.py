"""How results are told: the facts for programs, and lines for people."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap
from typing import Final

import click

from gcs.errors import UsageError
from gcs.index.results import MOST, Result, Results
from gcs.operate.asking import Answer, Answers
from gcs.operate.facts import SearchFacts

_WIDTH: Final = 100


def offset_of(page: int, limit: int) -> int:
    """How many results come before a page; raises UsageError for one too far down."""
    if page * limit > MOST:
        raise UsageError(f"Only the best {MOST:,} results can be seen; ask for something more special.")
    return (page - 1) * limit


def answer(query: str, results: Results, offset: int, limit: int, asked: Answers | None = None) -> Answer:
    """What somebody who searches is told; `asked` are the answers of gatherers, if there were any."""
    asked = asked or Answers({})
    facts: SearchFacts = {
        "query": query,
        "total": results.total,
        "pages": results.pages,
        "page": offset // limit + 1,
        "results": [each.facts() for each in results.found],
        **asked.facts,
    }
    shown = f"{offset + 1:,} to {offset + len(results.found):,} of " if results.found else ""
    lines = [f"{shown}{results.total:,} found among {results.pages:,} pages.", *asked.complaints]
    for number, each in enumerate(results.found, offset + 1):
        lines += ["", *_lines(number, each)]
    return Answer(facts, lines, asked.code)


def _lines(number: int, result: Result) -> list[str]:
    head = f"{number:>3}. {_marked(result.title, result.title_marks) or result.url}"
    about = "  ".join(each for each in (result.language, result.media_type, result.fetched_at) if each)
    text = _marked(result.text, result.text_marks)
    body = wrap(text, _WIDTH, break_long_words=False, break_on_hyphens=False) if text else []
    return [head, *(f"     {line}" for line in [result.url, *body, about])]


def _marked(text: str, marks: Sequence[Sequence[int]]) -> str:
    """A text with what was looked for in bold; click leaves that out where nobody could see it."""
    pieces, at = [], 0
    for start, end in marks:
        pieces += [_plain(text[at:start]), click.style(_plain(text[start:end]), bold=True)]
        at = end
    return "".join([*pieces, _plain(text[at:])])


def _plain(text: str) -> str:
    """A text of the web without what a terminal would obey."""
    return "".join(each if each.isprintable() else " " for each in text)
