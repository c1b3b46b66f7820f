"""What has happened, in sentences: read off what two looks at the crawl differ in.

joined left silent back restarted      gatherers
plan ruling finished going-on          the crawl
alarm cleared redis helper operator    what somebody should know, or did
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from gcs.core.holdings import Made
from gcs.core.reasons import FIRST, in_words
from gcs.operate.asking import counted
from gcs.operate.condition import State
from gcs.operate.overview import Overview, ruling_lines

MOST: Final = 1_000
_VARIES: Final = re.compile(r"([0-9][0-9.,]*(ms|s|m|h|d)?)+")
"""What alarms say of time, and of numbers, is another one with every look."""
_INFO, _WARNING, _ERROR = "info", "warning", "error"


class Event(NamedTuple):
    """Something that has happened."""

    id: int
    at: float
    kind: str
    level: str
    who: str
    sentence: str


_Told = tuple[str, str, str, str]
"""Kind, level, who, sentence."""


class Chronicle:
    """The last events, the newest at the end."""

    def __init__(self, events: Iterable[Sequence[Any]] = ()) -> None:
        self.events: deque[Event] = deque((Event(*each) for each in events), MOST)

    @property
    def last(self) -> int:
        """The number of the newest; 0 if there is none."""
        return self.events[-1].id if self.events else 0

    def note(self, at: float, kind: str, level: str, who: str, sentence: str) -> Event:
        """Something has happened."""
        event = Event(self.last + 1, round(at, 3), kind, level, who, sentence)
        self.events.append(event)
        return event

    def compare(self, before: Overview, now: Overview) -> list[Event]:
        """Note what has happened between two looks."""
        found = [*_members(before, now), *_course(before, now), *_alarms(before, now), *_helpers(before, now)]
        return [self.note(now.view.at, *each) for each in found]

    def since(self, number: int, most: int) -> list[dict[str, Any]]:
        """The newest first, those up to a number left out."""
        newer = [event._asdict() for event in reversed(self.events) if event.id > number]
        return newer[:most]


def _members(before: Overview, now: Overview) -> Iterator[_Told]:
    old, new = before.view, now.view
    for each, member in new.members.items():
        name, was = member.pulse.name, old.members.get(each)
        if was is None:
            yield "joined", _INFO, name, f"{name} joined the crawl."
            continue
        if member.pulse.standing == "left" != was.pulse.standing:
            yield "left", _INFO, name, f"{name} has given all it had to others, and left."
        elif each in old.living and each not in new.living and member.pulse.standing != "left":
            yield "silent", _WARNING, name, f"{name} is silent."
        elif each in new.living and old.is_overdue(was) and member.pulse.standing != "left":
            yield "back", _INFO, name, f"{name} is heard of again."
        if member.pulse.incarnation != was.pulse.incarnation:
            yield "restarted", _WARNING, name, f"{name} was started again."
        if member.pulse.standing == "draining" != was.pulse.standing:
            yield "left", _INFO, name, f"{name} gives what it has to others, and leaves."


def _course(before: Overview, now: Overview) -> Iterator[_Told]:
    old, new = before.view, now.view
    epoch = old.charter.epoch if old.charter else 0
    for made in new.charter.history if new.charter else ():
        if made.epoch > epoch:
            yield "plan", _INFO, "", _planned(made)
    if new.rulings != old.rulings:
        was, rules = ruling_lines(old.rulings), ruling_lines(new.rulings)
        for line in rules:
            if line not in was:
                yield "ruling", _INFO, "", f"Ruled: {line}."
        for line in was:
            if line not in rules:
                yield "ruling", _INFO, "", f"No longer: {line}."
    is_over, was_over = (each.condition.state is State.FINISHED for each in (now, before))
    if is_over and not was_over:
        yield "finished", _INFO, "", f"Finished, with {counted(now.totals['pages'], 'page')}."
    if was_over and not is_over:
        yield "going-on", _INFO, "", "There is more to do."


def _planned(made: Made) -> str:
    if made.reason == FIRST:
        return f"The first plan was made, for {counted(made.gatherers, 'gatherer')}."
    moved = "nothing changed hands"
    if made.ranges:
        moved = f"{counted(made.ranges, 'range')} with about {counted(made.urls, 'URL')} changed hands"
    return f"A new plan was made, since {in_words(made.reason)}: {moved}."


def _alarms(before: Overview, now: Overview) -> Iterator[_Told]:
    old, new = _kinds(before.alarms), _kinds(now.alarms)
    for kind, sentence in new.items():
        if kind not in old:
            yield "alarm", _ERROR, "", sentence
    for kind, sentence in old.items():
        if kind not in new:
            yield "cleared", _INFO, "", f"Over: {sentence}"


def _kinds(alarms: Iterable[str]) -> dict[str, str]:
    return {_VARIES.sub("#", each): each for each in alarms}


def _helpers(before: Overview, now: Overview) -> Iterator[_Told]:
    was: Mapping[str, bool] = {each["helper"]: each["present"] for each in before.helpers}
    for each in now.helpers:
        name = each["helper"]
        if name not in was:
            yield "helper", _INFO, name, f"Helper {name} was invited."
        elif each["present"] != was[name]:
            yield "helper", _INFO, name, f"Helper {name} {'is there' if each['present'] else 'went away'}."
