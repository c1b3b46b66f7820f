"""Why there can be a new plan: the words that gatherers agree on, and what people are told.

Several may come together: a charter has them in one line, such as `join, operator: even out`. What an
operator says is free text, and an event is one that the configuration names, such as `queued>1000`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

OPERATOR: Final = "operator"
FIRST: Final = "first"
EVENT: Final = "event"
REASONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        OPERATOR: "an operator asked for it",
        "lost": "a gatherer was lost",
        "drain": "a gatherer leaves",
        "join": "a gatherer joined",
        FIRST: "there was no plan yet",
        "idle": "a gatherer had nothing to do",
        "imbalance": "some gatherers had much more to do than others",
        "locality": "another gatherer is much faster for some sites",
        "proximity": "another gatherer is nearer to some sites",
        EVENT: "came true",
    }
)
"""What counts most first, with what people are told."""
_PLAIN: Final = REASONS.keys() - {OPERATOR, EVENT}
_EVENT: Final = re.compile(r"[a-z_]+[<>].*")


def main_reason(line: str) -> str:
    """The one that counts most."""
    names = {name for name, _ in _parts(line)}
    return next((each for each in REASONS if each in names), EVENT)


def in_words(line: str) -> str:
    """All of them, as what comes after "since"."""
    return " and ".join(_words(name, said) for name, said in _parts(line)) or "somebody wanted one"


def _words(name: str, said: str) -> str:
    if name == EVENT:
        return f"{said} {REASONS[EVENT]}"
    return f"{REASONS[name]} ({said})" if said else REASONS[name]


def _parts(line: str) -> list[tuple[str, str]]:
    """The reasons in a line, each with what was said with it; there may be commas in that."""
    parts: list[tuple[str, str]] = []
    for each in filter(None, line.split(", ")):
        name, _, said = each.partition(": ")
        if name == OPERATOR or each in _PLAIN:
            parts.append((name, said))
        elif parts and parts[-1][0] == OPERATOR and not _EVENT.fullmatch(each):
            parts[-1] = (OPERATOR, ", ".join(filter(None, (parts[-1][1], each))))
        else:
            parts.append((EVENT, each))
    return parts
